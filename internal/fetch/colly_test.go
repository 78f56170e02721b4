package fetch

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gocolly/colly/v2"
)

// Every request that a site sees went through the collector, whatever the
// answer; and a redirect is recorded, not followed.
func TestEveryRequestGoesThroughTheCollector(t *testing.T) {
	var seen, through atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/page", http.StatusMovedPermanently)
		case "/missing":
			http.NotFound(w, r)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = w.Write([]byte("<a href=/page>page</a>"))
		}
	}))
	defer site.Close()
	policy, err := NewPolicy([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Policy: policy})
	defer c.Close()
	c.collector.OnRequest(func(*colly.Request) { through.Add(1) })
	paths := []string{"/page", "/moved", "/missing", "/broken", "/robots.txt", "/page"}
	for _, path := range paths {
		if res := c.Do(t.Context(), &Request{URL: site.URL + path}); res.Err != nil {
			t.Errorf("%s: %v", path, res.Err)
		} else {
			res.Release()
		}
	}
	if n := int64(len(paths)); seen.Load() != n || through.Load() != n || c.Requests() != n {
		t.Errorf("the site saw %d requests, the collector %d, the client counted %d; want %d", seen.Load(), through.Load(), c.Requests(), n)
	}
}
