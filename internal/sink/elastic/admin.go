// Package elastic is the sink for Elasticsearch 7 and OpenSearch 2, over
// olivere/elastic as the transport. It refuses to retry: every failure goes to
// the caller as one of the errors of package sink, or as the network gave it.
//
// A write is one _bulk with external versions (external_gte), so that a replay
// is acknowledged and an older version is not: 409 means that something newer
// is there. Deletes are remembered for a day (index.gc_deletes). Acknowledged
// means in the translog of the primary, which these servers sync per request.
package elastic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/olivere/elastic/v7"

	"trawl/internal/sink"
)

// Config of an Admin.
type Config struct {
	// URL of the cluster, http or https; more after commas. User and password
	// may stand in it; they are never printed.
	URL string
	// Username and Password win over those in the URL; empty: none.
	Username, Password string
	// APIKey, base64 of id:key; empty: none.
	APIKey string
	// TLS of https; nil means the system's CAs.
	TLS *tls.Config
	// Shards and Replicas of a new index; 0 means 1 shard, no replicas.
	Shards, Replicas int
	// Refresh is the index's refresh_interval; "" means 5s.
	Refresh string
	// Timeout of one request, whole; 0 means 60 s. The server is asked to give
	// up on a bulk after half of it.
	Timeout time.Duration
	// MaxInFlight bounds the bulks that are on their way at a time, of all
	// writers of the Admin together; 0 means 16. Within it the number follows
	// what the cluster bears.
	MaxInFlight int
	// Dial makes connections; nil means the system's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	dialTimeout = 5 * time.Second
	maxAnswer   = 64 << 20 // bytes of an answer
	maxHits     = 1000
)

var indexName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

// Admin of the indexes of a cluster. It implements sink.Admin and is safe for
// concurrent use.
type Admin struct {
	cfg    Config
	client *elastic.Client
	http   *http.Client
	limit  *limiter
}

var _ sink.Admin = (*Admin)(nil)

// New makes an Admin without asking the cluster anything.
func New(cfg Config) (*Admin, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Shards <= 0 {
		cfg.Shards = 1
	}
	if cfg.Refresh == "" {
		cfg.Refresh = "5s"
	}
	if cfg.MaxInFlight <= 0 {
		cfg.MaxInFlight = 16
	}
	urls, user, password, err := parseURLs(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Username != "" {
		user, password = cfg.Username, cfg.Password
	}
	hc := httpClient(cfg)
	options := []elastic.ClientOptionFunc{
		elastic.SetURL(urls...), elastic.SetHttpClient(hc),
		elastic.SetSniff(false), elastic.SetHealthcheck(false), elastic.SetGzip(false),
	}
	if user != "" {
		options = append(options, elastic.SetBasicAuth(user, password))
	}
	if cfg.APIKey != "" {
		options = append(options, elastic.SetHeaders(http.Header{"Authorization": {"ApiKey " + cfg.APIKey}}))
	}
	client, err := elastic.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("elastic: %w", err)
	}
	return &Admin{cfg: cfg, client: client, http: hc, limit: newLimiter(cfg.MaxInFlight, time.Now)}, nil
}

// Close lets go of idle connections.
func (a *Admin) Close() error {
	a.http.CloseIdleConnections()
	return nil
}

// parseURLs takes the credentials out, so that no error can print them.
func parseURLs(list string) (urls []string, user, password string, err error) {
	for raw := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, "", "", errors.New("elastic: the URL has to be http://host:port or https://host:port")
		}
		if u.User != nil {
			user = u.User.Username()
			password, _ = u.User.Password()
			u.User = nil
		}
		urls = append(urls, strings.TrimSuffix(u.String(), "/"))
	}
	return urls, user, password, nil
}

