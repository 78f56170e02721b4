package activities

import (
	"context"
	"sync"
	"time"
)

// retirement says that this worker is about to end, so that its shards move at
// once instead of waiting on a queue that nobody polls.
type retirement struct {
	once  sync.Once
	begun chan struct{}
}

func (r *retirement) is() bool {
	select {
	case <-r.begun:
		return true
	default:
		return false
	}
}

// within derives a context that ends when the retirement begins.
func (r *retirement) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-r.begun:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

const (
	// handBackQuiet is longer than a shard with something to do takes to ask
	// again; one that was silent for longer is paused, or its crawl has ended.
	handBackQuiet = 4 * time.Second
	// handBackMost bounds the wait for shards to ask.
	handBackMost = 10 * time.Second
	handBackPoll = 50 * time.Millisecond
)

// Retire makes Expand answer "move" and Acquire refuse, and waits until every
// shard that this worker holds has been told. The queue of Expand must be
// polled until it returns. It may be called twice.
func (a *Activities) Retire() {
	a.retire.once.Do(func() { close(a.retire.begun) })
	deadline := time.NewTimer(handBackMost)
	defer deadline.Stop()
	tick := time.NewTicker(handBackPoll)
	defer tick.Stop()
	for a.shards.asking(handBackQuiet) {
		select {
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}

// asking: a shard is in an Expand, or was within a time.
func (c *shardCache) asking(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.m {
		if time.Since(o.asked) < within || !o.mu.TryLock() {
			return true
		}
		o.mu.Unlock()
	}
	return false
}
