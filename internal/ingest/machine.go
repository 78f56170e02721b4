// Package ingest owns the loader: the state machine configure -> extract ->
// transform -> load of one partition, the fourteen error classes, what is done about each,
// and the ledger that accounts for every offset. It refuses to know what a
// record means (a Transform does), where documents go (a sink.Sink does) and
// to keep a position: Slice is told one and answers with the next.
//
// Order, which everything rests on: errors acknowledged, then the sink, then
// the position. A crash at any point replays a range whose writes change
// nothing when they are done twice.
//
// If you look for what an error means, read classify.go; for what is done about
// it, table.go; for how, slice.go.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// Source is one topic partition. Its errors are *kafkalog.Error, as those of
// kafkalog.Log are.
type Source interface {
	// Read gives records at or after from to fn, in order, waiting at most
	// maxWait for the first. A record is valid until fn returns. An error of fn
	// ends the call and is returned, with the offset of that record as next.
	// Else next is where to go on: it steps over control records and compacted
	// offsets. high is the end of the log, -1 if unknown.
	Read(ctx context.Context, from int64, maxBytes int, maxWait time.Duration, fn func(kafkalog.Record) error) (next, high int64, err error)
	// Bounds gives the first offset that is kept and the end.
	Bounds(ctx context.Context) (first, end int64, err error)
}

// ErrorLog is the errors topic. Append returns when all records are
// acknowledged; it may be called twice with the same records. A record that it
// can never take gives kafkalog.KindTooLarge.
type ErrorLog interface {
	Append(ctx context.Context, recs []kafkalog.Record) error
}

// A TransformFunc makes a record an op. It answers ok false for a record that
// is no document, and a *RecordError (any other error, and a panic, counts as
// TransformFailed) for one that belongs in the errors topic. It is a pure
// function of the record: id and version must not change on a replay. The op
// must not share memory with the record. It is called from one goroutine at a
// time.
type TransformFunc func(rec *kafkalog.Record) (op sink.Op, ok bool, err error)

// Policy says where a loader goes when it has no position, or one outside of
// the log.
type Policy int

// The policies.
const (
	// FromZero: the topic is ours, every offset since 0 is owed. Outside of the
	// log means earliest; offsets that retention took are counted as lost.
	FromZero Policy = iota
	// FromEarliest starts at the first offset kept; too old means earliest, too
	// new means the end.
	FromEarliest
	// FromLatest starts at the end; else as FromEarliest.
	FromLatest
)

// Beginning is what is known of a loader without a position.
type Beginning struct {
	Position int64 // -1: the policy decides
	// Skips are orders of an earlier run. They hold from the first record on.
	Skips []contract.Skip
}

// Config of a Machine. Zero values of limits mean the defaults.
type Config struct {
	Topic     string // source, for the errors topic's headers and ids
	Partition int
	Crawl     string
	Target    string // index
	Policy    Policy

	BatchBytes int           // of documents per write: 8 MiB
	BatchCount int           // of records per write: 2000
	BatchAge   time.Duration // how long a batch may grow while the log has more: 1 s
	FetchBytes int           // asked of Kafka at once: 4 MiB
	MaxRecord  int           // bytes of a record's value or a document; larger is class 4: 32 MiB
	CallLimit  time.Duration // of one call of the source, the sink or the errors topic: 1 min
	Resends    int           // of items that the sink was too busy for: 5
	Grace      time.Duration // beyond the time box for a batch in hand, then it is given up: 1 min

	// Settle ends a slice that had no position as soon as it has one, so that
	// where a loader began is kept before anything depends on it.
	Settle bool

	// TransformLimit bounds one call of the transform; beyond it the record
	// fails and the call is left behind. 0: the transform is trusted to end,
	// and records are not copied.
	TransformLimit time.Duration

	// Restate is set by a redrive only: it builds each record for the errors
	// topic in place of Failure.Record, or none, and is given what did not fail
	// as well, with its Resolution, after the sink has acknowledged it. It may
	// be called again for the same record. nil: a loader.
	Restate func(f Failure, above int) (kafkalog.Record, bool)

	// Open makes the sink ready, and says how a loader without a position (-1)
	// begins. It is called in state configure: at the start of a slice and after
	// every reset, so it must be cheap when nothing has changed. nil: the sink is
	// the one given to New.
	Open func(ctx context.Context, position int64) (to sink.Sink, at Beginning, err error)

	// Now is the clock of NextTry and of the errors topic; nil is time.Now.
	Now func() time.Time
	// Rebuild makes fresh clients after an error of class 0; may be nil.
	Rebuild func(ctx context.Context) error
	// Progress is told every change of state and position; may be nil. It must
	// not block.
	Progress func(Progress)
}

// Progress is the inspectable state of a loader.
type Progress struct {
	State    string          `json:"state"`
	Class    int             `json:"class"` // of the last error, while Attempts > 0
	Attempts int             `json:"attempts"`
	Error    string          `json:"error,omitempty"`
	Position int64           `json:"position"`
	End      int64           `json:"end"`
	Ledger   contract.Ledger `json:"ledger"` // of this slice
}

// Machine is the loader of one partition. Slices of one Machine do not overlap.
type Machine struct {
	cfg       Config
	source    Source
	sink      sink.Sink
	errors    ErrorLog
	transform TransformFunc

	progress  atomic.Pointer[Progress]
	abandoned atomic.Int64 // transforms that never came back
}

// New makes a Machine; it fails on a Config that cannot work.
func New(cfg Config, source Source, transform TransformFunc, to sink.Sink, errorLog ErrorLog) (*Machine, error) {
	switch {
	case source == nil || transform == nil || to == nil && cfg.Open == nil || errorLog == nil:
		return nil, errors.New("loader needs a source, a transform, a sink and an errors topic")
	case cfg.Topic == "" || cfg.Partition < 0:
		return nil, fmt.Errorf("loader of topic %q partition %d: name a topic and a partition", cfg.Topic, cfg.Partition)
	}
	setDefault(&cfg.BatchBytes, 8<<20)
	setDefault(&cfg.BatchCount, 2000)
	setDefault(&cfg.BatchAge, time.Second)
	setDefault(&cfg.FetchBytes, 4<<20)
	setDefault(&cfg.MaxRecord, 32<<20)
	setDefault(&cfg.CallLimit, time.Minute)
	setDefault(&cfg.Resends, 5)
	setDefault(&cfg.Grace, time.Minute)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := &Machine{cfg: cfg, source: source, sink: to, errors: errorLog, transform: transform}
	m.progress.Store(&Progress{State: Configure.String()})
	return m, nil
}

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Progress gives the latest state; it may be called at any time.
func (m *Machine) Progress() Progress { return *m.progress.Load() }
