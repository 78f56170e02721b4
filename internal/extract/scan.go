package extract

import (
	"bytes"
	"net/url"
	"unicode"
	"unicode/utf8"

	"trawl/internal/markup"
)

// scan is what one pass over a page finds. Its buffers are used again.
type scan struct {
	title, description, language, canonical []byte

	text        []byte
	headings    []byte
	headingEnds []int
	links       int

	skip     element // whose content is no text; 0: none
	depth    int     // how often it is open
	inTitle  bool
	titled   bool // the first title counts; others belong to drawings
	heading  int  // beginning of the open heading in headings; -1: none
	ogTitle  []byte
	textFull bool

	z markup.Scanner
}

// reset lets go of what the page before left, but for room that the next may need.
func (s *scan) reset() {
	s.title, s.description, s.language, s.canonical = s.title[:0], s.description[:0], s.language[:0], s.canonical[:0]
	s.text, s.headings, s.headingEnds, s.ogTitle = s.text[:0], s.headings[:0], s.headingEnds[:0], s.ogTitle[:0]
	s.links, s.skip, s.depth, s.heading = 0, 0, 0, -1
	s.inTitle, s.titled, s.textFull = false, false, false
	if cap(s.text) > 2*MaxText {
		s.text = nil
	}
	s.z.Reset(nil)
}

// plain takes the text as it is, with its first line as the title.
func (s *scan) plain(text []byte) {
	s.add(&s.text, text, MaxText)
	trimmed := bytes.TrimSpace(text[:min(len(text), 4*maxTitle)])
	line, _, _ := bytes.Cut(trimmed, []byte("\n"))
	s.add(&s.title, cut(line, 200), maxTitle)
	s.finish()
}

// html reads the page in one pass.
func (s *scan) html(text []byte) {
	for s.z.Reset(text); ; {
		switch s.z.Next() {
		case markup.End:
			s.finish()
			return
		case markup.Text:
			if s.skip == 0 {
				s.characters(s.z.Text())
			}
		case markup.StartTag:
			s.open(elementOf(s.z.Name()), s.z.SelfClosing())
		case markup.EndTag:
			s.close(elementOf(s.z.Name()))
		}
	}
}

// finish closes what the page left open and fills in what it did not say.
func (s *scan) finish() {
	s.endHeading()
	if len(s.title) == 0 {
		s.title = append(s.title, s.ogTitle...)
	}
	if len(s.title) == 0 && len(s.headingEnds) > 0 {
		s.title = append(s.title, s.headings[:s.headingEnds[0]]...)
	}
	for _, b := range []*[]byte{&s.text, &s.title, &s.description} {
		*b = bytes.TrimRight(*b, " ")
	}
}

func (s *scan) open(e element, selfClosing bool) {
	if e == main || e == article {
		s.skip, s.depth = 0, 0 // the page itself: somebody forgot to close the navigation
	}
	switch {
	case s.skip != 0:
		if e == s.skip && !selfClosing {
			s.depth++
		}
		if e == anchor {
			s.anchor() // a link in the navigation is a link
		}
		return
	case e.silent():
		// Raw text elements are one token up to their end tag, also when they
		// are written as if they closed themselves; drawings do close.
		if !selfClosing || e == script || e == style || e == textarea {
			s.skip, s.depth = e, 1
		}
		return
	}
	if e.apart() {
		s.space()
	}
	switch e {
	case anchor, area:
		s.anchor()
	case title:
		s.inTitle = !selfClosing
	case root:
		if len(s.language) == 0 {
			s.lang()
		}
	case meta:
		s.meta()
	case link:
		s.link()
	case heading:
		s.endHeading()
		if len(s.headingEnds) < maxHeadings {
			s.heading = len(s.headings)
		}
	}
}

func (s *scan) close(e element) {
	if s.skip != 0 {
		if e == s.skip {
			if s.depth--; s.depth == 0 {
				s.skip = 0
				s.space()
			}
		}
		// Nobody closes these in the middle of a page: an unclosed one must not
		// swallow the rest.
		if e == body || e == root || e == main {
			s.skip, s.depth = 0, 0
		}
		return
	}
	switch e {
	case title:
		if s.inTitle {
			s.inTitle, s.titled = false, true
		}
	case heading:
		s.endHeading()
	}
	if e.apart() {
		s.space()
	}
}

// characters go to the title, or to the text and the open heading.
func (s *scan) characters(text []byte) {
	switch {
	case s.inTitle && s.titled:
	case s.inTitle:
		s.add(&s.title, text, maxTitle)
	default:
		if !s.textFull {
			s.add(&s.text, text, MaxText)
			s.textFull = len(s.text) >= MaxText-utf8.UTFMax
		}
		if s.heading >= 0 {
			s.add(&s.headings, text, s.heading+maxHeading)
		}
	}
}

