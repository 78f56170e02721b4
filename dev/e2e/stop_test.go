package e2e

import (
	"context"
	"testing"
	"time"

	"trawl/bench/web"
	"trawl/internal/contract"
	"trawl/workflows"
)

// stopWeb takes some twenty seconds at ten requests per second and host.
func stopWeb(seed uint64) web.Config {
	return web.Config{Seed: seed, Hosts: 4, PagesPerHost: 250, Size: 2 << 10, OffHost: 100, Missing: 20, Redirects: 20}
}

func TestCancelAndGoOn(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, stopWeb(4))
	starter := l.crawl("--shards", "4", "--delay", delay.String())
	l.fetched(200)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.client.CancelWorkflow(ctx, workflows.CrawlID(l.name), ""); err != nil {
		t.Fatal(err)
	}
	ordered := time.Now()
	if state := l.closed(time.Minute); state != "Canceled" {
		t.Errorf("state of the run: %s, want Canceled", state)
	}
	t.Logf("closed %s after the order", time.Since(ordered).Round(time.Millisecond))
	s := l.summary(starter, 6)
	if s.Outcome != contract.OutcomeCancelled {
		t.Errorf("outcome %q, want %q", s.Outcome, contract.OutcomeCancelled)
	}
	l.quiet(ordered, 15*time.Second, 5*time.Second)
	l.documents(s, l.answered200())
	l.goesOn()
}

func TestTerminateAndGoOn(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, stopWeb(5))
	starter := l.crawl("--shards", "4", "--delay", delay.String())
	l.fetched(200)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.client.TerminateWorkflow(ctx, workflows.CrawlID(l.name), "", "e2e"); err != nil {
		t.Fatal(err)
	}
	ordered := time.Now()
	if code := starter.Wait(startTimeout); code != 1 {
		t.Errorf("exit code of starter: %d, want 1", code)
	}
	l.quiet(ordered, 30*time.Second, 5*time.Second)
	l.goesOn()
}

// answered200 counts the pages answered with 200 so far.
func (l *line) answered200() int64 {
	robots := l.stats().Robots
	return l.stats().Status[200] - robots
}

// goesOn starts the crawl again: it completes, and asks for no page again.
func (l *line) goesOn() {
	l.t.Helper()
	before := l.asked()
	if len(before) >= l.reach.Requested() {
		l.t.Fatalf("all %d pages were requested before the end of the first run: the web is too small", len(before))
	}
	l.complete(l.summary(l.goOn(), 0))
	l.notAgain(before)
	l.once()
	l.polite(delay)
}
