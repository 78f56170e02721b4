package sink

import "context"

// Holding is what a sink holds under an id.
type Holding struct {
	Found   bool  // a document; a deleted one is not found
	Version int64 // of the document; 0 if the sink keeps none
}

// HeldID names a document. Index "" is that of the call.
type HeldID struct {
	ID, Index, Routing string
}

// MaxHeld bounds the ids of one question.
const MaxHeld = 1000

// Holder is an Admin that can be asked what it holds: for those who count
// again, or who write late.
type Holder interface {
	// Holds answers one Holding per id, by position, as of the last Write; of at
	// most MaxHeld ids. An index that is not there holds nothing.
	Holds(ctx context.Context, index string, ids []HeldID) ([]Holding, error)
}
