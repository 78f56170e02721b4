package activities

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"trawl/internal/contract"
	"trawl/internal/fetch"
	"trawl/internal/fetch/batch"
)

const (
	fetchBeat   = 3 * time.Second
	flushBefore = 10 * time.Second // before StartToClose: the last moment to flush
	maxPlans    = 32
	// defaultLease stands in for a heartbeat timeout that nobody set.
	defaultLease = 20 * time.Second
)

// plan is a compiled spec in use.
type plan struct {
	*batch.Plan
	users int
	stale bool
}

// planCache holds compiled specs by generation and spec offset; one that is in
// use is closed by its last user.
type planCache struct {
	mu sync.Mutex
	m  map[string]*plan
}

func (c *planCache) put(p *plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.users--
	if p.stale && p.users == 0 {
		p.Close()
	}
}

func (c *planCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retireAll()
}

func (c *planCache) retireAll() {
	for key, p := range c.m {
		delete(c.m, key)
		p.stale = true
		if p.users == 0 {
			p.Close()
		}
	}
}

// planOf compiles the spec, or takes the one in the cache.
func (a *Activities) planOf(ctx context.Context, run contract.Run) (*plan, error) {
	s, err := a.specOf(ctx, run)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%s@%d", run.Key(0), run.SpecAt)
	a.plans.mu.Lock()
	defer a.plans.mu.Unlock()
	p := a.plans.m[key]
	if p == nil {
		compiled, err := batch.NewPlan(s, fetch.Options{Dialed: a.runner.Dialed})
		if err != nil {
			return nil, err
		}
		if len(a.plans.m) >= maxPlans {
			a.plans.retireAll()
		}
		p = &plan{Plan: compiled}
		a.plans.m[key] = p
	}
	p.users++
	return p, nil
}

// clockSlack is how far the clocks of two Temporal servers may be apart without
// a host being asked too early.
const clockSlack = 50 * time.Millisecond

// hold takes from the waits of the batch what went by between the question of
// the shard and now, by the clock of the Temporal server.
func hold(in contract.FetchInput, now time.Time) {
	if in.HoldsAt.IsZero() {
		return
	}
	gone := max(0, now.Sub(in.HoldsAt)-clockSlack).Milliseconds()
	for i := range in.Batch.Hosts {
		h := &in.Batch.Hosts[i]
		h.HoldMS = max(0, h.HoldMS-gone)
	}
}

// Fetch requests one batch politely and states what it found. A failure of one
// URL is data; on drain or cancel it answers with what it did.
func (a *Activities) Fetch(ctx context.Context, in contract.FetchInput) (contract.FetchResult, error) {
	began, info := time.Now(), activity.GetInfo(ctx)
	now := clock(ctx)
	p, err := a.planOf(ctx, in.Run)
	if err != nil {
		return contract.FetchResult{}, err
	}
	defer a.plans.put(p)

	drain, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	hold(in, now())
	lease := cmp.Or(info.HeartbeatTimeout, defaultLease)
	f := newFence(lease, func(ctx context.Context) error {
		return a.Temporal.RecordActivityHeartbeat(ctx, info.TaskToken)
	}, stop)
	f.first(drain)
	var wg sync.WaitGroup
	beating, quiet := context.WithCancel(context.WithoutCancel(ctx))
	defer wg.Wait()
	defer quiet()
	wg.Go(func() { f.run(beating, fetchBeat) })
	wg.Go(func() {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			stop()
		case <-beating.Done():
		}
	})
	return a.runner.Run(drain, batch.Job{
		Run: in.Run, Shard: in.Shard, Plan: p.Plan, Batch: in.Batch, Gate: f,
		Frontier: in.Run.Topic(a.Prefix, contract.TopicFrontier), Pages: in.Run.Topic(a.Prefix, contract.TopicPages),
		Now: now, HardEnd: began.Add(info.StartToCloseTimeout - flushBefore),
		Release: func(ctx context.Context, r contract.Released) error {
			return a.Temporal.SignalWorkflow(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, a.Released, r)
		},
	})
}
