package ingest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/sink/files"
)

// spanWorld is a world whose documents go to files.
type spanWorld struct {
	*world
	t     *testing.T
	admin *files.Admin
}

func newSpanWorld(t *testing.T, n int) *spanWorld {
	t.Helper()
	w := &spanWorld{world: fill(n), t: t, admin: files.New(t.TempDir())}
	if err := w.admin.PrepareTarget(t.Context(), sink.Target{Name: "i"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// attempt is a worker of its own. fault is asked before and after each call of
// the sink.
func (w *spanWorld) attempt(fault func(call string) error, edit func(*Config)) *Machine {
	w.t.Helper()
	to, err := w.admin.OpenTarget(w.t.Context(), sink.Target{Name: "i"})
	if err != nil {
		w.t.Fatal(err)
	}
	if fault == nil {
		fault = func(string) error { return nil }
	}
	cfg := Config{Topic: "t", Partition: 3, Crawl: "c", Target: "i", BatchCount: 7}
	if edit != nil {
		edit(&cfg)
	}
	m, err := New(cfg, w.world, refusing, &shaky{Sink: to, Spans: to.(sink.Spans), fault: fault}, w.world)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// refusing makes documents that the files refuse of the values "refused".
func refusing(r *kafkalog.Record) (sink.Op, bool, error) {
	op, ok, err := transform(r)
	if string(r.Value) == "refused" {
		op.Doc = []byte("[]")
	}
	return op, ok, err
}

// shaky fails before and after what the sink does.
type shaky struct {
	sink.Sink
	sink.Spans
	fault func(call string) error
}

func (s *shaky) Begin(ctx context.Context, p sink.Partition, from int64) (kept sink.Kept, span sink.Span, err error) {
	if err := s.fault("begin"); err != nil {
		return kept, nil, err
	}
	kept, span, err = s.Spans.Begin(ctx, p, from)
	if span != nil {
		span = &shakySpan{span, s.fault}
	}
	return kept, span, err
}

type shakySpan struct {
	sink.Span
	fault func(call string) error
}

func (s *shakySpan) Full() bool { return s.fault("full") != nil }

func (s *shakySpan) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	if err := s.fault("write"); err != nil {
		return nil, err
	}
	return s.Span.Write(ctx, ops)
}

func (s *shakySpan) Keep(ctx context.Context, to int64, note []byte) (bool, error) {
	if err := s.fault("keep"); err != nil {
		return false, err
	}
	won, err := s.Span.Keep(ctx, to, note)
	if err == nil {
		err = s.fault("kept")
	}
	return won, err
}

// on fails one kind of call with an error, n times.
func on(call string, n int, err error) func(string) error {
	return func(c string) error {
		if c != call || n == 0 {
			return nil
		}
		n--
		return err
	}
}

// slice runs one slice to the log end, or an offset before it, and checks its
// ledger.
func (w *spanWorld) slice(m *Machine, position, until int64, retry contract.RetryState) contract.LoadResult {
	w.t.Helper()
	in := input(position)
	in.Until, in.Retry = until, retry
	r, err := m.Slice(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	balanced(w.t, r.Ledger)
	if r.Ledger.Offsets != r.Position-r.Start {
		w.t.Fatalf("ledger of [%d, %d) counts %d offsets", r.Start, r.Position, r.Ledger.Offsets)
	}
	return r
}

// owes is the ledger of a range.
func (w *spanWorld) owes(from, to int64) contract.Ledger {
	l := contract.Ledger{Offsets: to - from}
	for o := from; o < to; o++ {
		r, ok := w.log[o]
		switch {
		case !ok:
			l.Compacted++
		case string(r.Value) == "none":
			l.NoDocument++
		case string(r.Value) == "delete":
			l.Deleted++
		case string(r.Value) == "doc":
			l.Loaded++
		default:
			l.Errors++
		}
		l.Bytes += int64(len(r.Value))
	}
	return l
}

// sound: each document up to an offset is one line, each failure is stated.
func (w *spanWorld) sound(to int64) {
	w.t.Helper()
	want := w.owes(0, to)
	found, err := w.admin.Audit(w.t.Context(), "i")
	if err != nil {
		w.t.Fatal(err)
	}
	if found.Lines != want.Loaded+want.Deleted || found.Documents != want.Loaded || found.Repeats > 0 || len(found.Faults) > 0 {
		w.t.Errorf("want %d lines and %d documents, found %+v", want.Loaded+want.Deleted, want.Loaded, found)
	}
	if got := int64(len(w.stated)); got != w.owes(0, w.end).Errors && to == w.end {
		w.t.Errorf("%d ids in the errors topic, want %d", got, w.owes(0, w.end).Errors)
	}
}

func (w *spanWorld) same(r contract.LoadResult, from, to int64) {
	w.t.Helper()
	if r.Start != from || r.Position != to || r.Ledger != w.owes(from, to) {
		w.t.Errorf("from %d to %d, %+v\nwant %d to %d, %+v", r.Start, r.Position, r.Ledger, from, to, w.owes(from, to))
	}
}

func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// TestDeathAfterKeeping: the position was not answered. The next attempt has the
// same figures, and reads nothing of the log for them.
func TestDeathAfterKeeping(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 60)
		lost := w.slice(w.attempt(nil, nil), 0, 33, contract.RetryState{})
		w.same(lost, 0, 33)
		w.calls = nil
		again := w.slice(w.attempt(nil, nil), 0, 33, contract.RetryState{})
		w.same(again, 0, 33)
		if len(w.calls) > 0 {
			t.Errorf("it asked for %v", w.calls)
		}
		w.same(w.slice(w.attempt(nil, nil), 0, w.end, contract.RetryState{}), 0, w.end)
		w.sound(w.end)
	})
}

// TestTheOtherAttemptWins: the loser answers with the end and the ledger of the
// winner, whether that read less or more.
func TestTheOtherAttemptWins(t *testing.T) {
	for _, ends := range [][2]int64{{40, 17}, {17, 40}, {26, 26}} {
		inBubble(t, func(t *testing.T) {
			w := newSpanWorld(t, 60)
			loser := w.attempt(func(call string) error {
				if call == "keep" {
					w.same(w.slice(w.attempt(nil, nil), 0, ends[1], contract.RetryState{}), 0, ends[1])
				}
				return nil
			}, nil)
			w.same(w.slice(loser, 0, ends[0], contract.RetryState{}), 0, ends[1])
			w.sound(ends[1])
		})
	}
}

// TestKeepingFails: the disk is full at the end of a slice. Nothing moves, the
// state says so, the pauses grow over the slices, and then all is there.
func TestKeepingFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 60)
		m := w.attempt(on("keep", 3, &sink.UnavailableError{Err: syscall.ENOSPC}), nil)
		var r contract.LoadResult
		pause := time.Duration(0)
		for i := range 3 {
			r = w.slice(m, 0, w.end, r.Retry)
			if r.Position != 0 || r.Ledger != (contract.Ledger{}) || r.State != "load" || r.Retry.Class != int(SinkUnavailable) || r.Retry.Attempts != i+1 || r.Retry.Since.IsZero() {
				t.Fatalf("try %d: %+v", i, r)
			}
			if next := time.Until(r.Retry.NextTry); next <= pause/2 {
				t.Errorf("pause %s after %s", next, pause)
			} else {
				pause = next
			}
			w.sound(0)
			time.Sleep(pause)
		}
		w.same(w.slice(m, 0, w.end, r.Retry), 0, w.end)
		w.sound(w.end)
	})
}