func httpClient(cfg Config) *http.Client {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: bodies{&http.Transport{
			DialContext:            dial,
			TLSClientConfig:        cfg.TLS,
			TLSHandshakeTimeout:    dialTimeout,
			MaxIdleConnsPerHost:    cfg.MaxInFlight,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			WriteBufferSize:        64 << 10,
			ReadBufferSize:         16 << 10,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Prepare makes the template and the index, and points the alias if asked.
func (a *Admin) Prepare(ctx context.Context, alias, index string, point bool) error {
	if err := checkNames(alias, index); err != nil {
		return err
	}
	template, err := json.Marshal(a.template(index))
	if err != nil {
		return fmt.Errorf("prepare index %q: %w", index, err)
	}
	if _, err := a.do(ctx, "PUT", "/_index_template/"+templateName(index), string(template)); err != nil {
		return fmt.Errorf("prepare template of index %q: %w", index, err)
	}
	_, err = a.do(ctx, "PUT", "/"+index, "")
	if e, ok := errors.AsType[*sink.RequestError](err); ok && e.Type == "resource_already_exists_exception" {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("prepare index %q: %w", index, err)
	}
	if !point {
		return nil
	}
	return a.pointAlias(ctx, alias, index)
}

// template matches exactly one index: it holds even if a zombie's write makes
// the index again after it was dropped, and meets no other template.
func (a *Admin) template(index string) any {
	type m map[string]any
	keyword, text := m{"type": "keyword", "ignore_above": 8191}, m{"type": "text"}
	return m{
		"index_patterns": []string{index},
		"priority":       500,
		"template": m{
			"settings": m{"index": m{
				"number_of_shards": a.cfg.Shards, "number_of_replicas": a.cfg.Replicas,
				"refresh_interval": a.cfg.Refresh, "gc_deletes": "1d",
				"highlight": m{"max_analyzed_offset": 2 << 20},
			}},
			// Fields that we do not know are kept and not indexed: pages of the
			// whole web must not be able to add a field.
			"mappings": m{"dynamic": false, "properties": m{
				"url": keyword, "canonical": keyword, "language": keyword, "content_type": keyword,
				"title": text, "description": text, "headings": text, "text": text,
				"link_count": m{"type": "integer"}, "status": m{"type": "integer"}, "fetched_at": m{"type": "date"},
			}},
		},
	}
}

func templateName(index string) string { return "trawl-" + index }

// pointAlias moves the alias in one request, so that no search finds none.
func (a *Admin) pointAlias(ctx context.Context, alias, index string) error {
	holders, err := a.holders(ctx, alias)
	if err != nil {
		return fmt.Errorf("point alias %q: %w", alias, err)
	}
	type action map[string]map[string]string
	actions := []action{{"add": {"index": index, "alias": alias}}}
	for _, h := range holders {
		if h != index {
			actions = append(actions, action{"remove": {"index": h, "alias": alias}})
		}
	}
	body, err := json.Marshal(map[string]any{"actions": actions})
	if err != nil {
		return fmt.Errorf("point alias %q: %w", alias, err)
	}
	if _, err := a.do(ctx, "POST", "/_aliases", string(body)); err != nil {
		return fmt.Errorf("point alias %q at %q: %w", alias, index, err)
	}
	return nil
}

// holders are the indexes behind an alias.
func (a *Admin) holders(ctx context.Context, alias string) ([]string, error) {
	raw, err := a.do(ctx, "GET", "/_alias/"+alias, "")
	if status(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found map[string]json.RawMessage
	if err := decode(raw, &found); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	return names, nil
}

// Open gives a writer; ErrNoIndex if the index is not there.
func (a *Admin) Open(ctx context.Context, index string) (sink.Sink, error) {
	if err := checkNames(index); err != nil {
		return nil, err
	}
	if _, err := a.do(ctx, "GET", "/"+index+"/_settings", ""); err != nil {
		return nil, fmt.Errorf("open index %q: %w", index, noIndex(err))
	}
	return a.writer(sink.Target{Name: index}), nil
}

// Count counts the documents that the last refresh has seen.
func (a *Admin) Count(ctx context.Context, index string) (int64, error) {
	if err := checkNames(index); err != nil {
		return 0, err
	}
	raw, err := a.do(ctx, "GET", "/"+index+"/_count", "")
	if err != nil {
		return 0, fmt.Errorf("count index %q: %w", index, noIndex(err))
	}
	var answer struct{ Count *int64 }
	if err := decode(raw, &answer); err != nil || answer.Count == nil {
		return 0, fmt.Errorf("count index %q: %w", index, &sink.AnswerError{Reason: "no count in it"})
	}
	return *answer.Count, nil
}

// Drop removes the index, with its alias and its template.
func (a *Admin) Drop(ctx context.Context, alias, index string) error {
	if err := checkNames(alias, index); err != nil {
		return err
	}
	for _, path := range []string{"/" + index, "/_index_template/" + templateName(index)} {
		if _, err := a.do(ctx, "DELETE", path, ""); err != nil && status(err) != http.StatusNotFound {
			return fmt.Errorf("drop index %q: %w", index, err)
		}
	}
	return nil
}

func checkNames(names ...string) error {
	for _, n := range names {
		if !indexName.MatchString(n) {
			return fmt.Errorf("index name %q: use 1 to 128 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit", n)
		}
	}
	return nil
}
