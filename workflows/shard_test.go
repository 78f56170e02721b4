package workflows

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// shardTest runs a ShardWorkflow; expand plays the owner, fetch any worker.
type shardTest struct {
	*testsuite.TestWorkflowEnvironment
	sync.Mutex // of expands and fetches, which run beside each other
	t          *testing.T
	in         contract.ShardInput
	acquired   int
	expands    []contract.ExpandInput
	reports    []contract.ShardReport
	fetches    []contract.FetchInput
	expand     func(in contract.ExpandInput) (contract.ExpandResult, error)
	fetch      func(in contract.FetchInput) (contract.FetchResult, error)
	gone       bool
}

func newShardTest(t *testing.T) *shardTest {
	s := &shardTest{TestWorkflowEnvironment: newEnvironment(), t: t}
	s.in = contract.ShardInput{Run: contract.Run{Crawl: "x", Generation: "g", Shards: 1}, Parent: contract.Parent{ID: "crawl/x", First: "f", Generation: "g"}}
	s.in.Control.Parent = s.in.Parent
	s.RegisterWorkflowWithOptions(ShardWorkflow, workflow.RegisterOptions{Name: ShardType})
	reg := func(name string, f any) { s.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	reg(ActAcquire, func(contract.AcquireInput) (contract.AcquireResult, error) {
		s.acquired++
		return contract.AcquireResult{Queue: "worker"}, nil
	})
	reg(ActExpand, func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.FoldOnly {
			return contract.ExpandResult{Verdict: contract.VerdictLater, Totals: contract.Totals{Fetched: 42}}, nil
		}
		s.Lock()
		s.expands = append(s.expands, in)
		spins := len(s.expands) > 2000
		s.Unlock()
		if spins {
			panic("the shard spins")
		}
		return s.expand(in)
	})
	reg(ActFetch, func(in contract.FetchInput) (contract.FetchResult, error) {
		s.Lock()
		s.fetches = append(s.fetches, in)
		s.Unlock()
		return s.fetch(in)
	})
	s.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, SigReport, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			if s.gone {
				return &temporal.UnknownExternalWorkflowExecutionError{}
			}
			s.reports = append(s.reports, arg.(contract.ShardReport))
			return nil
		})
	return s
}

func (s *shardTest) stopAt(d time.Duration) {
	s.RegisterDelayedCallback(func() {
		s.SignalWorkflow(SigControl, contract.ShardControl{Parent: s.in.Parent, Sequence: 100, Stop: true})
	}, d)
}

func (s *shardTest) start() {
	s.ExecuteWorkflow(ShardType, s.in)
	require.True(s.t, s.IsWorkflowCompleted())
	require.NoError(s.t, s.GetWorkflowError())
}

// turned waits, in an activity, until the workflow has seen what was sent.
func (s *shardTest) turned() {
	seen := make(chan bool)
	s.RegisterDelayedCallback(func() { close(seen) }, 0)
	<-seen
}

// starvedOf are the grants of which the shard reported that it starves.
func (s *shardTest) starvedOf() (grants []int64) {
	for _, r := range s.reports {
		if r.State == contract.ShardStarved {
			grants = append(grants, r.Grant)
		}
	}
	return grants
}

func (s *shardTest) troubles() string {
	var all []string
	for _, r := range s.reports {
		all = append(all, r.Trouble)
	}
	return strings.Join(all, "\n")
}

func batchOf(number int64, slots ...int) contract.ExpandResult {
	return contract.ExpandResult{Verdict: contract.VerdictBatch, Batch: &contract.Batch{Number: number, TimeBox: 10 * time.Second, Slots: slots, Locators: 3}}
}

func has(b contract.SlotSet, slot int) bool { return b != nil && b[slot>>3]&(1<<(slot&7)) != 0 }

