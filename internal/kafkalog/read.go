package kafkalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// rangeFetch is ReadRange's size of a fetch.
	rangeFetch = 4 << 20
	// rangeStalls is how many fetches without progress ReadRange endures.
	rangeStalls = 20
	maxFetch    = 64 << 20
)

// Read asks the partition's leader once for records from an offset on and
// gives them to fn in order. It waits at most maxWait for the first, and asks
// for about maxBytes of batches as they lie in the log (1 byte gives one batch;
// at most 64 MiB; the first batch comes whole whatever its size).
//
// next is the offset to ask for next. It may be ahead of the last record given,
// or of from without any record: control records, aborted transactions and
// compacted offsets are stepped over. Nothing but a full stop at high says that
// the log ends, and even then Ends has the last word. high is the end of what
// was readable when the broker answered, -1 after an error.
//
// An error of fn ends the call: it is returned as it is, with the offset of the
// record that fn refused as next. Any other error is an *Error; a batch that
// cannot be decoded has a *BatchError in its chain, and next is where it
// begins. Offsets outside the log are KindOffset.
func (l *Log) Read(ctx context.Context, topic string, partition int, from int64, maxBytes int, maxWait time.Duration, fn func(Record) error) (next, high int64, err error) {
	return l.read(ctx, committed, topic, partition, from, maxBytes, maxWait, fn)
}

// ReadUncommitted is Read, but gives records of open and aborted transactions,
// too: high is the end of what all replicas in sync have.
func (l *Log) ReadUncommitted(ctx context.Context, topic string, partition int, from int64, maxBytes int, maxWait time.Duration, fn func(Record) error) (next, high int64, err error) {
	return l.read(ctx, uncommitted, topic, partition, from, maxBytes, maxWait, fn)
}

func (l *Log) read(ctx context.Context, level isolation, topic string, partition int, from int64, maxBytes int, maxWait time.Duration, fn func(Record) error) (next, high int64, err error) {
	maxBytes = min(max(maxBytes, 1), maxFetch)
	maxWait = max(maxWait, 0)
	var f *fetched
	err = l.run(ctx, "read", topic, partition, func(ctx context.Context) (err error) {
		f, err = l.fetch(ctx, level, topic, partition, from, maxBytes, maxWait)
		return err
	})
	if err != nil {
		return from, -1, err
	}
	defer f.release()
	next, err = l.deliver(f, from, fn)
	var stop *stopped
	if errors.As(err, &stop) {
		return stop.at, f.high, stop.err
	}
	if err != nil {
		err = &Error{"read", topic, partition, kindOfCause(err), err}
	}
	return next, f.high, err
}

// deliver gives the records of an answer to fn and says where it ends.
func (l *Log) deliver(f *fetched, from int64, fn func(Record) error) (next int64, err error) {
	next = from
	dead := transactions{listed: f.aborted}
	whole := false
	for rest := f.records; ; {
		bt, tail, ok, err := nextBatch(rest)
		if err != nil {
			return next, err
		}
		if !ok {
			break
		}
		rest, whole = tail, true
		if !dead.hides(&bt) && bt.last >= next {
			if err := l.deliverBatch(&bt, next, fn); err != nil {
				return next, err
			}
		}
		next = max(next, bt.last+1)
	}
	if !whole && len(f.records) > 0 {
		return next, fmt.Errorf("answer of %d bytes without one whole batch", len(f.records))
	}
	return next, nil
}

func (l *Log) deliverBatch(bt *batch, from int64, fn func(Record) error) error {
	plain, done, err := l.plain(bt)
	if err != nil {
		return err
	}
	defer done()
	if err := bt.check(plain); err != nil {
		return err
	}
	return bt.each(plain, from, fn)
}

// transactions tells which batches of an answer are not to be seen: control
// batches, and data of producers whose transaction was aborted, from its first
// offset to its marker.
type transactions struct {
	listed []abortedTxn
	open   map[int64]bool
}

func (t *transactions) hides(bt *batch) bool {
	for len(t.listed) > 0 && t.listed[0].first <= bt.last {
		if t.open == nil {
			t.open = map[int64]bool{}
		}
		t.open[t.listed[0].producer] = true
		t.listed = t.listed[1:]
	}
	if bt.attrs&attrControl != 0 {
		if bt.abortMarker() {
			delete(t.open, bt.producer)
		}
		return true
	}
	return bt.attrs&attrTransactional != 0 && t.open[bt.producer]
}

var errStop = errors.New("stop")

// ReadRange reads the offsets from (included) to end (excluded), by as many
// fetches as it takes. next is end, or where an error struck: the call can go
// on there. A log that stays shorter than end for ten seconds is KindOffset:
// its tail is lost.
func (l *Log) ReadRange(ctx context.Context, topic string, partition int, from, end int64, fn func(Record) error) (next int64, err error) {
	bounded := func(r Record) error {
		if r.Offset >= end {
			return errStop
		}
		return fn(r)
	}
	stalls := 0
	for next = from; next < end; {
		before := next
		var high int64
		next, high, err = l.Read(ctx, topic, partition, next, rangeFetch, l.limits.stall, bounded)
		if errors.Is(err, errStop) {
			return end, nil
		}
		if err != nil {
			return next, err
		}
		if next > before {
			stalls = 0
			continue
		}
		if stalls++; stalls == rangeStalls {
			err := fmt.Errorf("the log can be read to %d, not to %d", high, end)
			return next, &Error{"read", topic, partition, KindOffset, err}
		}
	}
	return max(from, end), nil
}

// ReadAt gives a copy of the record at exactly this offset; false if the log
// has none there (compacted, a control record, outside the log).
func (l *Log) ReadAt(ctx context.Context, topic string, partition int, offset int64) (Record, bool, error) {
	var rec Record
	found := false
	_, _, err := l.Read(ctx, topic, partition, offset, 1, 0, func(r Record) error {
		if r.Offset == offset {
			rec, found = r.clone(), true
		}
		return errStop
	})
	if err != nil && !errors.Is(err, errStop) && KindOf(err) != KindOffset {
		return Record{}, false, err
	}
	return rec, found, nil
}

func (r Record) clone() Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	headers := r.Headers
	r.Headers = nil
	for _, h := range headers {
		r.Headers = append(r.Headers, Header{h.Key, bytes.Clone(h.Value)})
	}
	return r
}
