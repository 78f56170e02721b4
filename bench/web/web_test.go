package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustNew(t testing.TB, cfg Config) *Web {
	t.Helper()
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var mixed = Config{
	Seed: 7, Hosts: 5, PagesPerHost: 400, Links: 8, Size: 2048, OffHost: 100, Port: 8080,
	Redirects: 150, Missing: 40, Gone: 20, Errors: 20, Flaky: 30, Disallowed: 60,
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{
		{Hosts: -1},
		{Hosts: MaxHosts + 1},
		{Hosts: 1000, PagesPerHost: MaxPages},
		{Links: 1},
		{Size: 10},
		{Redirects: 500, Missing: 500},
		{Port: 70_000},
		{OffHost: 1001},
		{LogCapacity: -1},
	} {
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), "web: ") {
			t.Errorf("New(%+v) = %v, want an error", c, err)
		}
	}
}

func TestEverythingIsAFunctionOfSeedAndURL(t *testing.T) {
	a, b := mustNew(t, mixed), mustNew(t, mixed)
	other := mixed
	other.Seed++
	c := mustNew(t, other)
	differ := 0
	rapid.Check(t, func(rt *rapid.T) {
		p := Ref{rapid.IntRange(0, 4).Draw(rt, "host"), rapid.IntRange(0, 399).Draw(rt, "page")}
		if got, ok := b.Locate(a.URL(p)); !ok || got != p {
			rt.Fatalf("Locate(%s) = %v, %v, want %v", a.URL(p), got, ok, p)
		}
		body := a.AppendBody(nil, p)
		if !bytes.Equal(body, b.AppendBody(nil, p)) {
			rt.Fatalf("two webs of one seed differ on %s", a.URL(p))
		}
		if !bytes.Equal(body, c.AppendBody(nil, p)) {
			differ++
		}
		if n := len(body); n < 1024-256 || n > 4096 {
			rt.Fatalf("%s has %d bytes, want about 2048 +- half", a.URL(p), n)
		}
	})
	if differ == 0 {
		t.Error("another seed makes the same web")
	}
}

func TestLocateRefusesWhatURLNeverYields(t *testing.T) {
	w := mustNew(t, mixed)
	for _, u := range []string{
		"", "://", "https://127.1.0.1:8080/", "http://127.1.0.1/", "http://127.1.0.1:8081/", "http://127.1.0.6:8080/",
		"http://127.1.0.0:8080/", "http://127.2.0.1:8080/", "http://example.org:8080/", "http://127.1.0.1:8080/p/0",
		"http://127.1.0.1:8080/p/01", "http://127.1.0.1:8080/p/400", "http://127.1.0.1:8080/p/-1", "http://127.1.0.1:8080/p/1?x",
		"http://127.1.0.1:8080/private/x", "http://127.1.0.1:8080/q",
	} {
		if p, ok := w.Locate(u); ok {
			t.Errorf("Locate(%q) = %v, want none", u, p)
		}
	}
	for p, k := range w.Reach(-1).Each {
		wrong := "/private/"
		if k == Disallowed {
			wrong = "/p/"
		}
		if got, ok := w.locatePath(p.Host, wrong+w.path(p)[strings.LastIndex(w.path(p), "/")+1:]); ok && p.Page > 0 {
			t.Fatalf("%v is also found as %v", p, got)
		}
	}
}

func TestRedirectChainsAreShortAndEnd(t *testing.T) {
	cfg := mixed
	cfg.Redirects, cfg.Missing, cfg.Gone, cfg.Errors, cfg.Flaky, cfg.Disallowed = 900, 0, 0, 0, 0, 0
	w := mustNew(t, cfg)
	longest := 0
	for page := range cfg.PagesPerHost {
		p, hops := Ref{1, page}, 0
		for ; w.Kind(p) == Redirect; hops++ {
			to := w.Target(p)
			if to.Host != 1 || to.Page >= p.Page {
				t.Fatalf("%v leads to %v, want a lower page of the same host", p, to)
			}
			p = to
		}
		longest = max(longest, hops)
	}
	if longest != 2 {
		t.Errorf("longest chain is %d redirects, want 2", longest)
	}
}

