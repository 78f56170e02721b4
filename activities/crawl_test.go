package activities

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/goleak"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/sink/sqlite"
	"trawl/internal/spec"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/gogs/chardet.(*Detector).DetectAll.func1"))
}

// bench is the activities of one worker on an in-process broker, without any
// Temporal server: the test plays the workflows.
type bench struct {
	t    *testing.T
	acts *Activities
	env  *testsuite.TestActivityEnvironment
	run  contract.Run
	spec json.RawMessage
	dir  string

	brokers []string
	cluster *kfake.Cluster
}

func newBench(t *testing.T, seed string, change func(*spec.Spec)) *bench {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	log, err := kafkalog.Open(kafkalog.Config{Brokers: cluster.ListenAddrs()})
	require.NoError(t, err)
	t.Cleanup(log.Close)
	temporal := &mocks.Client{}
	temporal.On("RecordActivityHeartbeat", mock.Anything, mock.Anything).Return(nil)
	temporal.On("DescribeTaskQueue", mock.Anything, mock.Anything, mock.Anything).Return(&workflowservice.DescribeTaskQueueResponse{}, nil)
	dir := t.TempDir()
	b := &bench{t: t, dir: dir, brokers: cluster.ListenAddrs(), cluster: cluster, acts: New(Config{
		Temporal: temporal, Log: log, Prefix: "t", Replication: 1, Queue: "mine", AcquireOn: "acquire",
		DataQueue: "data", SharedQueue: "shared", Scratch: t.TempDir(),
		Sink:   func(string) (sink.Admin, error) { return sqlite.New(dir), nil },
		Logger: slog.New(slog.DiscardHandler), BadSpec: "BadSpec", BadTopics: "Topics",
	})}
	t.Cleanup(b.acts.Close)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	b.env = suite.NewTestActivityEnvironment()
	b.env.SetTestTimeout(time.Minute)
	for name, f := range map[string]any{
		"Seed": b.acts.Seed, "Expand": b.acts.Expand, "Fetch": b.acts.Fetch, "Load": b.acts.Load,
		"Census": b.acts.Census, "LogEnds": b.acts.LogEnds, "Finalize": b.acts.Finalize, "Acquire": b.acts.Acquire,
	} {
		b.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	s := spec.New()
	s.Name, s.Seeds.URLs, s.AllowNetworks = "x", []string{seed}, []string{"127.0.0.0/8"}
	s.Politeness.Delay = 0
	if change != nil {
		change(s)
	}
	require.NoError(t, s.Finish())
	b.spec, err = s.Encode()
	require.NoError(t, err)
	b.run = contract.Run{Crawl: "x", Generation: "20260101t000000", Shards: s.Shards, Partitions: s.Shards}
	return b
}

func do[R any](b *bench, name string, in any) R {
	b.t.Helper()
	v, err := b.env.ExecuteActivity(name, in)
	require.NoError(b.t, err, name)
	var r R
	require.NoError(b.t, v.Get(&r))
	return r
}

// crawl plays ShardWorkflow without any cooling until every shard is idle.
func (b *bench) crawl(grant contract.Grant) (totals contract.Totals, verdicts []string) {
	b.t.Helper()
	seeded := do[contract.SeedResult](b, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec})
	b.run.SpecAt = seeded.SpecAt
	ends := make([]int64, b.run.Shards)
	for number := int64(1); number < 500; {
		totals, verdicts = contract.Totals{}, nil
		worked := false
		for shard := range b.run.Shards {
			r := do[contract.ExpandResult](b, "Expand", contract.ExpandInput{Run: b.run, Shard: shard, Number: number, Grant: grant})
			totals = totals.Add(r.Totals)
			verdicts = append(verdicts, r.Verdict)
			ends[shard] = r.End
			if r.Verdict == contract.VerdictBatch {
				number, worked = number+1, true
				do[contract.FetchResult](b, "Fetch", contract.FetchInput{Run: b.run, Shard: shard, Batch: *r.Batch})
			}
		}
		if !worked {
			census := do[contract.CensusResult](b, "Census", contract.CensusInput{Run: b.run, Ends: ends})
			require.True(b.t, census.Equal)
			return totals, verdicts
		}
	}
	b.t.Fatal("the crawl does not end")
	return totals, nil
}

// site counts requests.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	hits map[string]int
}

