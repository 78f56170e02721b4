package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"trawl/activities"
	"trawl/workflows"
)

// stopTimeout is what a drain may take: running requests, a flush, the answer.
const stopTimeout = 60 * time.Second

// work registers everything on its queue, runs until ctx ends, and drains.
func work(ctx context.Context, tc client.Client, acts *activities.Activities, own, data string, h *health, log *slog.Logger) error {
	expands := ownWorker(tc, acts, own)
	all := []worker.Worker{
		sharedWorker(tc, acts),
		acquireWorker(tc, acts),
		dataWorker(tc, acts, data),
		expands,
	}
	for i, w := range all {
		if err := w.Start(); err != nil {
			for _, started := range all[:i] {
				started.Stop()
			}
			return fmt.Errorf("start polling: %w", err)
		}
	}
	h.ready.Store(true)
	log.Info("working", "queue", own, "data_queue", data, "version", version)
	<-ctx.Done()
	h.ready.Store(false)
	log.Info("draining: requests in flight finish; a second signal exits at once", "at_most", stopTimeout.String())
	var wg sync.WaitGroup
	for _, w := range all[:len(all)-1] {
		wg.Go(w.Stop)
	}
	acts.Retire() // tells the shards to move, by answers on the queue of Expand
	expands.Stop()
	wg.Wait()
	log.Info("drained")
	return nil
}

func options() worker.Options {
	return worker.Options{
		WorkerStopTimeout: stopTimeout,
		// Cancellation comes with the answer to a heartbeat.
		MaxHeartbeatThrottleInterval: 2 * time.Second,
		DeadlockDetectionTimeout:     10 * time.Second, // two busy cores
		DisableRegistrationAliasing:  true,
	}
}

func sharedWorker(tc client.Client, acts *activities.Activities) worker.Worker {
	o := options()
	o.MaxConcurrentActivityExecutionSize = 512
	// An activity that starts eagerly runs where the workflow took its last step:
	// few of them, or one worker has all the Fetches and the others none.
	o.MaxConcurrentEagerActivityExecutionSize = 2
	w := worker.New(tc, workflows.QueueMain, o)
	for name, f := range map[string]any{
		workflows.CrawlType: workflows.CrawlWorkflow, workflows.ShardType: workflows.ShardWorkflow,
		workflows.LoadsType: workflows.LoadsWorkflow, workflows.LoadType: workflows.LoadWorkflow,
		workflows.RedriveType: workflows.RedriveWorkflow,
	} {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	register(w, map[string]any{
		workflows.ActSeed: acts.Seed, workflows.ActClear: acts.Clear, workflows.ActFetch: acts.Fetch,
		workflows.ActLoad: acts.Load, workflows.ActCensus: acts.Census, workflows.ActLogEnds: acts.LogEnds,
		workflows.ActPartitions: acts.Partitions, workflows.ActLocate: acts.Locate,
		workflows.ActFinalize: acts.Finalize, workflows.ActRedrivePlan: acts.RedrivePlan, workflows.ActRedrive: acts.Redrive,
	})
	return w
}

// acquireWorker polls a queue of its own, so that the pollers are the workers.
func acquireWorker(tc client.Client, acts *activities.Activities) worker.Worker {
	o := options()
	o.DisableWorkflowWorker, o.MaxConcurrentActivityExecutionSize, o.MaxConcurrentActivityTaskPollers = true, 1, 1
	w := worker.New(tc, workflows.QueueAcquire, o)
	register(w, map[string]any{workflows.ActAcquire: acts.Acquire})
	return w
}

func ownWorker(tc client.Client, acts *activities.Activities, queue string) worker.Worker {
	o := options()
	o.DisableWorkflowWorker = true
	w := worker.New(tc, queue, o)
	register(w, map[string]any{workflows.ActExpand: acts.Expand})
	return w
}

func dataWorker(tc client.Client, acts *activities.Activities, queue string) worker.Worker {
	o := options()
	o.DisableWorkflowWorker = true
	w := worker.New(tc, queue, o)
	register(w, map[string]any{
		workflows.ActLoad: acts.Load, workflows.ActRedrive: acts.Redrive, workflows.ActFinalize: acts.Finalize,
	})
	return w
}
