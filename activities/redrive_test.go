package activities

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/page"
	"trawl/internal/redrive"
	"trawl/internal/sink"
	"trawl/internal/sink/sqlite"
	"trawl/internal/spec"
)

// picky is a sink that refuses every third document until it is mended.
type picky struct {
	sink.Admin
	mended *atomic.Bool
}

func (p picky) Open(ctx context.Context, index string) (sink.Sink, error) {
	s, err := p.Admin.Open(ctx, index)
	return pickySink{s, p.mended}, err
}

type pickySink struct {
	sink.Sink
	mended *atomic.Bool
}

func (p pickySink) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	var good []sink.Op
	results := make([]sink.Result, len(ops))
	at := []int{}
	for i, op := range ops {
		if op.Version%3 == 0 && !p.mended.Load() {
			results[i] = sink.Result{Outcome: sink.Rejected, Status: 400, Type: "mapper", Reason: "no such field"}
			continue
		}
		good, at = append(good, op), append(at, i)
	}
	if len(good) == 0 {
		return results, nil
	}
	written, err := p.Sink.Write(ctx, good)
	for i, r := range written {
		results[at[i]] = r
	}
	return results, err
}

// redriveBench is a crawl whose pages are loaded into a picky sink.
type redriveBench struct {
	*bench
	mended atomic.Bool
}

func newRedriveBench(t *testing.T, pages int) *redriveBench {
	b := &redriveBench{bench: newBench(t, "http://127.0.0.1:1/", nil)}
	dir := b.dir
	b.acts.Sink = func(string) (sink.Admin, error) { return picky{sqlite.New(dir), &b.mended}, nil }
	b.env.RegisterActivityWithOptions(b.acts.RedrivePlan, activity.RegisterOptions{Name: "RedrivePlan"})
	b.env.RegisterActivityWithOptions(b.acts.Redrive, activity.RegisterOptions{Name: "Redrive"})
	b.run.SpecAt = do[contract.SeedResult](b.bench, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec}).SpecAt
	var recs []kafkalog.Record
	for i := range pages {
		p := page.Page{
			URL: fmt.Sprintf("http://x.example/%d", i), Status: 200, When: time.UnixMilli(int64(3000 + i)).UTC(),
			ContentType: "text/html", Body: fmt.Appendf(nil, "<title>page %d</title>", i),
		}
		recs = append(recs, kafkalog.Record{Key: []byte(p.URL), Value: p.Append(nil), Headers: []kafkalog.Header{{Key: "own", Value: []byte("h")}}})
	}
	_, err := b.acts.Log.Append(t.Context(), b.run.Topic("t", contract.TopicPages), 0, recs)
	require.NoError(t, err)
	return b
}

func (b *redriveBench) load(from int64, pages int) contract.LoadResult {
	r := do[contract.LoadResult](b.bench, "Load", contract.LoadInput{
		Run: b.run, Position: from, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: int64(pages),
	})
	require.Equal(b.t, int64(pages), r.Position)
	return r
}

// redrive plays RedriveWorkflow.
func (b *redriveBench) redrive(id string, sel contract.RedriveSelect) (contract.RedrivePlan, contract.RedriveCounts) {
	b.t.Helper()
	plan := do[contract.RedrivePlan](b.bench, "RedrivePlan", contract.RedrivePlanInput{Name: "x", Run: b.run, Select: sel})
	var counts contract.RedriveCounts
	for p, end := range plan.Ends {
		for position := plan.Starts[p]; position < end; {
			r := do[contract.RedriveSlice](b.bench, "Redrive", contract.RedriveSliceInput{
				Name: "x", Run: b.run, Select: sel, Redrive: id, Topic: plan.Topic, Partition: p, Position: position, End: end, TimeBox: 10 * time.Second,
			})
			require.Greater(b.t, r.Position, position)
			position, counts = r.Position, counts.Add(r.Counts)
		}
	}
	return plan, counts
}

func (b *redriveBench) counts() redrive.Count {
	all, err := redrive.CountIDs(b.t.Context(), b.acts.Log, b.run.Topic("t", contract.TopicErrors), b.run.Partitions)
	require.NoError(b.t, err)
	return all[redrive.SourcePartition{Topic: b.run.Topic("t", contract.TopicPages)}]
}

func (b *redriveBench) documents() int64 {
	n, err := sqlite.New(b.dir).Count(b.t.Context(), b.run.Index("x"))
	require.NoError(b.t, err)
	return n
}

var all = contract.RedriveSelect{All: true, Most: 3}

