package ingest

import (
	"strconv"
	"time"

	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// Headers of a record in the errors topic, after the original's own.
const (
	HeaderID        = "trawl-id"        // deterministic: what counts or redrives goes by it
	HeaderClass     = "trawl-class"     // name of the class
	HeaderCode      = "trawl-code"      // its number
	HeaderState     = "trawl-state"     // where it failed
	HeaderStatus    = "trawl-status"    // HTTP status of the item, 0 if none
	HeaderType      = "trawl-type"      // the sink's name for the error
	HeaderReason    = "trawl-reason"    // at most 4 KiB
	HeaderTopic     = "trawl-topic"     // source
	HeaderPartition = "trawl-partition" // source
	HeaderOffset    = "trawl-offset"    // source
	HeaderTime      = "trawl-time"      // of the failure, RFC 3339
	HeaderAttempts  = "trawl-attempts"
	HeaderCrawl     = "trawl-crawl"
	HeaderTarget    = "trawl-target"  // index
	HeaderPointer   = "trawl-pointer" // "true": the value stayed in the source, too large or gone
)

// maxErrorHeaders bounds what is copied of an original's headers.
const maxErrorHeaders = 16 << 10

// failure is one record on its way to the errors topic.
type failure struct {
	offset   int64
	rec      kafkalog.Record // own memory; zero with fetch or pointer
	fetch    bool            // the original has to be read again
	pointer  bool            // the original cannot be had, or is too large
	class    Class
	state    State
	status   int
	kind     string
	reason   string
	attempts int
}

// clone copies a record out of the reader's memory.
func clone(r *kafkalog.Record) kafkalog.Record {
	c := *r
	c.Key, c.Value = cloneBytes(r.Key), cloneBytes(r.Value)
	c.Headers = make([]kafkalog.Header, len(r.Headers))
	for i, h := range r.Headers {
		c.Headers[i] = kafkalog.Header{Key: h.Key, Value: cloneBytes(h.Value)}
	}
	return c
}

// cloneBytes keeps nil apart from empty: a nil value is a tombstone.
func cloneBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// recordID is the deterministic id of a source record.
func recordID(topic string, partition int, offset int64) string {
	return topic + "-" + strconv.Itoa(partition) + "-" + strconv.FormatInt(offset, 10)
}

// record builds what goes to the errors topic. above is the size from which a
// value is left out; less than 0 means never.
func (m *Machine) record(f *failure, above int, now time.Time) kafkalog.Record {
	out := kafkalog.Record{Key: f.rec.Key, Value: f.rec.Value, Time: now}
	pointer := f.pointer
	if above >= 0 && len(out.Key)+len(out.Value) > above {
		pointer = true
	}
	size := 0
	for _, h := range f.rec.Headers {
		if size += len(h.Key) + len(h.Value); size > maxErrorHeaders || pointer && above == 0 {
			break
		}
		out.Headers = append(out.Headers, h)
	}
	id := recordID(m.cfg.Topic, m.cfg.Partition, f.offset)
	add := func(key, value string) {
		out.Headers = append(out.Headers, kafkalog.Header{Key: key, Value: []byte(value)})
	}
	if pointer {
		out.Value = []byte{}
		if len(out.Key) > sink.MaxID {
			out.Key = []byte(id)
		}
		add(HeaderPointer, "true")
	}
	add(HeaderID, id)
	add(HeaderClass, f.class.String())
	add(HeaderCode, strconv.Itoa(int(f.class)))
	add(HeaderState, f.state.String())
	add(HeaderStatus, strconv.Itoa(f.status))
	add(HeaderType, sink.CutReason(f.kind))
	add(HeaderReason, sink.CutReason(f.reason))
	add(HeaderTopic, m.cfg.Topic)
	add(HeaderPartition, strconv.Itoa(m.cfg.Partition))
	add(HeaderOffset, strconv.FormatInt(f.offset, 10))
	add(HeaderTime, now.UTC().Format(time.RFC3339Nano))
	add(HeaderAttempts, strconv.Itoa(max(f.attempts, 1)))
	add(HeaderCrawl, m.cfg.Crawl)
	add(HeaderTarget, m.cfg.Target)
	return out
}
