package e2e

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"trawl/bench/web"
	"trawl/internal/contract"
)

const (
	shards = 8
	delay  = 100 * time.Millisecond // between two requests to a host, where a test does not say otherwise
)

// spreadWeb keeps every worker busy for a while at ten requests per second and
// host, and has some of everything that a page can answer.
func spreadWeb(seed uint64, pagesPerHost int) web.Config {
	return web.Config{
		Seed: seed, Hosts: 8, PagesPerHost: pagesPerHost, Size: 2 << 10, OffHost: 200,
		Redirects: 30, Missing: 30, Gone: 10, Disallowed: 20,
	}
}

// mostHeld is the largest number of shards that one worker owns, and how many
// shards have an owner.
func mostHeld(s contract.CrawlStatus) (most, held int) {
	for _, n := range s.Owners {
		most, held = max(most, n), held+n
	}
	return most, held
}

// spread waits until every shard has an owner and no worker owns too many.
func (l *line) spread(workers int) {
	l.t.Helper()
	began := time.Now()
	share := (shards+workers-1)/workers + 1
	most, held := 0, 0
	for {
		s := l.status()
		if most, held = mostHeld(s); held == shards && most <= share && len(s.Owners) > 1 {
			break
		}
		if time.Since(began) > time.Minute {
			l.t.Fatalf("after a minute with %d workers one owns %d of %d shards, want at most %d: %v", workers, most, held, share, s.Owners)
		}
	}
	l.t.Logf("%d workers: none owned more than %d shards after %s", workers, most, time.Since(began).Round(time.Millisecond))
}

func TestWorkersShareACrawl(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, spreadWeb(1, 400))
	starter := l.crawl("--shards", "8", "--delay", delay.String())
	l.fetched(100)
	l.spread(2)
	l.addWorker()
	l.addWorker()
	l.spread(4)
	if n := l.stats().Pages; n >= int64(l.reach.Requested()) {
		t.Fatalf("the crawl was over (%d pages) before the workers had shared it: the web is too small", n)
	}
	l.complete(l.summary(starter, 0))
	l.once()
	l.polite(delay)
}

func TestWorkerStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, spreadWeb(2, 250))
	starter := l.crawl("--shards", "8", "--delay", delay.String())
	l.fetched(400)
	l.spread(2)
	ordered := time.Now()
	if code := l.workers[0].Stop(stopGrace); code != 0 {
		t.Errorf("exit code of the worker: %d, want 0", code)
	}
	t.Logf("the worker ended %s after SIGTERM", time.Since(ordered).Round(time.Millisecond))
	if n := l.stats().Pages; n >= int64(l.reach.Requested()) {
		t.Fatalf("the crawl was over (%d pages) when the worker had stopped: the web is too small", n)
	}
	l.complete(l.summary(starter, 0))
	l.once()
	l.resumed(ordered.Sub(l.web.Log().Began()), 20*time.Second)
	l.polite(delay)
}

func TestWorkerDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, spreadWeb(3, 300))
	starter := l.crawl("--shards", "8", "--delay", delay.String())
	l.fetched(600)
	l.spread(2)
	victim := l.queueOf(l.workers[0])
	if l.status().Owners[victim] == 0 {
		t.Fatalf("worker %s owns no shard: %v", victim, l.status().Owners)
	}
	l.workers[0].Kill()
	killed := time.Since(l.web.Log().Began())

	s := l.summary(starter, 0)
	l.complete(s)
	// Unknown to the frontier at the kill: what was requested since the last flush
	// of each batch, which flushes every second, and one request under way per host.
	inFlight := int64(l.web.Config().Hosts) * int64(2*time.Second/delay)
	twice := l.stats().Duplicates
	t.Logf("kill -9: %d pages were requested twice; %d were in flight at most", twice, inFlight)
	if twice > inFlight {
		t.Errorf("%d pages were requested twice, want at most %d: %v", twice, inFlight, l.repeated(20))
	}
	l.resumed(killed, 60*time.Second)
	l.polite(delay)
}

// A worker that sleeps while its batches go to another one must let go of them
// when it wakes up: its fence has fallen.
func TestWorkerSleepsInTheMiddle(t *testing.T) {
	t.Parallel()
	l := newLine(t, 2, spreadWeb(12, 300))
	starter := l.crawl("--shards", "8", "--delay", delay.String())
	l.fetched(600)
	l.spread(2)
	l.workers[0].Signal(syscall.SIGSTOP)
	now := func() time.Duration { return time.Since(l.web.Log().Began()) }
	asleep := now()
	// Its polls are still open, so it may be given an Acquire (10 s), a Fetch (20 s)
	// and steps of workflows (10 s) more than once.
	l.until("a request to every host after a worker fell asleep", 2*time.Minute, func() bool {
		for host := range l.web.Config().Hosts {
			if l.web.Log().HostStats(host).LastStart < asleep+time.Second {
				return false
			}
		}
		return true
	})
	t.Logf("all hosts are requested again %s after a worker fell asleep", (now() - asleep).Round(time.Millisecond))
	if n := l.stats().Pages; n >= int64(l.reach.Requested()) {
		t.Fatalf("the crawl was over (%d pages) before the worker could wake up: the web is too small", n)
	}
	twice := l.stats().Duplicates
	l.workers[0].Signal(syscall.SIGCONT)
	l.complete(l.summary(starter, 0))
	t.Logf("%d pages were requested twice, %d of them after it woke up", l.stats().Duplicates, l.stats().Duplicates-twice)
	if inFlight := int64(l.web.Config().Hosts) * int64(2*time.Second/delay); l.stats().Duplicates > inFlight {
		t.Errorf("%d pages were requested twice, want at most %d: %v", l.stats().Duplicates, inFlight, l.repeated(20))
	}
	l.polite(delay)
}

// resumed checks that every host that still had pages was requested again
// within a time after a moment of the log.
func (l *line) resumed(after, within time.Duration) {
	l.t.Helper()
	starts := make([][]time.Duration, l.web.Config().Hosts)
	for _, e := range l.web.Log().Entries(0) {
		starts[e.Host] = append(starts[e.Host], e.Start)
	}
	var worst time.Duration
	for host, times := range starts {
		slices.Sort(times)
		next, _ := slices.BinarySearch(times, after)
		if next == len(times) {
			l.t.Errorf("host %d was done before the worker died: the web is too small", host)
			continue
		}
		// The longest silence since: a batch of the dead worker may follow one
		// of the living.
		silence := times[next] - after
		for i := next + 1; i < len(times); i++ {
			silence = max(silence, times[i]-times[i-1])
		}
		worst = max(worst, silence)
	}
	l.t.Logf("longest silence of a host after the death of a worker: %s", worst.Round(time.Millisecond))
	if worst > within {
		l.t.Errorf("a host was silent for %s after the death of a worker, want at most %s", worst, within)
	}
}
