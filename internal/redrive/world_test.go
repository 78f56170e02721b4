package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// world is a cluster of topics and a sink in memory.
type world struct {
	mu     sync.Mutex
	topics map[string][]kafkalog.Record // "topic-partition"
	gone   map[string]bool              // "topic-partition-offset"
	docs   map[string]stored
	refuse map[string]bool // ids that the sink refuses
	fault  func(op string) error
	writes int // ops acknowledged
}

type stored struct {
	version int64
	doc     string
}

func newWorld() *world {
	return &world{topics: map[string][]kafkalog.Record{}, gone: map[string]bool{}, docs: map[string]stored{}, refuse: map[string]bool{}}
}

func key(topic string, partition int) string { return fmt.Sprintf("%s-%d", topic, partition) }

// put appends to a topic and gives the offset.
func (w *world) put(topic string, partition int, r kafkalog.Record) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := key(topic, partition)
	r.Offset = int64(len(w.topics[k]))
	if r.Time.IsZero() {
		r.Time = time.UnixMilli(1_700_000_000_000 + r.Offset)
	}
	w.topics[k] = append(w.topics[k], r)
	return r.Offset
}

// step is called with mu held: a fault's own variables need no other lock.
func (w *world) step(op string) error {
	if w.fault != nil {
		return w.fault(op)
	}
	return nil
}

func (w *world) Bounds(_ context.Context, topic string, partition int) (int64, int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return 0, int64(len(w.topics[key(topic, partition)])), w.step("bounds")
}

func (w *world) Read(_ context.Context, topic string, partition int, from int64, _ int, _ time.Duration, fn func(kafkalog.Record) error) (int64, int64, error) {
	w.mu.Lock()
	recs, err := slices.Clone(w.topics[key(topic, partition)]), w.step("read")
	w.mu.Unlock()
	if err != nil {
		return from, -1, err
	}
	end := int64(len(recs))
	for next := from; next < end; next++ {
		r := recs[next]
		r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
		err := fn(r)
		clear(r.Key) // the reader takes its memory back
		clear(r.Value)
		if err != nil {
			return next, end, err
		}
	}
	return max(from, end), end, nil
}

func (w *world) ReadRange(ctx context.Context, topic string, partition int, from, end int64, fn func(kafkalog.Record) error) (int64, error) {
	stop := errors.New("stop")
	next, _, err := w.Read(ctx, topic, partition, from, 0, 0, func(r kafkalog.Record) error {
		if r.Offset >= end {
			return stop
		}
		return fn(r)
	})
	if errors.Is(err, stop) {
		err = nil
	}
	return next, err
}

func (w *world) ReadAt(_ context.Context, topic string, partition int, offset int64) (kafkalog.Record, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	recs := w.topics[key(topic, partition)]
	if err := w.step("read at"); err != nil {
		return kafkalog.Record{}, false, err
	}
	if offset >= int64(len(recs)) || w.gone[ingest.RecordID(topic, partition, offset)] {
		return kafkalog.Record{}, false, nil
	}
	return recs[offset], true, nil
}

func (w *world) Write(_ context.Context, ops []sink.Op) ([]sink.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.step("write"); err != nil {
		return nil, err
	}
	results := make([]sink.Result, len(ops))
	for i, op := range ops {
		old, there := w.docs[op.ID]
		switch {
		case w.refuse[op.ID]:
			results[i] = sink.Result{Outcome: sink.Rejected, Status: 400, Type: "mapper", Reason: "still refused"}
		case there && old.version > op.Version:
			results[i].Outcome = sink.Superseded
		default:
			w.docs[op.ID] = stored{op.Version, string(op.Doc)}
			w.writes++
		}
	}
	return results, nil
}

func (w *world) Close() error { return nil }

// errorLog is the errors topic "e", partition 0.
type errorLog struct{ *world }

