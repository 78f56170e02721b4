package activities

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"trawl/internal/contract"
	"trawl/internal/spec"
)

func TestRetiredWorkerTakesNoShardAndGivesAllAway(t *testing.T) {
	a := New(Config{})
	run := contract.Run{Crawl: "c", Generation: "g", Shards: 2}
	a.shards.promise(run, 1)
	a.retire.once.Do(func() { close(a.retire.begun) })
	var ts testsuite.WorkflowTestSuite
	env := ts.NewTestActivityEnvironment()
	env.RegisterActivity(a.Acquire)
	env.RegisterActivity(a.Expand)

	_, err := env.ExecuteActivity(a.Acquire, contract.AcquireInput{Run: run})
	require.ErrorContains(t, err, "about to end")
	answer, err := env.ExecuteActivity(a.Expand, contract.ExpandInput{Run: run, Shard: 1})
	require.NoError(t, err)
	var r contract.ExpandResult
	require.NoError(t, answer.Get(&r))
	require.Equal(t, contract.VerdictMove, r.Verdict)
	require.Empty(t, a.shards.m)
}

func TestRetireWaitsForShardsThatAskButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Config{})
		run := contract.Run{Crawl: "c", Generation: "g", Shards: 2}
		began := time.Now()
		a.Retire()
		require.Zero(t, time.Since(began), "no shard is held")

		a.shards.promise(run, 0)
		a.Retire()
		took := time.Since(began)
		require.GreaterOrEqual(t, took, handBackQuiet, "the shard may be about to ask")
		require.Less(t, took, handBackQuiet+time.Second)

		a.shards.promise(run, 0)
		a.shards.m[run.Key(0)].mu.Lock() // an Expand that does not end
		began = time.Now()
		a.Retire()
		require.Equal(t, handBackMost, time.Since(began))
	})
}

func TestRetirementEndsAnExpandThatWaits(t *testing.T) {
	r := retirement{begun: make(chan struct{})}
	ctx, stop := r.within(context.Background())
	defer stop()
	require.NoError(t, ctx.Err())
	close(r.begun)
	<-ctx.Done()
	require.True(t, r.is())
}

func allSlots() contract.SlotSet {
	return bytes.Repeat([]byte{0xff}, contract.Slots/8)
}

// A shard whose Expand waits asks seldom: it must move while it waits, once
// there are more workers.
func TestWaitingExpandGivesTheShardToANewWorker(t *testing.T) {
	for _, something := range []string{"facts", "a slot"} {
		t.Run(something, func(t *testing.T) {
			b := newBench(t, "http://127.0.0.1:1/", func(s *spec.Spec) { s.Shards = 4 })
			b.run.SpecAt = do[contract.SeedResult](b, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec}).SpecAt
			workers := func(n int) {
				b.acts.workers.mu.Lock()
				defer b.acts.workers.mu.Unlock()
				b.acts.workers.at, b.acts.workers.last = time.Now().Add(time.Hour), n
			}
			workers(1)
			waits := map[string]contract.ExpandInput{}
			for shard := range b.run.Shards {
				b.acts.shards.promise(b.run, shard)
				in := contract.ExpandInput{Run: b.run, Shard: shard, Number: 1}
				if r := do[contract.ExpandResult](b, "Expand", in); r.Verdict == contract.VerdictBatch {
					in.Busy, in.WaitFor = allSlots(), 40*time.Second
					waits["a slot"] = in
				} else {
					in.MayWait, in.WaitFrom = true, r.End
					waits["facts"] = in
				}
			}
			in := waits[something]
			asked := func() time.Time {
				b.acts.shards.mu.Lock()
				defer b.acts.shards.mu.Unlock()
				return b.acts.shards.m[b.run.Key(in.Shard)].asked
			}
			state := b.acts.shards.m[b.run.Key(in.Shard)]
			before, began := asked(), time.Now()
			got := make(chan string)
			go func() { got <- do[contract.ExpandResult](b, "Expand", in).Verdict }()
			require.Eventually(t, func() bool { return asked().After(before) }, 10*time.Second, time.Millisecond)
			workers(4)
			require.Equal(t, contract.VerdictMove, <-got)
			require.Less(t, time.Since(began), 20*time.Second)
			require.NotContains(t, b.acts.shards.m, b.run.Key(in.Shard))
			require.Nil(t, state.state, "its scratch files are closed")
		})
	}
}
