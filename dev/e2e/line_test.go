package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"trawl/bench/web"
	"trawl/dev/e2e/harness"
	"trawl/internal/contract"
	"trawl/internal/sink/sqlite"
	"trawl/workflows"
)

const (
	startTimeout = 60 * time.Second // of a program
	crawlTimeout = 4 * time.Minute  // of the longest crawl here
	pollEvery    = 10 * time.Millisecond
	stopGrace    = 90 * time.Second // of a worker
)

// line is a whole installation: stack, workers, and a web to crawl.
type line struct {
	t       *testing.T
	dev     *harness.Dev
	data    string
	web     *web.Server
	reach   *web.Reach
	workers []*harness.Process
	started int // workers so far
	client  client.Client
	name    string // of the crawl
}

// newLine starts a stack and a web, and as many workers as asked for.
func newLine(t *testing.T, workers int, cfg web.Config) *line {
	t.Helper()
	cfg.LogCapacity = 1 << 17 // every request of a test
	w, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server, err := w.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	l := &line{t: t, data: t.TempDir(), web: server, reach: w.Reach(-1), name: "e2e"}
	l.dev = harness.StartDev(t, t.TempDir())
	l.dial()
	for range workers {
		l.addWorker()
	}
	return l
}

func (l *line) dial() {
	l.t.Helper()
	c, err := client.Dial(client.Options{HostPort: l.dev.Temporal, Namespace: l.dev.Namespace, Logger: silence{}})
	if err != nil {
		l.t.Fatal(err)
	}
	l.client = c
	l.t.Cleanup(c.Close)
}

// silence is the log of this test's own client.
type silence struct{}

func (silence) Debug(string, ...any) {}
func (silence) Info(string, ...any)  {}
func (silence) Warn(string, ...any)  {}
func (silence) Error(string, ...any) {}

func (l *line) env() []string {
	return append(l.dev.Env(l.data), "TRAWL_HTTP_ADDR=127.0.0.1:0", "NO_COLOR=1")
}

// addWorker starts one more worker and waits until it polls.
func (l *line) addWorker() *harness.Process {
	l.t.Helper()
	w := harness.StartProcess(l.t, "worker "+strconv.Itoa(l.started), harness.WorkerBinary(l.t), l.env())
	w.WaitStderr(`"msg":"working"`, startTimeout)
	l.started++
	l.workers = append(l.workers, w)
	return w
}

// queueOf is the own queue of a worker, its name in the owners of a status.
func (l *line) queueOf(w *harness.Process) string {
	l.t.Helper()
	var said struct{ Queue string }
	text := w.WaitStderr(`"msg":"working"`, startTimeout)
	if err := json.Unmarshal([]byte(text), &said); err != nil || said.Queue == "" {
		l.t.Fatalf("queue of the worker: %v in %s", err, text)
	}
	return said.Queue
}

// crawlArgs crawl the whole web.
func (l *line) crawlArgs(flags ...string) []string {
	args := []string{
		"crawl", "--json", l.web.Root(), "--name", l.name, "--allow-network", "127.0.0.0/8",
		"--contact", "https://bot.example.org/",
	}
	for i := range l.web.Config().Hosts {
		args = append(args, "--host", l.web.Host(i))
	}
	return append(args, flags...)
}

// starter runs a command to its end.
func (l *line) starter(args ...string) harness.Result {
	l.t.Helper()
	return harness.RunProcess(l.t, "starter "+args[0], harness.StarterBinary(l.t), l.env(), startTimeout, args...)
}

// follow starts a starter that follows the crawl to its end.
func (l *line) follow(args ...string) *harness.Process {
	l.t.Helper()
	return harness.StartProcess(l.t, "starter "+args[0], harness.StarterBinary(l.t), l.env(), args...)
}

// crawl starts the crawl of the whole web.
func (l *line) crawl(flags ...string) *harness.Process { return l.follow(l.crawlArgs(flags...)...) }

// goOn starts the crawl again by its name.
func (l *line) goOn() *harness.Process { return l.follow("crawl", "--json", "--name", l.name) }

