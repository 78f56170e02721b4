package weburl

import "strings"

// text is a reference as it comes: in a string, or in the page.
type text interface{ ~string | ~[]byte }

// The fast path: URLs that are canonical already, or become so by joining
// strings. It answers only where the library is known to give the same; the
// property tests compare the two. When in doubt it declines.

// Byte classes. A target byte passes through the library unchanged, in a path
// and in a query of an http(s) URL.
var (
	isHostByte  [256]bool // of a name or IPv4 address in canonical form
	isHex       [256]bool
	isPathByte  [256]bool
	isQueryByte [256]bool
)

func init() {
	for c := byte('0'); c <= '9'; c++ {
		isHostByte[c], isHex[c] = true, true
	}
	for c := byte('a'); c <= 'z'; c++ {
		isHostByte[c] = true
	}
	for c := byte('a'); c <= 'f'; c++ {
		isHex[c], isHex[c-'a'+'A'] = true, true
	}
	isHostByte['-'], isHostByte['.'], isHostByte['_'] = true, true, true
	for c := byte('!'); c <= '~'; c++ {
		isPathByte[c] = strings.IndexByte("\"#<>?`{}\\%", c) < 0
		isQueryByte[c] = strings.IndexByte("\"#<>'%", c) < 0
	}
}

// What a reference begins with.
const (
	schemeNone  = iota // relative
	schemeWeb          // http: or https:, in any case
	schemeOther        // mailto:, javascript:, data:, ...
)

// schemeOf looks at the scheme of a cleaned reference. Tabs and newlines, which
// the parser drops anywhere, are skipped.
func schemeOf[T text](s T) int {
	var name [6]byte
	n := 0
	for i := 0; i < len(s); i++ {
		c := s[i] | 0x20 // lower case; no byte but a letter becomes a letter
		switch {
		case s[i] == '\t' || s[i] == '\n' || s[i] == '\r':
			continue
		case s[i] == ':':
			if n == 0 {
				return schemeNone
			}
			if n <= 5 && (string(name[:n]) == "http" || string(name[:n]) == "https") {
				return schemeWeb
			}
			return schemeOther
		case isLetter(c):
		case n > 0 && (s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '-' || s[i] == '.'):
		default:
			return schemeNone
		}
		if n < len(name) {
			name[n] = c
			n++
		}
	}
	return schemeNone
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }

// prefixLen is the length of "http://" or "https://" at the start of s, or 0.
func prefixLen[T text](s T) int {
	if len(s) >= len("http://") && string(s[:4]) == "http" {
		switch {
		case string(s[4:7]) == "://":
			return len("http://")
		case len(s) >= len("https://") && string(s[4:8]) == "s://":
			return len("https://")
		}
	}
	return 0
}

// canonical accepts s if it is canonical beyond doubt, or lacks only the slash
// after its host.
func canonical(s string) (URL, bool) {
	i := prefixLen(s)
	if i == 0 {
		return URL{}, false
	}
	r, ok := fastAbsolute("", s, i, i == len("https://"))
	if !ok {
		return URL{}, false
	}
	return r.url(), true
}

// A resolved reference is head and tail, and a slash at the end if slash is set.
type resolved[T text] struct {
	head       string
	tail       T
	slash      bool
	host, path uint16 // as in URL
}

func (r *resolved[T]) url() URL {
	s := r.head + string(r.tail)
	if r.slash {
		s += "/"
	}
	return URL{s: s, host: r.host, path: r.path}
}

// fastAbsolute accepts head and s together, where the host begins at i of s.
func fastAbsolute[T text](head string, s T, i int, tls bool) (r resolved[T], ok bool) {
	if len(head)+len(s) > MaxLen {
		return r, false
	}
	j := i
	for j < len(s) && isHostByte[s[j]] {
		j++
	}
	if !fastHost(s[i:j]) {
		return r, false
	}
	end := j
	if j < len(s) && s[j] == ':' {
		if end = portEnd(s, j+1, tls); end < 0 {
			return r, false
		}
	}
	r = resolved[T]{head: head, tail: s, host: uint16(len(head) + i), path: uint16(len(head) + end)}
	if end == len(s) {
		r.slash = true
		return r, len(head)+len(s) < MaxLen
	}
	return r, s[end] == '/' && fastTarget(s[end:])
}

// portEnd gives the end of a port that begins at i and is neither the default
// nor out of range nor written with leading zeros; -1 otherwise.
func portEnd[T text](s T, i int, tls bool) int {
	n, j := 0, i
	for j < len(s) && j-i < 6 && s[j] >= '0' && s[j] <= '9' {
		n = n*10 + int(s[j]-'0')
		j++
	}
	if j == i || s[i] == '0' || n > 65535 || (tls && n == 443) || (!tls && n == 80) {
		return -1
	}
	return j
}

// fastHost accepts lower-case names without IDNA labels whose last label
// begins with a letter, and IPv4 addresses in their canonical form.
func fastHost[T text](h T) bool {
	if len(h) == 0 || len(h) > maxHost {
		return false
	}
	start := 0
	for i := 0; i <= len(h); i++ {
		if i < len(h) && h[i] != '.' {
			continue
		}
		if !fastLabel(h[start:i]) {
			return false
		}
		if i < len(h) {
			start = i + 1
		}
	}
	if isLetter(h[start]) {
		return true
	}
	return isIPv4(h)
}