func TestShardReportsIdleOnceItsLastBatchHasClosed(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.Number == 1 {
			return batchOf(1, 5), nil
		}
		if in.OpenBatches > 0 {
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
		}
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 17, Totals: contract.Totals{Fetched: 5}}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		return contract.FetchResult{LongestDelay: 3 * time.Second, Gone: 2 * time.Second}, nil
	}
	s.stopAt(30 * time.Second)
	s.start()
	var idle []contract.ShardReport
	for _, r := range s.reports {
		if r.State == contract.ShardIdle {
			idle = append(idle, r)
		}
	}
	require.NotEmpty(t, idle)
	require.Equal(t, int64(17), idle[0].End)
	require.Zero(t, idle[0].Open)
	last := s.reports[len(s.reports)-1]
	require.Equal(t, contract.ShardClosed, last.State)
	require.Equal(t, int64(42), last.Totals.Fetched, "the last fold")
	require.True(t, s.expands[len(s.expands)-1].MayWait, "idle was reported: the owner may wait inside")
	cooled := false
	for _, in := range s.expands {
		cooled = cooled || (in.OpenBatches == 0 && len(in.Holds) == 1 && in.Holds[0].Slots[0] == 5)
		for _, h := range in.Holds {
			require.LessOrEqual(t, h.MS, int64(1000), "two of three seconds are gone")
		}
	}
	require.True(t, cooled, "the slot cools for the delay that was used")
}

// After a census an idle shard has nothing left to fold; one that is not idle, or
// that is stopped for another reason, folds once more.
func TestShardFoldsWhenItEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		verdict string
		counted bool
		rules   workflow.Version
		want    int64
	}{
		{"counted", contract.VerdictIdle, true, shardRules, 5},
		{"cancelled", contract.VerdictIdle, false, shardRules, 42},
		{"not idle", contract.VerdictLater, true, shardRules, 42},
		{"earlier rules", contract.VerdictIdle, true, workflow.DefaultVersion, 42},
	} {
		s := newShardTest(t)
		s.OnGetVersion(shardRulesName, workflow.DefaultVersion, workflow.Version(shardRules)).Return(c.rules)
		s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
			return contract.ExpandResult{Verdict: c.verdict, End: 17, Totals: contract.Totals{Fetched: 5}}, nil
		}
		s.RegisterDelayedCallback(func() {
			s.SignalWorkflow(SigControl, contract.ShardControl{Parent: s.in.Parent, Sequence: 100, Stop: true, Counted: c.counted})
		}, 30*time.Second)
		s.start()
		require.Equal(t, c.want, s.reports[len(s.reports)-1].Totals.Fetched, c.name)
	}
}

// A shard that is stopped in the middle says what its last batches did.
func TestShardFoldsWhatItsLastBatchesDid(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.Number == 1 {
			return batchOf(1, 5), nil
		}
		return contract.ExpandResult{Verdict: contract.VerdictLater, Totals: contract.Totals{Pending: 1}}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) { return contract.FetchResult{}, nil }
	s.stopAt(30 * time.Second)
	s.start()
	require.Equal(t, int64(42), s.reports[len(s.reports)-1].Totals.Fetched)
}

// What comes free while batches are open is dealt together; the last one to close
// keeps nobody waiting. Shards of earlier rules ask each time, as they did.
func TestShardGathersWhatComesFree(t *testing.T) {
	for rules, want := range map[workflow.Version][]int64{
		shardRules:              {1000, 1500, 4900, 5000},
		workflow.DefaultVersion: {1000, 1050, 1100, 1150, 4900, 5000},
	} {
		s := newShardTest(t)
		s.OnGetVersion(shardRulesName, workflow.DefaultVersion, workflow.Version(shardRules)).Return(rules)
		began := s.Now()
		var asked []int64
		s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
			if in.Number == 1 {
				return batchOf(1, 1, 2, 3, 4, 5, 6), nil
			}
			if in.WaitFor == 0 && !in.MayWait {
				asked = append(asked, s.Now().Sub(began).Milliseconds())
			}
			if in.OpenBatches == 0 {
				return contract.ExpandResult{Verdict: contract.VerdictIdle}, nil
			}
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
		}
		s.OnActivity(ActFetch, mock.Anything).After(5*time.Second).Return(contract.FetchResult{}, nil)
		for i, ms := range []int64{1000, 1050, 1100, 1150, 4900} {
			s.RegisterDelayedCallback(func() {
				s.SignalWorkflow(SigReleased, contract.Released{Number: 1, Slots: []int{1 + i}})
			}, time.Duration(ms)*time.Millisecond)
		}
		s.stopAt(5200 * time.Millisecond)
		s.start()
		require.Equal(t, want, asked, "rules %d", rules)
	}
}

