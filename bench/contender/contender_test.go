package contender

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"trawl/bench/web"
)

func start(t *testing.T, pages int) *web.Server {
	t.Helper()
	w, err := web.New(web.Config{Seed: 3, Hosts: 1, PagesPerHost: pages, Links: 12, Size: 3000})
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
	for name, crawl := range map[string]func(context.Context, Options) (Result, error){"raw": Raw, "colly": Colly} {
		t.Run(name, func(t *testing.T) {
			s := start(t, 300)
			dir := t.TempDir()
			got, err := crawl(t.Context(), Options{Root: s.Root(), Dir: dir})
			if err != nil || got.Errors != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			st := s.Log().Stats()
			if st.Distinct != 300 || st.Unknown != 0 || got.Pages != st.Pages {
				t.Errorf("the site saw %+v, the crawl says %+v", st, got)
			}
			if name == "raw" && st.Duplicates != 0 {
				t.Errorf("%d pages were fetched again", st.Duplicates)
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 300 {
				t.Errorf("%d files, %v; want one for each page", len(files), err)
			}
		})
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
