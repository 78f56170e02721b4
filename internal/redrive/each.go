package redrive

import (
	"context"
	"strings"
	"unicode"

	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
)

// Entry is the last failure of an id, where it lies in the errors topic, and
// what became of it. It shares memory with the reader until visit returns.
type Entry struct {
	ingest.Failure
	At     Place // in the errors topic
	Status Status
}

// Place is an offset of a partition.
type Place struct {
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Each visits every distinct id of an errors topic once, by its last failure,
// in the order of partitions and offsets. It reads each partition twice, and
// once more per million ids. An error of visit ends it and is returned.
func Each(ctx context.Context, log Log, topic string, partitions int, visit func(Entry) error) error {
	for p := range partitions {
		if err := EachOf(ctx, log, topic, p, visit); err != nil {
			return err
		}
	}
	return nil
}

// EachOf is Each of one partition.
func EachOf(ctx context.Context, log Log, topic string, partition int, visit func(Entry) error) error {
	first, end, err := log.Bounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	return eachOf(ctx, log, topic, partition, first, end, maxIDs, visit)
}

func eachOf(ctx context.Context, log Log, topic string, partition int, from, end int64, limit int, visit func(Entry) error) error {
	for from < end {
		x := NewIndex(from, end, "")
		x.limit = limit
		if err := x.Extend(ctx, log, topic, partition); err != nil {
			return err
		}
		_, to := x.Window()
		_, err := log.ReadRange(ctx, topic, partition, from, to, func(r kafkalog.Record) error {
			f, ok := ingest.ParseFailure(&r)
			if !ok || !f.Opens() {
				return nil
			}
			k, ok := x.last(f.ID, r.Offset)
			if !ok {
				return nil
			}
			f.Redrives = max(f.Redrives, int(k.redrives))
			return visit(Entry{f, Place{partition, r.Offset}, k.status})
		})
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// SourcePartition is one partition of a source.
type SourcePartition struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
}

// Count is how many distinct ids of a source's partition are open, and how
// many are done with. Their sum is what the loader's ledger counts as errors
// and skipped, unless an operator took the loader back.
type Count struct {
	Open       int64 `json:"open"`
	Redriven   int64 `json:"redriven"`
	NoDocument int64 `json:"no_document"` // redriven, and no document by now
	Superseded int64 `json:"superseded"`
	Discarded  int64 `json:"discarded"`
	Skipped    int64 `json:"skipped"`
}

// Total is the sum of all.
func (c Count) Total() int64 {
	return c.Open + c.Redriven + c.NoDocument + c.Superseded + c.Discarded + c.Skipped
}

// Add counts one id.
func (c *Count) Add(s Status) {
	switch s {
	case Loaded:
		c.Redriven++
	case NoDocument:
		c.NoDocument++
	case Superseded:
		c.Superseded++
	case Discarded:
		c.Discarded++
	case Skipped:
		c.Skipped++
	default:
		c.Open++
	}
}

// CountIDs counts the distinct ids of an errors topic, per partition of the
// source.
func CountIDs(ctx context.Context, log Log, topic string, partitions int) (map[SourcePartition]Count, error) {
	counts := map[SourcePartition]Count{}
	err := Each(ctx, log, topic, partitions, func(e Entry) error {
		at := SourcePartition{e.Topic, e.Partition}
		c := counts[at]
		c.Add(e.Status)
		counts[at] = c
		return nil
	})
	return counts, err
}

// maxPattern bounds a pattern in bytes.
const maxPattern = 160

// Pattern is a reason without what differs from record to record: numbers, and
// what stands in quotes.
func Pattern(reason string) string {
	var b strings.Builder
	quote, before := rune(0), ' '
	number := false
	for i, r := range reason {
		if b.Len() >= maxPattern {
			b.WriteString("…")
			break
		}
		digit := r >= '0' && r <= '9'
		switch {
		case quote != 0:
			if r == quote {
				b.WriteString("…")
				b.WriteRune(r)
				quote = 0
			}
		case (r == '\'' || r == '"') && !unicode.IsLetter(before) && strings.ContainsRune(reason[i+1:], r):
			b.WriteRune(r)
			quote = r
		case digit && !number:
			b.WriteByte('#')
		case digit:
		case r < ' ':
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
		number, before = digit && quote == 0, r
	}
	return b.String()
}