// What came free during an Expand keeps nobody from what the Expand left over.
func TestShardAsksForMoreAtOnce(t *testing.T) {
	s := newShardTest(t)
	began := s.Now()
	var asked []int64
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.Number > 3 || in.WaitFor > 0 || in.MayWait {
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
		}
		asked = append(asked, s.Now().Sub(began).Milliseconds())
		if in.Number > 1 { // a slot of the batch before comes free
			s.SignalWorkflow(SigReleased, contract.Released{Number: in.Number - 1, Slots: []int{10 * int(in.Number-1)}})
			s.turned()
		}
		r := batchOf(in.Number, 10*int(in.Number), 10*int(in.Number)+1)
		r.More = in.Number < 3
		return r, nil
	}
	s.OnActivity(ActFetch, mock.Anything).After(20*time.Second).Return(contract.FetchResult{}, nil)
	s.stopAt(30 * time.Second)
	s.start()
	require.Len(t, asked, 3)
	require.Less(t, asked[2]-asked[0], int64(400), "asked at %v", asked)
}

// A batch may close while an Expand is under way that was told it is open: its
// answer must not make the shard wait as if nothing had happened.
func TestShardAsksAgainAtOnceWhenABatchClosedMeanwhile(t *testing.T) {
	s := newShardTest(t)
	asking, closed := make(chan bool), make(chan bool)
	s.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		if info.ActivityType.Name == ActFetch {
			close(closed)
		}
	})
	var answered, again time.Time
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		switch {
		case len(s.expands) == 1:
			r := batchOf(1, 5)
			r.More = true
			return r, nil
		case in.OpenBatches > 0:
			close(asking)
			<-closed
			s.turned()
			answered = s.Now()
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
		case again.IsZero():
			again = s.Now()
		}
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 17}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		<-asking
		return contract.FetchResult{}, nil
	}
	s.stopAt(10 * time.Second)
	s.start()
	require.False(t, again.IsZero())
	require.Less(t, again.Sub(answered), askAgain/2)
}

// A Fetch that gives slots back while it goes on: they can be dealt, and its end
// closes the others only. What another batch or nobody holds is not touched.
func TestSlotsAreReleasedBeforeTheirBatchEnds(t *testing.T) {
	s := newShardTest(t)
	var after contract.ExpandInput
	seen := make(chan bool)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		switch {
		case len(s.expands) == 1:
			return batchOf(1, 5, 6), nil
		case in.OpenBatches == 0:
			return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 17}, nil
		case len(in.Holds) > 0 && after.Number == 0:
			after = in
			close(seen)
		}
		return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		for _, r := range []contract.Released{
			{Number: 99, Slots: []int{6}, Locators: 1},
			{Number: 1, Slots: []int{5, 7}, Locators: 2, Cool: time.Second},
		} {
			s.RegisterDelayedCallback(func() { s.SignalWorkflow(SigReleased, r) }, 0)
		}
		<-seen
		return contract.FetchResult{}, nil
	}
	s.stopAt(30 * time.Second)
	s.start()
	require.Equal(t, []int{5}, after.Holds[0].Slots)
	require.LessOrEqual(t, after.Holds[0].MS, int64(1000))
	require.True(t, has(after.Busy, 6), "still open")
	require.False(t, has(after.Busy, 7))
	require.Equal(t, int64(1), after.OpenLocators)
}

// An Expand that waits inside is asked anew when slots close.
func TestWaitingExpandIsAskedAnewWhenSlotsClose(t *testing.T) {
	s := newShardTest(t)
	waiting, gone := make(chan bool), make(chan bool)
	var again time.Time
	var since time.Time
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		switch {
		case len(s.expands) == 1:
			return batchOf(1, 5), nil
		case in.OpenBatches > 0 && in.WaitFor > 0:
			since = s.Now()
			close(waiting)
			<-gone // it would wait for long
		case in.OpenBatches == 0:
			if again.IsZero() {
				again = s.Now()
				close(gone)
			}
			return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 17}, nil
		}
		return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		<-waiting
		return contract.FetchResult{}, nil
	}
	s.stopAt(30 * time.Second)
	s.start()
	require.False(t, since.IsZero())
	require.Less(t, again.Sub(since), askDry)
}

