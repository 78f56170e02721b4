package e2e

import (
	"net"
	"testing"
	"time"

	"trawl/bench/web"
	"trawl/internal/contract"
)

func TestBudgetIsExact(t *testing.T) {
	t.Parallel()
	const budget = 500
	l := newLine(t, 2, web.Config{Seed: 8, Hosts: 8, PagesPerHost: 250, Size: 2 << 10, OffHost: 200, Missing: 20})
	s := l.summary(l.crawl("--shards", "4", "--delay", "0s", "--pages", "500"), 0)
	l.spent(s, budget)
	l.once()

	// A higher budget lets the same crawl go on.
	s = l.summary(l.follow("crawl", "--json", "--name", l.name, "--pages", "700"), 0)
	l.spent(s, 700)
	l.once()
}

// spent checks that a crawl ended at its budget, with exactly so many pages.
func (l *line) spent(s contract.Summary, pages int64) {
	l.t.Helper()
	if s.Outcome != contract.OutcomeBudget {
		l.t.Errorf("outcome %q, want %q", s.Outcome, contract.OutcomeBudget)
	}
	if s.Totals.Fetched != pages || l.stats().Pages != pages {
		l.t.Errorf("%d pages fetched, %d requested, want exactly %d", s.Totals.Fetched, l.stats().Pages, pages)
	}
	if s.Totals.Pending == 0 {
		l.t.Error("nothing is pending: the budget was not what ended the crawl")
	}
	l.documents(s, l.answered200())
}

func TestHostThatNeverAnswers(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, web.Config{Seed: 9, Hosts: 2, PagesPerHost: 50, Size: 2 << 10, OffHost: 200})
	silent := silentHost(t)
	flags := []string{
		"--shards", "2", "--delay", delay.String(), "--host-errors", "2",
		"--host", silent, "--seed", "http://" + silent + "/a", "--seed", "http://" + silent + "/b",
	}
	starter := l.crawl(flags...)
	// The same with a budget: the silent host spends none of it.
	b := newLine(t, 1, web.Config{Seed: 10, Hosts: 2, PagesPerHost: 50, Size: 2 << 10, OffHost: 200})
	budgeted := b.crawl(append(flags, "--pages", "60")...)

	s := l.summary(starter, 3)
	l.complete(s)
	l.once()
	l.polite(delay)
	if s.Totals.Parked != 1 || sum(s.Totals.GivenUp) != 2 {
		t.Errorf("%d hosts parked, given up %v; want the silent host parked and its two locators given up", s.Totals.Parked, s.Totals.GivenUp)
	}
	// Whether the silent host is given up before depends on who is first.
	b.spent(b.summary(budgeted, 0, 3), 60)
}

func sum(counts map[string]int64) (n int64) {
	for _, v := range counts {
		n += v
	}
	return n
}

// silentHost accepts connections and never says anything.
func silentHost(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

// warmLatency is what a small crawl may take from command to summary.
const warmLatency = 3 * time.Second

// Not parallel: it measures time.
func TestSmallCrawlIsQuick(t *testing.T) {
	l := newLine(t, 1, web.Config{Seed: 11, PagesPerHost: 50, Size: 8 << 10})
	for _, name := range []string{"warm-up", "measured"} {
		l.name = name
		l.web.Log().Reset()
		began := time.Now()
		s := l.summary(l.crawl("--delay", "0s"), 0)
		took := time.Since(began)
		l.complete(s)
		t.Logf("%s: 50 pages in %s", name, took.Round(time.Millisecond))
		if name == "measured" && took > warmLatency {
			t.Errorf("50 pages took %s from command to summary on a warm stack, want at most %s", took, warmLatency)
		}
	}
}
