package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLoadsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken []string
		w := fill(200)
		l, slices := w.run(t, w.machine(t, func(c *Config) { c.Progress = w.watch(&broken) }))
		w.check(t, l, false)
		if slices != 1 {
			t.Errorf("%d slices without any trouble", slices)
		}
		if len(broken) > 0 {
			t.Error(broken)
		}
	})
}

// Any fault, of any class, at any operation, once or for a minute: nothing is
// lost, nothing is stated twice unless the fault may have hidden a success, the
// ledger balances, the position never goes back.
func TestFaultAtEveryOperation(t *testing.T) {
	const records = 40
	total := func() int {
		n := 0
		synctest.Test(t, func(t *testing.T) {
			w := fill(records)
			w.run(t, w.machine(t, nil))
			n = w.ops
		})
		return n
	}()
	for _, lasting := range []bool{false, true} {
		for n := 1; n <= total; n++ {
			synctest.Test(t, func(t *testing.T) { faultAt(t, records, n, lasting) })
		}
	}
}

func faultAt(t *testing.T, records, n int, lasting bool) {
	for class := range Class(classes) {
		var broken []string
		w := fill(records)
		var failing string
		until := time.Time{}
		w.fault = func(at int, op string) error {
			if at == n {
				failing = op
				until = time.Now().Add(time.Minute)
			}
			if at == n || lasting && op == failing && time.Now().Before(until) {
				return faults(op)[class]
			}
			return nil
		}
		l, _ := w.run(t, w.machine(t, func(c *Config) { c.Progress = w.watch(&broken) }))
		// A slice that ends between errors and position leaves the next one to
		// state them again, with the same id.
		w.check(t, l, lasting)
		if len(broken) > 0 || t.Failed() {
			t.Fatalf("fault of class %s at operation %d (%s): %v", class, n, failing, broken)
		}
	}
}

// A fault after the operation: it happened, and we do not know.
func TestAcknowledgementLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range 30 {
			var broken []string
			w := fill(60)
			lossy := &lossy{world: w, at: n}
			m, err := New(Config{Topic: "t", Partition: 3, BatchCount: 7, Progress: w.watch(&broken)}, w, transform, lossy, lossy)
			if err != nil {
				t.Fatal(err)
			}
			l, _ := w.run(t, m)
			w.check(t, l, true)
			if len(broken) > 0 {
				t.Fatal(broken)
			}
		}
	})
}

// lossy does the n-th write or append, and says that the connection broke.
type lossy struct {
	*world
	at, n int
}

func (l *lossy) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	r, err := l.world.Write(ctx, ops)
	if l.n++; l.n-1 == l.at {
		return nil, context.DeadlineExceeded
	}
	return r, err
}

func (l *lossy) Append(ctx context.Context, recs []kafkalog.Record) error {
	err := l.world.Append(ctx, recs)
	if l.n++; l.n-1 == l.at {
		return context.DeadlineExceeded
	}
	return err
}

// The worker dies at every operation and its successor begins at the position
// that was last answered.
func TestKillAtEveryOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := 1; n < 60; n++ {
			w := fill(60)
			ctx, kill := context.WithCancel(t.Context())
			w.fault = func(at int, _ string) error {
				if at >= n && ctx.Err() == nil {
					kill()
				}
				if ctx.Err() != nil && at < n+100 {
					return context.Canceled
				}
				return nil
			}
			in := input(-1)
			r, err := w.machine(t, nil).Slice(ctx, in)
			if err != nil || r.Retry.Attempts != 0 {
				t.Fatalf("cancelled: %v, %+v", err, r.Retry)
			}
			kill()
			// What the slice had done is forgotten: the successor starts at 0.
			w.fault = nil
			l, _ := w.run(t, w.machine(t, nil))
			w.check(t, l, true)
		}
	})
}

