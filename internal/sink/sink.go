// Package sink declares where documents go: the Sink interface, its results
// and its conformance suite (sinktest). It refuses retries and error classes
// of its own: internal/ingest decides what an error means.
package sink

import "context"

// Op is one write: an index, a create or a delete, at a version of the source.
type Op struct {
	ID      string // 1..512 bytes of UTF-8
	Version int64  // >= 0; a lower version never replaces a higher one
	Delete  bool
	Doc     []byte // compact JSON object; nil for a delete

	// Index is where the op goes; "" is the index that the Sink was opened for.
	// Routing chooses the shard; "" is the id. Create writes only if nothing has
	// the id, whatever its version: the one write that a data stream takes. A
	// sink without such things rejects the op.
	Index   string
	Routing string
	Create  bool
}

// Result of one Op, by position.
type Result struct {
	Outcome Outcome
	Status  int    // of the item, if the sink has such
	Type    string // error type; TypeInvalid if the document was not sent
	Reason  string // at most 4 KiB
}

// TypeInvalid is the type of a document that our own check refused before it was
// sent.
const TypeInvalid = "invalid_document"

// Outcome of one Op.
type Outcome int

// The outcomes.
const (
	Loaded     Outcome = iota // acknowledged; a replay of the same version counts as Loaded
	Superseded                // the sink holds a newer version; of a Create: the id is there already
	Rejected                  // poison: will fail again
	Busy                      // 429/503 of the item: try again
)

// Hit is one search result.
type Hit struct {
	ID      string
	Score   float64
	Title   string
	Snippet string
}

// Sink takes documents of one index (one generation of one crawl).
type Sink interface {
	// Write makes all ops durable and visible to a later Write, and answers one
	// Result per Op. It may be called twice with the same ops, also by two
	// processes at once. An error means that nothing is known about any op.
	Write(ctx context.Context, ops []Op) ([]Result, error)
	Close() error
}

// Admin prepares, searches and removes an index. alias is the crawl's index
// name; index is alias + "-" + generation.
type Admin interface {
	// Prepare creates the index (and template) if absent; idempotent. It points
	// the alias at it if point is set.
	Prepare(ctx context.Context, alias, index string, point bool) error
	Open(ctx context.Context, index string) (Sink, error)
	Search(ctx context.Context, alias, query string, limit int) (hits []Hit, total int64, err error)
	Count(ctx context.Context, index string) (int64, error)
	// Drop removes the index, and the alias if it pointed there; idempotent.
	Drop(ctx context.Context, alias, index string) error
}
