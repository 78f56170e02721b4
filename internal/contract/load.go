package contract

import (
	"encoding/json"
	"slices"
	"time"
)

// Ledger accounts for every offset of a range:
// Offsets = Loaded + Deleted + Superseded + NoDocument + Errors + Skipped + Compacted + Lost.
type Ledger struct {
	Offsets    int64 `json:"offsets"`
	Loaded     int64 `json:"loaded"`      // written to the sink
	Deleted    int64 `json:"deleted"`     // page gone: document deleted
	Superseded int64 `json:"superseded"`  // the sink held something newer, or already this
	NoDocument int64 `json:"no_document"` // a page that is no document: redirect, error status, other type
	Errors     int64 `json:"errors"`      // in the errors topic
	Skipped    int64 `json:"skipped"`     // by an operator
	Compacted  int64 `json:"compacted"`   // control records and compacted gaps
	// Lost to retention before they were read: an error of the crawl.
	Lost  int64 `json:"lost,omitempty"`
	Bytes int64 `json:"bytes"`
}

// Add sums two ledgers of disjoint ranges.
func (l Ledger) Add(o Ledger) Ledger {
	return Ledger{
		Offsets: l.Offsets + o.Offsets, Loaded: l.Loaded + o.Loaded, Deleted: l.Deleted + o.Deleted,
		Superseded: l.Superseded + o.Superseded, NoDocument: l.NoDocument + o.NoDocument,
		Errors: l.Errors + o.Errors, Skipped: l.Skipped + o.Skipped, Compacted: l.Compacted + o.Compacted,
		Lost: l.Lost + o.Lost, Bytes: l.Bytes + o.Bytes,
	}
}

// Sub takes a part of a ledger away.
func (l Ledger) Sub(o Ledger) Ledger {
	return l.Add(Ledger{
		Offsets: -o.Offsets, Loaded: -o.Loaded, Deleted: -o.Deleted, Superseded: -o.Superseded, NoDocument: -o.NoDocument,
		Errors: -o.Errors, Skipped: -o.Skipped, Compacted: -o.Compacted, Lost: -o.Lost, Bytes: -o.Bytes,
	})
}

// Missing is how many offsets the ledger does not account for; 0 when it
// balances.
func (l Ledger) Missing() int64 {
	return l.Offsets - (l.Loaded + l.Deleted + l.Superseded + l.NoDocument + l.Errors + l.Skipped + l.Compacted + l.Lost)
}

// Skip says that an operator leaves offsets out: From to Through, both
// included. Either way the errors topic says so; with ToErrors it also holds
// their records, as failures that count. Class is that of the trouble they
// were in, 0 if none is known, By who gave the order.
type Skip struct {
	From     int64  `json:"from"`
	Through  int64  `json:"through"`
	Reason   string `json:"reason"`
	ToErrors bool   `json:"to_errors,omitempty"`
	Class    int    `json:"class,omitempty"`
	By       string `json:"by,omitempty"`
}

// AddSkips gives a and what of b is not among them: the same order may be known
// from the copied position, with a shorter reason, and from a workflow.
func AddSkips(a, b []Skip) []Skip {
	sum := slices.Clone(a)
	for _, k := range b {
		if !slices.ContainsFunc(sum, func(o Skip) bool { return o.From == k.From && o.Through == k.Through && o.ToErrors == k.ToErrors }) {
			sum = append(sum, k)
		}
	}
	return sum
}

// Batching bounds one write of a loader; zeros leave what the spec says.
type Batching struct {
	Bytes int64 `json:"bytes,omitempty"` // of documents
	Count int   `json:"count,omitempty"` // of records
}

