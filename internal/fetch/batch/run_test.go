package batch

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/robots"
)

func TestAnswers(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			serveHTML(w, html("/a", "/b?x=1", "http://elsewhere.test/", "mailto:x@y"))
		case "/moved":
			http.Redirect(w, r, "/target", http.StatusMovedPermanently)
		case "/away":
			http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/zip":
			w.Header().Set("Content-Type", "application/zip")
			_, _ = w.Write([]byte("PK"))
		case "/same":
			if r.Header.Get("If-None-Match") == `"v1"` {
				w.WriteHeader(http.StatusNotModified)
			}
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	})
	u := newSetup(t, s, "/", "/moved", "/away", "/gone", "/zip", "/same", "/broken", "/missing")
	u.host().Items[5].ETag = `"v1"`
	u.host().Items[0].Depth = 2
	res := u.run(t.Context())

	want := map[string]int64{
		"200": 1, "301": 1, "302": 1, "410": 1, "404": 1, "304": 1, "refused:type": 1, "failed:5xx": 1, "link:host": 2,
	}
	if fmt.Sprint(res.Outcomes) != fmt.Sprint(want) {
		t.Errorf("outcomes %v, want %v", res.Outcomes, want)
	}
	if res.LeftOver != 0 || res.Requests != 8 || res.Links != 3 {
		t.Errorf("left over %d, requests %d, links %d; want 0, 8, 3", res.LeftOver, res.Requests, res.Links)
	}
	p := pages(u.log)
	if len(p) != 5 || p[s.URL+"/moved"].Redirect != s.URL+"/target" || p[s.URL+"/gone"].Status != 410 {
		t.Errorf("pages: %v", p)
	}
	for _, d := range facts[frontier.Discovered](u.log) {
		switch strings.TrimPrefix(d.URL, s.URL) {
		case "/a", "/b?x=1":
			if d.Depth != 3 || d.How != frontier.HowLink || d.Parent != s.URL+"/" {
				t.Errorf("%+v", d)
			}
		case "/target":
			if d.Depth != 0 || d.Hop != 1 || d.How != frontier.HowRedirect {
				t.Errorf("%+v", d)
			}
		default:
			t.Errorf("unexpected %+v", d)
		}
	}
	for _, f := range facts[frontier.Fetched](u.log) {
		if f.URL == s.URL+"/same" && (f.Status != 304 || f.ETag != `"v1"`) {
			t.Errorf("not modified: %+v", f)
		}
	}
	checkOrder(t, u.log)
}

// checkOrder is invariant 1: before a fetched fact stand its page and the
// discovered facts of all links that were ever stated from it.
func checkOrder(t *testing.T, l *fakeLog) {
	t.Helper()
	entries := l.all()
	first := map[string]int{}
	for i, e := range entries {
		key := ""
		if e.page != nil {
			key = "page " + e.page.URL
		} else if d, ok := e.fact.(frontier.Discovered); ok {
			key = "found " + d.URL
		}
		if _, seen := first[key]; key != "" && !seen {
			first[key] = i
		}
	}
	links := map[string][]string{}
	for _, e := range entries {
		if d, ok := e.fact.(frontier.Discovered); ok {
			links[d.Parent] = append(links[d.Parent], d.URL)
		}
	}
	for i, e := range entries {
		f, ok := e.fact.(frontier.Fetched)
		if !ok || f.Refusal != "" || f.Status == 304 {
			continue
		}
		if at, ok := first["page "+f.URL]; !ok || at > i {
			t.Errorf("%s is fetched at %d without its page before", f.URL, i)
		}
		for _, link := range links[f.URL] {
			if at, ok := first["found "+link]; !ok || at > i {
				t.Errorf("%s is fetched at %d without its link %s before", f.URL, i, link)
			}
		}
	}
}

