package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.temporal.io/sdk/temporal"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform"
)

const (
	// loadErrors is the number of partitions of a load's errors topic: loaders
	// share them by their number.
	loadErrors = 4
	// exprLimit bounds one record of a source with expressions.
	exprLimit = 10 * time.Second
	maxLoads  = 64 // decoded specs that are kept
)

// loading is a load spec as a worker needs it.
type loading struct {
	spec *spec.LoadSpec
	ops  []transform.Func // by source
}

// loadingCache holds decoded loads by the hash of their JSON.
type loadingCache struct {
	mu sync.Mutex
	m  map[uint64]*loading
}

// loadOf decodes a load spec. Its error is never retried.
func (a *Activities) loadOf(raw json.RawMessage) (*loading, error) {
	key := xxhash.Sum64(raw)
	a.loads.mu.Lock()
	l := a.loads.m[key]
	a.loads.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l, err := newLoading(raw)
	if err != nil {
		return nil, temporal.NewNonRetryableApplicationError("the load's spec is not readable: "+err.Error(), a.BadSpec, err)
	}
	a.loads.mu.Lock()
	defer a.loads.mu.Unlock()
	if a.loads.m == nil || len(a.loads.m) >= maxLoads {
		a.loads.m = map[uint64]*loading{}
	}
	a.loads.m[key] = l
	return l, nil
}

func newLoading(raw json.RawMessage) (*loading, error) {
	s, err := spec.DecodeLoad(raw)
	if err != nil {
		return nil, err
	}
	l := &loading{spec: s}
	for i := range s.Sources {
		f, err := transform.New(s.Sources[i])
		if err != nil {
			return nil, fmt.Errorf("sources[%d]: %w", i, err)
		}
		if s.Sink.DataStream {
			f = transform.DataStream(f)
		}
		l.ops = append(l.ops, f)
	}
	return l, nil
}

// source of a load by its index.
func (l *loading) source(i int) (*spec.LoadSource, error) {
	if i < 0 || i >= len(l.spec.Sources) {
		return nil, fmt.Errorf("source %d: the load has %d", i, len(l.spec.Sources))
	}
	return &l.spec.Sources[i], nil
}

// transformLimit: expressions are written by people, the rest is ours.
func transformLimit(s *spec.LoadSource) time.Duration {
	if s.Where != "" || slices.ContainsFunc(s.Fields, func(op spec.FieldOp) bool { return op.Expr != nil }) {
		return exprLimit
	}
	return 0
}

// openTarget opens where a load's documents go, making it if it is not there. A
// loader that begins asks for a fresh one: the target may have been deleted since
// an earlier run.
func (a *Activities) openTarget(ctx context.Context, s *spec.LoadSpec, fresh bool) (*openSink, error) {
	t := sink.Target{Name: s.Sink.Index, DataStream: s.Sink.DataStream, Pipeline: s.Sink.Pipeline, Template: s.Sink.Template}
	key := fmt.Sprintf("%s/load/%s/%v/%s/%x", s.Sink.Kind, t.Name, t.DataStream, t.Pipeline, xxhash.Sum64(t.Template))
	if fresh {
		a.sinks.retire(key)
	}
	return a.share(ctx, key, func(ctx context.Context) (sink.Sink, error) {
		admin, err := a.Sink(s.Sink.Kind)
		if err != nil {
			return nil, err
		}
		targets, ok := admin.(sink.Targets)
		if !ok {
			return nil, fmt.Errorf("sink.kind %s: it has no targets for loads", s.Sink.Kind)
		}
		if err := targets.PrepareTarget(ctx, t); err != nil {
			return nil, err
		}
		return targets.OpenTarget(ctx, t)
	})
}

// loadJob is one slice of a loader of `starter load`.
func (a *Activities) loadJob(in contract.LoadInput) (*job, error) {
	l, err := a.loadOf(in.Load)
	if err != nil {
		return nil, err
	}
	s, err := l.source(in.Source)
	if err != nil {
		return nil, temporal.NewNonRetryableApplicationError(err.Error(), a.BadSpec, err)
	}
	limits, from := l.spec.Limits, source{a.Log, in.Topic, in.Partition}
	ops := l.ops[in.Source]
	j := &job{
		config: ingest.Config{
			Topic: in.Topic, Partition: in.Partition, Crawl: l.spec.Name, Target: l.spec.Sink.Index,
			Policy: ingest.FromEarliest, Settle: true, TransformLimit: transformLimit(s),
			MaxRecord: int(limits.Record), BatchBytes: int(limits.BatchBytes), BatchCount: limits.BatchCount, BatchAge: limits.BatchAge.Std(),
		},
		source: from, group: a.loadGroup(l.spec.Name), home: a.homeOf(l.spec.Sink.Kind, contract.LoadRun(l.spec.Name), contract.TopicErrors),
		transform: func(rec *kafkalog.Record) (sink.Op, bool, error) { return ops(rec, in.Topic, in.Partition) },
		errors:    source{a.Log, a.loadErrorsTopic(l.spec.Name), in.Loader % loadErrors},
		open:      func(ctx context.Context) (*openSink, error) { return a.openTarget(ctx, l.spec, in.Position < 0) },
		begin:     func(ctx context.Context) (int64, error) { return begin(ctx, a.Log, from, s.Start) },
	}
	if l.spec.Read == spec.ReadUncommitted {
		j.source = dirty{from}
	}
	if in.Batching.Bytes > 0 {
		j.config.BatchBytes = int(in.Batching.Bytes)
	}
	if in.Batching.Count > 0 {
		j.config.BatchCount = in.Batching.Count
	}
	return j, nil
}

func (a *Activities) loadGroup(name string) string { return contract.LoadRootGroup(a.Prefix, name) }

func (a *Activities) loadErrorsTopic(name string) string {
	return contract.LoadRun(name).Topic(a.Prefix, contract.TopicErrors)
}

// dirty is a source that gives records of aborted transactions, too.
type dirty struct{ source }

func (d dirty) Read(ctx context.Context, from int64, maxBytes int, maxWait time.Duration, fn func(kafkalog.Record) error) (int64, int64, error) {
	return d.log.ReadUncommitted(ctx, d.topic, d.partition, from, maxBytes, maxWait, fn)
}

// begin is where a partition begins that has no position.
func begin(ctx context.Context, log *kafkalog.Log, from source, start spec.LoadStart) (int64, error) {
	switch start.At {
	case spec.StartOffset:
		return start.Offset, nil
	case spec.StartTime:
		return log.OffsetAt(ctx, from.topic, from.partition, start.Time)
	}
	first, end, err := from.Bounds(ctx)
	if start.At == spec.StartLatest {
		return end, err
	}
	return first, err
}
