package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform"
)

// source is one partition of the topic, as activities have it.
type source struct {
	log       *kafkalog.Log
	topic     string
	partition int
}

func (s source) Read(ctx context.Context, from int64, maxBytes int, maxWait time.Duration, fn func(kafkalog.Record) error) (int64, int64, error) {
	return s.log.Read(ctx, s.topic, s.partition, from, maxBytes, maxWait, fn)
}

func (s source) Bounds(ctx context.Context) (int64, int64, error) {
	return s.log.Bounds(ctx, s.topic, s.partition)
}

// noErrors is an errors topic that nothing may reach.
type noErrors struct{}

func (noErrors) Append(context.Context, []kafkalog.Record) error {
	return errors.New("a record of the benchmark failed")
}

// machines runs the loader of every partition to its end.
func (b *bench) machines(ctx context.Context, to sink.Sink) (int, error) {
	counts, errs := make([]int64, len(b.ends)), make([]error, len(b.ends))
	var wg sync.WaitGroup
	for p := range b.ends {
		wg.Go(func() { counts[p], errs[p] = b.machine(ctx, p, to) })
	}
	wg.Wait()
	n := 0
	for _, c := range counts {
		n += int(c)
	}
	return n, errors.Join(errs...)
}

func (b *bench) machine(ctx context.Context, p int, to sink.Sink) (int64, error) {
	change, err := transform.New(spec.LoadSource{Topic: b.topic, Format: spec.FormatJSON, Version: spec.VersionOffset})
	if err != nil {
		return 0, err
	}
	ops := func(rec *kafkalog.Record) (sink.Op, bool, error) { return change(rec, b.topic, p) }
	m, err := ingest.New(ingest.Config{
		Topic: b.topic, Partition: p, Crawl: "bench", Target: "bench", Policy: ingest.FromZero,
		BatchBytes: b.cfg.BatchBytes, BatchCount: b.cfg.BatchCount,
	}, source{b.log, b.topic, p}, ops, to, noErrors{})
	if err != nil {
		return 0, err
	}
	var total contract.Ledger
	in := contract.LoadInput{Partition: p, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: b.ends[p]}
	for in.Position < b.ends[p] {
		r, err := m.Slice(ctx, in)
		if err != nil || r.Retry.Error != "" || ctx.Err() != nil {
			return 0, errors.Join(err, ctx.Err(), fmt.Errorf("partition %d stands at %d: %s", p, r.Position, r.Retry.Error))
		}
		in.Position, in.Retry = r.Position, r.Retry
		total = total.Add(r.Ledger)
	}
	return total.Loaded, nil
}
