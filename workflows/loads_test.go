package workflows

import (
	"context"
	"encoding/json"
	"fmt"
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

// loadsTest runs a LoadsWorkflow over loaders that do what they are told.
type loadsTest struct {
	*testsuite.TestWorkflowEnvironment
	t         *testing.T
	in        contract.LoadsInput
	loaders   []contract.LoadWorkflowInput
	controls  map[int][]contract.LoadsControl
	cancelled []string // ids of loaders
	reports   []contract.LoadsReport
	gone      bool
	zombie    bool // told to drain, the loaders report for another run
	quitter   bool // the first loader of partition 1 ends without a word
	orders    int  // given so far
	rest      bool // loaders end at once; the test reports for them
}

func newLoadsTest(t *testing.T) *loadsTest {
	l := &loadsTest{
		TestWorkflowEnvironment: newEnvironment(), t: t,
		controls: map[int][]contract.LoadsControl{},
	}
	l.in = contract.LoadsInput{
		Run:    contract.Run{Crawl: "x", Generation: "g", Partitions: 3},
		Parent: contract.Parent{ID: CrawlID("x"), First: "f", Generation: "g"}, Queue: "data",
	}
	l.SetOnChildWorkflowCompletedListener(func(info *workflow.Info, _ converter.EncodedValue, err error) {
		if temporal.IsCanceledError(err) {
			l.cancelled = append(l.cancelled, info.WorkflowExecution.ID)
		}
	})
	l.RegisterWorkflowWithOptions(LoadsWorkflow, workflow.RegisterOptions{Name: LoadsType})
	l.RegisterWorkflowWithOptions(l.loader, workflow.RegisterOptions{Name: LoadType})
	l.OnSignalExternalWorkflow(mock.Anything, CrawlID("x"), "", SigLoads, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			if l.gone {
				return &temporal.UnknownExternalWorkflowExecutionError{}
			}
			l.reports = append(l.reports, arg.(contract.LoadsReport))
			return nil
		})
	return l
}

// loader plays a LoadWorkflow: told to drain, it says that it has.
func (l *loadsTest) loader(ctx workflow.Context, in contract.LoadWorkflowInput) error {
	l.loaders = append(l.loaders, in)
	if l.rest {
		return nil
	}
	if l.quitter && in.Partition == 1 && len(l.loaders) <= 3 {
		return nil
	}
	if in.Control.Drain {
		return l.drained(ctx, in, in.Control)
	}
	for {
		var control contract.LoadsControl
		workflow.GetSignalChannel(ctx, SigControl).Receive(ctx, &control)
		l.controls[in.Partition] = append(l.controls[in.Partition], control)
		if control.Drain && !l.zombie {
			return l.drained(ctx, in, control)
		}
		if control.Drain {
			r := contract.LoadReport{Parent: contract.Parent{First: "another run"}, Partition: in.Partition, Closed: true}
			if err := workflow.SignalExternalWorkflow(ctx, in.Parent.ID, "", SigReport, r).Get(ctx, nil); err != nil {
				return err
			}
		}
	}
}

// drained reports that a loader has closed at its end.
func (l *loadsTest) drained(ctx workflow.Context, in contract.LoadWorkflowInput, control contract.LoadsControl) error {
	end := control.Ends[in.Partition]
	return workflow.SignalExternalWorkflow(ctx, in.Parent.ID, "", SigReport, contract.LoadReport{
		Parent: in.Parent, Partition: in.Partition, Position: end,
		Ledger: contract.Ledger{Offsets: end, Loaded: end}, Closed: true,
	}).Get(ctx, nil)
}

func (l *loadsTest) tell(d time.Duration, c contract.LoadsControl) {
	l.RegisterDelayedCallback(func() { l.SignalWorkflow(SigControl, c) }, d)
}

func (l *loadsTest) drainAt(d time.Duration) {
	l.tell(d, contract.LoadsControl{Parent: l.in.Parent, Sequence: 9, Drain: true, Ends: []int64{5, 0, 7}})
}

func (l *loadsTest) start() {
	l.ExecuteWorkflow(LoadsType, l.in)
	require.True(l.t, l.IsWorkflowCompleted())
	require.NoError(l.t, l.GetWorkflowError())
}

