//go:build e2ereal

// Package real runs one crawl on a real Kafka and a real OpenSearch or
// Elasticsearch; trawl-dev gives the Temporal server only. It refuses to start
// those servers: deploy/realstack/test.sh does, and names them by
// TRAWL_KAFKA_BROKERS and TRAWL_ELASTIC_URL.
package real

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"trawl/bench/web"
	"trawl/dev/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

const (
	crawlName   = "real"
	startTime   = time.Minute
	crawlTime   = 3 * time.Minute
	commandTime = time.Minute
	// refreshTime is when a document that was loaded has to be found: twice
	// the index's own interval, and room for a busy machine.
	refreshTime = 20 * time.Second
	searchEvery = time.Second
)

// everyPage stands in the title of each page of the computable web.
const everyPage = `page "of host"`

// site is a web of 200 pages, with all that a crawl meets without trying twice.
var site = web.Config{
	Seed: 7, Hosts: 4, PagesPerHost: 50, OffHost: 200,
	Redirects: 60, Missing: 40, Gone: 20, Disallowed: 40,
}

// summary is the part of the result of "starter crawl --json" that is checked.
type summary struct {
	Outcome string `json:"outcome"`
	Totals  struct {
		Pending int            `json:"pending"`
		Status  map[string]int `json:"status"`
		GivenUp map[string]int `json:"given_up"`
	} `json:"totals"`
	Ledger struct {
		Loaded int `json:"loaded"`
		Errors int `json:"errors"`
	} `json:"ledger"`
}

// found is the result of "starter search --json".
type found struct {
	Total int `json:"total"`
	Hits  []struct {
		URL   string `json:"url"`
		Title string `json:"title"`
	} `json:"hits"`
}

func TestRealCrawl(t *testing.T) {
	servers := []string{
		"TRAWL_KAFKA_BROKERS=" + harness.Given(t, "TRAWL_KAFKA_BROKERS"),
		"TRAWL_ELASTIC_URL=" + harness.Given(t, "TRAWL_ELASTIC_URL"), "TRAWL_HTTP_ADDR=127.0.0.1:0",
	}
	w, err := web.New(site)
	if err != nil {
		t.Fatal(err)
	}
	server, err := w.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	reach := w.Reach(-1)
	want := documents(w, reach)

	dev := harness.StartDev(t, t.TempDir())
	p := programs{env: append(dev.Env(t.TempDir()), servers...)}
	p.startWorker(t)
	t.Cleanup(func() { p.deleteCrawl(t) }) // the servers are not ours
	sum := p.crawl(t, w)

	if missing, extra := w.Log().Diff(reach, 10); len(missing)+len(extra) > 0 {
		t.Errorf("not requested: %v; requested, but not reachable or forbidden: %v", missing, extra)
	}
	if n := w.Log().Stats().Duplicates; n != 0 {
		t.Errorf("%d pages were requested twice", n)
	}
	if sum.Outcome != "completed" || sum.Totals.Pending != 0 || len(sum.Totals.GivenUp) != 0 || sum.Ledger.Errors != 0 {
		t.Errorf("the crawl did not end well: %+v", sum)
	}
	if sum.Totals.Status["2xx"] != len(want) || sum.Ledger.Loaded != len(want) {
		t.Errorf("%d pages answered 200 and %d documents loaded, want %d", sum.Totals.Status["2xx"], sum.Ledger.Loaded, len(want))
	}
	p.searchable(t, want)
	p.finds(t, w, want)
	t.Logf("%d pages requested once each, %d documents found", reach.Requested(), len(want))
}

// documents are the pages that answer 200, by URL.
func documents(w *web.Web, reach *web.Reach) map[string]web.Ref {
	want := map[string]web.Ref{}
	reach.Each(func(r web.Ref, k web.Kind) bool {
		if k == web.Plain {
			want[w.URL(r)] = r
		}
		return true
	})
	return want
}

// programs with the environment that leads them to the servers.
type programs struct{ env []string }

func (p programs) startWorker(t *testing.T) {
	t.Helper()
	worker := harness.StartProcess(t, "worker", harness.WorkerBinary(t), p.env)
	worker.WaitStderr(`"msg":"working"`, startTime)
	t.Cleanup(func() {
		if code := worker.Stop(90 * time.Second); code != 0 {
			t.Errorf("the worker ended with exit code %d", code)
		}
	})
}

func (p programs) crawl(t *testing.T, w *web.Web) summary {
	t.Helper()
	args := []string{
		"crawl", w.Root(), "--name", crawlName, "--sink", "elastic", "--delay", "0",
		"--shards", "2", "--allow-network", "127.0.0.0/8", "--contact", "https://bot.example.org/",
	}
	for i := range site.Hosts {
		args = append(args, "--host", w.Host(i))
	}
	var sum summary
	p.starter(t, &sum, crawlTime, args...)
	return sum
}

func (p programs) deleteCrawl(t *testing.T) {
	t.Helper()
	r := harness.RunProcess(t, "starter", harness.StarterBinary(t), p.env, commandTime, "delete", crawlName, "--yes")
	if r.Code != 0 {
		t.Errorf("starter delete: %v", r)
	}
}

func (p programs) search(t *testing.T, limit int, query string) found {
	t.Helper()
	var res found
	p.starter(t, &res, commandTime, "search", crawlName, "--limit", strconv.Itoa(limit), query)
	return res
}

// starter runs a command of starter and decodes what it prints.
func (p programs) starter(t *testing.T, into any, timeout time.Duration, args ...string) {
	t.Helper()
	r := harness.RunProcess(t, "starter", harness.StarterBinary(t), p.env, timeout, append([]string{"--json"}, args...)...)
	if r.Code != 0 {
		t.Fatalf("starter %q: %v", args, r)
	}
	if err := json.Unmarshal([]byte(r.Stdout), into); err != nil {
		t.Fatalf("starter %q: %v in %v", args, err, r)
	}
}

// searchable checks that exactly the documents are found, once the index has
// refreshed itself.
func (p programs) searchable(t *testing.T, want map[string]web.Ref) {
	t.Helper()
	res := p.search(t, 1000, everyPage)
	tick := time.NewTicker(searchEvery)
	defer tick.Stop()
	for began := time.Now(); res.Total < len(want) && time.Since(began) < refreshTime; {
		<-tick.C
		res = p.search(t, 1000, everyPage)
	}
	got := map[string]bool{}
	for _, h := range res.Hits {
		if _, known := want[h.URL]; !known {
			t.Errorf("document %s is no page that answers 200", h.URL)
		}
		got[h.URL] = true
	}
	for url := range want {
		if !got[url] {
			t.Errorf("page %s is not found", url)
		}
	}
	if res.Total != len(want) {
		t.Errorf("%d documents are found, want %d", res.Total, len(want))
	}
}

// finds searches some pages by their titles.
func (p programs) finds(t *testing.T, w *web.Web, want map[string]web.Ref) {
	t.Helper()
	urls := slices.Sorted(maps.Keys(want))
	for _, url := range []string{urls[0], urls[len(urls)/2], urls[len(urls)-1]} {
		title := w.Title(want[url])
		words := strings.Map(func(r rune) rune {
			if r == ':' {
				return ' '
			}
			return r
		}, title)
		res := p.search(t, 1, `"`+words+`"`)
		if res.Total != 1 || len(res.Hits) != 1 || res.Hits[0].URL != url || res.Hits[0].Title != title {
			t.Errorf("search for %q: %+v, want only %s", words, res, url)
		}
	}
}