func TestLostFetchMakesItsSlotsCoolAndCareful(t *testing.T) {
	s := newShardTest(t)
	var lost, again time.Time
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.Number == 1 && !has(in.Busy, 9) {
			lost = s.Now()
			return batchOf(1, 9), nil
		}
		if has(in.Busy, 9) {
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
		}
		if again.IsZero() {
			again = s.Now()
		}
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 1}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		return contract.FetchResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	}
	s.stopAt(40 * time.Second)
	s.start()
	var after *contract.ExpandInput
	for i := range s.expands {
		if s.expands[i].Number == 2 && !has(s.expands[i].Busy, 9) {
			after = &s.expands[i]
			break
		}
	}
	require.NotNil(t, after)
	require.True(t, has(after.Careful, 9))
	require.Equal(t, 1, after.Lost[9])
	require.GreaterOrEqual(t, again.Sub(lost), CarefulCooling)
}

func TestFailedExpandAcquiresAgain(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
		if len(s.expands) == 1 {
			return contract.ExpandResult{}, temporal.NewApplicationError("worker died", "x")
		}
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 1}, nil
	}
	s.stopAt(10 * time.Second)
	s.start()
	require.Equal(t, 2, s.acquired)
}

func TestShardOfAGoneParentStops(t *testing.T) {
	s := newShardTest(t)
	s.gone = true
	s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 1}, nil
	}
	s.start()
	require.Empty(t, s.reports)
}

func TestMessagesOfAnotherRunAreDropped(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 1}, nil
	}
	zombie := s.in.Parent
	zombie.First = "another"
	s.RegisterDelayedCallback(func() {
		s.SignalWorkflow(SigControl, contract.ShardControl{Parent: zombie, Sequence: 9, Stop: true})
	}, time.Second)
	alive := false
	s.RegisterDelayedCallback(func() { alive = !s.IsWorkflowCompleted() }, 2*time.Minute)
	s.stopAt(3 * time.Minute)
	s.start()
	require.True(t, alive)
}

func TestCarefulRunBeginsWithEverySlotCooling(t *testing.T) {
	s := newShardTest(t)
	s.in.Careful = true
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if has(in.Busy, 0) {
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
		}
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 1}, nil
	}
	s.stopAt(time.Minute)
	s.start()
	require.True(t, has(s.expands[0].Busy, 0) && has(s.expands[0].Busy, 4095))
	last := s.expands[len(s.expands)-1]
	require.False(t, has(last.Busy, 0))
	require.True(t, has(last.Careful, 77))
}

func TestShardGoesOnInANewRunWithNothingOpen(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.Number == 1 {
			return batchOf(1, 5), nil
		}
		return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		suggestNewRun(s.TestWorkflowEnvironment)
		s.SignalWorkflow(SigControl, contract.ShardControl{}) // foreign, but the loop turns
		s.turned()
		return contract.FetchResult{LongestDelay: time.Minute}, nil
	}
	s.ExecuteWorkflow(ShardType, s.in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, s.GetWorkflowError(), &next)
	var in contract.ShardInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))

	s = newShardTest(t)
	s.in = in
	s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
	}
	s.stopAt(30 * time.Second)
	s.start()
	require.Zero(t, s.acquired, "the owner is carried")
	require.Equal(t, int64(2), s.expands[0].Number)
	require.True(t, has(s.expands[0].Busy, 5), "the slot still cools")
	require.Greater(t, s.reports[0].Sequence, in.State.Reports)
}

