package ingest_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog/logtest"
)

const (
	faultLasts = time.Minute
	// namedWithin: a client may try again by itself before it tells us.
	namedWithin = 10 * time.Second
	streamed    = 32              // records of a cell
	atOnce      = 8               // of them there at the start
	pace        = 5 * time.Second // of the others
	poisonFrom  = 12
)

// cell of the matrix: a fault of a class that meets a state.
type cell struct {
	state ingest.State
	class ingest.Class
	step  ingest.Step
	lasts time.Duration // 0: once
	fault fault
}

func (c cell) String() string { return fmt.Sprintf("%s/%02d %s", c.state, int(c.class), c.class) }

// retried: the state shows the class until the fault is over. What is isolated
// is in the errors topic instead.
func (c cell) retried() bool {
	switch c.step.Do {
	case ingest.Retry, ingest.Reset, ingest.Reposition, ingest.Narrow:
		return true
	}
	return false
}

// fault as it is made on the wire, or by a record.
type fault struct {
	kafka logtest.Fault
	spare int // requests that pass before the fault begins
	// sink answers a bulk, or in state configure any other request.
	sink   func(*plant, http.ResponseWriter, *http.Request)
	refuse string // port whose connections are cut, and refused from then on
	atDial bool   // the fault begins with the first connection

	poison string // value of the record; see transform
	size   int
	fate   ingest.Class // of the poison; the cell's by default
}

// pair is a cell without its duration.
type pair struct {
	state ingest.State
	class ingest.Class
}

// faults has one entry for each pair that the table allows: a test compares.
var faults = map[pair]fault{
	{ingest.Configure, ingest.Uncategorised}:     {kafka: logtest.OffsetsCode(29)}, // not authorised
	{ingest.Configure, ingest.KafkaUnavailable}:  {refuse: kafkaPort, atDial: true},
	{ingest.Configure, ingest.TopicNotFound}:     {kafka: logtest.Gone(kmsg.ListOffsets, srcTopic, broker, true)},
	{ingest.Configure, ingest.PartitionNotFound}: {kafka: logtest.Gone(kmsg.ListOffsets, srcTopic, broker, false)},
	{ingest.Configure, ingest.OffsetNotFound}:    {kafka: logtest.OffsetsCode(1)},
	{ingest.Configure, ingest.Network}:           {kafka: logtest.HangUp(kmsg.ListOffsets)},
	{ingest.Configure, ingest.SinkUnavailable}:   {refuse: sinkPort, atDial: true},
	{ingest.Configure, ingest.SinkFailed}:        {sink: says(503, "text/html", "<html>no backend</html>")},
	{ingest.Configure, ingest.SinkRefused}:       {sink: refusal(403, "security_exception")}, // must not be created

	{ingest.Extract, ingest.Uncategorised}:     {kafka: logtest.FetchCode(2), spare: 2}, // corrupt message
	{ingest.Extract, ingest.KafkaUnavailable}:  {kafka: logtest.HangUp(kmsg.Fetch), spare: 2, refuse: kafkaPort},
	{ingest.Extract, ingest.TopicNotFound}:     {kafka: logtest.Gone(kmsg.Fetch, srcTopic, broker, true), spare: 2},
	{ingest.Extract, ingest.PartitionNotFound}: {kafka: logtest.Gone(kmsg.Fetch, srcTopic, broker, false), spare: 2},
	{ingest.Extract, ingest.MessageTooBig}:     {poison: "x", size: 3 << 19}, // above the reader's limit
	{ingest.Extract, ingest.OffsetNotFound}:    {kafka: logtest.FetchCode(1), spare: 2},
	{ingest.Extract, ingest.Network}:           {kafka: logtest.HangUp(kmsg.Fetch), spare: 2},

	{ingest.Transform, ingest.Uncategorised}:     {poison: "0"},
	{ingest.Transform, ingest.TopicNotFound}:     {poison: "2"}, // of the original, in a redrive
	{ingest.Transform, ingest.PartitionNotFound}: {poison: "3"},
	{ingest.Transform, ingest.MessageTooBig}:     {poison: "m", size: maxLog/4 + 1},
	{ingest.Transform, ingest.OffsetNotFound}:    {poison: "5"},
	{ingest.Transform, ingest.InvalidFormat}:     {poison: "b"},
	{ingest.Transform, ingest.InvalidEvent}:      {poison: "e"},
	{ingest.Transform, ingest.TransformFailed}:   {poison: "p"},

	{ingest.Load, ingest.Uncategorised}:   {sink: says(200, "text/html", "<html>welcome</html>")},
	{ingest.Load, ingest.MessageTooBig}:   {poison: "l", size: maxDoc},
	{ingest.Load, ingest.Network}:         {sink: applied}, // the acknowledgement is lost
	{ingest.Load, ingest.SinkUnavailable}: {sink: applied, refuse: sinkPort},
	{ingest.Load, ingest.SinkFailed}:      {sink: says(503, "text/html", "<html>no backend</html>")},
	{ingest.Load, ingest.InvalidEvent}:    {poison: "v"},
	{ingest.Load, ingest.ItemsFailed}:     {poison: "i"},
	{ingest.Load, ingest.SinkRefused}:     {sink: refusal(403, "cluster_block_exception")},

	{ingest.Errors, ingest.Uncategorised}:     {kafka: logtest.ProduceCode(29)}, // not authorised
	{ingest.Errors, ingest.KafkaUnavailable}:  {kafka: logtest.ProduceCode(5)},  // no leader
	{ingest.Errors, ingest.TopicNotFound}:     {kafka: logtest.Gone(kmsg.Produce, errTopic, broker, true)},
	{ingest.Errors, ingest.PartitionNotFound}: {kafka: logtest.Gone(kmsg.Produce, errTopic, broker, false)},
	{ingest.Errors, ingest.MessageTooBig}:     {kafka: logtest.ProduceAbove(maxErr), poison: "b", size: maxErr, fate: ingest.InvalidFormat},
	{ingest.Errors, ingest.Network}:           {kafka: logtest.HangUp(kmsg.Produce)},
}

