package workflows

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// crawlTest runs a CrawlWorkflow whose children are played by the test.
type crawlTest struct {
	*testsuite.TestWorkflowEnvironment
	t        *testing.T
	shards   int
	ends     []int64 // what the census finds
	census   int
	onCensus func(n int)
	started  []contract.ShardInput
	controls []contract.ShardControl // to any shard, in order
	final    contract.FinalizeInput
	sequence int64
	parent   contract.Parent
}

func newCrawlTest(t *testing.T, shards int) *crawlTest {
	c := &crawlTest{TestWorkflowEnvironment: newEnvironment(), t: t, shards: shards}
	c.RegisterWorkflowWithOptions(CrawlWorkflow, workflow.RegisterOptions{Name: CrawlType})
	// A child mocked by OnWorkflow would have to end before its parent learns
	// that it has started, so the fake is a workflow in its own right.
	c.RegisterWorkflowWithOptions(c.shard, workflow.RegisterOptions{Name: ShardType})
	reg := func(name string, f any) { c.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	reg(ActClear, func(contract.ClearInput) error { return nil })
	reg(ActSeed, func(contract.SeedInput) (contract.SeedResult, error) { return contract.SeedResult{SpecAt: 7}, nil })
	reg(ActCensus, func(in contract.CensusInput) (contract.CensusResult, error) {
		c.census++
		if c.onCensus != nil {
			c.onCensus(c.census)
		}
		equal := len(in.Ends) == len(c.ends)
		for i := range c.ends {
			equal = equal && in.Ends[i] == c.ends[i]
		}
		return contract.CensusResult{Ends: c.ends, Equal: equal}, nil
	})
	reg(ActFinalize, func(in contract.FinalizeInput) (*contract.Summary, error) {
		c.final = in
		return &contract.Summary{Crawl: in.Run.Crawl, Outcome: in.Outcome, Totals: in.Totals}, nil
	})
	return c
}

// shard plays a ShardWorkflow that does nothing until it is told to stop.
func (c *crawlTest) shard(ctx workflow.Context, in contract.ShardInput) error {
	c.parent = in.Parent
	c.started = append(c.started, in)
	for {
		var control contract.ShardControl
		workflow.GetSignalChannel(ctx, SigControl).Receive(ctx, &control)
		c.controls = append(c.controls, control)
		if control.Stop {
			c.sequence++
			return workflow.SignalExternalWorkflow(ctx, in.Parent.ID, "", SigReport, contract.ShardReport{
				Parent: in.Parent, Shard: in.Shard, Sequence: c.sequence, State: contract.ShardClosed,
				Totals: contract.Totals{Fetched: 100},
			}).Get(ctx, nil)
		}
	}
}

func (c *crawlTest) report(shard int, state string, end, spent int64) {
	c.sequence++
	grant := int64(0)
	for _, control := range c.controls {
		grant = max(grant, control.Grant.Number)
	}
	if grant == 0 {
		grant = 1
	}
	c.SignalWorkflow(SigReport, contract.ShardReport{
		Parent: c.parent, Shard: shard, Sequence: c.sequence, State: state, End: end,
		Grant: grant, Totals: contract.Totals{Spent: spent, Fetched: spent},
	})
}

func (c *crawlTest) at(d time.Duration, f func()) { c.RegisterDelayedCallback(f, d) }

func (c *crawlTest) start(pages int64) {
	raw, err := json.Marshal(map[string]any{
		"shards": c.shards, "sink": map[string]any{"kind": "none"}, "limits": map[string]any{"pages": pages},
		"politeness": map[string]any{"delay": "1s", "parallelism": 1},
	})
	require.NoError(c.t, err)
	c.ExecuteWorkflow(CrawlType, contract.CrawlInput{Spec: raw, Run: contract.Run{Crawl: "x"}})
	require.True(c.t, c.IsWorkflowCompleted())
}

// noLimit: without a page limit there are no grants, so reports name grant 0.
func (c *crawlTest) idle(shard int, end int64) {
	c.sequence++
	c.SignalWorkflow(SigReport, contract.ShardReport{Parent: c.parent, Shard: shard, Sequence: c.sequence, State: contract.ShardIdle, End: end})
}

func (c *crawlTest) summary() contract.Summary {
	require.NoError(c.t, c.GetWorkflowError())
	var s contract.Summary
	require.NoError(c.t, c.GetWorkflowResult(&s))
	return s
}

func TestCrawlCompletesWhenAllShardsAreIdleAndTheCensusAgrees(t *testing.T) {
	c := newCrawlTest(t, 2)
	c.ends = []int64{5, 9}
	c.at(time.Second, func() { c.idle(0, 5) })
	c.at(2*time.Second, func() { require.Zero(t, c.census, "one shard has not reported"); c.idle(1, 9) })
	c.start(0)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.Equal(t, 1, c.census)
}

func TestCensusIsNotFooledByALinkToAnIdleShard(t *testing.T) {
	c := newCrawlTest(t, 2)
	c.ends = []int64{6, 9} // shard 0 got a fact after it reported idle at 5
	done := false
	c.at(time.Second, func() { c.idle(0, 5); c.idle(1, 9) })
	c.at(10*time.Second, func() { require.False(t, c.IsWorkflowCompleted()); done = true; c.idle(0, 6) })
	c.start(0)
	require.True(t, done)
	require.Greater(t, c.census, 1)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
}

func TestCensusDoesNotCountWhenSeedsWereAddedMeanwhile(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	c.onCensus = func(n int) {
		if n == 1 {
			c.UpdateWorkflow(UpAddSeeds, "", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { t.Error(err) },
				OnComplete: func(any, error) { c.ends = []int64{6} },
			}, contract.AddSeeds{URLs: []string{"http://a/"}})
		}
	}
	c.at(time.Second, func() { c.idle(0, 5) })
	c.at(20*time.Second, func() { require.False(t, c.IsWorkflowCompleted()); c.idle(0, 6) })
	c.start(0)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.Greater(t, c.census, 1)
}

