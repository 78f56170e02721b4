package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform"
)

const (
	loadBeat = 2 * time.Second
	maxSinks = 64
)

// openSink is an index that is open for writing, shared by the loaders of this
// worker. ready is closed once it is open or err is set.
type openSink struct {
	sink.Sink
	ready chan struct{}
	err   error
	users int
	stale bool
}

type sinkCache struct {
	mu sync.Mutex
	m  map[string]*openSink
}

func (c *sinkCache) put(s *openSink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.users--
	s.closeIfUnused()
}

func (s *openSink) closeIfUnused() {
	if s.stale && s.users == 0 && s.Sink != nil {
		_ = s.Close()
		s.Sink = nil
	}
}

// retire lets the next one who asks open the sink of a key anew.
func (c *sinkCache) retire(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.m[key]; s != nil {
		delete(c.m, key)
		s.stale = true
		s.closeIfUnused()
	}
}

func (c *sinkCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retireAll()
}

func (c *sinkCache) retireAll() {
	for key, s := range c.m {
		delete(c.m, key)
		s.stale = true
		s.closeIfUnused()
	}
}

// openIndex opens the generation's index, creating it if it is not there.
func (a *Activities) openIndex(ctx context.Context, run contract.Run, s *spec.Spec) (*openSink, error) {
	index := run.Index(s.Sink.Index)
	return a.share(ctx, s.Sink.Kind+"/"+index, func(ctx context.Context) (sink.Sink, error) {
		admin, err := a.Sink(s.Sink.Kind)
		if err != nil {
			return nil, err
		}
		if err := admin.Prepare(ctx, s.Sink.Index, index, false); err != nil {
			return nil, err
		}
		return admin.Open(ctx, index)
	})
}

// share gives the sink of a key. One loader opens it, outside of the lock; the
// others wait for it.
func (a *Activities) share(ctx context.Context, key string, open func(context.Context) (sink.Sink, error)) (*openSink, error) {
	a.sinks.mu.Lock()
	o, mine := a.sinks.m[key], false
	if o == nil {
		if len(a.sinks.m) >= maxSinks {
			a.sinks.retireAll()
		}
		o, mine = &openSink{ready: make(chan struct{})}, true
		a.sinks.m[key] = o
	}
	o.users++
	a.sinks.mu.Unlock()
	if mine {
		opened, err := open(ctx)
		a.sinks.mu.Lock()
		o.Sink, o.err = opened, err
		if err != nil && a.sinks.m[key] == o {
			delete(a.sinks.m, key) // the next one tries again
		}
		a.sinks.mu.Unlock()
		close(o.ready)
	}
	select {
	case <-o.ready:
	case <-ctx.Done():
		a.sinks.put(o)
		return nil, ctx.Err()
	}
	if o.err != nil {
		a.sinks.put(o)
		return nil, o.err
	}
	return o, nil
}

// source is one partition of the pages topic.
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

func (s source) Append(ctx context.Context, recs []kafkalog.Record) error {
	_, err := s.log.Append(ctx, s.topic, s.partition, recs)
	return err
}

// pageOps makes ops of page records: a document, or a delete for a page that is
// gone.
func pageOps(fields []string) (ingest.TransformFunc, error) {
	pages, err := transform.Pages(fields)
	if err != nil {
		return nil, err
	}
	return func(rec *kafkalog.Record) (sink.Op, bool, error) { return pages(rec, "", 0) }, nil
}

// job is what one Load works on: a partition of a crawl's pages, or of a load's
// source.
type job struct {
	config    ingest.Config
	source    ingest.Source
	transform ingest.TransformFunc
	errors    ingest.ErrorLog
	group     string // in which the position is copied
	home      home
	open      func(ctx context.Context) (*openSink, error)
	// begin is where a loader begins of which nothing is known; nil: the policy
	// decides.
	begin func(ctx context.Context) (int64, error)
}

