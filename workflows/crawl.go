package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// Phases of a crawl.
const (
	PhaseSeed     = "seeding"
	PhaseCrawl    = "crawling"
	PhaseStop     = "stopping"
	PhaseDrain    = "loading"
	PhaseFinalize = "finalizing"
	PhaseDone     = "done"
)

// CrawlWorkflow owns the phase, the children, budgets, pause, the census and
// the summary of one crawl. Its result is the summary; cancelled, it ends
// cancelled after its children have drained.
func CrawlWorkflow(ctx workflow.Context, in contract.CrawlInput) (*contract.Summary, error) {
	root, _ := workflow.NewDisconnectedContext(ctx)
	c, err := newCrawl(root, in)
	if err != nil {
		return nil, err
	}
	if err := c.handlers(root); err != nil {
		return nil, err
	}
	if in.State == nil {
		if err := c.begin(root, ctx); err != nil {
			return nil, err
		}
	}
	for c.outcome == "" {
		if ctx.Err() != nil { // a new run would not know of it
			c.outcome = contract.OutcomeCancelled
			break
		}
		if workflow.GetInfo(root).GetContinueAsNewSuggested() && !c.censusing && c.adding == 0 {
			return nil, c.continueAsNew(ctx, root)
		}
		c.step(root, ctx)
	}
	summary, err := c.finish(root)
	if errors.Is(err, errRollover) {
		return nil, c.continueAsNew(ctx, root)
	}
	if err != nil {
		return nil, err
	}
	if c.outcome == contract.OutcomeCancelled {
		return nil, temporal.NewCanceledError(summary)
	}
	return summary, nil
}

// errRollover: the history is long enough, go on in a new run.
var errRollover = errors.New("continue as new")

// specView is what this workflow reads of a spec.
type specView struct {
	Shards int `json:"shards"`
	Limits struct {
		Pages int64  `json:"pages"`
		Time  string `json:"time"`
	} `json:"limits"`
	Sink struct {
		Kind string `json:"kind"`
	} `json:"sink"`
	time time.Duration
}

func viewSpec(raw json.RawMessage) (specView, error) {
	var v specView
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, temporal.NewNonRetryableApplicationError("spec is not readable: "+err.Error(), ErrTypeBadSpec, err)
	}
	if v.Limits.Time != "" {
		d, err := time.ParseDuration(v.Limits.Time)
		if err != nil {
			return v, temporal.NewNonRetryableApplicationError("limits.time: "+err.Error(), ErrTypeBadSpec, err)
		}
		v.time = d
	}
	if v.Shards < 1 {
		return v, temporal.NewNonRetryableApplicationError(fmt.Sprintf("shards: %d; it must be at least 1", v.Shards), ErrTypeBadSpec, nil)
	}
	return v, nil
}

type crawl struct {
	in     contract.CrawlInput
	spec   specView
	run    contract.Run
	self   contract.Parent
	st     contract.CrawlState
	budget *budget

	phase    string
	outcome  string
	careful  bool // the shards begin with every slot cooling
	rating   workflow.Mutex
	heard    []time.Time // when each shard last reported
	accepted int64       // add-seeds accepted so far: a census counts only if none came since
	adding   int         // add-seeds under way
	refuse   bool        // a census counted: the end is decided

	censusing   bool
	censusRound int64
	censusAgain time.Time

	reports workflow.ReceiveChannel
	loads   workflow.ReceiveChannel
	wake    workflow.Channel
	alarm   alarm

	summary   *contract.Summary
	described string // state of the search attributes
	rate      float64
	rateAt    time.Time
	rateOf    int64
}

