package markup

import (
	"bytes"
	"encoding/xml"
	"html"
	"strconv"
	"unicode/utf8"
)

// maxName is more than the longest name of a character.
const maxName = 40

// plain gives b as it is meant: with its references resolved, line feeds for
// carriage returns, and U+FFFD for NUL where text between tags does not keep it.
func (s *Scanner) plain(b []byte, kind content) []byte {
	refs := kind <= rcdata
	if (!refs || bytes.IndexByte(b, '&') < 0) && bytes.IndexByte(b, '\r') < 0 &&
		(kind == data || bytes.IndexByte(b, 0) < 0) {
		return b
	}
	from, out := len(s.scratch), s.scratch
	for i := 0; i < len(b); {
		start := i
		for i < len(b) && class[b[i]]&changes == 0 {
			i++
		}
		if out = append(out, b[start:i]...); i == len(b) {
			break
		}
		n := 1
		switch {
		case b[i] == '\r':
			if i+1 == len(b) || b[i+1] != '\n' {
				out = append(out, '\n')
			}
		case b[i] == '&' && refs:
			out, n = appendReference(out, b[i:], kind == attrValue)
		case b[i] == 0 && kind != data:
			out = utf8.AppendRune(out, utf8.RuneError)
		default:
			out = append(out, b[i])
		}
		i += n
	}
	s.scratch = out
	return out[from:len(out):len(out)]
}

// appendReference appends what the ampersand at the start of b stands for, and
// gives how many bytes of b that takes.
func appendReference(dst, b []byte, inAttr bool) ([]byte, int) {
	if len(b) > 1 && b[1] == '#' {
		return appendNumber(dst, b)
	}
	n := 1
	for n < len(b) && n < maxName && alphanumeric(b[n]) {
		n++
	}
	name := b[1:n]
	closed := n < len(b) && b[n] == ';'
	switch {
	case len(name) == 0:
		return append(dst, '&'), 1
	case closed:
		n++
		if c := common(name); c != "" {
			return append(dst, c...), n
		}
	case inAttr && n < len(b) && b[n] == '=':
		return append(dst, '&'), 1 // the next parameter of a query
	}
	found := html.UnescapeString(string(b[:n]))
	// In text, the beginning of a name may be one, too. Then the last byte is
	// still there, as it is if nothing was found; of all characters only the
	// semicolon has a name that ends with itself.
	if inAttr && len(found) > 1 && found[len(found)-1] == b[n-1] {
		return append(dst, '&'), 1
	}
	return append(dst, found...), n
}

// common names are those of HTML 4, found without an allocation; two of them
// mean something else by now. Two others the html package does not know, because
// they are shorter than what they stand for.
func common(name []byte) string {
	switch string(name) {
	case "amp":
		return "&"
	case "lang", "rang":
		return ""
	case "nGt":
		return "\u226b\u20d2"
	case "nLt":
		return "\u226a\u20d2"
	}
	return xml.HTMLEntity[string(name)]
}

// appendNumber is appendReference for &#...
func appendNumber(dst, b []byte) ([]byte, int) {
	i, base := len("&#"), rune(10)
	if i < len(b) && b[i]|0x20 == 'x' {
		i, base = i+1, 16
	}
	var r rune
	digits := i
	for ; i < len(b); i++ {
		d := digit(b[i])
		if d >= base {
			break
		}
		r = min(base*r+d, utf8.MaxRune+1)
	}
	if i == digits {
		return append(dst, '&'), 1
	}
	if i < len(b) && b[i] == ';' {
		i++
	}
	if r >= 0x80 && r <= 0x9f { // means windows-1252
		return append(dst, html.UnescapeString("&#"+strconv.Itoa(int(r))+";")...), i
	}
	if r == 0 {
		r = utf8.RuneError
	}
	return utf8.AppendRune(dst, r), i // U+FFFD for what is no character
}

// digit is the value of a hexadecimal digit, 16 for any other byte.
func digit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return 16
}

func alphanumeric(c byte) bool { return class[c]&letter != 0 || '0' <= c && c <= '9' }
