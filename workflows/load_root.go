package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// maxLoaders bounds the partitions of a load: children of one workflow.
const maxLoaders = 1000

// rootLoads is what a LoadsWorkflow without a parent knows besides.
type rootLoads struct {
	asking   workflow.Future // Partitions, under way
	stopAsk  workflow.CancelFunc
	askAt    time.Time // when to ask again
	tries    int       // that failed in a row
	trouble  contract.RetryState
	locating workflow.Future // Locate, under way, for the parts in located
	located  []int
	heard    []time.Time // when each loader last reported
	gone     []bool      // loaders to start again
	share    bool        // the shares of the rate have changed
	stopping bool
}

// run finds the partitions, starts their loaders and ends when all that has an
// end is done. Cancelled, it ends after its loaders have.
func (l *loads) run(root, ctx workflow.Context) (*contract.LoadsSummary, error) {
	l.root.askAt = workflow.Now(root)
	l.root.heard = make([]time.Time, len(l.parts))
	l.root.gone = make([]bool, len(l.parts))
	for i := range l.root.heard {
		l.root.heard[i] = workflow.Now(root)
	}
	for {
		l.receive(root)
		l.restart(root)
		switch {
		case ctx.Err() != nil:
			return nil, l.cancelled(root)
		case l.complete() && l.closed():
			l.end(root)
			return l.finish(root, contract.OutcomeCompleted), nil
		case workflow.GetInfo(root).GetContinueAsNewSuggested():
			return nil, l.continueAsNew(ctx, root)
		}
		if err := l.found(root); err != nil {
			return nil, err
		}
		l.timesCome(root)
		l.ask(root)
		l.tell(root, false)
		l.listen(root, ctx.Done())
	}
}

// complete: every partition that the load will ever have is known, and has an
// end.
func (l *loads) complete() bool {
	if l.st.Known == nil || len(l.st.Missing) > 0 {
		return false
	}
	return !slices.ContainsFunc(l.st.Parts, func(p contract.LoadPart) bool { return p.Until < 0 })
}

// ask looks out for partitions, unless that is under way or none can come.
func (l *loads) ask(ctx workflow.Context) {
	r := &l.root
	if r.asking != nil || l.st.Fixed || workflow.Now(ctx).Before(r.askAt) {
		return
	}
	wait, summary := time.Duration(0), "find the partitions"
	if l.st.Known != nil {
		wait, summary = watchFor, "look out for new partitions"
	}
	actx, stop := workflow.WithCancel(ctx)
	r.stopAsk = stop
	r.asking = workflow.ExecuteActivity(workflow.WithActivityOptions(actx, watchOptions(wait, summary)), ActPartitions, contract.PartitionsInput{
		Run: l.in.Run, Load: l.in.Load, Known: l.st.Known, Missing: l.st.Missing, Wait: wait,
	})
}

// found takes the answer, if it is there. An error is one of the spec.
func (l *loads) found(ctx workflow.Context) error {
	r := &l.root
	if r.asking == nil || !r.asking.IsReady() {
		return nil
	}
	var answer contract.PartitionsResult
	err := r.asking.Get(ctx, &answer)
	r.asking = nil
	if err != nil {
		return err
	}
	l.changed = true
	if answer.Trouble.Attempts > 0 {
		r.tries++
		r.trouble = answer.Trouble
		r.trouble.Attempts = r.tries
		pause := min(minBackoff<<min(r.tries-1, 10), maxBackoff)
		r.askAt = workflow.Now(ctx).Add(pause)
		r.trouble.NextTry = r.askAt
		return nil
	}
	r.tries, r.trouble, r.askAt = 0, contract.RetryState{}, workflow.Now(ctx)
	if answer.Queue != "" {
		l.in.Queue = answer.Queue
	}
	l.st.Known, l.st.Missing, l.st.Fixed = answer.Known, answer.Missing, answer.Fixed
	return l.add(ctx, answer.Parts)
}

// add starts the loaders of partitions that were not known.
func (l *loads) add(ctx workflow.Context, parts []contract.LoadPart) error {
	if len(parts) == 0 {
		return nil
	}
	from := len(l.parts)
	if from+len(parts) > maxLoaders {
		return temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("the sources have %d partitions, a load can have %d: list partitions, and share them among several loads", from+len(parts), maxLoaders), ErrTypeBadSpec, nil)
	}
	var ids []string
	for _, p := range parts {
		ids = append(ids, l.childID(len(l.parts)))
		l.st.Parts = append(l.st.Parts, p)
		l.parts = append(l.parts, contract.LoadReport{Number: len(l.parts), Topic: p.Topic, Partition: p.Partition, Position: -1, End: -1, State: "configure"})
		l.root.heard = append(l.root.heard, workflow.Now(ctx))
		l.root.gone = append(l.root.gone, false)
	}
	actx := workflow.WithActivityOptions(ctx, sharedOptions("close loaders of an earlier run"))
	if err := workflow.ExecuteActivity(actx, ActClear, contract.ClearInput{WorkflowIDs: ids}).Get(ctx, nil); err != nil {
		return err
	}
	for i := from; i < len(l.parts); i++ {
		if err := l.startOne(ctx, i); err != nil {
			return err
		}
	}
	if from > 0 && l.st.Rate > 0 {
		l.root.share = true
	}
	return nil
}

