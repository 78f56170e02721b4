package activities

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"trawl/internal/contract"
	"trawl/internal/extract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/page"
	"trawl/internal/sink"
	"trawl/internal/spec"
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

// openIndex opens the generation's index, creating it if it is not there. One
// loader opens, outside of the lock; the others wait for it.
func (a *Activities) openIndex(ctx context.Context, run contract.Run, s *spec.Spec) (*openSink, error) {
	index := run.Index(s.Sink.Index)
	key := s.Sink.Kind + "/" + index
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
		opened, err := a.openSink(ctx, s, index)
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

func (a *Activities) openSink(ctx context.Context, s *spec.Spec, index string) (sink.Sink, error) {
	admin, err := a.Sink(s.Sink.Kind)
	if err != nil {
		return nil, err
	}
	if err := admin.Prepare(ctx, s.Sink.Index, index, false); err != nil {
		return nil, err
	}
	return admin.Open(ctx, index)
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
	extractor, err := extract.New(fields)
	if err != nil {
		return nil, err
	}
	return func(rec *kafkalog.Record) (sink.Op, bool, error) {
		var p page.Page
		if err := page.Decode(rec.Value, &p); err != nil {
			return sink.Op{}, false, &ingest.RecordError{Class: ingest.InvalidFormat, Err: err}
		}
		doc, kind, err := extractor.Page(&p)
		if err != nil {
			return sink.Op{}, false, &ingest.RecordError{Class: ingest.TransformFailed, Err: err}
		}
		op := sink.Op{ID: extract.ID(p.URL), Version: extract.Version(&p), Doc: doc, Delete: kind == extract.Delete}
		return op, kind != extract.NoDocument, nil
	}, nil
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
	s, err := a.specOf(ctx, in.Run)
	if err != nil {
		return contract.LoadResult{}, err
	}
	to, err := a.openIndex(ctx, in.Run, s)
	if err != nil {
		return contract.LoadResult{}, err
	}
	defer a.sinks.put(to)
	var prior contract.Ledger
	if in.Position < 0 {
		if in.Position, prior, err = a.committed(ctx, in); err != nil {
			return contract.LoadResult{}, err
		}
	}
	m, err := a.machine(ctx, in, s, to)
	if err != nil {
		return contract.LoadResult{}, err
	}
	machine.Store(m)
	sctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with the slice
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			stop()
		case <-done:
		}
	}()
	r, err := m.Slice(sctx, in)
	if err != nil {
		return r, err
	}
	r.Prior = prior
	a.commit(ctx, in, r)
	return r, nil
}

func (a *Activities) machine(ctx context.Context, in contract.LoadInput, s *spec.Spec, to sink.Sink) (*ingest.Machine, error) {
	ops, err := pageOps(s.Document.Fields)
	if err != nil {
		return nil, err
	}
	pages := source{a.Log, in.Run.Topic(a.Prefix, contract.TopicPages), in.Partition}
	failed := source{a.Log, in.Run.Topic(a.Prefix, contract.TopicErrors), in.Partition}
	return ingest.New(ingest.Config{
		Topic: pages.topic, Partition: in.Partition, Crawl: in.Run.Crawl, Target: in.Run.Index(s.Sink.Index),
		Policy: ingest.FromZero, // what retention took is counted as lost
		Now:    clock(ctx), MaxRecord: int(s.Limits.PageSize) + (1 << 20),
	}, pages, ops, to, failed)
}

// committed is the copy of the position and ledger in the group; -1 if there is
// none.
func (a *Activities) committed(ctx context.Context, in contract.LoadInput) (int64, contract.Ledger, error) {
	var ledger contract.Ledger
	topic := in.Run.Topic(a.Prefix, contract.TopicPages)
	offset, note, ok, err := a.Log.Committed(ctx, in.Run.LoadGroup(a.Prefix), topic, in.Partition)
	if err != nil || !ok {
		return -1, ledger, err
	}
	if err := json.Unmarshal([]byte(note), &ledger); err != nil {
		a.Logger.Warn("the committed offset was set by another program: its ledger begins at zero", "topic", topic, "partition", in.Partition, "offset", offset)
		ledger = contract.Ledger{}
	}
	return offset, ledger, nil
}

// commit copies position and ledger for tools. It may fail: it is a copy.
func (a *Activities) commit(ctx context.Context, in contract.LoadInput, r contract.LoadResult) {
	if r.Ledger.Offsets == 0 {
		return
	}
	note, err := json.Marshal(in.Ledger.Add(r.Prior).Add(r.Ledger))
	if err != nil {
		return
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	topic := in.Run.Topic(a.Prefix, contract.TopicPages)
	if err := a.Log.Commit(cctx, in.Run.LoadGroup(a.Prefix), topic, in.Partition, r.Position, string(note)); err != nil {
		a.Logger.Warn("could not copy a loader's position to its group", "topic", topic, "partition", in.Partition, "error", err)
	}
}
