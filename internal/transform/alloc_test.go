//go:build !race

package transform_test

import (
	"testing"

	"trawl/internal/kafkalog"
	"trawl/internal/transform"
)

// The race detector empties pools, so it is left out here.
func TestAllocations(t *testing.T) {
	for src, most := range map[string]float64{
		`{}`:                                 2, // the document and its id
		`{"id":"key","version":"timestamp"}`: 2,
		`{"id":"id","routing_field":"user.name"}`:                                                     4,
		`{"format":"plain","plain":{"index":"logs","by":"day","time_field":"time","id_field":"key"}}`: 4,
	} {
		f := newFunc(t, src)
		r := rec("key", event(5<<10))
		call := func(r *kafkalog.Record, f transform.Func) {
			if _, ok, err := f(r, "events", 3); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		if got := testing.AllocsPerRun(200, func() { call(r, f) }); got > most+0.5 { // a pool may be emptied in between
			t.Errorf("%s: %.1f allocations a record, want %.0f", src, got, most)
		}
	}
}
