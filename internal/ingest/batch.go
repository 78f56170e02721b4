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

// maxIsolated bounds the offsets of an unreadable batch that are stated one by
// one; more is left to an operator.
const maxIsolated = 10_000

// maxAbandoned bounds the transforms that never came back: each holds a
// goroutine and a record for ever.
const maxAbandoned = 16

// batch is a range of offsets with what became of it.
type batch struct {
	from, next int64
	high       int64 // end of the log when it was read, -1 if unknown

	ops     []sink.Op
	offsets []int64 // of each op
	todo    []part  // ops that wait for the sink

	failures []failure // not yet acknowledged by the errors topic
	shrink   int       // size above which the errors topic gets a pointer; -1: none
	restate  bool      // the errors topic is also told what did not fail

	settled int   // ops that have an outcome
	bytes   int64 // of the source records
	ledger  contract.Ledger
}

// part is a set of ops that go to the sink in one request: indexes into
// batch.ops.
type part struct {
	ops     []int
	resends int // of items that were busy
}

var errFull = errors.New("batch is full")

// prepare extracts and transforms the next batch. An error means that there is
// no batch; what came before an error is a batch, and the error comes again.
func (m *Machine) prepare(ctx context.Context, from int64, wait time.Duration, want wishes) (*batch, error) {
	b := &batch{from: from, next: from, high: -1, shrink: -1, restate: m.cfg.Restate != nil}
	size, started := 0, time.Now()
	mostBytes, mostRecords := max(m.cfg.BatchBytes>>want.halved, 1), want.records(m.cfg.BatchCount)
	add := func(r kafkalog.Record) error {
		if r.Offset < b.next {
			return nil // of a compressed batch that begins before
		}
		if want.until >= 0 && r.Offset >= want.until {
			b.next = want.until // what lies between is accounted for
			return errFull
		}
		if size >= mostBytes || len(b.ops)+len(b.failures) >= mostRecords {
			return errFull
		}
		if k := skipOf(want.skips, r.Offset); k != nil {
			size += b.leaveOut(&r, k)
		} else {
			size += m.add(b, &r)
		}
		b.next = r.Offset + 1
		return nil
	}
	for {
		at := b.next
		next, high, err := m.read(ctx, at, wait, add)
		if high >= 0 {
			b.high = high
		}
		switch {
		case errors.Is(err, errFull):
			return b.finish(), nil
		case err != nil && b.next > from:
			return b.finish(), nil
		case err != nil:
			return nil, err
		}
		b.next = max(b.next, next)
		if want.until >= from {
			b.next = min(b.next, want.until)
		}
		if b.next == at || b.next >= b.high || size >= mostBytes || time.Since(started) >= m.cfg.BatchAge {
			return b.finish(), nil
		}
		wait = 0
	}
}

func (m *Machine) read(ctx context.Context, from int64, wait time.Duration, fn func(kafkalog.Record) error) (next, high int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallLimit+wait)
	defer cancel()
	next, high = from, -1
	err = guard(func() (err error) {
		next, high, err = m.source.Read(ctx, from, m.cfg.FetchBytes, wait, fn)
		return err
	})
	return next, high, err
}

// add puts one record into the batch and gives the memory that it holds there.
func (m *Machine) add(b *batch, r *kafkalog.Record) int {
	b.ledger.Offsets++
	b.bytes += int64(len(r.Value))
	op, ok, err := m.apply(r)
	if err != nil {
		class, _ := Classify(Transform, err)
		f := failure{offset: r.Offset, class: class, state: Transform, reason: err.Error()}
		if e, ok := errors.AsType[*RecordError](err); ok {
			f.reason = e.Err.Error()
		}
		rec := *r
		if len(r.Value) > m.cfg.MaxRecord {
			f.pointer, rec.Value = true, nil
		}
		f.rec = clone(&rec)
		b.failures = append(b.failures, f)
		return len(f.rec.Key) + len(f.rec.Value) + 512
	}
	if !ok {
		b.ledger.NoDocument++
		b.resolve(r.Offset, Redriven, TypeNoDocument)
		return 64
	}
	b.ops = append(b.ops, op)
	b.offsets = append(b.offsets, r.Offset)
	return len(op.Doc) + len(op.ID) + 128
}

