package settings

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Names of the variables of encryption and credentials.
const (
	KafkaTLS          = "TRAWL_KAFKA_TLS"
	KafkaTLSCA        = "TRAWL_KAFKA_TLS_CA_FILE"
	KafkaTLSCert      = "TRAWL_KAFKA_TLS_CERT_FILE"
	KafkaTLSKey       = "TRAWL_KAFKA_TLS_KEY_FILE"
	KafkaSASL         = "TRAWL_KAFKA_SASL"
	KafkaUsername     = "TRAWL_KAFKA_USERNAME"
	KafkaPassword     = "TRAWL_KAFKA_PASSWORD"
	KafkaPasswordFile = "TRAWL_KAFKA_PASSWORD_FILE"

	ElasticTLSCA        = "TRAWL_ELASTIC_TLS_CA_FILE"
	ElasticUsername     = "TRAWL_ELASTIC_USERNAME"
	ElasticPassword     = "TRAWL_ELASTIC_PASSWORD"
	ElasticPasswordFile = "TRAWL_ELASTIC_PASSWORD_FILE"
	ElasticAPIKey       = "TRAWL_ELASTIC_API_KEY"
	ElasticAPIKeyFile   = "TRAWL_ELASTIC_API_KEY_FILE"
)

// Values of KafkaSASL.
const (
	SASLNone     = "none"
	SASLPlain    = "plain"
	SASLScram256 = "scram-sha-256"
	SASLScram512 = "scram-sha-512"
)

// security are the rows of the table. Secrets come as they are, or better in a
// file that a variable names: a file shows up in no list of processes.
var security = []Variable{
	{
		Name: KafkaTLS, Default: "false", Doc: "`true` for TLS to Kafka; implied by the other TLS variables of Kafka.",
		read: func(s *Settings, v string) (err error) {
			if s.kafkaTLS.on, err = strconv.ParseBool(v); err != nil {
				return errors.New("is neither true nor false")
			}
			return nil
		},
	},
	{
		Name: KafkaTLSCA, Doc: "File of the authority that signed the brokers' certificates, PEM; without one the system's authorities.",
		read: func(s *Settings, v string) (err error) { s.kafkaTLS.ca, err = authorities(v); return err },
	},
	{
		Name: KafkaTLSCert, Doc: "File of our certificate, PEM, for brokers that ask for one.",
		read: func(s *Settings, v string) error { s.kafkaTLS.certFile = v; return nil },
	},
	{
		Name: KafkaTLSKey, Doc: "File of the key of that certificate, PEM.",
		read: func(s *Settings, v string) error { s.kafkaTLS.keyFile = v; return nil },
	},
	{
		Name: KafkaSASL, Default: SASLNone, Doc: "How to log in to Kafka: none, plain, scram-sha-256 or scram-sha-512. Plain shows the password to the network unless TLS is on.",
		read: readSASL,
	},
	{
		Name: KafkaUsername, Doc: "User for Kafka.",
		read: func(s *Settings, v string) error { s.KafkaUsername = v; return nil },
	},
	{
		Name: KafkaPassword, Secret: true, Doc: "Password for Kafka.",
		read: func(s *Settings, v string) error { return secret(&s.KafkaPassword, v) },
	},
	{
		Name: KafkaPasswordFile, Doc: "File that holds the password for Kafka, in place of the variable above.",
		read: func(s *Settings, v string) error { return secretFile(&s.KafkaPassword, v) },
	},
	{
		Name: ElasticTLSCA, Doc: "File of the authority that signed the search servers' certificates, PEM; without one the system's authorities.",
		read: func(s *Settings, v string) error {
			ca, err := authorities(v)
			if ca != nil {
				s.ElasticTLS = TLS{&tls.Config{RootCAs: ca, MinVersion: tls.VersionTLS12}}
			}
			return err
		},
	},
	{
		Name: ElasticUsername, Doc: "User for Elasticsearch or OpenSearch; wins over the one in the address.",
		read: func(s *Settings, v string) error { s.ElasticUsername = v; return nil },
	},
	{
		Name: ElasticPassword, Secret: true, Doc: "Password for Elasticsearch or OpenSearch.",
		read: func(s *Settings, v string) error { return secret(&s.ElasticPassword, v) },
	},
	{
		Name: ElasticPasswordFile, Doc: "File that holds that password, in place of the variable above.",
		read: func(s *Settings, v string) error { return secretFile(&s.ElasticPassword, v) },
	},
	{
		Name: ElasticAPIKey, Secret: true, Doc: "API key of Elasticsearch, base64 of id:key, in place of user and password.",
		read: func(s *Settings, v string) error { return secret(&s.ElasticAPIKey, v) },
	},
	{
		Name: ElasticAPIKeyFile, Doc: "File that holds the API key, in place of the variable above.",
		read: func(s *Settings, v string) error { return secretFile(&s.ElasticAPIKey, v) },
	},
}

