// Package spec owns the crawl spec: its shape, defaults and validation. It
// refuses to do I/O other than reading the named files.
//
// Every key stands once, in the table of keys.go; parser, flags, differences,
// the effective form and the reference in docs/spec.md all follow that table.
// The way of a spec: New or Parse, then flags by Key.Set, then Finish.
package spec

// Spec says what to crawl, extract and load.
type Spec struct {
	Name          string     `yaml:"name" json:"name"`
	Seeds         Seeds      `yaml:"seeds" json:"seeds"`
	Scope         Scope      `yaml:"scope" json:"scope"`
	Limits        Limits     `yaml:"limits" json:"limits"`
	Politeness    Politeness `yaml:"politeness" json:"politeness"`
	Shards        int        `yaml:"shards" json:"shards"`                           // 0 until defaults are applied
	AllowNetworks []string   `yaml:"allow_networks" json:"allow_networks,omitempty"` // CIDR, e.g. 127.0.0.0/8
	Sink          Sink       `yaml:"sink" json:"sink"`
	Document      Document   `yaml:"document" json:"document"`

	// from says which keys were stated, and where; the others are defaults.
	from origins
}

// Seeds start a crawl. Files are read by the starter and become URLs.
type Seeds struct {
	URLs     []string `yaml:"urls" json:"urls,omitempty"`
	Files    []string `yaml:"files" json:"-"`
	Sitemaps []string `yaml:"sitemaps" json:"sitemaps,omitempty"`
}

// Scope says which links belong to the crawl. Hosts are host[:port].
type Scope struct {
	Hosts        []string `yaml:"hosts" json:"hosts,omitempty"`
	Subdomains   bool     `yaml:"subdomains" json:"subdomains,omitempty"` // of the hosts, too
	PathPrefixes []string `yaml:"path_prefixes" json:"path_prefixes,omitempty"`
	Include      []string `yaml:"include" json:"include,omitempty"`   // RE2; if any: one must match the URL
	Exclude      []string `yaml:"exclude" json:"exclude,omitempty"`   // RE2; none may match
	Depth        int      `yaml:"depth" json:"depth"`                 // links from a seed; -1: no limit
	Embedded     bool     `yaml:"embedded" json:"embedded,omitempty"` // images, scripts, styles, too
}

// Limits of a crawl; zero: none.
type Limits struct {
	Pages        int64    `yaml:"pages" json:"pages,omitempty"`
	Time         Duration `yaml:"time" json:"time,omitempty"`
	PageSize     int64    `yaml:"page_size" json:"page_size"`     // bytes, decoded
	Tries        int      `yaml:"tries" json:"tries"`             // per locator
	HostErrors   int      `yaml:"host_errors" json:"host_errors"` // in a row, then the host is parked
	PagesPerHost int64    `yaml:"pages_per_host" json:"pages_per_host,omitempty"`
}

// Politeness towards each host.
type Politeness struct {
	Delay       Duration `yaml:"delay" json:"delay"`
	Parallelism int      `yaml:"parallelism" json:"parallelism"`
	UserAgent   string   `yaml:"user_agent" json:"user_agent"`
	Contact     string   `yaml:"contact" json:"contact,omitempty"` // URL in the user agent
	Robots      bool     `yaml:"robots" json:"robots"`
}

// Sink says where documents go: kind "sqlite", "elastic" or "files" (or "none": pages only).
type Sink struct {
	Kind  string `yaml:"kind" json:"kind"`
	Index string `yaml:"index" json:"index"` // alias; by default the crawl's name
}

// Document names the fields to load.
type Document struct {
	Fields []string `yaml:"fields" json:"fields"`
}
