package ingest

import (
	"context"
	"fmt"
	"slices"

	"trawl/internal/sink"
)

// load sends one part of the batch.
func (s *slice) load() {
	b := s.batch
	if len(b.todo) == 0 {
		s.loaded()
		return
	}
	p := b.todo[0]
	results, err := s.write(b.pick(p))
	if err == nil {
		err = b.stuck(p, results)
	}
	if err != nil {
		if len(p.ops) == 1 {
			err = &aloneError{err}
		}
		s.fail(err)
		return
	}
	b.todo = b.todo[1:]
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
	ctx, cancel := context.WithTimeout(s.work, s.m.cfg.CallLimit)
	defer cancel()
	err = guard(func() (err error) {
		if s.kept.span != nil {
			results, err = s.kept.span.Write(ctx, ops)
		} else {
			results, err = s.to.Write(ctx, ops)
		}
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
	var busy, waiting []int
	var last sink.Result
	settled := s.batch.settled
	for i, r := range results {
		switch {
		case r.Outcome == sink.Busy && blocked(r):
			waiting = append(waiting, p.ops[i])
		case r.Outcome == sink.Busy && p.resends < s.m.cfg.Resends:
			busy, last = append(busy, p.ops[i]), r
		default:
			s.batch.settle(p.ops[i], r, p.resends+1)
			s.batch.settled++
		}
	}
	if s.batch.settled > settled && s.retry.State == Load.String() {
		s.calm() // it moves again
	}
	if len(waiting) > 0 { // sent alone it is stuck, and waits as such
		s.batch.todo = append(s.batch.todo, part{waiting, p.resends})
	}
	if len(busy) > 0 {
		s.batch.todo = append(s.batch.todo, part{busy, p.resends + 1})
		s.resend(len(busy), p.resends+1, last)
	}
}

// resend pauses before busy items are sent again.
func (s *slice) resend(items, attempts int, r sink.Result) {
	err := &itemError{r}
	class, _ := Classify(Load, err)
	s.note(class, fmt.Sprintf("%d documents wait to be sent again: %s", items, err))
	s.tell()
	sleep(s.work, backoff(attempts, 0))
}

// stuck gives the error of a request that got nothing through: the sink is in
// trouble and not some documents, so that is retried without end. Documents
// that were busy before, or the last one alone, have no such excuse.
func (b *batch) stuck(p part, results []sink.Result) error {
	if len(results) == 0 || slices.ContainsFunc(results, func(r sink.Result) bool { return r.Outcome != sink.Busy }) {
		return nil
	}
	r := results[0]
	if !blocked(r) && (p.resends > 0 || len(p.ops) == 1 && b.settled > 0) {
		return nil
	}
	return &sink.RequestError{
		Status: r.Status, Type: r.Type, Reason: fmt.Sprintf("it took none of %d documents: %s", len(results), r.Reason),
	}
}

// narrow waits, and halves a refused request until the poison stands alone. A
// single document that makes a bad request waits for an operator. What lasts
// may mean a request that is too much for the sink: then later batches are
// smaller, too.
func (s *slice) narrow(class Class, text string, err error) {
	single := len(s.batch.todo[0].ops) == 1
	c := cureOf(err)
	if c == halveSoon && !single {
		s.halve()
		return
	}
	if single { // let its neighbours pass
		s.batch.todo = append(s.batch.todo[1:], s.batch.todo[0])
	}
	s.wait(class, text, retryAfter(err))
	if c == halveLater && s.retry.Attempts >= lasting {
		s.smaller()
		if !single {
			s.halve()
		}
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
func (s *slice) isolate(class Class, next State, text string, err error) {
	switch s.state {
	case Load:
		p := s.batch.todo[0]
		if len(p.ops) > 1 {
			s.halve()
			return
		}
		for _, at := range p.ops {
			s.batch.refuse(at, class, answerOf(err, text), s.retry.Attempts+1)
		}
		s.batch.todo = s.batch.todo[1:]
	case Extract:
		b, ok := s.unreadable(class, err)
		if !ok {
			s.wait(class, text, 0)
			return
		}
		s.batch = b
		s.state = next
		s.tell()
	default:
		s.reset(class, next, text)
	}
}
