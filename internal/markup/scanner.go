// Package markup owns splitting HTML, and XML that is read like it, into tags,
// attributes, text and comments, by the states of the WHATWG tokenizer that
// matter to who builds no tree. It refuses trees, tables of entities of its own,
// and what tags and URLs mean.
//
// It works on the whole text in memory and copies nothing but what must change:
// names with capitals, values and texts with character references, NULs or
// carriage returns. Any input takes time in proportion to its length, and
// memory in proportion to the largest thing that is asked for.
package markup

import "bytes"

// Token is what Next found.
type Token uint8

// The tokens.
const (
	// End of the text. A tag that the text breaks off is none.
	End Token = iota
	// Text may come in several pieces, cut where markup might have begun.
	Text
	StartTag
	EndTag
	// Comment is also what is read as one: <?...>, <!...>, </3>.
	Comment
	Doctype
)

// Scanner splits one text. The zero Scanner has none: begin with Reset. What its
// methods return lies in the text or in the Scanner's own memory, is not to be
// written to, and holds until the next Next.
type Scanner struct {
	src  []byte
	pos  int // where the next token begins
	xml  bool
	next content // of the element that the last start tag opened

	from, to int     // the name of the tag, or the text or comment
	text     content // how the text is to be read
	folds    bool    // the name has bytes to be changed
	closed   bool    // the tag ends with "/>"

	attrs   [16]attr // the first of the tag
	n       int      // how many
	rest    int      // where the others begin; 0: there are none
	visited int      // how many of attrs the caller has had; more: it has attr
	attr    attr     // one of the others

	scratch []byte // what had to be changed since the last Next
}

// maxScratch bytes are kept from page to page.
const maxScratch = 64 << 10

// Reset begins a text of HTML in UTF-8. src is not changed.
func (s *Scanner) Reset(src []byte) {
	s.begin(src)
	s.xml = false
}

// ResetXML begins a text of XML: no element holds anything but markup, and
// CDATA sections are text.
func (s *Scanner) ResetXML(src []byte) {
	s.begin(src)
	s.xml = true
}

func (s *Scanner) begin(src []byte) {
	s.src, s.pos, s.next = src, 0, data
	s.n, s.rest, s.visited = 0, 0, 0
	s.trim()
}

func (s *Scanner) trim() {
	s.scratch = s.scratch[:0]
	if cap(s.scratch) > maxScratch {
		s.scratch = nil
	}
}

// Next goes to the next token. After End it stays there.
func (s *Scanner) Next() Token {
	if len(s.scratch) > 0 {
		s.trim()
	}
	if s.next != data {
		if s.element() {
			return Text
		}
	}
	for {
		at := s.markupAt(s.pos)
		if at > s.pos {
			s.from, s.to, s.text, s.pos = s.pos, at, data, at
			return Text
		}
		if at == len(s.src) {
			return End
		}
		if !bytes.HasPrefix(s.src[at:], []byte("</>")) {
			return s.markup()
		}
		s.pos += len("</>") // nothing at all
	}
}

// markupAt finds the next markup at i or later; the end of the text if there is
// none. A less-than sign that begins nothing is text.
func (s *Scanner) markupAt(i int) int {
	src := s.src
	for {
		if i < len(src) && src[i] != '<' { // tags often follow each other
			n := bytes.IndexByte(src[i:], '<')
			if n < 0 {
				return len(src)
			}
			i += n
		}
		if i+1 >= len(src) {
			return len(src)
		}
		switch c := src[i+1]; {
		case class[c]&letter != 0, c == '!', c == '?':
			return i
		case c == '/' && i+2 < len(src):
			return i
		}
		i++
	}
}

// markup reads what begins with the less-than sign at pos.
func (s *Scanner) markup() Token {
	i := s.pos + 1
	switch c := s.src[i]; {
	case c == '!':
		return s.declaration(i + 1)
	case c == '?':
		return s.bogus(i)
	case c != '/':
		return s.startTag(i)
	case class[s.src[i+1]]&letter == 0:
		return s.bogus(i + 1)
	}
	if !s.tag(i + 1) {
		return End
	}
	s.n, s.rest = 0, 0 // those of end tags say nothing
	return EndTag
}

// declaration reads what begins with <! before i.
func (s *Scanner) declaration(i int) Token {
	rest := s.src[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("--")):
		return s.comment(i + 2)
	case len(rest) >= len("doctype") && bytes.EqualFold(rest[:len("doctype")], []byte("doctype")):
		s.bogus(i + len("doctype"))
		return Doctype
	case s.xml && bytes.HasPrefix(rest, []byte("[CDATA[")):
		i += len("[CDATA[")
		s.from, s.to, s.pos, s.text = i, len(s.src), len(s.src), rawText
		if n := bytes.Index(s.src[i:], []byte("]]>")); n >= 0 {
			s.to, s.pos = i+n, i+n+len("]]>")
		}
		return Text
	}
	return s.bogus(i)
}

// bogus reads a comment that ends with the first greater-than sign.
func (s *Scanner) bogus(i int) Token {
	s.from, s.to, s.pos, s.text = i, len(s.src), len(s.src), rawText
	if n := bytes.IndexByte(s.src[i:], '>'); n >= 0 {
		s.to, s.pos = i+n, i+n+1
	}
	return Comment
}

// comment reads on behind <!--: up to --> or --!>, or nothing if > or -> comes
// at once.
func (s *Scanner) comment(i int) Token {
	src := s.src
	s.from, s.text = i, rawText
	for at := i; ; {
		n := bytes.IndexByte(src[at:], '>')
		if n < 0 {
			said, text := src[i:], beforeEnd(src[i:])
			if len(text) == len(said) {
				text = bytes.TrimSuffix(said, []byte("-"))
			}
			s.to, s.pos = i+len(text), len(src)
			return Comment
		}
		at += n
		said := src[i:at]
		if text := beforeEnd(said); len(text) < len(said) {
			s.to, s.pos = i+len(text), at+1
			return Comment
		}
		at++
		if len(said) == 0 || len(said) == 1 && said[0] == '-' {
			s.to, s.pos = i, at
			return Comment
		}
	}
}

// beforeEnd drops the end of a comment without its greater-than sign.
func beforeEnd(b []byte) []byte {
	if text, ok := bytes.CutSuffix(b, []byte("--!")); ok {
		return text
	}
	return bytes.TrimSuffix(b, []byte("--"))
}

// Text is the text or the comment that Next found, its character references
// resolved, line breaks as line feeds.
func (s *Scanner) Text() []byte { return s.plain(s.src[s.from:s.to], s.text) }

// Name is that of the tag that Next found, in lower case.
func (s *Scanner) Name() []byte { return s.lower(s.src[s.from:s.to], s.folds) }

// SelfClosing tells a tag that ends with "/>". In HTML it says nothing about
// elements that are not drawings.
func (s *Scanner) SelfClosing() bool { return s.closed }

// HoldsMarkup says that the element of the start tag that Next found holds
// markup, although such elements hold raw text by default: a reader without
// scripts reads noscript.
func (s *Scanner) HoldsMarkup() { s.next = data }
