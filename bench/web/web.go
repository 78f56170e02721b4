// Package web is a computable web: hosts, pages, links, kinds and sizes are
// pure functions of a seed and a URL, so a web of any size needs no storage
// and the set of its reachable pages is known without crawling it. It owns the
// model, the HTTP server on loopback and the log of every request. It refuses
// to judge a crawl (the caller compares the log with Reach), to listen on
// anything but 127.0.0.0/8, and to look like any real site.
package web

import (
	"fmt"
	"math/bits"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Bounds of a Config. They keep one mistaken flag from eating the machine.
const (
	MaxHosts = 16_384
	MaxPages = 1 << 28 // of all hosts together
	MaxLinks = 1_000
	MaxSize  = 4 << 20
)

// Config says what web to compute. The zero value of a field means its default
// where one is named, otherwise zero.
type Config struct {
	Seed         uint64
	Hosts        int // default 1; host i is 127.1.(i/250).(i%250+1)
	PagesPerHost int // default 100
	Links        int // links of a page, at least 2; default 10
	Size         int // mean bytes of a page, default 8,192; a page has half to one and a half of it

	// The following are shares of pages in per mille, together at most 900.
	// Page 0 of each host is always a plain page.
	OffHost    int // not of pages, but of links: those that lead to another host
	Redirects  int // 301 to a page of the same host with a lower number, in chains of at most 2
	Missing    int // 404
	Gone       int // 410
	Errors     int // 500, always
	Flaky      int // 500 to the first request, then a plain page
	Disallowed int // under /private/, which robots.txt forbids
	Copies     int // plain pages with the body of another one of the host
	Spellings  int // not of pages, but of links: those that are written in an unusual way

	CrawlDelay time.Duration // in robots.txt; 0: no such line
	// Latency is waited before a page is answered; nil: none. It must be safe
	// for use by many goroutines.
	Latency func(host, page int) time.Duration

	Port        int // of every host; 0: Start picks a free one
	LogCapacity int // newest requests kept as entries; default 65,536; counters cover all
}

// Kind is what a page answers.
type Kind uint8

// The kinds of page.
const (
	Plain Kind = iota
	Redirect
	Missing
	Gone
	Error
	Flaky
	Disallowed
	kinds
)

var kindNames = [kinds]string{"plain", "redirect", "missing", "gone", "error", "flaky", "disallowed"}

// String names the kind.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Status is the HTTP status with which a page of the kind is answered in the
// end (a flaky page: from the second request on).
func (k Kind) Status() int {
	switch k {
	case Redirect:
		return 301
	case Missing:
		return 404
	case Gone:
		return 410
	case Error:
		return 500
	default:
		return 200
	}
}

// Ref is one page: host and page number.
type Ref struct{ Host, Page int }

// Web is one computable web. All methods are safe for concurrent use once
// Start has returned (or, without Start, once New has).
type Web struct {
	cfg    Config
	text   *text
	log    *Log
	limits [kinds]uint64 // cumulative shares on a scale of 1,000
	port   string
	robots []byte
}

// New checks the configuration and prepares the web. It opens no socket.
func New(cfg Config) (*Web, error) {
	setDefault(&cfg.Hosts, 1)
	setDefault(&cfg.PagesPerHost, 100)
	setDefault(&cfg.Links, 10)
	setDefault(&cfg.Size, 8<<10)
	setDefault(&cfg.LogCapacity, 1<<16)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	w := &Web{cfg: cfg, text: newText(cfg.Seed, min(cfg.Hosts*cfg.PagesPerHost, maxPool)*cfg.Size), log: newLog(cfg)}
	w.setPort(cfg.Port)
	sum := uint64(0)
	for i, share := range []int{0, cfg.Redirects, cfg.Missing, cfg.Gone, cfg.Errors, cfg.Flaky, cfg.Disallowed} {
		sum += uint64(share)
		w.limits[i] = sum
	}
	w.robots = robotsTxt(cfg.CrawlDelay)
	return w, nil
}

func setDefault(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

func (c Config) check() error {
	for _, f := range []struct {
		name      string
		v, lo, hi int
	}{
		{"Hosts", c.Hosts, 1, MaxHosts},
		{"PagesPerHost", c.PagesPerHost, 1, MaxPages},
		{"Hosts x PagesPerHost", c.Hosts * min(c.PagesPerHost, MaxPages), 1, MaxPages},
		{"Links", c.Links, 2, MaxLinks},
		{"Size", c.Size, 256, MaxSize},
		{"OffHost", c.OffHost, 0, 1000},
		{"Redirects", c.Redirects, 0, 900},
		{"Missing", c.Missing, 0, 900},
		{"Gone", c.Gone, 0, 900},
		{"Errors", c.Errors, 0, 900},
		{"Flaky", c.Flaky, 0, 900},
		{"Disallowed", c.Disallowed, 0, 900},
		{"Copies", c.Copies, 0, 1000},
		{"Spellings", c.Spellings, 0, 1000},
		{"all shares of kinds", c.Redirects + c.Missing + c.Gone + c.Errors + c.Flaky + c.Disallowed, 0, 900},
		{"Port", c.Port, 0, 65_535},
		{"LogCapacity", c.LogCapacity, 1, 1 << 24},
	} {
		if f.v < f.lo || f.v > f.hi {
			return fmt.Errorf("web: %s is %d: want %d to %d", f.name, f.v, f.lo, f.hi)
		}
	}
	return nil
}

// Config answers the configuration with its defaults filled in.
func (w *Web) Config() Config { return w.cfg }

// Log is the record of every request.
func (w *Web) Log() *Log { return w.log }

func (w *Web) setPort(p int) {
	w.cfg.Port, w.port = p, ""
	if p != 0 && p != 80 {
		w.port = ":" + strconv.Itoa(p)
	}
}

// Addr is the address of host i.
func Addr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1, byte(i / 250), byte(i%250 + 1)})
}

