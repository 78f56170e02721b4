package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// LoadWorkflow owns the position and the ledger of one loader, of a crawl or of
// a load. It runs Load in time-boxed slices and ends at the drain's end, or when
// its parent is gone.
func LoadWorkflow(ctx workflow.Context, in contract.LoadWorkflowInput) error {
	root, _ := workflow.NewDisconnectedContext(ctx)
	l := newLoad(root, in)
	if err := workflow.SetQueryHandler(root, QryStatus, func() (contract.LoadReport, error) { return l.st, nil }); err != nil {
		return err
	}
	for {
		l.receive()
		l.obey(root)
		switch {
		case ctx.Err() != nil || l.orphan:
			if l.keep(root) {
				continue // more may have come meanwhile
			}
			l.leave(root)
			return nil
		case l.drained():
			if l.keep(root) {
				continue
			}
			l.st.Closed = true
			l.st.End = max(l.st.End, l.until()) // one that had nothing to read has not asked
			l.report(root)
			return nil
		case workflow.GetInfo(root).GetContinueAsNewSuggested():
			if l.receive(); len(l.pending) > 0 { // it came while others were answered
				continue
			}
			in.Control, in.State = l.control, &l.st
			return workflow.NewContinueAsNewError(ctx, LoadType, in)
		case l.control.Paused:
			l.st.State = statePaused
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

// States of a loader besides those of its machine.
const (
	statePaused  = "paused"
	stateStopped = "stopped"
)

type load struct {
	in       contract.LoadWorkflowInput
	control  contract.LoadsControl
	controls workflow.ReceiveChannel
	orders   workflow.ReceiveChannel
	pending  []contract.LoadOrder
	st       contract.LoadReport
	idle     time.Duration
	slices   int       // so far in this run
	resume   time.Time // when the rate allows the next slice
	orphan   bool
	unkept   bool // orders that no slice has copied to the group
	told     contract.LoadReport
	toldAt   time.Time
	shown    shown // in the search attributes
}

func newLoad(ctx workflow.Context, in contract.LoadWorkflowInput) *load {
	l := &load{
		in: in, control: in.Control, idle: loadIdleMin, controls: workflow.GetSignalChannel(ctx, SigControl),
		orders: workflow.GetSignalChannel(ctx, SigOrder),
		st: contract.LoadReport{
			Parent: in.Parent, Number: in.Number, Topic: in.Topic, Partition: in.Partition, Position: -1, End: -1, State: "extract",
		},
	}
	if in.State != nil {
		l.st = *in.State
		l.st.Parent, l.st.Closed = in.Parent, false
		l.unkept = l.st.Position >= 0 || len(l.skips()) > 0 // it may have been moved, and closed before a slice
	}
	return l
}

func (l *load) ofLoad() bool { return l.in.Load != nil }

// receive takes every message; orders wait until no slice is under way.
func (l *load) receive() {
	for {
		var c contract.LoadsControl
		if !l.controls.ReceiveAsync(&c) {
			break
		}
		if c.Parent == l.in.Parent && c.Sequence > l.control.Sequence {
			l.control = c
		}
	}
	for {
		var o contract.LoadOrder
		if !l.orders.ReceiveAsync(&o) {
			return
		}
		if o.Parent == l.in.Parent {
			l.pending = append(l.pending, o)
		}
	}
}

func (l *load) until() int64 {
	switch ends := l.control.Ends; {
	case !l.control.Drain:
		return -1
	case ends == nil && l.ofLoad():
		return l.control.Until
	case l.in.Partition < len(ends):
		return ends[l.in.Partition]
	}
	return -1
}

func (l *load) drained() bool {
	end := l.until()
	return end >= 0 && l.st.Position >= end
}

// slice runs one Load and takes its position: the position is decided here.
func (l *load) slice(ctx workflow.Context, cancelled workflow.Channel) {
	actx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	summary := fmt.Sprintf("%s from %d", l.name(), l.st.Position)
	actx = workflow.WithActivityOptions(actx, loadOptions(l.in.Queue, summary))
	began := workflow.Now(ctx)
	future := workflow.ExecuteActivity(actx, ActLoad, l.input())
	for !future.IsReady() {
		sel := workflow.NewSelector(ctx)
		sel.AddFuture(future, func(workflow.Future) {})
		sel.AddReceive(l.controls, func(workflow.ReceiveChannel, bool) {})
		sel.AddReceive(l.orders, func(workflow.ReceiveChannel, bool) {})
		if !l.orphan {
			sel.AddReceive(cancelled, func(workflow.ReceiveChannel, bool) { l.orphan = true; cancel() })
		}
		sel.Select(ctx)
		before := l.control
		l.receive()
		if l.interrupted(before) {
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
	l.measure(r, workflow.Now(ctx).Sub(began))
	l.report(ctx)
}

// interrupted: a wish that the slice under way does not know must not wait for
// its end.
func (l *load) interrupted(before contract.LoadsControl) bool {
	now := l.control
	return len(l.pending) > 0 || now.Paused && !before.Paused || now.Drain && !before.Drain ||
		now.Batching != before.Batching || now.Rate != before.Rate
}

func (l *load) input() contract.LoadInput {
	l.slices++
	box := loadSlice
	if l.ofLoad() && l.slices <= loadSlicesAre {
		box = loadSliceSoon
	}
	return contract.LoadInput{
		Run: l.in.Run, Partition: l.in.Partition, Position: l.st.Position, TimeBox: box,
		IdleWait: l.idle, Until: l.until(), End: l.st.End, Retry: l.st.Retry, Ledger: l.st.Ledger, Start: l.st.Start, Before: l.st.Before,
		Load: l.in.Load, Source: l.in.Source, Topic: l.in.Topic, Loader: l.in.Number,
		Skips: l.skips(), Batching: l.control.Batching, Rate: l.control.Rate,
	}
}

// skips are those that are not behind the position.
func (l *load) skips() (ahead []contract.Skip) {
	for _, s := range l.st.Skips {
		if s.Through >= l.st.Position {
			ahead = append(ahead, s)
		}
	}
	return ahead
}

func (l *load) take(r contract.LoadResult) {
	switch {
	case l.st.Position < 0:
		l.st.Ledger, l.st.Start, l.st.Before = r.Prior, r.PriorStart, r.PriorBefore
		l.st.Skips = contract.AddSkips(l.st.Skips, r.PriorSkips)
		if r.PriorMoved != "" {
			l.note("%s", r.PriorMoved)
		}
		if r.Moved != "" {
			l.note("%s", r.Moved)
			l.begin(r.Start)
		}
		if r.Prior.Offsets == 0 {
			l.st.Start = r.Start
		}
	case r.Start != l.st.Position:
		if r.Moved != "" {
			l.note("%s", r.Moved)
		} else {
			l.note("the log ended before offset %d: it goes on at %d", l.st.Position, r.Start)
		}
		l.begin(r.Start)
	}
	if r.Ledger.Offsets > 0 {
		l.idle = loadIdleMin
	} else {
		l.idle = min(2*l.idle, loadIdleMax)
	}
	l.st.Position, l.st.State, l.st.Retry = r.Position, r.State, r.Retry
	if r.End >= 0 { // else it was not asked
		l.st.End = r.End
	}
	l.st.Ledger = l.st.Ledger.Add(r.Ledger)
	l.resume = r.Resume
	l.unkept = l.unkept && !r.Kept
}

// begin starts another range: what was done before is no part of it.
func (l *load) begin(at int64) { l.st.Start, l.st.Before = at, l.st.Ledger }

const maxNotes = 10

// note keeps the latest notes.
func (l *load) note(format string, args ...any) {
	l.st.Notes = append(l.st.Notes, fmt.Sprintf(format, args...))
	l.st.Notes = l.st.Notes[max(len(l.st.Notes)-maxNotes, 0):]
}

func (l *load) measure(r contract.LoadResult, took time.Duration) {
	l.st.Rate = 0
	if took > 0 {
		l.st.Rate = float64(int64(float64(written(r.Ledger))/took.Seconds()*10)) / 10
	}
}

// written are the documents that went to the sink.
func written(l contract.Ledger) int64 { return l.Loaded + l.Deleted + l.Superseded }

// wait is how long a loader in trouble has to wait for its next try, or one
// with a rate for its next record. It waits in a workflow timer, and goes on
// waiting when a message came.
func (l *load) wait(ctx workflow.Context) time.Duration {
	at := l.resume
	if l.st.Retry.NextTry.After(at) {
		at = l.st.Retry.NextTry
	}
	if at.IsZero() {
		return 0
	}
	return at.Sub(workflow.Now(ctx))
}

// report tells the parent what changed, and each minute that we are alive.
func (l *load) report(ctx workflow.Context) {
	now := workflow.Now(ctx)
	if l.same() && now.Sub(l.toldAt) < reportQuiet {
		return
	}
	l.describe(ctx)
	err := workflow.SignalExternalWorkflow(ctx, l.in.Parent.ID, "", SigReport, l.st).Get(ctx, nil)
	var gone *temporal.UnknownExternalWorkflowExecutionError
	if errors.As(err, &gone) {
		l.orphan = true
	}
	if err == nil {
		l.told, l.toldAt = l.st, now
	}
}

func (l *load) same() bool {
	return l.st.State == l.told.State && l.st.Closed == l.told.Closed && l.st.Retry.Class == l.told.Retry.Class &&
		l.st.Retry.Attempts == l.told.Retry.Attempts && l.st.Ledger == l.told.Ledger && l.st.Position == l.told.Position &&
		len(l.st.Answers) == len(l.told.Answers) && lastAnswer(l.st) == lastAnswer(l.told)
}

// leave ends the loader before its end. That of a load says so, because its
// parent waits for it.
func (l *load) leave(ctx workflow.Context) {
	if l.ofLoad() {
		l.st.State, l.st.Closed = stateStopped, true
		l.report(ctx)
	}
}

// sleep waits for a message, a cancellation, or until the time is over.
func (l *load) sleep(ctx workflow.Context, cancelled workflow.Channel, d time.Duration) {
	tctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	sel := workflow.NewSelector(ctx)
	sel.AddFuture(workflow.NewTimer(tctx, d), func(workflow.Future) {})
	sel.AddReceive(l.controls, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(l.orders, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(cancelled, func(workflow.ReceiveChannel, bool) { l.orphan = true })
	sel.Select(ctx)
}

// name of the partition, for people.
func (l *load) name() string { return partitionName(l.in.Topic, l.in.Partition) }

func partitionName(topic string, partition int) string {
	if topic == "" {
		return fmt.Sprintf("partition %d", partition)
	}
	return fmt.Sprintf("%s[%d]", topic, partition)
}

// describe keeps what the Web UI shows up to date.
func (l *load) describe(ctx workflow.Context) {
	now := shown{state: l.st.State, class: -1}
	if l.st.Retry.Attempts > 0 {
		now.class = l.st.Retry.Class
	}
	l.shown.change(ctx, l.in.Run.Crawl, now)
	workflow.SetCurrentDetails(ctx, details(l.name(), l.st))
}

// details are Markdown: what is wrong first, and what a server said between
// backticks, so that nothing in it is taken for a link or emphasis.
func details(name string, r contract.LoadReport) string {
	var b strings.Builder
	t := r.Retry
	wrong := t.Error != "" && !r.Closed
	fmt.Fprintf(&b, "**%s**: %s", name, r.State)
	if wrong {
		fmt.Fprintf(&b, ", **class %d**, attempt %d\n\n%s\n", t.Class, t.Attempts, quoted(t.Error))
		if !t.Since.IsZero() {
			fmt.Fprintf(&b, "\n- waits since %s", t.Since.UTC().Format(time.RFC3339))
		}
		if !t.NextTry.IsZero() {
			fmt.Fprintf(&b, "\n- next try %s", t.NextTry.UTC().Format(time.RFC3339))
		}
		if t.Alone {
			fmt.Fprintf(&b, "\n- the record at offset %d stops it: `starter status` says how to leave it out", t.Offset)
		}
	} else {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n- position %d of %d, %d to go, %.1f documents/s", r.Position, r.End, lag(r), r.Rate)
	fmt.Fprintf(&b, "\n- %s", ledgerLine(r.Ledger))
	for _, n := range r.Notes {
		b.WriteString("\n- " + n)
	}
	return b.String()
}

// quoted is text that somebody else wrote, as Markdown shows it unchanged.
func quoted(text string) string {
	return "`" + strings.NewReplacer("`", "'", "\n", " ").Replace(text) + "`"
}

// troubleOf says what a loader waits for; empty if nothing is wrong.
func troubleOf(name string, r contract.LoadReport) string {
	t := r.Retry
	if t.Error == "" || r.Closed {
		return ""
	}
	line := fmt.Sprintf("%s: in %s, class %d, attempt %d", name, t.State, t.Class, t.Attempts)
	if !t.Since.IsZero() {
		line += ", since " + t.Since.UTC().Format(time.RFC3339)
	}
	if !t.NextTry.IsZero() {
		line += ", next try " + t.NextTry.UTC().Format(time.RFC3339)
	}
	return line + ": " + t.Error
}

// ledgerLine is the ledger as the sum that it has to be.
func ledgerLine(l contract.Ledger) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{
		{l.Loaded, "loaded"},
		{l.Deleted, "deleted"},
		{l.Superseded, "there already or newer"},
		{l.NoDocument, "no document"},
		{l.Errors, "in errors"},
		{l.Skipped, "skipped"},
		{l.Compacted, "control or compacted"},
		{l.Lost, "lost to retention"},
		{l.Missing(), "NOT ACCOUNTED FOR"},
	} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "ledger: nothing yet"
	}
	return fmt.Sprintf("ledger: %d offsets = %s", l.Offsets, strings.Join(parts, " + "))
}

// lag is how many offsets are left, as far as is known.
func lag(r contract.LoadReport) int64 {
	if r.End < 0 || r.Closed {
		return 0
	}
	return max(r.End-max(r.Position, 0), 0)
}

var attrClass = temporal.NewSearchAttributeKeyInt64(AttrClass)

// shown is what the search attributes of loaders say. Each change is an event.
type shown struct {
	state string
	class int // of the trouble; -1: none
}

func (s *shown) change(ctx workflow.Context, name string, now shown) {
	if *s == now {
		return
	}
	*s = now
	class := attrClass.ValueUnset()
	if now.class >= 0 {
		class = attrClass.ValueSet(int64(now.class))
	}
	_ = workflow.UpsertTypedSearchAttributes(ctx, attrCrawl.ValueSet(name), attrState.ValueSet(now.state), class)
}
