package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

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
	open      func(ctx context.Context) (*openSink, error)
	transform redrive.TransformFunc
	config    ingest.Config // limits and names
}

func (a *Activities) redriveTarget(ctx context.Context, in contract.RedriveSliceInput) (*redriveTarget, error) {
	if in.Load != nil {
		return a.redriveLoad(in)
	}
	s, err := a.specOf(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	ops, err := pageOps(s.Document.Fields)
	if err != nil {
		return nil, err
	}
	return &redriveTarget{
		open:      func(ctx context.Context) (*openSink, error) { return a.openIndex(ctx, in.Run, s) },
		transform: func(rec *kafkalog.Record, _ string, _ int) (sink.Op, bool, error) { return ops(rec) },
		config:    ingest.Config{Target: in.Run.Index(s.Sink.Index), MaxRecord: int(s.Limits.PageSize) + (1 << 20)},
	}, nil
}

func (a *Activities) redriveLoad(in contract.RedriveSliceInput) (*redriveTarget, error) {
	l, err := a.loadOf(in.Load)
	if err != nil {
		return nil, err
	}
	t := &redriveTarget{
		open: func(ctx context.Context) (*openSink, error) { return a.openTarget(ctx, l.spec, false) },
		config: ingest.Config{
			Target: l.spec.Sink.Index, MaxRecord: int(l.spec.Limits.Record), BatchBytes: int(l.spec.Limits.BatchBytes),
		},
	}
	for i := range l.spec.Sources {
		t.config.TransformLimit = max(t.config.TransformLimit, transformLimit(&l.spec.Sources[i]))
	}
	t.transform = func(rec *kafkalog.Record, topic string, partition int) (sink.Op, bool, error) {
		for i, s := range l.spec.Sources {
			if s.Topic == topic && (len(s.Partitions) == 0 || slices.Contains(s.Partitions, partition)) {
				return l.ops[i](rec, topic, partition)
			}
		}
		return sink.Op{}, false, fmt.Errorf("the load reads %s partition %d no more: discard it, or name the source in its spec", topic, partition)
	}
	return t, nil
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
		if !redrive.Pending(in.Select, e.Status) || e.At.Offset >= plan.Ends[e.At.Partition] || !redrive.Takes(in.Select, &e.Failure) {
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
	if in.Load != nil {
		l, err := a.loadOf(in.Load)
		if err != nil {
			return "", "", err
		}
		topic = a.loadErrorsTopic(l.spec.Name)
		queue, err = a.queueOf(ctx, l.spec.Sink.Kind, contract.LoadRun(l.spec.Name).QueueGroup(a.Prefix), topic)
		return topic, queue, err
	}
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
	sctx, stop := untilStopped(ctx)
	defer stop()
	res := contract.RedriveSlice{Position: in.Position, State: ingest.Extract.String(), Retry: in.Retry}
	target, err := a.redriveTarget(sctx, in)
	if err != nil {
		return res, err
	}
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
	var to *openSink
	defer func() {
		if to != nil {
			a.sinks.put(to)
		}
	}()
	c := target.config
	c.Topic, c.Partition, c.Crawl, c.Policy = in.Topic, in.Partition, in.Name, ingest.FromEarliest
	c.BatchCount, c.Now, c.Restate = maxRedriveBatch, clock(ctx), src.Restate
	c.Progress = func(p ingest.Progress) { src.Forget(p.Position) }
	c.Open = func(ctx context.Context, _ int64) (_ sink.Sink, at ingest.Beginning, err error) {
		if to == nil {
			if to, err = target.open(ctx); err != nil {
				to = nil
				return nil, at, err
			}
		}
		at.Position = -1
		return to.Sink, at, nil
	}
	m, err := ingest.New(c, src, src.Transform, nil, source{a.Log, in.Topic, in.Partition})
	if err != nil {
		return res, err
	}
	machine.Store(m)
	_, end := x.Window()
	r, err := m.Slice(sctx, contract.LoadInput{
		Run: in.Run, Partition: in.Partition, Position: in.Position, TimeBox: in.TimeBox, IdleWait: in.TimeBox, Until: end, Retry: in.Retry,
	})
	if err != nil {
		return res, err
	}
	res.Position, res.State, res.Retry = r.Position, r.State, r.Retry
	res.Counts = src.Counts(r.Ledger, in.Position, r.Position)
	return res, nil
}
