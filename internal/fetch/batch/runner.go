package batch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/weburl"
)

// Gate is the fence of an activity: its heartbeat. MaySend is asked before
// every request, again when the request has its connection; after an error the
// batch ends. Fallen is closed when the fence falls: what runs is aborted.
// Both may be used from several goroutines.
type Gate interface {
	MaySend() error
	Fallen() <-chan struct{}
}

// Log is what a Fetch needs of the log.
type Log interface {
	Appender
	// ReadAt gives the record at exactly this offset; false: there is none any
	// more. An error says nothing about the record.
	ReadAt(ctx context.Context, topic string, partition int, offset int64) (kafkalog.Record, bool, error)
}

// Options of a Runner. Zero values take the defaults named at each field.
type Options struct {
	Recent   int // links remembered as stated; 1,000,000
	Robots   int // robots rules remembered; 4,096
	InFlight int // requests at once, over all batches; 512
}

const hardAfter = 2 * time.Minute

// Runner runs batches. It holds only caches: any other Runner can run the
// next batch of the same hosts. It is safe for concurrent use.
type Runner struct {
	log    Log
	recent *recent
	rules  *rulesCache
	side   *sideGate
	slots  chan struct{}
	net    *network
}

// NewRunner makes a runner over log.
func NewRunner(log Log, o Options) *Runner {
	if o.Recent <= 0 {
		o.Recent = 1_000_000
	}
	if o.Robots <= 0 {
		o.Robots = 4096
	}
	if o.InFlight <= 0 {
		o.InFlight = 512
	}
	return &Runner{
		log: log, recent: newRecent(o.Recent), rules: newRulesCache(o.Robots),
		side: newSideGate(o.Robots), slots: make(chan struct{}, o.InFlight),
		net: newNetwork(),
	}
}

// Dialed is to be the fetch.Options.Dialed of all plans that run here: the
// runner learns from it when this worker has lost its network. Then requests
// wait, but for a probe now and then, and failures are not stated.
func (r *Runner) Dialed(address string, err error) { r.net.dialed(address, err) }

// Job is one Fetch.
type Job struct {
	Run   contract.Run
	Shard int
	Plan  *Plan
	Batch contract.Batch
	Gate  Gate
	// Frontier and Pages are the names of the topics.
	Frontier, Pages string
	// Now is the time on the Temporal server's clock.
	Now func() time.Time
	// HardEnd is when even a flush that is not acknowledged gives up; running
	// requests are aborted then, too. It must lie within StartToClose. Zero:
	// two minutes after the time box.
	HardEnd time.Time
	// Release, if set, is told of hosts that the batch is done with while others
	// still have requests running. An error changes nothing: their slots stay
	// open until the end.
	Release func(context.Context, contract.Released) error
	// Beat, if set, is told how many locators were handled so far; for the
	// summary of a heartbeat. It must not block.
	Beat func(done int64)
}

// Run requests the batch. When ctx is cancelled it starts no more requests,
// lets the running ones finish, flushes, and answers with what it did; what is
// left over stays due. Its error means that a flush was not acknowledged until
// HardEnd, so that nothing is known about the last of the facts, or that this
// worker has lost its network and did nothing.
func (r *Runner) Run(ctx context.Context, job Job) (contract.FetchResult, error) {
	if job.HardEnd.IsZero() {
		job.HardEnd = time.Now().Add(job.Batch.TimeBox + hardAfter)
	}
	hard, cancelHard := context.WithDeadline(context.WithoutCancel(ctx), job.HardEnd)
	defer cancelHard()
	soft, cancelSoft := context.WithTimeout(ctx, job.Batch.TimeBox)
	defer cancelSoft()
	requests, abort := context.WithCancel(hard)
	defer abort()

	x := &run{runner: r, job: job, plan: job.Plan, hard: hard, soft: soft, requests: requests, called: ctx, fall: func() { cancelSoft(); abort() }}
	x.gen = weburl.Hash(job.Run.Crawl + "\x00" + job.Run.Generation)
	x.result = contract.FetchResult{Number: job.Batch.Number, Outcomes: map[string]int64{}}
	x.out = newOutbox(r.log, place{job.Frontier, job.Shard}, r.recent, x.finishParcel)

	over := make(chan struct{})
	var watch, flush sync.WaitGroup
	watch.Go(func() {
		select {
		case <-job.Gate.Fallen():
			x.fall()
		case <-over:
		}
	})
	var flushErr error
	flush.Go(func() {
		if flushErr = x.out.run(hard); flushErr != nil {
			x.fall() // what is requested now could not be stated
		}
	})

	x.hosts()
	x.out.close()
	flush.Wait()
	close(over)
	watch.Wait()
	if flushErr != nil {
		return contract.FetchResult{}, fmt.Errorf("batch %d of shard %d: %w", job.Batch.Number, job.Shard, flushErr)
	}
	res := x.answer(ctx)
	if x.done.Load() == 0 && res.LeftOver > 0 && !res.Drained && r.net.isLost() {
		return contract.FetchResult{}, fmt.Errorf("batch %d of shard %d: %w", job.Batch.Number, job.Shard, errNetwork)
	}
	return res, nil
}

// run is the state of one Run.
type run struct {
	runner *Runner
	job    Job
	plan   *Plan
	gen    uint64 // hash of the generation, part of cache keys

	hard     context.Context // for flushes
	soft     context.Context // ends when no request may start any more
	requests context.Context // ends when running requests are aborted
	called   context.Context // ends when the batch is to drain
	fall     func()

	out   *outbox
	paced []*host

	mu     sync.Mutex
	result contract.FetchResult
	sent   atomic.Int64 // requests
	stated atomic.Int64 // links
	done   atomic.Int64 // locators that are not left over
}

// answer completes the result.
func (x *run) answer(ctx context.Context) contract.FetchResult {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.result
	x.out.correct(r.Outcomes)
	r.Requests, r.Links = x.sent.Load(), x.stated.Load()
	total := int64(0)
	for _, h := range x.job.Batch.Hosts {
		total += int64(len(h.Items))
	}
	r.LeftOver = total - x.done.Load()
	r.Drained = ctx.Err() != nil || isClosed(x.job.Gate.Fallen())
	left := x.job.Batch.Cool // owed to hosts that are not in the batch
	for _, h := range x.paced {
		left = max(left, h.pace.left())
	}
	r.Gone = max(0, r.LongestDelay-left)
	return r
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// count adds an outcome; ended says that the locator is not left over.
func (x *run) count(outcome string, ended bool) {
	x.mu.Lock()
	x.result.Outcomes[outcome]++
	x.mu.Unlock()
	if ended {
		n := x.done.Add(1)
		if x.job.Beat != nil {
			x.job.Beat(n)
		}
	}
}

// used notes the delay that was kept towards a host that was asked.
func (x *run) used(d time.Duration) {
	x.mu.Lock()
	x.result.LongestDelay = max(x.result.LongestDelay, d)
	x.mu.Unlock()
}

// finishParcel states the blocks, and the latest streak of each host that
// changed.
func (x *run) finishParcel(p *parcel) {
	for _, b := range p.blocks {
		p.addThen(record(b))
	}
	for host, n := range p.streaks {
		p.addThen(record(frontier.Streak{Host: host, Errors: n, When: x.job.Now()}))
	}
}

// record encodes a fact.
func record(f frontier.Fact) kafkalog.Record {
	k, v := f.Record()
	return kafkalog.Record{Key: k, Value: v}
}

// state puts one fact of this shard into the next flush.
func (x *run) state(f frontier.Fact) {
	r := record(f)
	x.out.put(func(p *parcel) { p.addThen(r) })
}
