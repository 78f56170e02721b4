package workflows

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// redriveTest runs a RedriveWorkflow; slice plays the worker.
type redriveTest struct {
	*testsuite.TestWorkflowEnvironment
	sync.Mutex // of slices: one that was cancelled may still run
	t          *testing.T
	in         contract.RedriveInput
	plan       contract.RedrivePlan
	planErr    error
	plans      int
	slices     []contract.RedriveSliceInput
	sliceAt    []time.Time
	slice      func(ctx context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error)
}

func newRedriveTest(t *testing.T) *redriveTest {
	r := &redriveTest{TestWorkflowEnvironment: newEnvironment(), t: t}
	r.in = contract.RedriveInput{Name: "x", Run: contract.Run{Crawl: "x", Generation: "g"}, Select: contract.RedriveSelect{All: true, Most: 3}, Rate: 7}
	r.plan = contract.RedrivePlan{Topic: "e", Starts: []int64{5, 0, 0}, Ends: []int64{25, 0, 7}, Queue: "data", Selected: 20, Refused: 1}
	r.slice = func(_ context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
		return tenOf(in), nil
	}
	r.RegisterWorkflowWithOptions(RedriveWorkflow, workflow.RegisterOptions{Name: RedriveType})
	r.RegisterActivityWithOptions(func(context.Context, contract.RedrivePlanInput) (contract.RedrivePlan, error) {
		r.plans++
		return r.plan, r.planErr
	}, activity.RegisterOptions{Name: ActRedrivePlan})
	r.RegisterActivityWithOptions(func(ctx context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
		r.Lock()
		r.slices, r.sliceAt = append(r.slices, in), append(r.sliceAt, r.Now())
		spins := len(r.slices) > 100
		r.Unlock()
		if spins {
			panic("the redrive spins")
		}
		return r.slice(ctx, in)
	}, activity.RegisterOptions{Name: ActRedrive})
	return r
}

// tenOf goes on by ten offsets, half of them failures that are loaded.
func tenOf(in contract.RedriveSliceInput) contract.RedriveSlice {
	position := min(in.Position+10, in.End)
	n := (position - in.Position) / 2
	return contract.RedriveSlice{Position: position, State: "extract", Counts: contract.RedriveCounts{Taken: n, Loaded: n}}
}

func (r *redriveTest) run() contract.RedriveStatus {
	r.t.Helper()
	r.ExecuteWorkflow(RedriveType, r.in)
	require.True(r.t, r.IsWorkflowCompleted())
	require.NoError(r.t, r.GetWorkflowError())
	var st contract.RedriveStatus
	require.NoError(r.t, r.GetWorkflowResult(&st))
	return st
}

func (r *redriveTest) status() contract.RedriveStatus {
	r.t.Helper()
	v, err := r.QueryWorkflow(QryStatus)
	require.NoError(r.t, err)
	var st contract.RedriveStatus
	require.NoError(r.t, v.Get(&st))
	return st
}

func (r *redriveTest) update(d time.Duration, name string, done func(err error)) {
	r.RegisterDelayedCallback(func() {
		r.UpdateWorkflow(name, name, &testsuite.TestUpdateCallback{
			OnReject: done, OnAccept: func() {}, OnComplete: func(_ any, err error) { done(err) },
		})
	}, d)
}

func TestRedriveReadsEachPartitionToItsEnd(t *testing.T) {
	r := newRedriveTest(t)
	st := r.run()
	type at struct {
		partition int
		position  int64
		end       int64
	}
	var got []at
	for _, in := range r.slices {
		got = append(got, at{in.Partition, in.Position, in.End})
		require.Equal(t, "e", in.Topic)
		require.InDelta(t, 7, in.Rate, 0)
		require.Equal(t, r.in.Select, in.Select)
	}
	require.Equal(t, []at{{0, 5, 25}, {0, 15, 25}, {2, 0, 7}}, got)
	require.Equal(t, contract.RedriveCompleted, st.State)
	require.Equal(t, contract.RedriveCounts{Taken: 13, Loaded: 13}, st.Counts)
	require.Zero(t, st.Left)
	require.False(t, st.Ended.IsZero())
}

func TestRedriveOfNothingCompletes(t *testing.T) {
	r := newRedriveTest(t)
	r.plan.Starts, r.plan.Ends, r.plan.Selected = nil, nil, 0
	require.Equal(t, contract.RedriveCompleted, r.run().State)
	require.Empty(t, r.slices)
}

func TestRedriveWaitsForItsNextTry(t *testing.T) {
	r := newRedriveTest(t)
	r.slice = func(_ context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
		if len(r.slices) == 1 {
			return contract.RedriveSlice{Position: in.Position, State: "load", Retry: contract.RetryState{
				State: "load", Class: 10, Attempts: 4, NextTry: r.Now().Add(time.Minute), Error: "nobody listens",
			}}, nil
		}
		return tenOf(in), nil
	}
	r.RegisterDelayedCallback(func() {
		st := r.status()
		require.Equal(t, contract.RedriveWaiting, st.State)
		require.Equal(t, "nobody listens", st.Retry.Error)
		require.Equal(t, int64(20), st.Left)
	}, 30*time.Second)
	r.run()
	require.GreaterOrEqual(t, r.sliceAt[1].Sub(r.sliceAt[0]), time.Minute)
	require.Equal(t, 4, r.slices[1].Retry.Attempts)
	require.Zero(t, r.slices[2].Retry.Attempts)
}