// href finds the links of a page as a reader of HTML would, not through the model.
var href = regexp.MustCompile(`<a href="([^"#]*)`)

// TestReachIsWhatAWalkFinds walks the served web link by link and compares
// with the set that was computed without it.
func TestReachIsWhatAWalkFinds(t *testing.T) {
	for _, depth := range []int{-1, 0, 1, 3} {
		w := mustNew(t, mixed)
		h := w.Handler()
		depthOf := map[string]int{}
		var level, next []string
		enter := func(u string, d int) {
			if _, known := depthOf[u]; !known {
				depthOf[u] = d
				next = append(next, u)
			}
		}
		enter(w.Root(), 0)
		for d := 0; len(next) > 0; d++ {
			level, next = next, nil
			for i := 0; i < len(level); i++ {
				u := level[i]
				if strings.Contains(u, "/private/") || depthOf[u] != d {
					continue // forbidden, or met before by a shorter way
				}
				res := get(h, u)
				if res.Code == 500 {
					res = get(h, u)
				}
				base := u[:strings.Index(u[7:], "/")+7]
				if loc := res.Header().Get("Location"); loc != "" {
					if at, known := depthOf[base+loc]; !known || at > d {
						depthOf[base+loc] = d
						level = append(level, base+loc)
					}
				}
				if d == depth {
					continue
				}
				for _, m := range href.FindAllStringSubmatch(res.Body.String(), -1) {
					if strings.HasPrefix(m[1], "/") {
						m[1] = base + m[1]
					}
					enter(m[1], d+1)
				}
			}
		}
		r := w.Reach(depth)
		if r.Len() != len(depthOf) {
			t.Errorf("depth %d: Reach has %d pages, the walk found %d", depth, r.Len(), len(depthOf))
		}
		for u, d := range depthOf {
			p, ok := w.Locate(u)
			if !ok || !r.Has(p) {
				t.Fatalf("depth %d: the walk found %s, which is not in Reach", depth, u)
			}
			if r.Depth(p) > d {
				t.Fatalf("depth %d: %s has depth %d, the walk found it at %d", depth, u, r.Depth(p), d)
			}
		}
		missing, extra := w.Log().Diff(r, 5)
		if len(missing)+len(extra) > 0 {
			t.Errorf("depth %d: Diff = missing %v, extra %v", depth, missing, extra)
		}
		if s := w.Log().Stats(); int(s.Distinct) != r.Requested() {
			t.Errorf("depth %d: %d distinct pages in the log, want %d", depth, s.Distinct, r.Requested())
		}
	}
}

func TestEveryHostAndEveryKindIsReachable(t *testing.T) {
	w := mustNew(t, Config{Seed: 3, Hosts: 300, PagesPerHost: 50, Redirects: 100, Missing: 100, Gone: 100, Errors: 100, Flaky: 100, Disallowed: 100})
	r := w.Reach(-1)
	for i := range 300 {
		if !r.Has(Ref{Host: i}) {
			t.Fatalf("host %d (%s) is not reached", i, w.Host(i))
		}
	}
	for k, n := range r.Kinds {
		if n == 0 {
			t.Errorf("no reached page is %v", Kind(k))
		}
	}
	if r.Documents() != r.Kinds[Plain]+r.Kinds[Flaky] || r.Requested() >= r.Len() {
		t.Errorf("documents %d, requested %d of %d", r.Documents(), r.Requested(), r.Len())
	}
}

func get(h http.Handler, url string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, url, nil))
	return rec
}

