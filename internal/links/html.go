package links

import (
	"bytes"

	"trawl/internal/markup"
	"trawl/internal/weburl"
)

// HTML appends the locators of an HTML page in UTF-8 (see UTF8) whose URL is
// base, each once. Only tags are read, no tree is built. Links resolve against
// the first base element from where it stands.
func HTML(dst []Found, base weburl.URL, body []byte, opt Options) ([]Found, Meta) {
	f := newFinder(dst, base, HowLink, opt)
	f.z.Reset(body)
	based := false
	for {
		switch f.z.Next() {
		case markup.End:
			if f.meta.Nofollow && !opt.IgnoreMetaNofollow {
				f.forget()
			}
			return f.done()
		case markup.StartTag:
			t := tagOf(f.z.Name())
			if t == tagOpen {
				f.z.HoldsMarkup() // we are the reader without scripts and frames
			}
			based = f.tag(t, based)
		}
	}
}

// A tag is what the elements of one kind have in common.
type tag uint8

const (
	tagNone       tag = iota
	tagOpen           // holds what others do not show
	tagAnchor         // href
	tagBase           // href
	tagLink           // href by rel
	tagMeta           // content by http-equiv, name
	tagFrame          // src
	tagMedia          // src, srcset, poster, data, href: embedded
	tagBackground     // background: embedded
)

func tagOf(name []byte) tag {
	switch string(name) {
	case "a", "area":
		return tagAnchor
	case "noscript", "noframes":
		return tagOpen
	case "base":
		return tagBase
	case "link":
		return tagLink
	case "meta":
		return tagMeta
	case "frame", "iframe":
		return tagFrame
	case "img", "script", "source", "video", "audio", "track", "embed", "object", "input", "image":
		return tagMedia
	case "body", "table", "td", "th":
		return tagBackground
	}
	return tagNone
}

// attrs are the attributes that matter; of duplicates the first counts.
type attrs struct {
	href, src, srcset, rel, content, name, equiv, poster, data, background []byte
}

func (a *attrs) read(z *markup.Scanner) {
	for z.NextAttr() {
		if p := a.slot(z.Key()); p != nil && *p == nil {
			*p = z.Value()
		}
	}
}

func (a *attrs) slot(key []byte) *[]byte {
	switch string(key) {
	case "href", "xlink:href":
		return &a.href
	case "src":
		return &a.src
	case "srcset", "imagesrcset":
		return &a.srcset
	case "rel":
		return &a.rel
	case "content":
		return &a.content
	case "name":
		return &a.name
	case "http-equiv":
		return &a.equiv
	case "poster":
		return &a.poster
	case "data":
		return &a.data
	case "background":
		return &a.background
	}
	return nil
}

// tag handles one start tag and tells whether a base has been seen.
func (f *finder) tag(t tag, based bool) bool {
	if t <= tagOpen || (t >= tagMedia && !f.opt.Embedded) {
		return based
	}
	var a attrs
	a.read(&f.z)
	switch t {
	case tagAnchor:
		if !f.opt.RelNofollow || !nofollow(a.rel) {
			f.add(a.href, KindAnchor)
		}
	case tagBase:
		if !based && a.href != nil {
			f.setBase(a.href)
			based = true
		}
	case tagLink:
		f.link(&a)
	case tagMeta:
		f.metaTag(&a)
	case tagFrame:
		f.add(a.src, KindFrame)
	case tagMedia:
		for _, ref := range [...][]byte{a.src, a.href, a.poster, a.data} {
			f.add(ref, KindEmbedded)
		}
		f.srcset(a.srcset)
	case tagBackground:
		f.add(a.background, KindEmbedded)
	}
	return based
}

// link handles a link element by its rel.
func (f *finder) link(a *attrs) {
	switch kind := kindOfRel(a.rel); {
	case kind == relHint, f.opt.RelNofollow && nofollow(a.rel):
	case kind == relEmbedded:
		if f.opt.Embedded {
			f.add(a.href, KindEmbedded)
			f.srcset(a.srcset)
		}
	case kind == relCanonical:
		f.canonical(a.href)
	default:
		f.add(a.href, KindLink)
	}
}