// TestRedriveAfterTheCauseIsGone: what the sink refused is loaded once the
// cause is gone: nothing lost, nothing twice, whatever is replayed.
func TestRedriveAfterTheCauseIsGone(t *testing.T) {
	const pages = 30
	b := newRedriveBench(t, pages)
	r := b.load(-1, pages)
	require.Equal(t, int64(10), r.Ledger.Errors)
	require.Equal(t, int64(20), b.documents())
	b.load(0, pages) // a replay states every failure twice
	require.Equal(t, redrive.Count{Open: 10}, b.counts())

	plan, counts := b.redrive("first", all)
	require.Equal(t, int64(10), plan.Selected)
	require.Equal(t, "data", plan.Queue)
	require.Equal(t, contract.RedriveCounts{Taken: 10, Failed: 10}, counts, "the cause is still there")
	require.Equal(t, redrive.Count{Open: 10}, b.counts())

	b.mended.Store(true)
	_, counts = b.redrive("one", contract.RedriveSelect{ID: ingest.RecordID(b.run.Topic("t", contract.TopicPages), 0, 3), Most: 3})
	require.Equal(t, contract.RedriveCounts{Taken: 1, Loaded: 1}, counts)
	plan, counts = b.redrive("second", all)
	require.Equal(t, int64(9), plan.Selected)
	require.Equal(t, contract.RedriveCounts{Taken: 9, Loaded: 9}, counts)
	require.Equal(t, int64(pages), b.documents())
	require.Equal(t, redrive.Count{Redriven: 10}, b.counts())
	require.Equal(t, r.Ledger.Errors, b.counts().Total())

	plan, counts = b.redrive("third", all)
	require.Zero(t, plan.Selected)
	require.Zero(t, counts)
	require.Equal(t, int64(pages), b.documents())
}

func TestRedriveOfOldVersionsIsSuperseded(t *testing.T) {
	b := newRedriveBench(t, 4)
	b.load(-1, 4)
	b.mended.Store(true)
	newer := page.Page{
		URL: "http://x.example/3", Status: 200, When: time.UnixMilli(4000).UTC(),
		ContentType: "text/html", Body: []byte("<title>walrus</title>"),
	}
	_, err := b.acts.Log.Append(t.Context(), b.run.Topic("t", contract.TopicPages), 0, []kafkalog.Record{{Key: []byte(newer.URL), Value: newer.Append(nil)}})
	require.NoError(t, err)
	b.load(4, 5)
	_, counts := b.redrive("run", all)
	require.Equal(t, contract.RedriveCounts{Taken: 2, Loaded: 1, Superseded: 1}, counts)
	require.Equal(t, redrive.Count{Redriven: 1, Superseded: 1}, b.counts())
	_, n, err := sqlite.New(b.dir).Search(t.Context(), "x", "walrus", 1)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}

// TestRedriveRefusesEndlessLoops: the third redrive in vain is the last one,
// until somebody insists.
func TestRedriveRefusesEndlessLoops(t *testing.T) {
	b := newRedriveBench(t, 1)
	b.load(-1, 1)
	for i := range 3 {
		_, counts := b.redrive(fmt.Sprint("run", i), all)
		require.Equal(t, contract.RedriveCounts{Taken: 1, Failed: 1}, counts)
	}
	plan, counts := b.redrive("fourth", all)
	require.Equal(t, int64(1), plan.Refused)
	require.Equal(t, contract.RedriveCounts{Refused: 1}, counts)
	b.mended.Store(true)
	_, counts = b.redrive("fifth", contract.RedriveSelect{All: true, Most: 3, Force: true})
	require.Equal(t, contract.RedriveCounts{Taken: 1, Loaded: 1}, counts)
}

// TestAnotherWorkerGoesOnWithARedrive: one that knows nothing reads the errors
// topic again, and what an attempt that was lost did counts.
func TestAnotherWorkerGoesOnWithARedrive(t *testing.T) {
	b := newRedriveBench(t, 6)
	b.load(-1, 6)
	b.mended.Store(true)
	plan, counts := b.redrive("run", all)
	require.Equal(t, int64(2), counts.Loaded)
	b.acts.redrives.m = nil
	for p, end := range plan.Ends {
		r := do[contract.RedriveSlice](b.bench, "Redrive", contract.RedriveSliceInput{
			Name: "x", Run: b.run, Select: all, Redrive: "run", Topic: plan.Topic, Partition: p, Position: plan.Starts[p], End: end, TimeBox: 10 * time.Second,
		})
		require.Equal(t, counts, r.Counts)
		_, now, err := b.acts.Log.Bounds(t.Context(), plan.Topic, p)
		require.NoError(t, err)
		require.Equal(t, end+2, now, "nothing is stated twice")
	}
}

func TestRedriveOfACrawlThatNeverFailed(t *testing.T) {
	b := newRedriveBench(t, 1)
	require.NoError(t, b.acts.Log.DeleteTopics(t.Context(), b.run.Topic("t", contract.TopicErrors)))
	_, err := b.env.ExecuteActivity("RedrivePlan", contract.RedrivePlanInput{Name: "x", Run: b.run, Select: all})
	require.ErrorContains(t, err, "there is no topic")
}