func TestPausedShardDrainsAndDealsNothing(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
	}
	at := func(d time.Duration, sequence int64, paused bool) {
		s.RegisterDelayedCallback(func() {
			s.SignalWorkflow(SigControl, contract.ShardControl{Parent: s.in.Parent, Sequence: sequence, Paused: paused})
		}, d)
	}
	at(10*time.Second, 1, true)
	at(10*time.Minute, 2, false)
	var before, meanwhile int
	s.RegisterDelayedCallback(func() { before = len(s.expands) }, 11*time.Second)
	s.RegisterDelayedCallback(func() { meanwhile = len(s.expands) - before }, 10*time.Minute-time.Second)
	s.stopAt(11 * time.Minute)
	s.start()
	require.Positive(t, before)
	require.Zero(t, meanwhile)
	require.Greater(t, len(s.expands), before, "it goes on when resumed")
	states := map[string]bool{}
	for _, r := range s.reports {
		states[r.State] = true
	}
	require.True(t, states[contract.ShardPaused])
}

func TestFailuresBackOffWhateverElseHappens(t *testing.T) {
	s := newShardTest(t)
	s.in.Careful = true // and then slots cool, whose end asks for an Expand
	s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{}, temporal.NewApplicationError("no broker", "x")
	}
	s.stopAt(10 * time.Minute)
	s.start()
	require.InDelta(t, 15, len(s.expands), 3, "1+2+4+8+16+32 s, then each minute")
	require.Contains(t, s.reports[3].Trouble, "no broker")
}

func TestFailedFetchesBackOffThoughExpandAnswers(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		r := batchOf(in.Number, int(in.Number))
		r.More = true
		return r, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		return contract.FetchResult{}, temporal.NewApplicationError("no broker", "x")
	}
	s.stopAt(10 * time.Minute)
	s.start()
	require.Less(t, len(s.fetches), 40)
}

func TestIdleShardAsksOnceAndThenWaitsInside(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 17}, nil
	}
	s.stopAt(20 * time.Second)
	s.start()
	require.False(t, s.expands[0].MayWait)
	for _, in := range s.expands[1:] {
		require.True(t, in.MayWait, "idle at 17 is reported")
		require.Equal(t, int64(17), in.WaitFrom)
	}
	require.LessOrEqual(t, len(s.expands), 12, "an owner that cannot wait is asked every two seconds")
}

func TestGrantChangeDropsTheExpandUnderWay(t *testing.T) {
	s := newShardTest(t)
	s.in.Control.Grant = contract.Grant{Number: 1, Total: 5}
	next := make(chan bool)
	dropped, once := false, sync.OnceFunc(func() { close(next) })
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		switch {
		case in.Grant.Number == 2:
			once()
		case in.MayWait: // it waits inside, for a longer log
			s.SignalWorkflow(SigControl, contract.ShardControl{Parent: s.in.Parent, Sequence: 5, Grant: contract.Grant{Number: 2, Total: 9}})
			select {
			case <-next:
				dropped = true
			case <-time.After(20 * time.Second):
			}
		}
		return contract.ExpandResult{Verdict: contract.VerdictStarved, End: 3}, nil
	}
	s.stopAt(10 * time.Second)
	s.start()
	require.True(t, dropped, "the next Expand did not wait for this one")
	require.Contains(t, s.starvedOf(), int64(1))
	require.Contains(t, s.starvedOf(), int64(2))
}

func TestShardStarvesOfAGrantOnlyOnceAnExpandHasSeenIt(t *testing.T) {
	s := newShardTest(t)
	s.in.Control.Grant = contract.Grant{Number: 1, Total: 5}
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.Grant.Number == 2 {
			return contract.ExpandResult{}, temporal.NewApplicationError("no broker", "x")
		}
		return contract.ExpandResult{Verdict: contract.VerdictStarved, End: 3}, nil
	}
	s.RegisterDelayedCallback(func() {
		s.SignalWorkflow(SigControl, contract.ShardControl{Parent: s.in.Parent, Sequence: 5, Grant: contract.Grant{Number: 2, Total: 9}})
	}, 5*time.Second)
	s.stopAt(2 * time.Minute)
	s.start()
	require.Contains(t, s.starvedOf(), int64(1))
	require.NotContains(t, s.starvedOf(), int64(2))
}

