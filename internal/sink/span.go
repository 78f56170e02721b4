package sink

import "context"

// Partition is one partition of a source, as one reader reads it.
type Partition struct {
	Reader    string // the crawl or load
	Topic     string
	Partition int
}

// Spans is a Sink that keeps the documents of a run of offsets as a whole, or
// not at all, and once only. Two readers of one partition may be at work at
// once: the first to keep a span wins.
type Spans interface {
	// Begin answers with the span that is kept and covers an offset, whoever kept
	// it: its reader goes on at its end. If there is none the Span is a new one
	// that begins at the offset.
	Begin(ctx context.Context, p Partition, from int64) (Kept, Span, error)
	// Renew sets the spans of a partition aside if they reach beyond end, where
	// its log ends now: the log is another one. Their documents stay.
	Renew(ctx context.Context, p Partition, end int64) error
}

// Kept is a span that is kept: offsets From to To, To not included.
type Kept struct {
	From, To int64
	Note     []byte // JSON, as whoever kept it gave it
}

// Span is a span that is not kept yet. It has one user.
type Span interface {
	// Limit is where the next kept span begins, -1 if none does.
	Limit() int64
	// Write is Sink.Write, but that what it takes lasts only once it is kept.
	Write(ctx context.Context, ops []Op) ([]Result, error)
	// Mark says that what was written so far is settled; Undo forgets what was
	// written since: its offsets are not.
	Mark()
	Undo()
	// Full says that the span should be kept before more is written.
	Full() bool
	// Keep makes the span durable, and ends it; note is a JSON object of at most
	// MaxNote bytes. won false means that another span of these offsets was first:
	// nothing of this one is left. After an error it is unknown which: Begin tells.
	Keep(ctx context.Context, to int64, note []byte) (won bool, err error)
	// Discard forgets a span that was not kept.
	Discard()
}

// MaxNote bounds the note of a span.
const MaxNote = 4096

// Auditor is an Admin that can say whether what it keeps is whole.
type Auditor interface {
	Audit(ctx context.Context, index string) (Audit, error)
}

// Audit is what an Auditor found.
type Audit struct {
	Files     int64    `json:"files"`
	Lines     int64    `json:"lines"`
	Documents int64    `json:"documents"` // distinct ids whose newest version is no delete
	Repeats   int64    `json:"repeats"`   // lines with the id and version of an earlier line
	Repeated  []string `json:"repeated,omitempty"`
	Faults    []string `json:"faults,omitempty"` // what must not be
}
