// Package settings owns the environment: one table of every variable that
// worker, starter and the compose file share, how it is read, and its
// reference in docs/settings.md. Files of secrets and certificates that a
// variable names are read with it, once. It refuses flags and the crawl spec.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Settings is the environment as the programs use it.
type Settings struct {
	KafkaBrokers []string // host:port
	TopicPrefix  string   // of every topic and group
	Replication  int      // of new topics
	ElasticURL   Secret   // may hold a user and password; empty: no elastic sink
	DataDir      string   // absolute
	HTTPAddr     string   // of the worker's health and metrics
	// HTTPAddrGiven: the address was stated, so a taken port is an error
	// instead of a reason to take the next one.
	HTTPAddrGiven bool
	LogLevel      slog.Level

	KafkaTLS      TLS
	KafkaSASL     string // SASLNone, SASLPlain, SASLScram256 or SASLScram512
	KafkaUsername string
	KafkaPassword Secret

	ElasticTLS      TLS    // off: the system's authorities
	ElasticUsername string // and no API key, or the other way round
	ElasticPassword Secret
	ElasticAPIKey   Secret

	kafkaTLS tlsFiles // while loading
}

// Variable is one row of the table.
type Variable struct {
	Name     string
	Default  string // as a value, or in words if it is computed
	Doc      string // one sentence
	Secret   bool   // never printed
	Temporal bool   // read by the Temporal SDK, not by Load

	read func(*Settings, string) error
	def  func(getenv func(string) string) string
}

// Names of our variables.
const (
	KafkaBrokers = "TRAWL_KAFKA_BROKERS"
	TopicPrefix  = "TRAWL_TOPIC_PREFIX"
	Replication  = "TRAWL_REPLICATION"
	ElasticURL   = "TRAWL_ELASTIC_URL"
	DataDir      = "TRAWL_DATA_DIR"
	HTTPAddr     = "TRAWL_HTTP_ADDR"
	Log          = "TRAWL_LOG"
)

// Table is every variable, in the order of the reference.
func Table() []Variable { return slices.Clone(table) }

var table = slices.Concat(base, security)

var base = []Variable{
	{Name: "TEMPORAL_ADDRESS", Default: DefaultTemporal, Temporal: true, Doc: "Temporal server, host:port."},
	{Name: "TEMPORAL_NAMESPACE", Default: "default", Temporal: true, Doc: "Temporal namespace."},
	{Name: "TEMPORAL_API_KEY", Temporal: true, Secret: true, Doc: "API key of Temporal; turns TLS on."},
	{Name: "TEMPORAL_TLS", Temporal: true, Doc: "`true` for TLS to Temporal; implied by the other TLS variables."},
	{Name: "TEMPORAL_TLS_CLIENT_CERT_PATH", Temporal: true, Doc: "File of the client certificate, PEM."},
	{Name: "TEMPORAL_TLS_CLIENT_CERT_DATA", Temporal: true, Secret: true, Doc: "The client certificate itself, PEM."},
	{Name: "TEMPORAL_TLS_CLIENT_KEY_PATH", Temporal: true, Doc: "File of the client key, PEM."},
	{Name: "TEMPORAL_TLS_CLIENT_KEY_DATA", Temporal: true, Secret: true, Doc: "The client key itself, PEM."},
	{Name: "TEMPORAL_TLS_SERVER_CA_CERT_PATH", Temporal: true, Doc: "File of the authority that signed the server's certificate, PEM."},
	{Name: "TEMPORAL_TLS_SERVER_CA_CERT_DATA", Temporal: true, Doc: "That authority's certificate itself, PEM."},
	{Name: "TEMPORAL_TLS_SERVER_NAME", Temporal: true, Doc: "Name that the server's certificate must bear, if it is not that of the address."},
	{Name: "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION", Temporal: true, Doc: "`true` accepts any name in the server's certificate."},
	{Name: "TEMPORAL_CLIENT_AUTHORITY", Temporal: true, Doc: "Value of the :authority header, behind a proxy."},
	{Name: "TEMPORAL_CONFIG_FILE", Default: "the SDK's, in the user's configuration directory", Temporal: true, Doc: "TOML file with connection profiles."},
	{Name: "TEMPORAL_PROFILE", Default: "default", Temporal: true, Doc: "Profile of that file."},
	{
		Name: KafkaBrokers, Default: "127.0.0.1:9092", Doc: "Kafka brokers to begin with, host:port, separated by commas.",
		read: readBrokers,
	},
	{
		Name: TopicPrefix, Default: "trawl", Doc: "First part of the name of every topic and consumer group.",
		read: readPrefix,
	},
	{
		Name: Replication, Default: "1", Doc: "Replicas of new topics. 3 in production; the brokers' min.insync.replicas must then be 2.",
		read: readReplication,
	},
	{
		Name: ElasticURL, Secret: true, Doc: "Elasticsearch or OpenSearch, for the sink `elastic`: http(s)://[user:password@]host:port, several separated by commas.",
		read: readElastic,
	},
	{
		Name: DataDir, Default: "$XDG_DATA_HOME/trawl, else ~/.local/share/trawl", Doc: "Directory of the SQLite indexes and of the JSONL files. Worker and starter must share it for `search`, `verify` and `delete`.",
		read: readDataDir, def: defaultDataDir,
	},
	{
		Name: HTTPAddr, Default: "127.0.0.1:9321", Doc: "Address of the worker's /healthz, /readyz and /metrics. Unless it is stated, a taken port makes the worker try the next ones.",
		read: readHTTPAddr,
	},
	{
		Name: Log, Default: "info", Doc: "Least level that is logged: debug, info, warn or error.",
		read: readLog,
	},
}

