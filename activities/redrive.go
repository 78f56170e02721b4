package activities

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/redrive"
	"trawl/internal/sink"
)

const (
	// maxCounted is how many records of an errors topic are read beforehand to
	// tell how much there is to do.
	maxCounted = 2_000_000
	// maxRedriveBatch bounds the documents of one write, and so what a redrive
	// does once more after a crash.
	maxRedriveBatch = 500
	maxIndexes      = 2
)

// indexCache keeps what is known of errors topics between the slices of a
// redrive. It is only a cache: any worker can read the topic again.
type indexCache struct {
	mu sync.Mutex
	m  map[string]*redrive.Index
}

// take removes the index of a redrive's partition, because two attempts of an
// activity may run at once.
func (c *indexCache) take(key string, in contract.RedriveSliceInput) *redrive.Index {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.m[key]
	delete(c.m, key)
	if x != nil {
		if from, to := x.Window(); in.Position >= from && in.Position < to {
			return x
		}
	}
	return redrive.NewIndex(in.Position, in.End, in.Redrive)
}

func (c *indexCache) put(key string, x *redrive.Index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxIndexes {
		c.m = map[string]*redrive.Index{}
	}
	c.m[key] = x
}

// redriveTarget is where the documents of a redrive go, and how they are made:
// as the loader does it.
type redriveTarget struct {
	to        sink.Sink
	release   func()
	transform redrive.TransformFunc
	limit     time.Duration // of one transform
	maxRecord int
	index     string
}

func (a *Activities) redriveTarget(ctx context.Context, run contract.Run) (*redriveTarget, error) {
	s, err := a.specOf(ctx, run)
	if err != nil {
		return nil, err
	}
	ops, err := pageOps(s.Document.Fields)
	if err != nil {
		return nil, err
	}
	to, err := a.openIndex(ctx, run, s)
	if err != nil {
		return nil, err
	}
	return &redriveTarget{
		to: to, release: func() { a.sinks.put(to) }, maxRecord: int(s.Limits.PageSize) + (1 << 20), index: run.Index(s.Sink.Index),
		transform: func(rec *kafkalog.Record, _ string, _ int) (sink.Op, bool, error) { return ops(rec) },
	}, nil
}

// RedrivePlan finds the bounds of a redrive and, where that is not too much to
// read, how many failures it will take.
func (a *Activities) RedrivePlan(ctx context.Context, in contract.RedrivePlanInput) (contract.RedrivePlan, error) {
	var plan contract.RedrivePlan
	defer beat(ctx, loadBeat)()
	var err error
	if plan.Topic, plan.Queue, err = a.redriveFrom(ctx, in); err != nil {
		return plan, err
	}
	topics, err := a.Log.Topics(ctx, plan.Topic)
	if err != nil {
		return plan, err
	}
	partitions := topics[plan.Topic]
	if partitions == 0 {
		return plan, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("there is no topic %s: nothing of %s ever failed, or it was deleted", plan.Topic, in.Name), a.BadTopics, nil)
	}
	var records int64
	for p := range partitions {
		first, end, err := a.Log.Bounds(ctx, plan.Topic, p)
		if err != nil {
			return plan, err
		}
		plan.Starts, plan.Ends = append(plan.Starts, first), append(plan.Ends, end)
		records += end - first
	}
	if records > maxCounted {
		plan.Selected = -1
		return plan, nil
	}
	err = redrive.Each(ctx, a.Log, plan.Topic, partitions, func(e redrive.Entry) error {
		if e.Status != redrive.Open || e.At.Offset >= plan.Ends[e.At.Partition] || !redrive.Takes(in.Select, &e.Failure) {
			return nil
		}
		plan.Selected++
		if redrive.Refused(in.Select, &e.Failure) {
			plan.Refused++
		}
		return nil
	})
	return plan, err
}

// redriveFrom names the errors topic and the queue of the workers that can
// write the sink.
func (a *Activities) redriveFrom(ctx context.Context, in contract.RedrivePlanInput) (topic, queue string, err error) {
	s, err := a.specOf(ctx, in.Run)
	if err != nil {
		return "", "", err
	}
	queue, err = a.loadQueue(ctx, in.Run, s)
	return in.Run.Topic(a.Prefix, contract.TopicErrors), queue, err
}

// Redrive sends failures of one partition of an errors topic through the
// loader's machine for a time-boxed slice. It may be done twice from the same
// position: what an earlier attempt stated counts, and is not done again.
func (a *Activities) Redrive(ctx context.Context, in contract.RedriveSliceInput) (contract.RedriveSlice, error) {
	var machine atomic.Pointer[ingest.Machine]
	defer beatWith(ctx, loadBeat, func() any {
		if m := machine.Load(); m != nil {
			return m.Progress()
		}
		return nil
	})()
	sctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with the slice
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			stop()
		case <-done:
		}
	}()
	res := contract.RedriveSlice{Position: in.Position, State: ingest.Extract.String(), Retry: in.Retry}
	target, err := a.redriveTarget(sctx, in.Run)
	if err != nil {
		return res, err
	}
	defer target.release()
	key := fmt.Sprintf("%s/%s/%d", in.Redrive, in.Topic, in.Partition)
	x := a.redrives.take(key, in)
	if err := x.Extend(sctx, a.Log, in.Topic, in.Partition); err != nil {
		if sctx.Err() != nil {
			return res, nil // drained before it began
		}
		return res, err
	}
	defer a.redrives.put(key, x)
	src := redrive.New(redrive.Config{
		Log: a.Log, Topic: in.Topic, Partition: in.Partition, Index: x, Select: in.Select,
		Redrive: in.Redrive, Rate: in.Rate, Transform: target.transform,
	})
	m, err := ingest.New(ingest.Config{
		Topic: in.Topic, Partition: in.Partition, Crawl: in.Name, Target: target.index, Policy: ingest.FromEarliest,
		BatchCount: maxRedriveBatch, MaxRecord: target.maxRecord, TransformLimit: target.limit, Now: clock(ctx),
		Restate: src.Restate, Progress: func(p ingest.Progress) { src.Forget(p.Position) },
	}, src, src.Transform, target.to, source{a.Log, in.Topic, in.Partition})
	if err != nil {
		return res, err
	}
	machine.Store(m)
	_, to := x.Window()
	r, err := m.Slice(sctx, contract.LoadInput{
		Run: in.Run, Partition: in.Partition, Position: in.Position, TimeBox: in.TimeBox, IdleWait: in.TimeBox, Until: to, Retry: in.Retry,
	})
	if err != nil {
		return res, err
	}
	res.Position, res.State, res.Retry = r.Position, r.State, r.Retry
	res.Counts = src.Counts(r.Ledger, in.Position, r.Position)
	return res, nil
}
