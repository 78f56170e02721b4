package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

func (c *crawl) startShard(ctx workflow.Context, i int, careful bool) workflow.Future {
	cctx := workflow.WithChildOptions(ctx, childOptions(ShardID(c.run.Crawl, i), fmt.Sprintf("shard %d", i)))
	return workflow.ExecuteChildWorkflow(cctx, ShardType, contract.ShardInput{
		Run: c.run, Shard: i, Parent: c.self, Control: c.control(i), Careful: careful,
	}).GetChildWorkflowExecution()
}

func (c *crawl) startLoads(ctx workflow.Context) workflow.Future {
	cctx := workflow.WithChildOptions(ctx, childOptions(LoadsID(c.run.Crawl), "loaders"))
	return workflow.ExecuteChildWorkflow(cctx, LoadsType, contract.LoadsInput{
		Run: c.run, Parent: c.self, Queue: c.st.LoadQueue, Paused: c.st.Paused,
	}).GetChildWorkflowExecution()
}

func (c *crawl) startChildren(ctx workflow.Context) error {
	var starts []workflow.Future
	for i := range c.run.Shards {
		starts = append(starts, c.startShard(ctx, i, c.careful))
	}
	if c.hasLoaders() {
		starts = append(starts, c.startLoads(ctx))
	}
	for _, f := range starts {
		if err := f.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *crawl) control(shard int) contract.ShardControl {
	return contract.ShardControl{
		Parent: c.self, Sequence: c.st.Control, Paused: c.st.Paused, Stop: c.phase == PhaseStop,
		Counted: c.outcome == contract.OutcomeCompleted,
		SpecAt:  c.run.SpecAt, Grant: c.budget.grants[shard].Grant,
	}
}

// tell sends the whole wish to some shards. A shard that has closed does not
// mind; one that is gone without a word, though it should close, counts as
// closed, so that a crawl can always be ended.
func (c *crawl) tell(ctx workflow.Context, shards ...int) {
	c.st.Control++
	var sent []workflow.Future
	for _, i := range shards {
		sent = append(sent, workflow.SignalExternalWorkflow(ctx, ShardID(c.run.Crawl, i), "", SigControl, c.control(i)))
	}
	var lost []int
	for n, f := range sent {
		if isGone(f.Get(ctx, nil)) && c.phase == PhaseStop {
			lost = append(lost, shards[n])
		}
	}
	if len(lost) == 0 {
		return // reports that came meanwhile wake the loop, so they stay where they are
	}
	c.receive() // one that has closed has said so before
	for _, i := range lost {
		if c.st.Shards[i].State != contract.ShardClosed {
			c.st.Shards[i].State = contract.ShardClosed
			c.st.Notes = append(c.st.Notes, fmt.Sprintf("shard %d was gone before it could be told to stop; its totals may be old", i))
		}
	}
}

func isGone(err error) bool {
	var gone *temporal.UnknownExternalWorkflowExecutionError
	return errors.As(err, &gone)
}

func (c *crawl) tellAll(ctx workflow.Context) { c.tell(ctx, c.all()...) }

func (c *crawl) all() []int {
	all := make([]int, c.run.Shards)
	for i := range all {
		all[i] = i
	}
	return all
}

func (c *crawl) tellLoads(ctx workflow.Context) {
	if !c.hasLoaders() {
		return
	}
	c.st.Control++
	err := workflow.SignalExternalWorkflow(ctx, LoadsID(c.run.Crawl), "", SigControl, contract.LoadsControl{
		Parent: c.self, Sequence: c.st.Control, Paused: c.st.Paused, Drain: c.st.Ends != nil, Ends: c.st.Ends,
	}).Get(ctx, nil)
	if !isGone(err) || c.phase != PhaseDrain {
		return
	}
	c.receive() // loaders that have closed have said so before
	if !c.st.Loads.Closed {
		c.st.Loads.Closed = true
		c.st.Notes = append(c.st.Notes, "the loaders were gone before they reached the ends of the pages; what the ledger lacks is not loaded")
	}
}

// revive starts a shard again that was silent for long and is gone: somebody
// cancelled or terminated it. Its successor begins careful.
func (c *crawl) revive(ctx workflow.Context) {
	now := workflow.Now(ctx)
	for i := range c.heard {
		if c.heard[i].IsZero() {
			c.heard[i] = now
		}
		if now.Sub(c.heard[i]) < silence {
			continue
		}
		c.heard[i] = now
		c.st.Control++
		err := workflow.SignalExternalWorkflow(ctx, ShardID(c.run.Crawl, i), "", SigControl, c.control(i)).Get(ctx, nil)
		if !isGone(err) {
			continue
		}
		c.st.Notes = append(c.st.Notes, fmt.Sprintf("shard %d was gone; it was started again", i))
		c.st.Shards[i] = contract.ShardReport{Shard: i, State: contract.ShardBusy, Totals: c.st.Shards[i].Totals}
		_ = c.startShard(ctx, i, true).Get(ctx, nil) // if it failed: tried again after the next silence
	}
}
