package redrive

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
)

func counts(loaded, superseded, none, failed, refused int64) contract.RedriveCounts {
	return contract.RedriveCounts{
		Taken: loaded + superseded + none + failed, Loaded: loaded, Superseded: superseded, NoDocument: none, Failed: failed, Refused: refused,
	}
}

func TestRedriveSendsOriginalsAndStatesWhatBecameOfThem(t *testing.T) {
	w := newWorld()
	loaded := w.fail("one")
	w.state(loaded) // a replay states it twice
	none := w.fail("none")
	bad := w.fail("bad", func(f *ingest.Failure) { f.Attempts = 5 })
	refused := w.fail("refused")
	w.refuse[refused.ID] = true
	old := w.fail("old")
	w.docs[old.ID] = stored{version: 99, doc: "newer"}
	done := w.fail("done")
	w.resolve(done, ingest.Discarded)
	large := w.fail("large", func(f *ingest.Failure) { f.Pointer = true })
	loop := w.fail("loop", func(f *ingest.Failure) { f.Redrives = 3 })
	w.put("e", 0, kafkalog.Record{Value: []byte("somebody else's")})

	end := w.end()
	position, c, retry := w.redrive(t, "run-1", 0, end)
	if position != end || c != counts(2, 1, 1, 2, 1) || retry.Attempts != 0 {
		t.Errorf("position %d of %d, %+v, %+v", position, end, c, retry)
	}
	want := map[string]string{
		loaded.ID: "redriven", none.ID: "no document", bad.ID: "open", refused.ID: "open", old.ID: "superseded",
		done.ID: "discarded", large.ID: "redriven", loop.ID: "open",
	}
	if got := w.statuses(t); !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
	if w.docs[loaded.ID].doc != "one" || w.docs[large.ID].doc != "large" || w.docs[old.ID].doc != "newer" || w.writes != 2 {
		t.Errorf("sink: %v, %d writes", w.docs, w.writes)
	}
	err := Each(t.Context(), w, "e", 1, func(e Entry) error {
		switch e.ID {
		case bad.ID:
			if e.Attempts != 6 || e.Redrives != 1 || e.Class != ingest.InvalidFormat || e.Reason != "still bad" || string(e.Original.Value) != "bad" ||
				string(e.Original.Key) != "k-bad" || len(e.Original.Headers) != 1 || !e.Original.Time.Equal(bad.Original.Time) || e.Redrive != "run-1" {
				t.Errorf("failed again in transform: %+v", e.Failure)
			}
		case refused.ID:
			if e.Attempts != 2 || e.Redrives != 1 || e.Status != Open || e.Failure.Status != 400 || e.Reason != "still refused" || string(e.Original.Value) != "refused" {
				t.Errorf("failed again in load: %+v", e.Failure)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	again := w.end()
	if _, c, _ := w.redrive(t, "run-2", 0, again); c != counts(0, 0, 0, 2, 1) {
		t.Errorf("the second redrive: %+v", c)
	}
}

// TestRedriveTakesWhatWasSkippedOnlyByName, from its source, and what fails
// then still says that the loader skipped it.
func TestRedriveTakesWhatWasSkippedOnlyByName(t *testing.T) {
	w := newWorld()
	skip := func(f *ingest.Failure) {
		f.Resolution, f.Skipped, f.Pointer, f.Reason, f.By = ingest.Skipped, true, true, "known bad", "ann@here"
		f.Original.Value, f.Original.Headers = nil, nil
	}
	one, bad := w.fail("one", skip), w.fail("bad", skip)
	end := w.end()
	if _, c, _ := w.redrive(t, "run-1", 0, end); c != counts(0, 0, 0, 0, 0) || w.writes != 0 {
		t.Errorf("--all took %+v", c)
	}
	for n, f := range []ingest.Failure{one, bad} {
		_, c, _ := w.redrive(t, fmt.Sprint("by-id-", n), 0, end, func(c *Config) { c.Select = contract.RedriveSelect{ID: f.ID, Most: 3} })
		if want := counts(int64(1-n), 0, 0, int64(n), 0); c != want {
			t.Errorf("%s: %+v, want %+v", f.ID, c, want)
		}
	}
	if want := map[string]string{one.ID: "redriven", bad.ID: "open"}; !reflect.DeepEqual(w.statuses(t), want) {
		t.Errorf("%v, want %v", w.statuses(t), want)
	}
	if w.docs[one.ID].doc != "one" {
		t.Errorf("sink: %v", w.docs)
	}
	err := Each(t.Context(), w, "e", 1, func(e Entry) error {
		if !e.Skipped || e.By != "ann@here" || e.ID == bad.ID && (e.Redrives != 1 || e.Reason != "still bad") {
			t.Errorf("%+v", e.Failure)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRedriveEndsWhereItBegan: what it states itself, and what a loader states
// meanwhile, is not taken by the same redrive.
func TestRedriveEndsWhereItBegan(t *testing.T) {
	w := newWorld()
	w.fail("bad-1")
	end := w.end()
	w.fail("later")
	if position, c, _ := w.redrive(t, "run", 0, end); position != end || c != counts(0, 0, 0, 1, 0) {
		t.Errorf("position %d, %+v", position, c)
	}
}

func TestRedriveSelects(t *testing.T) {
	for name, c := range map[string]struct {
		sel  contract.RedriveSelect
		want contract.RedriveCounts
	}{
		"id":      {contract.RedriveSelect{ID: "src-1-1", Most: 3}, counts(1, 0, 0, 0, 0)},
		"no id":   {contract.RedriveSelect{ID: "src-1-77", Most: 3}, counts(0, 0, 0, 0, 0)},
		"class":   {contract.RedriveSelect{Classes: []int{7}, Most: 3}, counts(1, 0, 0, 0, 0)},
		"classes": {contract.RedriveSelect{Classes: []int{7, 12}, Most: 3}, counts(2, 0, 0, 0, 1)},
		"forced":  {contract.RedriveSelect{All: true, Most: 3, Force: true}, counts(3, 0, 0, 0, 0)},
		"at most": {contract.RedriveSelect{All: true, Most: 1}, counts(1, 0, 0, 0, 2)},
		"nothing": {contract.RedriveSelect{Most: 3}, counts(0, 0, 0, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.fail("a")
			w.fail("b", func(f *ingest.Failure) { f.Class, f.Redrives = ingest.InvalidFormat, 1 })
			w.fail("c", func(f *ingest.Failure) { f.Redrives = 3 })
			_, got, _ := w.redrive(t, "run", 0, w.end(), func(cfg *Config) { cfg.Select = c.sel })
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestGuardCountsEveryRecordOfAnID: a loader that states the failure anew does
// not reset the count.
func TestGuardCountsEveryRecordOfAnID(t *testing.T) {
	w := newWorld()
	f := w.fail("a", func(f *ingest.Failure) { f.Redrives = 3 })
	f.Redrives = 0
	w.state(f)
	if _, c, _ := w.redrive(t, "run", 0, w.end()); c != counts(0, 0, 0, 0, 1) {
		t.Errorf("%+v", c)
	}
}

// TestOriginalThatCannotBeHad fails again, with the reason, and holds up
// nobody.
func TestOriginalThatCannotBeHad(t *testing.T) {
	pointer := func(f *ingest.Failure) { f.Pointer = true }
	for name, c := range map[string]struct {
		prepare func(w *world, f ingest.Failure)
		class   ingest.Class
	}{
		"gone":  {func(w *world, f ingest.Failure) { w.gone[f.ID] = true }, ingest.OffsetNotFound},
		"other": {func(w *world, f ingest.Failure) { w.topics["src-1"][f.Offset].Key = []byte("other") }, ingest.OffsetNotFound},
		"later": {func(w *world, f ingest.Failure) { w.topics["src-1"][f.Offset].Time = time.UnixMilli(5) }, ingest.OffsetNotFound},
		"topic": {func(w *world, _ ingest.Failure) {
			w.fault = func(op string) error {
				if op == "read at" {
					return &kafkalog.Error{Op: "read", Topic: "src", Kind: kafkalog.KindTopic, Err: errors.New("deleted")}
				}
				return nil
			}
		}, ingest.TopicNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			f := w.fail("large", pointer)
			w.fail("next")
			c.prepare(w, f)
			if _, got, _ := w.redrive(t, "run", 0, w.end()); got != counts(1, 0, 0, 1, 0) {
				t.Errorf("%+v", got)
			}
			last := w.topics[key("e", 0)][2]
			if got, ok := ingest.ParseFailure(&last); !ok || got.ID != f.ID || got.Class != c.class || !got.Pointer || got.Redrives != 1 || len(got.Original.Headers) != 1 {
				t.Errorf("stated again: %+v", got)
			}
		})
	}
}

// TestRedriveDiesAnywhere: at every operation the attempt dies, before and
// after its effect; the next attempt from the same position ends with the same
// counts and one resolution that counts per id.
func TestRedriveDiesAnywhere(t *testing.T) {
	var w *world
	build := func() {
		w = newWorld()
		for i := range 7 {
			w.fail(fmt.Sprintf("doc-%d", i))
		}
		w.fail("bad")
		w.fail("none")
		w.refuse[w.fail("refused").ID] = true
	}
	build()
	ops := 0
	w.fault = func(string) error { ops++; return nil }
	w.redrive(t, "run", 0, w.end())
	if ops < 15 {
		t.Fatalf("%d operations", ops)
	}
	for n := 1; n <= ops; n++ {
		build()
		end := w.end()
		done := 0
		w.fault = func(string) error {
			if done++; done >= n { // dead from here on
				return &kafkalog.Error{Op: "any", Kind: kafkalog.KindOther, Err: errors.New("killed")}
			}
			return nil
		}
		synctest.Test(t, func(t *testing.T) {
			x := NewIndex(0, end, "run")
			s := New(Config{Log: w, Topic: "e", Index: x, Redrive: "run", Transform: transform, Select: contract.RedriveSelect{All: true, Most: 3}})
			if x.Extend(t.Context(), w, "e", 0) != nil {
				return
			}
			m, err := ingest.New(ingest.Config{Topic: "e", BatchCount: 3, Restate: s.Restate}, s, s.Transform, w, errorLog{w})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Slice(t.Context(), contract.LoadInput{TimeBox: time.Second, IdleWait: time.Second, Until: end}); err != nil {
				t.Fatal(err)
			}
		})
		w.fault = nil
		position, c, _ := w.redrive(t, "run", 0, end)
		if position != end || c != counts(7, 0, 1, 2, 0) {
			t.Errorf("dead at %d: position %d of %d, %+v", n, position, end, c)
		}
		open := 0
		err := Each(t.Context(), w, "e", 1, func(e Entry) error {
			if e.Status != Open {
				return nil
			}
			open++
			if e.Redrives != 1 || e.Attempts != 2 {
				t.Errorf("dead at %d: %s has %d redrives and %d attempts", n, e.ID, e.Redrives, e.Attempts)
			}
			return nil
		})
		if err != nil || open != 2 || len(w.docs) != 7 {
			t.Errorf("dead at %d: %d open, %d documents, %v", n, open, len(w.docs), err)
		}
	}
}

func TestKafkaDownIsWaitedFor(t *testing.T) {
	w := newWorld()
	w.fail("doc")
	w.fault = func(op string) error {
		if op == "append" {
			return &kafkalog.Error{Op: "append", Kind: kafkalog.KindUnavailable, Err: errors.New("no broker")}
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		position, c, retry := w.redrive(t, "run", 0, w.end())
		if position != 0 || c != counts(0, 0, 0, 0, 0) || retry.State != "errors" || retry.Class != 1 || retry.NextTry.IsZero() {
			t.Errorf("position %d, %+v, %+v", position, c, retry)
		}
	})
}

func TestRateHolds(t *testing.T) {
	w := newWorld()
	for i := range 30 {
		w.fail(fmt.Sprintf("doc-%d", i))
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, c, _ := w.redrive(t, "run", 0, w.end(), func(cfg *Config) { cfg.Rate = 2 })
		if took := time.Since(began); c != counts(30, 0, 0, 0, 0) || took < 13*time.Second || took > 16*time.Second {
			t.Errorf("%+v took %s", c, took)
		}
	})
}
