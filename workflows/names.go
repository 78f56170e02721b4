// Package workflows owns the durable decisions of a crawl: CrawlWorkflow,
// ShardWorkflow, LoadsWorkflow and LoadWorkflow. It refuses I/O, clocks,
// randomness and clients: it imports the SDK and internal/contract only.
package workflows

import (
	"fmt"
	"strconv"
	"strings"
)

// Task queues.
const (
	QueueMain    = "trawl"         // workflows and shared activities
	QueueAcquire = "trawl-acquire" // Acquire only
	queueWorker  = "trawl-worker-" // + random per process: Expand
	queueData    = "trawl-data-"   // + id of the data directory: Load to SQLite and to files, Finalize
)

// WorkerQueue is the own queue of a worker process.
func WorkerQueue(random string) string { return queueWorker + random }

// DataQueue is the queue of every worker that has the data directory.
func DataQueue(id string) string { return queueData + id }

// DataID is the id of the data directory whose queue it is, if it is one.
func DataID(queue string) (string, bool) { return strings.CutPrefix(queue, queueData) }

// Workflow types.
const (
	CrawlType = "CrawlWorkflow"
	ShardType = "ShardWorkflow"
	LoadsType = "LoadsWorkflow"
	LoadType  = "LoadWorkflow"

	RedriveType = "RedriveWorkflow"
)

// CrawlID is the workflow id of a crawl.
func CrawlID(name string) string { return crawlPrefix + name }

// CrawlName is the crawl of a workflow id, if it is that of a CrawlWorkflow.
func CrawlName(id string) (string, bool) {
	name, ok := strings.CutPrefix(id, crawlPrefix)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

const crawlPrefix = "crawl/"

// ShardID is the workflow id of a shard.
func ShardID(name string, shard int) string { return fmt.Sprintf("crawl/%s/shard/%d", name, shard) }

// LoadsID is the workflow id of a crawl's loaders.
func LoadsID(name string) string { return fmt.Sprintf("crawl/%s/load", name) }

// LoadID is the workflow id of one loader of a crawl.
func LoadID(name string, partition int) string {
	return fmt.Sprintf("crawl/%s/load/%d", name, partition)
}

// RedriveID is the workflow id of the n-th redrive of a crawl or load.
func RedriveID(name string, n int) string { return RedrivePrefix(name) + strconv.Itoa(n) }

// RedrivePrefix begins the workflow ids of all redrives of a crawl or load.
func RedrivePrefix(name string) string { return "redrive/" + name + "/" }

// RedriveNumber is the n of a redrive's workflow id, if it is one of name.
func RedriveNumber(name, id string) (int, bool) {
	text, ok := strings.CutPrefix(id, RedrivePrefix(name))
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n > 0
}

// LoadRootID is the workflow id of the loaders that `starter load` starts.
func LoadRootID(name string) string { return loadPrefix + name }

// LoadRootName is the load of a workflow id, if it is that of its LoadsWorkflow.
func LoadRootName(id string) (string, bool) {
	name, ok := strings.CutPrefix(id, loadPrefix)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

const loadPrefix = "load/"

// LoadRootLoaderID is the workflow id of one loader of `starter load`.
func LoadRootLoaderID(name string, number int) string {
	return fmt.Sprintf("%s%s/%d", loadPrefix, name, number)
}

// Activities.
const (
	ActSeed     = "Seed"
	ActAcquire  = "Acquire"
	ActClear    = "Clear"
	ActExpand   = "Expand"
	ActFetch    = "Fetch"
	ActLoad     = "Load"
	ActCensus   = "Census"
	ActLogEnds  = "LogEnds"
	ActFinalize = "Finalize"

	ActPartitions = "Partitions" // of the sources of a load
	ActLocate     = "Locate"     // offsets of a time

	ActRedrivePlan = "RedrivePlan"
	ActRedrive     = "Redrive"
)

// Signals between parents and children.
const (
	SigControl = "control"
	SigReport  = "report"
	SigLoads   = "loads" // the report of a LoadsWorkflow
	SigOrder   = "order" // of people, to one loader
	// SigReleased goes from a Fetch under way to its shard.
	SigReleased = "released"
)

// Updates of people, and queries.
const (
	UpPause    = "pause"
	UpResume   = "resume"
	UpSetRate  = "set-rate"
	UpAddSeeds = "add-seeds"
	UpSeek     = "seek" // this and the next three: of a LoadsWorkflow
	UpSkip     = "skip"
	UpToErrors = "to-errors"
	UpSetBatch = "set-batch"
	QryStatus  = "status"
)

// Search attributes, registered by the dev stack and by docker-compose.
const (
	AttrCrawl   = "TrawlCrawl"
	AttrState   = "TrawlState"
	AttrOutcome = "TrawlOutcome"
	AttrClass   = "TrawlErrorClass"
)

// Error types of activities that workflows or people branch on.
const (
	ErrTypeBadSpec = "BadSpec" // never retried
	ErrTypeTopics  = "Topics"  // topics exist with another shape: never retried
	ErrTypeRefused = "Refused" // an order that cannot be obeyed: nothing was done
	ErrTypeEnding  = "Ending"  // an order that comes too late
)