// space ends a word.
func (s *scan) space() {
	if n := len(s.text); n > 0 && s.text[n-1] != ' ' && !s.textFull {
		s.text = append(s.text, ' ')
	}
	if n := len(s.headings); s.heading >= 0 && n > s.heading && s.headings[n-1] != ' ' {
		s.headings = append(s.headings, ' ')
	}
}

func (s *scan) endHeading() {
	if s.heading < 0 {
		return
	}
	s.headings = append(s.headings[:s.heading], bytes.TrimSpace(s.headings[s.heading:])...)
	if len(s.headings) > s.heading {
		s.headingEnds = append(s.headingEnds, len(s.headings))
	}
	s.heading = -1
}

// add appends text to dst up to limit bytes in all, with every run of white
// space as one blank, none at the beginning of dst.
func (s *scan) add(dst *[]byte, text []byte, limit int) {
	out := *dst
	blank := len(out) == 0 || out[len(out)-1] == ' '
	if dst == &s.headings && len(out) == s.heading {
		blank = true
	}
	for i := 0; i < len(text) && len(out) < limit; {
		if n := wordsLen(text[i:]); n > 0 {
			out = append(out, text[i:i+min(n, limit-len(out))]...)
			blank = out[len(out)-1] == ' '
			i += n
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case !isSpace(r):
			if len(out)+n > limit {
				*dst = out
				return
			}
			out, blank = append(out, text[i:i+n]...), false
		case !blank:
			out, blank = append(out, ' '), true
		}
		i += n
	}
	*dst = out
}

// isSpace is unicode.IsSpace, but for the vertical tab, which is none in HTML.
func isSpace(r rune) bool { return r != '\v' && unicode.IsSpace(r) }

// value is the value of an attribute of the tag, nil if there is none.
func (s *scan) value(name string) []byte {
	for s.z.NextAttr() {
		if string(s.z.Key()) == name {
			return s.z.Value()
		}
	}
	return nil
}

func (s *scan) anchor() {
	if len(s.value("href")) > 0 {
		s.links++
	}
}

func (s *scan) lang() {
	var lang, xmlLang []byte
	for s.z.NextAttr() {
		switch string(s.z.Key()) {
		case "lang":
			first(&lang, s.z.Value())
		case "xml:lang":
			first(&xmlLang, s.z.Value())
		}
	}
	if s.add(&s.language, lang, maxLanguage); len(s.language) == 0 {
		s.add(&s.language, xmlLang, maxLanguage)
	}
}

// first keeps the first of attributes that come twice.
func first(p *[]byte, value []byte) bool {
	if *p != nil {
		return false
	}
	*p = value
	return true
}

func (s *scan) meta() {
	var name, property, equiv, content []byte
	var said []byte // the last of the first three
	for s.z.NextAttr() {
		p := &content
		switch string(s.z.Key()) {
		case "name":
			p = &name
		case "property":
			p = &property
		case "http-equiv":
			p = &equiv
		case "content":
		default:
			continue
		}
		if first(p, s.z.Value()) && p != &content {
			said = *p
		}
	}
	var low [len("content-language")]byte
	if len(said) > len(low) {
		return
	}
	for i, c := range said {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	switch string(low[:len(said)]) {
	case "description":
		s.description = s.description[:0]
		s.add(&s.description, content, maxDescription)
	case "og:description":
		if len(s.description) == 0 {
			s.add(&s.description, content, maxDescription)
		}
	case "og:title":
		if len(s.ogTitle) == 0 {
			s.add(&s.ogTitle, content, maxTitle)
		}
	case "content-language":
		if len(s.language) == 0 {
			s.add(&s.language, content, maxLanguage)
		}
	}
}

func (s *scan) link() {
	var rel, href []byte
	for s.z.NextAttr() {
		switch string(s.z.Key()) {
		case "rel":
			first(&rel, s.z.Value())
		case "href":
			first(&href, s.z.Value())
		}
	}
	if len(s.canonical) > 0 || len(href) > maxCanonical {
		return
	}
	for word := range bytes.FieldsSeq(rel) {
		if bytes.EqualFold(word, []byte("canonical")) {
			s.canonical = append(s.canonical, bytes.TrimSpace(href)...)
			return
		}
	}
}

// canonicalOf resolves what the page calls its canonical URL; nothing that is
// no http URL.
func (s *scan) canonicalOf(base string) []byte {
	if len(s.canonical) == 0 {
		return nil
	}
	b, err := url.Parse(base)
	if err != nil {
		return nil
	}
	u, err := b.Parse(string(s.canonical))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil
	}
	u.Fragment = ""
	return cut([]byte(u.String()), maxCanonical)
}

// languageOf is the page's own word, else the header's first.
func (s *scan) languageOf(header string) []byte {
	if len(s.language) > 0 {
		return bytes.TrimSpace(s.language)
	}
	first, _, _ := bytes.Cut([]byte(header), []byte(","))
	return cut(bytes.TrimSpace(first), maxLanguage)
}