// LoadInput asks for one time-boxed slice of loading one partition.
type LoadInput struct {
	Run       Run           `json:"run"`
	Partition int           `json:"partition"`
	Position  int64         `json:"position"` // -1: none yet: earliest, or the start of the spec of a load
	TimeBox   time.Duration `json:"time_box"`
	IdleWait  time.Duration `json:"idle_wait"`     // return when nothing came for so long
	Until     int64         `json:"until"`         // end of the drain; -1: none
	End       int64         `json:"end,omitempty"` // of the log, last seen
	Retry     RetryState    `json:"retry"`
	// Ledger of everything before Position, for the copy in the group.
	Ledger Ledger `json:"ledger"`
	// Start and Before say where the present range began, for that copy.
	Start  int64  `json:"start,omitempty"`
	Before Ledger `json:"before,omitzero"`

	// Load is the spec of `starter load`; Run then has the load's name and
	// nothing else. Source is the index of the source in it, Topic its topic,
	// Loader the number of the loader.
	Load   json.RawMessage `json:"load,omitempty"`
	Source int             `json:"source,omitempty"`
	Topic  string          `json:"topic,omitempty"`
	Loader int             `json:"loader,omitempty"`

	// Orders of people.
	Skips    []Skip   `json:"skips,omitempty"`
	Batching Batching `json:"batching,omitzero"`
	Rate     float64  `json:"rate,omitempty"` // records a second; 0: no limit

	// Keep: the loader ends. Nothing is loaded; position and orders are copied to
	// the group, where the next run finds them.
	Keep bool `json:"keep,omitempty"`
}

