package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/spec"
)

// lookEvery is how often Partitions asks while it waits.
const lookEvery = 15 * time.Second

// Partitions finds the partitions of a load's sources that are not known yet.
// The first time it also makes the errors topic and answers at once; later it
// waits for news. Trouble with Kafka is an answer, so that people see it.
func (a *Activities) Partitions(ctx context.Context, in contract.PartitionsInput) (contract.PartitionsResult, error) {
	defer beat(ctx, loadBeat)()
	none := contract.PartitionsResult{Known: in.Known, Missing: in.Missing}
	l, err := a.loadOf(in.Load)
	if err != nil {
		return none, err
	}
	ctx, stop := untilStopped(ctx)
	defer stop()
	if in.Known == nil {
		r, err := a.firstLook(ctx, l, in)
		if err == nil || ctx.Err() != nil || isFinal(err) {
			return r, err
		}
		class, why := ingest.Classify(ingest.Extract, err)
		none.Trouble = contract.RetryState{State: ingest.Extract.String(), Class: int(class), Attempts: 1, Error: fmt.Sprintf("%s (%s)", err, why)}
		return none, nil
	}
	over := time.After(in.Wait)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		// An outage is shown by the loaders; here it only means no news.
		if r, err := a.look(ctx, l, in); err == nil && (len(r.Parts) > 0 || !slices.Equal(r.Missing, in.Missing)) {
			return r, nil
		}
		select {
		case <-tick.C:
		case <-over:
			return none, nil
		case <-ctx.Done():
			return none, nil
		}
	}
}

// isFinal: an error that trying again does not change.
func isFinal(err error) bool {
	e, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && e.NonRetryable()
}

// firstLook makes what a load needs, and looks.
func (a *Activities) firstLook(ctx context.Context, l *loading, in contract.PartitionsInput) (contract.PartitionsResult, error) {
	var r contract.PartitionsResult
	topic := a.loadErrorsTopic(l.spec.Name)
	for i := range l.spec.Sources {
		if l.spec.Sources[i].Topic == topic {
			return r, temporal.NewNonRetryableApplicationError(fmt.Sprintf("sources[%d].topic: %s is the load's own errors topic: use starter errors redrive", i, topic), a.BadSpec, nil)
		}
	}
	err := a.Log.EnsureTopics(ctx, []kafkalog.TopicSpec{{
		Name: topic, Partitions: loadErrors, Replication: a.Replication, Config: map[string]string{
			"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
			"message.timestamp.type": "LogAppendTime", "max.message.bytes": strconv.Itoa(int(l.spec.Limits.Record) + (1 << 20)),
		},
	}})
	if errors.Is(err, kafkalog.ErrShape) {
		return r, temporal.NewNonRetryableApplicationError(err.Error(), a.BadTopics, err)
	}
	if err != nil {
		return r, err
	}
	queue, err := a.queueOf(ctx, l.spec.Sink.Kind, contract.LoadRun(l.spec.Name).QueueGroup(a.Prefix), topic)
	if err != nil {
		return r, err
	}
	r, err = a.look(ctx, l, in)
	r.Queue = queue
	return r, err
}

// look asks for every source once.
func (a *Activities) look(ctx context.Context, l *loading, in contract.PartitionsInput) (contract.PartitionsResult, error) {
	r := contract.PartitionsResult{Known: make([]int, len(l.spec.Sources)), Fixed: true}
	copy(r.Known, in.Known)
	for i := range l.spec.Sources {
		s := &l.spec.Sources[i]
		parts, err := a.news(ctx, i, s, r.Known[i])
		switch kafkalog.KindOf(err) {
		case kafkalog.KindTopic, kafkalog.KindPartition:
			if r.Known[i] == 0 {
				r.Missing = append(r.Missing, "topic "+s.Topic)
				r.Fixed = false
			}
			err = nil
		}
		if err != nil {
			return r, err
		}
		r.Parts = append(r.Parts, parts...)
		r.Known[i] += len(parts)
		r.Fixed = r.Fixed && (s.Partitions != nil || s.Until == spec.UntilEnd)
	}
	return r, nil
}

// news are the partitions of a source beyond those known. What should end at
// the log end has all of its partitions from the beginning.
func (a *Activities) news(ctx context.Context, number int, s *spec.LoadSource, known int) (parts []contract.LoadPart, err error) {
	list := s.Partitions
	if known > 0 && (list != nil || s.Until == spec.UntilEnd) {
		return nil, nil
	}
	if list == nil {
		n, err := a.Log.Partitions(ctx, s.Topic)
		if err != nil {
			return nil, err
		}
		for p := known; p < n; p++ {
			list = append(list, p)
		}
	}
	at, _, err := s.UntilTime()
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		part := contract.LoadPart{Source: number, Topic: s.Topic, Partition: p, Until: -1, UntilTime: at}
		if s.Until == spec.UntilEnd {
			if _, part.Until, err = a.Log.Bounds(ctx, s.Topic, p); err != nil {
				return nil, err
			}
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// Locate finds the offsets at which records of a time begin.
func (a *Activities) Locate(ctx context.Context, in contract.LocateInput) (contract.LocateResult, error) {
	defer beat(ctx, loadBeat)()
	var r contract.LocateResult
	for _, p := range in.Parts {
		topic := p.Topic
		if topic == "" {
			topic = in.Run.Topic(a.Prefix, contract.TopicPages)
		}
		at, err := a.Log.OffsetAt(ctx, topic, p.Partition, in.Time)
		if err != nil {
			return r, err
		}
		r.Offsets = append(r.Offsets, at)
		activity.RecordHeartbeat(ctx)
	}
	return r, nil
}
