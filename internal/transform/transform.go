// Package transform makes writes of Kafka records: it knows the formats (json,
// plain, river, pages), where a document's id, version, index and routing come
// from, and which of fourteen classes a record belongs to that is none. What it
// makes is a function of the record and the spec alone, so a replay gives the
// same. It refuses I/O, clocks and retries.
//
// For a record, in this order: its value is read, where decides, then id, index
// and routing are taken from the document as it came, then the operations on
// fields run. Classes: InvalidFormat is what is no JSON in UTF-8, or too deep;
// InvalidEvent is JSON that is not what the format needs; TransformFailed is an
// expression or an operation that failed. The reason names field and value.
package transform

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform/fields"
	"trawl/internal/transform/rawjson"
)

// Func makes a write of a record of a topic's partition. ok is false where there
// is nothing to write. The op shares no memory with the record. The error is an
// *ingest.RecordError. It may be called from several goroutines.
type Func func(rec *kafkalog.Record, topic string, partition int) (op sink.Op, ok bool, err error)

// fail is an error of a class; format as for fmt.Errorf.
func fail(class ingest.Class, format string, args ...any) error {
	return &ingest.RecordError{Class: class, Err: fmt.Errorf(format, args...)}
}

// New makes the Func of a source. It fails where the source says something
// impossible: an expression, a path or a time format that cannot be.
func New(source spec.LoadSource) (Func, error) {
	if source.Format == spec.FormatPages {
		return newPages(source)
	}
	f, err := newFormat(source)
	if err != nil {
		return nil, err
	}
	c, err := newChange(source)
	if err != nil {
		return nil, err
	}
	t := &texts{format: f, change: c, byTime: source.Version == spec.VersionTimestamp}
	return t.record, nil
}

// DataStream makes every write of f a create, which is all that a data stream
// takes.
func DataStream(f Func) Func {
	return func(rec *kafkalog.Record, topic string, partition int) (sink.Op, bool, error) {
		op, ok, err := f(rec, topic, partition)
		if err != nil || !ok {
			return op, ok, err
		}
		if op.Delete {
			return sink.Op{}, false, fail(ingest.InvalidEvent, "a delete of %q: a data stream takes no deletes", op.ID)
		}
		op.Create = true
		return op, true, nil
	}
}

// record is what every format says about one record, besides its document.
type record struct {
	*kafkalog.Record
	topic     string
	partition int
}

// ownID is the id of a record that brings none.
func (r record) ownID() string {
	var room [320]byte // a topic has at most 249
	b := append(append(room[:0], r.topic...), '-')
	b = append(strconv.AppendInt(b, int64(r.partition), 10), '-')
	return string(strconv.AppendInt(b, r.Offset, 10))
}

func (r record) keyID() (string, error) {
	if len(r.Key) == 0 {
		return "", fail(ingest.InvalidEvent, "the record has no key to be the document's id")
	}
	return checkID("key", string(r.Key))
}

func (r record) timestamp() (time.Time, error) {
	if r.Time.IsZero() || r.Time.UnixMilli() < 0 {
		return time.Time{}, fail(ingest.InvalidEvent, "the record has no timestamp of Kafka's")
	}
	return r.Time.UTC(), nil
}

// version orders the writes of an id.
func (r record) version(byTime bool) (int64, error) {
	if !byTime {
		return r.Offset, nil
	}
	t, err := r.timestamp()
	return t.UnixMilli(), err
}

func checkID(what, id string) (string, error) {
	switch {
	case id == "":
		return "", fail(ingest.InvalidEvent, "%s is empty: an id has 1 to %d bytes", what, sink.MaxID)
	case len(id) > sink.MaxID:
		return "", fail(ingest.InvalidEvent, "%s has %d bytes, an id at most %d: %s", what, len(id), sink.MaxID, rawjson.Show([]byte(id)))
	case strings.IndexByte(id, 0) >= 0:
		return "", fail(ingest.InvalidEvent, "%s holds a NUL character, which no id may: %s", what, rawjson.Show([]byte(id)))
	case strings.ToValidUTF8(id, "") != id:
		return "", fail(ingest.InvalidEvent, "%s is not UTF-8, which an id has to be: %s", what, rawjson.Show([]byte(id)))
	}
	return id, nil
}

// scalar gives the text of a string, or the digits of a whole number. Other
// numbers have many spellings, so they name nothing.
func scalar(what string, raw []byte) (string, error) {
	if raw == nil {
		return "", fail(ingest.InvalidEvent, "%s is missing", what)
	}
	if text, ok := rawjson.String(raw); ok {
		return text, nil
	}
	if k := rawjson.Kind(raw); k != "a number" || strings.ContainsAny(string(raw), ".eE") {
		return "", fail(ingest.InvalidEvent, "%s is %s: it has to be a string or a whole number: %s", what, k, rawjson.Show(raw))
	}
	return string(raw), nil
}

