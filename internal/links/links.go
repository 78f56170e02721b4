// Package links owns finding locators: in HTML, headers, sitemaps and feeds,
// and the charset that they are written in. It refuses to decide which of them
// to follow (scope, depth, robots), to fetch, and to build documents.
package links

import (
	"sync"

	"github.com/cespare/xxhash/v2"

	"trawl/internal/markup"
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
	URL  string // canonical; shares memory with those of the same page
	Hash uint64 // weburl.Hash of URL
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
	// Known, if set, is asked once about each locator before its string is made;
	// the known ones are left out, but count for Max. hash is weburl.Hash.
	Known func(hash uint64, kind Kind) bool
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
	dst  []Found // the new ones lack their URL until done
	from int     // where the new ones begin
	base weburl.URL
	how  string
	opt  Options
	n    int // locators so far, the known ones among them
	meta Meta
	salt uint64 // of references as written, keeps their hashes apart from those of canonical forms
	seen hashSet

	room []byte // the URLs, one after the other
	ends []int  // where each of the new ones ends in room
	z    markup.Scanner
}

var finders = sync.Pool{New: func() any { return new(finder) }}

func newFinder(dst []Found, base weburl.URL, how string, opt Options) *finder {
	if opt.Max <= 0 {
		opt.Max = DefaultMax
	}
	if opt.Limit <= 0 {
		opt.Limit = DefaultLimit
	}
	f := finders.Get().(*finder)
	f.dst, f.from, f.base, f.how, f.opt, f.salt = dst, len(dst), base, how, opt, saltStep
	return f
}

// maxRoom bytes and ends are kept for the next page.
const maxRoom = 64 << 10

// done gives back what was found; the finder is used up. One string holds the
// URLs of the page.
func (f *finder) done() ([]Found, Meta) {
	all, start := string(f.room), 0
	for i, end := range f.ends {
		f.dst[f.from+i].URL = all[start:end]
		start = end
	}
	dst, meta := f.dst, f.meta
	f.seen.reset()
	f.z.Reset(nil)
	f.dst, f.opt, f.base, f.meta, f.n = nil, Options{}, weburl.URL{}, Meta{}, 0
	if f.room, f.ends = f.room[:0], f.ends[:0]; cap(f.room) > maxRoom {
		f.room, f.ends = nil, nil
	}
	finders.Put(f)
	return dst, meta
}

// forget drops the locators, because the page asks for it.
func (f *finder) forget() {
	f.dst, f.room, f.ends = f.dst[:f.from], f.room[:0], f.ends[:0]
}

// full notes that there was one more than fits.
func (f *finder) full() bool {
	if f.n < f.opt.Max {
		return false
	}
	f.meta.Cut = true
	return true
}

// saltStep is an odd number: each base has a salt of its own.
const saltStep = 0x9e3779b97f4a7c15

// add resolves a reference and keeps it if it is new.
func (f *finder) add(ref []byte, kind Kind) {
	ref = trimSpace(ref)
	if skip(ref) || !f.seen.add(xxhash.Sum64(ref)^f.salt) {
		return
	}
	start := len(f.room)
	if !f.resolve(ref) {
		return
	}
	hash := xxhash.Sum64(f.room[start:])
	if f.seen.add(hash) && !f.full() {
		f.n++
		if f.opt.Known == nil || !f.opt.Known(hash, kind) {
			f.dst = append(f.dst, Found{Hash: hash, How: f.how, Kind: kind})
			f.ends = append(f.ends, len(f.room))
			return
		}
	}
	f.room = f.room[:start]
}

// resolve appends the canonical form of a reference to room.
func (f *finder) resolve(ref []byte) (ok bool) {
	if len(ref) <= maxRef {
		if f.room, ok = f.base.AppendResolved(f.room, queryIn(f.opt.Charset, ref)); ok {
			return true
		}
	}
	f.meta.Refused++
	return false
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
		f.salt += saltStep
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
			return i > 0 && !isWord(ref[:i], "http") && !isWord(ref[:i], "https")
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
