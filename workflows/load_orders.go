package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// Bounds of orders.
const (
	maxReason  = 500     // bytes
	maxSkips   = 100     // that a loader remembers
	maxSkipped = 100_000 // offsets of one order
	maxAnswers = 8       // of the latest orders, in a report
	maxRecords = 1_000_000
	minRecords = 0.01
	maxCount   = 100_000
	minBytes   = 1 << 10
	maxBytes   = 64 << 20
)

// obey carries out the orders that came, between two slices.
func (l *load) obey(ctx workflow.Context) {
	for len(l.pending) > 0 {
		o := l.pending[0]
		l.pending = l.pending[1:]
		if o.Number <= lastAnswer(l.st) {
			continue // told again
		}
		a := contract.LoadAnswer{Number: o.Number}
		if err := l.carryOut(ctx, o); err != nil {
			a.Error = err.Error()
		}
		l.st.Answers = append(l.st.Answers, a)
		l.st.Answers = l.st.Answers[max(len(l.st.Answers)-maxAnswers, 0):]
		l.report(ctx)
	}
}

func lastAnswer(r contract.LoadReport) int64 {
	if n := len(r.Answers); n > 0 {
		return r.Answers[n-1].Number
	}
	return 0
}

func (l *load) carryOut(ctx workflow.Context, o contract.LoadOrder) error {
	switch o.Kind {
	case contract.OrderSeek:
		if err := l.learn(ctx); err != nil {
			return err
		}
		l.note("moved from offset %d to %d: %s", l.st.Position, o.Offset, o.Skip.Reason)
		l.st.Position = o.Offset
		l.begin(o.Offset)
	case contract.OrderSkip, contract.OrderToErrors:
		s := o.Skip
		if s.From < l.st.Position {
			return fmt.Errorf("offset %d is done: the position is %d", s.From, l.st.Position)
		}
		if len(l.st.Skips) >= maxSkips {
			return fmt.Errorf("%d skips are the most of one loader: use seek", maxSkips)
		}
		s.ToErrors = o.Kind == contract.OrderToErrors
		s.Class = l.classOf(s)
		l.st.Skips = append(l.st.Skips, s)
	default:
		return fmt.Errorf("order %q is not known to this worker: it is older than what gave it", o.Kind)
	}
	l.st.Retry = contract.RetryState{Halved: l.st.Retry.Halved} // try at once
	l.unkept = true
	return nil
}

// keep copies orders to the group that no slice has copied, for the loader is
// about to end and the next run of its partition knows of nothing else. False:
// there was nothing to do. It is a version, because earlier ones just ended.
func (l *load) keep(ctx workflow.Context) bool {
	if !l.unkept || workflow.GetVersion(ctx, loadRulesName, workflow.DefaultVersion, loadRules) < 1 {
		return false
	}
	l.unkept = false
	r, err := l.copyOrders(ctx, "keep the orders of "+l.name())
	why := "the worker is of an earlier version"
	if err != nil {
		why = rootCause(err)
	}
	if err != nil || !r.Kept {
		l.note("offset %d and the orders ahead of it are not kept for the next run: %s; give the orders again", l.st.Position, why)
	}
	return true
}

// learn asks what the group remembers of an earlier run, if nothing is known of
// the partition yet: a loader that is moved before its first slice would never ask.
func (l *load) learn(ctx workflow.Context) error {
	if l.st.Position >= 0 || workflow.GetVersion(ctx, loadRulesName, workflow.DefaultVersion, loadRules) < 1 {
		return nil
	}
	r, err := l.copyOrders(ctx, "position of "+l.name())
	if err != nil {
		return fmt.Errorf("where it was is not known: %s; try again", rootCause(err))
	}
	l.take(r)
	return nil
}

func (l *load) copyOrders(ctx workflow.Context, summary string) (r contract.LoadResult, err error) {
	in := l.input()
	in.Keep, in.TimeBox, in.Until = true, time.Second, max(l.st.Position, 0)
	actx := workflow.WithActivityOptions(ctx, keepOptions(l.in.Queue, summary))
	err = workflow.ExecuteActivity(actx, ActLoad, in).Get(ctx, &r)
	return r, err
}

// classOf is the class of what the loader is stuck on, where an order is about
// that; 0 otherwise.
func (l *load) classOf(s contract.Skip) int {
	y := l.st.Retry
	at := max(l.st.Position, 0)
	if y.Alone {
		at = y.Offset
	}
	if y.Attempts == 0 || at < s.From || at > s.Through {
		return 0
	}
	return y.Class
}