// cells of the table: those that are allowed, and the reasons of the others.
func cells() (all []cell, impossible map[pair]string) {
	impossible = map[pair]string{}
	ingest.Table(func(s ingest.State, e ingest.Event, step ingest.Step) {
		p := pair{s, ingest.Class(e)}
		switch {
		case e >= ingest.Configured: // no error
		case step.Do == ingest.Impossible:
			impossible[p] = step.Why
		default:
			f := faults[p]
			if f.fate == 0 {
				f.fate = p.class
			}
			all = append(all, cell{state: s, class: p.class, step: step, fault: f})
		}
	})
	return all, impossible
}

// Every pair of state and class is in the table, with a fault or with a reason.
func TestMatrixIsComplete(t *testing.T) {
	all, impossible := cells()
	if n := len(all) + len(impossible); n != 5*14 {
		t.Errorf("%d pairs of state and class, want 5 x 14", n)
	}
	for _, c := range all {
		if f := faults[pair{c.state, c.class}]; f.kafka == nil && f.sink == nil && f.refuse == "" && f.poison == "" {
			t.Errorf("%s: the table allows it, and no fault makes it", c)
		}
	}
	for p := range faults {
		if why, ok := impossible[p]; ok {
			t.Errorf("%s x %s has a fault, and the table says that it cannot happen: %s", p.state, p.class, why)
		}
	}
	for p, why := range impossible {
		if why == "" {
			t.Errorf("%s x %s cannot happen, and nobody says why", p.state, p.class)
		}
	}
}

// Every fault, once and for a minute: nothing is lost, nothing is twice, the
// order errors -> sink -> position holds, the ledger balances, and the state
// says what is the matter.
func TestMatrix(t *testing.T) {
	all, impossible := cells()
	report := map[pair][2]string{}
	for _, c := range all {
		for i, lasts := range []time.Duration{0, faultLasts} {
			c.lasts = lasts
			t.Run(c.String()+[]string{"/once", "/minute"}[i], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := report[pair{c.state, c.class}]
					r[i] = runCell(t, c)
					report[pair{c.state, c.class}] = r
				})
			})
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-24s %-10s %12s %12s\n", "state", "class", "action", "once", "60 s")
	ingest.Table(func(s ingest.State, e ingest.Event, step ingest.Step) {
		if e >= ingest.Configured {
			return
		}
		p := pair{s, ingest.Class(e)}
		fmt.Fprintf(&b, "%-10s %2d %-21s ", s, int(e), p.class)
		if why, ok := impossible[p]; ok {
			fmt.Fprintf(&b, "-          %s\n", why)
			return
		}
		fmt.Fprintf(&b, "%-10s %12s %12s\n", step.Do, report[p][0], report[p][1])
	})
	t.Logf("what became of the fault, %d records per cell, none lost, none twice:\n%s", streamed, b.String())
}

// runCell makes the fault and says what became of it.
func runCell(t *testing.T, c cell) string {
	p := newPlant(t, c)
	began := time.Now()
	ledger := p.stream(streamed)
	took := time.Since(began)
	p.sound(ledger)
	if c.retried() && !p.named {
		t.Errorf("the state never said class %d in %s: %v", c.class, c.state, p.heard)
	}
	if c.retried() && p.namedAfter > namedWithin {
		t.Errorf("the state named the class %s after the fault began: %v", p.namedAfter, p.heard)
	}
	if c.retried() && took < c.lasts {
		t.Errorf("done %s after the start: the fault did not last", took)
	}
	if c.fault.poison != "" && p.poisons == 0 {
		t.Error("no poison was made")
	}
	switch {
	case t.Failed():
		return "FAILED"
	case c.retried():
		return strconv.Itoa(p.tries) + " tries"
	}
	return strconv.Itoa(p.poisons) + " stated"
}

// stream loads so many records, some of which are there at the start.
func (p *plant) stream(n int) contract.Ledger {
	p.until = int64(n)
	for i := range atOnce {
		p.record(i)
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for i := atOnce; i < n; i++ {
			time.Sleep(pace) // of the fake clock
			p.record(i)
		}
	}()
	ledger := p.run()
	<-fed
	return ledger
}
