package redrive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
)

// TestEachAgreesWithAModel: whatever was stated in whatever order, and however
// few ids fit a window, each id is visited once, at its last failure, as the
// last record says.
func TestEachAgreesWithAModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld()
		want := map[string]string{}
		at := map[string]int64{}
		for range 120 {
			n := rng.IntN(25)
			f := ingest.Failure{ID: ingest.RecordID("src", 0, int64(n)), Topic: "src", Offset: int64(n), Name: "orders"}
			switch rng.IntN(7) {
			case 0:
				w.resolve(f, []string{ingest.Discarded, ingest.Superseded, ingest.Redriven}[rng.IntN(3)])
				if _, failed := want[f.ID]; failed {
					last := w.topics[key("e", 0)][w.end()-1]
					r, _ := ingest.ParseFailure(&last)
					want[f.ID] = r.Resolution
				}
			case 2:
				f.Resolution, f.Skipped = ingest.Skipped, true
				at[f.ID], want[f.ID] = w.state(f), "skipped"
			case 1:
				w.put("e", 0, kafkalog.Record{Value: []byte("other")})
			default:
				at[f.ID], want[f.ID] = w.state(f), "open"
			}
		}
		for _, limit := range []int{1, 3, 1000} {
			got, gotAt := map[string]string{}, map[string]int64{}
			err := eachOf(t.Context(), w, "e", 0, 0, w.end(), limit, func(e Entry) error {
				if _, twice := got[e.ID]; twice {
					t.Errorf("%s twice", e.ID)
				}
				got[e.ID], gotAt[e.ID] = e.Status.String(), e.At.Offset
				return nil
			})
			if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gotAt, at) {
				t.Fatalf("seed %d, limit %d: %v\n got %v\nwant %v", seed, limit, err, got, want)
			}
		}
	}
}

func TestCountIDs(t *testing.T) {
	w := newWorld()
	for i := range 6 {
		f := w.fail(fmt.Sprint("doc", i))
		switch i {
		case 0:
			w.resolve(f, ingest.Redriven)
		case 1:
			w.resolve(f, ingest.Discarded)
		case 2:
			w.resolve(f, ingest.Superseded)
		case 3:
			f.Type = ingest.TypeNoDocument
			w.resolve(f, ingest.Redriven)
		case 4:
			w.resolve(f, ingest.Skipped)
		default:
			w.state(f)
		}
	}
	w.state(ingest.Failure{ID: "other-0-7", Topic: "other", Offset: 7})
	got, err := CountIDs(t.Context(), w, "e", 1)
	want := map[SourcePartition]Count{
		{"src", 1}:   {Open: 1, Redriven: 1, NoDocument: 1, Superseded: 1, Discarded: 1, Skipped: 1},
		{"other", 0}: {Open: 1},
	}
	if err != nil || !reflect.DeepEqual(got, want) || got[SourcePartition{"src", 1}].Total() != 6 {
		t.Errorf("%v\n got %v\nwant %v", err, got, want)
	}
}

func TestEachGivesErrors(t *testing.T) {
	w := newWorld()
	w.fail("a")
	mine := errors.New("mine")
	if err := Each(t.Context(), w, "e", 1, func(Entry) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("of visit: %v", err)
	}
	w.fault = func(string) error { return mine }
	if err := Each(t.Context(), w, "e", 1, func(Entry) error { return nil }); !errors.Is(err, mine) {
		t.Errorf("of the log: %v", err)
	}
}

func TestPattern(t *testing.T) {
	for reason, want := range map[string]string{
		"": "",
		"failed to parse field [price] of type [long] in document with id 'orders-0-17'. Preview of field's value: 'abc'": "failed to parse field [price] of type [long] in document with id '…'. Preview of field's value: '…'",
		"record has 40000 bytes, more than 32": "record has # bytes, more than #",
		`no "field" of 3.5`:                    `no "…" of #.#`,
		"it's open":                            "it's open",
		"two\nlines":                           "two lines",
	} {
		if got := Pattern(reason); got != want {
			t.Errorf("%q\n got %q\nwant %q", reason, got, want)
		}
	}
	long := make([]byte, 10_000)
	for i := range long {
		long[i] = 'x'
	}
	if got := Pattern(string(long)); len(got) > maxPattern+10 {
		t.Errorf("%d bytes", len(got))
	}
}