// Load reads every variable of ours; unset and empty ones have their default.
// The error lists all that is wrong, each with variable, value and remedy.
func Load(getenv func(string) string) (Settings, error) {
	var s Settings
	var errs []error
	for _, v := range table {
		if v.read == nil {
			continue
		}
		value := getenv(v.Name)
		if v.Name == HTTPAddr {
			s.HTTPAddrGiven = value != ""
		}
		if value == "" {
			value = v.fallback(getenv)
		}
		if err := v.read(&s, value); err != nil {
			errs = append(errs, v.problem(value, err))
		}
	}
	if err := s.secure(); err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

func (v Variable) fallback(getenv func(string) string) string {
	if v.def != nil {
		return v.def(getenv)
	}
	return v.Default
}

func (v Variable) problem(value string, err error) error {
	if v.Secret {
		value = Secret(value).String()
	}
	return fmt.Errorf("%s=%q: %w", v.Name, value, err)
}

// Unknown names the TRAWL_ variables of an environment that are not in the
// table: misspelt ones would otherwise be ignored without a word.
func Unknown(environ []string) []string {
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		known := slices.ContainsFunc(table, func(v Variable) bool { return v.Name == name })
		if strings.HasPrefix(name, "TRAWL_") && !known {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func readBrokers(s *Settings, v string) error {
	for _, b := range strings.Split(v, ",") {
		b = strings.TrimSpace(b)
		if err := hostPort(b, 1); err != nil {
			return err
		}
		s.KafkaBrokers = append(s.KafkaBrokers, b)
	}
	return nil
}

func hostPort(v string, least int) error {
	_, port, err := net.SplitHostPort(v)
	n, perr := strconv.Atoi(port)
	if err != nil || perr != nil || n < least || n > 65535 {
		return fmt.Errorf("%q is no address; write host:port, for example 127.0.0.1:9092", v)
	}
	return nil
}

// prefixForm keeps topic names within Kafka's alphabet and 249 characters,
// next to a crawl's name of 63.
var prefixForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}$`)

func readPrefix(s *Settings, v string) error {
	if !prefixForm.MatchString(v) {
		return errors.New("is no topic prefix; use letters, digits, dashes and underscores, at most 100, no dots")
	}
	s.TopicPrefix = v
	return nil
}

func readReplication(s *Settings, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 9 {
		return errors.New("is no number of replicas; write 1 for a single broker, 3 in production")
	}
	s.Replication = n
	return nil
}

func readElastic(s *Settings, v string) error {
	if v == "" {
		return nil
	}
	for _, one := range strings.Split(v, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("is no address; write http://host:9200 or https://user:password@host:9200, several with commas")
		}
	}
	s.ElasticURL = Secret(strings.TrimRight(v, "/"))
	return nil
}

func defaultDataDir(getenv func(string) string) string {
	if d := getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "trawl")
	}
	if h := getenv("HOME"); h != "" {
		return filepath.Join(h, ".local", "share", "trawl")
	}
	return ".trawl"
}

func readDataDir(s *Settings, v string) error {
	dir, err := filepath.Abs(v)
	if err != nil {
		return fmt.Errorf("cannot be made absolute; write the whole path: %w", err)
	}
	s.DataDir = dir
	return nil
}

func readHTTPAddr(s *Settings, v string) error {
	if err := hostPort(v, 0); err != nil {
		return errors.New("is no address; write host:port, for example 127.0.0.1:9321, port 0 for any")
	}
	s.HTTPAddr = v
	return nil
}

func readLog(s *Settings, v string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, v) {
		return errors.New("is no level; choose debug, info, warn or error")
	}
	return s.LogLevel.UnmarshalText([]byte(v))
}
