package spec

import (
	"encoding/json"
	"time"
)

// LoadSpec says which topics to load, what becomes of their records, and where
// the documents go: the load.yaml of `starter load`. Its JSON form travels to
// workers and is at most MaxLoadEncoded bytes.
type LoadSpec struct {
	Name    string       `yaml:"name" json:"name"`
	Sources []LoadSource `yaml:"sources" json:"sources"`
	Sink    LoadSink     `yaml:"sink" json:"sink"`
	Limits  LoadLimits   `yaml:"limits" json:"limits"`
	Read    string       `yaml:"read" json:"read"` // ReadCommitted or ReadUncommitted

	// from says which keys were stated, and where; the others are defaults.
	from origins
}

// Formats of a source's records.
const (
	FormatJSON  = "json"  // the value is a JSON object: the document
	FormatRiver = "river" // the value is an object with index, id and source
	FormatPlain = "plain" // the value is a JSON object; the index follows from a time
	FormatPages = "pages" // the value is a page record of a crawl
)

// Periods of the plain format's indexes.
const (
	ByNone  = "none"
	ByDay   = "day"
	ByMonth = "month"
	ByYear  = "year"
)

// Time formats that are names; any other text is a layout of Go's time package.
const (
	TimeISO8601 = "iso8601"
	TimeMillis  = "millis"
)

// VersionOffset and VersionTimestamp are what a document's version is made of.
const (
	VersionOffset    = "offset"    // the record's offset
	VersionTimestamp = "timestamp" // the record's Kafka timestamp in milliseconds
)

// IDKey as LoadSource.ID or LoadPlain.IDField: the record's key.
const IDKey = "key"

// Isolation of reading.
const (
	ReadCommitted   = "committed"   // records of aborted transactions are not seen
	ReadUncommitted = "uncommitted" // they are
)

// UntilEnd as LoadSource.Until: the log ends at the start of the run.
const UntilEnd = "end"

// LoadSource is one topic and what its records mean.
type LoadSource struct {
	Topic      string    `yaml:"topic" json:"topic"`
	Partitions []int     `yaml:"partitions" json:"partitions,omitempty"` // empty: all, also those to come
	Start      LoadStart `yaml:"start" json:"start"`                     // where no position exists yet
	Until      string    `yaml:"until" json:"until,omitempty"`           // "": for ever, UntilEnd, or an RFC 3339 time

	Format       string    `yaml:"format" json:"format"`
	Plain        LoadPlain `yaml:"plain" json:"plain,omitzero"` // of FormatPlain only
	ID           string    `yaml:"id" json:"id,omitempty"`      // of FormatJSON: a field's path, IDKey, or "": topic-partition-offset
	Version      string    `yaml:"version" json:"version"`
	RoutingField string    `yaml:"routing_field" json:"routing_field,omitempty"`
	Where        string    `yaml:"where" json:"where,omitempty"`   // boolean expression; false: no document
	Fields       []FieldOp `yaml:"fields" json:"fields,omitempty"` // in order
}

// Kinds of LoadStart.
const (
	StartEarliest = "earliest"
	StartLatest   = "latest"
	StartOffset   = "offset"
	StartTime     = "time"
)

// LoadStart is where a partition begins that has no position yet. In YAML it is
// earliest, latest, {offset: N} or {time: 2026-01-31T00:00:00Z}.
type LoadStart struct {
	At     string    `yaml:"-" json:"at"`
	Offset int64     `yaml:"offset" json:"offset,omitempty"` // of StartOffset
	Time   time.Time `yaml:"time" json:"time,omitzero"`      // of StartTime
}

// LoadPlain says which index a document of FormatPlain belongs to.
type LoadPlain struct {
	Index      string `yaml:"index" json:"index,omitempty"`             // "": the sink's index
	By         string `yaml:"by" json:"by,omitempty"`                   // ByNone, ByDay, ...: appended to Index
	TimeField  string `yaml:"time_field" json:"time_field,omitempty"`   // "": the record's Kafka timestamp
	TimeFormat string `yaml:"time_format" json:"time_format,omitempty"` // TimeISO8601, TimeMillis or a Go layout
	IDField    string `yaml:"id_field" json:"id_field,omitempty"`       // a field's path, IDKey, or "": topic-partition-offset
}

// FieldOp is one operation on a document. Exactly one of its fields is set.
// Field names are paths with dots.
type FieldOp struct {
	Rename *MoveOp  `yaml:"rename" json:"rename,omitempty"`
	Drop   []string `yaml:"drop" json:"drop,omitempty"`
	Set    *SetOp   `yaml:"set" json:"set,omitempty"`
	Copy   *MoveOp  `yaml:"copy" json:"copy,omitempty"`
	Date   *DateOp  `yaml:"date" json:"date,omitempty"`
	Cast   *CastOp  `yaml:"cast" json:"cast,omitempty"`
	Expr   *ExprOp  `yaml:"expr" json:"expr,omitempty"`
}

// MoveOp renames or copies a field.
type MoveOp struct {
	From string `yaml:"from" json:"from"`
	To   string `yaml:"to" json:"to"`
}

// SetOp gives a field a fixed value: any JSON.
type SetOp struct {
	Field string          `yaml:"field" json:"field"`
	Value json.RawMessage `yaml:"value" json:"value"`
}

// DateOp reads a time from a field and writes it as RFC 3339 in UTC.
type DateOp struct {
	Field  string `yaml:"field" json:"field"`
	Format string `yaml:"format" json:"format,omitempty"` // TimeISO8601 (default), TimeMillis or a Go layout
	To     string `yaml:"to" json:"to,omitempty"`         // "": the field itself
}

// Types of CastOp.
const (
	CastString = "string"
	CastInt    = "int"
	CastFloat  = "float"
	CastBool   = "bool"
)

// CastOp makes a field's value one of a type.
type CastOp struct {
	Field string `yaml:"field" json:"field"`
	Type  string `yaml:"type" json:"type"`
}

// ExprOp gives a field the value of an expression.
type ExprOp struct {
	Field      string `yaml:"field" json:"field"`
	Expression string `yaml:"expression" json:"expression"`
}

// LoadSink says where documents go.
type LoadSink struct {
	Kind       string `yaml:"kind" json:"kind"`   // SinkSQLite, SinkElastic or SinkFiles
	Index      string `yaml:"index" json:"index"` // of documents that name none; by default the load's name
	DataStream bool   `yaml:"data_stream" json:"data_stream,omitempty"`
	Pipeline   string `yaml:"pipeline" json:"pipeline,omitempty"`
	// TemplateFile holds an index template; Template is what it held.
	TemplateFile string          `yaml:"template" json:"-"`
	Template     json.RawMessage `yaml:"-" json:"template,omitempty"`
}

// Size is a number of bytes that people write as 512KiB or 5MiB.
type Size int64

// LoadLimits bound what is held and sent at once.
type LoadLimits struct {
	Record     Size     `yaml:"record" json:"record"`           // of a record's value or a document: more is class 4
	BatchBytes Size     `yaml:"batch_bytes" json:"batch_bytes"` // of documents per write
	BatchCount int      `yaml:"batch_count" json:"batch_count"` // of records per write
	BatchAge   Duration `yaml:"batch_age" json:"batch_age"`     // how long a batch grows while the log has more
	Rate       float64  `yaml:"rate" json:"rate,omitempty"`     // records a second of the whole load; 0: no limit
}

// MaxLoadEncoded bounds the JSON of a LoadSpec, in bytes: it travels in the
// history of every loader.
const MaxLoadEncoded = 32 << 10
