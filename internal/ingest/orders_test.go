package ingest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// docs is a log of so many documents.
func docs(n int) *world {
	w := newWorld()
	for range n {
		w.put("doc")
	}
	return w
}

func slice1(t *testing.T, m *Machine, in contract.LoadInput) contract.LoadResult {
	t.Helper()
	r, err := m.Slice(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, r.Ledger)
	return r
}

// TestSliceEndsExactlyAtUntil: whatever lies there, a record or a gap.
func TestSliceEndsExactlyAtUntil(t *testing.T) {
	for until := int64(1); until < 20; until++ {
		w := newWorld()
		for i := range 20 {
			w.put([]string{"doc", "doc", "", "none"}[i%4])
		}
		m := w.machine(t, func(c *Config) { c.BatchCount = 5 })
		in := input(0)
		in.Until = until
		r := slice1(t, m, in)
		if r.Position != until || r.Ledger.Offsets != until {
			t.Errorf("until %d: position %d, %d offsets", until, r.Position, r.Ledger.Offsets)
		}
		for o := range w.written {
			if o >= until {
				t.Errorf("until %d: offset %d was loaded", until, o)
			}
		}
	}
}

func TestSkipsAreHonoured(t *testing.T) {
	w := docs(20)
	m := w.machine(t, nil)
	in := input(0)
	in.Until = 20
	in.Skips = []contract.Skip{
		{From: 3, Through: 5, Reason: "known bad", Class: int(Network), By: "ann@here"},
		{From: 9, Through: 9, Reason: "look at it", ToErrors: true, Class: int(SinkRefused)},
	}
	r := slice1(t, m, in)
	if l := r.Ledger; r.Position != 20 || l.Skipped != 3 || l.Errors != 1 || l.Loaded != 16 {
		t.Errorf("position %d, %+v", r.Position, l)
	}
	for _, o := range []int64{3, 4, 5, 9} {
		if w.written[o] {
			t.Errorf("offset %d was loaded", o)
		}
	}
	stated := w.stated[RecordID("t", 3, 9)]
	if len(w.stated) != 4 || len(stated) != 1 {
		t.Fatalf("errors topic: %v", w.stated)
	}
	for o := int64(3); o <= 5; o++ {
		e := w.stated[RecordID("t", 3, o)]
		if len(e) != 1 {
			t.Fatalf("offset %d is stated %d times", o, len(e))
		}
		f, ok := ParseFailure(&e[0])
		if !ok || f.Resolution != Skipped || !f.Skipped || !f.Opens() || !f.Pointer || len(f.Original.Value) > 0 ||
			f.Class != Network || f.Type != TypeOperator || f.Reason != "known bad" || f.By != "ann@here" || f.Time.IsZero() {
			t.Errorf("offset %d is stated as %+v", o, f)
		}
	}
	if e := stated[0]; header(e, HeaderClass) != "sink-4xx" || header(e, HeaderType) != TypeOperator || header(e, HeaderReason) != "look at it" || string(e.Value) != "doc" {
		t.Errorf("stated as %v", e)
	}
}

// TestSkipIsStatedBeforeThePosition: no errors topic, no position.
func TestSkipIsStatedBeforeThePosition(t *testing.T) {
	w := docs(6)
	w.fault = func(_ int, op string) error {
		if op == "append" {
			return &kafkalog.Error{Op: "append to", Topic: "e", Kind: kafkalog.KindUnavailable, Err: errors.New("injected")}
		}
		return nil
	}
	m := w.machine(t, nil)
	in := input(0)
	in.Until, in.TimeBox = 6, time.Second
	in.Skips = []contract.Skip{{From: 3, Through: 3, Reason: "known bad"}}
	r := slice1(t, m, in)
	if r.Position != 0 || r.Ledger.Skipped != 0 || r.Retry.State != Errors.String() || r.Retry.Class != int(KafkaUnavailable) {
		t.Errorf("%+v", r)
	}
}

// TestOrdersNameTheTrouble that the records were in, or none.
func TestOrdersNameTheTrouble(t *testing.T) {
	w := docs(9)
	m := w.machine(t, nil)
	in := input(0)
	in.Until = 9
	in.Skips = []contract.Skip{
		{From: 1, Through: 1, Reason: "a", ToErrors: true, Class: int(SinkUnavailable)},
		{From: 2, Through: 2, Reason: "b", ToErrors: true},
		{From: 3, Through: 3, Reason: "c", ToErrors: true, Class: 99},
	}
	slice1(t, m, in)
	for o, want := range map[int64]string{1: "sink-unavailable", 2: "uncategorised", 3: "uncategorised"} {
		if e := w.stated[RecordID("t", 3, o)]; len(e) != 1 || header(e[0], HeaderClass) != want {
			t.Errorf("offset %d: %v", o, e)
		}
	}
}

// poison is a sink that refuses every request with one document in it.
type poison struct {
	*world
	id string
}

func (p poison) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	for _, op := range ops {
		if op.ID == p.id {
			return nil, &sink.RequestError{Status: 400, Type: "parse", Reason: "no"}
		}
	}
	return p.world.Write(ctx, ops)
}

