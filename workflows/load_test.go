package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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

// loadTest runs a LoadWorkflow; load plays the worker.
type loadTest struct {
	*testsuite.TestWorkflowEnvironment
	sync.Mutex // of slices: one that was cancelled may still run
	t          *testing.T
	in         contract.LoadWorkflowInput
	slices     []contract.LoadInput
	sliceAt    []time.Time
	load       func(in contract.LoadInput) (contract.LoadResult, error)
	reports    []contract.LoadReport
	answered   func(order int64) // is told each report
	gone       bool
}

func newLoadTest(t *testing.T) *loadTest {
	l := &loadTest{TestWorkflowEnvironment: newEnvironment(), t: t}
	l.in = contract.LoadWorkflowInput{
		Run: contract.Run{Crawl: "x", Generation: "g", Partitions: 2}, Partition: 1, Queue: "data",
		Parent: contract.Parent{ID: LoadsID("x"), First: "f", Generation: "g"},
	}
	l.in.Control.Parent = l.in.Parent
	l.load = l.loadTen
	l.RegisterWorkflowWithOptions(LoadWorkflow, workflow.RegisterOptions{Name: LoadType})
	l.RegisterActivityWithOptions(func(_ context.Context, in contract.LoadInput) (contract.LoadResult, error) {
		l.Lock()
		l.slices, l.sliceAt = append(l.slices, in), append(l.sliceAt, l.Now())
		spins := len(l.slices) > 500
		l.Unlock()
		if spins {
			panic("the loader spins")
		}
		return l.load(in)
	}, activity.RegisterOptions{Name: ActLoad})
	l.OnSignalExternalWorkflow(mock.Anything, LoadsID("x"), "", SigReport, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			if l.gone {
				return &temporal.UnknownExternalWorkflowExecutionError{}
			}
			r := arg.(contract.LoadReport)
			l.reports = append(l.reports, r)
			if l.answered != nil {
				l.answered(lastAnswer(r))
			}
			return nil
		})
	return l
}

// loadTen loads ten offsets, or what is left until the end.
func (l *loadTest) loadTen(in contract.LoadInput) (contract.LoadResult, error) {
	start := max(in.Position, 0)
	position := start + 10
	if in.Until >= 0 {
		position = min(position, in.Until)
	}
	n := position - start
	return contract.LoadResult{
		Start: start, Position: position, End: 100, State: "extract", Ledger: contract.Ledger{Offsets: n, Loaded: n}, Kept: true,
	}, nil
}

// idle is the answer of a slice in which nothing came.
func idleSlice(in contract.LoadInput) contract.LoadResult {
	return contract.LoadResult{Start: in.Position, Position: in.Position, End: in.Position, State: "extract"}
}

func (l *loadTest) tell(d time.Duration, c contract.LoadsControl) {
	l.RegisterDelayedCallback(func() { l.SignalWorkflow(SigControl, c) }, d)
}

func (l *loadTest) drain(d time.Duration, end int64) {
	l.tell(d, contract.LoadsControl{Parent: l.in.Parent, Sequence: 100, Drain: true, Ends: []int64{0, end}})
}

func (l *loadTest) start() {
	l.ExecuteWorkflow(LoadType, l.in)
	require.True(l.t, l.IsWorkflowCompleted())
	require.NoError(l.t, l.GetWorkflowError())
}

func (l *loadTest) last() contract.LoadReport { return l.reports[len(l.reports)-1] }

func TestLoaderDrainsExactlyToTheEnd(t *testing.T) {
	l := newLoadTest(t)
	l.in.Control = contract.LoadsControl{Parent: l.in.Parent, Drain: true, Ends: []int64{0, 25}}
	l.start()
	var positions []int64
	for _, in := range l.slices {
		require.Equal(t, int64(25), in.Until)
		positions = append(positions, in.Position)
	}
	require.Equal(t, []int64{-1, 10, 20}, positions, "each slice begins where the one before ended")
	require.Equal(t, contract.Ledger{Offsets: 10, Loaded: 10}, l.slices[1].Ledger, "the ledger of all before goes along")
	require.True(t, l.last().Closed)
	require.Equal(t, int64(25), l.last().Ledger.Loaded)
}

