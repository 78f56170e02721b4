package batch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trawl/internal/contract"
	"trawl/internal/fetch"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/page"
	"trawl/internal/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is one acknowledged record, decoded.
type entry struct {
	topic     string
	partition int
	offset    int64
	fact      frontier.Fact // nil: a page
	page      *page.Page
	call      int // number of the append that brought it
}

// fakeLog keeps what was appended, in the order of acknowledgement.
type fakeLog struct {
	t       testing.TB
	mu      sync.Mutex
	calls   int
	entries []entry
	raw     map[place][]kafkalog.Record
	failAt  map[int]bool // these calls fail after the broker took the records
	loseAt  map[int]bool // these calls fail without a trace
	before  func(n int)  // called before the n-th append, without the lock
	discard bool
	refuse  string // topic whose records are too large
	largest int    // bytes of a value that is not too large; 0: any
}

func newFakeLog(t testing.TB) *fakeLog { return &fakeLog{t: t, raw: map[place][]kafkalog.Record{}} }

var errInjected = errors.New("injected")

func (l *fakeLog) Append(ctx context.Context, topic string, partition int, recs []kafkalog.Record) (int64, error) {
	l.mu.Lock()
	l.calls++
	n := l.calls
	l.mu.Unlock()
	if l.before != nil {
		l.before(n)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var tooLarge error
	for i, r := range recs {
		if l.refuse == topic || l.largest > 0 && len(r.Value) > l.largest {
			recs = recs[:i]
			tooLarge = fmt.Errorf("append: %w", kafkalog.ErrTooLarge) // what stands before has been written
			break
		}
	}
	if l.loseAt[n] {
		return 0, errInjected
	}
	if l.discard {
		return 0, nil
	}
	at := place{topic, partition}
	base := int64(len(l.raw[at]))
	for _, r := range recs {
		e := entry{topic: topic, partition: partition, offset: int64(len(l.raw[at])), call: n}
		cp := kafkalog.Record{Key: append([]byte(nil), r.Key...), Value: append([]byte(nil), r.Value...)}
		if strings.HasSuffix(topic, "pages") {
			e.page = new(page.Page)
			if err := page.Decode(cp.Value, e.page); err != nil {
				l.t.Errorf("page record: %v", err)
			}
		} else {
			f, err := frontier.Decode(cp.Key, cp.Value)
			if err != nil {
				l.t.Errorf("fact %q: %v", cp.Key, err)
			}
			e.fact = f
		}
		l.raw[at] = append(l.raw[at], cp)
		l.entries = append(l.entries, e)
	}
	if l.failAt[n] {
		return 0, errInjected
	}
	return base, tooLarge
}

// AppendAll counts as one append for each part.
func (l *fakeLog) AppendAll(ctx context.Context, parts []kafkalog.Part) []error {
	errs := make([]error, len(parts))
	for i, p := range parts {
		_, errs[i] = l.Append(ctx, p.Topic, p.Partition, p.Records)
	}
	return errs
}

func (l *fakeLog) ReadAt(_ context.Context, topic string, partition int, offset int64) (kafkalog.Record, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	recs := l.raw[place{topic, partition}]
	if offset < 0 || offset >= int64(len(recs)) {
		return kafkalog.Record{}, false, nil
	}
	return recs[offset], true, nil
}

// count is the number of appends that were tried.
func (l *fakeLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

func (l *fakeLog) all() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]entry(nil), l.entries...)
}

// facts gives all facts of one type, in order.
func facts[F frontier.Fact](l *fakeLog) []F {
	var out []F
	for _, e := range l.all() {
		if f, ok := e.fact.(F); ok {
			out = append(out, f)
		}
	}
	return out
}

func pages(l *fakeLog) map[string]*page.Page {
	out := map[string]*page.Page{}
	for _, e := range l.all() {
		if e.page != nil {
			out[e.page.URL] = e.page
		}
	}
	return out
}

