package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
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
	onSeed   func(contract.SeedInput)
	started  []contract.ShardInput
	controls []told // in order
	limits   map[string]any
	sink     string
	drain    func(workflow.Context, contract.LoadsInput, contract.LoadsControl) error // by the loaders; nil: they are gone
	logEnds  int
	seeds    []contract.SeedInput
	timers   int
	final    contract.FinalizeInput
	finalOn  string // queue of Finalize
	queue    string // that Seed names for Load
	gone     int    // this shard ends without a word; -1: none
	deaf     int    // so many orders to stop get lost
	goneOnce int    // this shard's first run ends without a word; -1: none
	sequence int64
	parent   contract.Parent
}

// told is a message to a shard.
type told struct {
	contract.ShardControl
	shard int
}

func newCrawlTest(t *testing.T, shards int) *crawlTest {
	c := &crawlTest{TestWorkflowEnvironment: newEnvironment(), t: t, shards: shards, gone: -1, goneOnce: -1, limits: map[string]any{}, sink: "none"}
	c.SetOnTimerScheduledListener(func(string, time.Duration) { c.timers++ })
	c.RegisterWorkflowWithOptions(CrawlWorkflow, workflow.RegisterOptions{Name: CrawlType})
	// A child mocked by OnWorkflow would have to end before its parent learns
	// that it has started, so the fake is a workflow in its own right.
	c.RegisterWorkflowWithOptions(c.shard, workflow.RegisterOptions{Name: ShardType})
	c.RegisterWorkflowWithOptions(c.loads, workflow.RegisterOptions{Name: LoadsType})
	reg := func(name string, f any) { c.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	reg(ActClear, func(contract.ClearInput) error { return nil })
	reg(ActSeed, func(in contract.SeedInput) (contract.SeedResult, error) {
		c.seeds = append(c.seeds, in)
		if c.onSeed != nil {
			c.onSeed(in)
		}
		return contract.SeedResult{SpecAt: int64(len(c.seeds)), LoadQueue: c.queue}, nil
	})
	reg(ActCensus, func(in contract.CensusInput) (contract.CensusResult, error) {
		c.census++
		r := contract.CensusResult{Ends: slices.Clone(c.ends), Equal: slices.Equal(in.Ends, c.ends)}
		if c.onCensus != nil {
			c.onCensus(c.census)
		}
		return r, nil
	})
	reg(ActLogEnds, func(contract.LogEndsInput) (contract.LogEndsResult, error) {
		c.logEnds++
		return contract.LogEndsResult{Ends: []int64{3, 4}}, nil
	})
	reg(ActFinalize, func(ctx context.Context, in contract.FinalizeInput) (*contract.Summary, error) {
		c.final, c.finalOn = in, activity.GetInfo(ctx).TaskQueue
		return &contract.Summary{Crawl: in.Run.Crawl, Outcome: in.Outcome, Totals: in.Totals, Ledger: in.Ledger}, nil
	})
	return c
}

// loads plays a LoadsWorkflow until it is told to drain.
func (c *crawlTest) loads(ctx workflow.Context, in contract.LoadsInput) error {
	for c.drain != nil {
		var control contract.LoadsControl
		workflow.GetSignalChannel(ctx, SigControl).Receive(ctx, &control)
		if control.Drain {
			return c.drain(ctx, in, control)
		}
	}
	return nil
}

// drained is the report of loaders that have closed at the ends.
func drained(parent contract.Parent, ends []int64) contract.LoadsReport {
	r := contract.LoadsReport{Parent: parent, Closed: true}
	for p, end := range ends {
		r.Partitions = append(r.Partitions, contract.LoadReport{
			Partition: p, Position: end, Ledger: contract.Ledger{Offsets: end, Loaded: end}, Closed: true,
		})
	}
	return r
}

// shard plays a ShardWorkflow that does nothing until it is told to stop.
func (c *crawlTest) shard(ctx workflow.Context, in contract.ShardInput) error {
	c.parent = in.Parent
	c.started = append(c.started, in)
	if in.Shard == c.gone {
		return nil
	}
	if in.Shard == c.goneOnce && len(c.started) == 1 {
		return nil
	}
	for {
		var control contract.ShardControl
		workflow.GetSignalChannel(ctx, SigControl).Receive(ctx, &control)
		c.controls = append(c.controls, told{control, in.Shard})
		if control.Stop && c.deaf > 0 {
			c.deaf--
			continue
		}
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

// settled is the report of a shard with nothing open, that answers a grant.
func (c *crawlTest) settled(shard int, state string, spent, grant int64) {
	c.sequence++
	c.SignalWorkflow(SigReport, contract.ShardReport{
		Parent: c.parent, Shard: shard, Sequence: c.sequence, State: state, Grant: grant,
		Totals: contract.Totals{Spent: spent},
	})
}

func (c *crawlTest) lastGrant(shard int) (g contract.Grant) {
	for _, control := range c.controls {
		if control.shard == shard {
			g = control.Grant
		}
	}
	return g
}

func (c *crawlTest) at(d time.Duration, f func()) { c.RegisterDelayedCallback(f, d) }

func (c *crawlTest) start(pages int64) {
	c.limits["pages"] = pages
	raw, err := json.Marshal(map[string]any{
		"shards": c.shards, "sink": map[string]any{"kind": c.sink}, "limits": c.limits,
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
				OnComplete: func(_ any, err error) { require.NoError(t, err); c.ends = []int64{6} },
			}, contract.AddSeeds{URLs: []string{"http://a/"}})
		}
	}
	c.at(time.Second, func() { c.idle(0, 5) })
	later := false
	c.at(20*time.Second, func() { later = !c.IsWorkflowCompleted(); c.idle(0, 6) })
	c.start(0)
	require.True(t, later, "the first census agreed, but seeds were added while it ran")
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.Equal(t, []string{"http://a/"}, c.seeds[1].Only)
}

func TestNoCensusWhileSeedsAreAdded(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	counted, early := make(chan bool), false
	c.onCensus = func(int) { close(counted) }
	c.onSeed = func(in contract.SeedInput) {
		if in.Only != nil {
			c.idle(0, 5)
			select {
			case <-counted:
				early = true
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	done := &testsuite.TestUpdateCallback{OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {}}
	c.at(time.Second, func() { c.UpdateWorkflow(UpAddSeeds, "", done, contract.AddSeeds{URLs: []string{"http://a/"}}) })
	c.start(0)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.False(t, early)
}

func TestReportsOfAnotherRunAreDropped(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	c.at(time.Second, func() {
		zombie := c.parent
		zombie.First = "an earlier run"
		c.SignalWorkflow(SigReport, contract.ShardReport{Parent: zombie, Shard: 0, Sequence: 99, State: contract.ShardIdle, End: 5})
		late := contract.ShardReport{Parent: c.parent, Shard: 7, Sequence: 99, State: contract.ShardIdle}
		c.SignalWorkflow(SigReport, late) // there is no shard 7
	})
	asked := -1
	c.at(5*time.Second, func() { asked = c.census; c.idle(0, 5) })
	c.start(0)
	require.Zero(t, asked, "the zombie's report brought no census")
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
}

func TestReportsThatComeLateAreDropped(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	c.at(time.Second, func() {
		c.SignalWorkflow(SigReport, contract.ShardReport{Parent: c.parent, Sequence: 3, State: contract.ShardBusy})
		c.SignalWorkflow(SigReport, contract.ShardReport{Parent: c.parent, Sequence: 2, State: contract.ShardIdle, End: 5})
	})
	asked := -1
	c.at(5*time.Second, func() { asked = c.census; c.sequence = 3; c.idle(0, 5) })
	c.start(0)
	require.Zero(t, asked)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
}

func TestCensusThatDisagreedDoesNotSpin(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{6}
	c.at(time.Second, func() { c.idle(0, 5) })
	c.at(2*time.Second, func() { c.report(0, contract.ShardBusy, -1, 0) })
	before, after := 0, 0
	c.at(time.Minute, func() { before = c.timers })
	c.at(time.Hour, func() { after = c.timers; c.idle(0, 6) })
	c.start(0)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.Less(t, after-before, 25, "a silent shard is looked for every three minutes, and that is all")
}

// A shard that somebody terminated is noticed by its silence and started again.
func TestShardThatIsGoneIsStartedAgain(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	c.goneOnce = 0
	c.at(10*time.Minute, func() { c.idle(0, 5) })
	c.start(0)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.Len(t, c.started, 2)
	require.True(t, c.started[1].Careful)
	require.NotEmpty(t, c.final.Notes)
}

func TestBudgetEndsTheCrawl(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.at(time.Second, func() { c.report(0, contract.ShardStarved, 30, 10) })
	c.start(10)
	require.Equal(t, contract.OutcomeBudget, c.summary().Outcome)
	require.Zero(t, c.census)
}

func TestBudgetIsMovedBeforeTheCrawlEnds(t *testing.T) {
	c := newCrawlTest(t, 2)
	c.at(time.Second, func() {
		c.settled(0, contract.ShardStarved, 5, 1)
		c.settled(1, contract.ShardIdle, 2, 1)
	})
	c.at(5*time.Second, func() {
		require.Equal(t, contract.Grant{Number: 2, Total: 2}, c.lastGrant(1), "the surplus is taken back")
		c.settled(1, contract.ShardIdle, 2, 2)
	})
	c.at(10*time.Second, func() {
		require.Equal(t, contract.Grant{Number: 2, Total: 8}, c.lastGrant(0), "and given to who can use it")
		c.settled(0, contract.ShardStarved, 8, 1) // answers the grant before: does not count
	})
	end := time.Time{}
	c.at(20*time.Second, func() { end = c.Now(); c.settled(0, contract.ShardStarved, 8, 2) })
	c.start(10)
	require.False(t, end.IsZero())
	require.Equal(t, contract.OutcomeBudget, c.summary().Outcome)
}

func TestTimeLimitEndsTheCrawl(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.limits["time"] = "10m"
	begun := c.Now()
	c.start(0)
	require.Equal(t, contract.OutcomeTime, c.summary().Outcome)
	require.WithinDuration(t, begun.Add(10*time.Minute), c.Now(), time.Second)
}

func TestCrawlEndsThoughAShardIsGone(t *testing.T) {
	c := newCrawlTest(t, 2)
	c.gone = 1
	c.at(time.Second, c.CancelWorkflow)
	c.start(0)
	require.Equal(t, contract.OutcomeCancelled, c.final.Outcome)
	require.Len(t, c.final.Notes, 1)
	require.Contains(t, c.final.Notes[0], "shard 1 was gone")
}

func TestTotalsAreThoseOfTheLastFolds(t *testing.T) {
	c := newCrawlTest(t, 2)
	c.ends = []int64{5, 9}
	c.at(time.Second, func() { c.idle(0, 5); c.idle(1, 9) })
	c.start(0)
	require.Equal(t, int64(200), c.summary().Totals.Fetched)
}

func TestCrawlGoesOnInANewRun(t *testing.T) {
	c := newCrawlTest(t, 2)
	c.SetDetachedChildWait(false)
	c.at(time.Second, func() {
		c.report(0, contract.ShardIdle, 5, 3)
		c.SetContinueAsNewSuggested(true)
	})
	c.start(10)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, c.GetWorkflowError(), &next)
	var in contract.CrawlInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.NotNil(t, in.State)
	require.Equal(t, int64(3), in.State.Shards[0].Totals.Spent)
	require.Equal(t, int64(5), in.State.Grants[1].Grant.Total)

	// The new run seeds and starts nothing; what it knows still counts.
	parent := c.parent
	c = newCrawlTest(t, 2)
	c.parent, c.sequence, c.ends = parent, 50, []int64{5, 9}
	c.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, SigControl, mock.Anything).
		Return(func(_, id, _, _ string, arg any) error {
			shard := int(id[len(id)-1] - '0')
			require.Equal(t, ShardID("x", shard), id)
			if arg.(contract.ShardControl).Stop {
				c.SignalWorkflow(SigReport, contract.ShardReport{
					Parent: parent, Shard: shard, Sequence: 100, State: contract.ShardClosed,
				})
			}
			return nil
		})
	c.at(time.Second, func() { c.report(1, contract.ShardIdle, 9, 1) })
	c.ExecuteWorkflow(CrawlType, in)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.Empty(t, c.seeds)
	require.Empty(t, c.started)
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

func TestLoadersDrainToTheEndsOfThePages(t *testing.T) {
	c := newCrawlTest(t, 2)
	c.sink, c.ends = "sqlite", []int64{5, 9}
	c.drain = func(ctx workflow.Context, in contract.LoadsInput, control contract.LoadsControl) error {
		for _, r := range c.controls {
			require.True(t, r.Stop || r.Sequence < control.Sequence)
		}
		return workflow.SignalExternalWorkflow(ctx, in.Parent.ID, "", SigLoads, drained(in.Parent, control.Ends)).Get(ctx, nil)
	}
	c.at(time.Second, func() { c.idle(0, 5); c.idle(1, 9) })
	c.start(0)
	require.Equal(t, contract.Ledger{Offsets: 7, Loaded: 7}, c.summary().Ledger)
	require.Empty(t, c.final.Notes)
}

func TestCrawlEndsThoughItsLoadersAreGone(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.sink, c.ends = "sqlite", []int64{5}
	c.at(time.Second, func() { c.idle(0, 5) })
	c.start(0)
	require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
	require.Len(t, c.final.Notes, 1)
	require.Contains(t, c.final.Notes[0], "loaders were gone")
}

// The alias is moved where the index is: in the data directory of the loaders.
func TestFinalizeRunsWhereTheIndexIs(t *testing.T) {
	for queue, want := range map[string]string{DataQueue("d1"): DataQueue("d1"), QueueMain: QueueMain, "": QueueMain} {
		c := newCrawlTest(t, 1)
		c.sink, c.ends, c.queue = "sqlite", []int64{5}, queue
		c.drain = func(ctx workflow.Context, in contract.LoadsInput, control contract.LoadsControl) error {
			require.Equal(t, queue, in.Queue)
			return workflow.SignalExternalWorkflow(ctx, in.Parent.ID, "", SigLoads, drained(in.Parent, control.Ends)).Get(ctx, nil)
		}
		c.at(time.Second, func() { c.idle(0, 5) })
		c.start(0)
		require.Equal(t, contract.OutcomeCompleted, c.summary().Outcome)
		require.Equal(t, want, c.finalOn)
		v, err := c.QueryWorkflow(QryStatus)
		require.NoError(t, err)
		var st contract.CrawlStatus
		require.NoError(t, v.Get(&st))
		require.Equal(t, queue, st.LoadQueue)
	}
}

// A long drain, with the sink away for days, is more than one history can hold.
func TestDrainGoesOnInANewRun(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.SetDetachedChildWait(false)
	c.sink = "sqlite"
	c.drain = func(ctx workflow.Context, in contract.LoadsInput, control contract.LoadsControl) error {
		c.SetContinueAsNewSuggested(true)
		r := contract.LoadsReport{Parent: in.Parent}
		return workflow.SignalExternalWorkflow(ctx, in.Parent.ID, "", SigLoads, r).Get(ctx, nil)
	}
	c.at(time.Second, c.CancelWorkflow)
	c.start(0)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, c.GetWorkflowError(), &next)
	var in contract.CrawlInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, contract.OutcomeCancelled, in.State.Outcome)

	parent := c.parent
	c = newCrawlTest(t, 1)
	refused := 0
	cb := &testsuite.TestUpdateCallback{OnAccept: func() { t.Error("accepted") }, OnReject: func(error) { refused++ }, OnComplete: func(any, error) {}}
	c.OnSignalExternalWorkflow(mock.Anything, LoadsID("x"), mock.Anything, SigControl, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			require.Equal(t, []int64{3, 4}, arg.(contract.LoadsControl).Ends)
			return nil
		})
	c.at(time.Second, func() { c.UpdateWorkflow(UpPause, "", cb) })
	c.at(time.Hour, func() { c.SignalWorkflow(SigLoads, drained(parent, []int64{3, 4})) })
	c.ExecuteWorkflow(CrawlType, in)
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, c.GetWorkflowError(), &cancelled)
	require.Equal(t, contract.OutcomeCancelled, c.final.Outcome)
	require.Equal(t, int64(7), c.final.Ledger.Loaded)
	require.Zero(t, c.logEnds, "the ends were decided before")
	require.Equal(t, 1, refused)
}