// Load runs the loader of one partition for a time-boxed slice. The position is
// given and the next one is the answer; the committed offset is a copy for
// tools, and for a LoadWorkflow that has none yet.
func (a *Activities) Load(ctx context.Context, in contract.LoadInput) (contract.LoadResult, error) {
	var machine atomic.Pointer[ingest.Machine]
	defer beatWith(ctx, loadBeat, func() any {
		if m := machine.Load(); m != nil {
			return m.Progress()
		}
		return nil
	})()
	j, err := a.jobOf(ctx, in)
	if err != nil {
		return contract.LoadResult{}, err
	}
	if in.Keep {
		return a.keepOrders(ctx, j, in)
	}
	var prior contract.LoadNote
	var to *openSink
	defer func() {
		if to != nil {
			a.sinks.put(to)
		}
	}()
	j.config.Open = func(ctx context.Context, position int64) (_ sink.Sink, at ingest.Beginning, err error) {
		if to == nil {
			if to, err = j.open(ctx); err != nil {
				to = nil
				return nil, at, err
			}
		}
		at.Position = -1
		if position < 0 {
			at.Position, prior, err = a.position(ctx, j)
			at.Skips = prior.Skips
		}
		return to.Sink, at, err
	}
	j.config.Now = clock(ctx)
	m, err := ingest.New(j.config, j.source, j.transform, nil, j.errors)
	if err != nil {
		return contract.LoadResult{}, err
	}
	machine.Store(m)
	sctx, stop := untilStopped(ctx)
	defer stop()
	r, err := m.Slice(sctx, in)
	if err != nil {
		return r, err
	}
	remember(&r, prior)
	a.copyPosition(ctx, j, in, &r)
	a.renewHome(ctx, j.home)
	return r, nil
}

// copyPosition commits if there is something new, or nothing was for a while.
func (a *Activities) copyPosition(ctx context.Context, j *job, in contract.LoadInput, r *contract.LoadResult) {
	key := fmt.Sprintf("%s %s %d", j.group, j.config.Topic, j.config.Partition)
	if !copied(in, *r) && (r.Position < 0 || !a.renewals.due(key)) {
		return
	}
	err := a.commit(ctx, j, in, *r)
	if r.Kept = err == nil; err != nil { // it is a copy
		a.Logger.Warn("could not copy a loader's position to its group", "topic", j.config.Topic, "partition", j.config.Partition, "error", err)
		return
	}
	a.renewals.done(key)
}

// remember puts what the group remembers into the answer.
func remember(r *contract.LoadResult, prior contract.LoadNote) {
	r.Prior, r.PriorStart, r.PriorBefore, r.PriorSkips = prior.Ledger, prior.Start, prior.Before, prior.Skips
	r.PriorMoved = prior.Moved
}

// keepOrders copies the position and the orders of a loader that ends before a
// slice could. Without the copy they would be lost, so that Kafka's error is one
// of the call.
func (a *Activities) keepOrders(ctx context.Context, j *job, in contract.LoadInput) (contract.LoadResult, error) {
	r := contract.LoadResult{Start: in.Position, Position: in.Position, End: -1, State: ingest.Extract.String()}
	if in.Position < 0 {
		at, prior, err := a.position(ctx, j)
		if err != nil {
			return r, err
		}
		r.Position = max(at, 0)
		r.Start = r.Position
		remember(&r, prior)
	}
	err := a.commit(ctx, j, in, r)
	r.Kept = err == nil
	return r, err
}

// untilStopped is a context that ends when the worker begins to drain.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	sctx, stop := context.WithCancel(ctx)
	worker := activity.GetWorkerStopChannel(ctx)
	go func() {
		select {
		case <-worker:
			stop()
		case <-sctx.Done():
		}
	}()
	return sctx, stop
}

