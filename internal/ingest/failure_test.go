package ingest

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

func aFailure() Failure {
	return Failure{
		ID: RecordID("src", 3, 42), Topic: "src", Partition: 3, Offset: 42,
		Original: kafkalog.Record{
			Offset: 42, Key: []byte("k"), Value: []byte("v"), Time: time.UnixMilli(1_700_000_000_123).UTC(),
			Headers: []kafkalog.Header{{Key: "own", Value: []byte("1")}, {Key: "own", Value: []byte{}}, {Key: "", Value: nil}},
		},
		Class: ItemsFailed, State: "load", Status: 400, Type: "mapper", Reason: "cannot", Attempts: 2,
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Name: "orders", Target: "orders-1",
	}
}

func TestFailureIsReadAsItWasStated(t *testing.T) {
	for name, change := range map[string]func(*Failure){
		"plain":      func(*Failure) {},
		"no key":     func(f *Failure) { f.Original.Key = nil },
		"empty key":  func(f *Failure) { f.Original.Key = []byte{} },
		"tombstone":  func(f *Failure) { f.Original.Value = nil },
		"no headers": func(f *Failure) { f.Original.Headers = []kafkalog.Header{} },
		"binary":     func(f *Failure) { f.Original.Value = []byte{0, 0xff, '\n'} },
		"no time":    func(f *Failure) { f.Original.Time = time.Time{} },
		"pointer":    func(f *Failure) { f.Pointer, f.Cut, f.Original.Value = true, 2, []byte{} },
		"redriven":   func(f *Failure) { f.Redrives, f.Redrive = 3, "run" },
		"resolved":   func(f *Failure) { f.Resolution, f.Type = Redriven, TypeDeleted },
		"many headers": func(f *Failure) {
			f.Original.Headers = []kafkalog.Header{{Key: "large", Value: bytes.Repeat([]byte("x"), 100_000)}}
		},
		"of an errors topic": func(f *Failure) {
			inner := aFailure()
			inner.Pointer, inner.Redrives, inner.Resolution = true, 9, Discarded
			f.Original.Headers = inner.Record(-1).Headers
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := aFailure()
			change(&want)
			rec := want.Record(-1)
			got, ok := ParseFailure(&rec)
			if !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestFailureLeavesOutNoMoreThanItMust(t *testing.T) {
	f := aFailure()
	f.Original.Value = bytes.Repeat([]byte("x"), 1500)
	f.Original.Headers = append(f.Original.Headers, kafkalog.Header{Key: "large", Value: make([]byte, maxErrorHeaders)}, kafkalog.Header{Key: "last"})
	for _, c := range []struct{ above, value, headers, cut int }{
		{-1, 1500, 5, 0}, {900_000, 1500, 3, 2}, {1000, 0, 3, 2}, {0, 0, 0, 5},
	} {
		rec := f.Record(c.above)
		got, ok := ParseFailure(&rec)
		if !ok || len(got.Original.Value) != c.value || len(got.Original.Headers) != c.headers || got.Cut != c.cut || got.Pointer != (c.value == 0) {
			t.Errorf("above %d: %d bytes, %d headers, %d cut, pointer %v", c.above, len(got.Original.Value), len(got.Original.Headers), got.Cut, got.Pointer)
		}
		if got.Pointer && got.Record(-1).Value == nil {
			t.Error("a pointer reads as a tombstone")
		}
	}
}

func TestFailureCutsTheReason(t *testing.T) {
	f := aFailure()
	f.Reason = strings.Repeat("é", sink.MaxReason)
	rec := f.Record(-1)
	if got, _ := ParseFailure(&rec); len(got.Reason) != sink.MaxReason {
		t.Errorf("reason has %d bytes", len(got.Reason))
	}
}

func TestWhatIsNoFailure(t *testing.T) {
	f := aFailure()
	for name, drop := range map[string]string{"no id": HeaderID, "no partition": HeaderPartition, "no offset": HeaderOffset} {
		rec := f.Record(-1)
		rec.Headers = slices.DeleteFunc(rec.Headers, func(h kafkalog.Header) bool { return h.Key == drop })
		if got, ok := ParseFailure(&rec); ok {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
	rec := f.Record(-1)
	for i, h := range rec.Headers {
		if slices.Contains([]string{HeaderStatus, HeaderAttempts, HeaderCode, HeaderTime, HeaderRecordTime}, h.Key) {
			rec.Headers[i].Value = []byte("-9x")
		}
	}
	if got, ok := ParseFailure(&rec); !ok || got.Status != 0 || got.Attempts != 0 || got.Class != 0 || !got.Time.IsZero() {
		t.Errorf("nonsense is read as %v %+v", ok, got)
	}
}

// TestRestate: whoever restates is given every outcome exactly once per
// acknowledgement: failures, and what was loaded, after the sink has it.
func TestRestate(t *testing.T) {
	w := fill(26)
	w.docs["id-5"] = stored{version: 99}
	told := map[int64]Failure{}
	m, err := New(Config{
		Topic: "errors", Partition: 3, Crawl: "x",
		Restate: func(f Failure, _ int) (kafkalog.Record, bool) {
			if f.Resolution == Redriven && f.Type != TypeNoDocument && !w.written[f.Offset] {
				t.Errorf("offset %d is resolved before the sink has it", f.Offset)
			}
			told[f.Offset] = f
			return f.Record(-1), f.Offset != 0
		},
	}, w, transform, w, w)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Slice(context.Background(), contract.LoadInput{Position: 0, TimeBox: time.Minute, IdleWait: time.Millisecond, Until: 26})
	if err != nil || r.Position != 26 {
		t.Fatalf("%+v, %v", r, err)
	}
	count := contract.Ledger{}
	for o := range int64(26) {
		f, ok := told[o]
		_, there := w.log[o]
		switch {
		case ok != there:
			t.Errorf("offset %d: told %v", o, ok)
		case !ok:
			count.Compacted++
		case f.Resolution == Superseded:
			count.Superseded++
		case f.Type == TypeLoaded:
			count.Loaded++
		case f.Type == TypeDeleted:
			count.Deleted++
		case f.Type == TypeNoDocument:
			count.NoDocument++
		default:
			count.Errors++
		}
		if there && o > 0 && len(w.stated[f.ID]) != 1 {
			t.Errorf("offset %d is stated %d times", o, len(w.stated[f.ID]))
		}
	}
	count.Offsets, count.Bytes = 26, r.Ledger.Bytes
	if r.Ledger != count || count.Superseded != 1 || count.Errors == 0 || count.Deleted == 0 {
		t.Errorf("ledger %+v, told %+v", r.Ledger, count)
	}
	if len(w.stated[RecordID("errors", 3, 0)]) != 0 {
		t.Error("what Restate withholds is stated")
	}
}