// TestOrderUnderFailures fails the n-th append, with and without the records
// having been taken, for every n that a run makes.
func TestOrderUnderFailures(t *testing.T) {
	const width = 40
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		var links []string
		for i := range 5 {
			links = append(links, fmt.Sprintf("%s/l%d", r.URL.Path, i))
		}
		serveHTML(w, html(append(links, "/nav", "/nav2")...))
	})
	var paths []string
	for i := range width {
		paths = append(paths, fmt.Sprintf("/p%d", i))
	}
	for n, more := 1, true; more && n < 100; n++ {
		for _, taken := range []bool{true, false} {
			u := newSetup(t, s, paths...)
			u.job.Run.Shards = 4
			if taken {
				u.log.failAt = map[int]bool{n: true}
			} else {
				u.log.loseAt = map[int]bool{n: true}
			}
			res := u.run(t.Context())
			if res.LeftOver != 0 || res.Outcomes["200"] != width {
				t.Fatalf("n=%d: %+v", n, res)
			}
			checkOrder(t, u.log)
			found := map[string]bool{}
			for _, d := range facts[frontier.Discovered](u.log) {
				found[d.URL] = true
			}
			if len(found) != 5*width+2 {
				t.Errorf("n=%d: %d links found, want %d", n, len(found), 5*width+2)
			}
			if n > u.log.calls {
				more = false
			}
		}
	}
}

// A log that never acknowledges ends the batch with an error, states nothing
// and is not taken for success.
func TestFlushNeverAcknowledged(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, html("/x")) })
	u := newSetup(t, s, "/")
	u.log.loseAt = map[int]bool{}
	for n := range 1000 {
		u.log.loseAt[n] = true
	}
	u.job.HardEnd = time.Now().Add(400 * time.Millisecond)
	u.prepare()
	if _, err := u.runner.Run(t.Context(), u.job); err == nil || !strings.Contains(err.Error(), "not acknowledged") {
		t.Errorf("error %v", err)
	}
	if n := len(u.log.all()); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestDelayAndParallelism(t *testing.T) {
	const delay = 40 * time.Millisecond
	slow := make(chan struct{})
	var served atomic.Int64
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1) == 3 {
			close(slow)
		}
		<-slow // the first three are open at once
		serveHTML(w, "x")
	})
	var paths []string
	for i := range 3 * perConnection { // so that three are asked for at once from the start
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	u := newSetup(t, s, paths...)
	u.host().DelayMS, u.host().Parallelism = delay.Milliseconds(), 3
	start := time.Now()
	u.host().Careful = true
	res := u.run(t.Context())
	if res.LongestDelay != delay {
		t.Errorf("longest delay %v", res.LongestDelay)
	}
	if s.most != 3 {
		t.Errorf("%d requests at once, want 3", s.most)
	}
	// A server may take up a request late, and the next one at once: that they
	// are sent a delay apart is shown where time is exact (TestPace).
	for i, h := range s.hits {
		if came := h.at.Sub(start); came < time.Duration(i+1)*delay {
			t.Errorf("request %d came after %v, although each waits %v for the one before", i+1, came, delay)
		}
	}
}

// A connection is made for four locators at first, for each request that may be
// made at once when the host turns out to be slow.
func TestFewConnectionsUnlessSlow(t *testing.T) {
	var paths []string
	for i := range 8 {
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	t.Run("quick", func(t *testing.T) {
		s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
		least := time.Hour
		for range 3 { // a busy machine may make a batch slow, hardly three
			u := newSetup(t, s, paths...)
			u.host().Parallelism = 5
			began := time.Now()
			if res := u.run(t.Context()); res.Outcomes["200"] != 8 {
				t.Fatalf("%+v", res)
			}
			took := time.Since(began)
			least = min(least, took)
			if s.most > 2 && took < widenAfter {
				t.Errorf("%d requests at once, want 2", s.most)
			}
			s.most = 0
		}
		if least >= widenAfter {
			t.Errorf("eight quick pages took %s", least)
		}
	})
	t.Run("slow", func(t *testing.T) {
		var asked atomic.Int64
		five, more := make(chan struct{}), make(chan struct{})
		s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
			switch asked.Add(1) {
			case 5:
				close(five)
			case 6:
				close(more)
			}
			<-five
			select {
			case <-more: // a sixth beside these five, or after one of them
			case <-time.After(200 * time.Millisecond):
			}
			serveHTML(w, "x")
		})
		u := newSetup(t, s, paths...)
		u.host().Parallelism = 5
		began := time.Now()
		if res := u.run(t.Context()); res.Outcomes["200"] != 8 {
			t.Fatalf("%+v", res)
		}
		if took := time.Since(began); took < widenAfter || s.most != 5 {
			t.Errorf("%d requests at once after %s, want 5", s.most, took)
		}
	})
}