func TestRateChangesTheSpecAndNothingElse(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.ends = []int64{5}
	ok := &testsuite.TestUpdateCallback{OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(_ any, err error) { require.NoError(t, err) }}
	c.at(time.Second, func() { c.UpdateWorkflow(UpSetRate, "", ok, contract.Rate{DelayMS: 250, Parallelism: 3}) })
	c.at(10*time.Second, func() { c.idle(0, 5) })
	c.start(0)
	require.Len(t, c.seeds, 2)
	var before, after map[string]any
	require.NoError(t, json.Unmarshal(c.seeds[0].Spec, &before))
	require.NoError(t, json.Unmarshal(c.seeds[1].Spec, &after))
	require.Equal(t, map[string]any{"delay": "250ms", "parallelism": 3.0}, after["politeness"])
	before["politeness"], after["politeness"] = nil, nil
	require.Equal(t, before, after)
	require.Equal(t, int64(2), c.controls[0].SpecAt, "the shards get the offset of the new spec")
}

func TestStopIsRepeatedUntilTheShardsHaveClosed(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.deaf = 3
	begun := c.Now()
	c.at(time.Second, c.CancelWorkflow)
	c.start(0)
	require.Equal(t, contract.OutcomeCancelled, c.final.Outcome)
	require.WithinDuration(t, begun.Add(3*reportQuiet), c.Now(), 10*time.Second)
}

func TestCancelEndsAPause(t *testing.T) {
	c := newCrawlTest(t, 1)
	c.sink = "sqlite"
	var last contract.LoadsControl
	c.drain = func(ctx workflow.Context, in contract.LoadsInput, control contract.LoadsControl) error {
		last = control
		return workflow.SignalExternalWorkflow(ctx, in.Parent.ID, "", SigLoads, drained(in.Parent, control.Ends)).Get(ctx, nil)
	}
	ok := &testsuite.TestUpdateCallback{OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {}}
	c.at(time.Second, func() { c.UpdateWorkflow(UpPause, "", ok) })
	c.at(time.Minute, c.CancelWorkflow)
	c.start(0)
	require.True(t, c.controls[0].Paused)
	stop := c.controls[len(c.controls)-1]
	require.True(t, stop.Stop && !stop.Paused)
	require.True(t, last.Drain && !last.Paused, "paused loaders would never reach the ends")
}
