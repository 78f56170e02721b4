package files_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trawl/internal/sink"
	"trawl/internal/sink/files"
	"trawl/internal/sink/sinktest"
)

var orders = sink.Partition{Reader: "shop", Topic: "orders", Partition: 3}

// process opens the index as a new process would.
func process(t *testing.T, dir string) sink.Spans {
	t.Helper()
	a := files.New(dir)
	must(t, a.PrepareTarget(t.Context(), sink.Target{Name: "x"}))
	w, err := a.OpenTarget(t.Context(), sink.Target{Name: "x"})
	must(t, err)
	return w.(sink.Spans)
}

// begin wants a new span.
func begin(t *testing.T, w sink.Spans, from int64) sink.Span {
	t.Helper()
	kept, s, err := w.Begin(t.Context(), orders, from)
	must(t, err)
	if s == nil {
		t.Fatalf("offset %d is kept already: %+v", from, kept)
	}
	return s
}

// isKept wants the span that covers an offset.
func isKept(t *testing.T, w sink.Spans, offset, from, to int64) {
	t.Helper()
	kept, s, err := w.Begin(t.Context(), orders, offset)
	must(t, err)
	if s != nil || kept.From != from || kept.To != to || string(kept.Note) != note(from, to) {
		t.Fatalf("offset %d is kept with %d to %d (%s), new %v; want %d to %d", offset, kept.From, kept.To, kept.Note, s != nil, from, to)
	}
}

func note(from, to int64) string { return fmt.Sprintf(`{"offsets":%d}`, to-from) }

// write puts a document per offset.
func write(t *testing.T, s sink.Span, from, to int64) {
	t.Helper()
	var ops []sink.Op
	for o := from; o < to; o++ {
		ops = append(ops, sinktest.Op(fmt.Sprintf("orders-3-%d", o), o, "t", "x"))
	}
	_, err := s.Write(t.Context(), ops)
	must(t, err)
}

func keep(t *testing.T, s sink.Span, from, to int64) bool {
	t.Helper()
	won, err := s.Keep(t.Context(), to, []byte(note(from, to)))
	must(t, err)
	return won
}

// span is the whole of one.
func span(t *testing.T, w sink.Spans, from, to int64) bool {
	t.Helper()
	s := begin(t, w, from)
	write(t, s, from, to)
	return keep(t, s, from, to)
}

// sound audits the index: n documents, each in one line, and nothing left over.
func sound(t *testing.T, dir string, n int64) {
	t.Helper()
	found, err := files.New(dir).Audit(t.Context(), "x")
	must(t, err)
	if len(found.Faults) > 0 || found.Repeats != 0 || found.Documents != n || found.Lines != n {
		t.Errorf("want %d documents once, found %+v", n, found)
	}
	if got := int64(len(rows(t, filepath.Join(dir, "files", "x")))); got != n {
		t.Errorf("%d lines, want %d", got, n)
	}
}

func temporaries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "files", "x", "orders", "00003*", ".*.tmp"))
	must(t, err)
	return list
}