// The two schemes of a host, listed apart, share one gate.
func TestParallelismWithoutDelay(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
	var paths []string
	for i := range 200 {
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	u := newSetup(t, s, paths...)
	h := *u.host()
	h.Items = nil
	for i := range 50 {
		h.Items = append(h.Items, contract.Item{Path: fmt.Sprintf("/again%d", i)})
	}
	u.job.Batch.Hosts = append(u.job.Batch.Hosts, h)
	res := u.run(t.Context())
	if s.most > 4 || res.Outcomes["200"] != 250 {
		t.Errorf("%d at once, %+v", s.most, res)
	}
	if got := int64(len(s.hits)); got != res.Requests || got != u.job.Plan.Client().Requests() {
		t.Errorf("site saw %d requests, result says %d, collector %d", got, res.Requests, u.job.Plan.Client().Requests())
	}
}

func TestRobots(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			fmt.Fprintf(w, "User-agent: trawltest\nDisallow: /private\nCrawl-delay: 0.05\nSitemap: /map.xml\n")
			return
		}
		serveHTML(w, "x")
	})
	u := newSetup(t, s, "/a", "/private/x", "/b")
	u.spec.Politeness.Robots = true
	var beforePages []string
	u.log.before = func(int) {
		if beforePages == nil {
			beforePages = s.paths()
		}
	}
	res := u.run(t.Context())
	if fmt.Sprint(beforePages) != "[/robots.txt]" {
		t.Errorf("requests before the crawl-delay was stated: %v", beforePages)
	}
	if res.Outcomes["refused:robots"] != 1 || res.Outcomes["200"] != 2 || s.count("/private/x") != 0 {
		t.Errorf("%+v, site saw %v", res, s.paths())
	}
	var kinds []string
	for _, e := range u.log.all()[:2] {
		kinds = append(kinds, fmt.Sprintf("%T", e.fact))
	}
	if fmt.Sprint(kinds) != "[frontier.Discovered frontier.Robots]" {
		t.Errorf("first facts %v", kinds)
	}
	r := facts[frontier.Robots](u.log)[0]
	if r.CrawlDelay != 50*time.Millisecond || r.Host != s.host || res.LongestDelay != 50*time.Millisecond {
		t.Errorf("%+v, longest delay %v", r, res.LongestDelay)
	}

	// The next batch names the fact: the site is not asked again.
	for _, e := range u.log.all() {
		if _, ok := e.fact.(frontier.Robots); ok {
			u.host().RobotsAt = e.offset
		}
	}
	asked := s.count("/robots.txt")
	u.host().Items = []contract.Item{{Path: "/private/y"}, {Path: "/c"}}
	for range 2 {
		res = u.run(t.Context())
		if res.Outcomes["refused:robots"] != 1 || s.count("/robots.txt") != asked || res.LongestDelay != 50*time.Millisecond {
			t.Errorf("known rules: %+v, %d robots requests", res, s.count("/robots.txt"))
		}
	}

	// Another host's fact, an expired one and none at all: the host is asked.
	for i, f := range []frontier.Robots{
		{Host: "other.test", Scheme: "http", Rules: robots.AllowAll().Encode(), Expiry: time.Now().Add(time.Hour)},
		{Host: s.host, Scheme: "http", Rules: robots.AllowAll().Encode(), Expiry: time.Now().Add(-time.Hour)},
		{Host: s.host, Scheme: "https", Rules: robots.AllowAll().Encode(), Expiry: time.Now().Add(time.Hour)},
	} {
		base, _ := u.log.Append(t.Context(), "t.frontier", 0, recordsOf(f))
		u.host().RobotsAt = base
		if res = u.run(t.Context()); s.count("/robots.txt") != asked+i+1 || res.Outcomes["refused:robots"] != 1 {
			t.Errorf("fact %d was believed: %+v", i, res)
		}
	}
}

