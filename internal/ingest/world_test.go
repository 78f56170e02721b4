package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// world is a partition, a sink and an errors topic in memory, with a fault
// before any chosen operation.
type world struct {
	mu      sync.Mutex
	log     map[int64]kafkalog.Record
	first   int64
	end     int64
	perRead int

	docs    map[string]stored
	written map[int64]bool // source offsets whose op the sink has acknowledged
	stated  map[string][]kafkalog.Record
	refuse  map[string]sink.Outcome // by id
	limit   int                     // ops per request, else 413; 0: none
	tooBig  int                     // bytes of an errors record; 0: none

	ops   int
	fault func(n int, op string) error
	calls []string
}

type stored struct {
	version int64
	deleted bool
	doc     string
}

func newWorld() *world {
	return &world{
		log: map[int64]kafkalog.Record{}, perRead: 4, docs: map[string]stored{}, written: map[int64]bool{},
		stated: map[string][]kafkalog.Record{}, refuse: map[string]sink.Outcome{},
	}
}

// put appends a record; value "" makes a gap.
func (w *world) put(value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if value != "" {
		w.log[w.end] = kafkalog.Record{
			Offset: w.end, Key: []byte("key-" + strconv.FormatInt(w.end, 10)), Value: []byte(value),
			Headers: []kafkalog.Header{{Key: "own", Value: []byte("header")}},
		}
	}
	w.end++
}

// fill writes a log with everything in it: documents, deletes, records that are
// no documents, failures of three classes, refused items, gaps.
func fill(n int) *world {
	w := newWorld()
	for i := range n {
		w.put([]string{"doc", "doc", "none", "", "bad", "doc", "delete", "event", "panic", "doc", "refused", "", "doc"}[i%13])
	}
	for o, r := range w.log {
		if string(r.Value) == "refused" {
			w.refuse[fmt.Sprintf("id-%d", o)] = sink.Rejected
		}
	}
	return w
}

// transform is the pure function of a record that the tests use.
func transform(r *kafkalog.Record) (sink.Op, bool, error) {
	op := sink.Op{ID: fmt.Sprintf("id-%d", r.Offset), Version: r.Offset}
	switch string(r.Value) {
	case "none":
		return op, false, nil
	case "bad":
		return op, false, &RecordError{InvalidFormat, errors.New("no JSON")}
	case "event":
		op.ID = ""
		op.Doc = []byte("{}")
		return op, true, nil
	case "panic":
		panic("transform panics")
	case "delete":
		op.Delete = true
		return op, true, nil
	}
	op.Doc = fmt.Appendf(nil, `{"n":%d}`, r.Offset)
	return op, true, nil
}

func (w *world) step(op string) error {
	w.ops++
	w.calls = append(w.calls, op)
	if w.fault != nil {
		return w.fault(w.ops, op)
	}
	return nil
}

// Read implements Source.
func (w *world) Read(ctx context.Context, from int64, _ int, wait time.Duration, fn func(kafkalog.Record) error) (int64, int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.step("read"); err != nil {
		return from, -1, err
	}
	if from < w.first || from > w.end {
		return from, -1, &kafkalog.Error{Op: "read", Topic: "t", Kind: kafkalog.KindOffset, Err: errors.New("out of range")}
	}
	if from == w.end {
		w.mu.Unlock()
		sleep(ctx, wait)
		w.mu.Lock()
		return from, w.end, ctx.Err()
	}
	next := from
	for n := 0; next < w.end && n < w.perRead; next++ {
		r, ok := w.log[next]
		if !ok {
			continue
		}
		n++
		scratch := clone(&r)
		w.mu.Unlock() // fn may wait, and a fake clock stands still while somebody waits for a lock
		err := fn(scratch)
		w.mu.Lock()
		clear(scratch.Value) // the reader takes its memory back
		clear(scratch.Key)
		if err != nil {
			return next, w.end, err
		}
	}
	return next, w.end, nil
}

// Bounds implements Source.
func (w *world) Bounds(context.Context) (int64, int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.step("bounds"); err != nil {
		return -1, -1, err
	}
	return w.first, w.end, nil
}

