package links

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"trawl/internal/weburl"
)

// page20 is a page of 20 KB with 40 links.
func page20() []byte {
	var b strings.Builder
	b.WriteString("<!doctype html><html><head><title>x</title><link rel=stylesheet href=s.css></head><body>")
	for i := range 40 {
		fmt.Fprintf(&b, "<p class=\"para\">some text about things, <a class=\"reference\" href=\"../library/page%d.html?a=1&amp;b=2#sec\">linked</a> and so on. %s</p>\n", i, strings.Repeat("word ", 72))
	}
	return []byte(b.String())
}

// tags20 is a page of 20 KB that is all tags.
func tags20() []byte {
	return bytes.Repeat([]byte(`<tr id=r1><td class="a" style='w:1'>x<td><b>y</b><a href="/same">z</a></td></tr>`+"\n"), 250)
}

func allKnown(uint64, Kind) bool { return true }

func TestKnown(t *testing.T) {
	base := mustURL(t, "https://h.example/d/")
	body := []byte(`<a href=a><iframe src=b></iframe><a href=c><base href=/e/><a href="/d/b"><a href="/d/a"><a href=d>`)
	var asked []string
	urls := map[uint64]string{}
	for _, u := range []string{"/d/a", "/d/b", "/d/c", "/e/d"} {
		urls[weburl.Hash("https://h.example"+u)] = u
	}
	opt := Options{Max: 4, Known: func(hash uint64, kind Kind) bool {
		asked = append(asked, kinds[kind]+" "+urls[hash])
		return urls[hash] == "/d/b"
	}}
	found, meta := HTML(nil, base, body, opt)
	if got, want := lines(found), []string{"anchor /d/a", "anchor /d/c", "anchor /e/d"}; !slices.Equal(got, want) || meta.Cut {
		t.Errorf("got %q, cut %v", got, meta.Cut)
	}
	for _, f := range found {
		if f.Hash != weburl.Hash(f.URL) {
			t.Errorf("%s: hash %x", f.URL, f.Hash)
		}
	}
	if want := []string{"anchor /d/a", "frame /d/b", "anchor /d/c", "anchor /e/d"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q", asked)
	}
	opt.Max = 3 // the known one is one of them
	if found, meta = HTML(nil, base, body, opt); len(found) != 2 || !meta.Cut {
		t.Errorf("%d found, cut %v", len(found), meta.Cut)
	}
}

// allocs is the least of several runs: a pool that was emptied costs nobody but
// the next.
func allocs(f func()) float64 {
	least := testing.AllocsPerRun(1, f)
	for range 20 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

// What a page takes is one string for all of its new URLs, and nothing for a
// link. References that must be rewritten cost more, and are few.
func TestAllocations(t *testing.T) {
	base := mustURL(t, "https://docs.example.com/3/reference/index.html")
	page, tags, found := page20(), tags20(), make([]Found, 0, 100)
	sitemap := []byte("<urlset>" + strings.Repeat("<url><loc>https://h.example/a?x=1&amp;y=2</loc><lastmod>2026-01-02</lastmod></url>", 300) + "</urlset>")
	for _, c := range []struct {
		name string
		want float64
		f    func()
	}{
		{"new links", 1, func() { found, _ = HTML(found[:0], base, page, Options{}) }},
		{"known links", 0, func() { found, _ = HTML(found[:0], base, page, Options{Known: allKnown}) }},
		{"tags", 1, func() { found, _ = HTML(found[:0], base, tags, Options{Embedded: true}) }},
		{"whole page", 1, func() { found, _, _ = Find(found[:0], base, page, "text/html; charset=utf-8", false, Options{}) }},
		{"whole page, known", 0, func() {
			found, _, _ = Find(found[:0], base, page, "text/html", false, Options{Known: allKnown})
		}},
		{"sitemap", 6, func() { found, _ = Sitemap(found[:0], base, sitemap, Options{}) }},
	} {
		if got := allocs(c.f); got > c.want {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.want)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	base := mustURL(b, "https://docs.example.com/3/reference/index.html")
	for _, c := range []struct {
		name string
		body []byte
		opt  Options
		want int
	}{
		{"new", page20(), Options{}, 40},
		{"known", page20(), Options{Known: allKnown}, 0},
		{"tags", tags20(), Options{}, 1},
		{"text", bytes.Repeat([]byte("words and nothing else, on and on\n"), 600), Options{}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			var found []Found
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				found, _, _ = Find(found[:0], base, c.body, "text/html; charset=utf-8", false, c.opt)
			}
			if len(found) != c.want {
				b.Fatal(len(found))
			}
		})
	}
}
