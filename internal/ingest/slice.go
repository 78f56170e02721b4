package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

const (
	// lasting is how many times a 429 is retried whole before the request is
	// halved: a bulk above the indexing pressure limit never passes.
	lasting = 4
	// Bounds of one wait for records.
	minWait = 10 * time.Millisecond
	maxWait = 5 * time.Second
	// maxErrorText of a retry record: it travels through workflow history.
	maxErrorText = 500
)

// slice is one run of Machine.Slice: a batch in hand, the next one on its way.
type slice struct {
	m   *Machine
	ctx context.Context
	in  contract.LoadInput

	deadline  time.Time
	idleSince time.Time // zero: something came last
	over      bool

	state    State
	start    int64
	position int64
	end      int64
	ledger   contract.Ledger
	retry    contract.RetryState

	batch *batch // in hand, from transform to the position
	// stated are offsets beyond the position whose failure the errors topic has
	// acknowledged: a reset does not state them again.
	stated map[int64]bool
	ahead  *ahead // being extracted
}

// ahead is a batch that is extracted and transformed while another is loaded.
type ahead struct {
	from   int64
	cancel context.CancelFunc
	done   chan struct{}
	batch  *batch
	err    error
}

// Slice runs the machine from in.Position until the time box ends, nothing came
// for in.IdleWait, the position reaches in.Until, or ctx is cancelled; a batch
// in hand is finished, or given up before its position if the sink or the
// errors topic fail beyond the time box. All of these are successes: the result
// says what was done, the state, and in Retry.NextTry when to come back if
// something fails. The ledger covers exactly [Start, Position). An error means
// that the call itself was wrong.
func (m *Machine) Slice(ctx context.Context, in contract.LoadInput) (contract.LoadResult, error) {
	if in.TimeBox <= 0 {
		return contract.LoadResult{}, fmt.Errorf("load: time box %s: give it more than 0", in.TimeBox)
	}
	s := &slice{
		m: m, ctx: ctx, in: in, deadline: time.Now().Add(in.TimeBox),
		position: in.Position, end: -1, retry: in.Retry, stated: map[int64]bool{},
	}
	s.retry.NextTry = time.Time{}
	if in.Position < 0 && m.cfg.Policy == FromZero {
		s.position = 0
	}
	s.start = s.position
	defer s.drop()
	for !s.ended() {
		s.step()
	}
	return contract.LoadResult{
		Start: s.start, Position: s.position, End: s.end, Ledger: s.ledger, State: s.state.String(), Retry: s.retry,
	}, nil
}

// ended is asked between steps. A batch in hand is worked on beyond the time
// box as long as nothing fails.
func (s *slice) ended() bool {
	if s.over || s.ctx.Err() != nil {
		return true
	}
	if s.batch != nil {
		return false
	}
	if s.in.Until >= 0 && s.position >= s.in.Until {
		return true
	}
	return !time.Now().Before(s.deadline)
}

func (s *slice) step() {
	switch s.state {
	case Extract:
		s.extract()
	case Transform:
		if len(s.batch.failures) > 0 {
			s.on(SomeFailed)
			return
		}
		s.on(AllFine)
	case Load:
		s.load()
	case Errors:
		s.stateErrors()
	}
}

// on takes the step of an event that is no error. A success ends the retries
// of its own state only: a sink that is down is not better because Kafka reads.
func (s *slice) on(e Event) {
	if s.retry.Attempts > 0 && s.retry.State == s.state.String() {
		s.retry = contract.RetryState{}
	}
	step := StepOf(s.state, e)
	switch step.Do {
	case Advance:
		s.advance()
	case Proceed:
	default:
		s.fail(fmt.Errorf("event %q in state %s: %s", e, s.state, step.Why))
		return
	}
	s.state = step.Next
	s.tell()
}

// advance moves the position: everything before it is acknowledged.
func (s *slice) advance() {
	s.position = s.batch.next
	s.ledger = s.ledger.Add(s.batch.ledger)
	s.batch = nil
	clear(s.stated)
}

// fail takes the step of an error.
func (s *slice) fail(err error) {
	if s.ctx.Err() != nil {
		s.over = true // our own cancellation is no error
		return
	}
	class, why := Classify(s.state, err)
	text := fmt.Sprintf("%s (%s)", err, why)
	step := StepOf(s.state, Event(class))
	switch step.Do {
	case Retry:
		s.wait(class, text, retryAfter(err))
	case Narrow:
		s.narrow(class, text, err)
	case Shrink:
		s.shrink(class, text)
	case Isolate:
		s.isolate(class, text, err)
	case Reposition:
		s.reposition(class, text)
	default: // Reset, Impossible, or an action that is none of an error's
		s.reset(class, text)
	}
}