// summary waits for a starter that follows a crawl, and reads its result. The
// exit code must be one of those wanted.
func (l *line) summary(starter *harness.Process, want ...int) contract.Summary {
	l.t.Helper()
	if code := starter.Wait(crawlTimeout); !slices.Contains(want, code) {
		l.t.Errorf("exit code of starter: %d, want %v", code, want)
	}
	var s contract.Summary
	if err := json.Unmarshal([]byte(starter.Stdout()), &s); err != nil {
		l.t.Fatalf("summary of the crawl: %v in %q; stderr %q", err, starter.Stdout(), starter.Stderr())
	}
	l.t.Logf("summary: %s in %s: %d fetched, %d locators, %d pending, refused %v, given up %v, %d requests of pages, %d twice, loaded %d of %d offsets",
		s.Outcome, s.Ended.Sub(s.Started).Round(time.Millisecond), s.Totals.Fetched, s.Totals.Locators, s.Totals.Pending,
		s.Totals.Refused, s.Totals.GivenUp, l.stats().Pages, l.stats().Duplicates, s.Ledger.Loaded, s.Ledger.Offsets)
	return s
}

// status asks the crawl as a person would.
func (l *line) status() contract.CrawlStatus {
	l.t.Helper()
	r := l.starter("status", "--json", l.name)
	var report struct{ Status *contract.CrawlStatus }
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || report.Status == nil {
		l.t.Fatalf("status of the crawl: %v in %v", err, r)
	}
	return *report.Status
}

func (l *line) stats() web.Stats { return l.web.Log().Stats() }

// until waits for a condition; it is asked often, so it must be cheap.
func (l *line) until(what string, timeout time.Duration, met func() bool) {
	l.t.Helper()
	began := time.Now()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !met() {
		if time.Since(began) > timeout {
			l.t.Fatalf("%s: not after %s (%d pages requested)", what, timeout, l.stats().Pages)
		}
		<-tick.C
	}
}

// fetched waits until so many different pages were requested.
func (l *line) fetched(n int64) {
	l.t.Helper()
	l.until(strconv.FormatInt(n, 10)+" pages requested", time.Minute, func() bool { return l.stats().Distinct >= n })
}

// quiet checks that no request starts between grace and grace + window after a
// moment; meanwhile is done as soon as the grace is over.
func (l *line) quiet(since time.Time, grace, window time.Duration) {
	l.t.Helper()
	began := l.web.Log().Began()
	last := func() time.Duration { return began.Add(l.stats().LastStart).Sub(since) }
	l.until("the time in which nothing may happen", grace+window+time.Minute, func() bool {
		return time.Since(since) > grace+window || last() > grace
	})
	l.t.Logf("last request started %s after the order", last().Round(time.Millisecond))
	if last() > grace {
		l.t.Errorf("a request started %s after the order; none may after %s", last(), grace)
	}
}

// complete checks that exactly the reachable pages were requested, and that
// every page with an answer 200 became a document.
func (l *line) complete(s contract.Summary) {
	l.t.Helper()
	if s.Outcome != contract.OutcomeCompleted {
		l.t.Errorf("outcome %q, want %q", s.Outcome, contract.OutcomeCompleted)
	}
	if missing, extra := l.web.Log().Diff(l.reach, 10); len(missing)+len(extra) > 0 {
		l.t.Errorf("not requested: %v; requested, but not reachable or forbidden: %v", missing, extra)
	}
	if s.Totals.Pending != 0 {
		l.t.Errorf("%d locators are pending at the end", s.Totals.Pending)
	}
	if got, want := s.Totals.Status["2xx"], int64(l.reach.Documents()); got != want {
		l.t.Errorf("%d pages fetched with 200, want %d", got, want)
	}
	l.documents(s, int64(l.reach.Documents()))
}

// documents checks how many documents the index holds: each is there once,
// however often it was loaded.
func (l *line) documents(s contract.Summary, want int64) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 30*time.Second)
	defer cancel()
	index := contract.Run{Crawl: s.Crawl, Generation: s.Generation}.Index(l.name)
	got, err := sqlite.New(l.data).Count(ctx, index)
	if err != nil || got != want {
		l.t.Errorf("%d documents in index %s, want %d (%v)", got, index, want, err)
	}
}

