package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind of a key's value.
type Kind string

// The kinds, by the word that the reference uses.
const (
	KindString   Kind = "text"
	KindList     Kind = "list of text"
	KindInt      Kind = "number"
	KindBool     Kind = "true or false"
	KindDuration Kind = "duration"
	KindSize     Kind = "size"
)

// Key is one key of the spec.
type Key struct {
	Path    string // "limits.pages"
	Kind    Kind
	Flag    string // of starter crawl, without dashes; empty: none
	Default string // for people
	Doc     string // one sentence
	Example string // YAML
	// Mutable keys may differ when a crawl of the same name goes on.
	Mutable bool

	at func(*Spec) any // *string, *[]string, *int, *int64, *bool or *Duration
}

// Keys is the table of all keys, in the order of the reference.
func Keys() []Key { return slices.Clone(keys) }

var keys = []Key{
	{
		Path: "name", Kind: KindString, Flag: "name", Default: "the first seed's host, dots as dashes",
		Doc:     "Name of the crawl: a-z, 0-9 and dashes, at most 63 characters. Its workflow is `crawl/<name>`.",
		Example: "docs-example-org", at: func(s *Spec) any { return &s.Name },
	},
	{
		Path: "seeds.urls", Kind: KindList, Flag: "seed", Default: "none",
		Doc:     "URLs that start the crawl, at depth 0. At most 20,000, with those of the files.",
		Example: "[https://docs.example.org/]", at: func(s *Spec) any { return &s.Seeds.URLs },
	},
	{
		Path: "seeds.files", Kind: KindList, Flag: "seed-file", Default: "none",
		Doc:     "Files with one URL per line; empty lines and lines that begin with # are skipped. Relative to the spec's directory; at most 1 MB together.",
		Example: "[seeds.txt]", at: func(s *Spec) any { return &s.Seeds.Files },
	},
	{
		Path: "seeds.sitemaps", Kind: KindList, Flag: "sitemap", Default: "none",
		Doc:     "Sitemaps or sitemap indexes. Their entries are taken as if linked from a seed.",
		Example: "[https://docs.example.org/sitemap.xml]", at: func(s *Spec) any { return &s.Seeds.Sitemaps },
	},
	{
		Path: "scope.hosts", Kind: KindList, Flag: "host", Default: "the hosts of the seeds",
		Doc:     "Hosts that belong to the crawl, as host or host:port.",
		Example: "[docs.example.org]", at: func(s *Spec) any { return &s.Scope.Hosts },
	},
	{
		Path: "scope.subdomains", Kind: KindBool, Flag: "subdomains", Default: "false",
		Doc:     "Subdomains of the hosts belong to the crawl, too.",
		Example: "true", at: func(s *Spec) any { return &s.Scope.Subdomains },
	},
	{
		Path: "scope.path_prefixes", Kind: KindList, Flag: "path-prefix", Default: "none: every path",
		Doc:     "If any, a URL's path must begin with one of them.",
		Example: "[/manual/]", at: func(s *Spec) any { return &s.Scope.PathPrefixes },
	},
	{
		Path: "scope.include", Kind: KindList, Flag: "include", Default: "none: every URL",
		Doc:     "Regular expressions (RE2). If any, one must match somewhere in the URL.",
		Example: `['\.html$', '/$']`, at: func(s *Spec) any { return &s.Scope.Include },
	},
	{
		Path: "scope.exclude", Kind: KindList, Flag: "exclude", Default: "none",
		Doc:     "Regular expressions (RE2). None may match anywhere in the URL.",
		Example: `['[?&]print=']`, at: func(s *Spec) any { return &s.Scope.Exclude },
	},
	{
		Path: "scope.depth", Kind: KindInt, Flag: "depth", Default: "-1: no limit", Mutable: true,
		Doc:     "How many links away from a seed a page may be; 0 fetches the seeds alone.",
		Example: "5", at: func(s *Spec) any { return &s.Scope.Depth },
	},
	{
		Path: "scope.embedded", Kind: KindBool, Flag: "embedded", Default: "false",
		Doc:     "Images, scripts and styles count as links, too.",
		Example: "true", at: func(s *Spec) any { return &s.Scope.Embedded },
	},
	{
		Path: "limits.pages", Kind: KindInt, Flag: "pages", Default: "0: no limit", Mutable: true,
		Doc:     "Pages after which the crawl ends with outcome `budget`. A page is a URL that the site answered, whatever the status.",
		Example: "10000", at: func(s *Spec) any { return &s.Limits.Pages },
	},
	{
		Path: "limits.time", Kind: KindDuration, Flag: "time", Default: "0s: no limit", Mutable: true,
		Doc:     "Time after which the crawl ends with outcome `time`.",
		Example: "2h", at: func(s *Spec) any { return &s.Limits.Time },
	},
	{
		Path: "limits.page_size", Kind: KindSize, Flag: "page-size", Default: "8MiB",
		Doc:     "Largest body kept, decoded; a longer page is cut there and marked. 1KiB to 64MiB.",
		Example: "2MiB", at: func(s *Spec) any { return &s.Limits.PageSize },
	},
	{
		Path: "limits.tries", Kind: KindInt, Flag: "tries", Default: "3", Mutable: true,
		Doc:     "Tries per URL before it is given up, 1 to 100.",
		Example: "5", at: func(s *Spec) any { return &s.Limits.Tries },
	},
	{
		Path: "limits.host_errors", Kind: KindInt, Flag: "host-errors", Default: "10", Mutable: true,
		Doc:     "Errors in a row after which a host is parked, with all its URLs.",
		Example: "20", at: func(s *Spec) any { return &s.Limits.HostErrors },
	},
	{
		Path: "limits.pages_per_host", Kind: KindInt, Flag: "pages-per-host", Default: "0: no limit", Mutable: true,
		Doc:     "Pages of one host; the others of that host are refused.",
		Example: "500", at: func(s *Spec) any { return &s.Limits.PagesPerHost },
	},
	{
		Path: "politeness.delay", Kind: KindDuration, Flag: "delay", Default: "1s", Mutable: true,
		Doc:     "Time between two requests to a host. The host's Crawl-delay counts if it is longer.",
		Example: "2s", at: func(s *Spec) any { return &s.Politeness.Delay },
	},
	{
		Path: "politeness.parallelism", Kind: KindInt, Flag: "parallelism", Default: "1; 16 with delay 0s", Mutable: true,
		Doc:     "Requests to a host at once, 1 to 64.",
		Example: "2", at: func(s *Spec) any { return &s.Politeness.Parallelism },
	},
	{
		Path: "politeness.user_agent", Kind: KindString, Flag: "user-agent", Default: "trawl/<version> (+<contact>)", Mutable: true,
		Doc:     "The User-Agent header. robots.txt is read for the product name at its beginning.",
		Example: "example-bot/1.0 (+https://example.org/bot)", at: func(s *Spec) any { return &s.Politeness.UserAgent },
	},
	{
		Path: "politeness.contact", Kind: KindString, Flag: "contact", Default: "none, with a warning", Mutable: true,
		Doc:     "URL or mail address where the owner of a site finds you; it becomes part of the user agent.",
		Example: "https://example.org/bot", at: func(s *Spec) any { return &s.Politeness.Contact },
	},
	{
		Path: "politeness.robots", Kind: KindBool, Flag: "robots", Default: "true", Mutable: true,
		Doc:     "Obey robots.txt. Turn it off for sites of your own only.",
		Example: "false", at: func(s *Spec) any { return &s.Politeness.Robots },
	},
	{
		Path: "shards", Kind: KindInt, Flag: "shards", Default: "1 up to 10,000 pages or 4 hosts, else 8",
		Doc:     "Partitions of the frontier, fixed for the life of a generation: how many workers can choose URLs at once. 1 to 1024.",
		Example: "8", at: func(s *Spec) any { return &s.Shards },
	},
	{
		Path: "allow_networks", Kind: KindList, Flag: "allow-network", Default: "none",
		Doc:     "Networks (CIDR) that may be reached though they are private, loopback or reserved.",
		Example: "[127.0.0.0/8]", at: func(s *Spec) any { return &s.AllowNetworks },
	},
	{
		Path: "sink.kind", Kind: KindString, Flag: "sink", Default: "sqlite",
		Doc:     "Where documents go: `sqlite`, `elastic` (Elasticsearch or OpenSearch, address by TRAWL_ELASTIC_URL) `files` (JSONL files in the worker's data directory) or `none` (pages only).",
		Example: "elastic", at: func(s *Spec) any { return &s.Sink.Kind },
	},
	{
		Path: "sink.index", Kind: KindString, Flag: "index", Default: "the crawl's name",
		Doc:     "Name of the index: a-z, 0-9, dashes and underscores.",
		Example: "docs", at: func(s *Spec) any { return &s.Sink.Index },
	},
	{
		Path: "document.fields", Kind: KindList, Flag: "field", Default: "all",
		Doc:     "Fields of a document, besides its URL: " + strings.Join(Fields, ", ") + ".",
		Example: "[title, text]", at: func(s *Spec) any { return &s.Document.Fields },
	},
}

