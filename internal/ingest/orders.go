package ingest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// wishes are what a slice asks of a batch.
type wishes struct {
	halved int   // how many times the limits are halved
	until  int64 // offset at which it ends; -1: none
	skips  []contract.Skip
	rate   float64 // records a second; 0: no limit
}

// records bounds a batch: with a rate, to what a second allows.
func (w wishes) records(most int) int {
	most = max(most>>w.halved, 1)
	if w.rate > 0 && w.rate < float64(most) {
		return max(int(w.rate), 1)
	}
	return most
}

// TypeOperator is the type of a failure that an operator asked for.
const TypeOperator = "operator"

// skipOf is the order that leaves an offset out, nil if none does.
func skipOf(skips []contract.Skip, offset int64) *contract.Skip {
	i := slices.IndexFunc(skips, func(k contract.Skip) bool { return k.From <= offset && offset <= k.Through })
	if i < 0 {
		return nil
	}
	return &skips[i]
}

// leaveOut accounts for a record that an operator leaves out, and gives the
// memory that it holds. The errors topic is told of a skip, too, before the
// position moves: nothing else remembers it for longer than the workflow. The
// record itself stays in its own topic.
func (b *batch) leaveOut(r *kafkalog.Record, k *contract.Skip) int {
	b.ledger.Offsets++
	b.bytes += int64(len(r.Value))
	f := ordered(r.Offset, k)
	if k.ToErrors {
		f.rec = clone(r)
	} else {
		b.ledger.Skipped++
		f.pointer, f.rec = true, kafkalog.Record{Offset: r.Offset, Time: r.Time}
		if len(r.Key) <= sink.MaxID {
			f.rec.Key = cloneBytes(r.Key)
		}
	}
	b.failures = append(b.failures, f)
	return len(f.rec.Key) + len(f.rec.Value) + 512
}

// ordered is what the errors topic is told of an offset that an operator leaves
// out: the class of the trouble that the loader was in, or none that is known.
func ordered(offset int64, k *contract.Skip) failure {
	f := failure{offset: offset, class: Uncategorised, state: Load, kind: TypeOperator, reason: k.Reason, by: k.By}
	if k.Class > 0 && k.Class < classes {
		f.class = Class(k.Class)
	}
	if !k.ToErrors {
		f.resolution = Skipped
	}
	return f
}

// leftOut is the batch that stands for a stored batch that cannot be read, or
// for as much of it as is stated at once, when an operator leaves all of its
// offsets out; nil otherwise.
func (s *slice) leftOut(err error) *batch {
	e, ok := errors.AsType[*kafkalog.BatchError](err)
	k := skipOf(s.in.Skips, s.position)
	if !ok || k == nil || e.Last < s.position || k.Through < e.Last {
		return nil
	}
	b := &batch{from: s.position, next: s.within(min(e.Last+1, s.position+maxIsolated)), high: -1, shrink: -1}
	class, _ := Classify(Extract, err)
	for at := b.from; at < b.next; at++ {
		f := ordered(at, k)
		f.pointer, f.class, f.state = true, class, Extract
		b.failures = append(b.failures, f)
	}
	b.ledger.Offsets = b.next - b.from
	if k.ToErrors {
		b.ledger.Errors = b.ledger.Offsets
	} else {
		b.ledger.Skipped = b.ledger.Offsets
	}
	return b
}

// point says in the retry record which record the trouble is about, where it is
// about one.
func (s *slice) point(in State, err error) {
	if s.retry.Attempts == 0 {
		return
	}
	if e, ok := errors.AsType[*kafkalog.BatchError](err); ok && in == Extract {
		s.retry.Alone, s.retry.Offset, s.retry.Through = true, s.position, e.Last
		return
	}
	_, alone := errors.AsType[*aloneError](err)
	if !alone || s.batch == nil || cureOf(err) != halveSoon {
		return
	}
	// narrow has put it behind its neighbours
	last := s.batch.todo[len(s.batch.todo)-1]
	s.retry.Alone, s.retry.Offset = true, s.batch.offsets[last.ops[0]]
}

// pace notes when the rate allows the next batch: records are paid for after
// they are loaded.
func (s *slice) pace(records int64) {
	if s.in.Rate <= 0 {
		return
	}
	cost := time.Duration(float64(records) / s.in.Rate * float64(time.Second))
	s.due = latest(s.due, time.Now()).Add(cost)
}

// paced waits for the rate; false: the slice is over before.
func (s *slice) paced() bool {
	pause := time.Until(s.due)
	if pause <= 0 {
		return true
	}
	if s.due.After(s.deadline) || !sleep(s.ctx, pause) {
		s.over = true
		return false
	}
	return true
}

// resume is when the rate allows the next slice; zero: now.
func (s *slice) resume() time.Time {
	left := time.Until(s.due)
	if left <= 0 {
		return time.Time{}
	}
	return s.m.cfg.Now().Add(left)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// madeAgain goes to the beginning of a topic that was away and is shorter now
// than it was.
func (s *slice) madeAgain() {
	first, end, err := s.bounds()
	if err != nil {
		s.fail(err)
		return
	}
	s.back(first, end, TopicNotFound, fmt.Sprintf("the topic was made again: its log ended at %d and ends at %d now", s.seen(), end))
}

// seen is the end of the log as it was last seen.
func (s *slice) seen() int64 { return max(s.in.End, s.end) }
