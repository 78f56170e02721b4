package frontier

import "time"

// Fact is one statement about a locator or a host; the last one of each key
// counts. The concrete types are below; Record encodes, Decode decodes.
type Fact interface {
	// Record gives the key and value for the frontier topic.
	Record() (key, value []byte)
	// HostKey is the politeness key (host[:port]) that decides the partition.
	HostKey() string
}

// How a locator was found.
const (
	HowSeed     = "seed"
	HowLink     = "link"
	HowSitemap  = "sitemap"
	HowRedirect = "redirect"
)

// Discovered is the `d` fact: key d + depth + URL; the least depth counts.
type Discovered struct {
	URL    string
	Depth  int
	Hop    int // redirect hops
	Parent string
	How    string
	When   time.Time
}

// Fetched is the `f` fact: the site's answer, or a refusal.
type Fetched struct {
	URL          string
	Round        int
	Status       int    // HTTP status; 0 if refused
	Refusal      string // reason, if refused by Fetch: "robots", "address", "type", "scope", "hops", ...
	When         time.Time
	ETag         string
	LastModified string
	Digest       uint64 // xxhash64 of the body
	Bytes        int64
	Depth        int       // depth expanded at
	CutDepth     bool      // depth cut its links
	NextDue      time.Time // zero: never
}

// Tried is the `t` fact: a failed try. The highest number counts.
type Tried struct {
	URL     string
	Round   int
	Number  int    // 1 is the first failed try
	Class   string // "dns", "connect", "timeout", "reset", "tls", "protocol", "5xx", "killed", ...
	NextDue time.Time
	When    time.Time
}

// Streak is the `h` fact: errors in a row on a host; 0 resets.
type Streak struct {
	Host   string
	Errors int
	When   time.Time
}

// Blocked is the `b` fact of a host part: 429, 503 or robots.txt not to be had.
type Blocked struct {
	Host   string
	Part   int
	Until  time.Time
	Reason string
	When   time.Time
}

// Parked is the `p` fact: the host is given up.
type Parked struct {
	Host   string
	Reason string
	When   time.Time
}

// Robots is the `r` fact: our agent's rules.
type Robots struct {
	Host       string
	Scheme     string
	Rules      []byte // encoded by internal/robots, at most 32 KiB
	CrawlDelay time.Duration
	Expiry     time.Time
	When       time.Time
}

// Spec is the `s` fact in partition 0: canonical JSON of the spec.
type Spec struct{ JSON []byte }

// Summary is the `z` fact in partition 0: JSON of contract.Summary.
type Summary struct{ JSON []byte }
