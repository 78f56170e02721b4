package e2e

import (
	"testing"
	"time"

	"trawl/bench/web"
)

// Without a delay hosts are split over batches, and every kill finds hundreds
// of requests under way.
func TestWorkersDieAtFullSpeed(t *testing.T) {
	t.Parallel()
	l := newLine(t, 3, web.Config{
		Seed: 13, Hosts: 8, PagesPerHost: 1000, Size: 2 << 10, OffHost: 300,
		Redirects: 30, Missing: 30, Gone: 10, Disallowed: 20,
		Latency: func(int, int) time.Duration { return 100 * time.Millisecond },
	})
	starter := l.crawl("--shards", "8", "--delay", "0s", "--parallelism", "8")
	l.fetched(500)
	l.workers[0].Kill()
	l.fetched(1500)
	l.workers[1].Kill()
	l.addWorker()
	l.fetched(3000)
	if n := l.stats().Pages; n >= int64(l.reach.Requested()) {
		t.Fatalf("the crawl was over (%d pages) before a worker died: the web is too small", n)
	}
	l.dev = l.dev.Restart()
	l.complete(l.summary(starter, 0))
	t.Logf("%d pages were requested twice; up to %d requests to a host at once", l.stats().Duplicates, l.stats().MaxHostParallel)
	if n := l.stats().MaxHostParallel; n > 8 {
		t.Errorf("up to %d requests to a host at once, want at most 8", n)
	}
}
