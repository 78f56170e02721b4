package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// ShardWorkflow owns the open and cooling slots of one shard and which worker
// folds it. It asks Expand for batches, gives them to Fetch, and reports to its
// parent. It ends when the parent says stop, or is gone.
func ShardWorkflow(ctx workflow.Context, in contract.ShardInput) error {
	// Our own root: a cancellation of this workflow drains like a stop.
	root, _ := workflow.NewDisconnectedContext(ctx)
	s := newShard(root, in)
	cancelled := ctx.Done()
	for {
		s.receive()
		if ctx.Err() != nil {
			s.orphan = true
		}
		if s.ending() && s.quiet() {
			return s.close(root)
		}
		if s.rollover(root) {
			s.receive()
			if !s.ending() {
				return workflow.NewContinueAsNewError(ctx, ShardType, s.next())
			}
			continue
		}
		s.passOn()
		s.ask(root)
		s.report(root)
		s.wait(root, cancelled)
	}
}

// open is one batch under way.
type open struct {
	batch  contract.Batch
	future workflow.Future
	cancel workflow.CancelFunc
}

// pending is an Acquire or Expand under way.
type pending struct {
	future  workflow.Future
	cancel  workflow.CancelFunc
	acquire bool
	waits   bool // inside, for something to do
}

type shard struct {
	in       contract.ShardInput
	rules    workflow.Version
	control  contract.ShardControl
	controls workflow.ReceiveChannel
	released workflow.ReceiveChannel
	orphan   bool // the parent is gone or the workflow was cancelled

	slots   *slots
	batches []*open
	number  int64
	queue   string
	expand  *pending

	state    string
	end      int64
	totals   contract.Totals
	lostTail bool
	trouble  string

	now     time.Time
	nextAsk time.Time
	lastAsk time.Time
	freed   bool    // slots closed since the Expand under way was scheduled
	dry     bool    // the last Expand found nothing to deal, and no slot has closed since
	asking  backoff // of Acquire and Expand
	taking  backoff // of Fetch

	reports    int64
	reported   contract.ShardReport
	reportedAt time.Time
	reporting  workflow.Future
	urgent     bool

	alarm alarm
}

func newShard(ctx workflow.Context, in contract.ShardInput) *shard {
	s := &shard{
		in: in, rules: workflow.GetVersion(ctx, shardRulesName, workflow.DefaultVersion, shardRules), control: in.Control, slots: newSlots(), state: contract.ShardBusy, end: -1,
		controls: workflow.GetSignalChannel(ctx, SigControl), released: workflow.GetSignalChannel(ctx, SigReleased), now: workflow.Now(ctx),
	}
	s.nextAsk = s.now
	switch {
	case in.State != nil:
		s.number, s.queue, s.totals, s.reports = in.State.Number, in.State.Queue, in.State.Totals, in.State.Reports
		s.slots.coolAll, s.slots.careful, s.slots.whole = in.State.CoolAll, in.State.Careful, in.State.Whole
		if in.State.Cooling != nil {
			s.slots.cooling = in.State.Cooling
		}
		if in.State.Lost != nil {
			s.slots.lost = in.State.Lost
		}
	case in.Careful:
		s.slots.beginCareful(s.now)
	}
	return s
}

// next is the input of the run that continues this one.
func (s *shard) next() contract.ShardInput {
	in := s.in
	in.Careful = false
	in.Control = s.control
	in.Run.SpecAt = s.control.SpecAt
	in.State = &contract.ShardState{
		Number: s.number, Queue: s.queue, Cooling: s.slots.cooling, CoolAll: s.slots.coolAll,
		Careful: s.slots.careful, Whole: s.slots.whole, Lost: s.slots.lost, Totals: s.totals, Reports: s.reports,
	}
	return in
}

func (s *shard) run() contract.Run {
	run := s.in.Run
	run.SpecAt = s.control.SpecAt
	return run
}

func (s *shard) ending() bool { return s.control.Stop || s.orphan }
func (s *shard) quiet() bool {
	return len(s.batches) == 0 && s.expand == nil && s.reporting == nil
}

// rollover says whether to continue as new now: suggested, and nothing open.
func (s *shard) rollover(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && s.quiet()
}

