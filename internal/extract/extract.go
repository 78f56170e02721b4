// Package extract makes documents out of pages: which pages are documents, the
// id and version of each, and its fields as JSON. It refuses I/O and state: a
// document is a function of the page and the list of fields.
//
// One pass of the tokenizer over the text; nothing is built but the answer.
package extract

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"trawl/internal/links"
	"trawl/internal/page"
)

// Kind of a page.
type Kind int

// The kinds.
const (
	// NoDocument: a redirect, an error, an empty answer, or no text.
	NoDocument Kind = iota
	// Document: an answer 200 to 299 with text in it.
	Document
	// Delete: 404 or 410; the document of an earlier round goes.
	Delete
)

// The fields that a document can have.
const (
	URL         = "url"
	Title       = "title"
	Text        = "text"
	Description = "description"
	Language    = "language"
	Headings    = "headings"
	Canonical   = "canonical"
	LinkCount   = "link_count"
	FetchedAt   = "fetched_at"
	Status      = "status"
	ContentType = "content_type"
)

// Fields lists all fields in the order in which documents have them.
func Fields() []string {
	return []string{URL, Title, Description, Language, Canonical, Headings, LinkCount, FetchedAt, Status, ContentType, Text}
}

// Bounds of what goes into a document, in bytes. More is cut at a character.
const (
	MaxText        = 1 << 20
	maxTitle       = 2 << 10
	maxDescription = 8 << 10
	maxLanguage    = 64
	maxCanonical   = 8 << 10
	maxHeading     = 1 << 10
	maxHeadings    = 200
	maxType        = 256
	maxBody        = 64 << 20 // decoded; page bodies are limited before
	maxID          = 512
)

// Extractor makes documents with a fixed list of fields. It is safe for
// concurrent use.
type Extractor struct {
	want map[string]bool
	pool sync.Pool // *scan
}

// New makes an Extractor for the fields of a spec; none means all. The URL is
// always among them; "links" is another name of link_count.
func New(fields []string) (*Extractor, error) {
	if len(fields) == 0 {
		fields = Fields()
	}
	e := &Extractor{want: map[string]bool{URL: true}}
	for _, f := range fields {
		if f == "links" {
			f = LinkCount
		}
		if !slices.Contains(Fields(), f) {
			return nil, fmt.Errorf("document field %q is none of %s", f, strings.Join(Fields(), ", "))
		}
		e.want[f] = true
	}
	e.pool.New = func() any { return &scan{heading: -1} }
	return e, nil
}

// ID is the document id of a URL: the URL, or its SHA-256 in hex if it is longer
// than a sink takes.
func ID(url string) string {
	if len(url) <= maxID {
		return url
	}
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:])
}

// Version orders the documents of a URL: milliseconds of the request's start.
func Version(p *page.Page) int64 { return p.Version() }

// KindOf says what a page is, without its body.
func KindOf(p *page.Page) Kind {
	switch {
	case p.Status == 404 || p.Status == 410:
		return Delete
	case p.Status < 200 || p.Status > 299 || p.Redirect != "" || !textual(p.ContentType):
		return NoDocument
	}
	return Document
}

// Page gives the document of a page as a compact JSON object in memory of its
// own. doc is nil unless kind is Document. The error is that of an undecodable
// content coding.
func (e *Extractor) Page(p *page.Page) (doc []byte, kind Kind, err error) {
	kind = KindOf(p)
	if kind != Document {
		return nil, kind, nil
	}
	body, err := p.Plain(maxBody)
	if err != nil && !errors.Is(err, page.ErrCutShort) {
		return nil, NoDocument, fmt.Errorf("page %s: %w", p.URL, err)
	}
	text, _ := links.UTF8(body, p.ContentType)
	s := e.pool.Get().(*scan)
	defer func() {
		s.reset()
		e.pool.Put(s)
	}()
	if isMarkup(p.ContentType, text) {
		s.html(text)
	} else {
		s.plain(text)
	}
	return e.encode(p, s), Document, nil
}

// encode writes the fields in the order of Fields.
func (e *Extractor) encode(p *page.Page, s *scan) []byte {
	o := object{b: make([]byte, 0, len(s.text)+len(s.text)/16+len(s.headings)+len(p.URL)+len(s.title)+len(s.description)+256)}
	o.b = append(o.b, '{')
	o.str(URL, p.URL)
	if e.want[Title] {
		o.bytes(Title, s.title)
	}
	if e.want[Description] {
		o.bytes(Description, s.description)
	}
	if e.want[Language] {
		o.bytes(Language, s.languageOf(p.Get("Content-Language")))
	}
	if e.want[Canonical] {
		o.bytes(Canonical, s.canonicalOf(p.URL))
	}
	if e.want[Headings] {
		o.list(Headings, s.headings, s.headingEnds)
	}
	if e.want[LinkCount] {
		o.number(LinkCount, int64(s.links))
	}
	if e.want[FetchedAt] && !p.When.IsZero() {
		o.time(FetchedAt, p.When)
	}
	if e.want[Status] {
		o.number(Status, int64(p.Status))
	}
	if e.want[ContentType] {
		o.str(ContentType, cut(mediaType(p.ContentType), maxType))
	}
	if e.want[Text] {
		o.bytes(Text, s.text)
	}
	return append(o.b, '}')
}

// mediaType is the type without parameters, in lower case.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// textual types make documents. A page without a type is read as HTML, as
// browsers do.
func textual(contentType string) bool {
	t := mediaType(contentType)
	switch t {
	case "", "application/xhtml+xml", "application/json", "application/ld+json":
		return true
	case "text/css", "text/javascript", "text/ecmascript", "text/xml", "text/calendar", "text/vcard":
		return false // sitemaps, feeds and page furniture
	}
	return strings.HasPrefix(t, "text/")
}

// isMarkup says whether text is to be read as HTML.
func isMarkup(contentType string, text []byte) bool {
	switch mediaType(contentType) {
	case "text/html", "application/xhtml+xml":
		return true
	case "":
		head := text[:min(len(text), 512)]
		return slices.Contains(head, '<')
	}
	return false
}