func newCrawl(ctx workflow.Context, in contract.CrawlInput) (*crawl, error) {
	c := &crawl{in: in, phase: PhaseSeed}
	if in.State != nil {
		c.st = *in.State
	} else {
		c.st = contract.CrawlState{
			Started: workflow.Now(ctx), Spec: in.Spec, Generation: in.Run.Generation,
		}
		if c.st.Generation == "" {
			c.st.Generation = workflow.GetInfo(ctx).WorkflowStartTime.UTC().Format("20060102t150405")
		}
	}
	var err error
	if c.spec, err = viewSpec(c.st.Spec); err != nil {
		return nil, err
	}
	info := workflow.GetInfo(ctx)
	c.run = contract.Run{
		Crawl: in.Run.Crawl, Generation: c.st.Generation, Shards: c.spec.Shards,
		Partitions: max(in.Run.Partitions, c.spec.Shards), SpecAt: c.st.SpecAt,
	}
	c.self = contract.Parent{ID: info.WorkflowExecution.ID, First: info.FirstRunID, Generation: c.run.Generation}
	c.budget = newBudget(c.spec.Limits.Pages, c.run.Shards, in.Resume)
	if in.State == nil {
		c.st.Shards = make([]contract.ShardReport, c.run.Shards)
		for i := range c.st.Shards {
			c.st.Shards[i] = contract.ShardReport{Shard: i, State: contract.ShardBusy}
		}
	} else {
		c.budget.grants = c.st.Grants
		c.phase, c.outcome, c.refuse = PhaseCrawl, c.st.Outcome, c.st.Outcome != ""
		if c.outcome != "" {
			c.phase = c.st.Phase
		}
	}
	c.rating = workflow.NewMutex(ctx)
	c.heard = make([]time.Time, c.run.Shards)
	for i := range c.heard {
		c.heard[i] = workflow.Now(ctx)
	}
	c.reports = workflow.GetSignalChannel(ctx, SigReport)
	c.loads = workflow.GetSignalChannel(ctx, SigLoads)
	c.wake = workflow.NewBufferedChannel(ctx, 1)
	return c, nil
}

// hasLoaders: a spec without a sink keeps pages only.
func (c *crawl) hasLoaders() bool { return c.spec.Sink.Kind != "none" }

func (c *crawl) continueAsNew(ctx, root workflow.Context) error {
	if err := workflow.Await(root, func() bool { return workflow.AllHandlersFinished(root) }); err != nil {
		return err
	}
	c.receive()
	c.st.Grants, c.st.Outcome, c.st.Phase = c.budget.grants, c.outcome, c.phase
	in := c.in
	in.Run, in.Spec, in.State = c.run, nil, &c.st
	return workflow.NewContinueAsNewError(ctx, CrawlType, in)
}

// begin clears what an earlier run left, seeds, and starts the children. Until
// there are children, a cancellation simply ends the run.
func (c *crawl) begin(ctx, user workflow.Context) error {
	c.describe(ctx)
	ids := []string{LoadsID(c.run.Crawl)}
	for i := range c.run.Shards {
		ids = append(ids, ShardID(c.run.Crawl, i))
	}
	for p := range c.run.Partitions {
		ids = append(ids, LoadID(c.run.Crawl, p))
	}
	actx := workflow.WithActivityOptions(user, sharedOptions("close children of an earlier run"))
	var cleared contract.ClearResult
	if err := workflow.ExecuteActivity(actx, ActClear, contract.ClearInput{WorkflowIDs: ids}).Get(ctx, &cleared); err != nil {
		return err
	}
	c.careful = c.in.Resume || cleared.Closed > 0
	actx = workflow.WithActivityOptions(user, sharedOptions("create topics, state spec and seeds"))
	var seeded contract.SeedResult
	if err := workflow.ExecuteActivity(actx, ActSeed, contract.SeedInput{Run: c.run, Spec: c.st.Spec}).Get(ctx, &seeded); err != nil {
		return err
	}
	c.run.SpecAt, c.st.SpecAt, c.st.LoadQueue = seeded.SpecAt, seeded.SpecAt, seeded.LoadQueue
	paused := c.st.Paused
	if err := c.startChildren(ctx); err != nil {
		return err
	}
	c.phase = PhaseCrawl
	c.describe(ctx)
	if c.st.Paused != paused { // meanwhile: some child may not have been there to be told
		c.tellAll(ctx)
		c.tellLoads(ctx)
	}
	return nil
}

