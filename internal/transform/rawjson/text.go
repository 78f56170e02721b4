package rawjson

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind of a value, by its first byte.
func Kind(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// String gives the text of a string value. ok is false for any other value.
func String(raw []byte) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), true
	}
	return string(Unescape(make([]byte, 0, len(raw)), raw)), true
}

// Unescape appends what stands between the quotes of a checked string. Without
// an escape it gives raw itself.
func Unescape(dst, raw []byte) []byte {
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return raw
	}
	for i >= 0 {
		dst = append(dst, raw[:i]...)
		c := raw[i+1]
		raw = raw[i:]
		n := 2
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(raw)
			n = 6
			if utf16.IsSurrogate(r) {
				low, _ := hex4(raw[6:])
				r, n = utf16.DecodeRune(r, low), 12
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
		raw = raw[n:]
		i = bytes.IndexByte(raw, '\\')
	}
	return append(dst, raw...)
}

const digits = "0123456789abcdef"

// Quote appends text as a JSON string. Bytes that are no UTF-8 become U+FFFD.
func Quote(dst []byte, text string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, text[from:i]...)
				dst = append(dst, "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, text[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		}
		i++
		from = i
	}
	dst = append(dst, text[from:]...)
	return append(dst, '"')
}

// MaxShown is how much of a value a reason shows, in bytes.
const MaxShown = 80

// Show gives a value for people: one line, cut.
func Show(raw []byte) string {
	if len(raw) <= MaxShown {
		return printable(raw)
	}
	n := MaxShown
	for n > 0 && !utf8.RuneStart(raw[n]) {
		n--
	}
	return printable(raw[:n]) + "... (" + strconv.Itoa(len(raw)) + " bytes)"
}

// printable shows bytes as they are where that is one line of text.
func printable(raw []byte) string {
	for _, r := range string(raw) {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(string(raw))
		}
	}
	return string(raw)
}
