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
