package workflows

import (
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// LoadsWorkflow owns the loaders of a source: one child per partition. It
// passes on the wishes of the crawl and sums up the reports. It ends when every
// loader has closed after a drain, or when its parent is gone.
func LoadsWorkflow(ctx workflow.Context, in contract.LoadsInput) error {
	root, _ := workflow.NewDisconnectedContext(ctx)
	l := &loads{in: in, parts: in.Partitions, first: workflow.GetInfo(ctx).FirstRunID}
	l.controls = workflow.GetSignalChannel(root, SigControl)
	l.reports = workflow.GetSignalChannel(root, SigReport)
	if err := workflow.SetQueryHandler(root, QryStatus, func() (contract.LoadsReport, error) { return l.sum(), nil }); err != nil {
		return err
	}
	if l.parts == nil {
		if err := l.start(root); err != nil {
			return err
		}
	}
	for {
		l.receive(root)
		switch {
		case ctx.Err() != nil || l.orphan:
			l.stopChildren(root)
			return nil
		case l.closed():
			l.tell(root, true)
			return nil
		case workflow.GetInfo(root).GetContinueAsNewSuggested():
			in.Partitions, in.Paused = l.parts, l.control.Paused
			return workflow.NewContinueAsNewError(ctx, LoadsType, in)
		}
		l.tell(root, false)
		l.wait(root, ctx.Done())
	}
}

type loads struct {
	in       contract.LoadsInput
	first    string
	control  contract.LoadsControl
	parts    []contract.LoadReport
	controls workflow.ReceiveChannel
	reports  workflow.ReceiveChannel
	orphan   bool
	changed  bool
	alarm    alarm
	toldAt   time.Time
}

func (l *loads) self(ctx workflow.Context) contract.Parent {
	return contract.Parent{ID: workflow.GetInfo(ctx).WorkflowExecution.ID, First: l.first, Generation: l.in.Run.Generation}
}

func (l *loads) start(ctx workflow.Context) error {
	l.parts = make([]contract.LoadReport, l.in.Run.Partitions)
	for p := range l.parts {
		l.parts[p] = contract.LoadReport{Partition: p, Position: -1, End: -1, State: "extract"}
		control := contract.LoadsControl{Parent: l.self(ctx), Paused: l.in.Paused}
		if err := l.startOne(ctx, p, control); err != nil {
			return err
		}
	}
	return nil
}

func (l *loads) startOne(ctx workflow.Context, p int, control contract.LoadsControl) error {
	cctx := workflow.WithChildOptions(ctx, childOptions(LoadID(l.in.Run.Crawl, p), fmt.Sprintf("loader of partition %d", p)))
	return workflow.ExecuteChildWorkflow(cctx, LoadType, contract.LoadWorkflowInput{
		Run: l.in.Run, Partition: p, Parent: l.self(ctx), Queue: l.in.Queue, Control: control,
	}).GetChildWorkflowExecution().Get(ctx, nil)
}

// childOptions suit every child: it outlives a continue-as-new of its parent,
// and closes by itself when the parent is gone.
func childOptions(id, summary string) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID: id, TaskQueue: QueueMain, ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary: summary,
	}
}

func (l *loads) receive(ctx workflow.Context) {
	for {
		var c contract.LoadsControl
		if !l.controls.ReceiveAsync(&c) {
			break
		}
		if c.Parent == l.in.Parent && c.Sequence > l.control.Sequence {
			l.control = c
			l.passOn(ctx)
		}
	}
	for {
		var r contract.LoadReport
		if !l.reports.ReceiveAsync(&r) {
			return
		}
		if r.Parent == l.self(ctx) && r.Partition >= 0 && r.Partition < len(l.parts) {
			l.parts[r.Partition], l.changed = r, true
		}
	}
}

func (l *loads) passOn(ctx workflow.Context) {
	c := l.control
	c.Parent = l.self(ctx)
	for p := range l.parts {
		if !l.parts[p].Closed {
			err := workflow.SignalExternalWorkflow(ctx, LoadID(l.in.Run.Crawl, p), "", SigControl, c).Get(ctx, nil)
			if isGone(err) { // somebody cancelled it: the committed position goes on
				_ = l.startOne(ctx, p, c)
			}
		}
	}
}

func (l *loads) closed() bool {
	for _, p := range l.parts {
		if !p.Closed {
			return false
		}
	}
	return true
}

func (l *loads) sum() contract.LoadsReport {
	return contract.LoadsReport{Parent: l.in.Parent, Partitions: l.parts}
}

func (l *loads) tell(ctx workflow.Context, closed bool) {
	now := workflow.Now(ctx)
	if !l.changed && !closed && now.Before(l.toldAt.Add(reportQuiet)) {
		return
	}
	l.changed, l.toldAt = false, now
	r := l.sum()
	r.Closed = closed
	err := workflow.SignalExternalWorkflow(ctx, l.in.Parent.ID, "", SigLoads, r).Get(ctx, nil)
	var gone *temporal.UnknownExternalWorkflowExecutionError
	if errors.As(err, &gone) {
		l.orphan = true
	}
	var ledger contract.Ledger
	for _, p := range l.parts {
		ledger = ledger.Add(p.Ledger)
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**loaders of %s**: %d of %d offsets loaded, %d in errors",
		l.in.Run.Crawl, ledger.Loaded, ledger.Offsets, ledger.Errors))
}

// stopChildren cancels the loaders; they end after their slice.
func (l *loads) stopChildren(ctx workflow.Context) {
	for p := range l.parts {
		if !l.parts[p].Closed {
			_ = workflow.RequestCancelExternalWorkflow(ctx, LoadID(l.in.Run.Crawl, p), "").Get(ctx, nil)
		}
	}
}

// wait blocks until a message comes; each minute it tells the parent, so that
// a parent that is gone is noticed.
func (l *loads) wait(ctx workflow.Context, cancelled workflow.Channel) {
	sel := workflow.NewSelector(ctx)
	l.alarm.watch(ctx, sel, l.toldAt.Add(reportQuiet))
	sel.AddReceive(l.controls, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(l.reports, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(cancelled, func(workflow.ReceiveChannel, bool) { l.orphan = true })
	sel.Select(ctx)
}
