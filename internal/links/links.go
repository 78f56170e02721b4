// Package links owns finding locators: in HTML, headers, sitemaps and feeds,
// and the charset that they are written in. It refuses to decide which of them
// to follow (scope, depth, robots), to fetch, and to build documents.
package links

import (
	"bytes"
	"sync"

	"github.com/cespare/xxhash/v2"

	"trawl/internal/weburl"
)

// How a locator was found: the values of a discovered fact.
const (
	HowLink     = "link"
	HowSitemap  = "sitemap"
	HowRedirect = "redirect"
)

// Kind says what held the locator.
type Kind uint8

// The kinds.
const (
	KindAnchor    Kind = iota // a, area; an entry of a sitemap or feed
	KindFrame                 // frame, iframe
	KindRefresh               // meta refresh, Refresh header
	KindCanonical             // link rel=canonical, in HTML or header
	KindLink                  // any other link element or Link header
	KindEmbedded              // images, scripts, styles, media
	KindSitemap               // a sitemap named by a sitemap index
	KindRedirect              // Location header
)

// Found is one locator.
type Found struct {
	URL  string // canonical
	How  string // HowLink, HowSitemap, HowRedirect
	Kind Kind
}

// Bounds.
const (
	DefaultMax   = 10_000  // locators of one page
	DefaultLimit = 8 << 20 // bytes of an unpacked sitemap
	maxRef       = 8 << 10 // bytes of a reference as written
	maxHeaderLen = 64 << 10
)

// Options choose what counts as a link. The zero value is the default.
type Options struct {
	Max      int   // locators at most; 0: DefaultMax
	Limit    int64 // bytes of an unpacked sitemap at most; 0: DefaultLimit
	Embedded bool  // images, scripts, styles and media, too
	// RelNofollow leaves out links marked rel=nofollow (also ugc, sponsored).
	// The mark speaks of trust, not of access, so the default follows them.
	RelNofollow bool
	// IgnoreMetaNofollow follows the links of a page whose meta robots says
	// nofollow. The default does not.
	IgnoreMetaNofollow bool
	// Charset is that of the page before UTF8, as UTF8 names it: queries are
	// encoded in it, as browsers do. "" is UTF-8.
	Charset string
}

// Meta is what was learned besides the locators.
type Meta struct {
	Canonical string // rel=canonical, resolved; the first counts
	Nofollow  bool   // meta robots or X-Robots-Tag
	Noindex   bool
	Cut       bool // there were more locators than the maximum, or bytes than the limit
	Refused   int  // references that are no locators although they look like http
}

// Merge adds what another part of the same response said.
func (m Meta) Merge(o Meta) Meta {
	if m.Canonical == "" {
		m.Canonical = o.Canonical
	}
	m.Nofollow = m.Nofollow || o.Nofollow
	m.Noindex = m.Noindex || o.Noindex
	m.Cut = m.Cut || o.Cut
	m.Refused += o.Refused
	return m
}

// finder gathers the locators of one response.
type finder struct {
	dst  []Found
	base weburl.URL
	how  string
	opt  Options
	max  int // length of dst at which it is full
	seen *hashSet
	meta Meta
}

var sets = sync.Pool{New: func() any { return new(hashSet) }}

func newFinder(dst []Found, base weburl.URL, how string, opt Options) *finder {
	if opt.Max <= 0 {
		opt.Max = DefaultMax
	}
	if opt.Limit <= 0 {
		opt.Limit = DefaultLimit
	}
	return &finder{dst: dst, base: base, how: how, opt: opt, max: len(dst) + opt.Max, seen: sets.Get().(*hashSet)}
}

// done gives back what was found; the finder is used up.
func (f *finder) done() ([]Found, Meta) {
	f.seen.reset()
	sets.Put(f.seen)
	f.seen = nil
	return f.dst, f.meta
}

// full notes that there was one more than fits.
func (f *finder) full() bool {
	if len(f.dst) < f.max {
		return false
	}
	f.meta.Cut = true
	return true
}

// rawSalt keeps the hashes of references as written apart from those of
// canonical forms.
const rawSalt = 0x9e3779b97f4a7c15

// add resolves a reference and keeps it if it is new.
func (f *finder) add(ref []byte, kind Kind) {
	ref = trimSpace(ref)
	if skip(ref) || !f.seen.add(xxhash.Sum64(ref)^rawSalt) {
		return
	}
	u, ok := f.resolve(ref)
	if !ok || !f.seen.add(xxhash.Sum64String(u)) || f.full() {
		return
	}
	f.dst = append(f.dst, Found{URL: u, How: f.how, Kind: kind})
}

func (f *finder) resolve(ref []byte) (string, bool) {
	if len(ref) > maxRef {
		f.meta.Refused++
		return "", false
	}
	u, err := f.base.Resolve(queryIn(f.opt.Charset, string(ref)))
	if err != nil {
		f.meta.Refused++
		return "", false
	}
	return u.String(), true
}

// setBase changes the base; what was written before may mean something else
// from now on.
func (f *finder) setBase(ref []byte) {
	ref = trimSpace(ref)
	if len(ref) > maxRef {
		return
	}
	if u, err := f.base.Resolve(string(ref)); err == nil && u != f.base {
		f.base = u
		f.seen.reset()
		for _, x := range f.dst[f.max-f.opt.Max:] {
			f.seen.add(xxhash.Sum64String(x.URL))
		}
	}
}

// trimSpace drops C0 controls and spaces at both ends, as a URL parser does.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] <= ' ' {
		b = b[:len(b)-1]
	}
	return b
}

// skip tells references that are no locators at a glance: empty, a fragment of
// the page itself, or of another scheme than http and https.
func skip(ref []byte) bool {
	if len(ref) == 0 || ref[0] == '#' {
		return true
	}
	for i, c := range ref {
		switch {
		case c == ':':
			return i > 0 && !bytes.EqualFold(ref[:i], []byte("http")) && !bytes.EqualFold(ref[:i], []byte("https"))
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return false
}

// hashSet is a set of 64-bit hashes, open addressed and reused.
type hashSet struct {
	slots []uint64 // 0: free; a power of two long
	n     int
}

const smallSet = 1024

// add tells whether h is new.
func (s *hashSet) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	if 2*(s.n+1) > len(s.slots) {
		s.grow()
	}
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case h:
			return false
		case 0:
			s.slots[i] = h
			s.n++
			return true
		}
	}
}

func (s *hashSet) grow() {
	old := s.slots
	s.slots = make([]uint64, max(2*len(old), smallSet))
	s.n = 0
	for _, h := range old {
		if h != 0 {
			s.add(h)
		}
	}
}

// reset empties the set, and lets go of room that only a huge page needed.
func (s *hashSet) reset() {
	if s.n == 0 {
		return
	}
	if len(s.slots) > 32*smallSet {
		s.slots = nil
	}
	clear(s.slots)
	s.n = 0
}