func newSite(t *testing.T, pages map[string]string) *site {
	s := &site{hits: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.hits[r.URL.Path]++
		s.mu.Unlock()
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestActivitiesCarryASiteToDocuments(t *testing.T) {
	s := newSite(t, map[string]string{
		"/":  `<title>home</title><a href="/a">a</a> <a href="/b">b</a> <a href="/gone">gone</a>`,
		"/a": `<title>walrus</title><p>the walrus</p><a href="/b">b</a>`,
		"/b": `<title>carpenter</title><a href="/">home</a>`,
	})
	b := newBench(t, s.URL+"/", nil)
	totals, verdicts := b.crawl(contract.Grant{})
	require.Equal(t, []string{contract.VerdictIdle}, verdicts)
	require.Equal(t, int64(4), totals.Fetched)
	require.Zero(t, totals.Pending)
	require.Equal(t, map[string]int{"/": 1, "/a": 1, "/b": 1, "/gone": 1, "/robots.txt": 1}, s.hits)

	ends := do[contract.LogEndsResult](b, "LogEnds", contract.LogEndsInput{Run: b.run})
	var ledger contract.Ledger
	for p, end := range ends.Ends {
		r := do[contract.LoadResult](b, "Load", contract.LoadInput{Run: b.run, Partition: p, Position: -1, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: end})
		require.Equal(t, end, r.Position)
		ledger = ledger.Add(r.Ledger)
		again := do[contract.LoadResult](b, "Load", contract.LoadInput{Run: b.run, Partition: p, Position: -1, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: end})
		require.Equal(t, r.Ledger, again.Prior, "the copy in the group carries the ledger")
		require.Zero(t, again.Ledger.Offsets)
	}
	require.Equal(t, int64(3), ledger.Loaded)
	require.Equal(t, int64(1), ledger.Deleted)
	require.Equal(t, ledger.Offsets, ledger.Loaded+ledger.Deleted+ledger.Superseded+ledger.NoDocument+ledger.Errors+ledger.Skipped+ledger.Compacted)

	summary := do[contract.Summary](b, "Finalize", contract.FinalizeInput{Run: b.run, Outcome: contract.OutcomeCompleted, Totals: totals, Ledger: ledger})
	require.Equal(t, "completed", summary.Outcome)
	hits, total, err := sqlite.New(b.dir).Search(t.Context(), "x", "walrus", 10)
	require.NoError(t, err)
	require.Equal(t, int64(1), total)
	require.True(t, strings.HasSuffix(hits[0].ID, "/a"))
}

// A worker that knows nothing folds the same state from the log, and no page is
// fetched again.
func TestAnotherWorkerGoesOnFromTheLog(t *testing.T) {
	s := newSite(t, map[string]string{"/": `<a href="/a">a</a>`, "/a": `<a href="/">home</a>`})
	b := newBench(t, s.URL+"/", nil)
	b.crawl(contract.Grant{})
	require.NoError(t, os.MkdirAll(b.acts.Scratch, 0o700))
	b.acts.shards.close()
	totals, verdicts := b.crawl(contract.Grant{})
	require.Equal(t, []string{contract.VerdictIdle}, verdicts)
	require.Equal(t, int64(2), totals.Fetched)
	require.Equal(t, 1, s.hits["/a"])
}

func TestGrantIsExact(t *testing.T) {
	pages := map[string]string{}
	for _, p := range strings.Split("/,/a,/b,/c,/d,/e,/f,/g", ",") {
		pages[p] = `<a href="/a">1</a><a href="/b">1</a><a href="/c">1</a><a href="/d">1</a><a href="/e">1</a><a href="/f">1</a><a href="/g">1</a>`
	}
	s := newSite(t, pages)
	b := newBench(t, s.URL+"/", nil)
	totals, verdicts := b.crawl(contract.Grant{Number: 1, Total: 3})
	require.Equal(t, []string{contract.VerdictStarved}, verdicts)
	require.Equal(t, int64(3), totals.Spent)
}

func TestTopicsOfAnotherShapeAreRefusedForGood(t *testing.T) {
	b := newBench(t, "http://127.0.0.1:1/", nil)
	do[contract.SeedResult](b, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec})
	b.run.Shards = 5
	_, err := b.env.ExecuteActivity("Seed", contract.SeedInput{Run: b.run, Spec: b.spec})
	require.ErrorContains(t, err, "partitions")
	require.ErrorContains(t, err, "Topics")
}

func TestWaitingExpandGivesWayToALaterOne(t *testing.T) {
	c := shardCache{m: map[string]*ownedShard{}}
	run := contract.Run{Crawl: "x", Generation: "g", Shards: 1}
	first, interrupted := c.take(run, 0)
	taken := make(chan struct{})
	go func() {
		o, _ := c.take(run, 0)
		o.mu.Unlock()
		close(taken)
	}()
	<-interrupted // the second asks: the first must end
	first.mu.Unlock()
	<-taken
}

// While batches are open an Expand with nothing to deal waits for what they
// find, and deals it at once.
func TestExpandWaitsForSomethingToDeal(t *testing.T) {
	s := newSite(t, map[string]string{"/": "home"})
	b := newBench(t, s.URL+"/", nil)
	b.run.SpecAt = do[contract.SeedResult](b, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec}).SpecAt
	busy := make(contract.SlotSet, contract.Slots/8)
	for i := range busy {
		busy[i] = 0xff
	}
	in := contract.ExpandInput{Run: b.run, Number: 1, OpenBatches: 1, Busy: busy, WaitFor: 300 * time.Millisecond}
	began := time.Now()
	r := do[contract.ExpandResult](b, "Expand", in)
	require.Equal(t, contract.VerdictLater, r.Verdict)
	require.GreaterOrEqual(t, time.Since(began), in.WaitFor, "it waited")

	// Only the host of the seed is busy.
	host := strings.TrimPrefix(s.URL, "http://")
	in.Busy = make(contract.SlotSet, contract.Slots/8)
	in.Busy[frontier.SlotOf(host)>>3] |= 1 << (frontier.SlotOf(host) & 7)
	in.WaitFor = time.Minute
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		k, v := frontier.Discovered{URL: "http://other.example/", How: frontier.HowLink, When: time.Now()}.Record()
		_, err := b.acts.Log.Append(t.Context(), b.run.Topic(b.acts.Prefix, contract.TopicFrontier), 0, []kafkalog.Record{{Key: k, Value: v}})
		assert.NoError(t, err)
	}()
	r = do[contract.ExpandResult](b, "Expand", in)
	require.Equal(t, contract.VerdictBatch, r.Verdict)
	require.Equal(t, "other.example", r.Batch.Hosts[0].Host)
	<-appended // the fold may read a record before its writer hears of it
}