// TestRedriveOfALoad: the failures of any topic, with the load's spec of now.
func TestRedriveOfALoad(t *testing.T) {
	b := newRedriveBench(t, 1)
	b.acts.Sink = func(string) (sink.Admin, error) { return sqlite.New(b.dir), nil }
	ctx := t.Context()
	require.NoError(t, b.acts.Log.EnsureTopics(ctx, []kafkalog.TopicSpec{
		{Name: "events", Partitions: 1, Replication: 1}, {Name: "t.load.orders.errors", Partitions: 4, Replication: 1},
	}))
	encode := func(expression string) []byte {
		s, err := spec.ParseLoad("load.yaml", []byte("name: orders\nsources:\n- topic: events\n  id: n\n  fields: [{expr: {field: twice, expression: '"+expression+"'}}]\nsink: {kind: sqlite}\n"))
		require.NoError(t, err)
		raw, err := s.Encode()
		require.NoError(t, err)
		return raw
	}
	var recs []kafkalog.Record
	for i := range 6 {
		value := fmt.Sprintf(`{"n":"n%d","amount":%d}`, i, i)
		if i%2 == 0 {
			value = fmt.Sprintf(`{"n":"n%d","amount":"%d"}`, i, i)
		}
		recs = append(recs, kafkalog.Record{Value: []byte(value)})
	}
	_, err := b.acts.Log.Append(ctx, "events", 0, recs)
	require.NoError(t, err)
	bad := encode("amount * 2")
	in := contract.LoadInput{Run: contract.Run{Crawl: "orders"}, Load: bad, Topic: "events", Loader: 1, Position: -1, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: 6}
	in.Position = do[contract.LoadResult](b.bench, "Load", in).Position
	if in.Position < 6 {
		require.Equal(t, int64(6), do[contract.LoadResult](b.bench, "Load", in).Position)
	}
	redriven := func(load []byte, id string) contract.RedriveCounts {
		plan := do[contract.RedrivePlan](b.bench, "RedrivePlan", contract.RedrivePlanInput{Name: "orders", Load: load, Select: all})
		require.Equal(t, "t.load.orders.errors", plan.Topic)
		require.Equal(t, "data", plan.Queue)
		require.Equal(t, int64(3), plan.Selected)
		return do[contract.RedriveSlice](b.bench, "Redrive", contract.RedriveSliceInput{
			Name: "orders", Load: load, Select: all, Redrive: id, Topic: plan.Topic, Partition: 1,
			Position: plan.Starts[1], End: plan.Ends[1], TimeBox: 10 * time.Second,
		}).Counts
	}
	require.Equal(t, contract.RedriveCounts{Taken: 3, Failed: 3}, redriven(bad, "with the same spec"))
	require.Equal(t, contract.RedriveCounts{Taken: 3, Loaded: 3}, redriven(encode("int(amount) * 2"), "with another spec"))
	n, err := sqlite.New(b.dir).Count(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, int64(6), n)
}

// TestSkipsAheadOutliveTheRun: what an operator ordered and the loader has not
// reached is kept with the copied position, what it has reached is not.
func TestSkipsAheadOutliveTheRun(t *testing.T) {
	b := newRedriveBench(t, 1)
	b.acts.Sink = func(string) (sink.Admin, error) { return sqlite.New(b.dir), nil }
	ctx := t.Context()
	require.NoError(t, b.acts.Log.EnsureTopics(ctx, []kafkalog.TopicSpec{
		{Name: "events", Partitions: 1, Replication: 1}, {Name: "t.load.orders.errors", Partitions: 4, Replication: 1},
	}))
	var recs []kafkalog.Record
	for range 6 {
		recs = append(recs, kafkalog.Record{Value: []byte("{}")})
	}
	_, err := b.acts.Log.Append(ctx, "events", 0, recs)
	require.NoError(t, err)
	s, err := spec.ParseLoad("load.yaml", []byte("name: orders\nsources:\n- topic: events\nsink: {kind: sqlite}\n"))
	require.NoError(t, err)
	raw, err := s.Encode()
	require.NoError(t, err)
	in := contract.LoadInput{
		Run: contract.Run{Crawl: "orders"}, Load: raw, Topic: "events", TimeBox: 10 * time.Second, IdleWait: time.Second, Until: 6,
		Skips: []contract.Skip{{From: 2, Through: 2, Reason: "bad"}, {From: 9, Through: 9, Reason: strings.Repeat("w", 500)}},
	}
	for from := range int64(100) {
		in.Skips = append(in.Skips, contract.Skip{From: 100 + from, Through: 100 + from, Reason: "more than a note can hold"})
	}
	require.Equal(t, int64(1), do[contract.LoadResult](b.bench, "Load", in).Ledger.Skipped)
	next := do[contract.LoadResult](b.bench, "Load", contract.LoadInput{Run: in.Run, Load: raw, Topic: "events", Position: -1, TimeBox: time.Second, Until: -1})
	require.Equal(t, int64(6), next.Position)
	require.Equal(t, int64(1), next.Prior.Skipped)
	require.Equal(t, contract.Skip{From: 9, Through: 9, Reason: strings.Repeat("w", 60)}, next.PriorSkips[0])
	require.Less(t, len(next.PriorSkips), 100, "in the metadata")
	_, text, _, err := b.acts.Log.Committed(ctx, "t.load.orders", "events", 0)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), 3000)
	n, err := redrive.CountIDs(ctx, b.acts.Log, "t.load.orders.errors", 4)
	require.NoError(t, err)
	require.Equal(t, redrive.Count{Skipped: 1}, n[redrive.SourcePartition{Topic: "events"}])
}
