// Package rawjson checks, compacts, searches and edits JSON as text. Numbers,
// strings and the order of members stay byte for byte as they were written, so
// no digit is lost, and nothing is built that nobody asks for. It refuses to
// know what a document means.
package rawjson

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of objects and arrays that Scan takes.
const MaxDepth = 200

// Problem says what is wrong with a text.
type Problem int

// The problems.
const (
	Syntax    Problem = iota // no JSON
	Encoding                 // not UTF-8, or half of a surrogate pair
	Deep                     // nested deeper than MaxDepth
	Duplicate                // an object with two members of one name
)

// Error is a text that Scan refuses.
type Error struct {
	Problem Problem
	At      int // byte offset in the text
	Reason  string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.At) }

// Member of an object: slices of its text. Name is what stands between the
// quotes, escapes and all.
type Member struct{ Name, Value []byte }

// Doc is a checked text without white space.
type Doc struct {
	Text    []byte
	Members []Member // of the text's object; none if it is no object
}

// Object says whether the text is an object.
func (d *Doc) Object() bool { return len(d.Text) > 0 && d.Text[0] == '{' }

// Scanner reads one text at a time. Its Doc is its own: it is good until the
// next Scan, apart from Text, which is given to the caller.
type Scanner struct {
	src  []byte
	at   int // next byte of src
	from int // first byte of src that is not yet in out
	out  []byte

	open   []frame
	names  []name // of the members of all open objects
	marked []mark // of the members of the outermost object
	doc    Doc
}

// frame is an open object or array.
type frame struct {
	object bool
	names  int // index of its first name
}

// name is a member's name within out.
type name struct {
	hash     uint64
	from, to int
}

// mark is a member of the outermost object within out.
type mark struct{ name, nameEnd, value, valueEnd int }

var scanners = sync.Pool{New: func() any { return new(Scanner) }}

// Get takes a Scanner from a pool.
func Get() *Scanner { return scanners.Get().(*Scanner) }

// Put gives a Scanner back; its Doc must not be used any more. Scratch of an
// unusually large text is dropped.
func Put(s *Scanner) {
	s.src, s.out = nil, nil
	clear(s.doc.Members)
	s.doc = Doc{Members: s.doc.Members[:0]}
	if cap(s.names) > 1<<14 || cap(s.marked) > 1<<12 {
		*s = Scanner{}
	}
	scanners.Put(s)
}

// Scan checks src and gives it without white space, in memory of its own. The
// error is an *Error. Time is linear in src, but for a logarithm in the number
// of an object's members.
func (s *Scanner) Scan(src []byte) (*Doc, error) {
	if !utf8.Valid(src) {
		return nil, badUTF8(src)
	}
	*s = Scanner{
		src: src, out: make([]byte, 0, len(src)),
		open: s.open[:0], names: s.names[:0], marked: s.marked[:0], doc: Doc{Members: s.doc.Members[:0]},
	}
	if err := s.text(); err != nil {
		return nil, err
	}
	s.flush(s.at)
	s.doc.Text = s.out
	for _, m := range s.marked {
		s.doc.Members = append(s.doc.Members, Member{s.out[m.name:m.nameEnd:m.nameEnd], s.out[m.value:m.valueEnd:m.valueEnd]})
	}
	return &s.doc, nil
}

func badUTF8(src []byte) error {
	at := 0
	for at < len(src) {
		r, n := utf8.DecodeRune(src[at:])
		if r == utf8.RuneError && n <= 1 {
			break
		}
		at += n
	}
	return &Error{Encoding, at, "not UTF-8: " + quoteBytes(src[at:min(at+4, len(src))])}
}

func quoteBytes(b []byte) string { return fmt.Sprintf("bytes % x", b) }

// flush copies what was passed up to end.
func (s *Scanner) flush(end int) {
	s.out = append(s.out, s.src[s.from:end]...)
	s.from = end
}

// pos is where src[i] is or will be in out.
func (s *Scanner) pos(i int) int { return len(s.out) + i - s.from }

// space passes white space and leaves it out.
func (s *Scanner) space() {
	if s.at >= len(s.src) || s.src[s.at] > ' ' {
		return
	}
	s.flush(s.at)
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\n', '\r', '\t':
			s.at++
			continue
		}
		break
	}
	s.from = s.at
}

