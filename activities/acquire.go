package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"trawl/internal/contract"
)

// liveFor: a poller that asked for work within this time is alive. A long poll
// lasts a minute.
const liveFor = 70 * time.Second

// patience is how many refusals a shard meets before any worker takes it: a
// worker that died is still counted as alive for a minute.
const patience = 4

// Acquire takes a shard, or refuses while another live worker must hold fewer:
// with w workers and s shards, one that holds ceil(s/w) already is not the
// least loaded.
func (a *Activities) Acquire(ctx context.Context, in contract.AcquireInput) (contract.AcquireResult, error) {
	if a.retire.is() {
		return contract.AcquireResult{}, errors.New("this worker is about to end: another shall take the shard")
	}
	held := a.shards.held(in.Run, in.Shard)
	share := ceilDiv(in.Run.Shards, a.workers.count(ctx, a.Temporal, a.AcquireOn))
	if held >= share && activity.GetInfo(ctx).Attempt <= patience {
		return contract.AcquireResult{}, fmt.Errorf("this worker holds %d of %d shards: another shall take shard %d", held, in.Run.Shards, in.Shard)
	}
	a.shards.promise(in.Run, in.Shard)
	return contract.AcquireResult{Queue: a.Queue}, nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// liveWorkers counts the processes that poll the acquire queue.
type liveWorkers struct {
	mu   sync.Mutex
	at   time.Time
	last int
}

// count is at least 1; it asks the server at most every few seconds.
func (l *liveWorkers) count(ctx context.Context, c client.Client, queue string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < 3*time.Second {
		return l.last
	}
	cctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	l.at, l.last = time.Now(), max(l.last, 1)
	d, err := c.DescribeTaskQueue(cctx, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return l.last
	}
	live := map[string]bool{}
	for _, p := range d.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < liveFor {
			live[p.GetIdentity()] = true
		}
	}
	l.last = max(len(live), 1)
	return l.last
}

// Clear closes children left over from an earlier run: cancel, wait 30 s,
// terminate.
func (a *Activities) Clear(ctx context.Context, in contract.ClearInput) (contract.ClearResult, error) {
	defer beat(ctx, 5*time.Second)()
	var wg sync.WaitGroup
	errs := make([]error, len(in.WorkflowIDs))
	var closed atomic.Int64
	limit := make(chan struct{}, 8)
	for i, id := range in.WorkflowIDs {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			var open bool
			if open, errs[i] = a.closeWorkflow(ctx, id); open {
				closed.Add(1)
			}
		})
	}
	wg.Wait()
	return contract.ClearResult{Closed: int(closed.Load())}, errors.Join(errs...)
}

// closeWorkflow says whether it was open.
func (a *Activities) closeWorkflow(ctx context.Context, id string) (open bool, err error) {
	d, err := a.Temporal.DescribeWorkflowExecution(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false, nil
	}
	run := d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	if err := a.Temporal.CancelWorkflow(ctx, id, run); err != nil && !errors.As(err, &missing) {
		return true, err
	}
	wctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_ = a.Temporal.GetWorkflow(wctx, id, run).Get(wctx, nil)
	if wctx.Err() == nil {
		return true, nil
	}
	if err := a.Temporal.TerminateWorkflow(ctx, id, "", "left over from an earlier run of the crawl"); err != nil && !errors.As(err, &missing) {
		return true, err
	}
	return true, ctx.Err()
}