func (f *finder) canonical(ref []byte) {
	start := len(f.room)
	if ref = trimSpace(ref); f.meta.Canonical == "" && !skip(ref) && f.resolve(ref) {
		f.meta.Canonical = string(f.room[start:])
		f.room = f.room[:start]
	}
	f.add(ref, KindCanonical)
}

// What a rel makes of a link.
const (
	relLink = iota
	relCanonical
	relEmbedded
	relHint // names a host, not a page
)

// kindOfRel reads a list of link types; the one that says most about the
// target counts.
func kindOfRel(rel []byte) int {
	kind := relLink
	for word := range fields(rel) {
		switch {
		case isWord(word, "canonical"):
			return relCanonical
		case isWord(word, "dns-prefetch"), isWord(word, "preconnect"), isWord(word, "pingback"):
			kind = max(kind, relHint)
		case isWord(word, "stylesheet"), isWord(word, "icon"), isWord(word, "preload"), isWord(word, "modulepreload"),
			isWord(word, "manifest"), isWord(word, "mask-icon"), isWord(word, "apple-touch-icon"),
			isWord(word, "apple-touch-icon-precomposed"), isWord(word, "apple-touch-startup-image"), isWord(word, "image_src"):
			kind = max(kind, relEmbedded)
		}
	}
	return kind
}

func nofollow(rel []byte) bool {
	for word := range fields(rel) {
		if isWord(word, "nofollow") || isWord(word, "ugc") || isWord(word, "sponsored") {
			return true
		}
	}
	return false
}

// fields is bytes.FieldsSeq on ASCII whitespace and commas.
func fields(b []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			i := 0
			for i < len(b) && b[i] > ' ' && b[i] != ',' {
				i++
			}
			if i > 0 && !yield(b[:i]) {
				return
			}
			b = b[min(i+1, len(b)):]
		}
	}
}

// isWord compares a word with a lower-case one without regard to ASCII case.
func isWord(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i := range b {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// metaTag handles refresh and robots.
func (f *finder) metaTag(a *attrs) {
	if isWord(a.equiv, "refresh") {
		f.refresh(a.content)
	}
	if isWord(a.name, "robots") {
		f.robots(a.content)
	}
}

// robots reads the directives of meta robots and X-Robots-Tag.
func (f *finder) robots(content []byte) {
	for word := range fields(content) {
		none := isWord(word, "none")
		f.meta.Nofollow = f.meta.Nofollow || none || isWord(word, "nofollow")
		f.meta.Noindex = f.meta.Noindex || none || isWord(word, "noindex")
	}
}

// refresh reads `5; url='next.html'` as HTML defines it. A refresh without a
// URL reloads the page itself and is no link.
func (f *finder) refresh(b []byte) {
	b = trimSpace(b)
	i := 0
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '.') {
		i++
	}
	if b = b[i:]; len(b) == 0 || (b[0] != ';' && b[0] != ',' && b[0] > ' ') {
		return
	}
	b = trimSpace(b)
	if len(b) > 0 && (b[0] == ';' || b[0] == ',') {
		b = trimSpace(b[1:])
	}
	if len(b) >= 3 && isWord(b[:3], "url") {
		if rest := trimSpace(b[3:]); len(rest) > 0 && rest[0] == '=' {
			b = trimSpace(rest[1:])
		}
	}
	if len(b) > 0 && (b[0] == '"' || b[0] == '\'') {
		quote := b[0]
		b = b[1:]
		if i := bytes.IndexByte(b, quote); i >= 0 {
			b = b[:i]
		}
	}
	f.add(b, KindRefresh)
}

// srcset reads the candidates of a srcset: a URL up to white space, then
// descriptors up to a comma outside of parentheses.
func (f *finder) srcset(b []byte) {
	for {
		for len(b) > 0 && (b[0] <= ' ' || b[0] == ',') {
			b = b[1:]
		}
		if len(b) == 0 {
			return
		}
		i := 0
		for i < len(b) && b[i] > ' ' {
			i++
		}
		ref := b[:i]
		b = b[i:]
		if n := len(ref); ref[n-1] == ',' {
			ref = bytes.TrimRight(ref, ",")
		} else {
			b = afterDescriptors(b)
		}
		f.add(ref, KindEmbedded)
	}
}

func afterDescriptors(b []byte) []byte {
	depth := 0
	for i, c := range b {
		switch {
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == ',' && depth == 0:
			return b[i+1:]
		}
	}
	return nil
}
