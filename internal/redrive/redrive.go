// Package redrive owns what the records of an errors topic mean together: which
// failures of which ids are still open, how they group, and how open ones are
// sent once more through the loader's own machine. It refuses to know what a
// record of the source means (a transform does), when a redrive runs and how
// far (RedriveWorkflow does), and to change what was stated: a failure that is
// done with gets a resolution record, and the last record of an id counts.
//
// Where to start: index.go for what counts as open, each.go for reading,
// source.go for sending again.
package redrive

import (
	"context"
	"slices"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
)

// Log reads topics, as kafkalog.Log does.
type Log interface {
	Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error)
	ReadRange(ctx context.Context, topic string, partition int, from, end int64, fn func(kafkalog.Record) error) (next int64, err error)
}

// Status is what became of a failure.
type Status uint8

// The statuses. FailedAgain is an open failure whose last record was stated by
// the redrive that asks; anybody else sees it as Open.
const (
	Open Status = iota
	Loaded
	NoDocument
	Superseded
	Discarded
	FailedAgain
	Skipped
)

var statusNames = [...]string{"open", "redriven", "no document", "superseded", "discarded", "failed again", "skipped"}

func (s Status) String() string { return statusNames[s] }

// statusOf reads a resolution.
func statusOf(f *ingest.Failure) Status {
	switch {
	case f.Resolution == "":
		return Open
	case f.Resolution == ingest.Superseded:
		return Superseded
	case f.Resolution == ingest.Discarded:
		return Discarded
	case f.Resolution == ingest.Skipped:
		return Skipped
	case f.Type == ingest.TypeNoDocument:
		return NoDocument
	}
	return Loaded
}

// Takes tells whether a selection takes a failure.
func Takes(s contract.RedriveSelect, f *ingest.Failure) bool {
	switch {
	case s.ID != "":
		return f.ID == s.ID
	case s.All:
		return true
	}
	return slices.Contains(s.Classes, int(f.Class))
}

// Pending tells whether something is left to be done about a failure, as far as
// a selection is concerned: what was skipped is none unless it is named.
func Pending(s contract.RedriveSelect, status Status) bool {
	return status == Open || status == Skipped && s.ID != ""
}

// Refused tells whether a failure was redriven so often that more is a loop.
func Refused(s contract.RedriveSelect, f *ingest.Failure) bool {
	return !s.Force && f.Redrives >= s.Most
}
