package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// shardRules of a ShardWorkflow, by workflow.GetVersion: histories of earlier ones
// replay by theirs. 1: slots that come free while batches are open wait for others
// that do, slots cool for the rest of a delay, an idle shard does not fold again
// after a census.
const (
	shardRules     = 1
	shardRulesName = "shard rules"
)

// loadRules of a LoadWorkflow, likewise. 1: orders that no slice has copied to the
// group are, before the loader ends.
const (
	loadRules     = 1
	loadRulesName = "load rules"
)

// Every time-out and retry policy of the platform, named by intent.
const (
	// FetchHeartbeat: a Fetch that was silent for so long is lost. The Fetch
	// itself sends nothing once its last acknowledged beat is older than half of
	// it, so a successor may begin half of it after the time-out at the latest.
	FetchHeartbeat = 20 * time.Second
	// CarefulCooling is what slots of a lost Fetch cool.
	CarefulCooling = FetchHeartbeat / 2
	// fetchGrace is what running requests and the last flush may take after the
	// time box.
	fetchGrace = 3 * time.Minute
	// fetchQueued: no worker took the Fetch.
	fetchQueued = time.Minute

	expandHeartbeat = 15 * time.Second
	expandQueued    = 10 * time.Second
	expandTotal     = 15 * time.Minute // a fold of the whole log at a cold start

	reportSoon  = 2 * time.Second  // the first reports of a shard, while a batch is open
	reportsSoon = 20               // how many of them
	reportOpen  = 10 * time.Second // later reports while a batch is open
	reportQuiet = time.Minute      // else
	silence     = 3 * reportQuiet  // of a shard, after which it is looked for
	askAgain    = 2 * time.Second  // Expand, when nothing else asks for it
	askSpacing  = 200 * time.Millisecond
	// askGather is between two Expands while batches are open, so that what several
	// of them give back is dealt together.
	askGather = 500 * time.Millisecond
	// askDry is for an Expand that may wait inside: where much is going on a batch
	// closes before that, and it is not wanted.
	askDry     = 500 * time.Millisecond
	waitForDue = 10 * time.Second // inside of Expand, while batches are open and nothing is to be dealt
	// holdMost is how long a Fetch may wait for a slot that still cools.
	holdMost   = 10 * time.Second
	minBackoff = time.Second
	maxBackoff = time.Minute

	censusRepeat = 2 * time.Second

	loadHeartbeat = 30 * time.Second
	loadSlice     = 30 * time.Second
	loadGrace     = 2 * time.Minute
	loadIdleMin   = 500 * time.Millisecond
	loadIdleMax   = 20 * time.Second

	loadSliceSoon = 5 * time.Second // the first slices of a load, so that it is seen to move
	loadSlicesAre = 3               // how many of them

	watchFor       = 10 * time.Minute // one look-out for new partitions
	watchHeartbeat = 30 * time.Second
	stopPatience   = 3 * time.Minute // of a cancelled load with its loaders
	keepTotal      = time.Minute     // for the orders of a loader that ends, Kafka being away

	redriveSlice = 30 * time.Second // from when the errors topic has been read
	redriveTotal = 2 * time.Hour    // of a read of the whole errors topic, and a slice
)

var backoffPolicy = temporal.RetryPolicy{
	InitialInterval: minBackoff, BackoffCoefficient: 2, MaximumInterval: maxBackoff,
	NonRetryableErrorTypes: []string{ErrTypeBadSpec, ErrTypeTopics},
}

// sharedOptions suit short idempotent activities that any worker may do and
// that must happen in the end: Seed, Clear, Census, LogEnds.
func sharedOptions(summary string) workflow.ActivityOptions {
	p := backoffPolicy
	return workflow.ActivityOptions{
		TaskQueue: QueueMain, StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout: time.Minute, RetryPolicy: &p, Summary: summary,
	}
}

// finalizeOptions suit Finalize: shared, but it moves the alias of the index, so
// that the queue is that of Load. Runs of early builds have not kept it. (Replay
// compares id and type of an activity, not its queue.)
func finalizeOptions(loadQueue, summary string) workflow.ActivityOptions {
	o := sharedOptions(summary)
	if loadQueue != "" {
		o.TaskQueue = loadQueue
	}
	return o
}

// acquireOptions suit Acquire: refused by loaded workers, tried again soon.
func acquireOptions(summary string) workflow.ActivityOptions {
	p := backoffPolicy
	p.MaximumInterval = time.Second
	return workflow.ActivityOptions{
		TaskQueue: QueueAcquire, StartToCloseTimeout: 10 * time.Second, RetryPolicy: &p, Summary: summary,
	}
}

// expandOptions suit Expand on the queue of the shard's owner: one attempt,
// because a failure means that another worker shall own the shard.
func expandOptions(queue, summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: queue, ScheduleToStartTimeout: expandQueued, StartToCloseTimeout: expandTotal,
		HeartbeatTimeout: expandHeartbeat, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}, Summary: summary,
	}
}

// fetchOptions suit Fetch: one attempt, because the batch is dealt again by the
// fold; cancellation waits for the drain.
func fetchOptions(box time.Duration, summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: QueueMain, ScheduleToStartTimeout: fetchQueued, StartToCloseTimeout: box + fetchGrace,
		HeartbeatTimeout: FetchHeartbeat, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}, Summary: summary,
	}
}

// watchOptions suit Partitions, which looks out for so long.
func watchOptions(wait time.Duration, summary string) workflow.ActivityOptions {
	o := sharedOptions(summary)
	o.StartToCloseTimeout, o.HeartbeatTimeout = wait+2*time.Minute, watchHeartbeat
	return o
}

// loadOptions suit Load: retried for ever; the slice is bounded.
func loadOptions(queue, summary string) workflow.ActivityOptions {
	p := backoffPolicy
	return workflow.ActivityOptions{
		TaskQueue: queue, StartToCloseTimeout: loadSlice + loadGrace, HeartbeatTimeout: loadHeartbeat,
		WaitForCancellation: true, RetryPolicy: &p, Summary: summary,
	}
}

// keepOptions suit the Load that only keeps orders: a loader ends without it, too.
func keepOptions(queue, summary string) workflow.ActivityOptions {
	o := loadOptions(queue, summary)
	o.ScheduleToCloseTimeout = keepTotal
	return o
}

// redrivePlanOptions suit RedrivePlan: it reads all of an errors topic.
func redrivePlanOptions(summary string) workflow.ActivityOptions {
	o := sharedOptions(summary)
	o.StartToCloseTimeout = redriveTotal
	return o
}

// redriveOptions suit Redrive: retried for ever; the slice is bounded, what it
// reads first is not.
func redriveOptions(queue, summary string) workflow.ActivityOptions {
	o := loadOptions(queue, summary)
	o.StartToCloseTimeout = redriveTotal
	return o
}