// The order errors -> sink -> position is what the table says. With a table
// that breaks it, the watch of these tests has to notice.
func TestBrokenOrderIsNoticed(t *testing.T) {
	original := table
	defer func() { table = original }()
	for name, breakIt := range map[string]func(){
		"position before late errors": func() { table[Load][SomeRefused] = Step{Advance, Extract, "broken"} },
		"position before the sink":    func() { table[Transform][AllFine] = Step{Advance, Extract, "broken"} },
		"position before early errors": func() {
			table[Transform][SomeFailed] = Step{Advance, Extract, "broken"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			table = original
			breakIt()
			synctest.Test(t, func(t *testing.T) {
				var broken []string
				w := fill(60)
				m := w.machine(t, func(c *Config) { c.Progress, c.BatchCount = w.watch(&broken), 1 })
				in := input(0)
				if _, err := m.Slice(t.Context(), in); err != nil {
					t.Fatal(err)
				}
				if len(broken) == 0 {
					t.Error("nobody noticed")
				}
			})
		})
	}
	table = original
	synctest.Test(t, func(t *testing.T) {
		w := fill(60)
		w.run(t, w.machine(t, nil))
		errorsFirst := -1
		for i, c := range w.calls {
			if c == "append" && errorsFirst < 0 {
				errorsFirst = i
			}
			if c == "write" && errorsFirst < 0 {
				t.Fatalf("a batch with failures was loaded before they were stated: %v", w.calls[:i+1])
			}
			if c == "write" {
				return
			}
		}
	})
}

func TestTable(t *testing.T) {
	for s := range State(states) {
		for c := range Class(classes) {
			step := table[s][c]
			if step.Do == undefined || step.Why == "" {
				t.Errorf("%s x %s has no answer or no reason", s, c)
			}
			if step.Do == Proceed || step.Do == Advance {
				t.Errorf("%s x %s: %s on an error", s, c, step.Do)
			}
		}
	}
	if st := StepOf(Load, GotBatch); st.Do != Impossible {
		t.Errorf("load x batch is %s", st.Do)
	}
	n := 0
	Table(func(s State, e Event, st Step) {
		n++
		if s.String() == "" || e.String() == "" || st.Do.String() == "" {
			t.Errorf("%d x %d lacks a name", s, e)
		}
	})
	if n != states*classes+events-classes {
		t.Errorf("%d cells", n)
	}
}

func TestUntilIdleAndTimeBox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fill(100)
		m := w.machine(t, nil)
		slice := func(edit func(*contract.LoadInput)) (contract.LoadResult, time.Duration) {
			in := input(0)
			edit(&in)
			started := time.Now()
			r, err := m.Slice(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			return r, time.Since(started)
		}
		if r, d := slice(func(in *contract.LoadInput) { in.Until = 20 }); r.Position < 20 || r.Position > 40 || d > 0 {
			t.Errorf("until 20: at %d after %s", r.Position, d)
		}
		if r, d := slice(func(in *contract.LoadInput) { in.Until = 0 }); r.Position != 0 || d > 0 {
			t.Errorf("until 0: at %d after %s", r.Position, d)
		}
		if r, d := slice(func(*contract.LoadInput) {}); r.Position != 100 || r.End != 100 || d < 400*time.Millisecond || d > 2*time.Second {
			t.Errorf("idle: at %d of %d after %s", r.Position, r.End, d)
		}
		if r, d := slice(func(in *contract.LoadInput) { in.IdleWait = time.Hour }); r.Position != 100 || d < 29*time.Second || d > 31*time.Second {
			t.Errorf("time box: at %d after %s", r.Position, d)
		}
		if r, d := slice(func(in *contract.LoadInput) { in.IdleWait = 0 }); r.Position != 100 || d > time.Second {
			t.Errorf("no idle wait: at %d after %s", r.Position, d)
		}
		if _, err := m.Slice(t.Context(), contract.LoadInput{}); err == nil {
			t.Error("a slice without a time box was accepted")
		}
	})
}

// Records that come while the loader waits are loaded at once.
func TestNewRecordsWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("doc")
		m := w.machine(t, nil)
		done := make(chan contract.LoadResult)
		go func() {
			in := input(0)
			in.IdleWait, in.TimeBox = 20*time.Second, 15*time.Second
			r, _ := m.Slice(t.Context(), in)
			done <- r
		}()
		sleep(t.Context(), 7*time.Second)
		w.put("doc")
		if r := <-done; r.Position != 2 || r.Ledger.Loaded != 2 || r.State != "extract" {
			t.Errorf("got %+v", r)
		}
	})
}