func TestAnswersByKind(t *testing.T) {
	w := mustNew(t, mixed)
	h := w.Handler()
	seen := map[Kind]bool{}
	for p, k := range w.Reach(-1).Each {
		if seen[k] {
			continue
		}
		seen[k] = true
		first, second := get(h, w.URL(p)), get(h, w.URL(p))
		want := k.Status()
		if k == Flaky {
			want = 500
		}
		if first.Code != want || second.Code != k.Status() {
			t.Errorf("%v: answered %d, then %d, want %d, then %d", k, first.Code, second.Code, want, k.Status())
		}
	}
	if len(seen) != int(kinds) {
		t.Errorf("saw %d kinds, want %d", len(seen), kinds)
	}
	robots := get(h, "http://127.1.0.1:8080/robots.txt").Body.String()
	if robots != "User-agent: *\nDisallow: /private/\n" {
		t.Errorf("robots.txt is %q", robots)
	}
	if c := get(h, "http://127.9.9.9:8080/").Code; c != http.StatusMisdirectedRequest {
		t.Errorf("another host is answered %d", c)
	}
	if c := get(h, "http://127.1.0.1:8080/p/1?q=1").Code; c != http.StatusNotFound {
		t.Errorf("a query is answered %d", c)
	}
}

func TestConditionalRequestAndHead(t *testing.T) {
	w := mustNew(t, Config{Seed: 1, Port: 80})
	h := w.Handler()
	first := get(h, w.Root())
	req := httptest.NewRequest(http.MethodGet, w.Root(), nil)
	req.Header.Set("If-None-Match", first.Header().Get("Etag"))
	again := httptest.NewRecorder()
	h.ServeHTTP(again, req)
	if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("revalidation answered %d with %d bytes", again.Code, again.Body.Len())
	}
	head := httptest.NewRecorder()
	h.ServeHTTP(head, httptest.NewRequest(http.MethodHead, w.Root(), nil))
	if head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("Content-Length") != first.Header().Get("Content-Length") {
		t.Errorf("HEAD answered %d with %d bytes, length %s", head.Code, head.Body.Len(), head.Header().Get("Content-Length"))
	}
}

func zipped(t *testing.T, text []byte) int {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, 6)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write(text)
	_ = z.Close()
	return out.Len()
}

// TestTextCompressesLikeText: a page that compressed twenty times, or whose
// neighbour it repeats, would flatter every codec that is measured with it.
func TestTextCompressesLikeText(t *testing.T) {
	w := mustNew(t, Config{Seed: 11, PagesPerHost: 20_000, Size: 20_000, Links: 40})
	var plain, apart, together int
	for n := range 50 {
		a, b := w.AppendBody(nil, Ref{Page: n * 97}), w.AppendBody(nil, Ref{Page: n*131 + 1})
		plain += len(a) + len(b)
		apart += zipped(t, a) + zipped(t, b)
		together += zipped(t, append(a, b...))
	}
	ratio, less := float64(plain)/float64(apart), 1-float64(together)/float64(apart)
	t.Logf("a page compresses %.2f times; two together need %.1f %% less than apart", ratio, 100*less)
	if ratio < 4.5 || ratio > 5.5 {
		t.Errorf("a page compresses %.2f times, want 4.5 to 5.5", ratio)
	}
	if less > 0.15 {
		t.Errorf("two pages together need %.1f %% less than apart, want at most 15 %%", 100*less)
	}
	blocks := map[string]int{}
	total := 0
	for n := range 50 {
		for line := range strings.SplitSeq(string(w.AppendBody(nil, Ref{Page: n})), "\n") {
			if strings.HasPrefix(line, "<section") {
				blocks[line[strings.Index(line, "<p"):]]++
				total++
			}
		}
	}
	if repeated := total - len(blocks); total < 1000 || repeated*100 > total*2 {
		t.Errorf("%d of %d paragraphs of 50 pages are repeated", repeated, total)
	}
}

