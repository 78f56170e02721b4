package redrive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// Topics reads topics record by record, as kafkalog.Log does.
type Topics interface {
	Read(ctx context.Context, topic string, partition int, from int64, maxBytes int, maxWait time.Duration, fn func(kafkalog.Record) error) (next, high int64, err error)
	ReadAt(ctx context.Context, topic string, partition int, offset int64) (kafkalog.Record, bool, error)
	Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error)
}

// TransformFunc is the loader's transform of one source: the record has the
// offset, time, key, value and headers that it has there.
type TransformFunc func(rec *kafkalog.Record, topic string, partition int) (sink.Op, bool, error)

// Config of a Source.
type Config struct {
	Log       Topics
	Topic     string // the errors topic
	Partition int    // of the errors topic
	Index     *Index // of the window that is read
	Select    contract.RedriveSelect
	Redrive   string  // marks what is stated
	Rate      float64 // records a second; 0: no limit
	Transform TransformFunc
}

// Source gives the selected open failures of one partition of an errors topic
// to a loader's machine as if they came from their source: it is the machine's
// ingest.Source, its transform and its Restate. Offsets towards the machine are
// those of the errors topic.
type Source struct {
	cfg  Config
	next time.Time // when the rate allows the next record; Read only

	mu      sync.Mutex
	items   map[int64]*item  // given to the machine and not behind its position
	settled map[int64]Status // by an earlier attempt of this redrive
	refused map[int64]bool   // redriven too often
}

// item is a failure on its way, without its bytes.
type item struct {
	ingest.Failure
	trouble *ingest.RecordError // why the original cannot be had
}

// New makes a Source.
func New(cfg Config) *Source {
	return &Source{cfg: cfg, items: map[int64]*item{}, settled: map[int64]Status{}, refused: map[int64]bool{}}
}

// errPause ends one Read: the rate allows no more at the moment.
var errPause = errors.New("the rate is used up")

// Read implements ingest.Source. It ends at the window's end.
func (s *Source) Read(ctx context.Context, from int64, maxBytes int, maxWait time.Duration, fn func(kafkalog.Record) error) (next, high int64, err error) {
	_, to := s.cfg.Index.Window()
	if from >= to {
		return from, to, nil
	}
	given := 0
	next, _, err = s.cfg.Log.Read(ctx, s.cfg.Topic, s.cfg.Partition, from, maxBytes, maxWait, func(r kafkalog.Record) error {
		if r.Offset >= to {
			return errPause
		}
		it := s.consider(&r)
		if it == nil {
			return nil
		}
		if s.item(r.Offset) == nil { // else it is read once more
			if err := s.pace(ctx, given); err != nil {
				return err
			}
		}
		given++
		rec, err := s.original(ctx, it, &r)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.items[r.Offset] = it
		s.mu.Unlock()
		return fn(rec)
	})
	if errors.Is(err, errPause) {
		err = nil
	}
	return min(next, to), to, err
}

// Bounds implements ingest.Source.
func (s *Source) Bounds(ctx context.Context) (first, end int64, err error) {
	return s.cfg.Log.Bounds(ctx, s.cfg.Topic, s.cfg.Partition)
}

// consider gives the failure that a record states, if it is to be sent again.
func (s *Source) consider(r *kafkalog.Record) *item {
	f, ok := ingest.ParseFailure(r)
	if !ok || !f.Opens() || !Takes(s.cfg.Select, &f) {
		return nil
	}
	k, ok := s.cfg.Index.last(f.ID, r.Offset)
	if !ok {
		return nil
	}
	f.Redrives = max(f.Redrives, int(k.redrives))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !Pending(s.cfg.Select, k.status):
		if k.mine {
			s.settled[r.Offset] = k.status
		}
		return nil
	case Refused(s.cfg.Select, &f):
		s.refused[r.Offset] = true
		return nil
	}
	return &item{Failure: f}
}