func TestRobotsNotToBeHad(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		allowed bool
	}{
		{"404", http.NotFound, true},
		{"403", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, true},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, false},
		{"429", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, false},
		{"dropped", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, false},
		{"loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/robots.txt", http.StatusFound) }, true},
		{"moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/rules", http.StatusFound) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/robots.txt":
					c.handler(w, r)
				case "/rules":
					fmt.Fprint(w, "User-agent: *\nDisallow: /")
				default:
					serveHTML(w, "x")
				}
			})
			u := newSetup(t, s, "/a")
			u.spec.Politeness.Robots = true
			res := u.run(t.Context())
			if got := s.count("/a") == 1; got != c.allowed {
				t.Errorf("page requested: %v, want %v: %+v", got, c.allowed, res)
			}
			blocked := facts[frontier.Blocked](u.log)
			if want := !c.allowed && c.name != "moved"; (len(blocked) == 1) != want || want && res.LeftOver != 1 {
				t.Errorf("blocked %v, left over %d", blocked, res.LeftOver)
			}
		})
	}
}

func recordsOf(f frontier.Fact) (out []kafkalog.Record) { return append(out, record(f)) }

func TestBlock(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/2" {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		serveHTML(w, "x")
	})
	u := newSetup(t, s, "/1", "/2", "/3", "/4")
	u.host().Parallelism = 1
	u.host().Part = 3
	before := time.Now()
	res := u.run(t.Context())
	b := facts[frontier.Blocked](u.log)
	if len(b) != 1 || b[0].Part != 3 || b[0].Until.Sub(before).Round(time.Minute) != time.Hour {
		t.Fatalf("blocked %+v", b)
	}
	if len(s.paths()) != 2 || res.LeftOver != 2 || res.Outcomes["blocked:429"] != 1 {
		t.Errorf("site saw %v, %+v", s.paths(), res)
	}
	// Its locator comes after the others, and ends by its own limit.
	f := facts[frontier.Tried](u.log)
	if len(f) != 1 || f[0].URL != s.URL+"/2" || f[0].Number != 1 || f[0].Class != "429" || !f[0].NextDue.Equal(b[0].Until) {
		t.Errorf("tried %+v", f)
	}
}

// One locator that always blocks does not take its host with it: it ends after
// its tries, and what lies behind it is asked.
func TestAlwaysBlocking(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		serveHTML(w, "x")
	})
	st := frontier.New(frontier.Options{Depth: -1, Tries: 3, Delay: time.Millisecond, IgnoreRobots: true, ScratchDir: t.TempDir()})
	defer st.Close()
	fold := func(f frontier.Fact) {
		k, v := f.Record()
		if err := st.Fold(st.Position(), k, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/bad", "/a", "/b"} {
		fold(frontier.Discovered{URL: s.URL + path})
	}
	now := time.Now()
	for n := int64(0); ; n++ {
		res := st.Deal(now, contract.ExpandInput{Number: n})
		if res.Verdict == contract.VerdictIdle {
			break
		}
		if n > 10 {
			t.Fatalf("no end: %+v", res)
		}
		if res.Batch == nil {
			now = now.Add(time.Hour)
			continue
		}
		u := newSetup(t, s)
		u.spec.Limits.HostErrors = 5
		u.job.Batch = *res.Batch
		u.job.Now = func() time.Time { return now }
		u.run(t.Context())
		for _, e := range u.log.all() {
			if e.fact != nil {
				fold(e.fact)
			}
		}
	}
	if got := st.Totals(); got.Fetched != 2 || got.GivenUp["503"] != 1 || got.Parked != 0 || s.count("/bad") != 3 {
		t.Errorf("%+v, site saw %v", got, s.paths())
	}
}