// wait counts the attempt and pauses. If the pause does not fit the time box,
// the slice is over and the workflow waits instead.
func (s *slice) wait(class Class, text string, asked time.Duration) {
	if s.retry.State != s.state.String() {
		s.retry = contract.RetryState{State: s.state.String()}
	}
	s.retry.Class, s.retry.Error = int(class), cutText(text)
	s.retry.Attempts++
	pause := backoff(s.retry.Attempts, asked)
	s.retry.NextTry = s.m.cfg.Now().Add(pause)
	s.tell()
	if time.Now().Add(pause).After(s.deadline) {
		s.over = true
		return
	}
	if !sleep(s.ctx, pause) {
		s.over = true
		return
	}
	s.retry.NextTry = time.Time{}
}

// reset forgets what is in flight and begins again at the position.
func (s *slice) reset(class Class, text string) {
	s.wait(class, text, 0)
	s.drop()
	s.batch = nil
	if s.over {
		return
	}
	s.state = Extract
	if s.m.cfg.Rebuild != nil {
		ctx, cancel := context.WithTimeout(s.ctx, s.m.cfg.CallLimit)
		defer cancel()
		if err := guard(func() error { return s.m.cfg.Rebuild(ctx) }); err != nil {
			s.retry.Error = cutText(text + "; fresh clients: " + err.Error())
		}
	}
	s.tell()
}

func cutText(s string) string {
	s = sink.CutReason(s)
	if len(s) > maxErrorText {
		s = sink.CutReason(s[:maxErrorText])
	}
	return s
}

// tell publishes the state.
func (s *slice) tell() {
	p := &Progress{
		State: s.state.String(), Class: s.retry.Class, Attempts: s.retry.Attempts, Error: s.retry.Error,
		Position: s.position, End: s.end, Ledger: s.ledger,
	}
	s.m.progress.Store(p)
	if s.m.cfg.Progress != nil {
		s.m.cfg.Progress(*p)
	}
}

// --- extract ---

func (s *slice) extract() {
	if s.position < 0 {
		s.reposition(OffsetNotFound, "no position yet")
		return
	}
	b, err := s.next()
	if err != nil {
		s.fail(err)
		return
	}
	if b == nil { // the slice ended while waiting
		return
	}
	if b.high >= 0 {
		s.end = b.high
	}
	if b.next == b.from {
		s.nothing()
		return
	}
	s.idleSince = time.Time{}
	s.batch = b
	s.on(GotBatch)
	if s.in.Until < 0 || b.next < s.in.Until {
		s.fetch(b.next)
	}
}

// nothing ends the slice when the log has been quiet for long enough.
func (s *slice) nothing() {
	s.on(GotNothing)
	if s.idleSince.IsZero() {
		s.idleSince = time.Now()
	}
	if time.Since(s.idleSince)+minWait > s.in.IdleWait {
		s.over = true
	}
}

// next gives the batch at the position, waiting for it at most until the time
// box ends: then it is nil.
func (s *slice) next() (*batch, error) {
	if s.ahead != nil && s.ahead.from != s.position {
		s.drop()
	}
	if s.ahead == nil {
		s.fetch(s.position)
	}
	t := time.NewTimer(time.Until(s.deadline))
	defer t.Stop()
	select {
	case <-s.ahead.done:
	case <-t.C:
		s.over = true
		return nil, nil
	case <-s.ctx.Done():
		return nil, nil
	}
	a := s.ahead
	s.ahead = nil
	a.cancel()
	return a.batch, a.err
}

// fetch begins to prepare the batch at an offset.
func (s *slice) fetch(from int64) {
	ctx, cancel := context.WithCancel(s.ctx)
	a := &ahead{from: from, cancel: cancel, done: make(chan struct{})}
	s.ahead = a
	wait := min(max(s.in.IdleWait, minWait), maxWait)
	go func() {
		defer close(a.done)
		a.batch, a.err = s.m.prepare(ctx, from, wait)
	}()
}

// drop ends the preparation of the next batch.
func (s *slice) drop() {
	if s.ahead == nil {
		return
	}
	s.ahead.cancel()
	<-s.ahead.done
	s.ahead = nil
}

