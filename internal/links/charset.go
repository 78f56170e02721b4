package links

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/gogs/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"

	"trawl/internal/markup"
)

const (
	nameUTF8 = "utf-8"
	// fallback is what browsers take for a page that says nothing.
	fallback = "windows-1252"

	prescanLen = 1024    // where a page must declare its charset
	sampleLen  = 8 << 10 // what the detector looks at
	certainty  = 20      // least confidence of the detector, of 100
)

// UTF8 gives the text of body in UTF-8 and the WHATWG name of the charset that
// it was in: by its byte order mark, else the Content-Type header, else its own
// declaration (meta, XML), else a guess. Without a byte order mark, a body that
// is UTF-8 already is returned as it is, not copied; bytes that the charset
// does not have become U+FFFD. The answer is a function of the arguments.
func UTF8(body []byte, contentType string) (text []byte, charset string) {
	charset, bom := bomOf(body)
	if charset == "" {
		charset = fromHeader(contentType)
	}
	if charset == "" {
		charset = declared(body)
	}
	if charset == "" {
		charset = guess(body)
	}
	body = body[bom:]
	if charset == nameUTF8 {
		if utf8.Valid(body) {
			return body, nameUTF8
		}
		return bytes.ToValidUTF8(body, []byte("\uFFFD")), nameUTF8
	}
	e := lookup(charset)
	if e == nil {
		return bytes.ToValidUTF8(body, []byte("\uFFFD")), nameUTF8
	}
	text, err := e.NewDecoder().Bytes(body)
	if err != nil {
		return bytes.ToValidUTF8(body, []byte("\uFFFD")), nameUTF8
	}
	return text, charset
}

func bomOf(b []byte) (charset string, n int) {
	switch {
	case bytes.HasPrefix(b, []byte{0xef, 0xbb, 0xbf}):
		return nameUTF8, 3
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return "utf-16le", 2
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return "utf-16be", 2
	}
	return "", 0
}

// canonicalName is the WHATWG name of a label, "" if there is none.
func canonicalName(label string) string {
	if strings.EqualFold(label, nameUTF8) {
		return nameUTF8
	}
	e, err := htmlindex.Get(strings.TrimSpace(label))
	if err != nil {
		return ""
	}
	name, err := htmlindex.Name(e)
	if err != nil || name == "replacement" {
		return ""
	}
	return name
}

func lookup(name string) encoding.Encoding {
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil
	}
	return e
}

// fromHeader reads the common form of a Content-Type by itself: the general
// reader takes a map.
func fromHeader(contentType string) string {
	kind, rest, more := strings.Cut(contentType, ";")
	if rest = strings.TrimSpace(rest); simple(strings.TrimSpace(kind)) {
		const key = "charset="
		switch n := min(len(rest), len(key)); {
		case !more:
			return ""
		case strings.EqualFold(rest[:n], key) && len(rest) > n && simple(rest[n:]):
			return canonicalName(rest[n:])
		}
	}
	return anyHeader(contentType)
}

// simple words mean the same to every reader of a Content-Type.
func simple(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '-' && c <= '9' || c == '_' || c == '+') {
			return false
		}
	}
	return true
}

func anyHeader(contentType string) string {
	if _, params, err := mime.ParseMediaType(contentType); err == nil {
		return canonicalName(params["charset"])
	}
	return canonicalName(charsetParam(contentType))
}

// charsetParam finds charset=x in a string that need not be well-formed.
func charsetParam(s string) string {
	s = strings.ToLower(s)
	for {
		i := strings.Index(s, "charset")
		if i < 0 {
			return ""
		}
		s = strings.TrimLeft(s[i+len("charset"):], " \t\r\n\f")
		if !strings.HasPrefix(s, "=") {
			continue
		}
		s = strings.TrimLeft(s[1:], " \t\r\n\f")
		if s != "" && (s[0] == '"' || s[0] == '\'') {
			value, _, _ := strings.Cut(s[1:], s[:1])
			return value
		}
		if i := strings.IndexAny(s, "; \t\r\n\f"); i >= 0 {
			return s[:i]
		}
		return s
	}
}