func (s *Scanner) syntax(want string) error {
	if s.at >= len(s.src) {
		return &Error{Syntax, s.at, "not JSON: the text ends where " + want + " is wanted"}
	}
	n := s.at + 1
	for n < len(s.src) && n < s.at+12 || n < len(s.src) && !utf8.RuneStart(s.src[n]) {
		n++
	}
	return &Error{Syntax, s.at, fmt.Sprintf("not JSON: %q where %s is wanted", s.src[s.at:n], want)}
}

// text reads one value and nothing after it.
func (s *Scanner) text() error {
	s.space()
	for {
		opened, err := s.value()
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		done, err := s.after()
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	s.space()
	if s.at < len(s.src) {
		return s.syntax("the end")
	}
	return nil
}

// value reads a scalar or an empty object or array. opened says that it read
// the beginning of another one instead, up to its first value.
func (s *Scanner) value() (opened bool, err error) {
	if s.at >= len(s.src) {
		return false, s.syntax("a value")
	}
	switch c := s.src[s.at]; {
	case c == '"':
		_, err = s.str()
		return false, err
	case c == '{' || c == '[':
		return s.begin(c)
	case c == '-' || c >= '0' && c <= '9':
		return false, s.number()
	case c == 't':
		return false, s.literal("true")
	case c == 'f':
		return false, s.literal("false")
	case c == 'n':
		return false, s.literal("null")
	}
	return false, s.syntax("a value")
}

// begin opens an object or array; an empty one is closed again.
func (s *Scanner) begin(c byte) (opened bool, err error) {
	if len(s.open) == MaxDepth {
		return false, &Error{Deep, s.at, fmt.Sprintf("nested deeper than %d", MaxDepth)}
	}
	s.open = append(s.open, frame{c == '{', len(s.names)})
	s.at++
	s.space()
	if s.at < len(s.src) && s.src[s.at] == c+2 { // '}' and ']' are two after '{' and '['
		s.at++
		s.open = s.open[:len(s.open)-1]
		return false, nil
	}
	if c == '{' {
		return true, s.member()
	}
	return true, nil
}

// member reads a name and its colon.
func (s *Scanner) member() error {
	if s.at >= len(s.src) || s.src[s.at] != '"' {
		return s.syntax("a member's name")
	}
	n := name{from: s.pos(s.at) + 1}
	raw := s.at + 1
	escaped, err := s.str()
	if err != nil {
		return err
	}
	n.to = s.pos(s.at) - 1
	n.hash = hashOf(s.src[raw:s.at-1], escaped)
	s.names = append(s.names, n)
	s.space()
	if s.at >= len(s.src) || s.src[s.at] != ':' {
		return s.syntax("a colon")
	}
	s.at++
	s.space()
	if len(s.open) == 1 {
		s.marked = append(s.marked, mark{n.from, n.to, s.pos(s.at), 0})
	}
	return nil
}

// after closes what ends after a value, and reads on to the next one. done says
// that there is none.
func (s *Scanner) after() (done bool, err error) {
	for len(s.open) > 0 {
		f := s.open[len(s.open)-1]
		if len(s.open) == 1 && f.object {
			s.marked[len(s.marked)-1].valueEnd = s.pos(s.at)
		}
		s.space()
		if s.at >= len(s.src) {
			return false, s.syntax("a comma or a bracket")
		}
		c := s.src[s.at]
		switch {
		case c == ',':
			s.at++
			s.space()
			if f.object {
				return false, s.member()
			}
			return false, nil
		case c == '}' && f.object:
			if err := s.unique(f.names); err != nil {
				return false, err
			}
			s.names = s.names[:f.names]
		case c == ']' && !f.object:
		default:
			return false, s.syntax("a comma or a bracket")
		}
		s.at++
		s.open = s.open[:len(s.open)-1]
	}
	return true, nil
}

var seed = maphash.MakeSeed()

func hashOf(raw []byte, escaped bool) uint64 {
	if !escaped {
		return maphash.Bytes(seed, raw)
	}
	return maphash.Bytes(seed, Unescape(nil, raw))
}

// unique refuses two members of one name in the object whose names begin at
// index first. Escapes do not hide a name.
func (s *Scanner) unique(first int) error {
	names := s.names[first:]
	if len(names) <= 16 {
		for i := range names {
			for j := range i {
				if names[i].hash == names[j].hash && s.same(names[i], names[j]) {
					return s.twice(names[i])
				}
			}
		}
		return nil
	}
	slices.SortFunc(names, func(a, b name) int {
		if a.hash != b.hash {
			if a.hash < b.hash {
				return -1
			}
			return 1
		}
		return a.from - b.from
	})
	for i := 1; i < len(names); i++ {
		if names[i].hash == names[i-1].hash && s.same(names[i], names[i-1]) {
			return s.twice(names[i])
		}
	}
	return nil
}

// named gives the bytes of a name of an open object. Some of them may not be in
// out yet.
func (s *Scanner) named(n name) []byte {
	if n.to <= len(s.out) {
		return s.out[n.from:n.to]
	}
	s.flush(s.at)
	return s.out[n.from:n.to]
}

func (s *Scanner) same(a, b name) bool {
	return string(Unescape(nil, s.named(a))) == string(Unescape(nil, s.named(b)))
}

func (s *Scanner) twice(n name) error {
	return &Error{Duplicate, s.at, "an object has two members " + Show(s.named(n))}
}

func (s *Scanner) literal(word string) error {
	end := s.at + len(word)
	if end > len(s.src) || string(s.src[s.at:end]) != word {
		return s.syntax("a value")
	}
	s.at = end
	return nil
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *Scanner) number() error {
	if s.src[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.src) && s.src[s.at] == '0' {
		s.at++
	} else if !s.digits() {
		return s.syntax("a digit")
	}
	if s.at < len(s.src) && s.src[s.at] == '.' {
		s.at++
		if !s.digits() {
			return s.syntax("a digit")
		}
	}
	if s.at < len(s.src) && s.src[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.src) && (s.src[s.at] == '+' || s.src[s.at] == '-') {
			s.at++
		}
		if !s.digits() {
			return s.syntax("a digit")
		}
	}
	return nil
}

