package contract

import (
	"encoding/json"
	"time"
)

// CrawlInput starts a CrawlWorkflow.
type CrawlInput struct {
	Spec json.RawMessage `json:"spec"` // canonical JSON of the spec
	// Run is the generation to go on with. An empty Run.Generation begins a new
	// one, named by the workflow's own start time; Shards and Partitions are
	// then what the topics get.
	Run Run `json:"run"`
	// Resume: the generation exists and its last run did not complete, so
	// leftover children are closed first and all slots begin careful.
	Resume bool   `json:"resume,omitempty"`
	Reason string `json:"reason,omitempty"` // why it goes on, for people
	// State is set by continue-as-new only.
	State *CrawlState `json:"state,omitempty"`
}

// CrawlStatus answers the query "status" of a CrawlWorkflow.
type CrawlStatus struct {
	Run     Run            `json:"run"`
	Phase   string         `json:"phase"`
	Paused  bool           `json:"paused,omitempty"`
	Outcome string         `json:"outcome,omitempty"` // once it is known
	Totals  Totals         `json:"totals"`
	Ledger  Ledger         `json:"ledger"`
	Rate    float64        `json:"rate"`             // pages per second, of late
	Owners  map[string]int `json:"owners,omitempty"` // shards held, by worker queue
	Shards  []ShardStatus  `json:"shards,omitempty"`
	Started time.Time      `json:"started"`
	Summary *Summary       `json:"summary,omitempty"` // when it has ended
	Notes   []string       `json:"notes,omitempty"`
	Trouble []string       `json:"trouble,omitempty"` // what it waits for at the moment
	// LoadQueue is the task queue of Load and of Finalize, once it is known.
	LoadQueue string `json:"load_queue,omitempty"`
}

// ShardStatus is one shard as its parent knows it.
type ShardStatus struct {
	Shard  int    `json:"shard"`
	Owner  string `json:"owner,omitempty"`
	State  string `json:"state"`
	Totals Totals `json:"totals"`
	Open   int    `json:"open"` // open batches
}

// Rate is the argument of the update set-rate.
type Rate struct {
	DelayMS     int64 `json:"delay_ms"`    // between two requests to a host
	Parallelism int   `json:"parallelism"` // requests to a host at once; 0: unchanged
}

// AddSeeds is the argument of the update add-seeds.
type AddSeeds struct {
	URLs []string `json:"urls"`
}