// Fields are the names that document.fields may list.
var Fields = []string{
	"title", "text", "description", "language", "headings", "canonical", "links", "fetched_at", "status", "content_type",
}

func keyOf(path string) (Key, bool) {
	for _, k := range keys {
		if k.Path == path {
			return k, true
		}
	}
	return Key{}, false
}

// Set states the key as the command line does: the values replace what a file
// said. Keys other than lists take the last value.
func (k Key) Set(s *Spec, values []string) error {
	if len(values) == 0 {
		return nil
	}
	last := values[len(values)-1]
	if err := k.assign(s, values, last); err != nil {
		return Problems{{Key: "--" + k.Flag, Value: last, What: err.Error()}}
	}
	s.state(k.Path, origin{flag: k.Flag})
	return nil
}

func (k Key) assign(s *Spec, values []string, last string) error {
	switch p := k.at(s).(type) {
	case *string:
		*p = last
	case *[]string:
		*p = slices.Clone(values)
		s.forget(k.Path)
	case *bool:
		v, err := strconv.ParseBool(last)
		if err != nil {
			return fmt.Errorf("is neither true nor false")
		}
		*p = v
	case *Duration:
		return p.Set(last)
	case *int:
		v, err := strconv.Atoi(last)
		if err != nil {
			return fmt.Errorf("is no whole number")
		}
		*p = v
	case *int64:
		v, err := k.parseInt(last)
		if err != nil {
			return err
		}
		*p = v
	}
	return nil
}

