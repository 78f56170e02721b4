package activities

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"trawl/internal/contract"
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
