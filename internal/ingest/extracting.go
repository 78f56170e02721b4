package ingest

import (
	"context"
	"fmt"
	"time"

	"trawl/internal/contract"
)

// configure makes the sink ready and finds the position.
func (s *slice) configure() {
	if s.m.cfg.Open != nil {
		if err := s.open(); err != nil {
			s.fail(err)
			return
		}
	}
	if s.position < 0 && s.m.cfg.Policy == FromZero {
		s.position, s.start = 0, 0
	}
	if s.position < 0 {
		s.fail(errNoPosition)
		return
	}
	if err := s.begin(); err != nil {
		s.fail(err)
		return
	}
	s.on(Configured)
	if s.m.cfg.Settle && s.in.Position < 0 {
		s.over = true
	}
}

func (s *slice) open() error {
	ctx, cancel := context.WithTimeout(s.work, s.m.cfg.CallLimit)
	defer cancel()
	return guard(func() error {
		to, at, err := s.m.cfg.Open(ctx, s.position)
		if err != nil {
			return err
		}
		s.to = to
		if s.position < 0 && at.Position >= 0 {
			s.position, s.start = at.Position, at.Position
			s.in.Skips = contract.AddSkips(s.in.Skips, at.Skips)
		}
		return nil
	})
}

func (s *slice) extract() {
	if !s.paced() {
		return
	}
	b, err := s.next()
	if err != nil {
		if b = s.leftOut(err); b == nil {
			s.fail(err)
			return
		}
	}
	if b == nil { // the slice ended while waiting
		return
	}
	if s.vanished && b.high >= 0 && b.high < s.seen() {
		s.madeAgain()
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
	if until := s.until(); until < 0 || b.next < until {
		s.fetch(b.next)
	}
}

// nothing ends the slice when the log has been quiet for long enough. A span
// that has something uses its whole time, so that there are fewer of them.
func (s *slice) nothing() {
	s.on(GotNothing)
	if s.idleSince.IsZero() {
		s.idleSince = time.Now()
	}
	if time.Since(s.idleSince)+minWait > s.in.IdleWait && !s.pending() {
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
	want := wishes{halved: s.retry.Halved, until: s.until(), skips: s.in.Skips, rate: s.in.Rate}
	go func() {
		defer close(a.done)
		a.batch, a.err = s.m.prepare(ctx, from, wait, want)
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
	first, end, err := s.bounds()
	if err != nil {
		c, why := Classify(s.state, err)
		if StepOf(s.state, Event(c)).Do != Reposition {
			s.fail(err)
			return
		}
		s.wait(c, fmt.Sprintf("%s (%s)", err, why), 0)
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
		first = s.within(first) // what is kept beyond it is not lost
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

func (s *slice) bounds() (first, end int64, err error) {
	ctx, cancel := context.WithTimeout(s.work, s.m.cfg.CallLimit)
	defer cancel()
	err = guard(func() (err error) {
		first, end, err = s.m.source.Bounds(ctx)
		return err
	})
	return first, end, err
}

// back handles a log that is shorter than our position: its tail is lost, or
// the topic was made again. A ledger covers one range, so that what was done
// before goes out first.
func (s *slice) back(first, end int64, class Class, text string) {
	if s.ledger.Offsets > 0 {
		s.over = true
		if s.vanished {
			class, s.end = TopicNotFound, s.seen()
		}
		s.retry = contract.RetryState{
			State: s.state.String(), Class: int(class), Attempts: 1, NextTry: s.m.cfg.Now(), Since: s.m.cfg.Now(), Error: cutText(text), Halved: s.retry.Halved,
		}
		return
	}
	if err := s.renew(end); err != nil {
		s.state = Configure // where the sink is asked
		s.fail(err)
		return
	}
	s.position = end
	if s.m.cfg.Policy == FromZero || s.vanished {
		s.position = first
	}
	s.vanished = false
	s.start = s.position
	if s.kept.span != nil { // it began elsewhere
		s.discard()
		s.state = Configure
	}
	s.tell()
}
