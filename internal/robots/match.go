package robots

import "strings"

// robotsPath may always be requested: a site cannot forbid its rules.
const robotsPath = "/robots.txt"

// Allowed tells whether a request target (path and query, beginning with "/")
// may be requested: the longest rule that matches decides, allow at a tie; no
// rule means yes.
func (r Rules) Allowed(target string) bool {
	allowed, _ := r.Decide(target)
	return allowed
}

// Decide is Allowed together with the rule that decided, written as a line of
// robots.txt; "" if none did.
func (r Rules) Decide(target string) (allowed bool, line string) {
	if len(r.rules) == 0 || target == robotsPath || strings.HasPrefix(target, robotsPath+"?") {
		return true, ""
	}
	target = normalTarget(target)
	for i := range r.rules {
		if matches(r.rules[i].pattern, target) {
			return r.rules[i].allow, r.rules[i].String()
		}
	}
	return true, ""
}

// String is the rule as a line of robots.txt.
func (r rule) String() string {
	if r.allow {
		return "Allow: " + r.pattern
	}
	return "Disallow: " + r.pattern
}

// matches tells whether the pattern matches a prefix of the target, or all of
// it if the pattern ends with '$'. Every piece between wildcards is taken where
// it is found first, which is never worse than later, so nothing is tried
// twice and the time is linear in pattern and target.
func matches(pattern, target string) bool {
	star := strings.IndexByte(pattern, '*')
	if star < 0 {
		if n := len(pattern) - 1; n >= 0 && pattern[n] == '$' {
			return target == pattern[:n]
		}
		return strings.HasPrefix(target, pattern)
	}
	if !strings.HasPrefix(target, pattern[:star]) {
		return false
	}
	pattern, target = pattern[star+1:], target[star:]
	for {
		star = strings.IndexByte(pattern, '*')
		if star < 0 {
			break
		}
		i := strings.Index(target, pattern[:star])
		if i < 0 {
			return false
		}
		pattern, target = pattern[star+1:], target[i+star:]
	}
	if n := len(pattern) - 1; n >= 0 && pattern[n] == '$' {
		return strings.HasSuffix(target, pattern[:n])
	}
	return strings.Contains(target, pattern)
}

// A comparison is made between normal forms: percent-encodings of unreserved
// characters are decoded, all others have upper-case digits, and bytes that a
// URI cannot hold are encoded. '*' and '$' of a target are encoded, as the
// pattern that means them literally must write them.

const upperHex = "0123456789ABCDEF"

// byte classes
const (
	plain  = iota // unreserved or reserved: stands for itself
	encode        // cannot stand in a URI
)

var class, unreserved = classes()

func classes() (class [256]uint8, unreserved [256]bool) {
	for c := range 256 {
		b := byte(c)
		switch {
		case isLetter(b), b >= '0' && b <= '9', strings.IndexByte("-._~", b) >= 0:
			unreserved[c] = true
		case b != 0 && strings.IndexByte(":/?#[]@!&'()+,;=%", b) >= 0:
		default:
			class[c] = encode
		}
	}
	return class, unreserved
}

// normalTarget allocates only if something changes.
func normalTarget(s string) string {
	for i := 0; i < len(s); i++ {
		if class[s[i]] != plain || s[i] == '%' {
			return string(appendNormal(make([]byte, 0, len(s)+16), s, ""))
		}
	}
	return s
}

// normalPattern gives the normal form of a rule's value; !ok if it can match
// nothing that counts. A pattern that is too long is cut if it forbids, which
// then forbids more, and dropped if it allows.
func normalPattern(value string, allow bool) (string, bool) {
	if value == "" || (value[0] != '/' && value[0] != '*') {
		return "", false
	}
	body, anchor := strings.CutSuffix(value, "$")
	out := appendNormal(make([]byte, 0, len(value)+8), body, "*")
	if anchor {
		out = append(out, '$')
	}
	if len(out) <= maxPattern {
		return string(out), true
	}
	if allow {
		return "", false
	}
	return cutPattern(string(out), maxPattern), true
}

// cutPattern shortens a pattern to at most n bytes, never inside a
// percent-encoding. What is left matches whatever the whole did.
func cutPattern(p string, n int) string {
	if len(p) <= n {
		return p
	}
	for i := max(n-2, 0); i < n; i++ {
		if p[i] == '%' {
			return p[:max(i, 1)]
		}
	}
	return p[:n]
}

// appendNormal appends the normal form of s; bytes in keep stand for
// themselves.
func appendNormal(dst []byte, s, keep string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b := unhex(s[i+1])<<4 | unhex(s[i+2])
			if unreserved[b] {
				dst = append(dst, b)
			} else {
				dst = append(dst, '%', upperHex[b>>4], upperHex[b&15])
			}
			i += 2
		case class[c] == plain || strings.IndexByte(keep, c) >= 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
