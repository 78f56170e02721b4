package contender

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"

	"trawl/bench/web"
)

func start(t *testing.T, hosts, pages int) *web.Server {
	t.Helper()
	w, err := web.New(web.Config{Seed: 3, Hosts: hosts, PagesPerHost: pages, Links: 12, Size: 3000, OffHost: 100, Spellings: 300})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestEveryPageIsFetched(t *testing.T) {
	for name, crawl := range map[string]func(context.Context, Options) (Result, error){"raw": Raw, "colly": Colly, "colly-cut": CollyCut} {
		t.Run(name, func(t *testing.T) {
			s := start(t, 1, 300)
			dir := t.TempDir()
			got, err := crawl(t.Context(), Options{Root: s.Root(), Dir: dir})
			if err != nil || got.Errors != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			st := s.Log().Stats()
			if st.Distinct != 300 || st.Unknown != 0 || got.Pages != st.Pages {
				t.Errorf("the site saw %+v, the crawl says %+v", st, got)
			}
			switch {
			case name == "raw" && st.Duplicates != 0:
				t.Errorf("%d pages were fetched again", st.Duplicates)
			case name == "colly" && st.Duplicates < 47: // so many other spellings of pages bear a fragment
				t.Errorf("%d pages were fetched again; its crawl is a comparison only if fragments are pages to it", st.Duplicates)
			default: // colly asks whether a page was visited and marks it in two steps: without fragments, too, some pass
				t.Logf("%d pages were fetched again", st.Duplicates)
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 300 {
				t.Errorf("%d files, %v; want one for each page", len(files), err)
			}
		})
	}
}

// The links of one page are looked at one after the other, so how often each
// page is asked for is exact here.
func TestFragments(t *testing.T) {
	for name, c := range map[string]struct {
		crawl func(context.Context, Options) (Result, error)
		want  int64 // of the root and one page with three spellings
	}{"raw": {Raw, 2}, "colly": {Colly, 4}, "colly-cut": {CollyCut, 2}} {
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/" {
				_, _ = w.Write([]byte(`<a href="/b"></a><a href="/b#1"></a><a href="/b#2"></a>`))
			}
		}))
		got, err := c.crawl(t.Context(), Options{Root: site.URL + "/"})
		site.Close()
		if err != nil || got.Pages != c.want || got.Errors != 0 {
			t.Errorf("%s: %+v, %v; want %d pages", name, got, err, c.want)
		}
	}
}

func TestANetworkOfHosts(t *testing.T) {
	for name, crawl := range map[string]func(context.Context, Options) (Result, error){"raw": Raw, "colly": Colly, "colly-cut": CollyCut} {
		s := start(t, 3, 100)
		for network, want := range map[string]int64{"": 100, "127.1.0.0/16": 300, "127.1.0.0/31": 100, "127.2.0.0/16": 1} {
			s.Log().Reset()
			o := Options{Root: s.Root()}
			if network != "" {
				o.Net = netip.MustParsePrefix(network)
			}
			if name != "raw" && network == "127.2.0.0/16" {
				want = 0 // it does not ask for the root either
			}
			if _, err := crawl(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if st := s.Log().Stats(); st.Distinct != want || st.Unknown != 0 {
				t.Errorf("%s in network %q: the site saw %+v, want %d pages", name, network, st, want)
			}
		}
	}
}

func TestRawEndsAtTheFirstError(t *testing.T) {
	bad := httptest.NewServer(http.NotFoundHandler())
	defer bad.Close()
	if r, err := Raw(t.Context(), Options{Root: bad.URL}); err == nil {
		t.Errorf("no error, and %+v", r)
	}
	if _, err := Raw(t.Context(), Options{Root: "http://[::1"}); err == nil {
		t.Error("a root that is no URL is no error")
	}
	if _, err := Colly(t.Context(), Options{Root: "http://[::1"}); err == nil {
		t.Error("a root that is no URL is no error to colly")
	}
}