// TestStuckDocumentIsNamed, and leaves by an operator's word.
func TestStuckDocumentIsNamed(t *testing.T) {
	w := docs(12)
	m, err := New(Config{Topic: "t", Partition: 3}, w, transform, poison{w, "id-5"}, w)
	if err != nil {
		t.Fatal(err)
	}
	in := input(0)
	in.TimeBox, in.Until = time.Second, 12
	r := slice1(t, m, in)
	if y := r.Retry; r.Position != 0 || !y.Alone || y.Offset != 5 || y.Class != int(SinkRefused) {
		t.Fatalf("position %d, %+v", r.Position, y)
	}
	in.Retry = contract.RetryState{}
	in.Skips = []contract.Skip{{From: 5, Through: 5, Reason: "poison", ToErrors: true, Class: r.Retry.Class}}
	if r = slice1(t, m, in); r.Position != 12 || r.Ledger.Errors != 1 || r.Ledger.Loaded != 11 || r.Retry.Alone {
		t.Errorf("%+v", r)
	}
}

// rotten is a source with a stored batch that nobody can decode.
type rotten struct {
	*world
	base, last int64
}

func (r rotten) Read(ctx context.Context, from int64, most int, wait time.Duration, fn func(kafkalog.Record) error) (int64, int64, error) {
	broken := &kafkalog.Error{Op: "read", Topic: "t", Kind: kafkalog.KindOther, Err: &kafkalog.BatchError{Base: r.base, Last: r.last, Err: errors.New("crc")}}
	if from >= r.base && from <= r.last {
		return from, -1, broken
	}
	next, high, err := r.world.Read(ctx, from, most, wait, func(rec kafkalog.Record) error {
		if rec.Offset >= r.base && rec.Offset <= r.last {
			return broken
		}
		return fn(rec)
	})
	return next, high, err
}

func TestUnreadableBatchIsNamedAndSkippedWhole(t *testing.T) {
	w := docs(12)
	m, err := New(Config{Topic: "t", Partition: 3}, rotten{w, 4, 6}, transform, w, w)
	if err != nil {
		t.Fatal(err)
	}
	in := input(0)
	in.TimeBox, in.Until = time.Second, 12
	r := slice1(t, m, in)
	if y := r.Retry; r.Position != 4 || !y.Alone || y.Offset != 4 || y.Through != 6 || y.Class != int(Uncategorised) {
		t.Fatalf("position %d, %+v", r.Position, y)
	}
	in.Position = 4
	in.Skips = []contract.Skip{{From: 4, Through: 5, Reason: "half of it"}}
	if r = slice1(t, m, in); r.Position != 4 {
		t.Errorf("half of a batch was skipped: %+v", r)
	}
	in.Retry = contract.RetryState{}
	in.Skips[0].Through = 6
	if r = slice1(t, m, in); r.Position != 12 || r.Ledger.Skipped != 3 || r.Ledger.Loaded != 5 {
		t.Errorf("%+v", r)
	}
	for o := int64(4); o <= 6; o++ {
		e := w.stated[RecordID("t", 3, o)]
		if len(e) != 1 || header(e[0], HeaderSkipped) != "true" || header(e[0], HeaderReason) != "half of it" || header(e[0], HeaderState) != "extract" {
			t.Errorf("offset %d: %v", o, e)
		}
	}
}

// TestLargeUnreadableBatchIsLeftOutPieceByPiece.
func TestLargeUnreadableBatchIsLeftOutPieceByPiece(t *testing.T) {
	for _, toErrors := range []bool{false, true} {
		w := docs(maxIsolated + 100)
		last := w.end - 1
		m, err := New(Config{Topic: "t", Partition: 3}, rotten{w, 2, last}, transform, w, w)
		if err != nil {
			t.Fatal(err)
		}
		in := input(0)
		in.Until = w.end
		in.Skips = []contract.Skip{{From: 0, Through: last, Reason: "rotten", ToErrors: toErrors}}
		r := slice1(t, m, in)
		if l := r.Ledger; r.Position != w.end || l.Skipped+l.Errors != w.end || l.Skipped > 0 == toErrors || len(w.stated) != int(w.end) {
			t.Errorf("%+v, %d stated", r, len(w.stated))
		}
	}
}

func TestRateIsKept(t *testing.T) {
	w := docs(60)
	m := w.machine(t, nil)
	in := input(0)
	in.Until, in.Rate = 60, 100
	began := time.Now()
	r := slice1(t, m, in)
	// The last batch is paid for by the next slice.
	if took := time.Since(began); r.Position != 60 || took < 500*time.Millisecond {
		t.Errorf("60 records at 100 a second in %s", took)
	}
	if r.Resume.IsZero() {
		t.Error("the last batch costs nothing")
	}
}

