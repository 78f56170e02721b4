package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/redrive"
	"trawl/internal/sink"
)

const (
	maxGaps = 50 // that are named
	// maxDeletes bounds the deletes that are remembered, to tell a document that
	// is gone for a reason from one that is lost.
	maxDeletes = 1_000_000
)

// findings are what verify counted. Missing is how many gaps there are.
type findings struct {
	ID         string          `json:"id"`
	Balanced   bool            `json:"balanced"`
	Ledger     contract.Ledger `json:"ledger"` // of the present ranges
	Records    int64           `json:"records"`
	Documents  int64           `json:"documents"` // records whose document, or a newer one, is in the sink
	Deleted    int64           `json:"deleted"`   // deletes, and documents that were deleted later
	NoDocument int64           `json:"no_document"`
	Errors     int64           `json:"errors"` // records that are in the errors topic, by id
	Skipped    int64           `json:"skipped"`
	Gone       int64           `json:"gone"` // offsets that the topics do not keep any more
	Missing    int64           `json:"missing"`
	Gaps       []string        `json:"gaps,omitempty"`
	Audit      *sink.Audit     `json:"audit,omitempty"` // of the sink files
}

// counter counts a load again.
type counter struct {
	v      *verified
	log    errorTopics
	holder sink.Holder
	// auditor is asked whether what the sink keeps is whole; nil: it cannot say.
	auditor sink.Auditor
	found   findings

	stated  map[string]bool  // ids in the errors topic; true: as skipped
	deletes map[string]int64 // version of the latest delete, by document
	lost    map[string]gap   // documents that the sink lacks so far
	asked   []asked          // not looked up yet
}

type asked struct {
	where  string
	offset int64
	op     sink.Op
}

// gap is a document that is not there.
type gap struct {
	text    string
	version int64
}

func (c *counter) count(ctx context.Context) error {
	c.found.ID = c.v.id
	c.stated, c.deletes, c.lost = map[string]bool{}, map[string]int64{}, map[string]gap{}
	if err := c.readErrors(ctx); err != nil {
		return err
	}
	gone, again := false, false
	for _, p := range c.v.parts {
		if p.Position < 0 {
			continue
		}
		c.found.Ledger = c.found.Ledger.Add(p.Ledger.Sub(p.Before))
		before := c.found.Gone
		if err := c.part(ctx, p); err != nil {
			return err
		}
		gone = gone || c.found.Gone > before
		again = again || p.Before.Offsets > 0
		if r := p.Ledger.Sub(p.Before); r.Offsets != p.Position-p.Start || r.Missing() != 0 {
			c.miss(fmt.Sprintf("%s: the ledger has %d offsets for the range %d to %d, and %d of them have no end", partitionText(p), r.Offsets, p.Start, p.Position, r.Missing()))
		}
	}
	if err := c.lookUp(ctx); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(c.lost)) {
		c.miss(c.lost[id].text)
	}
	if l := c.found.Ledger; !gone { // else the counts are of a part
		// The errors topic also holds what was stated before a loader was taken
		// back, and what has become a document since.
		c.same("in errors", l.Errors, c.found.Errors, again)
		c.same("skipped", l.Skipped, c.found.Skipped, again)
		if !again {
			c.same("no document", l.NoDocument, c.found.NoDocument, false)
		}
	}
	if err := c.audit(ctx); err != nil {
		return err
	}
	c.found.Balanced = c.found.Missing == 0
	return nil
}

// audit counts what must not be in the sink as gaps. An index that is not there
// has shown as gaps already.
func (c *counter) audit(ctx context.Context) error {
	if c.auditor == nil {
		return nil
	}
	found, err := c.auditor.Audit(ctx, c.v.index)
	if errors.Is(err, sink.ErrNoIndex) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range found.Faults {
		c.miss(f)
	}
	c.found.Audit = &found
	return nil
}

func (c *counter) same(what string, ledger, counted int64, orMore bool) {
	if ledger != counted && !(orMore && counted > ledger) {
		c.miss(fmt.Sprintf("%s: the ledger says %d, counted are %d", what, ledger, counted))
	}
}

func (c *counter) miss(text string) {
	c.found.Missing++
	if len(c.found.Gaps) < maxGaps {
		c.found.Gaps = append(c.found.Gaps, text)
	}
}

// readErrors collects the deterministic ids of the errors topic.
func (c *counter) readErrors(ctx context.Context) error {
	topics, err := c.log.Topics(ctx, c.v.errors)
	if err != nil {
		return err
	}
	return redrive.Each(ctx, c.log, c.v.errors, topics[c.v.errors], func(e redrive.Entry) error {
		c.stated[e.ID] = e.Skipped
		return nil
	})
}