// apply transforms one record within all limits.
func (m *Machine) apply(r *kafkalog.Record) (op sink.Op, ok bool, err error) {
	if len(r.Value) > m.cfg.MaxRecord {
		return op, false, &RecordError{MessageTooBig, fmt.Errorf("record has %d bytes, more than %d", len(r.Value), m.cfg.MaxRecord)}
	}
	if m.cfg.TransformLimit > 0 {
		op, ok, err = m.limited(r)
	} else {
		err = guard(func() (err error) {
			op, ok, err = m.transform(r)
			return err
		})
	}
	if err != nil || !ok {
		return op, false, err
	}
	if len(op.Doc) > m.cfg.MaxRecord {
		return op, false, &RecordError{MessageTooBig, fmt.Errorf("document has %d bytes, more than %d", len(op.Doc), m.cfg.MaxRecord)}
	}
	if err := sink.CheckOp(op); err != nil {
		return op, false, &RecordError{InvalidEvent, err}
	}
	return op, true, nil
}

// limited leaves a transform behind that does not end in time. It works on a
// copy, because the reader takes its memory back.
func (m *Machine) limited(r *kafkalog.Record) (sink.Op, bool, error) {
	if n := m.abandoned.Load(); n >= maxAbandoned {
		return sink.Op{}, false, &RecordError{TransformFailed, fmt.Errorf("%d transforms never ended: restart the worker", n)}
	}
	type answer struct {
		op  sink.Op
		ok  bool
		err error
	}
	done := make(chan answer, 1)
	own := clone(r)
	go func() {
		var a answer
		a.err = guard(func() (err error) {
			a.op, a.ok, err = m.transform(&own)
			return err
		})
		done <- a
	}()
	t := time.NewTimer(m.cfg.TransformLimit)
	defer t.Stop()
	select {
	case a := <-done:
		return a.op, a.ok, a.err
	case <-t.C:
		m.abandoned.Add(1)
		return sink.Op{}, false, &RecordError{TransformFailed, fmt.Errorf("no end within %s", m.cfg.TransformLimit)}
	}
}

// finish accounts for the offsets without a record and readies the ops.
func (b *batch) finish() *batch {
	b.ledger.Compacted = b.next - b.from - b.ledger.Offsets
	b.ledger.Offsets = b.next - b.from
	b.ledger.Bytes = b.bytes
	for i := range b.failures {
		if b.failures[i].resolution == "" {
			b.ledger.Errors++
		}
	}
	if len(b.ops) > 0 {
		all := make([]int, len(b.ops))
		for i := range all {
			all[i] = i
		}
		b.todo = []part{{ops: all}}
	}
	return b
}

// unreadable is the batch that stands for a stored batch above our limits: one
// failure per offset that its header claims, from the position on.
func (s *slice) unreadable(class Class, err error) (*batch, bool) {
	from := s.position
	e, ok := errors.AsType[*kafkalog.BatchError](err)
	if !ok || e.Last < from || e.Last-from >= maxIsolated {
		return nil, false
	}
	b := &batch{from: from, next: s.within(e.Last + 1), high: -1, shrink: -1}
	for at := from; at < b.next; at++ {
		b.failures = append(b.failures, failure{
			offset: at, pointer: true, class: class, state: Extract, reason: err.Error(),
		})
	}
	b.ledger.Offsets = b.next - from
	b.ledger.Errors = b.ledger.Offsets
	return b, true
}

// settle notes the final outcome of an op.
func (b *batch) settle(i int, r sink.Result, attempts int) {
	switch {
	case r.Outcome == sink.Superseded:
		b.ledger.Superseded++
		b.resolve(b.offsets[i], Superseded, "")
	case r.Outcome == sink.Loaded && b.ops[i].Delete:
		b.ledger.Deleted++
		b.resolve(b.offsets[i], Redriven, TypeDeleted)
	case r.Outcome == sink.Loaded:
		b.ledger.Loaded++
		b.resolve(b.offsets[i], Redriven, TypeLoaded)
	default:
		class, _ := Classify(Load, &itemError{r})
		b.refuse(i, class, r, attempts)
		return
	}
	b.ops[i].Doc = nil // not needed any more; the batch may live through long retries
}

// resolve notes that a record is done with, where the errors topic is told.
func (b *batch) resolve(offset int64, resolution, kind string) {
	if b.restate {
		b.failures = append(b.failures, failure{offset: offset, resolution: resolution, kind: kind})
	}
}

func (b *batch) refuse(i int, c Class, r sink.Result, attempts int) {
	b.ledger.Errors++
	b.failures = append(b.failures, failure{
		offset: b.offsets[i], fetch: true, class: c, state: Load,
		status: r.Status, kind: r.Type, reason: r.Reason, attempts: attempts,
	})
}