func TestSlowRateWaitsInTheWorkflow(t *testing.T) {
	w := docs(5)
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	m := w.machine(t, func(c *Config) { c.Now = func() time.Time { return now } })
	in := input(0)
	in.Until, in.Rate = 5, 0.01
	began := time.Now()
	r := slice1(t, m, in)
	if left := r.Resume.Sub(now); r.Position != 1 || left < 90*time.Second || left > 100*time.Second || time.Since(began) > 10*time.Second {
		t.Errorf("position %d, resume in %s after %s", r.Position, left, time.Since(began))
	}
}

// TestWhereALoaderBeginsIsKeptFirst: nothing is read before.
func TestWhereALoaderBeginsIsKeptFirst(t *testing.T) {
	w := docs(9)
	m := w.machine(t, func(c *Config) {
		c.Policy, c.Settle = FromEarliest, true
		c.Open = func(context.Context, int64) (sink.Sink, Beginning, error) { return w, Beginning{Position: 4}, nil }
	})
	r := slice1(t, m, input(-1))
	if r.Start != 4 || r.Position != 4 || len(w.written) > 0 || r.Ledger != (contract.Ledger{}) {
		t.Errorf("%+v, written %v", r, w.written)
	}
}

// TestOrdersOfAnEarlierRunHoldFromTheFirstRecord: they are found with the position
// that the first slice begins at, and it reads on at once.
func TestOrdersOfAnEarlierRunHoldFromTheFirstRecord(t *testing.T) {
	w := docs(12)
	m := w.machine(t, func(c *Config) {
		c.Open = func(context.Context, int64) (sink.Sink, Beginning, error) {
			return w, Beginning{Position: 4, Skips: []contract.Skip{
				{From: 4, Through: 4, Reason: "bad"}, {From: 9, Through: 9, Reason: "short", ToErrors: true},
			}}, nil
		}
	})
	in := input(-1)
	in.Until = 12
	in.Skips = []contract.Skip{{From: 6, Through: 6, Reason: "of this run"}}
	r := slice1(t, m, in)
	if r.Start != 4 || r.Position != 12 || r.Ledger.Skipped != 2 || r.Ledger.Errors != 1 || r.Ledger.Loaded != 5 {
		t.Errorf("%+v", r)
	}
	for _, o := range []int64{4, 6, 9} {
		if w.written[o] {
			t.Errorf("offset %d was loaded", o)
		}
	}
}

// TestTopicMadeAgainIsReadFromItsStart, wherever the position was.
func TestTopicMadeAgainIsReadFromItsStart(t *testing.T) {
	for _, position := range []int64{3, 40} {
		t.Run(fmt.Sprint(position), func(t *testing.T) {
			w := docs(8)
			m := w.machine(t, func(c *Config) { c.Policy = FromEarliest })
			in := input(position)
			in.End, in.IdleWait = 50, 20*time.Millisecond
			in.Retry = contract.RetryState{State: "extract", Class: int(TopicNotFound), Attempts: 7}
			r := slice1(t, m, in)
			if r.Start != 0 || r.Position != 8 || r.Ledger.Loaded != 8 {
				t.Errorf("%+v", r)
			}
		})
	}
	w := docs(50) // a broker that was wrong for a while: the log is as it was
	m := w.machine(t, func(c *Config) { c.Policy = FromEarliest })
	in := input(40)
	in.End, in.IdleWait = 50, 20*time.Millisecond
	in.Retry = contract.RetryState{State: "extract", Class: int(TopicNotFound), Attempts: 7}
	if r := slice1(t, m, in); r.Start != 40 || r.Position != 50 {
		t.Errorf("%+v", r)
	}
}

// surly is a sink that is always busy with one document, and refuses every
// request with another one in it.
type surly struct{ poison }

func (s surly) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	results, err := s.poison.Write(ctx, ops)
	for i := range results {
		if ops[i].ID == "id-2" {
			results[i] = sink.Result{Outcome: sink.Busy, Status: 429, Type: "es_rejected"}
		}
	}
	return results, err
}

// TestAttemptsGoOnWhileNothingIsSettled: while one document waits for an operator
// and another one is sent again and again, nothing moves: that is one trouble,
// until the busy one has its end.
func TestAttemptsGoOnWhileNothingIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := docs(4)
		var attempts []int
		m, err := New(Config{Topic: "t", Partition: 3, Progress: func(p Progress) {
			if p.State == Load.String() && len(w.written) >= 3 && p.Attempts > 0 { // 2 is written, as the sink counts
				attempts = append(attempts, p.Attempts)
			}
		}}, w, transform, surly{poison{w, "id-1"}}, w)
		if err != nil {
			t.Fatal(err)
		}
		in := input(0)
		in.Until, in.TimeBox = 4, 10*time.Minute
		r := slice1(t, m, in)
		if r.Position != 0 || !r.Retry.Alone || r.Retry.Offset != 1 {
			t.Fatalf("%+v", r)
		}
		falls, most := 0, 0
		for i := 1; i < len(attempts); i++ {
			if falls == 0 {
				most = max(most, attempts[i-1])
			}
			if attempts[i] < attempts[i-1] {
				falls++
			}
		}
		if falls != 1 || most < 9 {
			t.Errorf("attempts fell %d times, the most before are %d: %v", falls, most, attempts)
		}
	})
}