// receive takes every message of Fetches under way, and every control message;
// of these only those of our parent's run count.
func (s *shard) receive() {
	for {
		var r contract.Released
		if !s.released.ReceiveAsync(&r) {
			break
		}
		s.release(r)
	}
	for {
		var c contract.ShardControl
		if !s.controls.ReceiveAsync(&c) {
			return
		}
		if c.Parent != s.in.Parent || c.Sequence <= s.control.Sequence {
			continue
		}
		if c.Grant != s.control.Grant && s.state == contract.ShardStarved {
			s.state, s.end = contract.ShardBusy, -1 // only an Expand with this grant can tell
		}
		changed := c.Grant != s.control.Grant || c.SpecAt != s.control.SpecAt || c.Paused != s.control.Paused || c.Stop
		s.control = c
		if changed {
			s.dropExpand()
			s.nextAsk = s.now
			s.urgent = true
		}
	}
}

// release closes slots of a batch that goes on over others.
func (s *shard) release(r contract.Released) {
	for _, o := range s.batches {
		if o.batch.Number != r.Number {
			continue
		}
		var done []int
		o.batch.Slots = slices.DeleteFunc(o.batch.Slots, func(slot int) bool {
			if slices.Contains(r.Slots, slot) {
				done = append(done, slot)
				return true
			}
			return false
		})
		if len(done) > 0 {
			o.batch.Locators -= int(min(max(r.Locators, 0), int64(o.batch.Locators)))
			s.slots.answered(done, s.now, r.Cool)
			s.free()
		}
	}
}

// free: slots have closed, so that there may be something to deal. An Expand
// that waits for it is asked anew; any other one first gives its answer.
func (s *shard) free() {
	s.freed, s.dry = true, false
	s.nextAsk = earlier(s.nextAsk, s.gathered())
	if s.expand != nil && s.expand.waits {
		s.dropExpand()
	}
}

// gathered is when to ask for what has come free: at once, if nothing else is
// under way.
func (s *shard) gathered() time.Time {
	if s.rules < 1 || len(s.batches) == 0 {
		return s.now
	}
	return later(s.now, s.lastAsk.Add(askGather))
}

// dropExpand forgets the Expand under way: only the one scheduled last counts,
// and Expand remembers nothing that it gave.
func (s *shard) dropExpand() {
	if s.expand != nil && !s.expand.acquire {
		s.expand.cancel()
		s.expand = nil
	}
}

// passOn cancels open Fetches on pause and stop; they drain and answer.
func (s *shard) passOn() {
	if !s.control.Paused && !s.ending() {
		return
	}
	if s.expand != nil {
		s.expand.cancel()
		s.expand = nil
	}
	for _, o := range s.batches {
		o.cancel()
	}
	if s.control.Paused && len(s.batches) == 0 && s.state != contract.ShardPaused {
		s.state, s.urgent = contract.ShardPaused, true
	}
}

// mayAsk: an Acquire or Expand could be scheduled, were it time.
func (s *shard) mayAsk(ctx workflow.Context) bool {
	return s.expand == nil && !s.control.Paused && !s.ending() && len(s.batches) < contract.MaxOpenBatches &&
		!workflow.GetInfo(ctx).GetContinueAsNewSuggested()
}

// ask schedules an Acquire or an Expand, if it is time.
func (s *shard) ask(ctx workflow.Context) {
	if !s.mayAsk(ctx) || s.now.Before(s.askAt()) {
		return
	}
	if s.state == contract.ShardPaused {
		s.state, s.urgent = contract.ShardBusy, true
	}
	actx, cancel := workflow.WithCancel(ctx)
	if s.queue == "" {
		actx = workflow.WithActivityOptions(actx, acquireOptions(fmt.Sprintf("shard %d", s.in.Shard)))
		f := workflow.ExecuteActivity(actx, ActAcquire, contract.AcquireInput{Run: s.run(), Shard: s.in.Shard})
		s.expand = &pending{future: f, cancel: cancel, acquire: true}
		return
	}
	in := s.expandInput()
	actx = workflow.WithActivityOptions(actx, expandOptions(s.queue, fmt.Sprintf("shard %d: %d batches open", s.in.Shard, len(s.batches))))
	f := workflow.ExecuteActivity(actx, ActExpand, in)
	s.expand = &pending{future: f, cancel: cancel, waits: in.MayWait || in.WaitFor > 0}
	s.lastAsk, s.freed = s.now, false
}

