package ingest

import (
	"context"
	"errors"
	"fmt"

	"trawl/internal/contract"
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