// RetryState is the retry record of a loader.
type RetryState struct {
	State    string    `json:"state,omitempty"`
	Class    int       `json:"class,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	NextTry  time.Time `json:"next_try,omitempty"`
	Since    time.Time `json:"since,omitzero"` // the first of the attempts
	Error    string    `json:"error,omitempty"`
	// Alone: the trouble is one record, the one at Offset: an operator can skip
	// it or send it to the errors topic.
	Alone  bool  `json:"alone,omitempty"`
	Offset int64 `json:"offset,omitempty"`
	// Through: a stored batch of offsets up to this one cannot be read.
	Through int64 `json:"through,omitempty"`
	// Halved is how many times batches are halved, because larger ones were too
	// much for the sink. It outlives the retries.
	Halved int `json:"halved,omitempty"`
}

// LoadResult is the position after the slice and the ledger of exactly the
// range [Start, Position). Start is the input position, but where there was
// none, the log ended before it (class 5), or Moved says why.
type LoadResult struct {
	Start    int64  `json:"start"`
	Position int64  `json:"position"`
	End      int64  `json:"end"` // log end last seen
	Ledger   Ledger `json:"ledger"`
	// Prior is what the group remembers, when the input had no position.
	Prior Ledger     `json:"prior,omitzero"`
	State string     `json:"state"` // extract, transform, load, errors
	Retry RetryState `json:"retry"`
	// Resume is when the rate allows the next record; zero: now.
	Resume time.Time `json:"resume,omitzero"`
	// PriorStart and PriorBefore are the rest of what the group remembers.
	PriorStart  int64  `json:"prior_start,omitempty"`
	PriorBefore Ledger `json:"prior_before,omitzero"`
	PriorSkips  []Skip `json:"prior_skips,omitempty"`
	PriorMoved  string `json:"prior_moved,omitempty"`
	// Moved says why Start is not the input position, where that is not because
	// the log ended before it.
	Moved string `json:"moved,omitempty"`
	// Kept: position and orders are copied to the group.
	Kept bool `json:"kept,omitempty"`
}

// LoadNote is the metadata of a loader's committed offset.
type LoadNote struct {
	Ledger
	Start  int64  `json:"start,omitempty"` // where the present range began
	Before Ledger `json:"before,omitzero"` // the ledger of what was done before
	// Skips are the orders ahead of the position, for the next run. Moved tells of
	// a seek while the load was not running.
	Skips []Skip `json:"skips,omitempty"`
	Moved string `json:"moved,omitempty"`
}

// LoadsInput starts a LoadsWorkflow.
type LoadsInput struct {
	Run    Run    `json:"run"`
	Parent Parent `json:"parent"`
	Queue  string `json:"queue"` // task queue of Load
	Paused bool   `json:"paused,omitempty"`
	// Load is the spec of `starter load`: the workflow has no parent then, and
	// Run has the load's name and nothing else. Rate is that of its limits.
	Load json.RawMessage `json:"load,omitempty"`
	Rate float64         `json:"rate,omitempty"`
	// Partitions and State are those after continue-as-new.
	Partitions []LoadReport `json:"partitions,omitempty"`
	State      *LoadsState  `json:"state,omitempty"`
}

// LoadsState is what a LoadsWorkflow carries into its next run, besides its
// partitions.
type LoadsState struct {
	Started  time.Time    `json:"started"`
	Control  LoadsControl `json:"control"`  // of the parent
	Sequence int64        `json:"sequence"` // of the last wish passed on
	Order    int64        `json:"order"`    // last order given
	Paused   bool         `json:"paused,omitempty"`
	Batching Batching     `json:"batching,omitzero"`
	Rate     float64      `json:"rate,omitempty"`
	Parts    []LoadPart   `json:"parts,omitempty"`   // of a load
	Known    []int        `json:"known,omitempty"`   // partitions known, per source
	Missing  []string     `json:"missing,omitempty"` // topics
	Fixed    bool         `json:"fixed,omitempty"`   // no other partition can come
	Notes    []string     `json:"notes,omitempty"`
}

// LoadPart is one partition of a load's source.
type LoadPart struct {
	Source    int    `json:"source"`
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	// Until is the offset at which it is done; -1: none is known. UntilTime is
	// when one will be: the first offset of that time.
	Until     int64     `json:"until"`
	UntilTime time.Time `json:"until_time,omitzero"`
}

// LoadsControl is the wish of the parent of loaders.
type LoadsControl struct {
	Parent   Parent  `json:"parent"`
	Sequence int64   `json:"sequence"`
	Paused   bool    `json:"paused,omitempty"`
	Drain    bool    `json:"drain,omitempty"` // run to Ends, then close
	Ends     []int64 `json:"ends,omitempty"`  // per partition; none: Until
	Until    int64   `json:"until,omitempty"`
	// Orders of people that hold until others come.
	Batching Batching `json:"batching,omitzero"`
	Rate     float64  `json:"rate,omitempty"` // records a second of this loader
}

// Kinds of LoadOrder.
const (
	OrderSeek     = "seek"
	OrderSkip     = "skip"
	OrderToErrors = "to-errors"
)

// LoadOrder is a command to one loader, obeyed between two slices and answered
// in its next report.
type LoadOrder struct {
	Parent Parent `json:"parent"`
	Number int64  `json:"number"` // rises
	Kind   string `json:"kind"`
	Offset int64  `json:"offset"`
	Skip   Skip   `json:"skip,omitzero"`
}

// LoadAnswer says what became of an order; an empty Error: it was obeyed.
type LoadAnswer struct {
	Number int64  `json:"number"`
	Error  string `json:"error,omitempty"`
}

// LoadWorkflowInput starts a LoadWorkflow.
type LoadWorkflowInput struct {
	Run       Run          `json:"run"`
	Partition int          `json:"partition"`
	Parent    Parent       `json:"parent"` // the LoadsWorkflow
	Queue     string       `json:"queue"`
	Control   LoadsControl `json:"control"`
	// Load, Source, Topic and Number are those of a loader of `starter load`.
	Load   json.RawMessage `json:"load,omitempty"`
	Source int             `json:"source,omitempty"`
	Topic  string          `json:"topic,omitempty"`
	Number int             `json:"number,omitempty"`
	// State is set by continue-as-new, and for a loader that was gone.
	State *LoadReport `json:"state,omitempty"`
}

// LoadReport is one loader as its parent knows it.
type LoadReport struct {
	Parent    Parent     `json:"parent"`
	Number    int        `json:"number,omitempty"` // of the loader of a load
	Topic     string     `json:"topic,omitempty"`  // of a load
	Partition int        `json:"partition"`
	Position  int64      `json:"position"` // -1: none yet
	End       int64      `json:"end"`
	Ledger    Ledger     `json:"ledger"`
	State     string     `json:"state"`
	Retry     RetryState `json:"retry,omitzero"`
	Closed    bool       `json:"closed,omitempty"`
	Rate      float64    `json:"rate,omitempty"` // documents a second, of late
	// The present range is [Start, Position); its ledger is Ledger without
	// Before. A seek, and a log that was shorter than the position, begin
	// another range.
	Start  int64  `json:"start,omitempty"`
	Before Ledger `json:"before,omitzero"`
	// Skips given so far, also those behind the position.
	Skips   []Skip       `json:"skips,omitempty"`
	Answers []LoadAnswer `json:"answers,omitempty"` // to the latest orders
	Notes   []string     `json:"notes,omitempty"`
}

// LoadsReport goes from a LoadsWorkflow to the crawl.
type LoadsReport struct {
	Parent     Parent       `json:"parent"`
	Partitions []LoadReport `json:"partitions"`
	Closed     bool         `json:"closed,omitempty"`
}

// LoadsStatus answers the query "status" of a LoadsWorkflow.
type LoadsStatus struct {
	Name       string       `json:"name"`
	Phase      string       `json:"phase"` // LoadsPhase...
	Paused     bool         `json:"paused,omitempty"`
	Started    time.Time    `json:"started"`
	Ledger     Ledger       `json:"ledger"`
	Rate       float64      `json:"rate"` // documents a second, of late
	Lag        int64        `json:"lag"`  // offsets between positions and ends, as far as known
	Batching   Batching     `json:"batching,omitzero"`
	RateLimit  float64      `json:"rate_limit,omitempty"`
	Partitions []LoadReport `json:"partitions"`
	Untils     []LoadPart   `json:"untils,omitempty"`  // of a load, by loader
	Trouble    []string     `json:"trouble,omitempty"` // what it waits for
	Notes      []string     `json:"notes,omitempty"`
	Queue      string       `json:"queue,omitempty"` // task queue of Load, once it is known
}

// LoadsSummary is the result of the LoadsWorkflow of a load.
type LoadsSummary struct {
	Name       string       `json:"name"`
	Outcome    string       `json:"outcome"` // OutcomeCompleted or OutcomeCancelled
	Started    time.Time    `json:"started"`
	Ended      time.Time    `json:"ended"`
	Ledger     Ledger       `json:"ledger"`
	Partitions []LoadReport `json:"partitions"`
	Notes      []string     `json:"notes,omitempty"`
}

// PartitionsInput asks for the partitions of a load's sources. Known is how
// many are known of each source: with Wait the activity answers when there are
// more, or when the time is over.
type PartitionsInput struct {
	Run     Run             `json:"run"`
	Load    json.RawMessage `json:"load"`
	Known   []int           `json:"known,omitempty"`
	Missing []string        `json:"missing,omitempty"` // as the last answer had them
	Wait    time.Duration   `json:"wait,omitempty"`
}

// PartitionsResult has the partitions that were not known. Missing names the
// topics that are not there (yet), Trouble says why nothing could be asked;
// Fixed: no other partition can come.
type PartitionsResult struct {
	Parts   []LoadPart `json:"parts,omitempty"`
	Known   []int      `json:"known,omitempty"`
	Queue   string     `json:"queue,omitempty"` // task queue of Load
	Missing []string   `json:"missing,omitempty"`
	Fixed   bool       `json:"fixed,omitempty"`
	Trouble RetryState `json:"trouble,omitzero"`
}

// LocateInput asks where records of a time begin. A part without a topic is one of
// the pages of a crawl.
type LocateInput struct {
	Run   Run        `json:"run"`
	Parts []LoadPart `json:"parts"`
	Time  time.Time  `json:"time"`
}

// LocateResult has one offset per part: the first at or after the time, or the
// log end.
type LocateResult struct {
	Offsets []int64 `json:"offsets"`
}

// LoadTarget names a partition in an update; Topic may be empty for a crawl.
type LoadTarget struct {
	Topic     string `json:"topic,omitempty"`
	Partition int    `json:"partition"`
}

// SeekLoad is the argument of the update seek: an offset, or a time.
type SeekLoad struct {
	LoadTarget
	Offset int64     `json:"offset"`
	Time   time.Time `json:"time,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// SkipLoad is the argument of the updates skip and to-errors.
type SkipLoad struct {
	LoadTarget
	Offset  int64  `json:"offset"`
	Through int64  `json:"through,omitempty"` // the last one; 0: Offset
	Reason  string `json:"reason"`
	By      string `json:"by,omitempty"` // user@host
}

// LoadRate is the argument of the update set-rate of a LoadsWorkflow.
type LoadRate struct {
	Records float64 `json:"records"` // a second, of all loaders together; 0: no limit
}