func (s *shard) expandInput() contract.ExpandInput {
	_, cools := s.slots.cools(s.now)
	var locators int64
	for _, o := range s.batches {
		locators += int64(o.batch.Locators)
	}
	var waitFor time.Duration
	if s.dry && len(s.batches) > 0 {
		waitFor = waitForDue
		if next, any := s.slots.dealable(s.now); any {
			waitFor = min(waitFor, next.Sub(s.now))
		}
	}
	return contract.ExpandInput{
		Run: s.run(), Shard: s.in.Shard, Number: s.number + 1,
		Busy: s.slots.busy(s.now), Holds: s.slots.holds(s.now), Whole: s.slots.whole, Careful: s.slots.careful, Lost: s.slots.lost,
		OpenBatches: len(s.batches), OpenLocators: locators, Grant: s.control.Grant,
		MayWait:  s.settled() && len(s.batches) == 0 && !cools && s.isReported(),
		WaitFrom: s.end, WaitFor: waitFor,
	}
}

// settled: the last Expand found nothing that may be done, and nothing was since.
func (s *shard) settled() bool {
	return s.state == contract.ShardIdle || s.state == contract.ShardStarved
}

// isReported: the parent has been told the state, its o and its grant.
func (s *shard) isReported() bool {
	r := s.reported
	return s.reporting == nil && r.State == s.state && r.End == s.end && r.Grant == s.control.Grant.Number
}

// answerExpand takes the result of the Acquire or Expand under way.
func (s *shard) answerExpand(ctx workflow.Context) {
	p := s.expand
	s.expand = nil
	if p.acquire {
		var r contract.AcquireResult
		if err := p.future.Get(ctx, &r); err != nil {
			s.failed("acquire", err, &s.asking)
			return
		}
		s.queue, s.urgent = r.Queue, true
		return
	}
	var r contract.ExpandResult
	if err := p.future.Get(ctx, &r); err != nil {
		s.queue = ""
		s.failed("expand", err, &s.asking)
		return
	}
	s.asking = backoff{}
	if s.taking.failures == 0 {
		s.trouble = ""
	}
	if r.Verdict != contract.VerdictMove { // which folded nothing
		s.totals, s.lostTail = r.Totals, s.lostTail || r.LostTail
	}
	s.decide(ctx, r)
	s.dry = !s.freed && !r.More && (r.Verdict == contract.VerdictLater || r.Verdict == contract.VerdictBatch)
	switch {
	case s.freed: // the answer does not know of it: slots are free, or nothing is open any more
		s.nextAsk = earlier(s.nextAsk, s.gathered())
	case s.dry && p.waits && s.now.Sub(s.lastAsk) >= askAgain:
		s.nextAsk = s.now // it has waited, and the next one will
	case s.dry && len(s.batches) > 0 && !p.waits:
		s.nextAsk = earlier(s.nextAsk, s.now.Add(askDry))
	}
	if p.waits && s.nextAsk.Equal(s.now) && s.end == r.End && s.state != contract.ShardBusy {
		s.nextAsk = s.now.Add(askAgain) // it waited, or cannot: never spin
	}
}

func (s *shard) decide(ctx workflow.Context, r contract.ExpandResult) {
	switch r.Verdict {
	case contract.VerdictBatch:
		s.state, s.end = contract.ShardBusy, -1
		s.fetch(ctx, *r.Batch)
		for _, b := range r.Further {
			s.fetch(ctx, b)
		}
		s.nextAsk = s.now.Add(askDry)
		if r.More {
			s.nextAsk = s.now
		}
	case contract.VerdictIdle:
		s.settle(contract.ShardIdle, r.End)
	case contract.VerdictStarved:
		s.settle(contract.ShardStarved, r.End)
	case contract.VerdictMove:
		s.state, s.end = contract.ShardBusy, -1 // until the next owner has folded
		s.queue, s.nextAsk = "", s.now
	default:
		s.state, s.end = contract.ShardBusy, -1
		s.nextAsk = s.now.Add(askAgain)
		if !r.NextDue.IsZero() {
			s.nextAsk = earlier(s.nextAsk, later(r.NextDue, s.now.Add(askSpacing)))
		}
	}
}

func (s *shard) settle(state string, end int64) {
	if s.state != state || s.end != end {
		s.urgent = true
	}
	s.state, s.end = state, end
	s.nextAsk = s.now.Add(askAgain)
	s.askToWait()
}

// askToWait: once idle or starved is reported and nothing cools, the next
// Expand waits inside, so it can be scheduled at once.
func (s *shard) askToWait() {
	if _, cools := s.slots.cools(s.now); s.settled() && !cools && s.isReported() {
		s.nextAsk = earlier(s.nextAsk, s.now)
	}
}