// Host is host i as it stands in URLs: address and, unless it is 80, port.
func (w *Web) Host(i int) string { return Addr(i).String() + w.port }

// hostIndex finds the host that an address, with or without port, belongs to.
func (w *Web) hostIndex(hostport string) (int, bool) {
	name, _, _ := strings.Cut(hostport, ":")
	a, err := netip.ParseAddr(name)
	if err != nil || !a.Is4() {
		return 0, false
	}
	b := a.As4()
	if b[0] != 127 || b[1] != 1 || b[3] == 0 || b[3] > 250 {
		return 0, false
	}
	i := int(b[2])*250 + int(b[3]) - 1
	return i, i < w.cfg.Hosts
}

// Root is the URL of page 0 of host 0, from which every host is reachable.
func (w *Web) Root() string { return w.URL(Ref{}) }

// URL is the canonical URL of a page.
func (w *Web) URL(r Ref) string { return "http://" + w.Host(r.Host) + w.path(r) }

func (w *Web) path(r Ref) string { return string(w.appendPath(nil, r)) }

func (w *Web) appendPath(dst []byte, r Ref) []byte {
	if r.Page == 0 {
		return append(dst, '/')
	}
	if w.Kind(r) == Disallowed {
		dst = append(dst, "/private/"...)
	} else {
		dst = append(dst, "/p/"...)
	}
	return strconv.AppendInt(dst, int64(r.Page), 10)
}

// Locate is the inverse of URL; it answers false for anything that URL does
// not yield, but for a fragment.
func (w *Web) Locate(rawURL string) (Ref, bool) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" || u.RawQuery != "" {
		return Ref{}, false
	}
	host, ok := w.hostIndex(u.Host)
	if !ok || u.Host != w.Host(host) {
		return Ref{}, false
	}
	return w.locatePath(host, u.EscapedPath())
}