// Answers that run when the first block comes may name shorter waits: the
// longest is what stands last.
func TestLongestBlockStands(t *testing.T) {
	var inside sync.WaitGroup
	inside.Add(3)
	first := make(chan struct{})
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		inside.Done()
		inside.Wait()
		if r.URL.Path == "/1" {
			defer close(first)
			w.Header().Set("Retry-After", "600")
		} else {
			<-first
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	u := newSetup(t, s, "/1", "/2", "/3")
	u.run(t.Context())
	b := facts[frontier.Blocked](u.log)
	if len(b) == 0 || time.Until(b[len(b)-1].Until) < 9*time.Minute {
		t.Errorf("blocked %+v", b)
	}
	if st := facts[frontier.Streak](u.log); st[len(st)-1].Errors != 1 {
		t.Errorf("one block is one error in the streak: %+v", st)
	}
}

// A reused connection that the site closes costs one more request, at the
// host's delay, and no failed try.
func TestResend(t *testing.T) {
	const delay = 30 * time.Millisecond
	var n atomic.Int64
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		serveHTML(w, "x")
	})
	u := newSetup(t, s, "/1", "/2", "/3")
	u.host().DelayMS, u.host().Parallelism = delay.Milliseconds(), 1
	start := time.Now()
	res := u.run(t.Context())
	if res.Outcomes["200"] != 3 || res.Requests != 4 || len(facts[frontier.Tried](u.log)) != 0 || len(s.paths()) != 4 {
		t.Errorf("%+v, site saw %v", res, s.paths())
	}
	for i, h := range s.hits {
		if came := h.at.Sub(start); came < time.Duration(i)*delay {
			t.Errorf("request %d came after %v, although each waits %v for the one before", i+1, came, delay)
		}
	}
}

func TestDepthCut(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leaf" {
			serveHTML(w, html("http://elsewhere.test/"))
			return
		}
		serveHTML(w, html("/x"))
	})
	u := newSetup(t, s, "/deep", "/leaf", "/near")
	u.spec.Scope.Depth = 2
	for i, depth := range []int{2, 2, 1} {
		u.host().Items[i].Depth = depth
	}
	u.run(t.Context())
	for _, f := range facts[frontier.Fetched](u.log) {
		if want := strings.HasSuffix(f.URL, "/deep"); f.CutDepth != want {
			t.Errorf("%s: cut %v", f.URL, f.CutDepth)
		}
	}
	if d := facts[frontier.Discovered](u.log); len(d) != 1 || d[0].Depth != 2 {
		t.Errorf("discovered %+v", d)
	}
}

// Links stated once are not stated again, also by the next batch; at a lesser
// depth, or in another generation, they are.
func TestRecentLinks(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, html("/x", "/y")) })
	u := newSetup(t, s, "/1", "/2", "/3")
	for i := range u.host().Items {
		u.host().Items[i].Depth = 5
	}
	check := func(want int) {
		t.Helper()
		u.run(t.Context())
		if d := facts[frontier.Discovered](u.log); len(d) != want {
			t.Errorf("%d discovered facts, want %d", len(d), want)
		}
	}
	check(2)
	check(2)
	u.host().Items[1].Depth = 4
	check(4)
	u.job.Run.Generation = "20270101t000000"
	u.host().Items = u.host().Items[:1]
	check(6)
}

func TestSitemaps(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		if r.URL.Path == "/index.xml" {
			fmt.Fprintf(w, `<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>http://%s/map.xml</loc></sitemap></sitemapindex>`, r.Host)
			return
		}
		fmt.Fprintf(w, `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://%s/page</loc></url></urlset>`, r.Host)
	})
	u := newSetup(t, s, "/index.xml", "/map.xml")
	u.run(t.Context())
	got := map[string]frontier.Discovered{}
	for _, d := range facts[frontier.Discovered](u.log) {
		got[strings.TrimPrefix(d.URL, s.URL)] = d
	}
	if m, p := got["/map.xml"], got["/page"]; len(got) != 2 || m.Depth != 0 || m.Hop != 1 || p.Depth != 1 || p.How != frontier.HowSitemap {
		t.Errorf("%+v", got)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		after, date string
		want        time.Duration
		told        bool
	}{
		{"", "", 0, false},
		{"soon", "", 0, false},
		{"-3", "", 0, false},
		{"0", "", 0, true},
		{"90", "", 90 * time.Second, true},
		{"999999", "", time.Hour, true},
		{"Fri, 02 Jan 2026 03:05:05 GMT", "", time.Minute, true},
		{"Fri, 02 Jan 2026 01:00:30 GMT", "Fri, 02 Jan 2026 01:00:00 GMT", 30 * time.Second, true},
		{"Fri, 02 Jan 2020 01:00:30 GMT", "", time.Second, true},
	} {
		got, told := retryAfter(http.Header{"Retry-After": {c.after}, "Date": {c.date}}, now)
		if got != c.want || told != c.told {
			t.Errorf("%q, date %q: %v %v, want %v %v", c.after, c.date, got, told, c.want, c.told)
		}
	}
}

