package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// finish stops the shards, lets the loaders run to the ends, and writes the
// summary. In a run that continues another it begins where that one was.
func (c *crawl) finish(ctx workflow.Context) (*contract.Summary, error) {
	c.refuse, c.st.Paused = true, false
	if c.phase != PhaseDrain {
		c.phase = PhaseStop
		c.describe(ctx)
		if err := c.await(ctx, c.shardsClosed, c.tellAll); err != nil {
			return nil, err
		}
	}
	if c.hasLoaders() {
		if err := c.drain(ctx); err != nil {
			return nil, err
		}
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return nil, err
	}
	c.phase = PhaseFinalize
	c.describe(ctx)
	actx := workflow.WithActivityOptions(ctx, finalizeOptions(c.st.LoadQueue, "write the summary"))
	var summary contract.Summary
	if err := workflow.ExecuteActivity(actx, ActFinalize, contract.FinalizeInput{
		Run: c.run, Outcome: c.outcome, Started: c.st.Started, Totals: c.totals(), Ledger: c.ledger(), Notes: c.st.Notes,
	}).Get(ctx, &summary); err != nil {
		return nil, err
	}
	c.phase, c.summary = PhaseDone, &summary
	c.describe(ctx)
	return &summary, nil
}

func (c *crawl) drain(ctx workflow.Context) error {
	c.phase = PhaseDrain
	c.describe(ctx)
	if c.st.Ends == nil {
		actx := workflow.WithActivityOptions(ctx, sharedOptions("ends of the pages"))
		var ends contract.LogEndsResult
		if err := workflow.ExecuteActivity(actx, ActLogEnds, contract.LogEndsInput{Run: c.run}).Get(ctx, &ends); err != nil {
			return err
		}
		c.st.Ends = ends.Ends
	}
	return c.await(ctx, func() bool { return c.st.Loads.Closed }, c.tellLoads)
}

// await states its wish and takes reports until done; each minute it repeats
// the wish, in case a message or a child got lost.
func (c *crawl) await(ctx workflow.Context, done func() bool, tell func(workflow.Context)) error {
	tell(ctx)
	again := workflow.Now(ctx).Add(reportQuiet)
	for {
		c.receive()
		c.describe(ctx)
		switch {
		case done():
			return nil
		case workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			return errRollover
		}
		sel := workflow.NewSelector(ctx)
		sel.AddReceive(c.reports, func(workflow.ReceiveChannel, bool) {})
		sel.AddReceive(c.loads, func(workflow.ReceiveChannel, bool) {})
		c.alarm.watch(ctx, sel, again)
		sel.Select(ctx)
		if now := workflow.Now(ctx); !now.Before(again) {
			again = now.Add(reportQuiet)
			tell(ctx)
		}
	}
}

func (c *crawl) shardsClosed() bool {
	return !slices.ContainsFunc(c.st.Shards, func(r contract.ShardReport) bool { return r.State != contract.ShardClosed })
}
