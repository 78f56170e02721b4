package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/settings"
	"trawl/internal/sink"
	"trawl/internal/spec"
)

var update = flag.Bool("update", false, "write the golden files")

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const gen1 = "20260102t030405"

// fakes is the outside world of one test: Temporal, Kafka, the sinks, time.
type fakes struct {
	mu      sync.Mutex
	execs   map[string]execution
	specs   map[string]*spec.Spec
	inputs  []contract.CrawlInput
	updates []string
	status  contract.CrawlStatus
	noReply bool // queries and updates find no worker
	workers []bool
	ends    ending        // of Wait
	queries int           // that Wait lets pass before it ends; < 0: until ctx ends
	asked   chan struct{} // one per query
	count   int           // queries so far
	race    func()        // before a start
	listErr error

	gens    []generation
	facts   map[string][][]fact // by generation key, per shard
	deleted []string

	sinkErr  error
	shared   bool // the index of a load is an alias
	dropped  []string
	unplaced []string          // loads whose positions were deleted
	placed   bool              // loads have positions
	queues   map[string]string // of indexes in data directories, by topic
	dataDir  string
	clock    time.Time

	noTemporal, noKafka bool

	load   fakeLoads  // the side of loads
	topics fakeErrors // what is loaded
}

type fact struct{ key, value []byte }

func newFakes() *fakes {
	return &fakes{
		execs: map[string]execution{}, specs: map[string]*spec.Spec{}, facts: map[string][][]fact{},
		asked: make(chan struct{}, 1000), clock: epoch,
	}
}

func (f *fakes) world() world {
	return world{
		temporal: func(context.Context) (temporalServer, error) {
			if f.noTemporal {
				return nil, fail(exitUnreachable, "no Temporal server at fake")
			}
			return (*fakeTemporal)(f), nil
		},
		loads: func(context.Context) (loadServer, error) {
			if f.noTemporal {
				return nil, fail(exitUnreachable, "no Temporal server at fake")
			}
			return &f.load, nil
		},
		store: func(context.Context) (store, error) {
			if f.noKafka {
				return nil, fail(exitUnreachable, "no Kafka broker at fake")
			}
			return (*fakeStore)(f), nil
		},
		errors:   func(context.Context) (errorTopics, error) { return &f.topics, nil },
		sink:     func(string) (sink.Admin, error) { return (*fakeSink)(f), nil },
		operator: func() string { return "ann@here" },
		now: func() time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.clock
		},
		after: func(d time.Duration) <-chan time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.queries > 0 && f.count >= f.queries {
				return nil // the run has ended: time stands still until that is seen
			}
			f.clock = f.clock.Add(d)
			c := make(chan time.Time, 1)
			c <- f.clock
			return c
		},
	}
}

// outcome is what a command line did.
type outcome struct {
	code     int
	out, err string
}

func (o outcome) String() string {
	return fmt.Sprintf("exit %d\n-- stdout\n%s-- stderr\n%s", o.code, o.out, o.err)
}

func (f *fakes) runCtx(ctx context.Context, stdin string, args ...string) outcome {
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(stdin), out: &out, err: &errs, width: 80, address: "fake", world: f.world()}
	a.set, _ = settings.Load(func(string) string { return "" })
	a.set.DataDir = cmp.Or(f.dataDir, "/data")
	code := a.execute(ctx, args)
	return outcome{code, out.String(), errs.String()}
}

func (f *fakes) run(args ...string) outcome { return f.runCtx(context.Background(), "", args...) }

// add makes a generation with a spec and facts.
func (f *fakes) add(t *testing.T, id string, s *spec.Spec, sum *contract.Summary, facts ...frontier.Fact) generation {
	t.Helper()
	g := generation{Run: contract.Run{Crawl: s.Name, Generation: id, Shards: s.Shards, Partitions: s.Shards}}
	for _, k := range []string{contract.TopicErrors, contract.TopicFrontier, contract.TopicPages} {
		g.Topics = append(g.Topics, g.Topic("trawl", k))
	}
	raw, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	shards := make([][]fact, s.Shards)
	state := func(shard int, ft frontier.Fact) {
		k, v := ft.Record()
		shards[shard] = append(shards[shard], fact{k, v})
	}
	state(0, frontier.Spec{JSON: raw})
	for _, ft := range facts {
		state(frontier.ShardOf(ft.HostKey(), s.Shards), ft)
	}
	if sum != nil {
		raw, err := json.Marshal(sum)
		if err != nil {
			t.Fatal(err)
		}
		state(0, frontier.Summary{JSON: raw})
	}
	f.gens = append(f.gens, g)
	f.facts[g.Key(0)] = shards
	return g
}