// TestTwoAttemptsAtOnce: whoever links first wins, and the others go on at its
// end, however far they had read themselves.
func TestTwoAttemptsAtOnce(t *testing.T) {
	const attempts, rounds = 4, 25
	dir := t.TempDir()
	from := int64(0)
	for range rounds {
		var wg sync.WaitGroup
		start := make(chan struct{})
		ends := make([]int64, attempts) // of those that won
		spans := make([]sink.Span, attempts)
		for i := range attempts {
			spans[i] = begin(t, process(t, dir), from)
		}
		for i, s := range spans {
			wg.Go(func() {
				<-start
				to := from + int64(i+1)*7
				write(t, s, from, to)
				if won, err := s.Keep(t.Context(), to, []byte(note(from, to))); err != nil {
					t.Error(err)
				} else if won {
					ends[i] = to
				}
			})
		}
		close(start)
		wg.Wait()
		won := int64(0)
		for _, e := range ends {
			if e > 0 && won > 0 {
				t.Fatalf("two attempts won at offset %d: %v", from, ends)
			}
			won = max(won, e)
		}
		isKept(t, process(t, dir), from, from, won)
		from = won
	}
	sound(t, dir, from)
	if left := temporaries(t, dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestDiedAfterTheLink: the position was not answered, the next attempt finds
// the end and the ledger in the file.
func TestDiedAfterTheLink(t *testing.T) {
	dir := t.TempDir()
	span(t, process(t, dir), 0, 10)
	isKept(t, process(t, dir), 0, 0, 10)
	if !span(t, process(t, dir), 10, 20) {
		t.Error("the span after it was not kept")
	}
	sound(t, dir, 20)
}

// TestDiedBeforeTheLink: what was written counts for nothing, and is removed
// once its writer is gone, but not while it lives, however slow it is.
func TestDiedBeforeTheLink(t *testing.T) {
	dir := t.TempDir()
	alive := begin(t, process(t, dir), 0)
	write(t, alive, 0, 5)
	dead := filepath.Join(filepath.Dir(temporaries(t, dir)[0]), ".00003.0123.tmp")
	must(t, os.WriteFile(dead, []byte(`{"id":"cut`), 0o644))
	for _, name := range temporaries(t, dir) {
		old := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(name, old, old))
	}
	span(t, process(t, dir), 0, 8)
	if left := temporaries(t, dir); len(left) != 1 || left[0] == dead {
		t.Errorf("left over: %v", left)
	}
	if keep(t, alive, 0, 5) {
		t.Error("the second one won")
	}
	if left := temporaries(t, dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	sound(t, dir, 8)
}

// TestSeekBack: a kept offset is passed over with all of its span, and a gap is
// filled up to what is kept after it.
func TestSeekBack(t *testing.T) {
	dir := t.TempDir()
	w := process(t, dir)
	span(t, w, 100, 200)
	isKept(t, w, 150, 100, 200)
	isKept(t, w, 199, 100, 200)
	if got := begin(t, w, 200).Limit(); got != -1 {
		t.Errorf("limit %d at the end", got)
	}
	s := begin(t, w, 40)
	if s.Limit() != 100 {
		t.Errorf("limit %d, want 100", s.Limit())
	}
	write(t, s, 40, 100)
	if !keep(t, s, 40, 100) {
		t.Error("the gap was not filled")
	}
	sound(t, dir, 160)
}

// TestNoOffsetTwice: somebody seeks while a loader that was given up still
// writes, and their spans would overlap.
func TestNoOffsetTwice(t *testing.T) {
	dir := t.TempDir()
	w := process(t, dir)
	zombie := begin(t, w, 100)
	write(t, zombie, 100, 150)
	if !span(t, w, 50, 120) {
		t.Fatal("not kept")
	}
	if keep(t, zombie, 100, 150) {
		t.Error("offsets 100 to 119 are kept twice")
	}
	early := begin(t, w, 0)
	write(t, early, 0, 60)
	if early.Limit() != 50 || keep(t, early, 0, 60) {
		t.Error("offsets 50 to 59 are kept twice")
	}
	sound(t, dir, 70)
}

// TestTopicMadeAgain: files of offsets that the log does not have are set aside,
// once, and whoever still writes to them loses.
func TestTopicMadeAgain(t *testing.T) {
	dir := t.TempDir()
	w := process(t, dir)
	span(t, w, 0, 100)
	zombie := begin(t, w, 100)
	write(t, zombie, 100, 101)
	must(t, w.Renew(t.Context(), orders, 100)) // the log is as long: nothing happens
	isKept(t, w, 0, 0, 100)
	must(t, w.Renew(t.Context(), orders, 60))
	if keep(t, zombie, 100, 101) {
		t.Error("the old log goes on")
	}
	s := begin(t, w, 0)
	_, err := s.Write(t.Context(), []sink.Op{sinktest.Op("new", 7, "t", "x")})
	must(t, err)
	keep(t, s, 0, 50)
	must(t, process(t, dir).Renew(t.Context(), orders, 60)) // died before the position: again
	isKept(t, w, 0, 0, 50)
	sound(t, dir, 101)
}

// TestOldVersions: every line stays; the highest version counts.
func TestOldVersions(t *testing.T) {
	dir := t.TempDir()
	w := process(t, dir)
	for i, op := range []sink.Op{
		sinktest.Op("a", 5, "new", "x"), sinktest.Op("a", 4, "old", "x"), sinktest.Op("b", 1, "t", "x"),
		{ID: "b", Version: 2, Delete: true},
		sinktest.Op("a", 5, "again", "x"),
	} {
		s := begin(t, w, int64(i))
		r, err := s.Write(t.Context(), []sink.Op{op})
		must(t, err)
		if r[0].Outcome != sink.Loaded || !keep(t, s, int64(i), int64(i+1)) {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	a := files.New(dir)
	held, err := a.Holds(t.Context(), "x", []sink.HeldID{{ID: "a"}, {ID: "b"}})
	must(t, err)
	if held[0] != (sink.Holding{Found: true, Version: 5}) || held[1].Found {
		t.Errorf("%+v", held)
	}
	found, err := a.Audit(t.Context(), "x")
	must(t, err)
	if found.Documents != 1 || found.Lines != 5 || found.Repeats != 1 || len(found.Faults) > 0 ||
		found.Repeated[0] != `orders/00003/00003-00000000000000000004.jsonl line 1: "a" version 5` {
		t.Errorf("%+v", found)
	}
}

func TestLines(t *testing.T) {
	dir := t.TempDir()
	w := process(t, dir)
	s := begin(t, w, 7)
	_, err := s.Write(t.Context(), []sink.Op{
		{ID: "https://a/?x=1&y=<2>", Version: 3, Doc: []byte(`{"t":"a & b"}`)},
		{ID: "ü\"\n", Version: 4, Doc: []byte("{\n\"t\": 1 }\r\n"), Index: "logs-2026"},
		{ID: "gone", Version: 5, Delete: true, Index: "x"},
	})
	must(t, err)
	keep(t, s, 7, 12)
	raw, err := os.ReadFile(filepath.Join(dir, "files/x/orders/00003/00003-00000000000000000007.jsonl"))
	must(t, err)
	want := `{"id":"https://a/?x=1&y=<2>","version":3,"doc":{"t":"a & b"}}
{"id":"ü\"\n","version":4,"index":"logs-2026","doc":{"t":1}}
{"id":"gone","version":5,"deleted":true}
{"slice":{"reader":"shop","topic":"orders","partition":3,"first":7,"end":12,"lines":3,"ledger":{"offsets":5}}}
`
	if string(raw) != want {
		t.Errorf("got\n%s\nwant\n%s", raw, want)
	}
}

// TestWhatIsNotOurs: a file that was cut, renamed or made by another load stops
// the loader with a reason, and verify names it.
func TestWhatIsNotOurs(t *testing.T) {
	name := func(dir string, first int) string {
		return filepath.Join(dir, fmt.Sprintf("files/x/orders/00003/00003-%020d.jsonl", first))
	}
	for what, tt := range map[string]struct {
		spoil       func(dir string) error
		loader, who string
	}{
		"cut":     {func(dir string) error { return os.Truncate(name(dir, 0), 300) }, "it was cut or changed", "it was cut or changed"},
		"empty":   {func(dir string) error { return os.Truncate(name(dir, 0), 0) }, "it was cut or changed", "it was cut or changed"},
		"renamed": {func(dir string) error { return os.Rename(name(dir, 0), name(dir, 5)) }, "it says that it is orders partition 3, offsets 0 to 10", "says that it is 00003-00000000000000000000.jsonl"},
		"copied": {func(dir string) error {
			raw, err := os.ReadFile(name(dir, 0))
			return errors.Join(err, os.WriteFile(name(dir, 5), raw, 0o644))
		}, "it says that it is", "begins at offset 0, but the file before it ends at 10"},
		"a line more": {func(dir string) error {
			raw, err := os.ReadFile(name(dir, 0))
			return errors.Join(err, os.WriteFile(name(dir, 0), append([]byte(`{"id":"z","version":1,"deleted":true}`+"\n"), raw...), 0o644))
		}, "", "has 11 documents and says that it has 10"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			w := process(t, dir)
			span(t, w, 0, 10)
			must(t, tt.spoil(dir))
			_, _, err := w.Begin(t.Context(), orders, 7)
			var refused *sink.RequestError
			if tt.loader != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.loader)) {
				t.Errorf("begin: %v", err)
			}
			found, err := files.New(dir).Audit(t.Context(), "x")
			if err != nil || !strings.Contains(strings.Join(found.Faults, "\n"), tt.who) {
				t.Errorf("audit: %+v, %v", found, err)
			}
			if _, err := files.New(dir).Count(t.Context(), "x"); err != nil {
				t.Errorf("count: %v", err)
			}
		})
	}
	dir := t.TempDir()
	w := process(t, dir)
	span(t, w, 0, 10)
	_, _, err := w.Begin(t.Context(), sink.Partition{Reader: "other", Topic: "orders", Partition: 3}, 0)
	var refused *sink.RequestError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, `"shop"`) {
		t.Errorf("of another load: %v", err)
	}
}