func TestLoadersDrainAndTheSumIsReported(t *testing.T) {
	l := newLoadsTest(t)
	l.drainAt(time.Second)
	l.start()
	require.Len(t, l.loaders, 3)
	require.Equal(t, "data", l.loaders[2].Queue)
	last := l.reports[len(l.reports)-1]
	require.True(t, last.Closed)
	require.Equal(t, l.in.Parent, last.Parent)
	var sum contract.Ledger
	for p, r := range last.Partitions {
		require.Equal(t, p, r.Partition)
		sum = sum.Add(r.Ledger)
	}
	require.Equal(t, contract.Ledger{Offsets: 12, Loaded: 12}, sum)
	for _, r := range l.reports[:len(l.reports)-1] {
		require.False(t, r.Closed)
	}
}

func TestPauseReachesEveryLoader(t *testing.T) {
	l := newLoadsTest(t)
	l.tell(time.Second, contract.LoadsControl{Parent: l.in.Parent, Sequence: 1, Paused: true})
	l.tell(time.Minute, contract.LoadsControl{Parent: l.in.Parent, Sequence: 2})
	l.tell(time.Minute+time.Second, contract.LoadsControl{Parent: l.in.Parent, Sequence: 1, Paused: true}) // late
	l.drainAt(2 * time.Minute)
	l.start()
	for p := range 3 {
		require.Len(t, l.controls[p], 3)
		require.True(t, l.controls[p][0].Paused)
		require.False(t, l.controls[p][1].Paused)
		require.Equal(t, l.loaders[p].Parent, l.controls[p][0].Parent, "loaders obey the LoadsWorkflow, not the crawl")
	}
}

func TestLoadersBegunPausedArePaused(t *testing.T) {
	l := newLoadsTest(t)
	l.in.Paused = true
	l.drainAt(time.Second)
	l.start()
	require.True(t, l.loaders[0].Control.Paused)
}

func TestLoadersObeyTheirCrawlOnly(t *testing.T) {
	l := newLoadsTest(t)
	other := l.in.Parent
	other.First = "another run"
	l.tell(time.Second, contract.LoadsControl{Parent: other, Sequence: 50, Drain: true, Ends: []int64{0, 0, 0}})
	untold := false
	l.RegisterDelayedCallback(func() { untold = len(l.controls) == 0 }, time.Minute)
	l.drainAt(2 * time.Minute)
	l.start()
	require.True(t, untold)
}

func TestReportsOfForeignLoadersAreDropped(t *testing.T) {
	l := newLoadsTest(t)
	l.zombie = true
	l.drainAt(time.Second)
	alive := false
	l.RegisterDelayedCallback(func() { alive = !l.IsWorkflowCompleted(); l.CancelWorkflow() }, time.Minute)
	l.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, mock.Anything).Return(nil)
	l.start()
	require.True(t, alive)
}

func TestOrphanedLoadersAreCancelled(t *testing.T) {
	l := newLoadsTest(t)
	l.RegisterDelayedCallback(func() { l.gone = true }, time.Second)
	l.start()
	require.ElementsMatch(t, []string{LoadID("x", 0), LoadID("x", 1), LoadID("x", 2)}, l.cancelled)
}

func TestCancelledLoadersAreCancelled(t *testing.T) {
	l := newLoadsTest(t)
	l.RegisterDelayedCallback(l.CancelWorkflow, time.Second)
	l.start()
	require.Len(t, l.cancelled, 3)
}

func TestLoadersGoOnInANewRun(t *testing.T) {
	l := newLoadsTest(t)
	l.SetDetachedChildWait(false)
	l.RegisterDelayedCallback(func() {
		l.SetContinueAsNewSuggested(true)
		l.SignalWorkflow(SigReport, contract.LoadReport{Parent: l.loaders[1].Parent, Partition: 1, Position: 4})
	}, time.Second)
	l.ExecuteWorkflow(LoadsType, l.in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, l.GetWorkflowError(), &next)
	var in contract.LoadsInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, int64(4), in.Partitions[1].Position)

	self := l.loaders[1].Parent
	l = newLoadsTest(t)
	l.in = in
	l.RegisterDelayedCallback(func() {
		for p := range 3 {
			l.SignalWorkflow(SigReport, contract.LoadReport{Parent: self, Partition: p, Closed: true})
		}
	}, time.Second)
	l.start()
	require.Empty(t, l.loaders, "its loaders still run")
	require.True(t, l.reports[len(l.reports)-1].Closed)
}