// fakeGate is open until it falls.
type fakeGate struct {
	fallen chan struct{}
	once   sync.Once
	asked  atomic.Int64
}

func newGate() *fakeGate { return &fakeGate{fallen: make(chan struct{})} }

func (g *fakeGate) MaySend() error {
	g.asked.Add(1)
	if isClosed(g.fallen) {
		return errors.New("no beat acknowledged")
	}
	return nil
}
func (g *fakeGate) Fallen() <-chan struct{} { return g.fallen }
func (g *fakeGate) fall()                   { g.once.Do(func() { close(g.fallen) }) }

// site is a web server with a log of its requests.
type site struct {
	*httptest.Server
	host string
	mu   sync.Mutex
	hits []hit
	now  int
	most int
}

type hit struct {
	path string
	at   time.Time
}

func newSite(t testing.TB, handler http.HandlerFunc) *site {
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.hits = append(s.hits, hit{r.URL.Path, time.Now()})
		s.now++
		s.most = max(s.most, s.now)
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.now--
			s.mu.Unlock()
		}()
		handler(w, r)
	}))
	s.host = strings.TrimPrefix(s.URL, "http://")
	t.Cleanup(s.Close)
	return s
}

func (s *site) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, h := range s.hits {
		out = append(out, h.path)
	}
	return out
}

func (s *site) count(path string) (n int) {
	for _, p := range s.paths() {
		if p == path {
			n++
		}
	}
	return n
}

// setup is a job over one site, to be changed before run.
type setup struct {
	t       testing.TB
	log     *fakeLog
	gate    *fakeGate
	spec    *spec.Spec
	options fetch.Options
	runner  *Runner
	job     Job
}

func newSetup(t testing.TB, s *site, paths ...string) *setup {
	u := &setup{t: t, log: newFakeLog(t), gate: newGate()}
	u.spec = &spec.Spec{
		Name: "test", Seeds: spec.Seeds{URLs: []string{s.URL + "/"}}, AllowNetworks: []string{"127.0.0.0/8", "::1/128"},
		Scope:      spec.Scope{Depth: -1},
		Limits:     spec.Limits{PageSize: 1 << 20, Tries: 3, HostErrors: 10},
		Politeness: spec.Politeness{Parallelism: 4, UserAgent: "trawltest/1.0"},
	}
	items := make([]contract.Item, 0, len(paths))
	for _, p := range paths {
		items = append(items, contract.Item{Path: p, Round: 1})
	}
	u.job = Job{
		Run:   contract.Run{Crawl: "test", Generation: "20260101t000000", Shards: 1, Partitions: 2},
		Batch: contract.Batch{Number: 1, TimeBox: 20 * time.Second, Hosts: []contract.BatchHost{{Scheme: "http", Host: s.host, Parallelism: 4, RobotsAt: -1, Items: items}}},
		Gate:  u.gate, Frontier: "t.frontier", Pages: "t.pages", Now: time.Now, HardEnd: time.Now().Add(30 * time.Second),
	}
	return u
}

func (u *setup) host() *contract.BatchHost { return &u.job.Batch.Hosts[0] }

// prepare makes the plan and the runner.
func (u *setup) prepare() {
	u.t.Helper()
	if u.runner == nil {
		u.runner = NewRunner(u.log, Options{Recent: 10_000})
	}
	u.options.Dialed = u.runner.Dialed
	plan, err := NewPlan(u.spec, u.options)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(plan.Close)
	u.job.Plan = plan
}

func (u *setup) run(ctx context.Context) contract.FetchResult {
	u.t.Helper()
	u.prepare()
	res, err := u.runner.Run(ctx, u.job)
	if err != nil {
		u.t.Fatal(err)
	}
	return res
}

func html(links ...string) string {
	var b strings.Builder
	b.WriteString("<!doctype html><title>t</title>")
	for _, l := range links {
		fmt.Fprintf(&b, "<a href=%q>x</a>\n", l)
	}
	return b.String()
}

func serveHTML(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(body))
}
