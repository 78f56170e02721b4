package links

import (
	"bytes"
	"strings"

	"trawl/internal/markup"
	"trawl/internal/page"
	"trawl/internal/weburl"
)

// Format is what a body is read as.
type Format uint8

// The formats.
const (
	FormatNone    Format = iota // holds no links that we read
	FormatHTML                  // also XHTML
	FormatSitemap               // urlset or sitemapindex
	FormatFeed                  // RSS, RDF, Atom
)

// FormatOf decides by the content type, and for XML and missing types by the
// first bytes. body may still be in its own charset.
func FormatOf(contentType string, body []byte) Format {
	kind, _, _ := strings.Cut(contentType, ";")
	switch kind = strings.ToLower(strings.TrimSpace(kind)); {
	case kind == "text/html", kind == "application/xhtml+xml":
		return FormatHTML
	case kind == "", kind == "text/xml", kind == "application/xml", strings.HasSuffix(kind, "+xml"):
		return formatOfRoot(body, kind == "")
	}
	return FormatNone
}

// formatOfRoot looks at the first element within the first KiB.
func formatOfRoot(body []byte, untyped bool) Format {
	var z markup.Scanner
	for z.Reset(body[:min(len(body), 1024)]); ; {
		switch z.Next() {
		case markup.End:
			return FormatNone
		case markup.Doctype:
			if untyped {
				return FormatHTML
			}
		case markup.StartTag:
			switch string(local(z.Name())) {
			case "urlset", "sitemapindex":
				return FormatSitemap
			case "rss", "feed", "rdf":
				return FormatFeed
			case "html":
				return FormatHTML
			case "head", "body", "title", "meta":
				if untyped {
					return FormatHTML
				}
			}
			return FormatNone
		}
	}
}

// Find appends the locators of a body of any format that FormatOf knows, in
// any charset; with sitemap set the locator is known to be a sitemap, which may
// also be packed or plain text. It answers the charset that it found ("" if the
// body was not read).
func Find(dst []Found, base weburl.URL, body []byte, contentType string, sitemap bool, opt Options) ([]Found, Meta, string) {
	format := FormatOf(contentType, body)
	if sitemap && format != FormatFeed && format != FormatHTML {
		dst, meta := Sitemap(dst, base, body, opt)
		return dst, meta, "utf-8"
	}
	if format == FormatNone {
		return dst, Meta{}, ""
	}
	text, charset := UTF8(body, contentType)
	var meta Meta
	switch opt.Charset = charset; format {
	case FormatHTML:
		dst, meta = HTML(dst, base, text, opt)
	case FormatSitemap:
		dst, meta = sitemapText(dst, base, text, opt)
	default:
		dst, meta = Feed(dst, base, text, opt)
	}
	return dst, meta, charset
}

// Sitemap appends the locators of a sitemap, a sitemap index (KindSitemap) or a
// text file with one URL per line, packed by gzip or not, in any charset.
// Unpacking stops at opt.Limit, and what was unpacked until then counts.
func Sitemap(dst []Found, base weburl.URL, body []byte, opt Options) ([]Found, Meta) {
	cut := false
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		limit := opt.Limit
		if limit <= 0 {
			limit = DefaultLimit
		}
		var err error
		body, err = page.Decompress(body, "gzip", limit)
		cut = err != nil
	}
	text, _ := UTF8(body, "")
	dst, meta := sitemapText(dst, base, text, opt)
	meta.Cut = meta.Cut || cut
	return dst, meta
}

func sitemapText(dst []Found, base weburl.URL, text []byte, opt Options) ([]Found, Meta) {
	opt.Charset = ""
	f := newFinder(dst, base, HowSitemap, opt)
	if t := trimSpace(text); len(t) > 0 && t[0] == '<' {
		f.sitemapXML(text)
	} else {
		f.sitemapLines(text)
	}
	return f.done()
}

// sitemapLines takes lines that are absolute URLs; anything else is no sitemap.
func (f *finder) sitemapLines(text []byte) {
	for line := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = trimSpace(line)
		if i := bytes.Index(line, []byte("://")); i == 4 || i == 5 {
			f.add(line, KindAnchor)
		}
	}
}