func TestLoaderOfAnEmptyPartitionClosesAtOnce(t *testing.T) {
	l := newLoadTest(t)
	l.in.Control = contract.LoadsControl{Parent: l.in.Parent, Drain: true, Ends: []int64{9, 0}}
	l.start()
	require.LessOrEqual(t, len(l.slices), 1)
	require.True(t, l.last().Closed)
	require.Zero(t, l.last().Ledger)
}

func TestLoaderTakesTheLedgerBeforeItsFirstSlice(t *testing.T) {
	l := newLoadTest(t)
	l.in.Control = contract.LoadsControl{Parent: l.in.Parent, Drain: true, Ends: []int64{0, 25}}
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		if in.Position < 0 { // the group remembers an earlier run
			in.Position = 7
			r, err := l.loadTen(in)
			r.Prior = contract.Ledger{Offsets: 7, Errors: 7}
			return r, err
		}
		return l.loadTen(in)
	}
	l.start()
	require.Equal(t, contract.Ledger{Offsets: 25, Loaded: 18, Errors: 7}, l.last().Ledger)
}

func TestPausedLoaderBeginsNoSlice(t *testing.T) {
	l := newLoadTest(t)
	l.in.Control.Paused = true
	l.tell(time.Hour, contract.LoadsControl{Parent: l.in.Parent, Sequence: 1})
	meanwhile := -1
	l.RegisterDelayedCallback(func() { meanwhile = len(l.slices) }, time.Hour-time.Second)
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		l.SignalWorkflow(SigControl, contract.LoadsControl{Parent: l.in.Parent, Sequence: 2, Drain: true, Ends: []int64{0, 20}})
		return l.loadTen(in)
	}
	l.start()
	require.Zero(t, meanwhile)
	require.Equal(t, "paused", l.reports[0].State)
	require.InDelta(t, 60, len(l.reports), 5, "while paused it looks for its parent each minute")
	require.Equal(t, int64(20), l.last().Position)
}

func TestLoaderInTroubleWaitsInATimer(t *testing.T) {
	l := newLoadTest(t)
	begun := l.Now()
	retry := contract.RetryState{State: "load", Class: 10, Attempts: 3, Error: "sink unavailable"}
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		if len(l.slices) == 1 {
			retry.NextTry = l.Now().Add(10 * time.Minute)
			r := idleSlice(in)
			r.State, r.Retry = "load", retry
			return r, nil
		}
		return l.loadTen(in)
	}
	for i := range 5 { // the crawl repeats its wish each minute
		l.tell(time.Duration(i+1)*time.Minute, contract.LoadsControl{
			Parent: l.in.Parent, Sequence: int64(i + 1), Drain: true, Ends: []int64{0, 10},
		})
	}
	l.start()
	require.Len(t, l.slices, 2)
	require.GreaterOrEqual(t, l.sliceAt[1].Sub(begun), 10*time.Minute, "a message does not cut the wait short")
	require.Equal(t, retry.Attempts, l.slices[1].Retry.Attempts, "the state of the retry is carried")
	require.Equal(t, "sink unavailable", l.reports[0].Retry.Error)
	require.Empty(t, l.last().Retry.Error)
}

func TestTroubleSaysSinceWhen(t *testing.T) {
	r := contract.LoadReport{Retry: contract.RetryState{State: "load", Class: 10, Attempts: 3, Error: "refused"}}
	require.Equal(t, "events[0]: in load, class 10, attempt 3: refused", troubleOf("events[0]", r))
	r.Retry.Since = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "events[0]: in load, class 10, attempt 3, since 2026-03-01T12:00:00Z: refused", troubleOf("events[0]", r))
}