func (s *Scanner) digits() bool {
	from := s.at
	for s.at < len(s.src) && s.src[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > from
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str reads a string from its quote on. escaped says that it holds a backslash.
func (s *Scanner) str() (escaped bool, err error) {
	src, i := s.src, s.at+1
	for {
		for i+8 <= len(src) {
			w := binary.LittleEndian.Uint64(src[i:])
			quote, slash := w^(ones*'"'), w^(ones*'\\')
			if ((w-ones*0x20)&^w|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
				break
			}
			i += 8
		}
		for i < len(src) && src[i] != '"' && src[i] != '\\' && src[i] >= 0x20 {
			i++
			if i&7 == 0 && i+8 <= len(src) {
				break
			}
		}
		if i >= len(src) {
			s.at = i
			return false, s.syntax("the end of a string")
		}
		switch c := src[i]; {
		case c == '"':
			s.at = i + 1
			return escaped, nil
		case c == '\\':
			escaped = true
			s.at = i
			if err := s.escape(); err != nil {
				return false, err
			}
			i = s.at
		case c < 0x20:
			return false, &Error{Syntax, i, fmt.Sprintf("not JSON: control character %#02x within a string", c)}
		}
	}
}

// escape reads a backslash and what it belongs to.
func (s *Scanner) escape() error {
	if s.at+1 >= len(s.src) {
		s.at = len(s.src)
		return s.syntax("the end of a string")
	}
	switch s.src[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return nil
	case 'u':
	default:
		return s.syntax("an escape")
	}
	r, ok := hex4(s.src[s.at:])
	if !ok {
		return s.syntax(`\u and four hexadecimal digits`)
	}
	if r < 0xd800 || r > 0xdfff {
		s.at += 6
		return nil
	}
	low, ok := hex4(s.src[s.at+6:])
	if r > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
		return &Error{Encoding, s.at, fmt.Sprintf(`not UTF-8: %s is half of a surrogate pair`, s.src[s.at:s.at+6])}
	}
	s.at += 12
	return nil
}

// hex4 reads \uXXXX.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