// A sink that is down costs one call per pause, and slices end at once when the
// pause is longer than they are.
func TestRetryAcrossSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fill(10)
		up := time.Now().Add(time.Hour)
		w.fault = func(_ int, op string) error {
			if op == "write" && time.Now().Before(up) {
				return &sink.UnavailableError{Err: errors.New("connection refused")}
			}
			return nil
		}
		m := w.machine(t, nil)
		in := input(0)
		in.Until = w.end
		r, _ := m.Slice(t.Context(), in)
		if r.Position != 0 || r.State != "load" || r.Retry.State != "load" || r.Retry.Class != int(SinkUnavailable) ||
			r.Retry.Attempts < 3 || r.Retry.NextTry.IsZero() || !strings.Contains(r.Retry.Error, "connection refused") {
			t.Fatalf("got %+v", r)
		}
		if p := m.Progress(); p.State != "load" || p.Class != 10 || p.Attempts != r.Retry.Attempts {
			t.Errorf("progress %+v", p)
		}
		before := r.Retry
		in.Retry = before
		r, _ = m.Slice(t.Context(), in)
		if r.Retry.Attempts <= before.Attempts {
			t.Errorf("attempts went from %d to %d", before.Attempts, r.Retry.Attempts)
		}
		if before.Since.IsZero() || !r.Retry.Since.Equal(before.Since) {
			t.Errorf("since %v, in the slice after it %v", before.Since, r.Retry.Since)
		}
		l, slices := w.run(t, m)
		w.check(t, l, true)
		if writes := strings.Count(strings.Join(w.calls, " "), "write"); writes > 150 {
			t.Errorf("%d writes in an hour", writes)
		}
		if slices > 120 {
			t.Errorf("%d slices in an hour", slices)
		}
	})
}

func TestRetryAfterWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fill(3)
		refused := false
		w.fault = func(_ int, op string) error {
			if op == "write" && !refused {
				refused = true
				return &sink.RequestError{Status: 503, RetryAfter: 17 * time.Second}
			}
			return nil
		}
		started := time.Now()
		in := input(0)
		in.Until = 3
		r, _ := w.machine(t, nil).Slice(t.Context(), in)
		if d := time.Since(started); r.Position != 3 || d != 17*time.Second || r.Retry != (contract.RetryState{}) {
			t.Errorf("after %s: %+v", d, r)
		}
	})
}

// A request above the sink's limit is halved until it passes; a document above
// it stands alone in the errors topic, class 4.
func TestNarrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fill(60)
		w.limit = 2
		l, slices := w.run(t, w.machine(t, nil))
		w.check(t, l, false)
		if slices != 1 {
			t.Errorf("%d slices", slices)
		}
	})
	for name, c := range map[string]struct {
		err   error
		class Class
	}{
		"413":           {&sink.RequestError{Status: 413}, MessageTooBig},
		"400":           {&sink.RequestError{Status: 400, Reason: "bad"}, -1},
		"lasting 429":   {&sink.RequestError{Status: 429}, -1},
		"broken socket": {context.DeadlineExceeded, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { poisoned(t, c.err, c.class) })
		})
	}
}

func poisoned(t *testing.T, refusal error, class Class) {
	w := newWorld()
	for range 9 {
		w.put("doc")
	}
	p := &poisonSink{world: w, id: "id-4", err: refusal}
	m, err := New(Config{Topic: "t", Partition: 3, BatchCount: 50}, w, transform, p, w)
	if err != nil {
		t.Fatal(err)
	}
	w.perRead = 50
	in := input(0)
	in.TimeBox, in.Until = 10*time.Minute, 9
	r, _ := m.Slice(t.Context(), in)
	if len(w.docs) != 8 {
		t.Errorf("%d neighbours were loaded, want 8", len(w.docs))
	}
	if class < 0 { // it waits for an operator, visibly
		if r.Position != 0 || r.Retry.Attempts == 0 || r.State != "load" {
			t.Errorf("got %+v", r)
		}
		return
	}
	e := w.stated[RecordID("t", 3, 4)]
	if r.Position != 9 || r.Ledger.Errors != 1 || len(e) != 1 || header(e[0], HeaderClass) != class.String() || string(e[0].Value) != "doc" {
		t.Errorf("got %+v, stated %v", r, e)
	}
}

// poisonSink refuses every request with one document in it.
type poisonSink struct {
	*world
	id  string
	err error
}

func (p *poisonSink) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	for _, op := range ops {
		if op.ID == p.id {
			return nil, p.err
		}
	}
	return p.world.Write(ctx, ops)
}

func TestBusyItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for range 6 {
			w.put("doc")
		}
		w.refuse["id-2"] = sink.Busy
		in := input(0)
		in.Until = 6
		r, _ := w.machine(t, nil).Slice(t.Context(), in)
		e := w.stated[RecordID("t", 3, 2)]
		if r.Position != 6 || r.Ledger.Loaded != 5 || r.Ledger.Errors != 1 || len(e) != 1 ||
			header(e[0], HeaderStatus) != "429" || header(e[0], HeaderAttempts) != "6" {
			t.Errorf("got %+v, stated %v", r, e)
		}
		// None gets through: the sink is in trouble, not the documents.
		w = newWorld()
		for i := range 6 {
			w.put("doc")
			w.refuse[fmt.Sprintf("id-%d", i)] = sink.Busy
		}
		r, _ = w.machine(t, nil).Slice(t.Context(), in)
		if r.Position != 0 || r.Retry.Class != int(SinkRefused) || len(w.stated) != 0 {
			t.Errorf("got %+v, stated %v", r, w.stated)
		}
		clear(w.refuse)
		in.Retry = r.Retry
		if r, _ = w.machine(t, nil).Slice(t.Context(), in); r.Position != 6 || r.Retry.Attempts != 0 {
			t.Errorf("after recovery %+v", r)
		}
	})
}

func TestOffsetsNotAvailable(t *testing.T) {
	for name, c := range map[string]struct {
		policy          Policy
		first, end, at  int64
		start, position int64
		lost            int64
	}{
		"ours, none":           {FromZero, 0, 10, -1, 0, 10, 0},
		"ours, none, cut":      {FromZero, 3, 10, -1, 0, 10, 3},
		"ours, too old":        {FromZero, 5, 10, 2, 2, 10, 3},
		"ours, too new":        {FromZero, 1, 10, 12, 1, 10, 0},
		"any, none":            {FromEarliest, 3, 10, -1, 3, 10, 0},
		"any, too old":         {FromEarliest, 5, 10, 2, 2, 10, 3},
		"any, too new":         {FromEarliest, 1, 10, 12, 10, 10, 0},
		"latest, none":         {FromLatest, 3, 10, -1, 10, 10, 0},
		"latest, too new":      {FromLatest, 3, 10, 12, 10, 10, 0},
		"ours, empty and cut":  {FromZero, 10, 10, 4, 4, 10, 6},
		"any, none, empty log": {FromEarliest, 0, 0, -1, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				for range c.end {
					w.put("doc")
				}
				w.first = c.first
				m := w.machine(t, func(cfg *Config) { cfg.Policy = c.policy })
				r, _ := m.Slice(t.Context(), input(c.at))
				if r.Start != c.start || r.Position != c.position || r.Ledger.Lost != c.lost || r.Ledger.Offsets != r.Position-r.Start {
					t.Errorf("got %+v", r)
				}
				balanced(t, r.Ledger)
			})
		})
	}
}

// A log that loses its tail in the middle of a slice: what was done is answered
// first, then the next slice begins anew.
func TestLostTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for range 10 {
			w.put("doc")
		}
		cut := false
		w.fault = func(_ int, op string) error {
			if op == "write" && !cut {
				cut = true
				w.end = 4
			}
			return nil
		}
		m := w.machine(t, nil)
		r, _ := m.Slice(t.Context(), input(0))
		if r.Position <= 4 || r.Retry.Class != int(OffsetNotFound) || r.Ledger.Offsets != r.Position {
			t.Fatalf("got %+v", r)
		}
		in := input(r.Position)
		in.Retry = r.Retry
		if r, _ = m.Slice(t.Context(), in); r.Start != 0 || r.Position != 4 || r.Retry.Attempts != 0 {
			t.Errorf("then %+v", r)
		}
	})
}

func TestUnreadableBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for range 10 {
			w.put("doc")
		}
		bad := func(kind kafkalog.Kind) error {
			return &kafkalog.Error{Op: "read", Topic: "t", Kind: kind, Err: &kafkalog.BatchError{Base: 2, Last: 5, Err: errors.New("too long")}}
		}
		src := &holeSource{world: w, from: 2, to: 5, err: bad(kafkalog.KindTooLarge)}
		m, err := New(Config{Topic: "t", Partition: 3}, src, transform, w, w)
		if err != nil {
			t.Fatal(err)
		}
		in := input(0)
		in.Until = 10
		r, _ := m.Slice(t.Context(), in)
		if r.Position != 10 || r.Ledger.Errors != 4 || r.Ledger.Loaded != 6 || len(w.stated) != 4 {
			t.Fatalf("got %+v", r)
		}
		e := w.stated[RecordID("t", 3, 5)][0]
		if header(e, HeaderPointer) != "true" || header(e, HeaderState) != "extract" || header(e, HeaderCode) != "4" {
			t.Errorf("headers %v", e.Headers)
		}
		// A damaged one is class 0: fresh clients, visible, nothing skipped.
		rebuilt := 0
		src.err = bad(kafkalog.KindOther)
		m, _ = New(Config{Topic: "t", Partition: 3, Rebuild: func(context.Context) error { rebuilt++; return nil }}, src, transform, w, w)
		if r, _ = m.Slice(t.Context(), in); r.Position != 2 || r.Retry.Class != 0 || r.Retry.Attempts < 2 || rebuilt == 0 {
			t.Errorf("got %+v, rebuilt %d times", r, rebuilt)
		}
	})
}

