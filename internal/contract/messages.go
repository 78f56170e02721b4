package contract

import (
	"encoding/json"
	"time"
)

// Parent names the run that a child belongs to: First is the parent's first run
// id, constant through continue-as-new. Messages of another run are dropped.
type Parent struct {
	ID         string `json:"id"`
	First      string `json:"first"`
	Generation string `json:"generation"`
}

// ShardInput starts a ShardWorkflow.
type ShardInput struct {
	Run     Run          `json:"run"`
	Shard   int          `json:"shard"`
	Parent  Parent       `json:"parent"`
	Control ShardControl `json:"control"`
	// Careful: the predecessor did not complete; all slots begin cooling and careful.
	Careful bool `json:"careful,omitempty"`
	// State is set by continue-as-new only.
	State *ShardState `json:"state,omitempty"`
}

// ShardState is what a ShardWorkflow carries into its next run.
type ShardState struct {
	Number  int64             `json:"number"` // of the last batch
	Queue   string            `json:"queue"`
	Cooling map[int]time.Time `json:"cooling,omitempty"`
	CoolAll time.Time         `json:"cool_all,omitzero"`
	Careful SlotSet           `json:"careful,omitempty"`
	Whole   SlotSet           `json:"whole,omitempty"` // as in ExpandInput
	Lost    map[int]int       `json:"lost,omitempty"`
	Totals  Totals            `json:"totals"`
	Reports int64             `json:"reports"` // sequence of the last report
}

// ShardControl is the whole wish of the parent; the highest Sequence counts.
type ShardControl struct {
	Parent   Parent `json:"parent"`
	Sequence int64  `json:"sequence"`
	Paused   bool   `json:"paused,omitempty"`
	Stop     bool   `json:"stop,omitempty"` // drain and close
	// Counted: a census found that nothing is left, so idle shards have folded all.
	Counted bool  `json:"counted,omitempty"`
	SpecAt  int64 `json:"spec_at"`
	Grant   Grant `json:"grant"`
}

// States of a shard in its reports.
const (
	ShardBusy    = "busy"
	ShardIdle    = "idle"
	ShardStarved = "starved"
	ShardPaused  = "paused"
	ShardClosed  = "closed"
)

// ShardReport goes from a shard to its parent.
type ShardReport struct {
	Parent   Parent `json:"parent"`
	Shard    int    `json:"shard"`
	Sequence int64  `json:"sequence"` // rises; of the shard's reports
	State    string `json:"state"`
	End      int64  `json:"end"`   // o, if idle or starved
	Grant    int64  `json:"grant"` // the grant number that it follows
	Open     int    `json:"open"`
	Owner    string `json:"owner"`
	Totals   Totals `json:"totals"`
	Trouble  string `json:"trouble,omitempty"`
	LostTail bool   `json:"lost_tail,omitempty"`
}

// CrawlState is what a CrawlWorkflow carries into its next run.
type CrawlState struct {
	Started    time.Time       `json:"started"`
	Generation string          `json:"generation"`
	Spec       json.RawMessage `json:"spec"`
	SpecAt     int64           `json:"spec_at"`
	Paused     bool            `json:"paused,omitempty"`
	Control    int64           `json:"control"` // last sequence given
	Grants     []GrantState    `json:"grants"`
	Shards     []ShardReport   `json:"shards"`
	Loads      LoadsReport     `json:"loads"`
	LoadQueue  string          `json:"load_queue"`
	Notes      []string        `json:"notes,omitempty"`
	// Outcome is set once the end is decided; Phase and Ends say how far it got.
	Outcome string  `json:"outcome,omitempty"`
	Phase   string  `json:"phase,omitempty"`
	Ends    []int64 `json:"ends,omitempty"` // to which the loaders drain
}

// GrantState is the latest grant of a shard and the most that it may still
// spend until it has acknowledged it.
type GrantState struct {
	Grant   Grant `json:"grant"`
	Ceiling int64 `json:"ceiling"`
}

// LogEndsInput asks for the ends of the pages topic.
type LogEndsInput struct {
	Run Run `json:"run"`
}

// LogEndsResult has one end per partition.
type LogEndsResult struct {
	Ends []int64 `json:"ends"`
}