func fastLabel[T text](l T) bool {
	if len(l) == 0 || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	return len(l) < 4 || l[2] != '-' || l[3] != '-'
}

// isIPv4 accepts four decimal parts without leading zeros.
func isIPv4[T text](h T) bool {
	parts, n, digits := 0, 0, 0
	for i := 0; i <= len(h); i++ {
		if i == len(h) || h[i] == '.' {
			if digits == 0 || n > 255 {
				return false
			}
			parts++
			n, digits = 0, 0
			continue
		}
		if h[i] < '0' || h[i] > '9' || digits == 3 || (digits == 1 && n == 0) {
			return false
		}
		n = n*10 + int(h[i]-'0')
		digits++
	}
	return parts == 4
}

// fastTarget accepts a path and query, beginning with "/", that the library
// passes through unchanged.
func fastTarget[T text](t T) bool {
	segment := true // at the start of a path segment
	for i := 0; i < len(t); i++ {
		c := t[i]
		switch {
		case c == '?':
			return fastQuery(t[i+1:])
		case c == '%':
			if !normalTriplet(t, i) || (segment && dotSegment(t[i:])) {
				return false
			}
			i += 2
			segment = false
		case !isPathByte[c]:
			return false
		case c == '.' && segment && dotSegment(t[i:]):
			return false
		default:
			segment = c == '/'
		}
	}
	return true
}

func fastQuery[T text](q T) bool {
	for i := 0; i < len(q); i++ {
		if isQueryByte[q[i]] {
			continue
		}
		if q[i] != '%' || !normalTriplet(q, i) {
			return false
		}
		i += 2
	}
	return true
}

// normalTriplet tells whether a well-formed %XX in upper case stands at i, of a
// byte that needs it.
func normalTriplet[T text](s T, i int) bool {
	return i+2 < len(s) && isHex[s[i+1]] && isHex[s[i+2]] && s[i+1] < 'a' && s[i+2] < 'a' &&
		!plain(unhex(s[i+1])<<4|unhex(s[i+2]))
}

// dotSegment tells whether the segment at the start of s is "." or "..", also
// percent-encoded.
func dotSegment[T text](s T) bool {
	for n := 0; ; n++ {
		switch {
		case len(s) == 0 || s[0] == '/' || s[0] == '?':
			return n == 1 || n == 2
		case s[0] == '.':
			s = s[1:]
		case len(s) >= 3 && s[0] == '%' && s[1] == '2' && (s[2] == 'E' || s[2] == 'e'):
			s = s[3:]
		default:
			return false
		}
		if n == 2 {
			return false
		}
	}
}

// resolveFast joins the common kinds of reference with the base as strings.
func resolveFast[T text](u URL, ref T, scheme int) (r resolved[T], ok bool) {
	switch {
	case scheme == schemeWeb:
		i := prefixLen(ref)
		if i == 0 {
			return r, false
		}
		return fastAbsolute("", ref, i, i == len("https://"))
	case len(ref) == 0:
		return withTarget(u, u.s, ref), true
	case ref[0] == '/' && len(ref) > 1 && ref[1] == '/':
		return fastAbsolute(u.s[:u.host-2], ref, 2, int(u.host) == len("https://"))
	case ref[0] == '/':
		r = withTarget(u, u.s[:u.path], ref)
		return r, r.fits() && fastTarget(ref)
	case ref[0] == '?':
		r = withTarget(u, u.basePath(), ref)
		return r, r.fits() && fastQuery(ref[1:]) && u.normal(r.head)
	}
	return resolvePath(u, ref)
}

// withTarget joins an origin, or origin and path, of u with the rest.
func withTarget[T text](u URL, head string, rest T) resolved[T] {
	return resolved[T]{head: head, tail: rest, host: u.host, path: u.path}
}

func (r *resolved[T]) fits() bool { return len(r.head)+len(r.tail) <= MaxLen }

// basePath is the URL without its query.
func (u URL) basePath() string {
	if i := strings.IndexByte(u.s[u.path:], '?'); i >= 0 {
		return u.s[:int(u.path)+i]
	}
	return u.s
}

// resolvePath resolves a path-relative reference: plain dot segments are
// allowed at its start, where links have them; elsewhere it declines.
func resolvePath[T text](u URL, ref T) (r resolved[T], ok bool) {
	dir := u.basePath()
	dir = dir[:strings.LastIndexByte(dir, '/')+1]
	for len(ref) > 0 && ref[0] == '.' {
		switch {
		case len(ref) == 1 || ref[1] == '/':
			ref = ref[min(len(ref), 2):]
			continue
		case ref[1] == '.' && (len(ref) == 2 || ref[2] == '/'):
			ref = ref[min(len(ref), 3):]
			dir = u.parent(dir)
			continue
		}
		break
	}
	// dir ends with a slash: a rest without a leading slash begins a segment.
	r = withTarget(u, dir, ref)
	return r, r.fits() && !dotSegment(ref) && fastTarget(ref) && u.normal(dir)
}

// normal tells whether the beginning of u is canonical without the rest: a stray
// percent sign keeps the encodings before it as they are.
func (u URL) normal(head string) bool {
	return strings.IndexByte(head, '%') < 0 || fastTarget(head[u.path:])
}

// parent drops the last segment of a directory of u, but never the root.
func (u URL) parent(dir string) string {
	if len(dir) == int(u.path)+1 {
		return dir
	}
	return dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1]
}