// holeSource cannot read a range.
type holeSource struct {
	*world
	from, to int64
	err      error
}

func (h *holeSource) Read(ctx context.Context, from int64, n int, wait time.Duration, fn func(kafkalog.Record) error) (int64, int64, error) {
	if from >= h.from && from <= h.to {
		return from, -1, h.err
	}
	stop := errors.New("hole")
	next, high, err := h.world.Read(ctx, from, n, wait, func(r kafkalog.Record) error {
		if r.Offset >= h.from && r.Offset <= h.to {
			return stop
		}
		return fn(r)
	})
	if errors.Is(err, stop) {
		return next, high, h.err
	}
	return next, high, err
}

func TestErrorsTopicTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("doc")
		w.put("bad")
		w.log[1] = kafkalog.Record{Offset: 1, Key: []byte("k"), Value: bytes.Repeat([]byte("x"), 2_000_000), Headers: nil}
		w.log[2] = kafkalog.Record{Offset: 2, Key: bytes.Repeat([]byte("k"), 2000), Value: bytes.Repeat([]byte("y"), 5000)}
		w.end = 3
		w.tooBig = 1_000_000
		m, err := New(Config{Topic: "t", Partition: 3}, w, func(r *kafkalog.Record) (sink.Op, bool, error) {
			if len(r.Value) > 100 {
				return sink.Op{}, false, errors.New("cannot")
			}
			return transform(r)
		}, w, w)
		if err != nil {
			t.Fatal(err)
		}
		in := input(0)
		in.Until = 3
		r, _ := m.Slice(t.Context(), in)
		if r.Position != 3 || r.Ledger.Errors != 2 {
			t.Fatalf("got %+v", r)
		}
		if e := w.stated[RecordID("t", 3, 1)][0]; len(e.Value) != 0 || string(e.Key) != "k" || header(e, HeaderPointer) != "true" {
			t.Errorf("large record became %d bytes, %v", len(e.Value), e.Headers)
		}
		if e := w.stated[RecordID("t", 3, 2)][0]; len(e.Value) != 5000 || header(e, HeaderPointer) != "" {
			t.Errorf("small record became %d bytes, %v", len(e.Value), e.Headers)
		}
	})
}

// The original of a refused document is read again; one that retention took is
// a pointer.
func TestOriginalIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("refused")
		w.put("doc")
		w.refuse["id-0"] = sink.Rejected
		w.fault = func(_ int, op string) error {
			if op == "write" {
				w.first = 1
			}
			return nil
		}
		in := input(0)
		in.Until = 2
		r, _ := w.machine(t, nil).Slice(t.Context(), in)
		e := w.stated[RecordID("t", 3, 0)]
		if r.Position != 2 || len(e) != 1 || header(e[0], HeaderPointer) != "true" || header(e[0], HeaderReason) != "cannot" {
			t.Errorf("got %+v, stated %v", r, e)
		}
	})
}

func TestLimitsOfTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for _, v := range []string{"doc", "hang", "doc", strings.Repeat("x", 500), "fat", "doc", "hang"} {
			w.put(v)
		}
		release := make(chan struct{})
		m, err := New(Config{Topic: "t", Partition: 3, TransformLimit: 5 * time.Second, MaxRecord: 400}, w,
			func(r *kafkalog.Record) (sink.Op, bool, error) {
				switch string(r.Value) {
				case "hang":
					<-release
				case "fat":
					return sink.Op{ID: "id-4", Doc: make([]byte, 401)}, true, nil
				}
				return transform(r)
			}, w, w)
		if err != nil {
			t.Fatal(err)
		}
		in := input(0)
		in.Until = 7
		r, _ := m.Slice(t.Context(), in)
		close(release)
		if r.Position != 7 || r.Ledger.Loaded != 3 || r.Ledger.Errors != 4 {
			t.Fatalf("got %+v", r)
		}
		for offset, class := range map[int64]Class{1: TransformFailed, 3: MessageTooBig, 4: MessageTooBig, 6: TransformFailed} {
			if e := w.stated[RecordID("t", 3, offset)]; len(e) != 1 || header(e[0], HeaderClass) != class.String() {
				t.Errorf("offset %d: %v", offset, e)
			}
		}
	})
}