// declared reads the declaration within the first bytes of the page. A page
// whose declaration we can read as ASCII is not in UTF-16.
func declared(body []byte) string {
	name := prescan(body[:min(len(body), prescanLen)])
	if strings.HasPrefix(name, "utf-16") {
		return nameUTF8
	}
	if name == "x-user-defined" {
		return fallback
	}
	return name
}

func prescan(b []byte) string {
	if bytes.HasPrefix(b, []byte("<?xml")) {
		head, _, _ := bytes.Cut(b, []byte("?>"))
		if _, v, ok := strings.Cut(string(head), "encoding"); ok {
			if name := canonicalName(charsetParam("charset" + v)); name != "" {
				return name
			}
		}
	}
	var z markup.Scanner
	for z.Reset(b); ; {
		switch z.Next() {
		case markup.End:
			return ""
		case markup.StartTag:
			if string(z.Name()) == "meta" {
				if c := metaCharset(&z); c != "" {
					return c
				}
			}
		}
	}
}

// metaCharset reads <meta charset> and <meta http-equiv=content-type content>.
func metaCharset(z *markup.Scanner) string {
	var charset []byte
	var a attrs
	for z.NextAttr() {
		p := a.slot(z.Key())
		if string(z.Key()) == "charset" {
			p = &charset
		}
		if p != nil && *p == nil {
			*p = z.Value()
		}
	}
	label := string(charset)
	if label == "" && isWord(a.equiv, "content-type") {
		label = charsetParam(string(a.content))
	}
	return canonicalName(label)
}

// guess takes valid UTF-8 for what it is; otherwise the surest answer of the
// detector counts, of equally sure ones the first by name, because the
// detector's own order differs from run to run.
func guess(body []byte) string {
	if validPrefix(body) {
		return nameUTF8
	}
	results, err := chardet.NewHtmlDetector().DetectAll(body[:min(len(body), sampleLen)])
	if err != nil {
		return fallback
	}
	best, sure := "", certainty
	for _, r := range results {
		name := canonicalName(detectorName(r.Charset))
		if name == "" || name == nameUTF8 || r.Confidence < sure || (r.Confidence == sure && best != "" && best <= name) {
			continue
		}
		best, sure = name, r.Confidence
	}
	if best == "" {
		return fallback
	}
	return best
}

// validPrefix forgives a last character that a cut body broke off.
func validPrefix(b []byte) bool {
	for i := 0; i < utf8.UTFMax && len(b) > 0; i++ {
		if r, n := utf8.DecodeLastRune(b); r != utf8.RuneError || n != 1 {
			break
		}
		b = b[:len(b)-1]
	}
	return utf8.Valid(b)
}

func detectorName(s string) string {
	switch s {
	case "GB-18030":
		return "gb18030"
	case "ISO-8859-8-I":
		return "iso-8859-8"
	}
	return s
}

// queryIn percent-encodes the query of a reference in the page's charset, as
// browsers do; paths are always UTF-8.
func queryIn(charset string, ref []byte) []byte {
	if charset == "" || charset == nameUTF8 || strings.HasPrefix(charset, "utf-16") || ascii(ref) {
		return ref
	}
	head, fragment, hashed := strings.Cut(string(ref), "#")
	path, query, ok := strings.Cut(head, "?")
	e := lookup(charset)
	if !ok || e == nil || ascii(query) {
		return ref
	}
	encoded, err := encoding.HTMLEscapeUnsupported(e.NewEncoder()).String(query)
	if err != nil {
		return ref
	}
	b := make([]byte, 0, len(path)+3*len(encoded)+len(fragment)+2)
	b = append(append(b, path...), '?')
	b = appendHigh(b, encoded)
	if hashed {
		b = append(append(b, '#'), fragment...)
	}
	return b
}

func ascii[T string | []byte](b T) bool {
	for i := range len(b) {
		if b[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendHigh encodes the bytes that are not ASCII, and the whole of a character
// reference: the encoder put it for a character that the charset does not have,
// for the query itself holds no number sign.
func appendHigh(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	reference := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		reference = reference || strings.HasPrefix(s[i:], "&#")
		if c >= utf8.RuneSelf || (reference && (c == '&' || c == '#' || c == ';')) {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
			reference = reference && c != ';'
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
