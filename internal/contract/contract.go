// Package contract holds the inputs and results of workflows, activities,
// signals, updates and queries: plain data and nothing else. It refuses
// behaviour beyond trivial accessors, and imports nothing of the project.
package contract

import (
	"encoding/json"
	"time"
)

// Run names one generation of a crawl and the fixed shape of its topics.
// Every activity input carries it.
type Run struct {
	Crawl      string `json:"crawl"`      // name of the crawl
	Generation string `json:"generation"` // UTC start of the first run, "20060102t150405"
	Shards     int    `json:"shards"`     // partitions of the frontier topic
	Partitions int    `json:"partitions"` // partitions of the pages topic
	// SpecAt is the offset in frontier partition 0 of the spec fact to use.
	// A changed spec (set-rate, raised limit) is a new offset.
	SpecAt int64 `json:"spec_at"`
}

// Slots is the number of host slots of a shard (DESIGN section 4).
const Slots = 4096

// MaxOpenBatches is how many batches of a shard may be open at a time.
const MaxOpenBatches = 64

// SlotSet is a bitmap of slots; encoded as base64 in JSON, empty means none.
type SlotSet []byte

// Item is one locator of a batch. Path is the request target beginning with
// "/"; the URL is BatchHost.Scheme + "://" + BatchHost.Host + Path. Validators
// are present on recrawl only.
type Item struct {
	Path         string `json:"p"`
	Depth        int    `json:"d,omitempty"`
	Round        int    `json:"r,omitempty"` // 0 reads as 1
	Try          int    `json:"t,omitempty"` // tries that failed before this one
	Hop          int    `json:"h,omitempty"` // redirect hops that led here
	ETag         string `json:"e,omitempty"`
	LastModified string `json:"m,omitempty"`
	// StateTry: state a failed try before the request is made, because earlier
	// batches with this locator killed their workers.
	StateTry bool `json:"k,omitempty"`
}

// BatchHost is the work for one host with the politeness that the fold knows.
// Host is host[:port] (the politeness key); the same host with another scheme
// is another BatchHost in the same batch and shares its gate.
type BatchHost struct {
	Scheme      string `json:"scheme"`
	Host        string `json:"host"`
	DelayMS     int64  `json:"delay_ms"`
	Parallelism int    `json:"parallelism"`
	RobotsAt    int64  `json:"robots_at"` // offset of the robots fact in this shard's partition; -1: not known
	Streak      int    `json:"streak,omitempty"`
	// Part of a split host (DESIGN section 4, Slots) that these items are; 0 if
	// the host is dealt whole. It goes into the host's Blocked facts.
	Part int `json:"part,omitempty"`
	// Careful: wait DelayMS before the first request, because an earlier Fetch
	// over this slot gave no answer.
	Careful bool `json:"careful,omitempty"`
	// HoldMS: make no request for so long after HoldsAt of the FetchInput, because
	// the slot still cools after an earlier batch.
	HoldMS int64  `json:"hold_ms,omitempty"`
	Items  []Item `json:"items"`
}

// Batch is the work of one Fetch.
type Batch struct {
	Number  int64         `json:"number"`
	TimeBox time.Duration `json:"time_box"` // from the start of the Fetch
	Slots   []int         `json:"slots"`    // slots that it opens
	// Whole are those of Slots in which no part of a split host is.
	Whole []int `json:"whole,omitempty"`
	// Cool: the slots cool at least so long afterwards, because some of them
	// are careful and hosts of theirs may not be in the batch. LongestDelay of
	// the result includes it, so the marks of all Slots may be cleared.
	Cool      time.Duration `json:"cool,omitempty"`
	Locators  int           `json:"locators"`
	HostCount int           `json:"host_count"`
	Hosts     []BatchHost   `json:"hosts"`
}

// AcquireInput asks a worker to take a shard.
type AcquireInput struct {
	Run   Run `json:"run"`
	Shard int `json:"shard"`
}

// AcquireResult names the queue of the worker that took the shard.
type AcquireResult struct {
	Queue string `json:"queue"`
}

// Grant is a budget of pages: number counts grants, Total is the sum of all
// pages that the shard may have spent since the generation began. Number 0
// means no limit.
type Grant struct {
	Number int64 `json:"number"`
	Total  int64 `json:"total"`
}