// TestSinkTroubleInASlice: it is retried in its state, and what was written
// before is not written twice.
func TestSinkTroubleInASlice(t *testing.T) {
	for _, call := range []string{"begin", "write"} {
		inBubble(t, func(t *testing.T) {
			w := newSpanWorld(t, 60)
			var states []string
			m := w.attempt(on(call, 2, &sink.UnavailableError{Err: syscall.EACCES}), func(c *Config) {
				c.Progress = func(p Progress) {
					if p.Attempts > 0 && p.Class == int(SinkUnavailable) {
						states = append(states, p.State)
					}
				}
			})
			w.same(w.slice(m, 0, w.end, contract.RetryState{}), 0, w.end)
			if want := map[string]string{"begin": "configure", "write": "load"}[call]; len(states) == 0 || states[0] != want {
				t.Errorf("%s: states %v", call, states)
			}
			w.sound(w.end)
		})
	}
}

// TestUnknownTroubleKeeps: what was acknowledged before a reset is not done
// again, or a record that cannot be read would hold up all that is before it.
func TestUnknownTroubleKeeps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 60)
		reads := 0
		w.fault = func(_ int, op string) error {
			if op == "read" {
				if reads++; reads > 5 {
					return &kafkalog.Error{Op: "read", Topic: "t", Kind: kafkalog.KindOther, Err: errors.New("corrupt")}
				}
			}
			return nil
		}
		r := w.slice(w.attempt(nil, nil), 0, w.end, contract.RetryState{})
		if r.Position == 0 || r.Retry.Attempts == 0 {
			t.Errorf("%+v", r)
		}
		w.same(r, 0, r.Position)
		w.sound(r.Position)
	})
}

