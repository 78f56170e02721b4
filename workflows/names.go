// Package workflows owns the durable decisions of a crawl: CrawlWorkflow,
// ShardWorkflow, LoadsWorkflow and LoadWorkflow. It refuses I/O, clocks,
// randomness and clients: it imports the SDK and internal/contract only.
package workflows

import (
	"fmt"
	"strings"
)

// Task queues.
const (
	QueueMain    = "trawl"         // workflows and shared activities
	QueueAcquire = "trawl-acquire" // Acquire only
	queueWorker  = "trawl-worker-" // + random per process: Expand
	queueData    = "trawl-data-"   // + id of the data directory: Load to SQLite
)

// WorkerQueue is the own queue of a worker process.
func WorkerQueue(random string) string { return queueWorker + random }

// DataQueue is the queue of every worker that has the data directory.
func DataQueue(id string) string { return queueData + id }

// Workflow types.
const (
	CrawlType = "CrawlWorkflow"
	ShardType = "ShardWorkflow"
	LoadsType = "LoadsWorkflow"
	LoadType  = "LoadWorkflow"
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
)

// Signals between parents and children.
const (
	SigControl = "control"
	SigReport  = "report"
	SigLoads   = "loads" // the report of a LoadsWorkflow
)

// Updates of people, and queries.
const (
	UpPause    = "pause"
	UpResume   = "resume"
	UpSetRate  = "set-rate"
	UpAddSeeds = "add-seeds"
	QryStatus  = "status"
)

// Search attributes, registered by the dev stack and by docker-compose.
const (
	AttrCrawl   = "TrawlCrawl"
	AttrState   = "TrawlState"
	AttrOutcome = "TrawlOutcome"
)

// Error types of activities that workflows or people branch on.
const (
	ErrTypeBadSpec = "BadSpec" // never retried
	ErrTypeTopics  = "Topics"  // topics exist with another shape: never retried
)