func (a *Activities) jobOf(ctx context.Context, in contract.LoadInput) (*job, error) {
	if in.Load != nil {
		return a.loadJob(in)
	}
	s, err := a.specOf(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	ops, err := pageOps(s.Document.Fields)
	if err != nil {
		return nil, err
	}
	pages := source{a.Log, in.Run.Topic(a.Prefix, contract.TopicPages), in.Partition}
	return &job{
		config: ingest.Config{
			Topic: pages.topic, Partition: in.Partition, Crawl: in.Run.Crawl, Target: in.Run.Index(s.Sink.Index),
			Policy:    ingest.FromZero, // what retention took is counted as lost
			MaxRecord: int(s.Limits.PageSize) + (1 << 20), BatchBytes: int(in.Batching.Bytes), BatchCount: in.Batching.Count,
		},
		source: pages, transform: ops, group: in.Run.LoadGroup(a.Prefix), home: a.homeOf(s.Sink.Kind, in.Run, contract.TopicPages),
		errors: source{a.Log, in.Run.Topic(a.Prefix, contract.TopicErrors), in.Partition},
		open:   func(ctx context.Context) (*openSink, error) { return a.openIndex(ctx, in.Run, s) },
	}, nil
}

// position of a loader whose workflow has none: the copy in the group with its
// ledger, else where it begins; -1 leaves that to the policy.
func (a *Activities) position(ctx context.Context, j *job) (int64, contract.LoadNote, error) {
	var note contract.LoadNote
	topic, partition := j.config.Topic, j.config.Partition
	offset, text, ok, err := a.Log.Committed(ctx, j.group, topic, partition)
	switch {
	case err != nil:
		return -1, note, err
	case ok:
		if err := json.Unmarshal([]byte(text), &note); err != nil {
			a.Logger.Warn("the committed offset was set by another program: its ledger begins at zero", "topic", topic, "partition", partition, "offset", offset)
			note = contract.LoadNote{Start: offset}
		}
		return offset, note, nil
	case j.begin == nil:
		return -1, note, nil
	}
	at, err := j.begin(ctx)
	return at, note, err
}

const (
	// maxNote bounds the copy's metadata, in bytes: brokers take 4,096 unless told
	// otherwise (offset.metadata.max.bytes), and what moves an ended load adds up to
	// 900.
	maxNote       = 3000
	maxNoteReason = 60 // bytes of a skip's reason in it
)

// ahead are the skips that are not behind a position, with short reasons.
func ahead(skips []contract.Skip, position int64) (out []contract.Skip) {
	for _, k := range skips {
		if k.Through >= position {
			k.Reason = strings.ToValidUTF8(k.Reason[:min(len(k.Reason), maxNoteReason)], "")
			out = append(out, k)
		}
	}
	return out
}

// copied: a slice has something for the group.
func copied(in contract.LoadInput, r contract.LoadResult) bool {
	begun := in.Load != nil && (in.Position < 0 || in.Position == in.Start) // where it begins is known first, too
	return r.Position >= 0 && (r.Ledger.Offsets > 0 || begun || len(in.Skips) > 0)
}

// commit copies position, ledger and the orders ahead to the group, for tools and
// the next run.
func (a *Activities) commit(ctx context.Context, j *job, in contract.LoadInput, r contract.LoadResult) error {
	n := contract.LoadNote{Ledger: in.Ledger.Add(r.Ledger), Start: in.Start, Before: in.Before, Skips: ahead(in.Skips, r.Position)}
	if in.Position < 0 {
		n = contract.LoadNote{Ledger: r.Prior.Add(r.Ledger), Start: r.PriorStart, Before: r.PriorBefore, Skips: ahead(contract.AddSkips(r.PriorSkips, in.Skips), r.Position)}
		if r.Prior.Offsets == 0 {
			n.Start = r.Start
		}
	}
	if r.Moved != "" { // another range begins
		n.Start, n.Before = r.Start, n.Ledger.Sub(r.Ledger)
	}
	note, err := json.Marshal(n)
	all := n.Skips
	for err == nil && len(note) > maxNote && len(n.Skips) > 0 {
		n.Skips = n.Skips[:len(n.Skips)-1]
		note, err = json.Marshal(n)
	}
	if left := all[len(n.Skips):]; len(left) > 0 {
		a.Logger.Warn("not all skips fit a loader's copied position: another run will not know the latest",
			"topic", j.config.Topic, "partition", j.config.Partition, "skips", len(left), "offset", left[0].From)
	}
	if err != nil {
		return err
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return a.Log.Commit(cctx, j.group, j.config.Topic, j.config.Partition, r.Position, string(note))
}
