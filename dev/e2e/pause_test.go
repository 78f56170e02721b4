package e2e

import (
	"testing"
	"time"
)

func TestPauseOutlivesEveryProcess(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, stopWeb(6))
	if r := l.starter(l.crawlArgs("--shards", "4", "--delay", delay.String(), "--wait=false")...); r.Code != 0 {
		t.Fatal(r)
	}
	l.fetched(200)
	if r := l.starter("pause", l.name); r.Code != 0 {
		t.Fatal(r)
	}
	ordered := time.Now()
	l.quiet(ordered, 15*time.Second, 2*time.Second)
	l.killWorkers()
	l.dev = l.dev.Restart()
	l.addWorker()
	l.addWorker()
	l.quiet(time.Now(), 0, 10*time.Second)
	if s := l.status(); !s.Paused {
		t.Errorf("after the restart the crawl is not paused: %+v", s)
	}
	before := l.asked()
	if len(before) >= l.reach.Requested() {
		t.Fatalf("all %d pages were requested before the pause: the web is too small", len(before))
	}
	if r := l.starter("resume", l.name); r.Code != 0 {
		t.Fatal(r)
	}
	l.complete(l.summary(l.goOn(), 0))
	l.notAgain(before)
	l.once()
	l.polite(delay)
}