func TestIdleLoaderWaitsLongerAndLonger(t *testing.T) {
	l := newLoadTest(t)
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		if len(l.slices) == 10 {
			l.SignalWorkflow(SigControl, contract.LoadsControl{Parent: l.in.Parent, Sequence: 1, Drain: true, Ends: []int64{0, 0}})
		}
		return idleSlice(contract.LoadInput{}), nil
	}
	l.start()
	require.Equal(t, loadIdleMin, l.slices[0].IdleWait)
	require.Equal(t, 2*loadIdleMin, l.slices[1].IdleWait)
	require.Equal(t, loadIdleMax, l.slices[9].IdleWait)
}

func TestDrainEndsTheSliceUnderWay(t *testing.T) {
	l := newLoadTest(t)
	next, dropped := make(chan bool), false
	var returned atomic.Bool
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		if in.Until >= 0 {
			dropped = !returned.Load()
			close(next)
			return l.loadTen(in)
		}
		l.SignalWorkflow(SigControl, contract.LoadsControl{Parent: l.in.Parent, Sequence: 1, Drain: true, Ends: []int64{0, 10}})
		select {
		case <-next:
		case <-time.After(20 * time.Second):
		}
		returned.Store(true)
		return idleSlice(in), nil
	}
	l.start()
	require.True(t, dropped, "it waited for pages that cannot come")
	require.Equal(t, int64(10), l.last().Position)
}

func TestOrphanedLoaderEnds(t *testing.T) {
	l := newLoadTest(t)
	l.gone = true
	l.start()
	require.Len(t, l.slices, 1)
}

func TestCancelledLoaderEnds(t *testing.T) {
	l := newLoadTest(t)
	l.in.Control.Paused = true
	l.RegisterDelayedCallback(l.CancelWorkflow, 10*time.Second)
	l.start()
	require.False(t, l.last().Closed, "it did not reach an end")
}

func TestLoaderObeysItsParentOnly(t *testing.T) {
	l := newLoadTest(t)
	l.in.Control.Paused = true
	other := l.in.Parent
	other.First = "another run"
	l.tell(time.Second, contract.LoadsControl{Parent: other, Sequence: 200, Drain: true, Ends: []int64{0, 0}})
	alive := false
	l.RegisterDelayedCallback(func() { alive = !l.IsWorkflowCompleted() && len(l.slices) == 0 }, time.Minute)
	l.drain(2*time.Minute, 10)
	l.start()
	require.True(t, alive)
}

func TestLoaderGoesOnInANewRun(t *testing.T) {
	l := newLoadTest(t)
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		suggestNewRun(l.TestWorkflowEnvironment)
		return l.loadTen(in)
	}
	l.ExecuteWorkflow(LoadType, l.in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, l.GetWorkflowError(), &next)
	var in contract.LoadWorkflowInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))

	l = newLoadTest(t)
	l.in = in
	l.in.Control.Drain, l.in.Control.Ends = true, []int64{0, 20}
	l.start()
	require.Equal(t, int64(10), l.slices[0].Position)
	require.Equal(t, int64(20), l.last().Ledger.Loaded)
}

// TestDeadSinkForAnHourCostsLittle: a loader of a sink that is away waits in
// timers; an hour of it is a few dozen activities and a bounded history.
func TestDeadSinkForAnHourCostsLittle(t *testing.T) {
	l := newLoadTest(t)
	begun := l.Now()
	bytes := 0
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		if in.Retry.Attempts > 0 && l.Now().Sub(begun) > time.Hour {
			r, err := l.loadTen(in)
			l.SignalWorkflow(SigControl, contract.LoadsControl{Parent: l.in.Parent, Sequence: 1, Drain: true, Ends: []int64{0, 10}})
			return r, err
		}
		r := idleSlice(in)
		r.Start, r.Position, r.State = max(in.Position, 0), max(in.Position, 0), "load"
		// As the machine does it: pauses grow to 90 s, half of them shorter.
		r.Retry = contract.RetryState{
			State: "load", Class: 10, Attempts: in.Retry.Attempts + 1, Error: strings.Repeat("x", 500),
			NextTry: l.Now().Add(min(300*time.Millisecond<<min(in.Retry.Attempts, 8), 45*time.Second)),
		}
		for _, v := range []any{in, r} {
			raw, err := json.Marshal(v)
			require.NoError(t, err)
			bytes += len(raw)
		}
		return r, nil
	}
	l.start()
	require.Less(t, len(l.slices), 100)
	require.Greater(t, len(l.slices), 40)
	require.Less(t, bytes, 300_000, "inputs and results in the history")
	require.Less(t, len(l.reports), 250)
	require.Equal(t, int64(10), l.last().Position)
	require.Zero(t, l.last().Retry.Attempts)
}

