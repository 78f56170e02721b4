package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// LoadsWorkflow owns the loaders of a source: one child per partition. Those of
// a crawl have a parent, whose wishes they obey and which they tell the sum of
// the reports; they end when every loader has closed after a drain, or when the
// parent is gone. Those of a load (load_root.go) have none, find their
// partitions themselves and leave a summary.
func LoadsWorkflow(ctx workflow.Context, in contract.LoadsInput) (*contract.LoadsSummary, error) {
	root, _ := workflow.NewDisconnectedContext(ctx)
	l := newLoads(root, in)
	if err := workflow.SetQueryHandler(root, QryStatus, func() (contract.LoadsStatus, error) { return l.status(), nil }); err != nil {
		return nil, err
	}
	if err := l.handlers(root); err != nil {
		return nil, err
	}
	if l.ofLoad() {
		return l.run(root, ctx)
	}
	if l.parts == nil {
		if err := l.startAll(root); err != nil {
			return nil, err
		}
	}
	for {
		l.receive(root)
		switch {
		case ctx.Err() != nil || l.orphan:
			l.end(root)
			l.stopChildren(root)
			return nil, nil
		case l.closed():
			l.end(root)
			l.tell(root, true)
			return nil, nil
		case workflow.GetInfo(root).GetContinueAsNewSuggested():
			return nil, l.continueAsNew(ctx, root)
		}
		l.tell(root, false)
		l.wait(root, ctx.Done())
	}
}

type loads struct {
	in    contract.LoadsInput
	first string
	st    contract.LoadsState
	parts []contract.LoadReport
	root  rootLoads // of a load

	controls workflow.ReceiveChannel
	reports  workflow.ReceiveChannel
	orphan   bool
	ending   bool // no order is taken any more
	changed  bool
	alarm    alarm
	toldAt   time.Time
	shown    shown
}

func newLoads(ctx workflow.Context, in contract.LoadsInput) *loads {
	l := &loads{in: in, parts: in.Partitions, first: workflow.GetInfo(ctx).FirstRunID}
	l.controls = workflow.GetSignalChannel(ctx, SigControl)
	l.reports = workflow.GetSignalChannel(ctx, SigReport)
	if in.State != nil {
		l.st = *in.State
	} else {
		l.st = contract.LoadsState{Started: workflow.Now(ctx), Rate: in.Rate}
		l.st.Control.Paused = in.Paused
	}
	return l
}

// ofLoad: the loaders are those of `starter load`.
func (l *loads) ofLoad() bool { return l.in.Load != nil }

func (l *loads) self(ctx workflow.Context) contract.Parent {
	return contract.Parent{ID: workflow.GetInfo(ctx).WorkflowExecution.ID, First: l.first, Generation: l.in.Run.Generation}
}

func (l *loads) childID(i int) string {
	if l.ofLoad() {
		return LoadRootLoaderID(l.in.Run.Crawl, i)
	}
	return LoadID(l.in.Run.Crawl, i)
}

func (l *loads) nameOf(i int) string { return partitionName(l.topicOf(i), l.parts[i].Partition) }

// topicOf is empty for the pages of a crawl.
func (l *loads) topicOf(i int) string {
	if l.ofLoad() {
		return l.st.Parts[i].Topic
	}
	return ""
}