// TestSeekIntoWhatIsKept: it is passed over from its beginning, with its ledger,
// and a gap before what is kept is filled up to there.
func TestSeekIntoWhatIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 80)
		w.same(w.slice(w.attempt(nil, nil), 20, 50, contract.RetryState{}), 20, 50)
		r := w.slice(w.attempt(nil, nil), 33, w.end, contract.RetryState{})
		w.same(r, 20, w.end)
		if !strings.Contains(r.Moved, "offset 33 is kept already, with 20 to 49") {
			t.Errorf("moved: %q", r.Moved)
		}
		r = w.slice(w.attempt(nil, nil), 0, w.end, contract.RetryState{})
		w.same(r, 0, 20)
		if r.Moved != "" {
			t.Errorf("moved: %q", r.Moved)
		}
		w.same(w.slice(w.attempt(nil, nil), 20, w.end, contract.RetryState{}), 20, w.end)
		w.sound(w.end)
	})
}

// TestGapBeforeWhatIsKeptLostItsRecords: retention took what a gap before kept
// files would have had: the gap is lost, and not a record of what is kept.
func TestGapBeforeWhatIsKeptLostItsRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 80)
		w.same(w.slice(w.attempt(nil, nil), 50, w.end, contract.RetryState{}), 50, w.end)
		w.first = 60
		r := w.slice(w.attempt(nil, nil), 20, w.end, contract.RetryState{})
		if r.Start != 20 || r.Position != 50 || r.Ledger != (contract.Ledger{Offsets: 30, Lost: 30}) {
			t.Errorf("from %d to %d, %+v; want 20 to 50, all lost", r.Start, r.Position, r.Ledger)
		}
		w.same(w.slice(w.attempt(nil, nil), 50, w.end, contract.RetryState{}), 50, w.end)
	})
}

// TestFullAndIdle: a full span ends the slice, one that has something uses its
// time, one that has nothing ends with the idle time.
func TestFullAndIdle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 60)
		began, writes, over := time.Now(), 0, false
		m := w.attempt(func(call string) error {
			switch {
			case call == "write":
				writes++
			case call == "full" && writes == 2 && !over:
				return errors.New("full")
			}
			return nil
		}, nil)
		first := w.slice(m, 0, -1, contract.RetryState{})
		if writes != 2 || first.Position >= w.end || time.Since(began) > time.Second {
			t.Errorf("full: %d writes, %+v after %s", writes, first, time.Since(began))
		}
		w.same(first, 0, first.Position)
		over = true
		w.same(w.slice(m, first.Position, -1, contract.RetryState{}), first.Position, w.end)
		if took := time.Since(began); took < 29*time.Second {
			t.Errorf("the span was kept after %s", took)
		}
		began = time.Now()
		w.same(w.slice(m, w.end, -1, contract.RetryState{}), w.end, w.end)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("nothing came for %s", took)
		}
		w.sound(w.end)
	})
}

// TestLogMadeAgain: a log that is shorter is another one: its offsets are loaded
// although there are files of them.
func TestLogMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 60)
		m := w.attempt(nil, nil)
		w.same(w.slice(m, 0, w.end, contract.RetryState{}), 0, 60)
		w.log, w.end = map[int64]kafkalog.Record{}, 0
		for range 5 {
			w.put("doc")
		}
		r := w.slice(m, 60, -1, contract.RetryState{})
		w.same(r, 0, 5)
		again := w.slice(m, 60, -1, contract.RetryState{}) // the answer was lost
		w.same(again, 0, 5)
		found, err := w.admin.Audit(t.Context(), "i")
		old := fill(60)
		was := (&spanWorld{world: old}).owes(0, 60)
		if err != nil || found.Lines != was.Loaded+was.Deleted+5 || len(found.Faults) > 0 {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// TestCancelledSliceKeeps: a pause or a worker that ends is a success of what
// was done.
func TestCancelledSliceKeeps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 60)
		ctx, cancel := context.WithCancel(t.Context())
		m := w.attempt(nil, func(c *Config) {
			c.Progress = func(p Progress) {
				if p.Position >= 20 {
					cancel()
				}
			}
		})
		r, err := m.Slice(ctx, input(0))
		if err != nil || r.Position < 20 || r.Position == w.end {
			t.Fatalf("%+v, %v", r, err)
		}
		w.same(r, 0, r.Position)
		w.sound(r.Position)
	})
}