// pace waits until the rate allows a record; where some were given already it
// ends the Read, so that these are not held up.
func (s *Source) pace(ctx context.Context, given int) error {
	if s.cfg.Rate <= 0 {
		return nil
	}
	now := time.Now()
	if wait := s.next.Sub(now); wait > 0 {
		if given > 0 {
			return errPause
		}
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	each := time.Duration(float64(time.Second) / s.cfg.Rate)
	if s.next.Before(now.Add(-time.Second)) {
		s.next = now
	}
	s.next = s.next.Add(each)
	return nil
}

// original is the record as it was in the source, under its offset in the
// errors topic. What the errors topic lacks is read from the source.
func (s *Source) original(ctx context.Context, it *item, r *kafkalog.Record) (kafkalog.Record, error) {
	rec := it.Original
	rec.Offset = r.Offset
	it.Original = kafkalog.Record{} // its memory is the reader's
	if !it.Pointer && it.Cut == 0 {
		return rec, nil
	}
	found, ok, err := s.cfg.Log.ReadAt(ctx, it.Topic, it.Partition, it.Offset)
	switch {
	case err != nil:
		class, why := ingest.Classify(ingest.Extract, err)
		if !class.Unrecoverable() {
			return rec, err
		}
		it.trouble = &ingest.RecordError{Class: class, Err: fmt.Errorf("the original cannot be read: %s: %w", why, err)}
	case !ok:
		it.trouble = &ingest.RecordError{Class: ingest.OffsetNotFound, Err: fmt.Errorf(
			"the original is gone from %s partition %d offset %d: discard it", it.Topic, it.Partition, it.Offset)}
	case !same(it, &rec, &found):
		it.trouble = &ingest.RecordError{Class: ingest.OffsetNotFound, Err: fmt.Errorf(
			"%s partition %d holds another record at offset %d by now: the topic was made again; discard it", it.Topic, it.Partition, it.Offset)}
	default:
		it.Cut = 0
		found.Offset = r.Offset
		return found, nil
	}
	return rec, nil
}

// same tells whether a record of the source is the one that failed, as far as
// the errors topic knows.
func same(it *item, stated, found *kafkalog.Record) bool {
	if !stated.Time.IsZero() && stated.Time.UnixMilli() != found.Time.UnixMilli() {
		return false
	}
	return len(stated.Key) == 0 || string(stated.Key) == it.ID || bytes.Equal(stated.Key, found.Key)
}

func (s *Source) item(offset int64) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[offset]
}

// Transform is the machine's transform.
func (s *Source) Transform(rec *kafkalog.Record) (sink.Op, bool, error) {
	it := s.item(rec.Offset)
	if it == nil {
		return sink.Op{}, false, fmt.Errorf("offset %d was not given", rec.Offset)
	}
	if it.trouble != nil {
		return sink.Op{}, false, it.trouble
	}
	own := *rec
	own.Offset = it.Offset
	return s.cfg.Transform(&own, it.Topic, it.Partition)
}

// Restate is the machine's Restate: a resolution, or the same failure with one
// redrive more.
func (s *Source) Restate(f ingest.Failure, above int) (kafkalog.Record, bool) {
	it := s.item(f.Offset)
	if it == nil {
		return kafkalog.Record{}, false
	}
	out := it.Failure
	out.Time, out.Type, out.Redrive = f.Time, f.Type, s.cfg.Redrive
	if f.Resolution != "" {
		out.Resolution, out.Reason = f.Resolution, ""
		out.Original = kafkalog.Record{Key: []byte(out.ID), Value: []byte{}}
		out.Pointer, out.Cut = false, 0
		return out.Record(above), true
	}
	out.Class, out.State, out.Status, out.Reason, out.Resolution = f.Class, f.State, f.Status, f.Reason, ""
	out.Attempts += f.Attempts
	out.Redrives++
	out.Original = f.Original
	out.Pointer = out.Pointer || f.Pointer
	return out.Record(above), true
}

// Forget drops what lies behind the machine's position.
func (s *Source) Forget(position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.items {
		if at < position {
			delete(s.items, at)
		}
	}
}

// Counts are those of the offsets from start to position, given the machine's
// ledger of the same range.
func (s *Source) Counts(l contract.Ledger, start, position int64) contract.RedriveCounts {
	c := contract.RedriveCounts{
		Loaded: l.Loaded + l.Deleted, Superseded: l.Superseded, NoDocument: l.NoDocument, Failed: l.Errors,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := func(at int64) bool { return at >= start && at < position }
	for at := range s.refused {
		if in(at) {
			c.Refused++
		}
	}
	for at, status := range s.settled {
		if !in(at) {
			continue
		}
		switch status {
		case Superseded:
			c.Superseded++
		case NoDocument:
			c.NoDocument++
		case FailedAgain:
			c.Failed++
		default:
			c.Loaded++
		}
	}
	c.Taken = c.Loaded + c.Superseded + c.NoDocument + c.Failed
	return c
}
