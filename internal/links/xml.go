package links

import (
	"bytes"
	"mime"
	"strings"

	"golang.org/x/net/html"

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
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil && kind == "" {
		kind, _, _ = strings.Cut(contentType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	switch {
	case kind == "text/html", kind == "application/xhtml+xml":
		return FormatHTML
	case kind == "", kind == "text/xml", kind == "application/xml", strings.HasSuffix(kind, "+xml"):
		return formatOfRoot(body, kind == "")
	}
	return FormatNone
}

// formatOfRoot looks at the first element within the first KiB.
func formatOfRoot(body []byte, untyped bool) Format {
	z := html.NewTokenizer(bytes.NewReader(body[:min(len(body), 1024)]))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return FormatNone
		case html.DoctypeToken:
			if untyped {
				return FormatHTML
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			switch string(local(name)) {
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
	x := newXML(text)
	var prefix string
	kind, inside := KindAnchor, false
	for x.next() {
		switch {
		case x.end:
			if name := x.local(); inside && x.prefix() == prefix && (name == "url" || name == "sitemap") {
				inside = false
			}
		case x.local() == "url" || x.local() == "sitemap":
			prefix, inside, kind = x.prefix(), true, KindAnchor
			if x.local() == "sitemap" {
				kind = KindSitemap
			}
		case inside && x.local() == "loc" && x.prefix() == prefix:
			f.add(x.text(), kind)
		case inside && x.local() == "link":
			f.add(x.attrs().href, KindLink)
		}
	}
}

// Feed appends the locators of an RSS, RDF or Atom feed in UTF-8: the links of
// the feed and its entries, permanent guids, and enclosures as embedded.
func Feed(dst []Found, base weburl.URL, text []byte, opt Options) ([]Found, Meta) {
	f := newFinder(dst, base, HowLink, opt)
	x := newXML(text)
	for x.next() {
		if x.end {
			continue
		}
		switch x.local() {
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
	case a.href == nil:
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

// xmlReader reads XML with the HTML tokenizer: broken feeds are many, no entity
// is ever expanded beyond a character, and names come in lower case.
type xmlReader struct {
	z       *html.Tokenizer
	name    []byte // of the current tag, with prefix
	end     bool   // the current tag is an end tag
	empty   bool   // <name/>
	more    bool   // attributes not read
	pending bool   // text stopped at a tag that next has not given yet
}

func newXML(text []byte) *xmlReader {
	z := html.NewTokenizer(bytes.NewReader(text))
	z.AllowCDATA(true)
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
		if t == html.ErrorToken {
			return false
		}
		if x.take(t) {
			return true
		}
	}
}

func (x *xmlReader) take(t html.TokenType) bool {
	switch t {
	case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
	default:
		return false
	}
	x.name, x.more = x.z.TagName()
	x.end, x.empty = t == html.EndTagToken, t == html.SelfClosingTagToken
	if !x.end {
		x.z.NextIsNotRawText() // <title> and <script> are nothing special in XML
	}
	return true
}

func (x *xmlReader) local() string { return string(local(x.name)) }

func (x *xmlReader) prefix() string {
	if i := bytes.IndexByte(x.name, ':'); i >= 0 {
		return string(x.name[:i])
	}
	return ""
}

func local(name []byte) []byte { return name[bytes.IndexByte(name, ':')+1:] }

// attrs reads the attributes of the current tag, once.
func (x *xmlReader) attrs() attrs {
	var a attrs
	if x.more {
		a.read(x.z)
		x.more = false
	}
	return a
}

// attr reads one attribute of the current tag, instead of attrs.
func (x *xmlReader) attr(name string) []byte {
	for x.more {
		var key, val []byte
		if key, val, x.more = x.z.TagAttr(); string(key) == name {
			return val
		}
	}
	return nil
}

// text reads the text up to the next tag. It may come in pieces.
func (x *xmlReader) text() []byte {
	var out []byte
	if x.empty {
		return nil
	}
	for {
		t := x.z.Next()
		switch {
		case t == html.ErrorToken:
			return out
		case t == html.TextToken:
			if len(out) <= maxRef {
				out = append(out, x.z.Text()...)
			}
		case x.take(t):
			x.pending = true
			return out
		}
	}
}