func TestLoaderThatIsGoneIsStartedAgain(t *testing.T) {
	l := newLoadsTest(t)
	l.quitter = true
	l.drainAt(time.Minute)
	l.start()
	require.Len(t, l.loaders, 4)
	require.Equal(t, 1, l.loaders[3].Partition)
	require.True(t, l.loaders[3].Control.Drain, "it knows at once what the others were told")
	require.True(t, l.reports[len(l.reports)-1].Closed)
}

// TestLoaderThatIsGoneLeavesItsOrders to the one that is started in its place:
// what it had not reached is not in the copied position, perhaps.
func TestLoaderThatIsGoneLeavesItsOrders(t *testing.T) {
	l := newLoadsTest(t)
	l.quitter = true
	skips := []contract.Skip{{From: 30, Through: 30, Reason: "bad"}}
	l.RegisterDelayedCallback(func() {
		l.SignalWorkflow(SigReport, contract.LoadReport{Parent: l.loaders[0].Parent, Partition: 1, Position: 10, End: 20, State: "extract", Skips: skips})
	}, time.Second)
	l.drainAt(time.Minute)
	l.start()
	require.Len(t, l.loaders, 4)
	require.Equal(t, &contract.LoadReport{Partition: 1, Position: -1, End: -1, State: "extract", Skips: skips}, l.loaders[3].State)
}

// TestLoaderOfALoadThatIsGoneLeavesItsOrders, also where it has no position yet.
func TestLoaderOfALoadThatIsGoneLeavesItsOrders(t *testing.T) {
	for _, tt := range []struct {
		position int64
		skips    []contract.Skip
		state    bool
	}{{-1, nil, false}, {-1, []contract.Skip{{From: 30, Through: 30}}, true}, {5, nil, true}} {
		l := newLoadsTest(t)
		was := contract.LoadReport{Number: 0, Topic: "events", Position: tt.position, End: 40, State: "extract", Skips: tt.skips}
		l.in.Load, l.in.Partitions = json.RawMessage(`{}`), []contract.LoadReport{was}
		l.in.State = &contract.LoadsState{Known: []int{1}, Fixed: true, Parts: []contract.LoadPart{{Topic: "events", Until: 40}}}
		l.OnSignalExternalWorkflow(mock.Anything, LoadRootLoaderID("x", 0), "", SigControl, mock.Anything).
			Return(&temporal.UnknownExternalWorkflowExecutionError{})
		l.OnRequestCancelExternalWorkflow(mock.Anything, LoadRootLoaderID("x", 0), "").Return(nil).Maybe()
		l.rest = true
		l.RegisterDelayedCallback(l.CancelWorkflow, 2*silence)
		l.ExecuteWorkflow(LoadsType, l.in)
		require.NotEmpty(t, l.loaders)
		if !tt.state {
			require.Nil(t, l.loaders[0].State)
			continue
		}
		require.Equal(t, &was, l.loaders[0].State)
	}
}

// order sends an update; its error, of the validator or the handler, comes later.
func (l *loadsTest) order(name string, arg any, answer func(error)) {
	l.orders++
	l.UpdateWorkflow(name, fmt.Sprint("order-", l.orders), &testsuite.TestUpdateCallback{
		OnAccept: func() {}, OnReject: answer, OnComplete: func(_ any, err error) { answer(err) },
	}, arg)
}