// backoff is the wait after failures in a row; zero is none.
type backoff struct {
	failures int
	until    time.Time
}

func (s *shard) failed(what string, err error, b *backoff) {
	b.failures++
	b.until = s.now.Add(min(minBackoff<<min(b.failures-1, 6), maxBackoff))
	s.trouble = what + ": " + rootCause(err)
	s.urgent = true
}

// askAt is when the next Acquire or Expand may be scheduled: whatever asks for
// it, failures make it wait.
func (s *shard) askAt() time.Time {
	return later(s.nextAsk, later(s.asking.until, s.taking.until))
}

// fetch opens a batch.
func (s *shard) fetch(ctx workflow.Context, b contract.Batch) {
	s.number = b.Number
	s.slots.take(b, s.now)
	fctx, cancel := workflow.WithCancel(ctx)
	summary := fmt.Sprintf("shard %d, batch %d: %d URLs, %d hosts", s.in.Shard, b.Number, b.Locators, b.HostCount)
	fctx = workflow.WithActivityOptions(fctx, fetchOptions(b.TimeBox, summary))
	in := contract.FetchInput{Run: s.run(), Shard: s.in.Shard, Batch: b, HoldsAt: s.lastAsk}
	in.Batch.Whole = nil // for the shard only
	f := workflow.ExecuteActivity(fctx, ActFetch, in)
	s.batches = append(s.batches, &open{batch: b, future: f, cancel: cancel})
}

// closeBatch takes the result of a Fetch.
func (s *shard) closeBatch(ctx workflow.Context, o *open) {
	for i, b := range s.batches {
		if b == o {
			s.batches = append(s.batches[:i], s.batches[i+1:]...)
			break
		}
	}
	s.free()
	var r contract.FetchResult
	err := o.future.Get(ctx, &r)
	if err == nil {
		s.taking = backoff{}
		if s.rules >= 1 {
			r.LongestDelay = max(0, r.LongestDelay-r.Gone)
		}
		s.slots.answered(o.batch.Slots, s.now, r.LongestDelay)
		return
	}
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		s.slots.unused(o.batch.Slots)
		s.failed("fetch", errors.New("no worker took the batch within "+fetchQueued.String()), &s.taking)
	case errors.As(err, &timeout):
		s.slots.silent(o.batch.Slots, s.now, true)
		s.trouble, s.urgent = fmt.Sprintf("batch %d was lost: %s", o.batch.Number, rootCause(err)), true
	default:
		s.slots.silent(o.batch.Slots, s.now, false)
		if !temporal.IsCanceledError(err) {
			s.failed("fetch", err, &s.taking)
		}
	}
}

// report signals the parent: at once when the state changed, else every 10 s
// while a batch is open and every minute otherwise.
func (s *shard) report(ctx workflow.Context) {
	due := s.urgent || s.reportedAt.IsZero() || !s.now.Before(s.reportedAt.Add(s.reportEvery()))
	if s.orphan || s.reporting != nil || !due {
		return
	}
	s.reports++
	s.reported = s.reportNow(s.state)
	s.reportedAt, s.urgent = s.now, false
	s.reporting = workflow.SignalExternalWorkflow(ctx, s.in.Parent.ID, "", SigReport, s.reported)
	workflow.SetCurrentDetails(ctx, s.details())
}

// reportEvery is short for the first reports of a shard, so that people see a
// small crawl move.
func (s *shard) reportEvery() time.Duration {
	switch {
	case len(s.batches) == 0:
		return reportQuiet
	case s.reports < reportsSoon:
		return reportSoon
	}
	return reportOpen
}

func (s *shard) reportNow(state string) contract.ShardReport {
	return contract.ShardReport{
		Parent: s.in.Parent, Shard: s.in.Shard, Sequence: s.reports, State: state, End: s.end,
		Grant: s.control.Grant.Number, Open: len(s.batches), Owner: s.queue, Totals: s.totals,
		Trouble: s.trouble, LostTail: s.lostTail,
	}
}

func (s *shard) answerReport(ctx workflow.Context) {
	err := s.reporting.Get(ctx, nil)
	s.reporting = nil
	var gone *temporal.UnknownExternalWorkflowExecutionError
	switch {
	case err == nil:
		s.now = workflow.Now(ctx)
		s.askToWait()
	case errors.As(err, &gone):
		s.orphan = true
	default:
		s.reported = contract.ShardReport{} // say it again, when the next one is due
	}
}