func TestRedrivePausesAndResumes(t *testing.T) {
	r := newRedriveTest(t)
	paused := make(chan struct{})
	fine := &testsuite.TestUpdateCallback{
		OnReject: func(err error) { t.Error(err) }, OnAccept: func() {}, OnComplete: func(_ any, err error) { require.NoError(t, err) },
	}
	r.slice = func(_ context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
		r.Lock()
		first := len(r.slices) == 1
		r.Unlock()
		if !first {
			return tenOf(in), nil
		}
		r.RegisterDelayedCallback(func() { r.UpdateWorkflow(UpPause, "1", fine); close(paused) }, 0)
		<-paused
		return tenOf(in), nil // the test environment drops what a cancelled activity answers
	}
	r.RegisterDelayedCallback(func() {
		require.Equal(t, contract.RedrivePaused, r.status().State)
		require.Len(t, r.slices, 1)
		r.UpdateWorkflow(UpResume, "2", fine)
	}, 20*time.Minute)
	require.Equal(t, int64(13), r.run().Counts.Loaded)
	require.GreaterOrEqual(t, r.sliceAt[1].Sub(r.sliceAt[0]), 19*time.Minute)
	require.Equal(t, int64(5), r.slices[1].Position)
}

func TestRedriveIsCancelledInOrder(t *testing.T) {
	r := newRedriveTest(t)
	cancelling := make(chan struct{})
	r.slice = func(_ context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
		if in.Position == 5 {
			return tenOf(in), nil
		}
		r.RegisterDelayedCallback(func() { r.CancelWorkflow(); close(cancelling) }, 0)
		<-cancelling
		return tenOf(in), nil // dropped, see above
	}
	r.ExecuteWorkflow(RedriveType, r.in)
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, r.GetWorkflowError(), &cancelled)
	var st *contract.RedriveStatus
	require.NoError(t, cancelled.Details(&st))
	require.Equal(t, contract.RedriveCancelled, st.State)
	require.Equal(t, contract.RedriveCounts{Taken: 5, Loaded: 5}, st.Counts)
	require.Equal(t, int64(15), st.Left)
	require.Len(t, r.slices, 2)
}

func TestRedriveIsCancelledWhilePaused(t *testing.T) {
	r := newRedriveTest(t)
	r.slice = func(_ context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
		return contract.RedriveSlice{Position: in.Position, Retry: contract.RetryState{NextTry: r.Now().Add(time.Hour)}}, nil
	}
	r.update(time.Minute, UpPause, func(err error) { require.NoError(t, err) })
	r.RegisterDelayedCallback(r.CancelWorkflow, 2*time.Hour)
	r.ExecuteWorkflow(RedriveType, r.in)
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, r.GetWorkflowError(), &cancelled)
	require.Len(t, r.slices, 1)
}

func TestRedriveFailsForGoodOnly(t *testing.T) {
	r := newRedriveTest(t)
	r.planErr = temporal.NewNonRetryableApplicationError("the spec is not readable", ErrTypeBadSpec, nil)
	r.ExecuteWorkflow(RedriveType, r.in)
	require.ErrorContains(t, r.GetWorkflowError(), "not readable")
	require.Equal(t, 1, r.plans)

	r = newRedriveTest(t)
	tries := 0
	r.slice = func(_ context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
		if tries++; tries < 4 {
			return contract.RedriveSlice{}, temporal.NewApplicationError("Kafka is away", "any")
		}
		return tenOf(in), nil
	}
	require.Equal(t, int64(13), r.run().Counts.Loaded)
}

// A worker that dies while its slice is being cancelled leaves a time-out that
// the server does not try again.
func TestRedriveSurvivesALostSlice(t *testing.T) {
	r := newRedriveTest(t)
	lost := false
	r.slice = func(_ context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
		if !lost {
			lost = true
			return contract.RedriveSlice{}, temporal.NewHeartbeatTimeoutError()
		}
		return tenOf(in), nil
	}
	require.Equal(t, int64(13), r.run().Counts.Loaded)
	require.Equal(t, int64(5), r.slices[1].Position)
}

func TestRedriveGoesOnInANewRun(t *testing.T) {
	r := newRedriveTest(t)
	r.SetContinueAsNewSuggested(true)
	r.ExecuteWorkflow(RedriveType, r.in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, r.GetWorkflowError(), &next)
	var in contract.RedriveInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, r.plan, in.State.Plan)
	require.Equal(t, int64(5), in.State.Status.Position)

	second := newRedriveTest(t)
	in.State.Status.Position, in.State.Status.Counts = 15, contract.RedriveCounts{Taken: 5, Loaded: 5}
	second.in = in
	st := second.run()
	require.Zero(t, second.plans, "the plan goes along")
	require.Equal(t, int64(13), st.Counts.Loaded)
	require.Equal(t, int64(15), second.slices[0].Position)
}

func TestRedriveIDs(t *testing.T) {
	require.Equal(t, "redrive/x/12", RedriveID("x", 12))
	for id, want := range map[string]int{"redrive/x/12": 12, "redrive/x/0": 0, "redrive/y/1": 0, "redrive/x/a": 0, "redrive/x/": 0, "load/x": 0} {
		n, ok := RedriveNumber("x", id)
		require.Equal(t, want > 0, ok, id)
		if ok {
			require.Equal(t, want, n)
		}
	}
}
