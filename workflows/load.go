package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// LoadWorkflow owns the position and the ledger of one loader. It runs Load in
// time-boxed slices and ends at the drain's end, or when its parent is gone.
func LoadWorkflow(ctx workflow.Context, in contract.LoadWorkflowInput) error {
	root, _ := workflow.NewDisconnectedContext(ctx)
	l := newLoad(root, in)
	if err := workflow.SetQueryHandler(root, QryStatus, func() (contract.LoadReport, error) { return l.st, nil }); err != nil {
		return err
	}
	for {
		l.receive(root)
		switch {
		case ctx.Err() != nil || l.orphan:
			return nil
		case l.drained():
			l.st.Closed = true
			l.report(root)
			return nil
		case workflow.GetInfo(root).GetContinueAsNewSuggested():
			in.Control, in.State = l.control, &l.st
			return workflow.NewContinueAsNewError(ctx, LoadType, in)
		case l.control.Paused:
			l.st.State = "paused"
			l.report(root)
			l.sleep(root, ctx.Done(), reportQuiet)
		case l.wait(root) > 0:
			l.report(root)
			l.sleep(root, ctx.Done(), min(l.wait(root), reportQuiet))
		default:
			l.slice(root, ctx.Done())
		}
	}
}

type load struct {
	in       contract.LoadWorkflowInput
	control  contract.LoadsControl
	controls workflow.ReceiveChannel
	st       contract.LoadReport
	idle     time.Duration
	orphan   bool
	told     contract.LoadReport
	toldAt   time.Time
}

func newLoad(ctx workflow.Context, in contract.LoadWorkflowInput) *load {
	l := &load{
		in: in, control: in.Control, idle: loadIdleMin, controls: workflow.GetSignalChannel(ctx, SigControl),
		st: contract.LoadReport{Parent: in.Parent, Partition: in.Partition, Position: -1, End: -1, State: "extract"},
	}
	if in.State != nil {
		l.st = *in.State
	}
	return l
}

func (l *load) receive(workflow.Context) {
	for {
		var c contract.LoadsControl
		if !l.controls.ReceiveAsync(&c) {
			return
		}
		if c.Parent == l.in.Parent && c.Sequence > l.control.Sequence {
			l.control = c
		}
	}
}

func (l *load) until() int64 {
	if !l.control.Drain || l.in.Partition >= len(l.control.Ends) {
		return -1
	}
	return l.control.Ends[l.in.Partition]
}

func (l *load) drained() bool {
	end := l.until()
	return end >= 0 && l.st.Position >= end
}

// slice runs one Load and takes its position: the position is decided here.
func (l *load) slice(ctx workflow.Context, cancelled workflow.Channel) {
	actx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	summary := fmt.Sprintf("partition %d from %d", l.in.Partition, l.st.Position)
	actx = workflow.WithActivityOptions(actx, loadOptions(l.in.Queue, summary))
	future := workflow.ExecuteActivity(actx, ActLoad, contract.LoadInput{
		Run: l.in.Run, Partition: l.in.Partition, Position: l.st.Position, TimeBox: loadSlice,
		IdleWait: l.idle, Until: l.until(), Retry: l.st.Retry, Ledger: l.st.Ledger,
	})
	for !future.IsReady() {
		sel := workflow.NewSelector(ctx)
		sel.AddFuture(future, func(workflow.Future) {})
		sel.AddReceive(l.controls, func(workflow.ReceiveChannel, bool) {})
		if !l.orphan {
			sel.AddReceive(cancelled, func(workflow.ReceiveChannel, bool) { l.orphan = true; cancel() })
		}
		sel.Select(ctx)
		before := l.control
		l.receive(ctx)
		if (l.control.Paused && !before.Paused) || (l.control.Drain && !before.Drain) {
			cancel() // it answers with what it did; the next slice knows the new wish
		}
	}
	var r contract.LoadResult
	if err := future.Get(ctx, &r); err != nil {
		if !temporal.IsCanceledError(err) {
			l.st.Retry.Error = rootCause(err)
			l.report(ctx)
			l.sleep(ctx, cancelled, 5*minBackoff)
		}
		return
	}
	l.take(r)
	l.report(ctx)
}

func (l *load) take(r contract.LoadResult) {
	if l.st.Position < 0 {
		l.st.Ledger = r.Prior
	}
	if r.Ledger.Offsets > 0 {
		l.idle = loadIdleMin
	} else {
		l.idle = min(2*l.idle, loadIdleMax)
	}
	l.st.Position, l.st.End, l.st.State, l.st.Retry = r.Position, r.End, r.State, r.Retry
	l.st.Ledger = l.st.Ledger.Add(r.Ledger)
}

// wait is how long a loader in trouble has to wait for its next try. It waits
// in a workflow timer, and goes on waiting when a message came.
func (l *load) wait(ctx workflow.Context) time.Duration {
	if l.st.Retry.NextTry.IsZero() {
		return 0
	}
	return l.st.Retry.NextTry.Sub(workflow.Now(ctx))
}

// report tells the parent what changed, and each minute that we are alive.
func (l *load) report(ctx workflow.Context) {
	now := workflow.Now(ctx)
	same := l.st.State == l.told.State && l.st.Closed == l.told.Closed &&
		l.st.Retry.Class == l.told.Retry.Class && l.st.Ledger == l.told.Ledger && l.st.Position == l.told.Position
	if same && now.Sub(l.toldAt) < reportQuiet {
		return
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**partition %d**: %s at %d of %d; %d loaded, %d in errors",
		l.in.Partition, l.st.State, l.st.Position, l.st.End, l.st.Ledger.Loaded, l.st.Ledger.Errors))
	err := workflow.SignalExternalWorkflow(ctx, l.in.Parent.ID, "", SigReport, l.st).Get(ctx, nil)
	var gone *temporal.UnknownExternalWorkflowExecutionError
	if errors.As(err, &gone) {
		l.orphan = true
	}
	if err == nil {
		l.told, l.toldAt = l.st, now
	}
}

// sleep waits for a message, a cancellation, or until the time is over.
func (l *load) sleep(ctx workflow.Context, cancelled workflow.Channel, d time.Duration) {
	tctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	sel := workflow.NewSelector(ctx)
	sel.AddFuture(workflow.NewTimer(tctx, d), func(workflow.Future) {})
	sel.AddReceive(l.controls, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(cancelled, func(workflow.ReceiveChannel, bool) { l.orphan = true })
	sel.Select(ctx)
}