func TestShardThatIsMovedIsAcquiredAgain(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
		if len(s.expands) == 2 {
			return contract.ExpandResult{Verdict: contract.VerdictMove}, nil
		}
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 1, Totals: contract.Totals{Fetched: 5}}, nil
	}
	s.stopAt(10 * time.Second)
	s.start()
	require.Equal(t, 2, s.acquired)
	for _, r := range s.reports {
		require.False(t, r.State == contract.ShardIdle && r.Totals.Fetched == 0, "who moves a shard folds nothing")
	}
}

func TestBatchThatNobodyTookIsNoLoss(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.Number == 1 {
			return batchOf(1, 9), nil
		}
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 1}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		return contract.FetchResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}
	s.stopAt(20 * time.Second)
	s.start()
	last := s.expands[len(s.expands)-1]
	require.Empty(t, last.Lost)
	require.True(t, has(last.Careful, 9), "it may have been careful, and nobody waited")
	require.Contains(t, s.troubles(), "no worker took the batch")
}

func TestOpenBatchesAreBoundedAndTheirSlotsBusy(t *testing.T) {
	s := newShardTest(t)
	s.in.Control.Grant = contract.Grant{Number: 1, Total: 1000}
	full := make(chan bool)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		busy := 0
		for slot := range contract.MaxOpenBatches {
			if has(in.Busy, slot) {
				busy++
			}
		}
		if busy != in.OpenBatches || in.OpenLocators != int64(3*in.OpenBatches) {
			t.Errorf("%d batches open: %d slots busy, %d locators", in.OpenBatches, busy, in.OpenLocators)
		}
		if in.Number > contract.MaxOpenBatches {
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
		}
		r := batchOf(in.Number, int(in.Number-1))
		r.More = true
		return r, nil
	}
	var open int
	s.fetch = func(in contract.FetchInput) (contract.FetchResult, error) {
		s.Lock()
		if open++; open == contract.MaxOpenBatches {
			close(full)
		}
		s.Unlock()
		<-full
		s.SignalWorkflow(SigControl, contract.ShardControl{}) // foreign, but the loop turns
		s.turned()
		return contract.FetchResult{}, nil
	}
	s.stopAt(time.Minute)
	s.start()
	for _, in := range s.expands {
		require.Less(t, in.OpenBatches, contract.MaxOpenBatches)
	}
}

// Batches that come together are all opened, and the next number is after
// theirs.
func TestBatchesThatComeTogether(t *testing.T) {
	s := newShardTest(t)
	s.in.Control.Grant = contract.Grant{Number: 1, Total: 1000}
	asked := make(chan bool)
	var at time.Time
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		switch len(s.expands) {
		case 1: // the waits of the batches must not seem to begin now
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
		case 2:
			at = s.Now()
			r := batchOf(1, 0)
			r.Further, r.More = []contract.Batch{*batchOf(2, 1).Batch, *batchOf(3, 2).Batch}, true
			return r, nil
		case 3:
			require.EqualValues(t, 4, in.Number)
			require.Equal(t, 3, in.OpenBatches)
			require.EqualValues(t, 9, in.OpenLocators)
			for slot := range 3 {
				require.True(t, has(in.Busy, slot))
			}
			close(asked)
		}
		return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
	}
	var numbers []int64
	s.fetch = func(in contract.FetchInput) (contract.FetchResult, error) {
		s.Lock()
		numbers = append(numbers, in.Batch.Number)
		s.Unlock()
		require.WithinDuration(t, at, in.HoldsAt, 0, "when the shard asked")
		<-asked
		return contract.FetchResult{Number: in.Batch.Number}, nil
	}
	s.stopAt(time.Minute)
	s.start()
	require.ElementsMatch(t, []int64{1, 2, 3}, numbers)
}

func TestLostTailIsReportedEverAfter(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: int64(len(s.expands)), LostTail: len(s.expands) == 1}, nil
	}
	s.stopAt(10 * time.Second)
	s.start()
	require.True(t, s.reports[len(s.reports)-1].LostTail)
}

func TestCancelledShardDrainsAndEnds(t *testing.T) {
	s := newShardTest(t)
	s.expand = func(contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 1}, nil
	}
	s.RegisterDelayedCallback(s.CancelWorkflow, 5*time.Second)
	s.start()
	require.NotEqual(t, contract.ShardClosed, s.reports[len(s.reports)-1].State, "the parent did not ask for it")
}
