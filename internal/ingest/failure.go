package ingest

import (
	"strconv"
	"time"

	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// Headers of a record in the errors topic, after the original's own. HeaderID
// is the first of ours, so that an original that has such headers itself keeps
// them.
const (
	HeaderID         = "trawl-id"          // deterministic: what counts or redrives goes by it
	HeaderClass      = "trawl-class"       // name of the class
	HeaderCode       = "trawl-code"        // its number
	HeaderState      = "trawl-state"       // where it failed
	HeaderStatus     = "trawl-status"      // HTTP status of the item, 0 if none
	HeaderType       = "trawl-type"        // the sink's name for the error; of a resolution what was done
	HeaderReason     = "trawl-reason"      // at most 4 KiB
	HeaderTopic      = "trawl-topic"       // source
	HeaderPartition  = "trawl-partition"   // source
	HeaderOffset     = "trawl-offset"      // source
	HeaderRecordTime = "trawl-record-time" // of the original, milliseconds since 1970; absent if unknown
	HeaderTime       = "trawl-time"        // of the failure, RFC 3339
	HeaderAttempts   = "trawl-attempts"    // of the loader and of all redrives
	HeaderCrawl      = "trawl-crawl"       // name of the crawl or load
	HeaderTarget     = "trawl-target"      // index
	HeaderPointer    = "trawl-pointer"     // "true": the value stayed in the source, too large or gone
	HeaderCut        = "trawl-headers-cut" // how many of the original's headers stayed in the source
	HeaderRedrives   = "trawl-redrives"    // how often it was redriven and failed again; absent if never
	HeaderRedrive    = "trawl-redrive"     // the redrive that states the record; absent if a loader does
	HeaderResolution = "trawl-resolution"  // the failure of this id is done with: one of the resolutions
	HeaderSkipped    = "trawl-skipped"     // "true": the loader skipped it by an operator's order; stays through redrives
	HeaderBy         = "trawl-by"          // the operator, if an order is behind the record and says who gave it
)

// Resolutions of a failure.
const (
	Redriven   = "redriven"   // the sink has acknowledged it
	Superseded = "superseded" // the sink holds something newer
	Discarded  = "discarded"  // by an operator
	// Skipped: an operator had the loader leave it out. Its pointer record opens
	// an id that is done with at once: nobody redrives it unless it is named.
	Skipped = "skipped"
)

// Types of a resolution Redriven: what was done.
const (
	TypeLoaded     = "loaded"
	TypeDeleted    = "deleted"
	TypeNoDocument = "no-document"
)

// maxErrorHeaders bounds what is copied of an original's headers once the
// errors topic has refused the whole.
const maxErrorHeaders = 16 << 10

// Failure is what a record of an errors topic says: a record that failed, or
// with a Resolution that an earlier failure of this id is done with.
type Failure struct {
	ID        string
	Topic     string // source
	Partition int    // source
	Offset    int64  // source
	// Original is the source's record with its own offset and time (zero if
	// unknown). A pointer lacks the value, and maybe headers.
	Original kafkalog.Record
	Pointer  bool
	Cut      int // headers that are missing

	Class    Class
	State    string
	Status   int
	Type     string
	Reason   string
	Time     time.Time
	Attempts int
	Name     string // of the crawl or load
	Target   string

	Redrives   int
	Redrive    string
	Resolution string
	Skipped    bool   // by the loader: its ledger counts the record as such
	By         string // the operator
}

// Opens tells whether the record stands for its source's record, a failed or a
// skipped one; others end an id that was opened before.
func (f *Failure) Opens() bool { return f.Resolution == "" || f.Resolution == Skipped }

// failure is one record on its way to the errors topic.
type failure struct {
	offset     int64
	rec        kafkalog.Record // own memory; zero with fetch or pointer
	fetch      bool            // the original has to be read again
	pointer    bool            // the original cannot be had, or is too large
	class      Class
	state      State
	status     int
	kind       string
	reason     string
	attempts   int
	resolution string // it did not fail: Skipped, or what is only for Config.Restate
	by         string
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

// RecordID is the deterministic id of a source record.
func RecordID(topic string, partition int, offset int64) string {
	return topic + "-" + strconv.Itoa(partition) + "-" + strconv.FormatInt(offset, 10)
}

// record builds what goes to the errors topic; false means nothing. above is
// the size from which a value is left out; less than 0 means never.
func (m *Machine) record(f *failure, above int, now time.Time) (kafkalog.Record, bool) {
	out := Failure{
		ID: RecordID(m.cfg.Topic, m.cfg.Partition, f.offset), Topic: m.cfg.Topic, Partition: m.cfg.Partition, Offset: f.offset,
		Original: f.rec, Pointer: f.pointer, Class: f.class, State: f.state.String(), Status: f.status,
		Type: f.kind, Reason: f.reason, Time: now, Attempts: max(f.attempts, 1),
		Name: m.cfg.Crawl, Target: m.cfg.Target, Resolution: f.resolution, Skipped: f.resolution == Skipped, By: f.by,
	}
	if m.cfg.Restate != nil {
		return m.cfg.Restate(out, above)
	}
	return out.Record(above), true
}

// Record builds the record that says it. above is the size of key and value
// from which the value is left out, less than 0 means never; 0 leaves out the
// original's headers, too. Key, value and headers are shared with Original.
func (f *Failure) Record(above int) kafkalog.Record {
	out := kafkalog.Record{Key: f.Original.Key, Value: f.Original.Value, Time: f.Time}
	pointer := f.Pointer || above >= 0 && len(out.Key)+len(out.Value) > above
	cut := f.Cut
	out.Headers, cut = keep(f.Original.Headers, cut, above, pointer)
	if pointer {
		out.Value = []byte{}
		if len(out.Key) > sink.MaxID {
			out.Key = []byte(f.ID)
		}
	}
	add := func(key, value string) {
		out.Headers = append(out.Headers, kafkalog.Header{Key: key, Value: []byte(value)})
	}
	add(HeaderID, f.ID)
	if pointer {
		add(HeaderPointer, "true")
	}
	if cut > 0 {
		add(HeaderCut, strconv.Itoa(cut))
	}
	add(HeaderClass, f.Class.String())
	add(HeaderCode, strconv.Itoa(int(f.Class)))
	add(HeaderState, f.State)
	add(HeaderStatus, strconv.Itoa(f.Status))
	add(HeaderType, sink.CutReason(f.Type))
	add(HeaderReason, sink.CutReason(f.Reason))
	add(HeaderTopic, f.Topic)
	add(HeaderPartition, strconv.Itoa(f.Partition))
	add(HeaderOffset, strconv.FormatInt(f.Offset, 10))
	if !f.Original.Time.IsZero() {
		add(HeaderRecordTime, strconv.FormatInt(f.Original.Time.UnixMilli(), 10))
	}
	add(HeaderTime, f.Time.UTC().Format(time.RFC3339Nano))
	add(HeaderAttempts, strconv.Itoa(f.Attempts))
	add(HeaderCrawl, f.Name)
	add(HeaderTarget, f.Target)
	if f.Redrives > 0 {
		add(HeaderRedrives, strconv.Itoa(f.Redrives))
	}
	if f.Redrive != "" {
		add(HeaderRedrive, f.Redrive)
	}
	if f.Resolution != "" {
		add(HeaderResolution, f.Resolution)
	}
	if f.Skipped {
		add(HeaderSkipped, "true")
	}
	if f.By != "" {
		add(HeaderBy, f.By)
	}
	return out
}

// keep gives the original's headers that go along, and how many do not.
func keep(headers []kafkalog.Header, cut, above int, pointer bool) ([]kafkalog.Header, int) {
	out := make([]kafkalog.Header, 0, len(headers)+20)
	size := 0
	for i, h := range headers {
		size += len(h.Key) + len(h.Value)
		if above >= 0 && (size > maxErrorHeaders || pointer && above == 0) {
			return out, cut + len(headers) - i
		}
		out = append(out, h)
	}
	return out, cut
}

// ParseFailure reads a record of an errors topic; false if it is none. The
// result shares memory with the record.
func ParseFailure(r *kafkalog.Record) (Failure, bool) {
	own := len(r.Headers) - 1
	for own >= 0 && r.Headers[own].Key != HeaderID {
		own--
	}
	if own < 0 {
		return Failure{}, false
	}
	f := Failure{
		Partition: -1, Offset: -1,
		Original: kafkalog.Record{Key: r.Key, Value: r.Value, Headers: r.Headers[:own:own]},
	}
	for _, h := range r.Headers[own:] {
		f.header(h.Key, string(h.Value))
	}
	f.Original.Offset = f.Offset
	return f, f.ID != "" && f.Partition >= 0 && f.Offset >= 0
}

// header takes one of our headers; a number that is none counts as absent.
func (f *Failure) header(key, value string) {
	number := func(bits int) int64 {
		n, err := strconv.ParseInt(value, 10, bits)
		if err != nil {
			return -1
		}
		return n
	}
	switch key {
	case HeaderID:
		f.ID = value
	case HeaderPointer:
		f.Pointer = value == "true"
	case HeaderCut:
		f.Cut = int(max(number(32), 0))
	case HeaderCode:
		f.Class = Class(max(number(16), 0))
	case HeaderState:
		f.State = value
	case HeaderStatus:
		f.Status = int(max(number(32), 0))
	case HeaderType:
		f.Type = value
	case HeaderReason:
		f.Reason = value
	case HeaderTopic:
		f.Topic = value
	case HeaderPartition:
		f.Partition = int(number(32))
	case HeaderOffset:
		f.Offset = number(64)
	case HeaderRecordTime:
		if ms := number(64); ms >= 0 {
			f.Original.Time = time.UnixMilli(ms).UTC()
		}
	case HeaderTime:
		f.Time, _ = time.Parse(time.RFC3339Nano, value)
	case HeaderAttempts:
		f.Attempts = int(max(number(32), 0))
	case HeaderCrawl:
		f.Name = value
	case HeaderTarget:
		f.Target = value
	case HeaderRedrives:
		f.Redrives = int(max(number(16), 0))
	case HeaderRedrive:
		f.Redrive = value
	case HeaderResolution:
		f.Resolution = value
	case HeaderSkipped:
		f.Skipped = value == "true"
	case HeaderBy:
		f.By = value
	}
}
