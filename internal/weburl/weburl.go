// Package weburl owns the canonical form of a locator, its politeness key, its
// hash and the scope of a crawl. The form is the WHATWG serialisation without
// fragment and userinfo, with percent-encodings in upper case, and without those
// that are not needed; nothing else is rewritten: queries keep their order,
// paths their slashes. The package refuses schemes other than http and https, requests of
// any kind, and opinions about which host may be dialled.
package weburl

import (
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	whatwg "github.com/nlnwa/whatwg-url/url"
)

// MaxLen is the greatest length of a locator in bytes, as given (without its
// fragment) and in canonical form.
const MaxLen = 2048

// maxHost is the greatest length of a DNS name in its text form.
const maxHost = 253

// Refusal says why a string is no locator. It is a closed list.
type Refusal string

// The refusals.
const (
	ErrScheme  Refusal = "scheme is not http or https"
	ErrTooLong Refusal = "longer than 2048 bytes"
	ErrHost    Refusal = "host is missing or not a name or address"
	ErrSyntax  Refusal = "not an absolute URL"
)

// Error makes a Refusal usable with errors.Is.
func (r Refusal) Error() string { return string(r) }

// Error is a refused URL. errors.Is finds its Refusal.
type Error struct {
	URL   string // as given, at most 200 bytes of it
	Why   Refusal
	Cause error // the parser's, or nil
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("URL %q: %s: %v", e.URL, string(e.Why), e.Cause)
	}
	return fmt.Sprintf("URL %q: %s", e.URL, string(e.Why))
}

// Unwrap gives the Refusal.
func (e *Error) Unwrap() error { return e.Why }

func refuse(raw string, why Refusal, cause error) error {
	if len(raw) > 200 {
		raw = raw[:200]
	}
	return &Error{URL: strings.Clone(raw), Why: why, Cause: cause}
}

// URL is a locator in canonical form. The zero URL is none; every other was
// made by Parse or Resolve. It is comparable and safe for concurrent use.
type URL struct {
	s    string
	host uint16 // where the host begins
	path uint16 // where the request target begins
}

// String is the canonical form.
func (u URL) String() string { return u.s }

// IsZero tells the zero URL.
func (u URL) IsZero() bool { return u.s == "" }

// Scheme is "http" or "https".
func (u URL) Scheme() string {
	if u.s == "" {
		return ""
	}
	return u.s[:u.host-3]
}

// Host is the politeness key: host[:port], the port only if it is not the
// scheme's default.
func (u URL) Host() string { return u.s[u.host:u.path] }

// Path is the request target: path and query, beginning with "/".
func (u URL) Path() string { return u.s[u.path:] }

// Parse reads an absolute URL. Its error is an *Error with a Refusal. A
// canonical string is returned as it is, without an allocation.
func Parse(raw string) (URL, error) {
	raw = clean(raw)
	if len(raw) > MaxLen {
		return URL{}, refuse(raw, ErrTooLong, nil)
	}
	if u, ok := canonical(raw); ok {
		return u, nil
	}
	if schemeOf(raw) == schemeOther {
		return URL{}, refuse(raw, ErrScheme, nil)
	}
	return parseSlow("", raw)
}

// Resolve reads ref as a link on the page u.
func (u URL) Resolve(ref string) (URL, error) {
	ref = clean(ref)
	if len(ref) > MaxLen {
		return URL{}, refuse(ref, ErrTooLong, nil)
	}
	scheme := schemeOf(ref)
	if scheme == schemeOther {
		return URL{}, refuse(ref, ErrScheme, nil)
	}
	if u.s == "" {
		return Parse(ref)
	}
	if r, ok := resolveFast(u, ref, scheme); ok {
		return r.url(), nil
	}
	return parseSlow(u.s, ref)
}

// AppendResolved appends to dst what Resolve answers, in most cases without an
// allocation. If Resolve refuses ref, it is false and dst as it was.
func (u URL) AppendResolved(dst, ref []byte) ([]byte, bool) {
	ref = clean(ref)
	if len(ref) > MaxLen {
		return dst, false
	}
	if scheme := schemeOf(ref); scheme != schemeOther && u.s != "" {
		if r, ok := resolveFast(u, ref, scheme); ok {
			dst = append(append(dst, r.head...), r.tail...)
			if r.slash {
				dst = append(dst, '/')
			}
			return dst, true
		}
	}
	r, err := u.Resolve(string(ref))
	if err != nil {
		return dst, false
	}
	return append(dst, r.s...), true
}