func (w *Web) locatePath(host int, path string) (Ref, bool) {
	if path == "/" || path == "" {
		return Ref{Host: host}, true
	}
	digits, private := strings.CutPrefix(path, "/private/")
	if !private {
		var ok bool
		if digits, ok = strings.CutPrefix(path, "/p/"); !ok {
			return Ref{}, false
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n >= w.cfg.PagesPerHost || strconv.Itoa(n) != digits {
		return Ref{}, false
	}
	r := Ref{Host: host, Page: n}
	return r, private == (w.Kind(r) == Disallowed)
}

// Purposes of a hash, so that no two decisions about a page are correlated.
const (
	forKind uint64 = iota + 1
	forTarget
	forLinks
	forBody
	forCopy
	forSpelling
	forLatency
)

// mix is a 64-bit finalizer: every bit of the answer depends on every bit of x.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

func (w *Web) hash(r Ref, purpose uint64) uint64 {
	h := mix(w.cfg.Seed + purpose*0x9e3779b97f4a7c15)
	return mix(h ^ uint64(r.Host)<<32 ^ uint64(r.Page))
}

// below maps a hash to [0, n) without division.
func below(h uint64, n int) int {
	hi, _ := bits.Mul64(h, uint64(n))
	return int(hi)
}

// Kind of a page.
func (w *Web) Kind(r Ref) Kind {
	if r.Page == 0 {
		return Plain
	}
	x := uint64(below(w.hash(r, forKind), 1000))
	for k := Redirect; k < kinds; k++ {
		if x < w.limits[k] {
			return k
		}
	}
	return Plain
}

// Target is where a redirecting page leads: a page of the same host. Chains
// are at most two redirects long and have no loops.
func (w *Web) Target(r Ref) Ref {
	c := w.candidate(r)
	if w.Kind(c) == Redirect && w.Kind(w.candidate(c)) == Redirect {
		return Ref{Host: r.Host}
	}
	return c
}

func (w *Web) candidate(r Ref) Ref {
	return Ref{Host: r.Host, Page: below(w.hash(r, forTarget), max(r.Page, 1))}
}

// tree is how many links of a page lead to its children in the tree.
func (w *Web) tree() int { return (w.cfg.Links + 1) / 2 }

// originals is how many pages of a host the copies are copies of.
const originals = 100

// source is the page whose body and links a page has: nearly always its own.
// Only pages without children are copied and copies, so that every page stays
// reachable.
func (w *Web) source(r Ref) Ref {
	leaf := (w.cfg.PagesPerHost-2)/w.tree() + 1 // the first page without children
	if w.cfg.Copies == 0 || r.Page < leaf || w.Kind(r) != Plain {
		return r
	}
	h := w.hash(r, forCopy)
	if below(h, 1000) >= w.cfg.Copies {
		return r
	}
	return Ref{r.Host, leaf + below(mix(h), min(originals, w.cfg.PagesPerHost-leaf))}
}

// Links appends the links of a page in document order to dst; other kinds
// than Plain and Flaky have none. Half of them, rounded up, form a tree over
// the pages of the host, two of page 0 form a tree over the hosts, the others
// are random; a link may occur twice.
func (w *Web) Links(dst []Ref, r Ref) []Ref {
	if k := w.Kind(r); k != Plain && k != Flaky {
		return dst
	}
	r = w.source(r)
	tree := w.tree()
	for i := range tree {
		if child := r.Page*tree + 1 + i; child < w.cfg.PagesPerHost {
			dst = append(dst, Ref{r.Host, child})
		}
	}
	if r.Page == 0 {
		for _, h := range [2]int{2*r.Host + 1, 2*r.Host + 2} {
			if h < w.cfg.Hosts {
				dst = append(dst, Ref{Host: h})
			}
		}
	}
	h := w.hash(r, forLinks)
	for range w.cfg.Links - tree {
		h = mix(h + 0x9e3779b97f4a7c15)
		to := Ref{r.Host, below(h<<10, w.cfg.PagesPerHost)}
		if below(h, 1000) < w.cfg.OffHost {
			to.Host = below(mix(h), w.cfg.Hosts)
		}
		dst = append(dst, to)
	}
	return dst
}