type fakeTemporal fakes

func (t *fakeTemporal) Describe(_ context.Context, name string) (execution, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.execs[name]
	e.Name = name
	return e, nil
}

func (t *fakeTemporal) Spec(_ context.Context, name string) (*spec.Spec, error) {
	if s := t.specs[name]; s != nil {
		return s, nil
	}
	return nil, errors.New("no input")
}

func (t *fakeTemporal) Start(_ context.Context, name string, in contract.CrawlInput) (string, error) {
	if r := t.race; r != nil {
		t.race = nil
		r()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.execs[name].State == stateRunning {
		return "", errRunning
	}
	t.inputs = append(t.inputs, in)
	t.execs[name] = execution{Name: name, State: stateRunning, RunID: "run", Started: epoch}
	return "run", nil
}

func (t *fakeTemporal) Wait(ctx context.Context, _, _ string) (string, *contract.Summary, error) {
	for n := 0; n != t.queries; n++ {
		select {
		case <-ctx.Done():
			return "", nil, ctx.Err()
		case <-t.asked:
		}
	}
	return t.ends.state, t.ends.summary, t.ends.err
}

func (t *fakeTemporal) Status(context.Context, string) (contract.CrawlStatus, error) {
	t.mu.Lock()
	t.count++
	t.mu.Unlock()
	select {
	case t.asked <- struct{}{}:
	default:
	}
	if t.noReply {
		return contract.CrawlStatus{}, fail(exitNoWorker, "no worker answered: start one with bin/worker")
	}
	return t.status, nil
}

func (t *fakeTemporal) Update(_ context.Context, name, update string, arg any) error {
	if t.noReply {
		return fail(exitNoWorker, "no worker answered: start one with bin/worker")
	}
	b, err := json.Marshal(arg)
	t.updates = append(t.updates, fmt.Sprintf("%s %s %s", name, update, b))
	return err
}

func (t *fakeTemporal) Cancel(_ context.Context, name string) error {
	t.updates = append(t.updates, name+" cancel")
	return nil
}

func (t *fakeTemporal) List(context.Context, int) ([]execution, error) {
	var out []execution
	for name, e := range t.execs {
		e.Name = name
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b execution) int { return strings.Compare(a.Name, b.Name) })
	return out, t.listErr
}

func (t *fakeTemporal) Worker(context.Context) (bool, error) {
	if len(t.workers) == 0 {
		return true, nil
	}
	ok := t.workers[0]
	t.workers = t.workers[1:]
	return ok, nil
}

func (t *fakeTemporal) Close() {}

type fakeStore fakes

func (s *fakeStore) Ping(context.Context) error { return nil }

func (s *fakeStore) Generations(_ context.Context, crawl string) ([]generation, error) {
	var out []generation
	for _, g := range s.gens {
		if (crawl == "" || g.Crawl == crawl) && !slices.Contains(s.deleted, g.Key(0)) {
			out = append(out, g)
		}
	}
	return out, nil
}

func (s *fakeStore) Stored(ctx context.Context, g generation) (stored, error) {
	var out stored
	err := s.Facts(ctx, g, 0, 0, out.fold)
	return out, err
}

func (s *fakeStore) AnySpec(ctx context.Context, g generation) (*spec.Spec, error) {
	out, err := s.Stored(ctx, g)
	return out.Spec, err
}