// part reads the present range of one partition again.
func (c *counter) part(ctx context.Context, p contract.LoadReport) error {
	f, err := c.v.transform(p)
	if err != nil {
		return err
	}
	topic := c.v.topic(p)
	first, end, err := c.log.Bounds(ctx, topic, p.Partition)
	if err != nil {
		return err
	}
	from, to := min(max(p.Start, first), p.Position), min(p.Position, end)
	c.found.Gone += from - p.Start + p.Position - max(to, from)
	for from < to {
		next, err := c.log.ReadRange(ctx, topic, p.Partition, from, to, func(r kafkalog.Record) error {
			op, ok, err := f(&r, topic, p.Partition)
			return c.record(ctx, p, topic, &r, op, ok, err)
		})
		bad, broken := errors.AsType[*kafkalog.BatchError](err)
		if !broken || !c.leftOut(topic, p.Partition, max(next, from), min(bad.Last+1, to)) {
			return err
		}
		from = bad.Last + 1
	}
	return nil
}

// leftOut counts the offsets of a stored batch that cannot be read, if the
// errors topic has all of them.
func (c *counter) leftOut(topic string, partition int, from, to int64) bool {
	for at := from; at < to; at++ {
		skipped, stated := c.stated[ingest.RecordID(topic, partition, at)]
		switch {
		case !stated:
			return false
		case skipped:
			c.found.Skipped++
		default:
			c.found.Errors++
		}
		c.found.Records++
	}
	return true
}

// record decides what one record should have become.
func (c *counter) record(ctx context.Context, p contract.LoadReport, topic string, r *kafkalog.Record, op sink.Op, ok bool, err error) error {
	where := fmt.Sprintf("%s offset %d", partitionText(p), r.Offset)
	c.found.Records++
	skipped, stated := c.stated[ingest.RecordID(topic, p.Partition, r.Offset)]
	switch {
	case skipped:
		c.found.Skipped++
		return nil
	case stated:
		c.found.Errors++
		return nil
	case err != nil:
		c.miss(fmt.Sprintf("%s: it cannot become a document (%v) and is not in the errors topic", where, err))
		return nil
	case !ok:
		c.found.NoDocument++
		return nil
	}
	op.Doc = nil
	if c.asked = append(c.asked, asked{where, r.Offset, op}); len(c.asked) < sink.MaxHeld {
		return nil
	}
	return c.lookUp(ctx)
}

func key(op sink.Op) string { return op.Index + "\x00" + op.ID }

// lookUp asks the sink for the documents that are waiting.
func (c *counter) lookUp(ctx context.Context) error {
	ids := make([]sink.HeldID, len(c.asked))
	for i, q := range c.asked {
		ids[i] = sink.HeldID{ID: q.op.ID, Index: q.op.Index, Routing: q.op.Routing}
	}
	held, err := c.holder.Holds(ctx, c.v.index, ids)
	if err != nil {
		return err
	}
	for i, q := range c.asked {
		if q.op.Delete {
			c.deleted(q, held[i])
		} else {
			c.document(q, held[i])
		}
	}
	c.asked = c.asked[:0]
	return nil
}

func (c *counter) deleted(q asked, h sink.Holding) {
	c.found.Deleted++
	k := key(q.op)
	if g, ok := c.lost[k]; ok && g.version <= q.op.Version {
		delete(c.lost, k)
		c.found.Deleted++
	}
	if old, ok := c.deletes[k]; (ok || len(c.deletes) < maxDeletes) && old <= q.op.Version {
		c.deletes[k] = q.op.Version
	}
	if h.Found && h.Version < q.op.Version {
		c.miss(fmt.Sprintf("%s: it deletes %q, but the sink still holds version %d", q.where, q.op.ID, h.Version))
	}
}

func (c *counter) document(q asked, h sink.Holding) {
	gone, was := c.deletes[key(q.op)]
	switch {
	case h.Found && (c.v.create || h.Version >= q.op.Version):
		c.found.Documents++
	case was && gone >= q.op.Version:
		c.found.Deleted++
	case h.Found:
		c.lose(q, fmt.Sprintf("%s: the sink holds version %d of %q, not %d or a newer one", q.where, h.Version, q.op.ID, q.op.Version))
	default:
		c.lose(q, fmt.Sprintf("%s: document %q is neither in the sink nor in the errors topic", q.where, q.op.ID))
	}
}

func (c *counter) lose(q asked, text string) {
	k := key(q.op)
	if g, ok := c.lost[k]; !ok || g.version < q.op.Version {
		c.lost[k] = gap{text, q.op.Version}
	}
}
