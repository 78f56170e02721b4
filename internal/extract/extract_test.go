package extract_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"trawl/internal/extract"
	"trawl/internal/page"
	"trawl/internal/sink"
)

var when = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)

func htmlPage(body string) *page.Page {
	return &page.Page{
		URL: "https://example.org/a/b", Status: 200, ContentType: "text/html; charset=utf-8",
		Body: []byte(body), When: when,
	}
}

func extractor(t testing.TB, fields ...string) *extract.Extractor {
	t.Helper()
	e, err := extract.New(fields)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func fieldsOf(t testing.TB, p *page.Page, fields ...string) map[string]any {
	t.Helper()
	doc, kind, err := extractor(t, fields...).Page(p)
	if err != nil || kind != extract.Document {
		t.Fatalf("kind %d, error %v; want a document", kind, err)
	}
	if bytes.ContainsAny(doc, "\n\r") {
		t.Fatalf("document holds a line break: %q", doc)
	}
	var got map[string]any
	if err := json.Unmarshal(doc, &got); err != nil {
		t.Fatalf("document %q: %v", doc, err)
	}
	return got
}

func TestWholePage(t *testing.T) {
	p := htmlPage(`<!doctype html><html lang="en-GB"><head><title>
		Harbour &amp; lights </title><title>second</title>
		<meta name="Description" content="  all about
		lights"><link rel="alternate canonical" href="../c#frag">
		<style>p { color: red }</style><script>var x = "<p>no</p>";</script></head>
		<body><nav><a href="/">Home</a> menu</nav>
		<h1>First<br>heading</h1><p>one<b>two</b> three</p><p>four</p>
		<svg><title>drawing</title><text>shape</text></svg>
		<noscript>enable it</noscript><!-- comment -->
		<a href="x">link</a><a name="y">no link</a>
		<h2> Second  heading </h2><ul><li>a</li><li>b</li></ul></body></html>`)
	want := map[string]any{
		"url": "https://example.org/a/b", "title": "Harbour & lights", "description": "all about lights",
		"language": "en-GB", "canonical": "https://example.org/c", "headings": []any{"First heading", "Second heading"},
		"link_count": 2.0, "fetched_at": "2026-03-04T05:06:07.089Z", "status": 200.0, "content_type": "text/html",
		"text": "First heading onetwo three four linkno link Second heading a b",
	}
	if got := fieldsOf(t, p); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestText(t *testing.T) {
	for name, c := range map[string]struct{ body, title, text string }{
		"empty":                  {"", "", ""},
		"no markup":              {"just words", "", "just words"},
		"non-breaking spaces":    {"<p>a\u00a0\u00a0b\u3000c\u2003d</p>", "", "a b c d"},
		"title from heading":     {"<h1> Top </h1>x", "Top", "Top x"},
		"title from og":          {`<meta property="og:title" content="Open"><h1>Top</h1>`, "Open", "Top"},
		"open heading":           {"<h2>never closed", "never closed", "never closed"},
		"unclosed navigation":    {"<nav>menu<main>text</main>", "", "text"},
		"unclosed navigation 2":  {"<body><nav>menu</body>after", "", "after"},
		"nested navigation":      {"<nav>a<nav>b</nav>c</nav>d", "", "d"},
		"unclosed script":        {"before<script>x = 1;", "", "before"},
		"self-closing script":    {"a<script/>b</script>c", "", "a c"},
		"self-closing svg":       {"a<svg/>b", "", "ab"},
		"entities":               {"&lt;b&gt; &#65;&auml; &bogus;", "", "<b> Aä &bogus;"},
		"broken tags":            {"a<b", "", "a"},
		"comment never closed":   {"a<!-- b", "", "a"},
		"inline keeps a word":    {"un<em>believ</em>able", "", "unbelievable"},
		"blocks separate":        {"<td>a</td><td>b</td>", "", "a b"},
		"line separators":        {"a\u2028b\u0001c", "", "a b\u0001c"},
		"title within the text":  {"<p>x</p><title>T</title>y", "T", "x y"},
		"template and textarea":  {"<template>t</template>a<textarea>form</textarea>b", "", "a b"},
		"control and null bytes": {"a\x00b", "", "a\x00b"},
		"blanks":                 {"  a  b\n\n c\vd \u00a0 e\t&nbsp;&#32;f ", "", "a b c\vd e f"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fieldsOf(t, htmlPage(c.body))
			title, _ := got["title"].(string)
			text, _ := got["text"].(string)
			if title != c.title || text != c.text {
				t.Errorf("title %q text %q, want %q %q", title, text, c.title, c.text)
			}
		})
	}
}

func TestMeta(t *testing.T) {
	for name, c := range map[string]struct{ head, field, want string }{
		"first of twins":        {`<meta name=Description name=x content=a content=b>`, "description", "a"},
		"property after name":   {`<meta name=description property=x content=a>`, "description", ""},
		"og description":        {`<meta property="og:description" content=a><meta name=description content=b>`, "description", "b"},
		"language of a header":  {`<meta http-equiv=Content-Language content=de>`, "language", "de"},
		"language":              {`<html xml:lang=fr lang=de>`, "language", "de"},
		"language in XML":       {`<html lang="" xml:lang=fr>`, "language", "fr"},
		"canonical among words": {`<link rel="a Canonical" rel=b href=/c href=/d><link rel=canonical href=/e>`, "canonical", "https://example.org/c"},
	} {
		if got, _ := fieldsOf(t, htmlPage(c.head))[c.field].(string); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		status   int
		typ      string
		redirect string
		want     extract.Kind
	}{
		{200, "text/html", "", extract.Document},
		{200, "TEXT/HTML; charset=x", "", extract.Document},
		{200, "", "", extract.Document},
		{203, "text/plain", "", extract.Document},
		{200, "application/xhtml+xml", "", extract.Document},
		{200, "application/json", "", extract.Document},
		{200, "text/markdown", "", extract.Document},
		{200, "image/png", "", extract.NoDocument},
		{200, "application/pdf", "", extract.NoDocument},
		{200, "text/css", "", extract.NoDocument},
		{200, "application/xml", "", extract.NoDocument},
		{301, "text/html", "https://example.org/", extract.NoDocument},
		{304, "text/html", "", extract.NoDocument},
		{404, "text/html", "", extract.Delete},
		{410, "", "", extract.Delete},
		{403, "text/html", "", extract.NoDocument},
		{500, "text/html", "", extract.NoDocument},
		{0, "text/html", "", extract.NoDocument},
	} {
		p := htmlPage("x")
		p.Status, p.ContentType, p.Redirect = c.status, c.typ, c.redirect
		doc, kind, err := extractor(t).Page(p)
		if err != nil || kind != c.want || (doc != nil) != (kind == extract.Document) {
			t.Errorf("%d %q: kind %d doc %q error %v, want kind %d", c.status, c.typ, kind, doc, err, c.want)
		}
	}
}

func TestCodingAndCharset(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("<title>Gr\xfc\xdfe</title>K\xf6ln"))
	_ = w.Close()
	p := htmlPage("")
	p.Body, p.ContentEncoding, p.ContentType = packed.Bytes(), "gzip", "text/html; charset=iso-8859-1"
	if got := fieldsOf(t, p); got["title"] != "Grüße" || got["text"] != "Köln" {
		t.Errorf("got %v", got)
	}
	p.Body = packed.Bytes()[:packed.Len()-6]
	if got := fieldsOf(t, p); got["title"] != "Grüße" {
		t.Errorf("a body that broke off gave %v", got)
	}
	p.ContentEncoding = "rot13"
	if _, _, err := extractor(t).Page(p); err == nil || !strings.Contains(err.Error(), p.URL) {
		t.Errorf("unknown coding: %v", err)
	}
}