// TestSpellingsAndCopies: links in all ways are links to the pages of the
// model, and copies have the bodies of others.
func TestSpellingsAndCopies(t *testing.T) {
	w := mustNew(t, Config{Seed: 4, Hosts: 2, PagesPerHost: 900, Links: 30, Size: 3000, OffHost: 300, Spellings: 900, Copies: 500, Port: 8080})
	raw := regexp.MustCompile(`<a href="([^"]*)"`)
	ways, bodies := map[string]int{}, map[string]int{}
	for page := range 900 {
		r := Ref{1, page}
		base, err := url.Parse(w.URL(r))
		if err != nil {
			t.Fatal(err)
		}
		body := w.AppendBody(nil, r)
		bodies[string(body)]++
		want := w.Links(nil, r)
		for i, m := range raw.FindAllSubmatch(body, -1) {
			to, err := base.Parse(strings.TrimSpace(string(m[1])))
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := w.Locate(to.String()); !ok || got != want[i] {
				t.Fatalf("link %d of %v is %q, which is %v, want %v", i, r, m[1], got, want[i])
			}
			ways[strings.TrimRight(string(m[1]), "0123456789-#part")]++
		}
	}
	if len(ways) < 2*spellings {
		t.Errorf("links are written in %d ways only: %v", len(ways), ways)
	}
	if n := len(bodies); n > 600 || n < 400 {
		t.Errorf("900 pages have %d different bodies, want about half as many", n)
	}
	if r := w.Reach(-1); r.Len() != 1800 {
		t.Errorf("%d of 1,800 pages are reached", r.Len())
	}
}

func TestServerOnItsOwnAddresses(t *testing.T) {
	s, err := mustNew(t, Config{Seed: 2, Hosts: 3, PagesPerHost: 20}).Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := range 3 {
		res, err := client.Get(s.URL(Ref{Host: i}))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 || !bytes.Contains(b, []byte(s.Title(Ref{Host: i}))) {
			t.Errorf("host %d answered %d, %v", i, res.StatusCode, err)
		}
		_ = res.Body.Close()
	}
	taken := mustNew(t, Config{Hosts: 2, Port: s.Config().Port})
	if _, err := taken.Start(); err == nil || !strings.Contains(err.Error(), "host 0") {
		t.Errorf("a taken port gives %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := taken.Start()
	if err != nil {
		t.Fatalf("the port is not free after Close: %v", err)
	}
	_ = again.Close()
}

func TestLatencyEndsWithTheRequest(t *testing.T) {
	w := mustNew(t, Config{Port: 80, Latency: func(_, page int) time.Duration {
		if page == 0 {
			return time.Hour
		}
		return time.Nanosecond
	}})
	if c := get(w.Handler(), w.URL(Ref{Page: 1})).Code; c != 200 {
		t.Errorf("page 1 answered %d", c)
	}
	req := httptest.NewRequest(http.MethodGet, w.Root(), nil)
	ctx, cancel := contextDone(req)
	cancel()
	w.Handler().ServeHTTP(httptest.NewRecorder(), req.WithContext(ctx))
	if s := w.Log().Stats(); s.Status[statusGone] != 1 || s.Active != 0 {
		t.Errorf("stats after an abandoned request: %+v", s)
	}
}

func BenchmarkBody(b *testing.B) {
	w := mustNew(b, Config{Seed: 1, Hosts: 10, PagesPerHost: 10_000, Size: 20_000})
	var buf []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = w.AppendBody(buf[:0], Ref{i % 10, i % 10_000})
		b.SetBytes(int64(len(buf)))
	}
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func BenchmarkHandler(b *testing.B) {
	w := mustNew(b, Config{Seed: 1, PagesPerHost: 10_000, Size: 20_000, Port: 80})
	h, rw := w.Handler(), discard{http.Header{}}
	req := httptest.NewRequest(http.MethodGet, w.URL(Ref{Page: 77}), nil)
	for b.Loop() {
		h.ServeHTTP(rw, req)
	}
}

func BenchmarkReachMillion(b *testing.B) {
	w := mustNew(b, Config{Seed: 1, Hosts: 100, PagesPerHost: 10_000, OffHost: 50})
	for b.Loop() {
		if w.Reach(-1).Len() != 1_000_000 {
			b.Fatal("not all reached")
		}
	}
}
