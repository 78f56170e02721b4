package loader

import (
	"fmt"
	"testing"
	"time"

	"trawl/internal/contract"
	"trawl/internal/ingest"
)

// kill runs a cell: a fault, the death of the worker at that instant, a new
// worker; then everything has to be there, once. It says what happened.
func kill(t *testing.T, c cell) string {
	l := newPlant(t, c.pair, c.fault)
	l.fill(0)
	l.startWorker()
	undo := func() {}
	at := int64(-1)                  // no position yet
	if c.state == ingest.Configure { // the fault is there from the start
		l.fill(1)
		l.arm()
		l.start()
	} else {
		l.start()
		l.until("half of the records are loaded", time.Minute, func() bool { return l.report().Position == records/2 })
		at = records / 2
		l.arm()
		if c.sqlite != nil {
			undo = c.sqlite(l)
		}
		l.fill(1)
	}
	if c.shut != nil || c.named {
		l.until("the state names the class", time.Minute, l.named)
		l.killWorker()
	}
	select {
	case <-l.killed:
	case <-time.After(time.Minute):
		t.Fatalf("the fault was not met: %d hits, loader %+v", l.hits, l.report())
	}
	undo()
	must(t, l.kafkaGate.open())
	must(t, l.sinkGate.open())
	died := time.Now()
	l.startWorker()
	l.until("every record is a document or a failure", doneTimeout, func() bool {
		failures, _ := l.failures()
		return len(l.docs()) == len(l.good) && len(failures) == len(l.bad)
	})
	r := contract.LoadReport{Position: at}
	l.until("the loader is at the end", time.Minute, func() bool {
		now, known := l.ask()
		if known && now.Position < r.Position {
			t.Errorf("position went from %d to %d", r.Position, now.Position)
		}
		if known {
			r = now
		}
		return r.Position == records
	})
	took := time.Since(died)
	stated := l.conserved(r)
	if t.Failed() {
		return "FAILED"
	}
	again := ""
	if stated > len(l.bad) {
		again = fmt.Sprintf("; %d of %d failures stated again with their id", stated-len(l.bad), len(l.bad))
	}
	return fmt.Sprintf("0 lost, 0 twice; done %s after the kill, which was at position %d or later%s", took.Round(time.Second), at, again)
}

// conserved checks what came of every record, and gives how many records state
// failures.
func (l *plant) conserved(r contract.LoadReport) int {
	l.t.Helper()
	docs := l.docs()
	failures, stated := l.failures()
	for o := range int64(records) {
		id := ingest.RecordID(sourceTopic, 1, o)
		version, loaded := docs[id]
		f, fails := failures[id]
		class, owed := l.bad[o]
		if loaded != l.good[o] || fails != owed || loaded && version != o || fails && f.Class != class {
			l.t.Errorf("offset %d: document %t of version %d, failure %t of class %s; want a document: %t, a failure: %t of class %s",
				o, loaded, version, fails, f.Class, l.good[o], owed, class)
		}
		delete(docs, id)
		delete(failures, id)
	}
	if len(docs)+len(failures) > 0 {
		l.t.Errorf("nobody wrote %v, %v", docs, failures)
	}
	if w := r.Ledger; w.Offsets != records || w.Loaded != int64(len(l.good)) || w.Errors != int64(len(l.bad)) || w.Missing() != 0 {
		l.t.Errorf("ledger %+v", w)
	}
	ctx := l.t.Context()
	l.until("the position is copied to the group", time.Minute, func() bool {
		at, _, ok, err := l.feed.Committed(ctx, "trawl.load."+loadName, sourceTopic, 1)
		return err == nil && ok && at == records
	})
	return stated
}
