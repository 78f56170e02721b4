//go:build e2edocs

// Package docs crawls a real manual, Python's, with the real programs, and
// compares the crawl with one of wget. It refuses to tolerate a difference
// without a reason: differences_test.go lists the reasons.
package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"trawl/dev/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

const (
	crawlName  = "pydoc"
	crawlTime  = 5 * time.Minute
	searchTime = time.Minute
	// everyPage is in the title of each page of this manual.
	everyPage = "documentation"
	// leastPages that a manual has: comparing two empty lists shows nothing.
	leastPages = 500
)

// summary is the part of the result of "starter crawl --json" that is checked.
type summary struct {
	Outcome string `json:"outcome"`
	Totals  struct {
		Fetched int            `json:"fetched"`
		Pending int            `json:"pending"`
		Refused map[string]int `json:"refused"`
		GivenUp map[string]int `json:"given_up"`
	} `json:"totals"`
	Ledger struct {
		Offsets    int `json:"offsets"`
		Loaded     int `json:"loaded"`
		Deleted    int `json:"deleted"`
		NoDocument int `json:"no_document"`
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

// programs of one stack.
type programs struct{ env []string }

// TestManual is the whole line on real input.
func TestManual(t *testing.T) {
	s := serve(t, manual(t))
	byWget := s.watch(func() { wget(t, s.base+"/") })
	stack := start(t)
	var sum summary
	byTrawl := s.watch(func() { sum = stack.crawl(t, s.base+"/") })
	t.Logf("wget: %d pages in %s; trawl: %d pages, %d documents in %s",
		len(byWget.pages()), byWget.took.Round(time.Millisecond),
		len(byTrawl.pages()), sum.Ledger.Loaded, byTrawl.took.Round(time.Millisecond))

	t.Run("SamePages", func(t *testing.T) { samePages(t, byWget, byTrawl) })
	t.Run("Once", func(t *testing.T) { once(t, byTrawl) })
	t.Run("Summary", func(t *testing.T) { adds(t, sum, byTrawl) })
	t.Run("Documents", func(t *testing.T) { documents(t, stack, s.base, sum, byTrawl) })
	for _, c := range chapters {
		t.Run("Search/"+c.query, func(t *testing.T) { c.check(t, stack, s.base) })
	}
}

func samePages(t *testing.T, byWget, byTrawl visit) {
	if n := len(byWget.pages()); n < leastPages {
		t.Fatalf("wget reached %d pages: a manual has more than %d", n, leastPages)
	}
	explain(t, "wget only", missing(byWget.answers, byTrawl.answers), wgetOnly)
	explain(t, "trawl only", missing(byTrawl.answers, byWget.answers), trawlOnly)
	for _, uri := range missing(byWget.pages(), byTrawl.pages()) {
		t.Errorf("page %s was reached by wget and not by trawl", uri)
	}
	for _, uri := range missing(byTrawl.pages(), byWget.pages()) {
		t.Errorf("page %s was reached by trawl and not by wget", uri)
	}
}

func once(t *testing.T, byTrawl visit) {
	for uri, n := range byTrawl.times {
		if n != 1 {
			t.Errorf("%s was requested %d times", uri, n)
		}
	}
}

// adds compares the summary with what the site saw: robots.txt is no page.
func adds(t *testing.T, sum summary, byTrawl visit) {
	if sum.Outcome != "completed" || sum.Totals.Pending != 0 || len(sum.Totals.GivenUp) != 0 {
		t.Errorf("the crawl did not end well: %+v", sum)
	}
	if got, want := sum.Totals.Fetched, len(byTrawl.answers)-1; got != want {
		t.Errorf("fetched by the summary: %d, by the site: %d", got, want)
	}
	l := sum.Ledger
	if l.Offsets != l.Loaded+l.Deleted+l.NoDocument {
		t.Errorf("the ledger does not add up to the pages: %+v", l)
	}
}

// documents compares the ids in the index with the pages that the site served.
func documents(t *testing.T, stack programs, base string, sum summary, byTrawl visit) {
	want := byTrawl.pages()
	got := map[string]bool{}
	// Both words are needed to see all: the example is no page of the manual.
	for _, query := range []string{everyPage, "tzinfo"} {
		res := stack.search(t, 1000, query)
		if res.Total != len(res.Hits) {
			t.Fatalf("%d of %d hits for %q", len(res.Hits), res.Total, query)
		}
		for _, h := range res.Hits {
			uri, ours := strings.CutPrefix(h.URL, base)
			if !ours {
				t.Errorf("document %s is not of the manual", h.URL)
			}
			got[uri] = true
		}
	}
	for _, uri := range missing(want, got) {
		t.Errorf("page %s is no document", uri)
	}
	explain(t, "documents that are no pages", missing(got, want), otherDocuments)
	if sum.Ledger.Loaded != len(got) {
		t.Errorf("%d documents were loaded, %d are found", sum.Ledger.Loaded, len(got))
	}
	answered := map[string]bool{}
	for uri, a := range byTrawl.answers {
		if a.status == 200 {
			answered[uri] = true
		}
	}
	explain(t, "answered 200 and no document", missing(answered, got), noDocuments)
}

// chapter that a query has to find among the first hits.
type chapter struct {
	query string
	uri   string
	among int
}

var chapters = []chapter{
	{`"list comprehensions" nested`, "/tutorial/datastructures.html", 5},
	{`asyncio "event loop"`, "/library/asyncio-eventloop.html", 5},
	{`"regular expression operations"`, "/library/re.html", 3},
	{`contextlib "context manager" decorator`, "/library/contextlib.html", 5},
	{`"global interpreter lock" "thread state"`, "/c-api/init.html", 5},
	{`PEP 654 "exception groups" "what's new"`, "/whatsnew/3.11.html", 3},
}

func (c chapter) check(t *testing.T, stack programs, base string) {
	res := stack.search(t, c.among, c.query)
	var urls []string
	for _, h := range res.Hits {
		urls = append(urls, strings.TrimPrefix(h.URL, base))
	}
	if !slices.Contains(urls, c.uri) {
		t.Errorf("%s is not among the first %d of %d: %q", c.uri, c.among, res.Total, urls)
	}
}

// wget reaches all that it can from the start, as it does without further
// options: robots.txt obeyed, no other host.
func wget(t *testing.T, from string) {
	t.Helper()
	path, err := exec.LookPath("wget")
	if err != nil {
		t.Fatalf("wget is what the crawl is compared with: %v; install it", err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "wgetrc") // empty: not that of the machine
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := harness.RunProcess(t, "wget", path, nil, crawlTime,
		"-q", "-r", "-l", "inf", "--config="+config, "--no-proxy", "-P", dir, from)
	const serverError = 8 // a 404 was among the answers
	if r.Code != 0 && r.Code != serverError {
		t.Fatalf("wget: %v", r)
	}
}

// start a stack and one worker.
func start(t *testing.T) programs {
	t.Helper()
	dev := harness.StartDev(t, t.TempDir())
	env := append(dev.Env(t.TempDir()), "TRAWL_HTTP_ADDR=127.0.0.1:0")
	worker := harness.StartProcess(t, "worker", harness.WorkerBinary(t), env)
	worker.WaitStderr(`"working"`, time.Minute)
	t.Cleanup(func() {
		if code := worker.Stop(90 * time.Second); code != 0 {
			t.Errorf("the worker ended with exit code %d", code)
		}
	})
	return programs{env}
}

func (p programs) crawl(t *testing.T, from string) summary {
	t.Helper()
	var sum summary
	p.starter(t, &sum, crawlTime, "crawl", from, "--name", crawlName,
		"--delay", "0", "--parallelism", "4", "--allow-network", "127.0.0.0/8")
	return sum
}

func (p programs) search(t *testing.T, limit int, query string) found {
	t.Helper()
	var res found
	p.starter(t, &res, searchTime, "search", crawlName, "--limit", strconv.Itoa(limit), query)
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