// TLS is our side of TLS to a server. It does not print keys.
type TLS struct{ conf *tls.Config }

// Config is a copy for a client; nil: no TLS.
func (t TLS) Config() *tls.Config { return t.conf.Clone() }

// String says whether there is TLS.
func (t TLS) String() string {
	if t.conf == nil {
		return "off"
	}
	return "on"
}

// GoString is String, for %#v.
func (t TLS) GoString() string { return t.String() }

// MarshalText is String, for JSON, YAML and the like.
func (t TLS) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// tlsFiles is what the variables of one TLS say.
type tlsFiles struct {
	on                bool
	ca                *x509.CertPool
	certFile, keyFile string
}

// maxFile bounds a file that a variable names.
const maxFile = 1 << 20

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", errors.Unwrap(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", errors.Unwrap(err))
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("holds more than %d bytes; name another file", maxFile)
	}
	return b, nil
}

func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	b, err := readFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("holds no certificate; name a PEM file that begins with -----BEGIN CERTIFICATE-----")
	}
	return pool, nil
}

func readSASL(s *Settings, v string) error {
	switch v {
	case SASLNone, SASLPlain, SASLScram256, SASLScram512:
		s.KafkaSASL = v
		return nil
	}
	return errors.New("is no way to log in; choose none, plain, scram-sha-256 or scram-sha-512")
}

var errTwice = errors.New("the same secret is also in the variable without _FILE; unset one of the two")

func secret(into *Secret, v string) error {
	if v != "" {
		*into = Secret(v)
	}
	return nil
}

// secretFile reads a secret; the line break at its end is none of it.
func secretFile(into *Secret, file string) error {
	if file == "" {
		return nil
	}
	if *into != "" {
		return errTwice
	}
	b, err := readFile(file)
	if err != nil {
		return err
	}
	b = bytes.TrimRight(b, "\r\n")
	if len(b) == 0 || bytes.ContainsAny(b, "\r\n\x00") {
		return errors.New("holds no secret; it has to be one line")
	}
	*into = Secret(b)
	return nil
}

// secure puts the parts together and says which do not fit.
func (s *Settings) secure() error {
	return errors.Join(s.secureKafka(), s.loginKafka(), s.loginElastic())
}

func (s *Settings) secureKafka() error {
	f := s.kafkaTLS
	s.kafkaTLS = tlsFiles{}
	if !f.on && f.ca == nil && f.certFile == "" && f.keyFile == "" {
		return nil
	}
	conf := &tls.Config{RootCAs: f.ca, MinVersion: tls.VersionTLS12}
	s.KafkaTLS = TLS{conf}
	if (f.certFile == "") != (f.keyFile == "") {
		return fmt.Errorf("%s=%q and %s=%q: a certificate needs its key; set both or none", KafkaTLSCert, f.certFile, KafkaTLSKey, f.keyFile)
	}
	if f.certFile == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return fmt.Errorf("%s=%q and %s=%q: no certificate and key that fit, in PEM: %w", KafkaTLSCert, f.certFile, KafkaTLSKey, f.keyFile, err)
	}
	conf.Certificates = []tls.Certificate{pair}
	return nil
}

func (s *Settings) loginKafka() error {
	given := s.KafkaUsername != "" || s.KafkaPassword != ""
	switch {
	case s.KafkaSASL == SASLNone && given:
		return fmt.Errorf("%s=%q: a user or password is set that nobody would use; choose how to log in by %s", KafkaUsername, s.KafkaUsername, KafkaSASL)
	case s.KafkaSASL != SASLNone && s.KafkaSASL != "" && (s.KafkaUsername == "" || s.KafkaPassword == ""):
		return fmt.Errorf("%s=%q: it needs %s, and %s or %s", KafkaSASL, s.KafkaSASL, KafkaUsername, KafkaPassword, KafkaPasswordFile)
	}
	return nil
}

func (s *Settings) loginElastic() error {
	switch {
	case (s.ElasticUsername == "") != (s.ElasticPassword == ""):
		return fmt.Errorf("%s=%q: set both a user and %s or %s", ElasticUsername, s.ElasticUsername, ElasticPassword, ElasticPasswordFile)
	case s.ElasticAPIKey != "" && s.ElasticUsername != "":
		return fmt.Errorf("%s=%q: an API key is set as well; unset one of the two", ElasticUsername, s.ElasticUsername)
	case strings.Contains(s.ElasticURL.Reveal(), "http://") && s.ElasticTLS.conf != nil:
		return fmt.Errorf("%s: it is set, but an address in %s begins with http://; write https://", ElasticTLSCA, ElasticURL)
	}
	return nil
}