// format finds what stands around a document. Its methods are called from
// several goroutines.
type format interface {
	// document gives the object that is to be loaded.
	document(envelope *rawjson.Doc) (*rawjson.Doc, error)
	// place says where it goes.
	place(r record, envelope *rawjson.Doc) (id, index string, err error)
	// removed says what a record without a value removes; ok is false if it
	// says nothing about a document.
	removed(r record) (id, index string, ok bool, err error)
}

// texts is the way of records that are JSON.
type texts struct {
	format format
	change *change
	byTime bool
}

func (t *texts) record(rec *kafkalog.Record, topic string, partition int) (sink.Op, bool, error) {
	r := record{rec, topic, partition}
	if rec.Value == nil {
		return t.tombstone(r)
	}
	s := rawjson.Get()
	defer rawjson.Put(s)
	envelope, err := s.Scan(rec.Value)
	if err != nil {
		return sink.Op{}, false, refusal(err, rec.Value)
	}
	doc, err := t.format.document(envelope)
	if err != nil {
		return sink.Op{}, false, err
	}
	if keep, err := t.change.keeps(doc); err != nil || !keep {
		return sink.Op{}, false, err
	}
	op := sink.Op{Doc: doc.Text}
	if op.ID, op.Index, err = t.format.place(r, envelope); err != nil {
		return sink.Op{}, false, err
	}
	if op.Version, err = r.version(t.byTime); err != nil {
		return sink.Op{}, false, err
	}
	if err := t.change.apply(doc, &op); err != nil {
		return sink.Op{}, false, err
	}
	return op, true, nil
}

// refusal gives the class of a text that is no JSON for us.
func refusal(err error, value []byte) error {
	class := ingest.InvalidFormat
	if e, ok := errors.AsType[*rawjson.Error](err); ok && e.Problem == rawjson.Duplicate {
		class = ingest.InvalidEvent // JSON, but no index takes it
	}
	if len(value) == 0 {
		return fail(class, "the value is empty: not JSON")
	}
	return fail(class, "value %s: %w", rawjson.Show(value), err)
}

func (t *texts) tombstone(r record) (sink.Op, bool, error) {
	id, index, ok, err := t.format.removed(r)
	if err != nil || !ok {
		return sink.Op{}, false, err
	}
	if t.change.routing != "" {
		return sink.Op{}, false, fail(ingest.InvalidEvent, "a delete of %q: without a value the record names no routing, so its document cannot be found", id)
	}
	version, err := r.version(t.byTime)
	if err != nil {
		return sink.Op{}, false, err
	}
	return sink.Op{ID: id, Index: index, Version: version, Delete: true}, true, nil
}

// change is what a source asks for beyond its format.
type change struct {
	where   *fields.Expression // nil: everything
	routing string             // path, or ""
	what    string             // how reasons call it
	plan    *fields.Plan
}

func newChange(source spec.LoadSource) (c *change, err error) {
	c = &change{routing: source.RoutingField, what: fmt.Sprintf("routing_field %q", source.RoutingField)}
	if c.routing != "" {
		if err := checkPath("routing_field", c.routing); err != nil {
			return nil, err
		}
	}
	if source.Where != "" {
		if c.where, err = fields.Compile(source.Where); err != nil {
			return nil, fmt.Errorf("where: %w", err)
		}
	}
	if c.plan, err = fields.New(source.Fields); err != nil {
		return nil, err
	}
	return c, nil
}

func checkPath(key, path string) error {
	if bad := rawjson.BadPath(path); bad != "" {
		return fmt.Errorf("%s %q %s", key, path, bad)
	}
	return nil
}

// keeps says whether a document is to be loaded.
func (c *change) keeps(doc *rawjson.Doc) (bool, error) {
	if c.where == nil {
		return true, nil
	}
	keep, err := c.where.Test(doc.Find)
	if err != nil {
		return false, fail(ingest.TransformFailed, "where: %w", err)
	}
	return keep, nil
}

// apply puts routing and the changed document into op.
func (c *change) apply(doc *rawjson.Doc, op *sink.Op) (err error) {
	if c.routing != "" {
		if op.Routing, err = scalar(c.what, doc.Find(c.routing)); err != nil {
			return err
		}
		if op.Routing, err = checkID(c.what, op.Routing); err != nil {
			return err
		}
	}
	if c.plan.Empty() {
		return nil
	}
	if op.Doc, err = c.plan.Apply(doc); err != nil {
		return &ingest.RecordError{Class: ingest.TransformFailed, Err: err}
	}
	return nil
}