// TestTrouble: what an operator can cure is an unavailable sink; an index that
// was deleted is none.
func TestTrouble(t *testing.T) {
	dir := t.TempDir()
	w := process(t, dir)
	must(t, os.MkdirAll(filepath.Join(dir, "files/x/orders"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "files/x/orders/00003"), nil, 0o644))
	var away *sink.UnavailableError
	if _, _, err := w.Begin(t.Context(), orders, 0); !errors.As(err, &away) {
		t.Errorf("no folder: %v", err)
	}
	for _, bad := range []sink.Partition{{Topic: "..", Reader: "r"}, {Topic: "a/b", Reader: "r"}, {Topic: "", Reader: "r"}, {Topic: "t", Partition: -1}} {
		if _, _, err := w.Begin(t.Context(), bad, 0); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	a := files.New(dir)
	must(t, a.Prepare(t.Context(), "c", "c-1", true))
	c, err := a.Open(t.Context(), "c-1")
	must(t, err)
	must(t, a.Drop(t.Context(), "c", "c-1"))
	if _, _, err := c.(sink.Spans).Begin(t.Context(), orders, 0); !errors.Is(err, sink.ErrNoIndex) {
		t.Errorf("a deleted index: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "current/c")); err == nil {
		t.Error("the alias is still there")
	}
	for range 2 { // a load that is deleted and begun again
		dropped, err := a.DropTarget(t.Context(), sink.Target{Name: "x"})
		if must(t, err); !dropped {
			t.Error("the load's folder is still there")
		}
	}
	if _, _, err := w.Begin(t.Context(), orders, 0); !errors.Is(err, sink.ErrNoIndex) {
		t.Errorf("a deleted load: %v", err)
	}
	span(t, process(t, dir), 0, 3)
	sound(t, dir, 3)
}

func TestNothingWritten(t *testing.T) {
	dir := t.TempDir()
	w := process(t, dir)
	begin(t, w, 0).Discard()
	s := begin(t, w, 0)
	if !keep(t, s, 0, 4) { // offsets without a document have a ledger, too
		t.Error("not kept")
	}
	isKept(t, w, 2, 0, 4)
	for _, bad := range []struct {
		to   int64
		note string
	}{{4, "{}"}, {5, ""}, {5, strings.Repeat(" ", sink.MaxNote+1)}} {
		if won, err := begin(t, w, 4).Keep(t.Context(), bad.to, []byte(bad.note)); won || err == nil {
			t.Errorf("%d %.9q: kept", bad.to, bad.note)
		}
	}
	sound(t, dir, 0)
}

// TestRedrivenOnce: what a redrive writes again after a crash, in other batches,
// is no second line.
func TestRedrivenOnce(t *testing.T) {
	dir := t.TempDir()
	var ops []sink.Op
	for i := range 20 {
		ops = append(ops, sinktest.Op(fmt.Sprint("id-", i), int64(i), "t", "x"))
	}
	ops = append(ops, sink.Op{ID: "gone", Version: 1, Delete: true})
	for _, batch := range [][]sink.Op{ops[:12], ops[5:], ops, nil} {
		results, err := process(t, dir).(sink.Sink).Write(t.Context(), batch)
		must(t, err)
		for i, r := range results {
			if r.Outcome != sink.Loaded {
				t.Errorf("%d: %+v", i, r)
			}
		}
	}
	found, err := files.New(dir).Audit(t.Context(), "x")
	must(t, err)
	if found.Lines != 21 || found.Documents != 20 || found.Repeats > 0 || found.Files != 2 || len(found.Faults) > 0 {
		t.Errorf("%+v", found)
	}
}
