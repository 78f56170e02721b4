package main

import (
	"context"
	"encoding/json"
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
func countAgain(t *testing.T, change func(*contract.LoadReport, *fakeErrors, fakeHolder)) findings {
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
	log.recs["errs/0"] = []kafkalog.Record{{Headers: []kafkalog.Header{
		{Key: ingest.HeaderID, Value: []byte("orders-0-7")},
		{Key: ingest.HeaderTopic, Value: []byte("orders")},
		{Key: ingest.HeaderPartition, Value: []byte("0")},
		{Key: ingest.HeaderOffset, Value: []byte("7")},
		{Key: ingest.HeaderCode, Value: []byte("7")},
	}}}
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
	if err := c.count(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.found
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

func TestVerifyKnowsWhatIsNoGap(t *testing.T) {
	f := countAgain(t, func(p *contract.LoadReport, l *fakeErrors, h fakeHolder) {
		h["o-5"] = 99     // newer
		delete(h, "o-11") // skipped
		l.recs["orders/0"][20].Value = []byte(`{"id":"o-2400"}`)
		delete(h, "o-20") // of another id now: superseded
		p.Skips = []contract.Skip{{From: 11, Through: 11, Reason: "r"}}
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