// sitemapXML takes loc inside of url and sitemap, of the same namespace prefix
// (image:loc is something else), and the alternates of a url.
func (f *finder) sitemapXML(text []byte) {
	x := newXML(&f.z, text)
	var prefix []byte
	kind, inside := KindAnchor, false
	for x.next() {
		name, mine := string(x.local()), bytes.Equal(x.prefix(), prefix)
		switch {
		case x.end:
			inside = inside && !(mine && (name == "url" || name == "sitemap"))
		case name == "url":
			prefix, inside, kind = append(prefix[:0], x.prefix()...), true, KindAnchor
		case name == "sitemap":
			prefix, inside, kind = append(prefix[:0], x.prefix()...), true, KindSitemap
		case inside && name == "loc" && mine:
			f.add(x.text(), kind)
		case inside && name == "link":
			f.add(x.attrs().href, KindLink)
		}
	}
}

// Feed appends the locators of an RSS, RDF or Atom feed in UTF-8: the links of
// the feed and its entries, permanent guids, and enclosures as embedded.
func Feed(dst []Found, base weburl.URL, text []byte, opt Options) ([]Found, Meta) {
	f := newFinder(dst, base, HowLink, opt)
	x := newXML(&f.z, text)
	for x.next() {
		if x.end {
			continue
		}
		switch string(x.local()) {
		case "link":
			f.feedLink(x)
		case "guid":
			f.guid(x)
		case "enclosure", "thumbnail":
			if opt.Embedded {
				f.add(x.attr("url"), KindEmbedded)
			}
		}
	}
	return f.done()
}

// feedLink reads <link>url</link> of RSS and <link href rel/> of Atom.
func (f *finder) feedLink(x *xmlReader) {
	a := x.attrs()
	switch {
	case len(a.href) == 0:
		f.add(x.text(), KindAnchor)
	case isWord(a.rel, "enclosure"):
		if f.opt.Embedded {
			f.add(a.href, KindEmbedded)
		}
	case isWord(a.rel, "hub"), isWord(a.rel, "edit"), isWord(a.rel, "search"):
		// interfaces, not pages
	default:
		f.add(a.href, KindAnchor)
	}
}

func (f *finder) guid(x *xmlReader) {
	if isWord(x.attr("ispermalink"), "false") {
		return
	}
	if ref := trimSpace(x.text()); bytes.HasPrefix(ref, []byte("http://")) || bytes.HasPrefix(ref, []byte("https://")) {
		f.add(ref, KindAnchor)
	}
}

// xmlReader reads XML with the scanner of HTML: broken feeds are many, no entity
// is ever expanded beyond a character, and names come in lower case.
type xmlReader struct {
	z       *markup.Scanner
	name    []byte // of the current tag, with prefix
	end     bool   // the current tag is an end tag
	pending bool   // text stopped at a tag that next has not given yet
	said    []byte // what text answered
}

func newXML(z *markup.Scanner, text []byte) *xmlReader {
	z.ResetXML(text)
	return &xmlReader{z: z}
}

// next goes to the next tag.
func (x *xmlReader) next() bool {
	if x.pending {
		x.pending = false
		return true
	}
	for {
		t := x.z.Next()
		if t == markup.End {
			return false
		}
		if x.take(t) {
			return true
		}
	}
}

func (x *xmlReader) take(t markup.Token) bool {
	if t != markup.StartTag && t != markup.EndTag {
		return false
	}
	x.name, x.end = x.z.Name(), t == markup.EndTag
	return true
}

func (x *xmlReader) local() []byte { return local(x.name) }

func (x *xmlReader) prefix() []byte { return x.name[:max(bytes.IndexByte(x.name, ':'), 0)] }

func local(name []byte) []byte { return name[bytes.IndexByte(name, ':')+1:] }

// attrs reads the attributes of the current tag, once.
func (x *xmlReader) attrs() attrs {
	var a attrs
	a.read(x.z)
	return a
}

// attr reads one attribute of the current tag, instead of attrs.
func (x *xmlReader) attr(name string) []byte {
	for x.z.NextAttr() {
		if string(x.z.Key()) == name {
			return x.z.Value()
		}
	}
	return nil
}

// text reads the text up to the next tag. It may come in pieces.
func (x *xmlReader) text() []byte {
	x.said = x.said[:0]
	if x.z.SelfClosing() {
		return nil
	}
	for {
		t := x.z.Next()
		switch {
		case t == markup.End:
			return x.said
		case t == markup.Text:
			if len(x.said) <= maxRef {
				x.said = append(x.said, x.z.Text()...)
			}
		case x.take(t):
			x.pending = true
			return x.said
		}
	}
}