func TestParking(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	u := newSetup(t, s, "/1", "/2", "/3", "/4", "/5", "/6")
	u.host().Parallelism, u.host().Streak = 1, 7
	u.host().Items[0].Try = 2
	res := u.run(t.Context())
	if p := facts[frontier.Parked](u.log); len(p) != 1 || !strings.Contains(p[0].Reason, "10 errors") {
		t.Errorf("parked %+v", p)
	}
	tried := facts[frontier.Tried](u.log)
	if len(tried) != 3 || tried[0].Number != 3 || tried[0].Class != "reset" || res.LeftOver != 3 {
		t.Errorf("tried %+v, %+v", tried, res)
	}
	if st := facts[frontier.Streak](u.log); len(st) == 0 || st[len(st)-1].Errors != 10 {
		t.Errorf("streaks %+v", st)
	}
}

func TestSuccessResetsStreak(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
	for _, streak := range []int{0, 4} {
		u := newSetup(t, s, "/1", "/2")
		u.host().Streak = streak
		u.run(t.Context())
		st := facts[frontier.Streak](u.log)
		if streak == 0 && len(st) != 0 || streak > 0 && (len(st) != 1 || st[0].Errors != 0) {
			t.Errorf("streak %d: stated %+v", streak, st)
		}
	}
}

func TestDrain(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { close(inside) })
		<-leave
		serveHTML(w, "x")
	})
	u := newSetup(t, s, "/1", "/2", "/3")
	u.host().Parallelism = 1
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-inside
		cancel()
		close(leave)
	}()
	res := u.run(ctx)
	if !res.Drained || res.LeftOver != 2 || res.Outcomes["200"] != 1 {
		t.Errorf("%+v", res)
	}
	if len(pages(u.log)) != 1 || len(facts[frontier.Fetched](u.log)) != 1 || len(s.paths()) != 1 {
		t.Errorf("the running request was not finished and stated, or another started: %v", s.paths())
	}
}

func TestGateFalls(t *testing.T) {
	leave := make(chan struct{})
	defer close(leave)
	u := newSetup(t, newSite(t, func(http.ResponseWriter, *http.Request) {}), "/1", "/2", "/3", "/4", "/5", "/6")
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		u.gate.fall()
		select {
		case <-leave:
		case <-r.Context().Done(): // the abort
		}
	})
	u.host().Host = s.host
	u.spec.Seeds.URLs = []string{s.URL + "/"}
	res := u.run(t.Context())
	if !res.Drained || res.LeftOver != 6 {
		t.Errorf("%+v", res)
	}
	if e := u.log.all(); len(e) != 0 {
		t.Errorf("stated after the gate fell: %+v", e)
	}
	if n := len(s.paths()); n > 4 {
		t.Errorf("%d requests, want at most those that ran", n)
	}
}

func TestClosedGate(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	u := newSetup(t, s, "/1")
	u.gate.fall()
	if res := u.run(t.Context()); res.LeftOver != 1 || len(s.paths()) != 0 {
		t.Errorf("%+v, site saw %v", res, s.paths())
	}
}

func TestTimeBox(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
	u := newSetup(t, s, "/1", "/2", "/3")
	u.host().DelayMS = 60_000
	u.job.Batch.TimeBox = time.Second
	res := u.run(t.Context())
	if res.Outcomes["200"] != 1 || res.LeftOver != 2 || res.Drained {
		t.Errorf("%+v", res)
	}
}

