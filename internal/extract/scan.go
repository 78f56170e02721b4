package extract

import (
	"bytes"
	"net/url"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxToken bounds one token: a tag of more is damage or hostile. Text is not
// affected up to that size, and a page that exceeds it ends there.
const maxToken = 16 << 20

// scan is what one pass over a page finds. Its buffers are used again.
type scan struct {
	title, description, language, canonical []byte

	text        []byte
	headings    []byte
	headingEnds []int
	links       int

	skip     atom.Atom // the element whose content is no text; 0: none
	depth    int       // how often it is open
	inTitle  bool
	titled   bool // the first title counts; others belong to drawings
	heading  int  // beginning of the open heading in headings; -1: none
	ogTitle  []byte
	textFull bool
}

func (s *scan) reset() {
	*s = scan{
		title: s.title[:0], description: s.description[:0], language: s.language[:0], canonical: s.canonical[:0],
		text: s.text[:0], headings: s.headings[:0], headingEnds: s.headingEnds[:0], ogTitle: s.ogTitle[:0],
		heading: -1,
	}
	if cap(s.text) > 2*MaxText {
		s.text = nil
	}
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
	z := html.NewTokenizer(bytes.NewReader(text))
	z.SetMaxBuf(maxToken)
	for {
		switch z.Next() {
		case html.ErrorToken:
			s.finish()
			return
		case html.TextToken:
			s.characters(z.Text())
		case html.StartTagToken:
			s.open(z, elementOf(z.Raw()), false)
		case html.SelfClosingTagToken:
			s.open(z, elementOf(z.Raw()), true)
		case html.EndTagToken:
			s.close(elementOf(z.Raw()))
		}
	}
}

// elementOf reads the name out of a tag. The tokenizer's own TagName copies it,
// for every tag.
func elementOf(tag []byte) atom.Atom {
	var name [16]byte // longer than any that we know
	n := 0
	for _, c := range bytes.TrimPrefix(bytes.TrimPrefix(tag, []byte("<")), []byte("/")) {
		switch {
		case c == '>' || c == '/' || c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			return atom.Lookup(name[:n])
		case n == len(name):
			return 0
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		name[n] = c
		n++
	}
	return atom.Lookup(name[:n])
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

// silent elements hold no text of the page: code, drawings, forms' inner life,
// and the navigation that every page of a site repeats.
func silent(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Svg, atom.Math,
		atom.Nav, atom.Select, atom.Textarea, atom.Button, atom.Canvas, atom.Audio, atom.Video:
		return true
	}
	return false
}

// apart elements separate words even without white space between them.
func apart(a atom.Atom) bool {
	switch a {
	case atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Cite, atom.Code, atom.Data, atom.Del, atom.Dfn,
		atom.Em, atom.Font, atom.I, atom.Ins, atom.Kbd, atom.Mark, atom.Q, atom.S, atom.Samp, atom.Small, atom.Span,
		atom.Strong, atom.Sub, atom.Sup, atom.Time, atom.Tt, atom.U, atom.Var, atom.Wbr:
		return false
	}
	return true
}

func (s *scan) open(z *html.Tokenizer, a atom.Atom, selfClosing bool) {
	if a == atom.Main || a == atom.Article {
		s.skip, s.depth = 0, 0 // the page itself: somebody forgot to close the navigation
	}
	switch {
	case s.skip != 0:
		if a == s.skip && !selfClosing {
			s.depth++
		}
		if a == atom.A {
			s.anchor(z) // a link in the navigation is a link
		}
		return
	case silent(a):
		// Raw text elements are one token up to their end tag, also when they
		// are written as if they closed themselves; drawings do close.
		if !selfClosing || a == atom.Script || a == atom.Style || a == atom.Textarea {
			s.skip, s.depth = a, 1
		}
		return
	}
	if apart(a) {
		s.space()
	}
	switch a {
	case atom.A, atom.Area:
		s.anchor(z)
	case atom.Title:
		s.inTitle = !selfClosing
	case atom.Html:
		if len(s.language) == 0 {
			s.lang(z)
		}
	case atom.Meta:
		s.meta(z)
	case atom.Link:
		s.link(z)
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		s.endHeading()
		if len(s.headingEnds) < maxHeadings {
			s.heading = len(s.headings)
		}
	}
}

func (s *scan) close(a atom.Atom) {
	if s.skip != 0 {
		if a == s.skip {
			if s.depth--; s.depth == 0 {
				s.skip = 0
				s.space()
			}
		}
		// Nobody closes these in the middle of a page: an unclosed one must not
		// swallow the rest.
		if a == atom.Body || a == atom.Html || a == atom.Main {
			s.skip, s.depth = 0, 0
		}
		return
	}
	switch a {
	case atom.Title:
		if s.inTitle {
			s.inTitle, s.titled = false, true
		}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		s.endHeading()
	}
	if apart(a) {
		s.space()
	}
}

// characters go to the title, or to the text and the open heading.
func (s *scan) characters(text []byte) {
	switch {
	case s.skip != 0:
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
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text[i:])
			if unicode.IsSpace(r) {
				c = ' '
			} else {
				if len(out)+n > limit {
					break
				}
				out, blank = append(out, text[i:i+n]...), false
				i += n
				continue
			}
			i += n - 1
		}
		i++
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' {
			if !blank {
				out, blank = append(out, ' '), true
			}
			continue
		}
		from := i - 1
		for i < len(text) && text[i] > ' ' && text[i] < utf8.RuneSelf {
			i++
		}
		out, blank = append(out, text[from:min(i, from+limit-len(out))]...), false
	}
	*dst = out
}

func (s *scan) anchor(z *html.Tokenizer) {
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		if string(key) == "href" && len(value) > 0 {
			s.links++
			return
		}
	}
}

func (s *scan) lang(z *html.Tokenizer) {
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		if k := string(key); k == "lang" || k == "xml:lang" && len(s.language) == 0 {
			s.language = s.language[:0]
			s.add(&s.language, value, maxLanguage)
		}
	}
}

func (s *scan) meta(z *html.Tokenizer) {
	var name, content []byte
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "name", "property", "http-equiv":
			name = value
		case "content":
			content = value
		}
	}
	switch string(bytes.ToLower(name)) {
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

func (s *scan) link(z *html.Tokenizer) {
	canonical := false
	var href []byte
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "rel":
			for _, word := range bytes.Fields(value) {
				canonical = canonical || bytes.EqualFold(word, []byte("canonical"))
			}
		case "href":
			href = value
		}
	}
	if canonical && len(s.canonical) == 0 && len(href) <= maxCanonical {
		s.canonical = append(s.canonical, bytes.TrimSpace(href)...)
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