// Hash is the xxhash64 of s: partitions, slots and digests are made of it.
func Hash(s string) uint64 { return xxhash.Sum64String(s) }

// Split takes a canonical string apart without checking it further than that
// it begins like one. path begins with "/".
func Split(canonical string) (scheme, host, path string, ok bool) {
	i := prefixLen(canonical)
	if i == 0 {
		return "", "", "", false
	}
	j := strings.IndexByte(canonical[i:], '/')
	if j <= 0 {
		return "", "", "", false
	}
	return canonical[:i-3], canonical[i : i+j], canonical[i+j:], true
}

// clean drops what every WHATWG parse of an http(s) URL drops first: C0
// controls and spaces around it, and the fragment. A space before the fragment
// is not at the end and stays, so its number sign stays to protect it.
func clean[T text](s T) T {
	i, j := 0, len(s)
	for i < j && s[i] <= ' ' {
		i++
	}
	for k := i; k < j; k++ {
		if s[k] == '#' {
			if k > i && s[k-1] <= ' ' {
				k++
			}
			return s[i:k]
		}
	}
	for i < j && s[j-1] <= ' ' {
		j--
	}
	return s[i:j]
}

// parseSlow asks the library, and holds its answer to our canonical form. The
// answer must be its own answer: a form that changes when it is parsed again
// would be two locators for one page.
func parseSlow(base, ref string) (URL, error) {
	s, err := askLibrary(base, ref)
	if err != nil {
		return URL{}, err
	}
	if u, ok := canonical(s); ok {
		return u, nil
	}
	again, err := askLibrary("", s)
	if err != nil {
		return URL{}, err
	}
	if again != s {
		return URL{}, refuse(ref, ErrSyntax, nil)
	}
	return locate(s), nil
}

// askLibrary takes a panic of the parser for a refusal: one hostile link must
// not end a worker.
func askLibrary(base, ref string) (s string, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = "", refuse(ref, ErrSyntax, fmt.Errorf("parser panic: %v", p))
		}
	}()
	p, err := whatwg.ParseRef(base, ref)
	if err != nil {
		return "", refuse(ref, ErrSyntax, err)
	}
	if s := p.Scheme(); s != "http" && s != "https" {
		return "", refuse(ref, ErrScheme, nil)
	}
	host := p.Hostname()
	if !plausibleHost(host) {
		return "", refuse(ref, ErrHost, nil)
	}
	size := len("https://") + len(host) + len(p.Pathname()) + len(p.Query())
	if size > 2*MaxLen {
		return "", refuse(ref, ErrTooLong, nil)
	}
	if p.Username() != "" || p.Password() != "" {
		p.SetUsername("")
		p.SetPassword("")
	}
	s = normalEscapes(p.Href(true))
	if len(s) > MaxLen {
		return "", refuse(ref, ErrTooLong, nil)
	}
	return s, nil
}

// plausibleHost refuses what the library lets through but no resolver or Host
// header should see.
func plausibleHost(h string) bool {
	if h == "" || len(h) > maxHost || h == "." {
		return false
	}
	if h[0] == '[' {
		return true
	}
	for i := 0; i < len(h); i++ {
		if !isHostByte[h[i]] {
			return false
		}
	}
	return true
}

// normalEscapes gives percent-encodings their one form: upper-case digits, and
// none where the byte is a letter, a digit, or one of - _ ~ (RFC 3986, 6.2.2).
// A string with a stray % keeps its encodings: to decode beside it could make a
// new one.
func normalEscapes(s string) string {
	change, stray := false, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '%':
		case i+2 >= len(s) || !isHex[s[i+1]] || !isHex[s[i+2]]:
			stray = true
		default:
			change = change || !normalTriplet(s, i)
			i += 2
		}
	}
	if !change {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+2 >= len(s) || !isHex[s[i+1]] || !isHex[s[i+2]] {
			b = append(b, s[i])
			continue
		}
		if c := unhex(s[i+1])<<4 | unhex(s[i+2]); plain(c) && !stray {
			b = append(b, c)
		} else {
			b = append(b, '%', upper(s[i+1]), upper(s[i+2]))
		}
		i += 2
	}
	return string(b)
}

// plain bytes mean the same with and without encoding. A dot does, too, but
// WHATWG has its own rules for encoded dots.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '~'
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// locate finds the parts of a canonical string.
func locate(s string) URL {
	i := prefixLen(s)
	j := i + strings.IndexByte(s[i:], '/')
	return URL{s: s, host: uint16(i), path: uint16(j)}
}
