package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// shardTest runs a ShardWorkflow; expand plays the owner, fetch any worker.
type shardTest struct {
	*testsuite.TestWorkflowEnvironment
	t        *testing.T
	in       contract.ShardInput
	acquired int
	expands  []contract.ExpandInput
	reports  []contract.ShardReport
	expand   func(in contract.ExpandInput) (contract.ExpandResult, error)
	fetch    func(in contract.FetchInput) (contract.FetchResult, error)
	gone     bool
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
		s.expands = append(s.expands, in)
		return s.expand(in)
	})
	reg(ActFetch, func(in contract.FetchInput) (contract.FetchResult, error) { return s.fetch(in) })
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
		return contract.ExpandResult{Verdict: contract.VerdictIdle, End: 17}, nil
	}
	s.fetch = func(contract.FetchInput) (contract.FetchResult, error) {
		return contract.FetchResult{LongestDelay: time.Second}, nil
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
		cooled = cooled || (in.OpenBatches == 0 && has(in.Busy, 5))
	}
	require.True(t, cooled, "the slot cools for the delay that was used")
}

func TestLostFetchMakesItsSlotsCoolAndCareful(t *testing.T) {
	s := newShardTest(t)
	var first time.Time
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		if in.Number == 1 && !has(in.Busy, 9) {
			first = s.Now()
			return batchOf(1, 9), nil
		}
		if has(in.Busy, 9) {
			return contract.ExpandResult{Verdict: contract.VerdictLater}, nil
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
	require.False(t, first.IsZero())
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
	stopped := false
	s.RegisterDelayedCallback(func() { stopped = s.IsWorkflowCompleted() }, 2*time.Minute)
	s.stopAt(3 * time.Minute)
	s.start()
	require.False(t, stopped)
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

func TestGrantChangeDropsTheExpandUnderWay(t *testing.T) {
	s := newShardTest(t)
	s.in.Control.Grant = contract.Grant{Number: 1, Total: 5}
	s.expand = func(in contract.ExpandInput) (contract.ExpandResult, error) {
		return contract.ExpandResult{Verdict: contract.VerdictStarved, End: 3}, nil
	}
	s.RegisterDelayedCallback(func() {
		s.SignalWorkflow(SigControl, contract.ShardControl{Parent: s.in.Parent, Sequence: 5, Grant: contract.Grant{Number: 2, Total: 9}})
	}, 5*time.Second)
	s.stopAt(10 * time.Second)
	s.start()
	var named []int64
	for _, r := range s.reports {
		if r.State == contract.ShardStarved {
			named = append(named, r.Grant)
		}
	}
	require.Contains(t, named, int64(1))
	require.Contains(t, named, int64(2))
}
