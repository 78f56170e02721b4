package ingest

import (
	"context"
	"fmt"
	"time"

	"trawl/internal/contract"
	"trawl/internal/sink"
)

const (
	// lasting is how many times a 429 is retried whole before the request is
	// halved: a bulk above the indexing pressure limit never passes.
	lasting = 4
	// Bounds of one wait for records.
	minWait = 10 * time.Millisecond
	maxWait = 5 * time.Second
	// lastCall is what a slice leaves of its caller's own time, so that it is an
	// answer and not a time-out that ends it.
	lastCall = 15 * time.Second
	// growAfter is how many batches the sink has to take, one after the other,
	// before they are larger again.
	growAfter = 8
	// maxHalved bounds how small batches get: one record.
	maxHalved = 16
	// maxErrorText of a retry record: it travels through workflow history.
	maxErrorText = 500
)

// slice is one run of Machine.Slice: a batch in hand, the next one on its way.
type slice struct {
	m   *Machine
	ctx context.Context
	// work ends with ctx, and when a batch in hand has to be given up.
	work context.Context
	in   contract.LoadInput
	to   sink.Sink

	deadline  time.Time
	idleSince time.Time // zero: something came last
	over      bool

	state    State
	start    int64
	position int64
	end      int64
	ledger   contract.Ledger
	retry    contract.RetryState
	good     int       // batches loaded without trouble since the last
	due      time.Time // when the rate allows the next batch
	vanished bool      // the topic was not there: it may be another one now

	batch *batch // in hand, from transform to the position
	kept  keeping
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
// errors topic fail beyond the time box, or are slower than its grace: then the
// next slice takes smaller ones. All of these are successes: the result
// says what was done, the state, and in Retry.NextTry when to come back if
// something fails. The ledger covers exactly [Start, Position). An error means
// that the call itself was wrong.
func (m *Machine) Slice(ctx context.Context, in contract.LoadInput) (contract.LoadResult, error) {
	if in.TimeBox <= 0 {
		return contract.LoadResult{}, fmt.Errorf("load: time box %s: give it more than 0", in.TimeBox)
	}
	s := &slice{
		m: m, ctx: ctx, in: in, to: m.sink, deadline: time.Now().Add(in.TimeBox),
		start: in.Position, position: in.Position, end: -1, retry: in.Retry, stated: map[int64]bool{},
	}
	s.retry.NextTry = time.Time{}
	s.vanished = in.Retry.Attempts > 0 && Class(in.Retry.Class).vanishes()
	end := s.deadline.Add(m.cfg.Grace)
	if d, ok := ctx.Deadline(); ok && d.Add(-lastCall).Before(end) {
		end = d.Add(-lastCall)
	}
	work, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	s.work = work
	defer s.drop()
	for !s.ended() {
		s.step()
	}
	s.keep()
	return contract.LoadResult{
		Start: s.start, Position: s.position, End: s.end, Ledger: s.ledger, State: s.state.String(), Retry: s.retry,
		Resume: s.resume(), Moved: s.kept.moved,
	}, nil
}

// ended is asked between steps. A batch in hand is worked on beyond the time
// box as long as nothing fails and its grace lasts.
func (s *slice) ended() bool {
	if s.over || s.ctx.Err() != nil {
		return true
	}
	if s.batch != nil {
		if s.work.Err() != nil {
			s.tooSlow()
		}
		return s.over
	}
	if until := s.until(); until >= 0 && s.position >= until || s.full() {
		return true
	}
	return !time.Now().Before(s.deadline)
}

func (s *slice) step() {
	switch s.state {
	case Configure:
		s.configure()
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
// Nor is the errors topic because what came before the sink was stated, perhaps
// long ago: what comes after it may be what fails, so that ends with the batch.
func (s *slice) on(e Event) {
	if s.retry.Attempts > 0 && s.retry.State == s.state.String() && e != StatedEarly {
		s.calm()
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
	if s.kept.span != nil {
		s.kept.span.Mark()
	}
	s.pace(s.batch.ledger.Offsets - s.batch.ledger.Compacted)
	s.batch = nil
	clear(s.stated)
	if s.retry.State == Errors.String() {
		s.calm()
	}
	if s.good++; s.good >= growAfter && s.retry.Halved > 0 {
		s.retry.Halved--
		s.good = 0
	}
}

// fail takes the step of an error.
func (s *slice) fail(err error) {
	if s.ctx.Err() != nil {
		s.over = true // our own cancellation is no error
		return
	}
	if s.batch != nil && s.work.Err() != nil {
		s.tooSlow()
		return
	}
	class, why := Classify(s.state, err)
	text := fmt.Sprintf("%s (%s)", err, why)
	s.vanished = s.vanished || class.vanishes() && s.state == Extract
	defer s.point(s.state, err)
	step := StepOf(s.state, Event(class))
	switch step.Do {
	case Retry:
		s.wait(class, text, retryAfter(err))
	case Narrow:
		s.narrow(class, text, err)
	case Shrink:
		s.shrink(class, text)
	case Isolate:
		s.isolate(class, step.Next, text, err)
	case Reposition:
		s.reposition(class, text)
	default: // Reset, Impossible, or an action that is none of an error's
		s.reset(class, step.Next, text)
	}
}

// note counts an attempt that failed.
func (s *slice) note(class Class, text string) {
	if s.retry.State != s.state.String() {
		s.retry = contract.RetryState{State: s.state.String(), Halved: s.retry.Halved}
	}
	s.retry.Class, s.retry.Error = int(class), cutText(text)
	if s.retry.Attempts == 0 {
		s.retry.Since = s.m.cfg.Now()
	}
	s.retry.Attempts++
	s.good = 0
}

// calm ends the retries.
func (s *slice) calm() { s.retry = contract.RetryState{Halved: s.retry.Halved} }

// smaller makes later batches half as large.
func (s *slice) smaller() { s.retry.Halved = min(s.retry.Halved+1, maxHalved) }

// wait counts the attempt and pauses. If the pause does not fit the time box,
// the slice is over and the workflow waits instead.
func (s *slice) wait(class Class, text string, asked time.Duration) {
	s.note(class, text)
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

// tooSlow gives up the batch in hand: nothing failed for good, but the slice
// has to end. Its position does not move, and what was acknowledged of it
// changes nothing when it is done again.
func (s *slice) tooSlow() {
	class, why := Classify(s.state, context.DeadlineExceeded)
	text := fmt.Sprintf("offsets %d to %d were not done %s after the time box (%s): the next batch has half the records",
		s.batch.from, s.batch.next-1, s.m.cfg.Grace, why)
	s.wait(class, text, 0)
	s.smaller()
	s.over = true
}

// reset forgets what is in flight and configures again.
func (s *slice) reset(class Class, next State, text string) {
	s.wait(class, text, 0)
	s.drop()
	s.giveUp()
	if s.over {
		return
	}
	s.state = next
	if s.m.cfg.Rebuild != nil {
		ctx, cancel := context.WithTimeout(s.work, s.m.cfg.CallLimit)
		defer cancel()
		if err := guard(func() error { return s.m.cfg.Rebuild(ctx) }); err != nil {
			s.retry.Error = cutText(text + "; fresh clients: " + err.Error())
		}
	}
	if s.pending() { // what was acknowledged before is not lost with it
		s.over = true
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
