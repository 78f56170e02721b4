package contract

import (
	"encoding/json"
	"time"
)

// RedriveSelect says which open failures are meant: the one of ID, else those
// of Classes, else with All every one.
type RedriveSelect struct {
	All     bool   `json:"all,omitempty"`
	Classes []int  `json:"classes,omitempty"`
	ID      string `json:"id,omitempty"`
	// Most is how often a record may have been redriven in vain; beyond it it
	// is refused, unless Force is set.
	Most  int  `json:"most"`
	Force bool `json:"force,omitempty"`
}

// RedriveInput starts a RedriveWorkflow.
type RedriveInput struct {
	Name   string          `json:"name"`           // of the crawl or load
	Run    Run             `json:"run"`            // of the crawl; empty for a load
	Load   json.RawMessage `json:"load,omitempty"` // the LoadSpec; nil for a crawl
	Select RedriveSelect   `json:"select"`
	Rate   float64         `json:"rate,omitempty"` // records a second; 0: no limit
	// State is set by continue-as-new only.
	State *RedriveState `json:"state,omitempty"`
}

// RedriveState is what a RedriveWorkflow carries into its next run.
type RedriveState struct {
	Plan   RedrivePlan   `json:"plan"`
	Status RedriveStatus `json:"status"`
}

// RedrivePlanInput asks for the bounds of a redrive.
type RedrivePlanInput struct {
	Name   string          `json:"name"`
	Run    Run             `json:"run"`
	Load   json.RawMessage `json:"load,omitempty"`
	Select RedriveSelect   `json:"select"`
}

// RedrivePlan is the part of the errors topic that a redrive reads: per
// partition from Starts to Ends, the end when it began.
type RedrivePlan struct {
	Topic  string  `json:"topic"`
	Starts []int64 `json:"starts"`
	Ends   []int64 `json:"ends"`
	Queue  string  `json:"queue"` // of the workers that can write the sink
	// Selected failures, of which Refused were redriven too often; -1: too many
	// records to count beforehand.
	Selected int64 `json:"selected"`
	Refused  int64 `json:"refused"`
}

// RedriveSliceInput asks for one time-boxed slice of one partition.
type RedriveSliceInput struct {
	Name      string          `json:"name"`
	Run       Run             `json:"run"`
	Load      json.RawMessage `json:"load,omitempty"`
	Select    RedriveSelect   `json:"select"`
	Rate      float64         `json:"rate,omitempty"`
	Redrive   string          `json:"redrive"` // marks the records that it states: the workflow's first run id
	Topic     string          `json:"topic"`
	Partition int             `json:"partition"`
	Position  int64           `json:"position"`
	End       int64           `json:"end"`
	TimeBox   time.Duration   `json:"time_box"`
	Retry     RetryState      `json:"retry"`
}

// RedriveCounts are distinct failures: Taken = Loaded + Superseded +
// NoDocument + Failed.
type RedriveCounts struct {
	Taken      int64 `json:"taken"`
	Loaded     int64 `json:"loaded"` // or deleted, if the record says so
	Superseded int64 `json:"superseded"`
	NoDocument int64 `json:"no_document"`
	Failed     int64 `json:"failed"` // again; stated with one attempt more
	Refused    int64 `json:"refused"`
}

// Add sums the counts of disjoint ranges.
func (c RedriveCounts) Add(o RedriveCounts) RedriveCounts {
	return RedriveCounts{
		Taken: c.Taken + o.Taken, Loaded: c.Loaded + o.Loaded, Superseded: c.Superseded + o.Superseded,
		NoDocument: c.NoDocument + o.NoDocument, Failed: c.Failed + o.Failed, Refused: c.Refused + o.Refused,
	}
}

// RedriveSlice is the position after a slice and the counts of exactly the
// range before it.
type RedriveSlice struct {
	Position int64         `json:"position"`
	Counts   RedriveCounts `json:"counts"`
	State    string        `json:"state"`
	Retry    RetryState    `json:"retry,omitzero"`
}

// States of a redrive.
const (
	RedrivePlanning  = "planning"
	RedriveRunning   = "running"
	RedrivePaused    = "paused"
	RedriveWaiting   = "waiting" // for its next try; Retry says why
	RedriveCompleted = "completed"
	RedriveCancelled = "cancelled"
)

// RedriveStatus answers the query "status" of a RedriveWorkflow, and is its
// result.
type RedriveStatus struct {
	Name      string        `json:"name"`
	State     string        `json:"state"`
	Paused    bool          `json:"paused,omitempty"`
	Topic     string        `json:"topic,omitempty"`
	Select    RedriveSelect `json:"select"`
	Rate      float64       `json:"rate,omitempty"`
	Partition int           `json:"partition"` // being read
	Position  int64         `json:"position"`  // in it
	End       int64         `json:"end"`       // of it
	Counts    RedriveCounts `json:"counts"`
	// Left are selected failures not tried yet; -1: not known.
	Left    int64      `json:"left"`
	Retry   RetryState `json:"retry,omitzero"`
	Started time.Time  `json:"started"`
	Ended   time.Time  `json:"ended,omitzero"`
}