// ExpandInput asks the owner of a shard for the next batch.
type ExpandInput struct {
	Run     Run     `json:"run"`
	Shard   int     `json:"shard"`
	Number  int64   `json:"number"` // number for the next batch
	Busy    SlotSet `json:"busy,omitempty"`
	Careful SlotSet `json:"careful,omitempty"`
	// Holds are the slots that cool, but will not for long: their hosts may be
	// dealt with the wait that is left. Slots that cool longer are in Busy.
	Holds []Hold `json:"holds,omitempty"`
	// Whole are slots in which, as long as they are open or cool, no part of a
	// split host is: they are in nobody's way but that of their own hosts.
	Whole        SlotSet `json:"whole,omitempty"`
	OpenBatches  int     `json:"open_batches"`
	OpenLocators int64   `json:"open_locators"`
	// Lost counts, per slot, Fetches in a row that were lost to a time-out.
	Lost  map[int]int `json:"lost,omitempty"`
	Grant Grant       `json:"grant"`
	// MayWait: nothing is open or cooling, and idle or starved was already
	// reported with the log end WaitFrom: wait inside for a longer log.
	MayWait  bool  `json:"may_wait,omitempty"`
	WaitFrom int64 `json:"wait_from,omitempty"`
	// WaitFor: batches are open and there was nothing to deal: wait inside so
	// long for something.
	WaitFor time.Duration `json:"wait_for,omitempty"`
	// FoldOnly: fold to the log end and answer with the totals; deal nothing.
	FoldOnly bool `json:"fold_only,omitempty"`
}

// Released goes from a Fetch under way to its shard: it is done with some hosts
// of its batch, whose facts are acknowledged, while others still have requests
// running.
type Released struct {
	Number   int64         `json:"number"` // of the batch
	Slots    []int         `json:"slots"`
	Locators int64         `json:"locators"` // of the hosts in those slots
	Cool     time.Duration `json:"cool"`     // what the slots still have to cool
}

// Hold says how long some slots still cool.
type Hold struct {
	MS    int64 `json:"ms"`
	Slots []int `json:"slots"` // ascending
}

// Expand verdicts.
const (
	VerdictBatch   = "batch"
	VerdictIdle    = "idle"    // every locator has an end, nothing was open in the input
	VerdictStarved = "starved" // due locators, but no grant left
	VerdictLater   = "later"   // nothing to deal now; see NextDue
	VerdictMove    = "move"    // this worker holds too many shards: acquire again
)

// ExpandResult answers an Expand.
type ExpandResult struct {
	Verdict string `json:"verdict"`
	Batch   *Batch `json:"batch,omitempty"`
	// Further are batches that go with it, as if the shard had asked again for
	// each, with their numbers one after the other.
	Further []Batch `json:"further,omitempty"`
	End     int64   `json:"end"` // o: the log end that was read before folding, all folded
	// NextDue is when the next locator that is not in a busy slot comes due;
	// zero if none.
	NextDue time.Time `json:"next_due,omitempty"`
	// More: other locators are due now in free slots: ask again at once.
	More bool `json:"more,omitempty"`
	// LostTail: the log end was below an offset folded before; the shard was
	// folded again from the start.
	LostTail bool   `json:"lost_tail,omitempty"`
	Totals   Totals `json:"totals"`
}

// Totals are a shard's counts as its fold knows them. They sum over shards.
type Totals struct {
	Locators int64            `json:"locators"`           // known
	Fetched  int64            `json:"fetched"`            // have an HTTP status in their last round
	Refused  map[string]int64 `json:"refused,omitempty"`  // ended by refusal, by reason
	GivenUp  map[string]int64 `json:"given_up,omitempty"` // ended by their last allowed try or a parked host, by class
	Pending  int64            `json:"pending"`            // have no end
	Status   map[string]int64 `json:"status,omitempty"`   // "2xx", "3xx", "404", ...: fetched, by kind
	Tries    int64            `json:"tries"`              // failed tries stated
	Bytes    int64            `json:"bytes"`              // body bytes of fetched pages
	Hosts    int64            `json:"hosts"`
	Parked   int64            `json:"parked"`              // hosts parked
	Spent    int64            `json:"spent"`               // budget spent: locators with an HTTP status
	CutDepth int64            `json:"cut_depth,omitempty"` // pages whose links were cut by depth
}