// Write implements sink.Sink under the version rule.
func (w *world) Write(_ context.Context, ops []sink.Op) ([]sink.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.step("write"); err != nil {
		return nil, err
	}
	if w.limit > 0 && len(ops) > w.limit {
		return nil, &sink.RequestError{Status: 413}
	}
	results := make([]sink.Result, len(ops))
	for i, op := range ops {
		if err := sink.CheckOp(op); err != nil {
			return nil, &sink.RequestError{Status: 400, Reason: err.Error()}
		}
		if o, ok := w.refuse[op.ID]; ok {
			results[i] = sink.Result{Outcome: o, Status: 400, Type: "mapper", Reason: "cannot"}
			if o == sink.Busy {
				results[i].Status = 429
			}
			continue
		}
		w.written[offsetOf(op.ID)] = true
		if old, ok := w.docs[op.ID]; ok && old.version > op.Version {
			results[i].Outcome = sink.Superseded
			continue
		}
		w.docs[op.ID] = stored{op.Version, op.Delete, string(op.Doc)}
	}
	return results, nil
}

func offsetOf(id string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(id, "id-"), 10, 64)
	if err != nil {
		panic(err) // ids are made by transform
	}
	return n
}

// Close implements sink.Sink.
func (w *world) Close() error { return nil }

// Append implements ErrorLog.
func (w *world) Append(_ context.Context, recs []kafkalog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.step("append"); err != nil {
		return err
	}
	for _, r := range recs {
		if w.tooBig > 0 && len(r.Value) > w.tooBig {
			return &kafkalog.Error{Op: "append to", Topic: "e", Kind: kafkalog.KindTooLarge, Err: kafkalog.ErrTooLarge}
		}
		id := header(r, HeaderID)
		w.stated[id] = append(w.stated[id], clone(&r))
	}
	return nil
}

