package samplesite

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
)

const offSite = "http://other.example/islands"

func get(t *testing.T, s *Site, path string) *http.Response {
	t.Helper()
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://site.example"+path, nil))
	return rec.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// find reads every kind of link that the site uses.
var find = regexp.MustCompile(`(?:<a |<area [^>]*|<iframe )(?:href|src)="([^"]*)"|url=([^"]*)"|<loc>([^<]*)</loc>`)

var baseElement = regexp.MustCompile(`<base href="([^"]*)"`)

// TestExpectedIsTheWholeSite walks the site and compares what it meets with
// the table, both ways: a page that nobody can reach, or a link that the table
// does not name, is a defect of the site.
func TestExpectedIsTheWholeSite(t *testing.T) {
	s := New(offSite)
	want := map[string]Expectation{}
	for _, e := range s.Expected("http://site.example", offSite) {
		want[e.URL] = e
	}
	met := map[string]bool{}
	queue := []string{"http://site.example/", "http://site.example/sitemap.xml"}
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		if met[u] {
			continue
		}
		met[u] = true
		e, ok := want[u]
		if !ok {
			t.Errorf("%s is linked and not in the table", u)
			continue
		}
		if e.Kind != Fetched {
			continue
		}
		at, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		res := get(t, s, at.Path)
		if res.StatusCode != e.Status {
			t.Errorf("%s is answered %d, the table says %d", u, res.StatusCode, e.Status)
		}
		text := body(t, res)
		if m := baseElement.FindStringSubmatch(text); m != nil {
			at, _ = at.Parse(m[1])
		}
		found := []string{res.Header.Get("Location")}
		for _, m := range find.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1]+m[2]+m[3])
		}
		for _, f := range found {
			to, err := at.Parse(f)
			if err != nil || f == "" || !strings.HasPrefix(to.Scheme, "http") {
				continue
			}
			to.Fragment, to.RawPath = "", ""
			queue = append(queue, to.String())
		}
	}
	for u := range want {
		if !met[u] {
			t.Errorf("%s is in the table and nothing leads to it", u)
		}
	}
	if n := len(want); n < 40 {
		t.Errorf("the site has %d URLs, want at least 40", n)
	}
}

func TestOnlyTheSitemapNamesTheOldTower(t *testing.T) {
	s := New(offSite)
	for path, p := range s.pages {
		if strings.Contains(string(p.body), `"/lighthouses/old-tower"`) {
			t.Errorf("%s links to the page that only the sitemap may name", path)
		}
	}
	if !strings.Contains(body(t, get(t, s, "/sitemap.xml")), "http://site.example/lighthouses/old-tower") {
		t.Error("the sitemap does not name it")
	}
}

func TestTroubles(t *testing.T) {
	s := New(offSite)
	if a, b := body(t, get(t, s, "/tides/springs")), body(t, get(t, s, "/tides/springs-again")); a != b {
		t.Error("the duplicate is not exact")
	}
	res := get(t, s, "/people/visitor-from-the-north")
	if text, _ := charmap.ISO8859_1.NewDecoder().String(body(t, res)); !strings.Contains(text, "Ærøskøbing") || !strings.Contains(res.Header.Get("Content-Type"), "ISO-8859-1") {
		t.Error("the page in ISO-8859-1 is not")
	}
	res = get(t, s, "/people/letter-from-the-east")
	raw := body(t, res)
	if text, _ := charmap.Windows1251.NewDecoder().String(raw); !strings.Contains(text, "прилив") || !strings.Contains(raw, "charset=windows-1251") || strings.Contains(res.Header.Get("Content-Type"), "charset") {
		t.Error("the page in windows-1251 is not")
	}
	if l := get(t, s, "/moved/ferry-times").Header.Get("Location"); l != "/moved/again/ferry-times" {
		t.Errorf("the chain begins with %q", l)
	}
	if s.Hits("/tides/springs") != 1 || s.Hits("/nothing") != 0 {
		t.Errorf("hits are %v", s.hits)
	}
	if r := body(t, get(t, s, "/robots.txt")); !strings.Contains(r, "Disallow: /harbour-office/private/") {
		t.Errorf("robots.txt is %q", r)
	}
}

func TestATideIsOnManyPages(t *testing.T) {
	n := 0
	for _, p := range New(offSite).pages {
		if strings.Contains(string(p.body), "tide") {
			n++
		}
	}
	if n < 10 {
		t.Errorf("%d pages mention the tide, want at least 10 for the search of the demonstration", n)
	}
}
