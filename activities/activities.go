// Package activities connects workflows with the domain: it decodes inputs,
// calls the packages that do the work, keeps the heartbeat, and encodes
// results. It refuses decisions of its own.
package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"trawl/internal/contract"
	"trawl/internal/fetch/batch"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/spec"
)

// Config is what a worker gives to its activities.
type Config struct {
	Temporal    client.Client
	Log         *kafkalog.Log
	Prefix      string // of topic names
	Replication int
	Queue       string // the worker's own queue, its name towards others
	AcquireOn   string // the queue on which live workers are counted
	DataQueue   string // Load to SQLite and to files
	SharedQueue string // Load to other sinks
	Scratch     string // folder for disposable files
	// Sink gives the admin of a kind of sink.
	Sink   func(kind string) (sink.Admin, error)
	Logger *slog.Logger
	// BadSpec and BadTopics are the error types that are never retried.
	BadSpec, BadTopics string
	// Released is the signal by which a Fetch gives slots back before its end.
	Released string
}

// Activities are the activities of one worker process.
type Activities struct {
	Config
	shards   shardCache
	specs    specCache
	plans    planCache
	sinks    sinkCache
	loads    loadingCache
	workers  liveWorkers
	retire   retirement
	redrives indexCache
	renewals renewals
	runner   *batch.Runner
}

// New makes the activities of a worker.
func New(c Config) *Activities {
	a := &Activities{Config: c, runner: batch.NewRunner(c.Log, batch.Options{})}
	a.shards.m = map[string]*ownedShard{}
	a.retire.begun = make(chan struct{})
	a.specs.m = map[string]*spec.Spec{}
	a.plans.m = map[string]*plan{}
	a.sinks.m = map[string]*openSink{}
	return a
}

// Close lets go of scratch files, idle connections and sinks.
func (a *Activities) Close() {
	a.shards.close()
	a.plans.close()
	a.sinks.close()
}

// clock is the Temporal server's clock: the started time of the activity plus
// the monotonic time since.
func clock(ctx context.Context) func() time.Time {
	started, t0 := activity.GetInfo(ctx).StartedTime, time.Now()
	return func() time.Time { return started.Add(time.Since(t0)) }
}

// beat heartbeats in its own goroutine until stop is called, because
// RecordHeartbeat can block for seconds.
func beat(ctx context.Context, every time.Duration) (stop func()) {
	return beatWith(ctx, every, func() any { return nil })
}

// beatWith heartbeats with details for whoever looks at the pending activity.
func beatWith(ctx context.Context, every time.Duration, details func() any) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			activity.RecordHeartbeat(ctx, details())
			select {
			case <-tick.C:
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// specCache holds decoded specs by generation and offset.
type specCache struct {
	mu sync.Mutex
	m  map[string]*spec.Spec
}

const maxSpecs = 64

// specOf reads the spec fact at its offset; if compaction took it, the last one.
func (a *Activities) specOf(ctx context.Context, run contract.Run) (*spec.Spec, error) {
	key := fmt.Sprintf("%s@%d", run.Key(0), run.SpecAt)
	a.specs.mu.Lock()
	s := a.specs.m[key]
	a.specs.mu.Unlock()
	if s != nil {
		return s, nil
	}
	raw, err := a.readSpec(ctx, run)
	if err != nil {
		return nil, err
	}
	if s, err = spec.Decode(raw); err != nil {
		return nil, temporal.NewNonRetryableApplicationError("the stored spec is not readable: "+err.Error(), a.BadSpec, err)
	}
	a.specs.mu.Lock()
	if len(a.specs.m) >= maxSpecs {
		clear(a.specs.m)
	}
	a.specs.m[key] = s
	a.specs.mu.Unlock()
	return s, nil
}

func (a *Activities) readSpec(ctx context.Context, run contract.Run) (json.RawMessage, error) {
	topic := run.Topic(a.Prefix, contract.TopicFrontier)
	rec, ok, err := a.Log.ReadAt(ctx, topic, 0, run.SpecAt)
	if err != nil {
		return nil, err
	}
	if ok {
		if f, err := frontier.Decode(rec.Key, rec.Value); err == nil {
			if s, is := f.(frontier.Spec); is {
				return s.JSON, nil
			}
		}
	}
	first, end, err := a.Log.Bounds(ctx, topic, 0)
	if err != nil {
		return nil, err
	}
	var last json.RawMessage
	_, err = a.Log.ReadRange(ctx, topic, 0, first, end, func(r kafkalog.Record) error {
		if f, err := frontier.Decode(r.Key, r.Value); err == nil {
			if s, is := f.(frontier.Spec); is {
				last = append(json.RawMessage(nil), s.JSON...)
			}
		}
		return nil
	})
	if err == nil && last == nil {
		err = errors.New("topic " + topic + " holds no spec")
	}
	return last, err
}