// wait blocks until something happened: an answer, a message, or the time of
// the next Expand or report.
func (s *shard) wait(ctx workflow.Context, cancelled workflow.Channel) {
	sel := workflow.NewSelector(ctx)
	if s.expand != nil {
		sel.AddFuture(s.expand.future, func(workflow.Future) { s.now = workflow.Now(ctx); s.answerExpand(ctx) })
	}
	if s.reporting != nil {
		sel.AddFuture(s.reporting, func(workflow.Future) { s.answerReport(ctx) })
	}
	for _, o := range s.batches {
		sel.AddFuture(o.future, func(workflow.Future) { s.now = workflow.Now(ctx); s.closeBatch(ctx, o) })
	}
	sel.AddReceive(s.controls, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(s.released, func(workflow.ReceiveChannel, bool) {})
	if !s.orphan {
		sel.AddReceive(cancelled, func(workflow.ReceiveChannel, bool) { s.orphan = true })
	}
	s.alarm.watch(ctx, sel, s.lookAt(ctx))
	sel.Select(ctx)
	s.now = workflow.Now(ctx)
}

// lookAt is when to look again, whatever happens until then.
func (s *shard) lookAt(ctx workflow.Context) time.Time {
	at := s.now.Add(reportQuiet)
	if !s.orphan && s.reporting == nil {
		at = s.reportedAt.Add(s.reportEvery())
	}
	if s.mayAsk(ctx) {
		at = earlier(at, s.askAt())
		if next, any := s.cooled(); any {
			next = later(next, s.lastAsk.Add(askSpacing))
			if next.Before(s.nextAsk) {
				s.nextAsk = next
			}
			at = earlier(at, s.askAt())
		}
	}
	return at
}

// cooled is when the next slot may be dealt; of a settled shard, which only
// waits for the right to wait inside, when it has cooled.
func (s *shard) cooled() (time.Time, bool) {
	if s.settled() {
		return s.slots.cools(s.now)
	}
	return s.slots.dealable(s.now)
}

// close folds once more, so that the totals hold what the last batches did, and
// says goodbye. After a census an idle shard has folded it all.
func (s *shard) close(ctx workflow.Context) error {
	if s.orphan {
		return nil
	}
	for try := 0; try < 3 && !(s.rules >= 1 && s.control.Counted && s.state == contract.ShardIdle); try++ {
		if s.queue == "" && !s.acquireNow(ctx) {
			continue
		}
		in := s.expandInput()
		in.FoldOnly, in.MayWait = true, false
		var r contract.ExpandResult
		ectx := workflow.WithActivityOptions(ctx, expandOptions(s.queue, fmt.Sprintf("shard %d: last fold", s.in.Shard)))
		if err := workflow.ExecuteActivity(ectx, ActExpand, in).Get(ctx, &r); err == nil {
			s.totals = r.Totals
			break
		}
		s.queue = ""
	}
	s.reports++
	_ = workflow.SignalExternalWorkflow(ctx, s.in.Parent.ID, "", SigReport, s.reportNow(contract.ShardClosed)).Get(ctx, nil)
	return nil
}

func (s *shard) acquireNow(ctx workflow.Context) bool {
	actx := workflow.WithActivityOptions(ctx, acquireOptions(fmt.Sprintf("shard %d: last fold", s.in.Shard)))
	var r contract.AcquireResult
	if err := workflow.ExecuteActivity(actx, ActAcquire, contract.AcquireInput{Run: s.run(), Shard: s.in.Shard}).Get(ctx, &r); err != nil {
		return false
	}
	s.queue = r.Queue
	return true
}

func (s *shard) details() string {
	d := fmt.Sprintf("**shard %d** of crawl %s: %s\n\n%s\n\nowner %s, %d batches open",
		s.in.Shard, s.in.Run.Crawl, s.state, totalsLine(s.totals), s.queue, len(s.batches))
	if s.trouble != "" {
		d += "\n\nlast trouble: " + s.trouble
	}
	return d
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// rootCause is the innermost message of an activity's error, for people.
func rootCause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

func totalsLine(t contract.Totals) string {
	return fmt.Sprintf("%d locators: %d fetched, %d pending, %d refused, %d given up; %.1f MiB",
		t.Locators, t.Fetched, t.Pending, sum(t.Refused), sum(t.GivenUp), float64(t.Bytes)/(1<<20))
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m { //workflowcheck:ignore order does not matter in a sum
		n += v
	}
	return n
}