// A batch that ends before the first request answers with the delays that the
// slots are to cool.
func TestDelaysOfUnaskedHosts(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
	for _, c := range []struct {
		name   string
		change func(u *setup)
		hits   int
		want   time.Duration
	}{
		{"careful", func(u *setup) { u.host().DelayMS, u.host().Careful = 60_000, true }, 0, time.Minute},
		{"careful, the other scheme is slower", func(u *setup) {
			u.host().Careful, u.host().DelayMS = true, 10
			other := *u.host()
			other.Careful, other.DelayMS = false, 60_000
			u.job.Batch.Hosts = append(u.job.Batch.Hosts, other)
		}, 0, time.Minute},
		{"others of careful slots", func(u *setup) { u.job.Batch.Cool = 40 * time.Second }, 1, 40 * time.Second},
		{"not careful", func(u *setup) { u.host().DelayMS = 10 }, 1, 10 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(s.paths())
			u := newSetup(t, s, "/1")
			u.job.Batch.TimeBox = 100 * time.Millisecond
			if c.hits > 0 {
				u.job.Batch.TimeBox = 10 * time.Second // it ends when all is asked for
			}
			c.change(u)
			res := u.run(t.Context())
			if hits := len(s.paths()) - before; hits != c.hits || res.LongestDelay != c.want {
				t.Errorf("%d requests, longest delay %v; want %d, %v", hits, res.LongestDelay, c.hits, c.want)
			}
		})
	}
}

// The time since a host was asked counts towards the delay: of all hosts that of
// the one that was asked last, and not if more is owed to others.
func TestGoneOfTheDelay(t *testing.T) {
	const took, delay = 60 * time.Millisecond, time.Minute
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(took)
		serveHTML(w, "x")
	})
	for _, c := range []struct {
		name  string
		delay time.Duration
		cool  time.Duration
		held  time.Duration // a second host
		least time.Duration
		most  time.Duration // below 0: so much less than the batch took
	}{
		{"since it was asked", delay, 0, 0, took, delay},
		{"all of it", took / 2, 0, 0, took / 2, took / 2},
		{"of the one that was asked last", delay, 0, 2 * took, took, -2 * took},
		{"owed to others", delay, delay, 0, 0, 0},
		{"some of it owed to others", delay, delay / 2, 0, took, delay / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newSetup(t, s, "/1")
			u.host().DelayMS = c.delay.Milliseconds()
			if c.held > 0 {
				other := *newSetup(t, newSite(t, s.Config.Handler.ServeHTTP), "/1").host()
				other.DelayMS, other.HoldMS = c.delay.Milliseconds(), c.held.Milliseconds()
				u.job.Batch.Hosts = append(u.job.Batch.Hosts, other)
			}
			u.job.Batch.Cool = c.cool
			start := time.Now()
			res := u.run(t.Context())
			most := c.most
			if most < 0 {
				most += time.Since(start)
			}
			if res.LongestDelay != c.delay || res.Gone < c.least || res.Gone > most {
				t.Errorf("longest delay %v, %v gone; want %v to %v of %v", res.LongestDelay, res.Gone, c.least, most, c.delay)
			}
		})
	}
}

// What is left of the cooling is waited for here, a careful host's delay on top.
func TestHeldHosts(t *testing.T) {
	for _, c := range []struct {
		name    string
		careful bool
		want    time.Duration
	}{
		{"held", false, 150 * time.Millisecond},
		{"held and careful", true, 200 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
			u := newSetup(t, s, "/1", "/2")
			u.host().DelayMS, u.host().HoldMS, u.host().Careful = 50, 150, c.careful
			start := time.Now()
			res := u.run(t.Context())
			if res.Outcomes["200"] != 2 || res.LongestDelay != 50*time.Millisecond {
				t.Fatalf("%+v", res)
			}
			if after := s.hits[0].at.Sub(start); after < c.want-5*time.Millisecond {
				t.Errorf("the first request came after %v, want %v", after, c.want)
			}
		})
	}
}