func TestReportsOfAnotherRunAreDropped(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	c.at(time.Second, func() {
		zombie := c.parent
		zombie.First = "an earlier run"
		c.SignalWorkflow(SigReport, contract.ShardReport{Parent: zombie, Shard: 0, Sequence: 99, State: contract.ShardIdle, End: 5})
	})
	c.at(5*time.Second, func() { require.Zero(t, c.census); c.idle(0, 5) })
	c.start(0)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
}

func TestBudgetEndsTheCrawl(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.at(time.Second, func() { c.report(0, contract.ShardStarved, 30, 10) })
	c.start(10)
	require.Equal(t, contract.OutcomeBudget, c.summary().Outcome)
	require.Zero(t, c.census)
}

func TestPausedCrawlTakesNoCensus(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	ok := &testsuite.TestUpdateCallback{OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(_ any, err error) { require.NoError(t, err) }}
	c.at(time.Second, func() { c.UpdateWorkflow(UpPause, "", ok) })
	c.at(2*time.Second, func() { c.idle(0, 5) })
	c.at(time.Minute, func() {
		require.Zero(t, c.census)
		require.True(t, c.controls[len(c.controls)-1].Paused)
		c.UpdateWorkflow(UpResume, "", ok)
	})
	c.start(0)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.Positive(t, c.census)
}

func TestCancelDrainsAndEndsCancelled(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.at(time.Second, c.CancelWorkflow)
	c.start(0)
	var cancelled *temporal.CanceledError
	require.True(t, errors.As(c.GetWorkflowError(), &cancelled))
	require.Equal(t, contract.OutcomeCancelled, c.final.Outcome)
	require.True(t, c.controls[len(c.controls)-1].Stop)
}

func TestUpdatesAreValidated(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	rejected := 0
	cb := &testsuite.TestUpdateCallback{OnAccept: func() { t.Error("accepted") }, OnReject: func(error) { rejected++ }, OnComplete: func(any, error) {}}
	c.at(time.Second, func() {
		c.UpdateWorkflow(UpAddSeeds, "a", cb, contract.AddSeeds{})
		c.UpdateWorkflow(UpSetRate, "b", cb, contract.Rate{DelayMS: -1})
	})
	c.at(2*time.Second, func() { c.idle(0, 5) })
	c.start(0)
	require.Equal(t, 2, rejected)
}