func (s *fakeStore) Facts(_ context.Context, g generation, shard int, from int64, fn func(int64, []byte, []byte) error) error {
	for i, f := range s.facts[g.Key(0)][shard] {
		if int64(i) < from {
			continue
		}
		if err := fn(int64(i), f.key, f.value); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

func (s *fakeStore) Delete(_ context.Context, g generation) error {
	s.deleted = append(s.deleted, g.Key(0))
	return nil
}

func (s *fakeStore) LoadTopics(_ context.Context, name string) ([]string, error) {
	topic := contract.LoadRun(name).Topic("trawl", contract.TopicErrors)
	if s.topics.partitions[topic] == 0 {
		return nil, nil
	}
	return []string{topic}, nil
}

func (s *fakeStore) LoadBegan(context.Context, string) (bool, error) { return s.placed, nil }

func (s *fakeStore) IndexQueue(_ context.Context, run contract.Run, topic string) (string, error) {
	return s.queues[run.Topic("trawl", topic)], nil
}

func (s *fakeStore) SeekLoad(_ context.Context, name string, o contract.SeekLoad) error {
	if s.topics.partitions[o.Topic] <= o.Partition {
		return errNoPosition
	}
	s.updates = append(s.updates, fmt.Sprintf("%s begins at %s[%d] %d", name, o.Topic, o.Partition, o.Offset))
	return nil
}

func (s *fakeStore) DeleteLoad(_ context.Context, name string, topics []string) error {
	if len(topics) == 0 {
		s.unplaced = append(s.unplaced, name)
		if len(s.dropped) > 0 {
			return errors.New("the index went before the positions")
		}
		return nil
	}
	for _, t := range topics {
		delete(s.topics.partitions, t)
	}
	s.deleted = append(s.deleted, name)
	return nil
}

func (s *fakeStore) Close() {}

type fakeSink fakes

func (s *fakeSink) Prepare(context.Context, string, string, bool) error { return nil }
func (s *fakeSink) Open(context.Context, string) (sink.Sink, error) {
	return nil, errors.New("not here")
}
func (s *fakeSink) Count(context.Context, string) (int64, error) { return 0, nil }
func (s *fakeSink) Drop(_ context.Context, alias, index string) error {
	s.dropped = append(s.dropped, alias+" "+index)
	return s.sinkErr
}

func (s *fakeSink) PrepareTarget(context.Context, sink.Target) error { return nil }
func (s *fakeSink) OpenTarget(context.Context, sink.Target) (sink.Sink, error) {
	return nil, errors.New("not here")
}

func (s *fakeSink) DropTarget(_ context.Context, t sink.Target) (bool, error) {
	s.dropped = append(s.dropped, t.Name)
	return !s.shared, s.sinkErr
}

func (s *fakeSink) Search(_ context.Context, alias, query string, limit int) ([]sink.Hit, int64, error) {
	if s.sinkErr != nil {
		return nil, 0, s.sinkErr
	}
	return []sink.Hit{
		{ID: "https://docs.example.org/a", Title: "A\x1b[31m title", Snippet: "… the " + query + " …", Score: 2},
		{ID: "https://docs.example.org/b", Score: 1},
	}[:min(2, limit)], 7, nil
}

// golden compares a transcript with testdata/<name>.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test -update writes it. got:\n%s", file, got)
	}
}

// docs is the spec that most tests use.
func docs(t *testing.T, change ...func(*spec.Spec)) *spec.Spec {
	t.Helper()
	s := spec.New()
	s.Seeds.URLs = []string{"https://docs.example.org/"}
	s.Politeness.Contact = "https://me.example/"
	for _, c := range change {
		c(s)
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	return s
}

func summary(outcome string) *contract.Summary {
	return &contract.Summary{
		Crawl: "docs-example-org", Generation: gen1, Outcome: outcome, Started: epoch, Ended: epoch.Add(133 * time.Second),
		Totals: contract.Totals{
			Locators: 1300, Fetched: 1234, Status: map[string]int64{"2xx": 1200, "3xx": 20, "404": 14},
			Refused: map[string]int64{"robots": 12, "depth": 28}, Hosts: 1, Bytes: 12_900_000,
		},
		Ledger: contract.Ledger{Offsets: 1234, Loaded: 1200, NoDocument: 34},
	}
}