// TestOrdersKnowTheTrouble: what is left out bears the class that the loader is
// stuck on, if it is stuck there; orders of an earlier run still hold.
func TestOrdersKnowTheTrouble(t *testing.T) {
	for name, tt := range map[string]struct {
		retry contract.RetryState
		skip  contract.Skip
		want  int
	}{
		"alone":         {contract.RetryState{Class: 13, Alone: true, Offset: 4}, contract.Skip{From: 4, Through: 4}, 13},
		"another":       {contract.RetryState{Class: 13, Alone: true, Offset: 4}, contract.Skip{From: 5, Through: 9}, 0},
		"the sink":      {contract.RetryState{Class: 10}, contract.Skip{From: 0, Through: 2, ToErrors: true}, 10},
		"ahead of that": {contract.RetryState{Class: 10}, contract.Skip{From: 7, Through: 7, ToErrors: true}, 0},
	} {
		l := newLoadTest(t)
		l.in.Load, l.in.Topic, l.in.Number = json.RawMessage(`{}`), "events", 1
		var got []contract.Skip
		l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
			switch {
			case in.Position < 0:
				return contract.LoadResult{State: "extract", End: -1, PriorSkips: []contract.Skip{{From: 30, Through: 31, Reason: "old"}}, PriorMoved: "moved: why"}, nil
			case len(in.Skips) < 2:
				r := idleSlice(in)
				r.Retry = tt.retry
				r.Retry.State, r.Retry.Attempts, r.Retry.NextTry = "load", 3, l.Now().Add(time.Hour)
				return r, nil
			}
			got = in.Skips
			l.SignalWorkflow(SigControl, contract.LoadsControl{Parent: l.in.Parent, Sequence: 9, Drain: true, Until: 10})
			return l.loadTen(in)
		}
		o := contract.LoadOrder{Parent: l.in.Parent, Number: 1, Kind: contract.OrderSkip, Skip: tt.skip}
		if tt.skip.ToErrors {
			o.Kind = contract.OrderToErrors
		}
		o.Skip.ToErrors, o.Skip.By = false, "ann@here"
		l.RegisterDelayedCallback(func() { l.SignalWorkflow(SigOrder, o) }, time.Minute)
		l.start()
		want := tt.skip
		want.Class, want.By = tt.want, "ann@here"
		require.Equal(t, []contract.Skip{{From: 30, Through: 31, Reason: "old"}, want}, got, name)
		require.Equal(t, []string{"moved: why"}, l.last().Notes)
	}
}

// TestEndOfWhatHadNothingToRead is known all the same.
func TestEndOfWhatHadNothingToRead(t *testing.T) {
	for _, end := range []int64{0, 1000} {
		l := newLoadTest(t)
		l.in.Load, l.in.Topic, l.in.Number = json.RawMessage(`{}`), "events", 1
		l.in.Control.Drain, l.in.Control.Until = true, end
		l.load = func(contract.LoadInput) (contract.LoadResult, error) { // it was there before
			return contract.LoadResult{Start: end, Position: end, End: -1, State: "extract"}, nil
		}
		l.start()
		require.Len(t, l.slices, 1)
		require.True(t, l.last().Closed)
		require.Equal(t, end, l.last().End)
	}
}