// Add sums the totals of disjoint shards.
func (t Totals) Add(o Totals) Totals {
	t.Locators += o.Locators
	t.Fetched += o.Fetched
	t.Refused = addCounts(t.Refused, o.Refused)
	t.GivenUp = addCounts(t.GivenUp, o.GivenUp)
	t.Pending += o.Pending
	t.Status = addCounts(t.Status, o.Status)
	t.Tries += o.Tries
	t.Bytes += o.Bytes
	t.Hosts += o.Hosts
	t.Parked += o.Parked
	t.Spent += o.Spent
	t.CutDepth += o.CutDepth
	return t
}

func addCounts(a, b map[string]int64) map[string]int64 {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	sum := make(map[string]int64, len(a)+len(b))
	for k, v := range a { //workflowcheck:ignore a sum has no order
		sum[k] += v
	}
	for k, v := range b { //workflowcheck:ignore a sum has no order
		sum[k] += v
	}
	return sum
}

// FetchInput is one batch for any worker.
type FetchInput struct {
	Run   Run   `json:"run"`
	Shard int   `json:"shard"`
	Batch Batch `json:"batch"`
	// HoldsAt is when the HoldMS of the batch began to run, by the clock of the
	// Temporal server; zero: with the Fetch.
	HoldsAt time.Time `json:"holds_at,omitzero"`
}

// FetchResult says what a Fetch did: counts, no URLs.
type FetchResult struct {
	Number       int64            `json:"number"`
	Outcomes     map[string]int64 `json:"outcomes"` // "200", "404", "refused:robots", "failed:timeout", ...
	Requests     int64            `json:"requests"`
	Bytes        int64            `json:"bytes"`
	Links        int64            `json:"links"`     // links stated
	LeftOver     int64            `json:"left_over"` // locators that stay due
	LongestDelay time.Duration    `json:"longest_delay"`
	Gone         time.Duration    `json:"gone,omitempty"`    // of LongestDelay, for every host: the slots cool for the rest
	Drained      bool             `json:"drained,omitempty"` // ended early by drain or cancel
}

// SeedInput creates topics and states the spec and the seeds. It is
// idempotent: on a generation that exists it states what is new.
type SeedInput struct {
	Run  Run             `json:"run"`
	Spec json.RawMessage `json:"spec"` // canonical JSON of the spec
	// Only states these URLs (add-seeds) and leaves the spec alone.
	Only []string `json:"only,omitempty"`
}

// SeedResult carries the offset of the spec fact.
type SeedResult struct {
	SpecAt int64 `json:"spec_at"`
	Seeds  int64 `json:"seeds"`
	// LoadQueue is the task queue of the workers that can write the sink.
	LoadQueue string `json:"load_queue"`
}

// ClearInput closes children left over from an earlier run of the parent.
type ClearInput struct {
	WorkflowIDs []string `json:"workflow_ids"`
}

// ClearResult says how many children had to be closed.
type ClearResult struct {
	Closed int `json:"closed"`
}

// CensusInput compares log ends with the ends at which shards reported idle.
type CensusInput struct {
	Run  Run     `json:"run"`
	Ends []int64 `json:"ends"` // per shard
}

// CensusResult has the log end of each shard, and whether all are as asked.
type CensusResult struct {
	Ends  []int64 `json:"ends"`
	Equal bool    `json:"equal"`
}

// Outcomes of a crawl.
const (
	OutcomeCompleted = "completed"
	OutcomeBudget    = "budget"
	OutcomeTime      = "time"
	OutcomeCancelled = "cancelled"
)

// FinalizeInput writes the summary.
type FinalizeInput struct {
	Run     Run       `json:"run"`
	Outcome string    `json:"outcome"`
	Started time.Time `json:"started"`
	Totals  Totals    `json:"totals"` // sums of the shards' last folds
	Ledger  Ledger    `json:"ledger"`
	Notes   []string  `json:"notes,omitempty"`
}

// Summary is what remains of a crawl when Temporal has forgotten it.
type Summary struct {
	Crawl      string    `json:"crawl"`
	Generation string    `json:"generation"`
	Outcome    string    `json:"outcome"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended"`
	Totals     Totals    `json:"totals"`
	Ledger     Ledger    `json:"ledger"`
	Notes      []string  `json:"notes,omitempty"`
	Sink       string    `json:"sink,omitempty"` // its kind
}