func header(r kafkalog.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// machine makes a loader of the world; edit may change its Config.
func (w *world) machine(t testing.TB, edit func(*Config)) *Machine {
	t.Helper()
	cfg := Config{Topic: "t", Partition: 3, Crawl: "c", Target: "i", BatchCount: 7}
	if edit != nil {
		edit(&cfg)
	}
	m, err := New(cfg, w, transform, w, w)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// owed says what is not acknowledged below a position: a violation of the order
// errors -> sink -> position. It is called at every move of the position.
func (w *world) owed(position int64) (missing []int64) {
	for o := w.first; o < position; o++ {
		r, ok := w.log[o]
		if !ok || string(r.Value) == "none" || w.written[o] || len(w.stated[RecordID("t", 3, o)]) > 0 {
			continue
		}
		missing = append(missing, o)
	}
	return missing
}

// watch checks the order at every move.
func (w *world) watch(broken *[]string) func(Progress) {
	last := int64(-1)
	return func(p Progress) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if p.Position < last {
			*broken = append(*broken, fmt.Sprintf("position went from %d to %d", last, p.Position))
		}
		last = p.Position
		if missing := w.owed(p.Position); len(missing) > 0 {
			*broken = append(*broken, fmt.Sprintf("position %d with %v unacknowledged", p.Position, missing))
		}
	}
}

func input(position int64) contract.LoadInput {
	return contract.LoadInput{Position: position, TimeBox: 30 * time.Second, IdleWait: 500 * time.Millisecond, Until: -1}
}

// run slices until the end of the log is reached, as the workflow does.
func (w *world) run(t testing.TB, m *Machine) (ledger contract.Ledger, slices int) {
	t.Helper()
	in := input(-1)
	in.Until = w.end
	for in.Position < in.Until {
		if slices++; slices > 1000 {
			t.Fatalf("no end at position %d of %d: %+v", in.Position, w.end, in.Retry)
		}
		r, err := m.Slice(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if want := r.Position - r.Start; r.Ledger.Offsets != want {
			t.Fatalf("ledger of [%d, %d) counts %d offsets", r.Start, r.Position, r.Ledger.Offsets)
		}
		balanced(t, r.Ledger)
		if !r.Retry.NextTry.IsZero() {
			sleep(t.Context(), time.Until(r.Retry.NextTry))
		}
		ledger = ledger.Add(r.Ledger)
		in.Position, in.Retry = r.Position, r.Retry
	}
	return ledger, slices
}

func balanced(t testing.TB, l contract.Ledger) {
	t.Helper()
	if sum := l.Loaded + l.Deleted + l.Superseded + l.NoDocument + l.Errors + l.Skipped + l.Compacted + l.Lost; sum != l.Offsets {
		t.Fatalf("ledger does not balance: %d of %d offsets: %+v", sum, l.Offsets, l)
	}
}

// check compares the world with what the log says it has to be.
func (w *world) check(t testing.TB, l contract.Ledger, twice bool) {
	t.Helper()
	var want contract.Ledger
	want.Offsets = w.end
	for o := range w.end {
		r, ok := w.log[o]
		id := RecordID("t", 3, o)
		switch v := string(r.Value); {
		case !ok:
			want.Compacted++
			continue
		case v == "none":
			want.NoDocument++
		case v == "delete":
			want.Deleted++
			if d := w.docs[fmt.Sprintf("id-%d", o)]; !d.deleted {
				t.Errorf("offset %d: not deleted", o)
			}
		case v == "doc":
			want.Loaded++
			if d := w.docs[fmt.Sprintf("id-%d", o)]; d.doc != fmt.Sprintf(`{"n":%d}`, o) {
				t.Errorf("offset %d: document %+v", o, d)
			}
		default:
			want.Errors++
			w.checkStated(t, o, r, w.stated[id], twice)
			delete(w.stated, id)
		}
		want.Bytes += int64(len(r.Value))
	}
	if len(w.stated) > 0 {
		t.Errorf("errors topic holds what did not fail: %v", w.stated)
	}
	if l != want {
		t.Errorf("ledger %+v\nwant   %+v", l, want)
	}
}

var wantClass = map[string]Class{"bad": InvalidFormat, "event": InvalidEvent, "panic": TransformFailed, "refused": ItemsFailed}

func (w *world) checkStated(t testing.TB, o int64, r kafkalog.Record, got []kafkalog.Record, twice bool) {
	t.Helper()
	if len(got) == 0 || len(got) > 1 && !twice {
		t.Errorf("offset %d (%s) is stated %d times", o, r.Value, len(got))
		return
	}
	e := got[0]
	if string(e.Key) != string(r.Key) || string(e.Value) != string(r.Value) || header(e, "own") != "header" {
		t.Errorf("offset %d: original became %q %q %v", o, e.Key, e.Value, e.Headers)
	}
	class := wantClass[string(r.Value)]
	if header(e, HeaderClass) != class.String() || header(e, HeaderCode) != strconv.Itoa(int(class)) ||
		header(e, HeaderOffset) != strconv.FormatInt(o, 10) || header(e, HeaderReason) == "" {
		t.Errorf("offset %d (%s): headers %v", o, r.Value, e.Headers)
	}
}

// faults are one error of every class that a client can give in a state.
func faults(op string) map[Class]error {
	kafka := func(k kafkalog.Kind) error {
		return &kafkalog.Error{Op: op, Topic: "t", Partition: 3, Kind: k, Err: errors.New("injected")}
	}
	if op == "write" {
		return map[Class]error{
			Uncategorised:   &sink.AnswerError{Reason: "HTML"},
			Network:         io.ErrUnexpectedEOF,
			SinkUnavailable: &sink.UnavailableError{Err: errors.New("refused")},
			SinkFailed:      &sink.RequestError{Status: 503, RetryAfter: 2 * time.Second},
			SinkRefused:     &sink.RequestError{Status: 429},
		}
	}
	all := map[Class]error{}
	for _, k := range []kafkalog.Kind{
		kafkalog.KindOther, kafkalog.KindUnavailable, kafkalog.KindTopic, kafkalog.KindPartition, kafkalog.KindNetwork,
	} {
		all[Class(k)] = kafka(k)
	}
	return all
}