// TestOrdersAreObeyedBetweenSlices: a loader that waits gets orders.
func TestOrdersAreObeyedBetweenSlices(t *testing.T) {
	l := newLoadTest(t)
	l.in.Load, l.in.Topic, l.in.Number = json.RawMessage(`{}`), "events", 1
	order := func(n int64, o contract.LoadOrder) {
		o.Parent, o.Number = l.in.Parent, n
		l.RegisterDelayedCallback(func() { l.SignalWorkflow(SigOrder, o) }, time.Duration(n)*time.Minute)
	}
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		if in.Position >= 10 && len(in.Skips) == 0 && in.Position < 40 { // the first slice is done: nothing more to read
			r := idleSlice(in)
			r.Resume = l.Now().Add(10 * time.Minute)
			return r, nil
		}
		if in.Position >= 40 {
			l.SignalWorkflow(SigControl, contract.LoadsControl{Parent: l.in.Parent, Sequence: 9, Drain: true, Until: 50})
		}
		return l.loadTen(in)
	}
	order(1, contract.LoadOrder{Kind: contract.OrderSkip, Skip: contract.Skip{From: 3, Through: 3, Reason: "late"}})
	order(2, contract.LoadOrder{Kind: contract.OrderSeek, Offset: 40, Skip: contract.Skip{Reason: "move"}})
	order(3, contract.LoadOrder{Kind: "dance"})
	l.start()
	last := l.last()
	require.Contains(t, last.Answers[0].Error, "offset 3 is done")
	require.Empty(t, last.Answers[1].Error)
	require.Equal(t, int64(40), last.Start)
	require.Equal(t, last.Position-last.Start, last.Ledger.Sub(last.Before).Offsets, "the present range has a ledger of its own")
	require.Equal(t, int64(50), last.Position)
}

// TestOrdersOutliveTheLoader: those that no slice has copied are kept before it
// ends, whatever ends it; those that one has are not kept twice.
func TestOrdersOutliveTheLoader(t *testing.T) {
	skip := contract.Skip{From: 30, Through: 30, Reason: "bad"}
	for name, tt := range map[string]struct {
		kept bool // by the slice that obeys
		end  func(l *loadTest)
		keep int
	}{
		"cancelled while paused": {end: func(l *loadTest) { l.RegisterDelayedCallback(l.CancelWorkflow, time.Hour) }, keep: 1},
		"drained while paused":   {end: func(l *loadTest) { l.drain(time.Hour, 10) }, keep: 1},
		"drained, not copied":    {end: func(l *loadTest) { l.drain(time.Hour, 20) }, keep: 1},
		"drained, copied":        {end: func(l *loadTest) { l.drain(time.Hour, 20) }, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoadTest(t)
			l.in.State = &contract.LoadReport{Partition: 1, Position: 10, End: 100, Ledger: contract.Ledger{Offsets: 10, Loaded: 10}}
			l.in.Control.Paused = true
			l.RegisterDelayedCallback(func() {
				l.SignalWorkflow(SigOrder, contract.LoadOrder{Parent: l.in.Parent, Number: 1, Kind: contract.OrderSkip, Skip: skip})
			}, time.Minute)
			var kept []contract.LoadInput
			l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
				if in.Keep {
					kept = append(kept, in)
					return contract.LoadResult{Start: in.Position, Position: in.Position, Kept: true}, nil
				}
				r, err := l.loadTen(in)
				r.Kept = tt.kept
				return r, err
			}
			tt.end(l)
			l.start()
			require.Len(t, kept, tt.keep)
			for _, in := range kept {
				require.Equal(t, []contract.Skip{skip}, in.Skips)
				require.Equal(t, l.last().Position, in.Position)
				require.Equal(t, l.last().Ledger, in.Ledger)
			}
		})
	}
}

