package e2e

import (
	"testing"
	"time"
)

func TestServersAwayInTheMiddle(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, stopWeb(7))
	starter := l.crawl("--shards", "4", "--delay", delay.String(), "--wait=false")
	if code := starter.Wait(startTimeout); code != 0 {
		t.Fatalf("exit code of starter: %d, want 0", code)
	}
	l.fetched(200)
	l.dev.Kill()
	atKill := l.stats()
	now := func() time.Duration { return time.Since(l.web.Log().Began()) }
	away := now()
	// Without heartbeats no Fetch may go on for longer than half its time-out.
	l.until("the end of requests while the servers are away", 30*time.Second, func() bool {
		return now()-l.stats().LastStart > 3*time.Second
	})
	atStop := l.stats()
	t.Logf("last request %s after the servers were killed", (atStop.LastStart - away).Round(time.Millisecond))
	if atStop.Distinct >= int64(l.reach.Requested()) {
		t.Fatalf("all %d pages were requested while the servers were away: the web is too small", atStop.Distinct)
	}
	l.dev = l.dev.Restart()
	l.complete(l.summary(l.goOn(), 0))
	// What was not acknowledged when the servers died may be asked for once more:
	// the last two seconds before, and all that came after.
	limit := int64(l.web.Config().Hosts)*int64(2*time.Second/delay) + atStop.Pages - atKill.Pages
	twice := l.stats().Duplicates
	t.Logf("%d pages were requested twice; at most %d may", twice, limit)
	if twice > limit {
		t.Errorf("%d pages were requested twice, want at most %d: %v", twice, limit, l.repeated(20))
	}
	l.polite(delay)
}