func (k Key) parseInt(s string) (int64, error) {
	if k.Kind == KindSize {
		return ParseSize(s)
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("is no whole number")
	}
	return v, nil
}

// state records where a key was stated.
func (s *Spec) state(key string, at origin) {
	if s.from == nil {
		s.from = origins{}
	}
	s.from[key] = at
}

// forget drops the places of a list's items.
func (s *Spec) forget(key string) {
	for k := range s.from {
		if strings.HasPrefix(k, key+"[") {
			delete(s.from, k)
		}
	}
}

// values gives the key's value as strings; one for everything but a list.
func (k Key) values(s *Spec) []string {
	switch p := k.at(s).(type) {
	case *string:
		return []string{*p}
	case *[]string:
		return *p
	case *bool:
		return []string{strconv.FormatBool(*p)}
	case *Duration:
		return []string{p.String()}
	case *int:
		return []string{strconv.Itoa(*p)}
	case *int64:
		if k.Kind == KindSize {
			return []string{FormatSize(*p)}
		}
		return []string{strconv.FormatInt(*p, 10)}
	}
	return nil
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1}}

// ParseSize reads a number of bytes: "65536", "512KiB", "8MiB", "1MB".
func ParseSize(s string) (int64, error) {
	num, unit := strings.TrimSpace(s), int64(1)
	for _, u := range sizeUnits {
		if strings.HasSuffix(num, u.name) {
			num, unit = strings.TrimSpace(strings.TrimSuffix(num, u.name)), u.bytes
			break
		}
	}
	v, err := strconv.ParseInt(num, 10, 64)
	if err != nil || v < 0 || v > 1<<40/unit {
		return 0, fmt.Errorf("%q is no size: write a number of bytes, or 512KiB, 8MiB", clip(s))
	}
	return v * unit, nil
}

// FormatSize prints bytes in the largest binary unit that divides them.
func FormatSize(n int64) string {
	for _, u := range sizeUnits[:3] {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
