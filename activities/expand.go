package activities

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/spec"
)

// shardIdleLimit: a state that nobody asked for in this time is dropped. The
// state is only a cache of the log.
const shardIdleLimit = 10 * time.Minute

// ownedShard is the folded state of one shard in this worker.
type ownedShard struct {
	mu        sync.Mutex // held by the Expand that folds or deals
	state     *frontier.State
	specAt    int64
	interrupt chan struct{} // closed when a later Expand wants the lock; guarded by the cache's lock
	asked     time.Time     // guarded by the cache's lock
}

// close gives back the scratch files of the state, unless an Expand holds it. One
// that still waits for the lock makes a state anew.
func (o *ownedShard) close() bool {
	if !o.mu.TryLock() {
		return false
	}
	defer o.mu.Unlock()
	if o.state != nil {
		o.state.Close()
		o.state = nil
	}
	return true
}

type shardCache struct {
	mu    sync.Mutex
	m     map[string]*ownedShard
	moved time.Time // when this worker last gave a shard away
}

// held counts the shards of a crawl that this worker was asked for lately,
// other than the given one.
func (c *shardCache) held(run contract.Run, except int) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for shard := range run.Shards {
		if o := c.m[run.Key(shard)]; o != nil && shard != except && time.Since(o.asked) < 2*time.Minute {
			n++
		}
	}
	return n
}

func (c *shardCache) promise(run contract.Run, shard int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entry(run.Key(shard))
}

func (c *shardCache) entry(key string) *ownedShard {
	o := c.m[key]
	if o == nil {
		o = &ownedShard{interrupt: make(chan struct{})}
		c.m[key] = o
	}
	o.asked = time.Now()
	return o
}

// take locks the shard for one Expand and interrupts an earlier one that waits.
// The answer's channel closes when a later Expand comes.
func (c *shardCache) take(run contract.Run, shard int) (*ownedShard, <-chan struct{}) {
	c.mu.Lock()
	c.drop()
	o := c.entry(run.Key(shard))
	close(o.interrupt)
	mine := make(chan struct{})
	o.interrupt = mine
	c.mu.Unlock()
	o.mu.Lock()
	return o, mine
}

// drop forgets states that were not asked for. Called with the lock held.
func (c *shardCache) drop() {
	for key, o := range c.m {
		if time.Since(o.asked) > shardIdleLimit && o.close() {
			delete(c.m, key)
		}
	}
}

func (c *shardCache) forget(run contract.Run, shard int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.m[run.Key(shard)]; o != nil {
		o.close()
		delete(c.m, run.Key(shard))
	}
	c.moved = time.Now()
}

func (c *shardCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, o := range c.m {
		o.close()
		delete(c.m, key)
	}
}

// Expand folds new facts into the shard's state and answers with a batch of due
// locators, or why there is none. It writes nothing and remembers nothing that
// it gave. A worker that is about to end answers "move".
func (a *Activities) Expand(ctx context.Context, in contract.ExpandInput) (contract.ExpandResult, error) {
	defer beat(ctx, 4*time.Second)()
	if in.FoldOnly {
		return a.expand(ctx, in)
	}
	ectx, stop := a.retire.within(ctx)
	defer stop()
	if !a.retire.is() && !a.givesAway(ctx, in) {
		res, err := a.expand(ectx, in)
		if !errors.Is(err, errMove) && (err == nil || !a.retire.is()) {
			return res, err
		}
	}
	a.shards.forget(in.Run, in.Shard)
	return contract.ExpandResult{Verdict: contract.VerdictMove}, nil
}

func (a *Activities) expand(ctx context.Context, in contract.ExpandInput) (contract.ExpandResult, error) {
	s, err := a.specOf(ctx, in.Run)
	if err != nil {
		return contract.ExpandResult{}, err
	}
	o, interrupted := a.shards.take(in.Run, in.Shard)
	defer o.mu.Unlock()
	if err := a.freshState(o, in, s); err != nil {
		return contract.ExpandResult{}, err
	}
	now := clock(ctx)
	end, lost, err := a.fold(ctx, o.state, in)
	if err != nil {
		return contract.ExpandResult{}, err
	}
	if in.MayWait && end <= in.WaitFrom && !lost {
		end, lost, err = a.waitForFacts(ctx, o.state, in, end, interrupted)
		if errors.Is(err, errLater) { // nobody waits for this answer any more
			return contract.ExpandResult{Verdict: contract.VerdictLater, End: end, Totals: o.state.Totals()}, nil
		}
		if err != nil {
			return contract.ExpandResult{}, err
		}
	}
	if in.FoldOnly {
		return contract.ExpandResult{Verdict: contract.VerdictLater, End: end, LostTail: lost, Totals: o.state.Totals()}, nil
	}
	return a.deal(ctx, o.state, in, now, end, lost, interrupted)
}

// errMove ends an Expand that waits while this worker came to hold too many
// shards: a shard that has enough to do asks seldom, and a new worker would
// wait for its share.
var errMove = errors.New("this worker holds too many shards")

const dealPoll = 200 * time.Millisecond