// robots.txt was asked for, and its crawl-delay is longer than the time box:
// the slots cool for it.
func TestCrawlDelayBeyondTimeBox(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nCrawl-delay: 30\n")
	})
	u := newSetup(t, s, "/1")
	u.spec.Politeness.Robots = true
	u.job.Batch.TimeBox = time.Second
	res := u.run(t.Context())
	if fmt.Sprint(s.paths()) != "[/robots.txt]" || res.LongestDelay != 30*time.Second {
		t.Errorf("site saw %v, longest delay %v", s.paths(), res.LongestDelay)
	}
	for _, e := range u.log.all() {
		if _, ok := e.fact.(frontier.Robots); ok {
			u.host().RobotsAt = e.offset
		}
	}
	if res = u.run(t.Context()); s.count("/1") != 1 || res.LongestDelay != 30*time.Second {
		t.Errorf("the batch after: site saw %v, longest delay %v", s.paths(), res.LongestDelay)
	}
}

// A try whose turn never comes was not made.
func TestStateTryWaitsForItsTurn(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
	u := newSetup(t, s, "/1", "/bomb")
	u.host().DelayMS, u.host().Parallelism = 60_000, 1
	u.host().Items[1].StateTry = true
	u.job.Batch.TimeBox = time.Second
	res := u.run(t.Context())
	if f := facts[frontier.Tried](u.log); len(f) != 0 || res.LeftOver != 1 {
		t.Errorf("tried %+v, %+v", f, res)
	}
	if n := len(u.runner.slots); n != 0 {
		t.Errorf("%d slots of the worker are lost", n)
	}
}

func TestStateTry(t *testing.T) {
	u := newSetup(t, newSite(t, func(http.ResponseWriter, *http.Request) {}), "/bomb")
	var stated int
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		stated = len(facts[frontier.Tried](u.log))
		serveHTML(w, "x")
	})
	u.host().Host = s.host
	u.spec.Seeds.URLs = []string{s.URL + "/"}
	u.host().Items[0].StateTry, u.host().Items[0].Try = true, 1
	u.run(t.Context())
	tried := facts[frontier.Tried](u.log)
	if stated != 1 || len(tried) != 1 || tried[0].Class != "killed" || tried[0].Number != 2 {
		t.Errorf("%d tries stated before the request: %+v", stated, tried)
	}
}

// A page that is larger than the topic allows loses its body and nothing else;
// the pages around it keep theirs.
func TestPageBeyondTheTopic(t *testing.T) {
	big := html("/link") + strings.Repeat("x", 60_000)
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/big" {
			serveHTML(w, big)
			return
		}
		serveHTML(w, "small")
	})
	u := newSetup(t, s, "/1", "/2", "/big", "/3", "/4", "/5")
	u.log.largest = 50_000
	res := u.run(t.Context())
	p := pages(u.log)
	got := p[s.URL+"/big"]
	if got == nil || !got.Cut || len(got.Body) != 0 || got.Size != int64(len(big)) || got.Digest != xxhash.Sum64String(big) ||
		got.Status != 200 || got.ContentType == "" || len(got.Header) == 0 {
		t.Errorf("page %+v", got)
	}
	for _, path := range []string{"/1", "/2", "/3", "/4", "/5"} {
		if q := p[s.URL+path]; q == nil || string(q.Body) != "small" || q.Cut {
			t.Errorf("%s: %+v", path, q)
		}
	}
	if res.Outcomes["200"] != 6 || res.LeftOver != 0 || len(facts[frontier.Discovered](u.log)) != 1 {
		t.Errorf("%+v", res)
	}
	checkOrder(t, u.log)
}

func TestHopsEnd(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) })
	u := newSetup(t, s, "/a", "/b")
	u.host().Items[0].Hop, u.host().Items[1].Hop = 8, 9
	res := u.run(t.Context())
	d := facts[frontier.Discovered](u.log)
	if len(d) != 1 || d[0].Hop != 9 || res.Outcomes["refused:hops"] != 1 || len(pages(u.log)) != 2 {
		t.Errorf("discovered %+v, %+v", d, res)
	}
}

func TestAddressRefused(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	u := newSetup(t, s, "/1")
	u.spec.AllowNetworks = nil
	res := u.run(t.Context())
	f := facts[frontier.Fetched](u.log)
	if len(f) != 1 || f[0].Refusal != "address" || f[0].Status != 0 || res.Outcomes["refused:address"] != 1 || len(s.paths()) != 0 {
		t.Errorf("%+v, %+v", f, res)
	}
}
