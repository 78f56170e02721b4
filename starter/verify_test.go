package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform"
)

// fakeHolder holds versions by id.
type fakeHolder map[string]int64

func (f fakeHolder) Holds(_ context.Context, _ string, ids []sink.HeldID) ([]sink.Holding, error) {
	out := make([]sink.Holding, len(ids))
	for i, id := range ids {
		v, ok := f[id.ID]
		out[i] = sink.Holding{Found: ok, Version: v}
	}
	return out, nil
}

// countAgain runs verify over a topic of values and a sink that holds what was
// loaded; change spoils something before.
func countAgain(t *testing.T, change func(*contract.LoadReport, *fakeErrors, fakeHolder), auditor ...sink.Auditor) findings {
	t.Helper()
	var err error
	f := countAgainErr(t, change, &err, auditor...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func countAgainErr(t *testing.T, change func(*contract.LoadReport, *fakeErrors, fakeHolder), counted *error, auditor ...sink.Auditor) findings {
	t.Helper()
	log := &fakeErrors{partitions: map[string]int{"orders": 1, "errs": 1}, recs: map[string][]kafkalog.Record{}}
	holder := fakeHolder{}
	for i := range 2500 {
		r := kafkalog.Record{Offset: int64(i), Value: fmt.Appendf(nil, `{"id":"o-%d"}`, i)}
		if i == 7 {
			r.Value = []byte("no json")
		} else {
			holder[fmt.Sprintf("o-%d", i)] = int64(i)
		}
		log.recs["orders/0"] = append(log.recs["orders/0"], r)
	}
	log.state("errs", 0, ordersFailure(7, ""))
	part := contract.LoadReport{
		Topic: "orders", Position: 2500, End: 2500, Ledger: contract.Ledger{Offsets: 2500, Loaded: 2499, Errors: 1},
	}
	if change != nil {
		change(&part, log, holder)
	}
	f, err := transform.New(spec.LoadSource{Topic: "orders", Format: spec.FormatJSON, ID: "id", Version: spec.VersionOffset})
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{
		v: &verified{
			id: "load/shop", parts: []contract.LoadReport{part}, errors: "errs", index: "shop",
			topic:     func(p contract.LoadReport) string { return p.Topic },
			transform: func(contract.LoadReport) (transform.Func, error) { return f, nil },
		},
		log: log, holder: holder,
	}
	for _, a := range auditor {
		c.auditor = a
	}
	*counted = c.count(t.Context())
	return c.found
}

// ordersFailure is what a loader states of an offset.
func ordersFailure(offset int64, resolution string) ingest.Failure {
	return ingest.Failure{
		ID: ingest.RecordID("orders", 0, offset), Topic: "orders", Offset: offset, Class: ingest.InvalidFormat,
		Resolution: resolution, Skipped: resolution == ingest.Skipped,
	}
}

// TestVerifyKnowsSkipsOfEarlierRuns, whatever became of them since: the errors
// topic is all that remains of the orders.
func TestVerifyKnowsSkipsOfEarlierRuns(t *testing.T) {
	skip := func(p *contract.LoadReport, l *fakeErrors, h fakeHolder) ingest.Failure {
		delete(h, "o-11")
		p.Ledger.Skipped, p.Ledger.Loaded = 1, 2498
		x := ordersFailure(11, ingest.Skipped)
		l.state("errs", 0, x)
		return x
	}
	for name, after := range map[string]func(l *fakeErrors, h fakeHolder, x ingest.Failure){
		"skipped":                  func(*fakeErrors, fakeHolder, ingest.Failure) {},
		"stated again by a replay": func(l *fakeErrors, _ fakeHolder, x ingest.Failure) { l.state("errs", 0, x) },
		"redriven": func(l *fakeErrors, h fakeHolder, x ingest.Failure) {
			h["o-11"], x.Resolution = 11, ingest.Redriven
			l.state("errs", 0, x)
		},
		"redriven in vain": func(l *fakeErrors, _ fakeHolder, x ingest.Failure) {
			x.Resolution, x.Redrives = "", 1
			l.state("errs", 0, x)
		},
	} {
		f := countAgain(t, func(p *contract.LoadReport, l *fakeErrors, h fakeHolder) { after(l, h, skip(p, l, h)) })
		if !f.Balanced || f.Skipped != 1 || f.Errors != 1 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	f := countAgain(t, func(p *contract.LoadReport, l *fakeErrors, h fakeHolder) {
		skip(p, l, h)
		l.recs["errs/0"] = l.recs["errs/0"][:1]
		p.Skips = []contract.Skip{{From: 11, Through: 11, Reason: "r"}}
	})
	if f.Balanced || f.Missing != 2 {
		t.Errorf("an order whose skip was not stated: %+v", f)
	}
}

// TestVerifyOfARangeThatIsReadAgain: what was stated before is in the errors
// topic, and in the sink by now.
func TestVerifyOfARangeThatIsReadAgain(t *testing.T) {
	again := func(p *contract.LoadReport, l *fakeErrors, _ fakeHolder) {
		l.state("errs", 0, ordersFailure(11, ingest.Skipped), ordersFailure(12, ""))
		p.Before = contract.Ledger{Offsets: 2500, Loaded: 2497, Errors: 2, Skipped: 1}
		p.Ledger = p.Before.Add(contract.Ledger{Offsets: 2500, Loaded: 2499, Errors: 1})
	}
	if f := countAgain(t, again); !f.Balanced {
		t.Errorf("%+v", f)
	}
	f := countAgain(t, func(p *contract.LoadReport, l *fakeErrors, h fakeHolder) {
		again(p, l, h)
		p.Ledger.Errors, p.Ledger.Loaded = p.Ledger.Errors+2, p.Ledger.Loaded-2
	})
	if f.Balanced {
		t.Errorf("a failure that was not stated: %+v", f)
	}
}

// TestVerifyStepsOverAnUnreadableBatch that an operator left out.
func TestVerifyStepsOverAnUnreadableBatch(t *testing.T) {
	for missing, balanced := range map[int64]bool{-1: true, 31: false} {
		var err error
		f := countAgainErr(t, func(p *contract.LoadReport, l *fakeErrors, h fakeHolder) {
			l.broken = &kafkalog.BatchError{Base: 29, Last: 32, Err: errors.New("crc")}
			for at := int64(29); at <= 32; at++ {
				delete(h, fmt.Sprint("o-", at))
				if at != missing {
					l.state("errs", 0, ordersFailure(at, ingest.Skipped))
				}
			}
			p.Ledger.Skipped, p.Ledger.Loaded = 4, 2495
		}, &err)
		if f.Balanced != balanced || (err == nil) != balanced {
			t.Errorf("without %d: %v, %+v", missing, err, f)
		}
	}
}

func TestVerifyBalances(t *testing.T) {
	f := countAgain(t, nil)
	if !f.Balanced || f.Documents != 2499 || f.Errors != 1 || f.Records != 2500 {
		t.Errorf("%+v", f)
	}
}

func TestVerifyNamesGaps(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*contract.LoadReport, *fakeErrors, fakeHolder)
		want   string
	}{
		{"a document that is not there", func(_ *contract.LoadReport, _ *fakeErrors, h fakeHolder) { delete(h, "o-2077") }, `orders[0] offset 2077: document "o-2077" is neither in the sink nor in the errors topic`},
		{"an old version", func(_ *contract.LoadReport, _ *fakeErrors, h fakeHolder) { h["o-9"] = 8 }, `the sink holds version 8 of "o-9", not 9 or a newer one`},
		{"a failure that was not stated", func(_ *contract.LoadReport, l *fakeErrors, _ fakeHolder) { l.recs["errs/0"] = nil }, "orders[0] offset 7: it cannot become a document"},
		{"a ledger of another range", func(p *contract.LoadReport, _ *fakeErrors, _ fakeHolder) { p.Ledger.Offsets--; p.Ledger.Loaded-- }, "the ledger has 2499 offsets for the range 0 to 2500"},
		{"a ledger that does not add up", func(p *contract.LoadReport, _ *fakeErrors, _ fakeHolder) { p.Ledger.Loaded -= 3 }, "3 of them have no end"},
		{"errors that the ledger does not know", func(p *contract.LoadReport, _ *fakeErrors, _ fakeHolder) { p.Ledger.Errors, p.Ledger.Loaded = 0, 2500 }, "in errors: the ledger says 0, counted are 1"},
	} {
		f := countAgain(t, tt.change)
		if f.Balanced || f.Missing == 0 || !strings.Contains(strings.Join(f.Gaps, "\n"), tt.want) {
			t.Errorf("%s: want %s, got %+v", tt.name, tt.want, f)
		}
	}
}

// fakeAuditor is a sink files as verify sees them.
type fakeAuditor struct {
	found sink.Audit
	err   error
}

func (f fakeAuditor) Audit(context.Context, string) (sink.Audit, error) { return f.found, f.err }

func TestVerifyAuditsFiles(t *testing.T) {
	found := sink.Audit{Files: 2, Lines: 2500, Documents: 2499, Repeats: 3, Repeated: []string{"a line 7"}}
	audited := func(found sink.Audit, err error) findings {
		return countAgain(t, nil, fakeAuditor{found, err})
	}
	f := audited(found, nil)
	text := verdictText("load/shop", f)
	if !f.Balanced || !strings.Contains(text, "2 files, 2,500 lines: 2,499 documents at their highest version, 3 lines repeat an id and version") ||
		!strings.Contains(text, "a line 7") || !strings.Contains(text, "and 2 more") {
		t.Errorf("%+v\n%s", f, text)
	}
	found.Faults = []string{"b begins at offset 5, but the file before it ends at 7"}
	if f := audited(found, nil); f.Balanced || f.Missing != 1 || f.Gaps[0] != found.Faults[0] {
		t.Errorf("%+v", f)
	}
	if f := audited(sink.Audit{}, sink.ErrNoIndex); !f.Balanced || f.Audit != nil {
		t.Errorf("%+v", f)
	}
}

func TestVerifyKnowsWhatIsNoGap(t *testing.T) {
	f := countAgain(t, func(p *contract.LoadReport, l *fakeErrors, h fakeHolder) {
		h["o-5"] = 99     // newer
		delete(h, "o-11") // skipped
		l.recs["orders/0"][20].Value = []byte(`{"id":"o-2400"}`)
		delete(h, "o-20") // of another id now: superseded
		l.state("errs", 0, ordersFailure(11, ingest.Skipped))
		p.Ledger.Skipped, p.Ledger.Loaded, p.Ledger.Superseded = 1, 2497, 1
	})
	if !f.Balanced || f.Skipped != 1 {
		t.Errorf("%+v", f)
	}
	// A range that began later, by a seek.
	f = countAgain(t, func(p *contract.LoadReport, _ *fakeErrors, h fakeHolder) {
		delete(h, "o-3")
		p.Start, p.Before = 100, contract.Ledger{Offsets: 2500, Loaded: 2499, Errors: 1}
		p.Ledger = p.Before.Add(contract.Ledger{Offsets: 2400, Loaded: 2400})
	})
	if !f.Balanced || f.Records != 2400 {
		t.Errorf("%+v", f)
	}
}

func TestVerifyOfWhatIsNotThere(t *testing.T) {
	f := newFakes()
	if got := f.run("verify", "shop"); got.code != exitNotFound {
		t.Error(got)
	}
	f.load.specs = map[string]json.RawMessage{"shop": encoded(t, small)}
	if got := f.run("verify", "shop"); got.code != exitNotFound || !strings.Contains(got.err, "there is no load/shop") {
		t.Error(got)
	}
}