// deal chooses a batch. If there is none it waits, as long as the input allows,
// until something is due or new facts are there to be folded.
func (a *Activities) deal(ctx context.Context, st *frontier.State, in contract.ExpandInput, now func() time.Time, end int64, lost bool, interrupted <-chan struct{}) (contract.ExpandResult, error) {
	deadline := time.Now().Add(in.WaitFor)
	for {
		res := st.DealAll(now(), in)
		if err := st.Err(); err != nil {
			return contract.ExpandResult{}, err
		}
		res.End, res.LostTail = end, lost
		for moved := false; !moved; {
			if res.Verdict != contract.VerdictLater || time.Until(deadline) <= 0 {
				return res, nil
			}
			select {
			case <-interrupted: // nobody waits for this answer any more
				return res, nil
			case <-ctx.Done():
				return contract.ExpandResult{}, ctx.Err()
			case <-time.After(min(dealPoll, time.Until(deadline))):
			}
			next, gone, err := a.fold(ctx, st, in)
			if err != nil {
				return contract.ExpandResult{}, err
			}
			if !lost && !gone && a.givesAway(ctx, in) {
				return contract.ExpandResult{}, errMove
			}
			due := !res.NextDue.IsZero() && !now().Before(res.NextDue)
			moved = next != end || gone || due || time.Until(deadline) <= 0
			end, lost = next, lost || gone
		}
	}
}

// givesAway decides that this worker, which holds more than its share plus one
// and gave no shard away lately, gives this one.
func (a *Activities) givesAway(ctx context.Context, in contract.ExpandInput) bool {
	held := a.shards.held(in.Run, in.Shard) + 1
	if held <= 2 || held <= ceilDiv(in.Run.Shards, a.workers.count(ctx, a.Temporal, a.AcquireOn))+1 {
		return false
	}
	a.shards.mu.Lock()
	defer a.shards.mu.Unlock()
	if time.Since(a.shards.moved) <= 5*time.Second {
		return false
	}
	a.shards.moved = time.Now() // others that wait must not go at the same time
	return true
}

// freshState makes the state if there is none, or if the spec changed: limits
// and politeness are options of the fold.
func (a *Activities) freshState(o *ownedShard, in contract.ExpandInput, s *spec.Spec) error {
	if o.state != nil && o.specAt == in.Run.SpecAt {
		return nil
	}
	if o.state != nil {
		o.state.Close()
	}
	dir := filepath.Join(a.Scratch, in.Run.Key(in.Shard))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	o.state, o.specAt = frontier.New(frontier.Options{
		Shard: in.Shard, Shards: in.Run.Shards, Depth: s.Scope.Depth, Tries: s.Limits.Tries,
		HostErrors: s.Limits.HostErrors, PagesPerHost: s.Limits.PagesPerHost,
		Delay: s.Politeness.Delay.Std(), Parallelism: s.Politeness.Parallelism, ScratchDir: dir,
		IgnoreRobots: !s.Politeness.Robots, FirstSpec: in.Run.SpecAt == 0,
	}), in.Run.SpecAt
	return nil
}

// fold reads the log end first and folds at least to it. An end below what was
// folded is a lost tail: fold again from the start.
func (a *Activities) fold(ctx context.Context, st *frontier.State, in contract.ExpandInput) (end int64, lost bool, err error) {
	topic := in.Run.Topic(a.Prefix, contract.TopicFrontier)
	if end, err = a.Log.End(ctx, topic, in.Shard); err != nil {
		return 0, false, err
	}
	if end < st.Position() {
		st.Reset()
		lost = true
	}
	from := st.Position()
	if from >= end {
		return end, lost, nil
	}
	read := func() error {
		from, err = a.Log.ReadRange(ctx, topic, in.Shard, from, end, func(r kafkalog.Record) error {
			return st.Fold(r.Offset, r.Key, r.Value)
		})
		return err
	}
	if err = read(); kafkalog.KindOf(err) == kafkalog.KindOffset { // the log begins later
		var first int64
		why := err
		if first, _, err = a.Log.Bounds(ctx, topic, in.Shard); err == nil {
			if err = why; first > from {
				from = first
				err = read()
			}
		}
	}
	if err == nil {
		st.Skip(end) // compacted offsets at the tail
	}
	return end, lost, err
}

var errLater = errors.New("a later Expand came")

const (
	waitAtMost = 50 * time.Second
	waitPoll   = 250 * time.Millisecond
)

// waitForFacts waits inside for a longer log, so that an idle shard costs one
// activity a minute.
func (a *Activities) waitForFacts(ctx context.Context, st *frontier.State, in contract.ExpandInput, end int64, interrupted <-chan struct{}) (int64, bool, error) {
	deadline := time.NewTimer(waitAtMost)
	defer deadline.Stop()
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		select {
		case <-interrupted:
			return end, false, errLater
		case <-ctx.Done():
			return end, false, ctx.Err()
		case <-deadline.C:
			return end, false, nil
		case <-tick.C:
		}
		now, lost, err := a.fold(ctx, st, in)
		if err != nil || now != end || lost {
			return now, lost, err
		}
		if a.givesAway(ctx, in) {
			return now, false, errMove
		}
	}
}