// reposition asks the log where it begins and ends and goes there by policy.
func (s *slice) reposition(class Class, text string) {
	ctx, cancel := context.WithTimeout(s.ctx, s.m.cfg.CallLimit)
	defer cancel()
	var first, end int64
	err := guard(func() (err error) {
		first, end, err = s.m.source.Bounds(ctx)
		return err
	})
	if err != nil {
		if c, why := Classify(Extract, err); c != OffsetNotFound {
			class, text = c, fmt.Sprintf("%s (%s)", err, why)
		}
		s.wait(class, text, 0)
		return
	}
	s.end = end
	switch {
	case s.position < 0:
		s.position = first
		if s.m.cfg.Policy == FromLatest {
			s.position = end
		}
		s.start = s.position
	case s.position < first:
		s.ledger.Lost += first - s.position
		s.ledger.Offsets += first - s.position
		s.position = first
	case s.position > end:
		s.back(first, end, class, text)
		return
	default: // it is there now: an election, or a race with retention
		s.wait(class, text, 0)
		return
	}
	s.tell()
}

// back handles a log that is shorter than our position: its tail is lost, or
// the topic was made again. A ledger covers one range, so that what was done
// before goes out first.
func (s *slice) back(first, end int64, class Class, text string) {
	if s.ledger.Offsets > 0 {
		s.over = true
		s.retry = contract.RetryState{
			State: s.state.String(), Class: int(class), Attempts: 1, NextTry: s.m.cfg.Now(), Error: cutText(text),
		}
		return
	}
	s.position = end
	if s.m.cfg.Policy == FromZero {
		s.position = first
	}
	s.start = s.position
	s.tell()
}

// --- load ---

// load sends one part of the batch.
func (s *slice) load() {
	b := s.batch
	if len(b.todo) == 0 {
		s.loaded()
		return
	}
	p := b.todo[0]
	results, err := s.write(b.pick(p))
	if err != nil {
		s.fail(err)
		return
	}
	if class, text := allBusy(p, results); text != "" {
		s.wait(class, text, 0)
		return
	}
	b.todo = b.todo[1:]
	if s.retry.State == Load.String() {
		s.retry = contract.RetryState{} // it moves again
	}
	s.take(p, results)
	if len(b.todo) == 0 {
		s.loaded()
	}
}

func (s *slice) loaded() {
	if len(s.batch.failures) > 0 {
		s.on(SomeRefused)
		return
	}
	s.on(AllLoaded)
}

func (s *slice) write(ops []sink.Op) (results []sink.Result, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.m.cfg.CallLimit)
	defer cancel()
	err = guard(func() (err error) {
		results, err = s.m.sink.Write(ctx, ops)
		return err
	})
	if err == nil && len(results) != len(ops) {
		err = &sink.AnswerError{Reason: fmt.Sprintf("%d results for %d ops", len(results), len(ops))}
	}
	return results, err
}

// pick gives the ops of a part; the whole batch without copying.
func (b *batch) pick(p part) []sink.Op {
	if len(p.ops) == len(b.ops) {
		return b.ops
	}
	ops := make([]sink.Op, len(p.ops))
	for i, at := range p.ops {
		ops[i] = b.ops[at]
	}
	return ops
}

// take settles what has an outcome and keeps the busy items for another try.
func (s *slice) take(p part, results []sink.Result) {
	var busy []int
	for i, r := range results {
		if r.Outcome == sink.Busy && p.resends < s.m.cfg.Resends {
			busy = append(busy, p.ops[i])
			continue
		}
		s.batch.settle(p.ops[i], r, p.resends+1)
	}
	if len(busy) == 0 {
		return
	}
	s.batch.todo = append(s.batch.todo, part{busy, p.resends + 1})
	if !sleep(s.ctx, backoff(p.resends+1, 0)) {
		s.over = true
	}
}

// allBusy: where a first request got nothing through, the sink is in trouble
// and not some documents; that is retried without end.
func allBusy(p part, results []sink.Result) (Class, string) {
	if p.resends > 0 || len(results) == 0 {
		return 0, ""
	}
	for _, r := range results {
		if r.Outcome != sink.Busy {
			return 0, ""
		}
	}
	r := results[0]
	text := fmt.Sprintf("the sink took none of %d documents: status %d %s: %s", len(results), r.Status, r.Type, r.Reason)
	if r.Status >= 500 {
		return SinkFailed, text
	}
	return SinkRefused, text
}