// restart starts loaders again that were cancelled or terminated by somebody,
// and passes new shares on.
func (l *loads) restart(ctx workflow.Context) {
	now := workflow.Now(ctx)
	for i := range l.parts {
		if l.parts[i].Closed {
			continue
		}
		if !l.root.gone[i] && now.Sub(l.root.heard[i]) >= silence {
			l.root.heard[i] = now
			l.root.gone[i] = isGone(workflow.SignalExternalWorkflow(ctx, l.childID(i), "", SigControl, l.wish(ctx, i)).Get(ctx, nil))
		}
		if l.root.gone[i] {
			l.st.Notes = append(l.st.Notes, fmt.Sprintf("the loader of %s was gone; it was started again", l.nameOf(i)))
			l.st.Notes = l.st.Notes[max(len(l.st.Notes)-maxNotes, 0):]
			l.root.gone[i] = l.startOne(ctx, i) != nil
		}
	}
	if l.root.share {
		l.root.share = false
		l.passOn(ctx)
	}
}

// timesCome finds the ends of sources that load until a time, once it has come.
func (l *loads) timesCome(ctx workflow.Context) {
	r := &l.root
	if r.locating != nil {
		if !r.locating.IsReady() {
			return
		}
		var answer contract.LocateResult
		err := r.locating.Get(ctx, &answer)
		r.locating = nil
		if err != nil || len(answer.Offsets) != len(r.located) {
			return // asked again when something happens
		}
		for n, i := range r.located {
			l.st.Parts[i].Until = answer.Offsets[n]
		}
		l.passOn(ctx)
		return
	}
	at, due := l.nextTime(), workflow.Now(ctx)
	if at.IsZero() || at.After(due) {
		return
	}
	r.located = nil
	var parts []contract.LoadPart
	for i, p := range l.st.Parts {
		if p.Until < 0 && p.UntilTime.Equal(at) {
			r.located, parts = append(r.located, i), append(parts, p)
		}
	}
	actx := workflow.WithActivityOptions(ctx, sharedOptions("find the ends of "+at.UTC().Format(time.RFC3339)))
	r.locating = workflow.ExecuteActivity(actx, ActLocate, contract.LocateInput{Run: l.in.Run, Parts: parts, Time: at})
}

// nextTime is the next time at which partitions get an end; zero: none.
func (l *loads) nextTime() (at time.Time) {
	for _, p := range l.st.Parts {
		if p.Until < 0 && !p.UntilTime.IsZero() && (at.IsZero() || p.UntilTime.Before(at)) {
			at = p.UntilTime
		}
	}
	return at
}

// listen blocks until something happens.
func (l *loads) listen(ctx workflow.Context, cancelled workflow.Channel) {
	at, now := l.toldAt.Add(reportQuiet), workflow.Now(ctx)
	if t := l.nextTime(); !t.IsZero() && l.root.locating == nil {
		at = earlier(at, t)
	}
	if l.root.asking == nil && !l.st.Fixed && l.root.askAt.After(now) {
		at = earlier(at, l.root.askAt)
	}
	sel := workflow.NewSelector(ctx)
	l.alarm.watch(ctx, sel, at)
	if l.root.asking != nil {
		sel.AddFuture(l.root.asking, func(workflow.Future) {})
	}
	if l.root.locating != nil {
		sel.AddFuture(l.root.locating, func(workflow.Future) {})
	}
	sel.AddReceive(l.controls, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(l.reports, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(cancelled, func(workflow.ReceiveChannel, bool) {})
	sel.Select(ctx)
}

// cancelled stops the loaders and waits for their last reports.
func (l *loads) cancelled(ctx workflow.Context) error {
	l.root.stopping = true
	if l.root.asking != nil {
		l.root.stopAsk()
	}
	l.end(ctx)
	l.changed = true
	l.tell(ctx, false)
	l.stopChildren(ctx)
	until := workflow.Now(ctx).Add(stopPatience)
	for !l.closed() && workflow.Now(ctx).Before(until) {
		sel := workflow.NewSelector(ctx)
		l.alarm.watch(ctx, sel, until)
		sel.AddReceive(l.reports, func(workflow.ReceiveChannel, bool) {})
		sel.Select(ctx)
		l.receive(ctx)
	}
	return temporal.NewCanceledError(l.finish(ctx, contract.OutcomeCancelled))
}

// finish makes the summary. The final state is shown.
func (l *loads) finish(ctx workflow.Context, outcome string) *contract.LoadsSummary {
	l.describe(ctx)
	_ = workflow.UpsertTypedSearchAttributes(ctx, attrState.ValueSet(LoadsDone), attrOutcome.ValueSet(outcome))
	return &contract.LoadsSummary{
		Name: l.in.Run.Crawl, Outcome: outcome, Started: l.st.Started, Ended: workflow.Now(ctx),
		Ledger: l.ledger(), Partitions: l.parts, Notes: l.st.Notes,
	}
}