// step waits for one thing to happen while crawling, and decides.
func (c *crawl) step(ctx, user workflow.Context) {
	if user.Err() != nil {
		c.outcome = contract.OutcomeCancelled
		return
	}
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(c.reports, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(c.loads, func(workflow.ReceiveChannel, bool) {})
	sel.AddReceive(c.wake, func(ch workflow.ReceiveChannel, _ bool) { ch.Receive(ctx, nil) })
	sel.AddReceive(user.Done(), func(workflow.ReceiveChannel, bool) {})
	c.alarm.watch(ctx, sel, c.lookAt(ctx))
	sel.Select(ctx)
	c.receive()
	c.revive(ctx)
	c.measure(ctx)
	c.describe(ctx)
	switch {
	case user.Err() != nil:
		c.outcome = contract.OutcomeCancelled
	case c.timeUp(ctx):
		c.outcome = contract.OutcomeTime
	case !c.st.Paused:
		c.settle(ctx)
	}
}

// lookAt is when to look again, whatever happens until then.
func (c *crawl) lookAt(ctx workflow.Context) time.Time {
	now := workflow.Now(ctx)
	at := now.Add(silence)
	if c.spec.time > 0 {
		at = earlier(at, c.st.Started.Add(c.spec.time))
	}
	for _, heard := range c.heard {
		at = earlier(at, heard.Add(silence))
	}
	if c.censusAgain.After(now) { // once it has passed, only a report can bring the next census
		at = earlier(at, c.censusAgain)
	}
	return at
}

func (c *crawl) timeUp(ctx workflow.Context) bool {
	return c.spec.time > 0 && !workflow.Now(ctx).Before(c.st.Started.Add(c.spec.time))
}

// receive takes every report; only those of our run count, and of each shard
// only the latest.
func (c *crawl) receive() {
	for {
		var r contract.ShardReport
		if !c.reports.ReceiveAsync(&r) {
			break
		}
		if r.Parent != c.self || r.Shard < 0 || r.Shard >= len(c.st.Shards) || r.Sequence <= c.st.Shards[r.Shard].Sequence {
			continue
		}
		if r.LostTail && !c.st.Shards[r.Shard].LostTail {
			c.st.Notes = append(c.st.Notes, fmt.Sprintf("shard %d found the end of its log behind an offset it had read: the broker lost a tail; the shard was folded again from the start", r.Shard))
		}
		c.st.Shards[r.Shard] = r
		c.heard[r.Shard] = time.Time{} // now; step knows the time
	}
	for {
		var r contract.LoadsReport
		if !c.loads.ReceiveAsync(&r) {
			return
		}
		if r.Parent == c.self {
			c.st.Loads = r
		}
	}
}

// settle moves the budget and, when every shard has an end, takes the census.
func (c *crawl) settle(ctx workflow.Context) {
	changed, exhausted := c.budget.balance(c.st.Shards)
	if len(changed) > 0 {
		c.tell(ctx, changed...)
		return
	}
	starved := false
	for i, r := range c.st.Shards {
		if r.Open > 0 || (r.State != contract.ShardIdle && r.State != contract.ShardStarved) {
			return
		}
		if r.Grant != c.budget.grants[i].Grant.Number {
			return
		}
		starved = starved || r.State == contract.ShardStarved
	}
	switch {
	case starved && exhausted && c.adding == 0:
		c.refuse, c.outcome = true, contract.OutcomeBudget
	case !starved:
		c.census(ctx)
	}
}

// census compares the log ends with those of the idle reports. It counts only
// if no add-seeds was accepted or under way since it was scheduled.
func (c *crawl) census(ctx workflow.Context) {
	if c.censusing || c.adding > 0 || workflow.Now(ctx).Before(c.censusAgain) {
		return
	}
	ends := make([]int64, len(c.st.Shards))
	for i, r := range c.st.Shards {
		ends[i] = r.End
	}
	accepted := c.accepted
	c.censusing = true
	c.censusRound++
	actx := workflow.WithActivityOptions(ctx, sharedOptions(fmt.Sprintf("census %d", c.censusRound)))
	var r contract.CensusResult
	err := workflow.ExecuteActivity(actx, ActCensus, contract.CensusInput{Run: c.run, Ends: ends}).Get(ctx, &r)
	c.censusing = false
	c.censusAgain = workflow.Now(ctx).Add(censusRepeat)
	if err == nil && r.Equal && accepted == c.accepted && c.adding == 0 && !c.st.Paused {
		c.refuse, c.outcome = true, contract.OutcomeCompleted
	}
}
