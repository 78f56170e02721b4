package activities

import (
	"context"
	"maps"
	"sync"
	"time"

	"trawl/internal/contract"
	"trawl/internal/spec"
)

// renewEvery: brokers forget what a group without members committed some time
// after its last commit, a week unless told otherwise (offsets.retention.minutes).
// So a loader with nothing to do commits now and then, too.
const renewEvery = time.Hour

// renewals are the times at which this worker committed something last.
type renewals struct {
	mu sync.Mutex
	m  map[string]time.Time
}

func (r *renewals) due(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.m[key]
	return !ok || time.Since(at) >= renewEvery
}

func (r *renewals) done(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.m, func(_ string, at time.Time) bool { return time.Since(at) >= renewEvery })
	if r.m == nil {
		r.m = map[string]time.Time{}
	}
	r.m[key] = time.Now()
}

// home is where the queue of a data directory is kept.
type home struct{ group, topic string }

// homeOf is that of a crawl's or load's index, if its kind lies in a directory.
func (a *Activities) homeOf(kind string, run contract.Run, topic string) home {
	if !spec.LocalSink(kind) || a.DataQueue == "" {
		return home{}
	}
	return home{run.QueueGroup(a.Prefix), run.Topic(a.Prefix, topic)}
}

// renewHome commits the queue once more; Load runs in its directory. Seed and
// Partitions have committed it first, and they do so again when they run again.
func (a *Activities) renewHome(ctx context.Context, h home) {
	key := "home " + h.group
	if h.group == "" || !a.renewals.due(key) {
		return
	}
	if err := a.Log.Commit(ctx, h.group, h.topic, 0, 0, a.DataQueue); err != nil {
		a.Logger.Warn("could not note again which data directory has the index", "group", h.group, "error", err)
		return
	}
	a.renewals.done(key)
}