func (l *loads) startAll(ctx workflow.Context) error {
	l.parts = make([]contract.LoadReport, l.in.Run.Partitions)
	for p := range l.parts {
		l.parts[p] = contract.LoadReport{Partition: p, Position: -1, End: -1, State: "extract"}
	}
	for p := range l.parts {
		if err := l.startOne(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// startOne starts a loader, with the wish of now.
func (l *loads) startOne(ctx workflow.Context, i int) error {
	in := contract.LoadWorkflowInput{
		Run: l.in.Run, Partition: l.parts[i].Partition, Parent: l.self(ctx), Queue: l.in.Queue, Control: l.wish(ctx, i),
	}
	was := &l.parts[i]
	if l.ofLoad() {
		p := l.st.Parts[i]
		in.Load, in.Source, in.Topic, in.Number = l.in.Load, p.Source, p.Topic, i
		if was.Position >= 0 || len(was.Skips) > 0 { // it was there before, and says where
			in.State = was
		}
	} else if len(was.Skips) > 0 { // the committed position goes on, with the orders
		in.State = &contract.LoadReport{Partition: was.Partition, Position: -1, End: -1, State: "extract", Skips: was.Skips}
	}
	cctx := workflow.WithChildOptions(ctx, childOptions(l.childID(i), "loader of "+l.nameOf(i)))
	return workflow.ExecuteChildWorkflow(cctx, LoadType, in).GetChildWorkflowExecution().Get(ctx, nil)
}

// childOptions suit every child: it outlives a continue-as-new of its parent,
// and closes by itself when the parent is gone.
func childOptions(id, summary string) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID: id, TaskQueue: QueueMain, ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary: summary,
	}
}

// wish is all that a loader is to know.
func (l *loads) wish(ctx workflow.Context, i int) contract.LoadsControl {
	c := contract.LoadsControl{
		Parent: l.self(ctx), Sequence: l.st.Sequence, Paused: l.st.Control.Paused || l.st.Paused,
		Drain: l.st.Control.Drain, Ends: l.st.Control.Ends, Batching: l.st.Batching, Rate: l.share(),
	}
	if l.ofLoad() && l.st.Parts[i].Until >= 0 {
		c.Drain, c.Until = true, l.st.Parts[i].Until
	}
	return c
}

// share divides the rate evenly among the loaders that are not done.
func (l *loads) share() float64 {
	open := 0
	for _, p := range l.parts {
		if !p.Closed {
			open++
		}
	}
	return l.st.Rate / float64(max(open, 1))
}

func (l *loads) receive(ctx workflow.Context) {
	for {
		var c contract.LoadsControl
		if !l.controls.ReceiveAsync(&c) {
			break
		}
		if !l.ofLoad() && c.Parent == l.in.Parent && c.Sequence > l.st.Control.Sequence {
			l.st.Control = c
			l.passOn(ctx)
		}
	}
	for {
		var r contract.LoadReport
		if !l.reports.ReceiveAsync(&r) {
			return
		}
		i := r.Partition
		if l.ofLoad() {
			i = r.Number
		}
		switch {
		case i < 0 || r.Parent.ID != l.self(ctx).ID:
		case r.Parent != l.self(ctx):
			l.stray(ctx, i, r)
		case i < len(l.parts):
			l.took(ctx, i, r)
		}
	}
}

// stray: a loader of an earlier run of this load that somebody terminated still
// works for it. (Those of a crawl were closed before it began.)
func (l *loads) stray(ctx workflow.Context, i int, r contract.LoadReport) {
	if l.ofLoad() && !r.Closed && i >= len(l.parts) {
		_ = workflow.RequestCancelExternalWorkflow(ctx, l.childID(i), "").Get(ctx, nil)
	}
}

// took keeps a report of a loader of ours.
func (l *loads) took(ctx workflow.Context, i int, r contract.LoadReport) {
	done := r.Closed && !l.parts[i].Closed
	l.parts[i], l.changed = r, true
	if !l.ofLoad() {
		return
	}
	l.root.heard[i] = workflow.Now(ctx)
	switch {
	case r.Closed && r.State == stateStopped && !l.root.stopping: // somebody cancelled it, and not the load
		l.parts[i].Closed = false
		l.root.gone[i] = true
	case done && l.st.Rate > 0: // the others get its share
		l.root.share = true
	}
}

// passOn tells every loader that is open all that it is to know.
func (l *loads) passOn(ctx workflow.Context) {
	l.st.Sequence++
	sent := make([]workflow.Future, len(l.parts))
	for i := range l.parts {
		if !l.parts[i].Closed {
			sent[i] = workflow.SignalExternalWorkflow(ctx, l.childID(i), "", SigControl, l.wish(ctx, i))
		}
	}
	for i, f := range sent {
		if f != nil && isGone(f.Get(ctx, nil)) && !l.parts[i].Closed { // somebody cancelled it: the committed position goes on
			_ = l.startOne(ctx, i)
		}
	}
}

func (l *loads) closed() bool {
	return !slices.ContainsFunc(l.parts, func(p contract.LoadReport) bool { return !p.Closed })
}

func (l *loads) ledger() (sum contract.Ledger) {
	for _, p := range l.parts {
		sum = sum.Add(p.Ledger)
	}
	return sum
}

// end refuses further orders and waits for those under way.
func (l *loads) end(ctx workflow.Context) {
	l.ending = true
	_ = workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

func (l *loads) continueAsNew(ctx, root workflow.Context) error {
	if err := workflow.Await(root, func() bool { return workflow.AllHandlersFinished(root) }); err != nil {
		return err
	}
	l.receive(root)
	in := l.in
	in.Partitions, in.State = l.parts, &l.st
	return workflow.NewContinueAsNewError(ctx, LoadsType, in)
}

// tell reports the sum to the crawl, and keeps what the Web UI shows up to date.
func (l *loads) tell(ctx workflow.Context, closed bool) {
	now := workflow.Now(ctx)
	if !l.changed && !closed && now.Before(l.toldAt.Add(reportQuiet)) {
		return
	}
	l.changed, l.toldAt = false, now
	if !l.ofLoad() {
		r := contract.LoadsReport{Parent: l.in.Parent, Partitions: l.parts, Closed: closed}
		err := workflow.SignalExternalWorkflow(ctx, l.in.Parent.ID, "", SigLoads, r).Get(ctx, nil)
		var gone *temporal.UnknownExternalWorkflowExecutionError
		if errors.As(err, &gone) {
			l.orphan = true
		}
	}
	l.describe(ctx)
}

func (l *loads) describe(ctx workflow.Context) {
	s := l.status()
	state := shown{state: s.Phase, class: -1}
	if s.Paused {
		state.state = statePaused
	}
	for _, p := range l.parts {
		if p.Retry.Attempts > 0 && !p.Closed {
			state.class = p.Retry.Class
			break
		}
	}
	if l.root.trouble.Attempts > 0 && state.class < 0 {
		state.class = l.root.trouble.Class
	}
	l.shown.change(ctx, l.in.Run.Crawl, state)
	workflow.SetCurrentDetails(ctx, loadsDetails(s))
}

// maxDetailed bounds how many loaders the details list.
const maxDetailed = 30

func loadsDetails(s contract.LoadsStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**loaders of %s**: %s, lag %d, %.1f documents/s\n\n%s\n", s.Name, s.Phase, s.Lag, s.Rate, ledgerLine(s.Ledger))
	for _, t := range s.Trouble {
		b.WriteString("\n- " + quoted(t))
	}
	b.WriteString("\n")
	b.WriteString("\n| partition | state | position | end | lag | documents/s | in errors |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for i, p := range s.Partitions {
		if i == maxDetailed {
			fmt.Fprintf(&b, "| and %d more | | | | | | |\n", len(s.Partitions)-i)
			break
		}
		state := p.State
		if p.Closed && state != stateStopped {
			state = "done"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %.1f | %d |\n", partitionName(p.Topic, p.Partition), state, p.Position, p.End, lag(p), p.Rate, p.Ledger.Errors)
	}
	for _, n := range s.Notes {
		b.WriteString("\n" + n + "\n")
	}
	return b.String()
}

// Phases of loaders.
const (
	LoadsStarting = "starting" // no partition is known yet
	LoadsRunning  = "loading"
	LoadsDraining = "draining" // to the ends
	LoadsStopping = "stopping"
	LoadsDone     = "done"
)

func (l *loads) phase() string {
	switch {
	case l.root.stopping || l.orphan:
		return LoadsStopping
	case len(l.parts) == 0:
		return LoadsStarting
	case l.closed() && (!l.ofLoad() || l.complete()):
		return LoadsDone
	case l.st.Control.Drain:
		return LoadsDraining
	}
	return LoadsRunning
}

func (l *loads) status() contract.LoadsStatus {
	s := contract.LoadsStatus{
		Name: l.in.Run.Crawl, Phase: l.phase(), Paused: l.st.Paused || l.st.Control.Paused, Started: l.st.Started,
		Queue: l.in.Queue, Ledger: l.ledger(), Batching: l.st.Batching, RateLimit: l.st.Rate, Partitions: l.parts, Untils: l.st.Parts, Notes: l.st.Notes,
	}
	for _, name := range l.st.Missing {
		s.Trouble = append(s.Trouble, name+" is not there: it is waited for (class 2)")
	}
	if t := l.root.trouble; t.Attempts > 0 {
		s.Trouble = append(s.Trouble, troubleOf("partitions", contract.LoadReport{Retry: t}))
	}
	for _, p := range l.parts {
		s.Lag += lag(p)
		if !p.Closed {
			s.Rate += p.Rate
		}
		if t := troubleOf(partitionName(p.Topic, p.Partition), p); t != "" {
			s.Trouble = append(s.Trouble, t)
		}
	}
	return s
}

// stopChildren cancels the loaders; they end after their slice.
func (l *loads) stopChildren(ctx workflow.Context) {
	for i := range l.parts {
		if l.parts[i].Closed {
			continue
		}
		err := workflow.RequestCancelExternalWorkflow(ctx, l.childID(i), "").Get(ctx, nil)
		if l.ofLoad() && err != nil {
			l.parts[i].Closed = true // it is gone
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
