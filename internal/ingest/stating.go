package ingest

import (
	"context"
	"errors"
	"time"

	"trawl/internal/kafkalog"
)

const firstPatience = 5 * time.Second

// stateErrors puts the failures of the batch into the errors topic.
func (s *slice) stateErrors() {
	b := s.batch
	recs, err := s.records()
	if err != nil {
		s.fail(err)
		return
	}
	if len(recs) > 0 {
		ctx, cancel := context.WithTimeout(s.work, s.patience())
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

// patience is how long one try to state errors may take. The log tries again by
// itself until then, so the first tries are short: the state has to say what is
// the matter.
func (s *slice) patience() time.Duration {
	tries := 1
	if s.retry.State == Errors.String() {
		tries += s.retry.Attempts
	}
	return min(time.Duration(tries)*firstPatience, s.m.cfg.CallLimit)
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
		if rec, ok := s.m.record(f, s.batch.shrink, now); ok {
			recs = append(recs, rec)
		}
	}
	return recs, nil
}

// original reads the record of a refused document again: keeping the bytes of
// every page until its document is loaded would double the memory. A record
// that is gone meanwhile, or that cannot be read any more, becomes a pointer.
func (s *slice) original(f *failure) error {
	found := false
	_, _, err := s.m.read(s.work, f.offset, minWait, func(r kafkalog.Record) error {
		if r.Offset == f.offset {
			f.rec, found = clone(&r), true
		}
		return errFull
	})
	if err != nil && !errors.Is(err, errFull) && !lost(err) {
		return err
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