// once checks that no page was requested twice.
func (l *line) once() {
	l.t.Helper()
	if n := l.stats().Duplicates; n != 0 {
		l.t.Errorf("%d pages were requested twice: %v", n, l.repeated(20))
	}
}

// polite checks that the requests to a host were never at once and kept their
// distance. A busy machine holds up a request on its way, and the next one, which
// waits for its answer, may then follow closely: so six requests may come in four
// delays, but never in less.
func (l *line) polite(delay time.Duration) {
	l.t.Helper()
	const gaps = 5
	least := delay * 39 / 10
	hosts := make([][]web.Entry, l.web.Config().Hosts)
	for _, e := range l.web.Log().Entries(0) {
		hosts[e.Host] = append(hosts[e.Host], e)
	}
	closest, close, shortest := time.Hour, 0, time.Hour
	for host, entries := range hosts {
		slices.SortFunc(entries, func(a, b web.Entry) int { return cmp.Compare(a.Start, b.Start) })
		for i := 1; i < len(entries); i++ {
			gap := entries[i].Start - entries[i-1].Start
			closest = min(closest, gap)
			if gap < delay*9/10 {
				close++
			}
			if i < gaps {
				continue
			}
			span := entries[i].Start - entries[i-gaps].Start
			if span < least && span < shortest {
				l.t.Errorf("host %d had %d requests in %s, the delay is %s: %v", host, gaps+1, span, delay, entries[i-gaps:i+1])
			}
			shortest = min(shortest, span)
		}
	}
	l.t.Logf("shortest time between two requests to a host %s, %d under 90 %% of the delay; between %d %s",
		closest.Round(time.Millisecond), close, gaps+1, shortest.Round(time.Millisecond))
	if n := l.stats().MaxHostParallel; n > 1 {
		l.t.Errorf("up to %d requests to a host at once", n)
	}
}

// repeated lists pages that were requested more than once, with the times.
func (l *line) repeated(limit int) (list []string) {
	at := map[string][]string{}
	for _, e := range l.web.Log().Entries(0) {
		if e.Path != "/robots.txt" {
			key := l.web.Host(e.Host) + e.Path
			at[key] = append(at[key], e.Start.Round(time.Millisecond).String())
		}
	}
	for key, times := range at {
		if len(times) > 1 && len(list) < limit {
			list = append(list, key+" at "+strings.Join(times, " and "))
		}
	}
	slices.Sort(list)
	return list
}

// asked is the set of pages requested so far.
func (l *line) asked() map[web.Ref]int {
	asked := map[web.Ref]int{}
	l.reach.Each(func(p web.Ref, _ web.Kind) bool {
		if n := l.web.Log().Count(p); n > 0 {
			asked[p] = n
		}
		return true
	})
	return asked
}

// notAgain checks that no page of an earlier set was requested since.
func (l *line) notAgain(before map[web.Ref]int) {
	l.t.Helper()
	again := 0
	for p, n := range before {
		if l.web.Log().Count(p) > n {
			again++
		}
	}
	if again > 0 {
		l.t.Errorf("%d of %d pages fetched before were requested again: %v", again, len(before), l.repeated(20))
	}
}

// closed waits until the run of the crawl has ended and gives its state.
func (l *line) closed(timeout time.Duration) string {
	l.t.Helper()
	var state string
	l.until("the end of the run", timeout, func() bool {
		ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
		defer cancel()
		d, err := l.client.DescribeWorkflowExecution(ctx, workflows.CrawlID(l.name), "")
		if err != nil {
			return false
		}
		state = d.GetWorkflowExecutionInfo().GetStatus().String()
		return state != "Running"
	})
	return state
}

// killWorkers ends all workers by kill -9.
func (l *line) killWorkers() {
	l.t.Helper()
	for _, w := range l.workers {
		w.Kill()
	}
	l.workers = nil
}
