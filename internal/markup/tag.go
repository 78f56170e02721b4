package markup

import (
	"bytes"
	"unicode/utf8"
)

// Classes of bytes.
const (
	letter  = 1 << iota // ASCII
	space               // between attributes
	endName             // ends the name of a tag
	endKey              // ends the name of an attribute
	folds               // is not written in a name as it is: a capital or NUL
	changes             // may stand for something else in a text or value
)

var class = func() (t [256]byte) {
	for c := 'a'; c <= 'z'; c++ {
		t[c] = letter
		t[c-'a'+'A'] = letter | folds
	}
	for _, c := range " \t\n\f\r" {
		t[c] = space | endName | endKey
	}
	t['/'], t['>'], t['='] = endName|endKey, endName|endKey, endKey
	t[0], t['&'] = folds|changes, changes
	t['\r'] |= changes
	return t
}()

// attr is an attribute in the text.
type attr struct {
	key, keyEnd int
	val, valEnd int // empty where there is none
	folds       bool
}

// startTag reads the start tag whose name begins at i.
func (s *Scanner) startTag(i int) Token {
	if !s.tag(i) {
		return End
	}
	if !s.xml {
		s.next = contentOf(s.Name())
	}
	return StartTag
}

// tag reads a tag whose name begins at i up to its end; false if it has none.
func (s *Scanner) tag(i int) bool {
	src := s.src
	s.from = i
	var seen byte
	for i < len(src) && class[src[i]]&endName == 0 {
		seen |= class[src[i]]
		i++
	}
	s.to, s.folds = i, seen&folds != 0
	s.n, s.rest, s.visited = 0, 0, 0
	for {
		a := &s.attr
		if s.n < len(s.attrs) {
			a = &s.attrs[s.n]
		}
		start, more := i, false
		if i, more = s.attribute(i, a); !more {
			s.pos = i
			return i > start && src[i-1] == '>'
		}
		switch {
		case s.n < len(s.attrs):
			s.n++
		case s.rest == 0:
			s.rest = start
		}
	}
}

// attribute reads one attribute at i or later, and gives where it ends. If the
// tag ends first, more is false, and end is behind its greater-than sign, or the
// end of the text, which may break off the tag anywhere.
func (s *Scanner) attribute(i int, a *attr) (end int, more bool) {
	src := s.src
	for s.closed = false; ; i++ {
		if i = skipSpace(src, i); i == len(src) {
			return i, false
		}
		if src[i] == '>' {
			return i + 1, false
		}
		if src[i] != '/' {
			break
		}
		if i+1 < len(src) && src[i+1] == '>' {
			s.closed = true
			return i + 2, false
		}
	}
	a.key = i
	seen := class[src[i]] // may be an equals sign
	for i++; i < len(src) && class[src[i]]&endKey == 0; i++ {
		seen |= class[src[i]]
	}
	a.keyEnd, a.val, a.valEnd, a.folds = i, i, i, seen&folds != 0
	if i = skipSpace(src, i); i == len(src) || src[i] != '=' {
		return i, true
	}
	a.val, a.valEnd, i = value(src, skipSpace(src, i+1))
	return i, true
}

// value reads the value that begins at i, and gives where what follows begins.
func value(src []byte, i int) (from, to, end int) {
	if i == len(src) {
		return i, i, i
	}
	if quote := src[i]; quote == '"' || quote == '\'' {
		i++
		n := bytes.IndexByte(src[i:], quote)
		if n < 0 {
			return i, len(src), len(src)
		}
		return i, i + n, i + n + 1
	}
	from = i
	for i < len(src) && src[i] != '>' && class[src[i]]&space == 0 {
		i++
	}
	return from, i, i
}

func skipSpace(src []byte, i int) int {
	for i < len(src) && class[src[i]]&space != 0 {
		i++
	}
	return i
}

// NextAttr goes to the next attribute of the start tag that Next found. An
// attribute may come twice: the first counts.
func (s *Scanner) NextAttr() bool {
	if s.visited < s.n {
		s.visited++
		return true
	}
	if s.rest == 0 {
		return false
	}
	closed, more := s.closed, false
	if s.rest, more = s.attribute(s.rest, &s.attr); !more {
		s.rest = 0
	}
	s.visited, s.closed = len(s.attrs)+1, closed
	return more
}

// Key is the name of the attribute, in lower case.
func (s *Scanner) Key() []byte {
	a := s.current()
	return s.lower(s.src[a.key:a.keyEnd], a.folds)
}

// Value is the value of the attribute, its character references resolved; empty,
// not nil, if it has none.
func (s *Scanner) Value() []byte {
	a := s.current()
	return s.plain(s.src[a.val:a.valEnd], attrValue)
}

// current is the attribute that NextAttr went to.
func (s *Scanner) current() *attr {
	if s.visited > len(s.attrs) {
		return &s.attr
	}
	return &s.attrs[s.visited-1]
}

// lower gives a name as it is compared: in lower case, U+FFFD for NUL.
func (s *Scanner) lower(name []byte, folds bool) []byte {
	if !folds {
		return name
	}
	from := len(s.scratch)
	for _, c := range name {
		switch {
		case c == 0:
			s.scratch = utf8.AppendRune(s.scratch, utf8.RuneError)
		case 'A' <= c && c <= 'Z':
			s.scratch = append(s.scratch, c+'a'-'A')
		default:
			s.scratch = append(s.scratch, c)
		}
	}
	return s.scratch[from:len(s.scratch):len(s.scratch)]
}