// A batch that ends without any fact (its worker died) is simply dealt again:
// the shard is not idle, so no census can finish the crawl without it.
func TestBatchThatEndsWithoutFactsIsDealtAgain(t *testing.T) {
	s := newSite(t, map[string]string{"/": "home"})
	b := newBench(t, s.URL+"/", nil)
	b.run.SpecAt = do[contract.SeedResult](b, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec}).SpecAt
	for number := int64(1); number <= 3; number++ {
		r := do[contract.ExpandResult](b, "Expand", contract.ExpandInput{Run: b.run, Number: number})
		require.Equal(t, contract.VerdictBatch, r.Verdict)
		require.Equal(t, 1, r.Batch.Locators)
		require.Equal(t, int64(1), r.Totals.Pending)
	}
	_, verdicts := b.crawl(contract.Grant{})
	require.Equal(t, []string{contract.VerdictIdle}, verdicts)
	require.Equal(t, 1, s.hits["/"])
}

// With replication the census asks each leader to acknowledge a marker at the
// very end that was counted. The fold steps over it; the same ends do not count
// a second time.
func TestCensusIsConfirmedByMarkersOnReplicatedTopics(t *testing.T) {
	s := newSite(t, map[string]string{"/": "home"})
	b := newBench(t, s.URL+"/", nil)
	b.crawl(contract.Grant{})
	idle := do[contract.ExpandResult](b, "Expand", contract.ExpandInput{Run: b.run, Number: 9})
	b.acts.Replication = 2
	ask := contract.CensusInput{Run: b.run, Ends: []int64{idle.End}}
	require.True(t, do[contract.CensusResult](b, "Census", ask).Equal)
	again := do[contract.CensusResult](b, "Census", ask)
	require.False(t, again.Equal)
	require.Equal(t, idle.End+1, again.Ends[0])
	after := do[contract.ExpandResult](b, "Expand", contract.ExpandInput{Run: b.run, Number: 9})
	require.Equal(t, contract.VerdictIdle, after.Verdict)
	require.Equal(t, idle.End+1, after.End)
	require.Equal(t, idle.Totals, after.Totals)
}

// A later run may be seeded by a worker with another data directory: the index
// stays where it was begun.
func TestQueueOfTheIndexIsThatOfTheFirstSeed(t *testing.T) {
	b := newBench(t, "http://127.0.0.1:1/", nil)
	in := contract.SeedInput{Run: b.run, Spec: b.spec}
	require.Equal(t, "data", do[contract.SeedResult](b, "Seed", in).LoadQueue)
	elsewhere := b.moved("another")
	require.Equal(t, "data", do[contract.SeedResult](b, "Seed", in).LoadQueue)
	entries, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Empty(t, entries, "an index that nobody will ever write")
}

// The queue is decided only once its directory has the index and the alias: a
// Seed that failed before leaves the decision to the next one.
func TestQueueIsDecidedAfterTheIndexIsThere(t *testing.T) {
	b := newBench(t, "http://127.0.0.1:1/", nil)
	in := contract.SeedInput{Run: b.run, Spec: b.spec}
	full := filepath.Join(b.dir, "full")
	require.NoError(t, os.WriteFile(full, nil, 0o600))
	b.acts.Sink = func(string) (sink.Admin, error) { return sqlite.New(full), nil }
	_, err := b.env.ExecuteActivity("Seed", in)
	require.ErrorContains(t, err, "index")
	elsewhere := b.moved("another")
	require.Equal(t, "another", do[contract.SeedResult](b, "Seed", in).LoadQueue)
	_, total, err := sqlite.New(elsewhere).Search(t.Context(), "x", "word", 1)
	require.NoError(t, err, "by its alias")
	require.Zero(t, total)
}

// moved makes the worker one of another, empty, data directory.
func (b *bench) moved(queue string) (dir string) {
	dir = b.t.TempDir()
	b.acts.DataQueue = queue
	b.acts.Sink = func(string) (sink.Admin, error) { return sqlite.New(dir), nil }
	return dir
}