// TestOrdersThatCannotBeObeyedSayThat: whoever gave them can tell them from
// trouble.
func TestOrdersThatCannotBeObeyedSayThat(t *testing.T) {
	l := newLoadsTest(t)
	l.SetDetachedChildWait(false)
	at := contract.LoadTarget{Partition: 1}
	refused := map[string]error{}
	refuse := func(why, name string, arg any) {
		l.order(name, arg, func(err error) { refused[why] = err })
	}
	l.RegisterDelayedCallback(func() {
		refuse("partition 7", UpSeek, contract.SeekLoad{LoadTarget: contract.LoadTarget{Partition: 7}, Reason: "r"})
		refuse("reason of 0 bytes", UpSeek, contract.SeekLoad{LoadTarget: at})
		refuse("offset -1", UpSkip, contract.SkipLoad{LoadTarget: at, Offset: -1, Reason: "r"})
		refuse("batch of 5 bytes", UpSetBatch, contract.Batching{Bytes: 5})
		refuse("rate of -1", UpSetRate, contract.LoadRate{Records: -1})
		l.SignalWorkflow(SigReport, contract.LoadReport{Parent: l.loaders[1].Parent, Partition: 1, Position: 4, Closed: true})
	}, time.Second)
	l.RegisterDelayedCallback(func() {
		refuse("starter crawl --name x", UpSeek, contract.SeekLoad{LoadTarget: at, Reason: "r"})
		refuse("is done, at offset 4", UpToErrors, contract.SkipLoad{LoadTarget: at, Offset: 9, Reason: "r"})
	}, 2*time.Second)
	l.drainAt(time.Minute)
	l.start()
	require.Len(t, refused, 7)
	for want, err := range refused {
		require.ErrorContains(t, err, want)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, want)
		require.Equal(t, ErrTypeRefused, app.Type(), want)
	}
}

// TestSeekOfADonePartitionStartsItsLoaderAgain, with a ledger of its own, while
// the load has others to load.
func TestSeekOfADonePartitionStartsItsLoaderAgain(t *testing.T) {
	l := newLoadsTest(t)
	l.in = contract.LoadsInput{Run: contract.Run{Crawl: "shop"}, Queue: "data", Load: json.RawMessage("{}")}
	part := func(p int) contract.LoadPart {
		return contract.LoadPart{Topic: "orders", Partition: p, Until: 10}
	}
	l.RegisterActivityWithOptions(func(context.Context, contract.PartitionsInput) (contract.PartitionsResult, error) {
		return contract.PartitionsResult{Parts: []contract.LoadPart{part(0), part(1)}, Known: []int{2}, Fixed: true, Queue: "data"}, nil
	}, activity.RegisterOptions{Name: ActPartitions})
	l.RegisterActivityWithOptions(func(context.Context, contract.ClearInput) error { return nil }, activity.RegisterOptions{Name: ActClear})
	tell := func(i int, r contract.LoadReport) {
		r.Parent, r.Number, r.Topic, r.Partition = l.loaders[0].Parent, i, "orders", i
		l.SignalWorkflow(SigReport, r)
	}
	first := contract.Ledger{Offsets: 10, Loaded: 10}
	l.rest = true
	l.RegisterDelayedCallback(func() { tell(0, contract.LoadReport{Position: 10, End: 10, Ledger: first, Closed: true}) }, time.Second)
	l.RegisterDelayedCallback(func() {
		orders := contract.LoadTarget{Topic: "orders"}
		l.order(UpSkip, contract.SkipLoad{LoadTarget: orders, Offset: 10, Reason: "r"}, func(err error) { require.ErrorContains(t, err, "starter load seek") })
		l.order(UpSeek, contract.SeekLoad{LoadTarget: orders, Offset: 4, Reason: "once more"}, func(err error) { require.NoError(t, err) })
	}, 2*time.Second)
	l.RegisterDelayedCallback(func() {
		tell(1, contract.LoadReport{Position: 10, Closed: true})
		require.False(t, l.IsWorkflowCompleted())
		tell(0, contract.LoadReport{Position: 10, Closed: true})
	}, 3*time.Second)
	l.start()
	require.Len(t, l.loaders, 3)
	again := l.loaders[2]
	require.Equal(t, int64(10), again.Control.Until)
	require.NotNil(t, again.State)
	require.Equal(t, int64(4), again.State.Position)
	require.Equal(t, int64(4), again.State.Start)
	require.Equal(t, first, again.State.Before)
	require.Equal(t, []string{"moved from offset 10 to 4: once more"}, again.State.Notes)
}