// TestForeignLedger: what does not account for its offsets stops the loader.
func TestForeignLedger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, note := range []string{`{}`, `{"offsets":10,"loaded":9}`, `[]`} {
			w := newSpanWorld(t, 60)
			to, err := w.admin.Open(t.Context(), "i")
			if err != nil {
				t.Fatal(err)
			}
			_, span, err := to.(sink.Spans).Begin(t.Context(), sink.Partition{Reader: "c", Topic: "t", Partition: 3}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if won, err := span.Keep(t.Context(), 10, []byte(note)); !won || err != nil {
				t.Fatal(won, err)
			}
			r := w.slice(w.attempt(nil, nil), 0, w.end, contract.RetryState{})
			if r.Position != 0 || r.Retry.Class != int(SinkRefused) || !strings.Contains(r.Retry.Error, "offsets 0 to 9") {
				t.Errorf("%s: %+v", note, r)
			}
		}
	})
}

// TestRedriveWritesAtOnce: what became of a failure is stated after each batch,
// so its document has to last by then.
func TestRedriveWritesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newSpanWorld(t, 20)
		early := 0
		m := w.attempt(func(call string) error {
			if call == "begin" {
				t.Error("a span was begun")
			}
			return nil
		}, func(c *Config) {
			c.Restate = func(f Failure, above int) (kafkalog.Record, bool) {
				if f.Resolution == Redriven && f.Type == TypeLoaded {
					held, err := w.admin.Holds(t.Context(), "i", []sink.HeldID{{ID: "id-" + f.ID[len("t-3-"):]}})
					if err != nil || !held[0].Found {
						early++
					}
				}
				return f.Record(above), true
			}
		})
		w.slice(m, 0, w.end, contract.RetryState{})
		if early > 0 {
			t.Errorf("%d documents were stated before they were there", early)
		}
		if n, err := w.admin.Count(t.Context(), "i"); err != nil || n != w.owes(0, w.end).Loaded {
			t.Errorf("%d documents, %v", n, err)
		}
	})
}

// TestSpansUnderTrouble: slices whose answer is lost, two at once, faults of
// every call before and after it happens, seeks back: in the end every document
// is one line, and the ledger of the last range is that of its offsets.
func TestSpansUnderTrouble(t *testing.T) {
	for seed := range uint64(40) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			w := newSpanWorld(t, 120)
			var mu sync.Mutex
			shake := func(call string) error {
				mu.Lock()
				defer mu.Unlock()
				if call == "full" {
					return map[bool]error{true: errors.New("full")}[rng.IntN(3) == 0]
				}
				if rng.IntN(8) > 0 {
					return nil
				}
				return []error{
					&sink.UnavailableError{Err: syscall.ENOSPC}, &sink.RequestError{Status: 409, Reason: "foreign"}, context.DeadlineExceeded, errors.New("odd"),
				}[rng.IntN(4)]
			}
			at, ledger, start := int64(0), contract.Ledger{}, int64(0)
			var retry contract.RetryState
			trouble := 60
			for at < w.end || trouble > 0 {
				trouble--
				if trouble > 0 && rng.IntN(6) == 0 { // a seek
					at = rng.Int64N(w.end)
					start, ledger = at, contract.Ledger{}
				}
				fault := shake
				if trouble <= 0 {
					fault = nil
				}
				results := make([]contract.LoadResult, 1+rng.IntN(2))
				var wg sync.WaitGroup
				for i := range results {
					m := w.attempt(fault, nil)
					wg.Go(func() { results[i] = w.slice(m, at, w.end, retry) })
				}
				wg.Wait()
				if trouble > 0 && rng.IntN(3) == 0 {
					continue // nobody answers
				}
				r := results[rng.IntN(len(results))]
				if r.Start != at {
					start, ledger = r.Start, contract.Ledger{}
				}
				at, ledger, retry = r.Position, ledger.Add(r.Ledger), r.Retry
				if wait := time.Until(retry.NextTry); wait > 0 {
					time.Sleep(wait)
				}
				if trouble < -1000 {
					t.Fatalf("seed %d: no end at %d: %+v", seed, at, retry)
				}
			}
			if want := w.owes(start, w.end); ledger != want {
				t.Errorf("seed %d: ledger from %d on %+v\nwant %+v", seed, start, ledger, want)
			}
			last := w.slice(w.attempt(nil, nil), 0, w.end, contract.RetryState{})
			for last.Position < w.end { // what seeks left out
				last = w.slice(w.attempt(nil, nil), last.Position, w.end, contract.RetryState{})
			}
			w.sound(w.end)
		})
	}
}