// TestOrdersThatCannotBeKeptDoNotHoldTheLoader: it ends, and says so.
func TestOrdersThatCannotBeKeptDoNotHoldTheLoader(t *testing.T) {
	l := newLoadTest(t)
	l.in.State = &contract.LoadReport{Partition: 1, Position: 10, Skips: []contract.Skip{{From: 30, Through: 30, Reason: "bad"}}}
	l.in.Control = contract.LoadsControl{Parent: l.in.Parent, Drain: true, Ends: []int64{0, 10}}
	l.load = func(contract.LoadInput) (contract.LoadResult, error) {
		return contract.LoadResult{}, errors.New("no coordinator")
	}
	began := l.Now()
	l.start()
	require.LessOrEqual(t, l.Now().Sub(began), 2*keepTotal)
	require.True(t, l.last().Closed)
	require.Contains(t, l.last().Notes[0], "offset 10 and the orders ahead of it are not kept for the next run: ")
}

// TestOrdersThatAnOldWorkerDoesNotKeepAreNoted: it takes keeping for a slice.
func TestOrdersThatAnOldWorkerDoesNotKeepAreNoted(t *testing.T) {
	l := newLoadTest(t)
	l.in.State = &contract.LoadReport{Partition: 1, Position: 10, Skips: []contract.Skip{{From: 30, Through: 30, Reason: "bad"}}}
	l.in.Control = contract.LoadsControl{Parent: l.in.Parent, Drain: true, Ends: []int64{0, 10}}
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) { return idleSlice(in), nil }
	l.start()
	require.Contains(t, l.last().Notes[0], "an earlier version")
}

// TestMovesOutliveTheLoader: a run that begins where somebody moved it to, and
// ends before a slice, keeps that.
func TestMovesOutliveTheLoader(t *testing.T) {
	done := contract.Ledger{Offsets: 100, Loaded: 100}
	l := newLoadTest(t)
	l.in.Load, l.in.Topic, l.in.Number = json.RawMessage(`{}`), "events", 1
	l.in.State = &contract.LoadReport{Partition: 1, Position: 10, Start: 10, End: 100, State: "extract", Before: done, Ledger: done}
	l.in.Control.Paused = true
	var kept []int64
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		require.True(t, in.Keep)
		kept = append(kept, in.Position)
		return contract.LoadResult{Start: in.Position, Position: in.Position, Kept: true}, nil
	}
	l.RegisterDelayedCallback(l.CancelWorkflow, time.Hour)
	l.start()
	require.Equal(t, []int64{10}, kept)
}

// TestMovedBeforeItsFirstSlice: what the run before left, its ledger and the orders
// ahead, is asked for first.
func TestMovedBeforeItsFirstSlice(t *testing.T) {
	l := newLoadTest(t)
	l.in.Control.Paused = true
	l.RegisterDelayedCallback(func() {
		l.SignalWorkflow(SigOrder, contract.LoadOrder{Parent: l.in.Parent, Number: 1, Kind: contract.OrderSeek, Offset: 40, Skip: contract.Skip{Reason: "again"}})
	}, time.Minute)
	l.tell(2*time.Minute, contract.LoadsControl{Parent: l.in.Parent, Sequence: 5})
	skip := contract.Skip{From: 70, Through: 70}
	var slices []contract.LoadInput
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		if in.Keep && in.Position < 0 {
			return contract.LoadResult{
				Start: 50, Position: 50, End: -1, State: "extract", Prior: contract.Ledger{Offsets: 50, Loaded: 50}, PriorSkips: []contract.Skip{skip}, Kept: true,
			}, nil
		}
		slices = append(slices, in)
		return l.loadTen(in)
	}
	l.drain(time.Hour, 100)
	l.start()
	require.Equal(t, int64(40), slices[0].Position)
	require.Equal(t, []contract.Skip{skip}, slices[0].Skips)
	require.Equal(t, int64(50), l.last().Before.Offsets)
	require.Equal(t, 50+l.last().Position-40, l.last().Ledger.Offsets, "of both ranges")
	require.Equal(t, []contract.LoadAnswer{{Number: 1}}, l.last().Answers)
}