func TestPlainText(t *testing.T) {
	p := htmlPage("\n  First line <b> \nsecond")
	p.ContentType = "text/plain"
	if got := fieldsOf(t, p); got["title"] != "First line <b>" || got["text"] != "First line <b> second" {
		t.Errorf("got %v", got)
	}
}

func TestFields(t *testing.T) {
	got := fieldsOf(t, htmlPage("<title>t</title><a href=x>y</a>"), "title", "links")
	if want := (map[string]any{"url": "https://example.org/a/b", "title": "t", "link_count": 1.0}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := extract.New([]string{"titel"}); err == nil || !strings.Contains(err.Error(), "titel") {
		t.Errorf("unknown field: %v", err)
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("ä ö", 1<<20)
	p := htmlPage(`<html lang="` + long + `"><title>` + long + `</title><meta name=description content="` + long + `">` +
		strings.Repeat("<h1>"+long[:9000]+"</h1>", 500) + "<p>" + long)
	got := fieldsOf(t, p)
	for field, limit := range map[string]int{"title": 2 << 10, "description": 8 << 10, "language": 64, "text": extract.MaxText} {
		if s, _ := got[field].(string); len(s) > limit || len(s) < limit/2 || !utf8.ValidString(s) {
			t.Errorf("%s has %d bytes, want at most %d of UTF-8", field, len(s), limit)
		}
	}
	if n := len(got["headings"].([]any)); n != 200 {
		t.Errorf("%d headings, want 200", n)
	}
}

func TestCanonical(t *testing.T) {
	for href, want := range map[string]any{
		"/x":                    "https://example.org/x",
		"javascript:alert(1)":   nil,
		"http://[::1":           nil,
		"https:///nohost":       nil,
		" https://other.org/a ": "https://other.org/a",
	} {
		got := fieldsOf(t, htmlPage(`<link rel=canonical href="`+href+`">`))
		if got["canonical"] != want {
			t.Errorf("canonical %q gave %v, want %v", href, got["canonical"], want)
		}
	}
}

func TestID(t *testing.T) {
	if id := extract.ID("https://example.org/"); id != "https://example.org/" {
		t.Errorf("short URL became %q", id)
	}
	a, b := extract.ID(strings.Repeat("a", 513)), extract.ID(strings.Repeat("a", 514))
	if len(a) != 64 || a == b {
		t.Errorf("long URLs became %q and %q", a, b)
	}
	if id := strings.Repeat("a", 512); extract.ID(id) != id {
		t.Error("a URL of 512 bytes was hashed")
	}
}

// Whatever the site sends: valid, compact JSON that a sink takes, and the same
// each time.
func TestAnyBytes(t *testing.T) {
	e := extractor(t)
	rapid.Check(t, func(t *rapid.T) {
		p := &page.Page{
			URL:         "https://example.org/" + rapid.String().Draw(t, "path"),
			Status:      200,
			ContentType: rapid.SampledFrom([]string{"text/html", "text/plain", "", "text/html; charset=shift_jis", "text/html; charset=utf-16"}).Draw(t, "type"),
			Body: bytes.Join(rapid.SliceOf(rapid.OneOf(
				rapid.SliceOf(rapid.Byte()),
				rapid.SampledFrom([][]byte{
					[]byte("<title>"), []byte("</title>"), []byte("<h1>"), []byte("</h1>"), []byte("<nav>"), []byte("</nav>"),
					[]byte("<script>"), []byte("</script>"), []byte("<a href=x>"), []byte("\u2028"), []byte("\""), []byte("\\"),
					[]byte("<svg/>"), []byte("<meta name=description content='"), []byte("'>"), []byte("&#0;"), []byte("</body>"),
				}),
			)).Draw(t, "body"), nil),
			When: when,
		}
		doc, kind, err := e.Page(p)
		if err != nil || kind != extract.Document {
			t.Fatalf("kind %d, %v", kind, err)
		}
		var m map[string]any
		if err := json.Unmarshal(doc, &m); err != nil || !utf8.Valid(doc) || bytes.ContainsAny(doc, "\n\r") {
			t.Fatalf("document %q: %v", doc, err)
		}
		again, _, _ := e.Page(p)
		if !bytes.Equal(doc, again) {
			t.Fatalf("twice: %q and %q", doc, again)
		}
		if err := sink.CheckOp(sink.Op{ID: extract.ID("x"), Version: extract.Version(p), Doc: doc}); err != nil {
			t.Fatal(err)
		}
	})
}

// Documents must not change when the buffers of their page are used again.
func TestOwnMemory(t *testing.T) {
	e := extractor(t)
	first, _, _ := e.Page(htmlPage("<title>one</title>first text"))
	before := string(first)
	for range 10 {
		_, _, _ = e.Page(htmlPage("<title>two</title>second text"))
	}
	if string(first) != before {
		t.Errorf("document became %q", first)
	}
}

// benchPage is 20 KB with 40 links.
func benchPage() *page.Page {
	var b strings.Builder
	b.WriteString("<html lang=en><head><title>Bench</title><meta name=description content='a page &amp; its words'></head><body><h1>Bench</h1>")
	for b.Len() < 20_000 {
		b.WriteString(`<p class="para">The quick brown fox, "jumps" over <a href="/some/where">the lazy dog</a>` + strings.Repeat(" and so on, until the page is long enough", 9) + ".</p>\n")
	}
	return htmlPage(b.String())
}

// tagPage is 20 KB of small tags.
func tagPage() *page.Page {
	return htmlPage(strings.Repeat("<tr id=r1><td class=\"a\" style='w:1'>x<td><b>y</b><br/></td></tr>\n", 300))
}

func BenchmarkPage(b *testing.B) {
	e := extractor(b)
	for name, p := range map[string]*page.Page{"text": benchPage(), "tags": tagPage()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(p.Body)))
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = e.Page(p)
			}
		})
	}
}

// The document is all that a page takes. The least of several runs counts: a
// pool that was emptied costs nobody but the next.
func TestAllocations(t *testing.T) {
	e := extractor(t)
	for name, p := range map[string]*page.Page{"text": benchPage(), "tags": tagPage()} {
		f := func() { _, _, _ = e.Page(p) }
		least := testing.AllocsPerRun(1, f)
		for range 20 {
			least = min(least, testing.AllocsPerRun(1, f))
		}
		if least > 1 {
			t.Errorf("%s: %v allocations per page, want 1", name, least)
		}
	}
}