// narrow halves a refused request until the poison stands alone. A single
// document that is too large is isolated; a single one that makes a bad request
// waits for an operator. A 429 that lasts may mean a request above the sink's
// memory limit, a connection that breaks each time one above the size limit.
func (s *slice) narrow(class Class, text string, err error) {
	status := 0
	if e, ok := errors.AsType[*sink.RequestError](err); ok {
		status = e.Status
	}
	single := len(s.batch.todo[0].ops) == 1
	switch {
	case !single && (status == 413 || status == 400):
		s.halve()
		return
	case status == 413:
		s.isolate(MessageTooBig, text, err)
		return
	}
	if single { // let its neighbours pass
		s.batch.todo = append(s.batch.todo[1:], s.batch.todo[0])
	}
	s.wait(class, text, retryAfter(err))
	if !single && s.retry.Attempts >= lasting && (status == 429 || class == Network) {
		s.halve()
	}
}

// halve replaces the first part by its halves.
func (s *slice) halve() {
	p := s.batch.todo[0]
	half := len(p.ops) / 2
	s.batch.todo = append([]part{{p.ops[:half], p.resends}, {p.ops[half:], p.resends}}, s.batch.todo[1:]...)
}

// isolate makes a failure of what cannot pass: in load the one document of the
// part, in extract the unreadable batch.
func (s *slice) isolate(class Class, text string, err error) {
	switch s.state {
	case Load:
		p := s.batch.todo[0]
		if len(p.ops) > 1 {
			s.halve()
			return
		}
		r := sink.Result{Reason: text}
		if e, ok := errors.AsType[*sink.RequestError](err); ok {
			r.Status, r.Type = e.Status, e.Type
		}
		for _, at := range p.ops {
			s.batch.refuse(at, class, r, s.retry.Attempts+1)
		}
		s.batch.todo = s.batch.todo[1:]
	case Extract:
		b, ok := unreadable(s.position, err)
		if !ok {
			s.wait(class, text, 0)
			return
		}
		s.batch = b
		s.state = StepOf(Extract, Event(class)).Next
		s.tell()
	default:
		s.reset(class, text)
	}
}

// --- errors ---

// stateErrors puts the failures of the batch into the errors topic.
func (s *slice) stateErrors() {
	b := s.batch
	recs, err := s.records()
	if err != nil {
		s.fail(err)
		return
	}
	if len(recs) > 0 {
		ctx, cancel := context.WithTimeout(s.ctx, s.m.cfg.CallLimit)
		defer cancel()
		if err := guard(func() error { return s.m.errors.Append(ctx, recs) }); err != nil {
			s.fail(err)
			return
		}
	}
	for i := range b.failures {
		s.stated[b.failures[i].offset] = true
	}
	b.failures = nil
	if len(b.todo) > 0 {
		s.on(StatedEarly)
		return
	}
	s.on(StatedLate)
}

// records builds what the errors topic does not have yet.
func (s *slice) records() ([]kafkalog.Record, error) {
	now := s.m.cfg.Now()
	var recs []kafkalog.Record
	for i := range s.batch.failures {
		f := &s.batch.failures[i]
		if s.stated[f.offset] {
			continue
		}
		if f.fetch {
			if err := s.original(f); err != nil {
				return nil, err
			}
		}
		recs = append(recs, s.m.record(f, s.batch.shrink, now))
	}
	return recs, nil
}

// original reads the record of a refused document again: keeping the bytes of
// every page until its document is loaded would double the memory. A record
// that is gone meanwhile, or that cannot be read any more, becomes a pointer.
func (s *slice) original(f *failure) error {
	found := false
	_, _, err := s.m.read(s.ctx, f.offset, minWait, func(r kafkalog.Record) error {
		if r.Offset == f.offset {
			f.rec, found = clone(&r), true
		}
		return errFull
	})
	if err != nil && !errors.Is(err, errFull) {
		class, _ := Classify(Extract, err)
		if class != OffsetNotFound && class != MessageTooBig {
			return err
		}
	}
	f.fetch, f.pointer = false, !found
	return nil
}

// shrink leaves out ever smaller originals until the errors topic takes them.
func (s *slice) shrink(class Class, text string) {
	switch b := s.batch; {
	case b.shrink < 0:
		b.shrink = 900_000
	case b.shrink > 1000:
		b.shrink = 1000
	case b.shrink > 0:
		b.shrink = 0
	default: // not even headers: somebody has to raise the topic's limit
		s.wait(class, text, 0)
	}
}