// Panics of clients and answers of the wrong length are class 0, and pass. The
// panics end: a machine whose slices all have as many operations as there are
// from one panic to the next panics at the same one for ever.
func TestHostileClients(t *testing.T) {
	for every := 1; every <= 7; every++ {
		synctest.Test(t, func(t *testing.T) { panicking(t, every) })
	}
	synctest.Test(t, func(t *testing.T) {
		w := fill(30)
		s := &shortSink{world: w}
		m, _ := New(Config{Topic: "t", Partition: 3}, w, transform, s, w)
		l, _ := w.run(t, m)
		w.check(t, l, true)
		if s.n < 2 {
			t.Error("the short answer was believed")
		}
	})
}

// panicking has every so many operations panic for half an hour.
func panicking(t *testing.T, every int) {
	var broken []string
	w := fill(30)
	until, panics := time.Now().Add(30*time.Minute), 0
	w.fault = func(n int, op string) error {
		if n%every == 0 && time.Now().Before(until) {
			panics++
			panic("client of " + op)
		}
		return nil
	}
	l, _ := w.run(t, w.machine(t, func(c *Config) { c.Progress = w.watch(&broken) }))
	w.check(t, l, true)
	if panics == 0 || len(broken) > 0 || t.Failed() {
		t.Fatalf("a panic every %d operations: %d panics, %v", every, panics, broken)
	}
}

// What fails after the sink was asked fails ever more slowly, although the
// failures of the transform were stated before each time: no storm of resets.
func TestLateErrorsBackOff(t *testing.T) {
	for name, back := range map[string]struct {
		op    string
		after int // calls since the sink
	}{"original": {"read", 1}, "append": {"append", 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				for _, v := range []string{"bad", "refused", "doc"} {
					w.put(v)
				}
				w.refuse["id-1"] = sink.Rejected
				until := time.Now().Add(time.Hour)
				w.fault = func(n int, op string) error {
					if op == back.op && n > back.after && w.calls[n-1-back.after] == "write" && time.Now().Before(until) {
						return faults(op)[Uncategorised]
					}
					return nil
				}
				rebuilt, most := 0, 0
				l, _ := w.run(t, w.machine(t, func(c *Config) {
					c.Rebuild = func(context.Context) error { rebuilt++; return nil }
					c.Progress = func(p Progress) { most = max(most, p.Attempts) }
				}))
				w.check(t, l, true)
				if rebuilt > 120 || most < 40 {
					t.Errorf("fresh clients %d times in an hour, %d attempts in a row", rebuilt, most)
				}
			})
		})
	}
}

type shortSink struct {
	*world
	n int
}

func (s *shortSink) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	r, err := s.world.Write(ctx, ops)
	if s.n++; s.n == 1 && len(r) > 0 {
		return r[:len(r)-1], err
	}
	return r, err
}

func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(-5, 1<<40).Draw(t, "attempts")
		d := backoff(n, 0)
		base := min(300*time.Millisecond<<min(max(n-1, 0), 30), 90*time.Second)
		if d < base/2 || d > base*3/2 {
			t.Fatalf("attempt %d waits %s, base %s", n, d, base)
		}
		if got := backoff(n, 42*time.Second); got != 42*time.Second {
			t.Fatalf("asked for 42 s, waits %s", got)
		}
		if got := backoff(n, 1000*time.Hour); got != maxRetryAfter {
			t.Fatalf("asked for 1000 h, waits %s", got)
		}
	})
}

func TestNew(t *testing.T) {
	w := newWorld()
	if _, err := New(Config{}, w, transform, w, w); err == nil {
		t.Error("no topic was accepted")
	}
	if _, err := New(Config{Topic: "t"}, w, nil, w, w); err == nil {
		t.Error("no transform was accepted")
	}
}