// TestOrdersThatComeBeforeTheNextRunAreNotLost: a signal that no run has read ends
// with its run.
func TestOrdersThatComeBeforeTheNextRunAreNotLost(t *testing.T) {
	l := newLoadTest(t)
	order := func(n int64) {
		l.SignalWorkflow(SigOrder, contract.LoadOrder{Parent: l.in.Parent, Number: n, Kind: contract.OrderSkip, Skip: contract.Skip{From: 30 + n, Through: 30 + n}})
	}
	l.answered = func(n int64) {
		if n == 1 {
			order(2)
		}
	}
	l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
		order(1)
		suggestNewRun(l.TestWorkflowEnvironment)
		return l.loadTen(in)
	}
	l.ExecuteWorkflow(LoadType, l.in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, l.GetWorkflowError(), &next)
	var in contract.LoadWorkflowInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Len(t, in.State.Skips, 2)
	require.Len(t, in.State.Answers, 2)
}

// What an operator reads in the Web UI: the trouble first, as the server said
// it, and a ledger without noise.
func TestLoadDetails(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	r := contract.LoadReport{
		State: "load", Position: 140, End: 999, Ledger: contract.Ledger{Offsets: 140, Loaded: 138, Errors: 2},
		Retry: contract.RetryState{State: "load", Class: 10, Attempts: 7, Since: at, NextTry: at.Add(time.Minute), Error: "Post \"http://h/_bulk\":\n`refused`"},
	}
	want := "**events[0]**: load, **class 10**, attempt 7\n\n`Post \"http://h/_bulk\": 'refused'`\n\n" +
		"- waits since 2026-03-04T05:06:07Z\n- next try 2026-03-04T05:07:07Z\n" +
		"- position 140 of 999, 859 to go, 0.0 documents/s\n- ledger: 140 offsets = 138 loaded + 2 in errors"
	if got := details("events[0]", r); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	r.State, r.Retry, r.Notes = "extract", contract.RetryState{}, []string{"a note"}
	r.Ledger.Loaded--
	want = "**events[0]**: extract\n\n- position 140 of 999, 859 to go, 0.0 documents/s\n" +
		"- ledger: 140 offsets = 137 loaded + 2 in errors + 1 NOT ACCOUNTED FOR\n- a note"
	if got := details("events[0]", r); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestLoaderThatIsMoved: a slice that began elsewhere, because its offset was
// kept with others, begins a range there, also where a run begins.
func TestLoaderThatIsMoved(t *testing.T) {
	for _, begun := range []bool{false, true} {
		l := newLoadTest(t)
		prior := contract.Ledger{Offsets: 40, Loaded: 40}
		if begun {
			l.in.State = &contract.LoadReport{Parent: l.in.Parent, Partition: 1, Position: 15, Start: 15, Ledger: prior, Before: prior}
		}
		l.in.Control = contract.LoadsControl{Parent: l.in.Parent, Drain: true, Ends: []int64{0, 50}}
		l.load = func(in contract.LoadInput) (contract.LoadResult, error) {
			if len(l.slices) > 1 {
				return l.loadTen(in)
			}
			r := contract.LoadResult{Start: 10, Position: 30, End: 50, State: "extract", Ledger: contract.Ledger{Offsets: 20, Loaded: 20}, Moved: "kept already", Kept: true}
			if !begun {
				r.Prior, r.PriorStart, r.PriorBefore = prior, 15, prior
			}
			return r, nil
		}
		l.start()
		last := l.last()
		require.Equal(t, int64(10), last.Start)
		require.Equal(t, prior, last.Before)
		require.Equal(t, last.Position-last.Start, last.Ledger.Sub(last.Before).Offsets)
		require.Equal(t, []string{"kept already"}, last.Notes)
	}
}
