package extract

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// object appends the members of a JSON object. Empty strings and lists are left
// out: an index has nothing to say about them.
type object struct{ b []byte }

func (o *object) key(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) str(name, v string) {
	if v != "" {
		o.key(name)
		o.b = appendString(o.b, []byte(v))
	}
}

func (o *object) bytes(name string, v []byte) {
	if len(v) > 0 {
		o.key(name)
		o.b = appendString(o.b, v)
	}
}

func (o *object) number(name string, v int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, v, 10)
}

func (o *object) time(name string, t time.Time) {
	o.key(name)
	o.b = append(o.b, '"')
	o.b = t.UTC().AppendFormat(o.b, "2006-01-02T15:04:05.000Z")
	o.b = append(o.b, '"')
}

// list writes the pieces of v that end at ends.
func (o *object) list(name string, v []byte, ends []int) {
	if len(ends) == 0 {
		return
	}
	o.key(name)
	o.b = append(o.b, '[')
	from := 0
	for i, to := range ends {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendString(o.b, v[from:to])
		from = to
	}
	o.b = append(o.b, ']')
}

const hexDigits = "0123456789abcdef"

// plainByte tells the bytes that a JSON string holds as they are.
var plainByte = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\' && c != 0x7f
	}
	return t
}()

// appendString appends v as a JSON string. Bytes that are no UTF-8 become
// U+FFFD; the line separators that JavaScript minds are escaped.
func appendString(dst, v []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(v); {
		if i += plainLen(v[i:]); i == len(v) {
			break
		}
		c := v[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(v[i:])
			switch {
			case r == utf8.RuneError && n <= 1:
				dst = append(dst, v[from:i]...)
				dst = append(dst, `\ufffd`...)
				from = i + n
			case r == '\u2028' || r == '\u2029':
				dst = append(dst, v[from:i]...)
				dst = append(dst, `\u202`...)
				dst = append(dst, hexDigits[r&0xf])
				from = i + n
			}
			i += n
			continue
		}
		dst = append(dst, v[from:i]...)
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
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		from = i
	}
	dst = append(dst, v[from:]...)
	return append(dst, '"')
}

// cut bounds v to n bytes at the end of a character.
func cut[T string | []byte](v T, n int) T {
	if len(v) <= n {
		return v
	}
	for n > 0 && !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n]
}