// handlers registers what people may order of loaders.
func (l *loads) handlers(ctx workflow.Context) error {
	open := func() error {
		if l.ending {
			return ending("the loaders are ending; start them again first")
		}
		return nil
	}
	paused := func(p bool) func(workflow.Context) error {
		return func(ctx workflow.Context) error {
			l.st.Paused = p
			l.passOn(ctx)
			return nil
		}
	}
	simple := workflow.UpdateHandlerOptions{Validator: func(workflow.Context) error { return open() }}
	return errors.Join(
		workflow.SetUpdateHandlerWithOptions(ctx, UpPause, paused(true), simple),
		workflow.SetUpdateHandlerWithOptions(ctx, UpResume, paused(false), simple),
		workflow.SetUpdateHandlerWithOptions(ctx, UpSeek, l.seek, workflow.UpdateHandlerOptions{
			Validator: func(_ workflow.Context, o contract.SeekLoad) error { return cmp.Or(open(), refusal(l.checkSeek(o))) },
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpSkip, l.skip, workflow.UpdateHandlerOptions{
			Validator: func(_ workflow.Context, o contract.SkipLoad) error { return cmp.Or(open(), refusal(l.checkSkip(o))) },
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpToErrors, l.toErrors, workflow.UpdateHandlerOptions{
			Validator: func(_ workflow.Context, o contract.SkipLoad) error { return cmp.Or(open(), refusal(l.checkSkip(o))) },
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpSetBatch, l.setBatch, workflow.UpdateHandlerOptions{
			Validator: func(_ workflow.Context, b contract.Batching) error { return cmp.Or(open(), refusal(checkBatch(b))) },
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpSetRate, l.setRate, workflow.UpdateHandlerOptions{
			Validator: func(_ workflow.Context, r contract.LoadRate) error { return cmp.Or(open(), refusal(checkLoadRate(r))) },
		}),
	)
}

// find gives the number of the loader of a partition.
func (l *loads) find(t contract.LoadTarget) (int, error) {
	topic := false
	for i, p := range l.parts {
		same := p.Topic == t.Topic || !l.ofLoad()
		topic = topic || same
		if same && p.Partition == t.Partition {
			return i, nil
		}
	}
	switch {
	case len(l.parts) == 0:
		return 0, errors.New("no partition is known yet: wait until the topics are found")
	case !topic:
		return 0, fmt.Errorf("topic %q: it is none of this load; the first one is %q", t.Topic, l.parts[0].Topic)
	}
	return 0, fmt.Errorf("partition %d: it is none of this load", t.Partition)
}

// checkOpen refuses a loader that is done.
func (l *loads) checkOpen(i int) error {
	p := l.parts[i]
	switch {
	case !p.Closed:
		return nil
	case l.ofLoad():
		return fmt.Errorf("%s is done, at offset %d: take it back first with starter load seek", l.nameOf(i), p.Position)
	}
	return fmt.Errorf("%s is done, at offset %d: when the crawl has ended, starter crawl --name %s lets its loaders go on, and then they take orders", l.nameOf(i), p.Position, l.in.Run.Crawl)
}

func checkReason(reason string) error {
	if reason == "" || len(reason) > maxReason {
		return fmt.Errorf("reason of %d bytes: say why in 1 to %d, it stays in the history", len(reason), maxReason)
	}
	return nil
}

func (l *loads) checkSeek(o contract.SeekLoad) error {
	if o.Time.IsZero() && o.Offset < 0 {
		return fmt.Errorf("offset %d: offsets are counted from 0", o.Offset)
	}
	i, err := l.find(o.LoadTarget)
	if err == nil && !l.ofLoad() {
		err = l.checkOpen(i)
	}
	return cmp.Or(err, checkReason(o.Reason))
}

func (l *loads) checkSkip(o contract.SkipLoad) error {
	i, err := l.find(o.LoadTarget)
	switch {
	case err != nil:
		return err
	case l.parts[i].Closed:
		return l.checkOpen(i)
	case o.Offset < 0 || o.Offset < l.parts[i].Position:
		return fmt.Errorf("offset %d is done: the position of %s is %d", o.Offset, l.nameOf(i), l.parts[i].Position)
	case o.Through != 0 && (o.Through < o.Offset || o.Through-o.Offset >= maxSkipped):
		return fmt.Errorf("through %d: give 1 to %d offsets from %d on", o.Through, maxSkipped, o.Offset)
	}
	return checkReason(o.Reason)
}

func checkBatch(b contract.Batching) error {
	if b.Bytes != 0 && (b.Bytes < minBytes || b.Bytes > maxBytes) {
		return fmt.Errorf("batch of %d bytes: give %d to %d, or 0 for what the spec says", b.Bytes, minBytes, maxBytes)
	}
	if b.Count < 0 || b.Count > maxCount {
		return fmt.Errorf("batch of %d records: give 1 to %d, or 0 for what the spec says", b.Count, maxCount)
	}
	return nil
}

func checkLoadRate(r contract.LoadRate) error {
	if !(r.Records == 0 || r.Records >= minRecords && r.Records <= maxRecords) {
		return fmt.Errorf("rate of %v records a second: give %v to %d, or 0 for no limit", r.Records, minRecords, maxRecords)
	}
	return nil
}

// seek moves a loader; a time becomes an offset first.
func (l *loads) seek(ctx workflow.Context, o contract.SeekLoad) error {
	i, err := l.find(o.LoadTarget)
	if err != nil {
		return refusal(err)
	}
	offset := o.Offset
	if !o.Time.IsZero() {
		part := contract.LoadPart{Topic: l.topicOf(i), Partition: l.parts[i].Partition}
		actx := workflow.WithActivityOptions(ctx, sharedOptions("find the offset of "+o.Time.UTC().Format("2006-01-02T15:04:05Z")))
		var r contract.LocateResult
		if err := workflow.ExecuteActivity(actx, ActLocate, contract.LocateInput{Run: l.in.Run, Parts: []contract.LoadPart{part}, Time: o.Time}).Get(ctx, &r); err != nil {
			return err
		}
		offset = r.Offsets[0]
	}
	switch {
	case l.ending:
		return ending("the loaders are ending; start them again first")
	case l.ofLoad() && l.parts[i].Closed:
		l.reopen(ctx, i, offset, o.Reason)
		return nil
	}
	return l.order(ctx, i, contract.LoadOrder{Kind: contract.OrderSeek, Offset: offset, Skip: contract.Skip{Reason: o.Reason}})
}

// reopen starts the loader of a partition of a load that is done once more.
func (l *loads) reopen(ctx workflow.Context, i int, offset int64, reason string) {
	p := &l.parts[i]
	p.Notes = append(p.Notes, fmt.Sprintf("moved from offset %d to %d: %s", p.Position, offset, reason))
	p.Notes = p.Notes[max(len(p.Notes)-maxNotes, 0):]
	p.Start, p.Before, p.Position, p.Closed = offset, p.Ledger, offset, false
	p.State, p.Retry = "extract", contract.RetryState{Halved: p.Retry.Halved}
	l.changed, l.root.heard[i] = true, workflow.Now(ctx)
	l.root.share = l.st.Rate > 0
	l.root.gone[i] = l.startOne(ctx, i) != nil // the one before is just ending: tried again
}

func (l *loads) skip(ctx workflow.Context, o contract.SkipLoad) error {
	return l.leaveOut(ctx, contract.OrderSkip, o)
}

func (l *loads) toErrors(ctx workflow.Context, o contract.SkipLoad) error {
	return l.leaveOut(ctx, contract.OrderToErrors, o)
}

func (l *loads) leaveOut(ctx workflow.Context, kind string, o contract.SkipLoad) error {
	i, err := l.find(o.LoadTarget)
	if err == nil {
		err = l.checkOpen(i)
	}
	if err != nil {
		return refusal(err)
	}
	s := contract.Skip{From: o.Offset, Through: max(o.Through, o.Offset), Reason: o.Reason, By: o.By}
	return l.order(ctx, i, contract.LoadOrder{Kind: kind, Offset: o.Offset, Skip: s})
}

// order tells a loader and waits for its answer.
func (l *loads) order(ctx workflow.Context, i int, o contract.LoadOrder) error {
	l.st.Order++
	o.Parent, o.Number = l.self(ctx), l.st.Order
	if err := workflow.SignalExternalWorkflow(ctx, l.childID(i), "", SigOrder, o).Get(ctx, nil); err != nil {
		return fmt.Errorf("%s cannot be told: %w", l.nameOf(i), err)
	}
	var answer *contract.LoadAnswer
	err := workflow.Await(ctx, func() bool {
		for _, a := range l.parts[i].Answers {
			if a.Number == o.Number {
				answer = &a
				return true
			}
		}
		return l.ending
	})
	switch {
	case err != nil:
		return err
	case answer == nil:
		return ending("the loaders ended before they could obey")
	case answer.Error != "":
		return refusal(errors.New(answer.Error))
	}
	return nil
}

func (l *loads) setBatch(ctx workflow.Context, b contract.Batching) error {
	l.st.Batching = b
	l.passOn(ctx)
	return nil
}

func (l *loads) setRate(ctx workflow.Context, r contract.LoadRate) error {
	l.st.Rate = r.Records
	l.passOn(ctx)
	return nil
}