func (e errorLog) Append(_ context.Context, recs []kafkalog.Record) error {
	e.mu.Lock()
	err := e.step("append")
	e.mu.Unlock()
	if err != nil {
		return err
	}
	for _, r := range recs {
		r.Time = time.Now() // of the append
		e.put("e", 0, r)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.step("appended")
}

// fail puts a record into the source "src" partition 1 and states that it
// failed.
func (w *world) fail(value string, change ...func(*ingest.Failure)) ingest.Failure {
	rec := kafkalog.Record{Key: []byte("k-" + value), Value: []byte(value), Headers: []kafkalog.Header{{Key: "own", Value: []byte("h")}}}
	rec.Offset = w.put("src", 1, rec)
	rec, _, _ = w.ReadAt(context.Background(), "src", 1, rec.Offset)
	f := ingest.Failure{
		ID: ingest.RecordID("src", 1, rec.Offset), Topic: "src", Partition: 1, Offset: rec.Offset, Original: rec,
		Class: ingest.ItemsFailed, State: "load", Status: 400, Type: "mapper", Reason: "cannot", Attempts: 1, Name: "orders", Target: "orders",
	}
	for _, c := range change {
		c(&f)
	}
	w.state(f)
	return f
}

// state appends what a failure says to the errors topic.
func (w *world) state(f ingest.Failure) int64 { return w.put("e", 0, f.Record(-1)) }

// resolve states a resolution.
func (w *world) resolve(f ingest.Failure, resolution string) {
	f.Resolution = resolution
	w.state(f)
}

// transform: the id is made of the source's place, the version is the offset.
func transform(rec *kafkalog.Record, topic string, partition int) (sink.Op, bool, error) {
	if len(rec.Headers) != 1 || rec.Headers[0].Key != "own" || rec.Time.UnixMilli() != 1_700_000_000_000+rec.Offset {
		return sink.Op{}, false, fmt.Errorf("not the original: %+v", rec)
	}
	v := string(rec.Value)
	switch {
	case v == "none":
		return sink.Op{}, false, nil
	case strings.HasPrefix(v, "bad"):
		return sink.Op{}, false, &ingest.RecordError{Class: ingest.InvalidFormat, Err: errors.New("still bad")}
	case v == "":
		return sink.Op{}, false, errors.New("the value is missing")
	}
	return sink.Op{ID: fmt.Sprintf("%s-%d-%d", topic, partition, rec.Offset), Version: rec.Offset, Doc: []byte(v)}, true, nil
}

// redrive runs one over all of the errors topic, as its activity does, from a
// position on; it ends where the machine ends.
func (w *world) redrive(t *testing.T, run string, from, end int64, change ...func(*Config)) (int64, contract.RedriveCounts, contract.RetryState) {
	t.Helper()
	ctx := t.Context()
	x := NewIndex(from, end, run)
	if err := x.Extend(ctx, w, "e", 0); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Log: w, Topic: "e", Index: x, Redrive: run, Transform: transform,
		Select: contract.RedriveSelect{All: true, Most: 3},
	}
	for _, c := range change {
		c(&cfg)
	}
	s := New(cfg)
	m, err := ingest.New(ingest.Config{
		Topic: "e", Crawl: "orders", Policy: ingest.FromEarliest, BatchCount: 3, Restate: s.Restate,
		Progress: func(p ingest.Progress) { s.Forget(p.Position) },
	}, s, s.Transform, w, errorLog{w})
	if err != nil {
		t.Fatal(err)
	}
	_, to := x.Window()
	r, err := m.Slice(ctx, contract.LoadInput{Position: from, TimeBox: time.Minute, IdleWait: time.Minute, Until: to})
	if err != nil {
		t.Fatal(err)
	}
	return r.Position, s.Counts(r.Ledger, r.Start, r.Position), r.Retry
}

// end of the errors topic.
func (w *world) end() int64 { return int64(len(w.topics[key("e", 0)])) }

// statuses of all ids, as anybody sees them.
func (w *world) statuses(t *testing.T) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := Each(t.Context(), w, "e", 1, func(e Entry) error {
		if _, twice := got[e.ID]; twice {
			t.Errorf("%s is visited twice", e.ID)
		}
		got[e.ID] = e.Status.String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
