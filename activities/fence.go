package activities

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
)

// fence is the lease of a Fetch: it holds while the last acknowledged heartbeat
// is younger than half the heartbeat timeout, so that no request starts after a
// successor may have begun. Both clocks count, whichever ran further: a
// machine that slept has a monotonic clock that stood still.
type fence struct {
	half   time.Duration
	record func(context.Context) error // one heartbeat; nil when acknowledged
	wall   func() time.Time            // without monotonic reading

	last    atomic.Pointer[beatTime]
	fallen  chan struct{}
	fallOne sync.Once
	drain   func() // cancellation was asked for
}

type beatTime struct{ mono, wall time.Time }

func newFence(timeout time.Duration, record func(context.Context) error, drain func()) *fence {
	return &fence{
		half: timeout / 2, record: record, drain: drain, fallen: make(chan struct{}),
		wall: func() time.Time { return time.Now().Round(0) },
	}
}

// MaySend says whether a request may start now.
func (f *fence) MaySend() bool {
	b := f.last.Load()
	if b == nil {
		return false
	}
	select {
	case <-f.fallen:
		return false
	default:
	}
	if time.Since(b.mono) < f.half && f.wall().Sub(b.wall) < f.half {
		return true
	}
	f.fall()
	return false
}

// Fallen is closed once the fence fell; it does not rise again.
func (f *fence) Fallen() <-chan struct{} { return f.fallen }

func (f *fence) fall() { f.fallOne.Do(func() { close(f.fallen) }) }

// run beats until ctx ends. The first beat is made at once.
func (f *fence) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		f.beat(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if f.last.Load() != nil {
			f.MaySend() // lets the fence fall in time
		}
	}
}

func (f *fence) beat(ctx context.Context) {
	sent := &beatTime{mono: time.Now(), wall: f.wall()}
	bctx, cancel := context.WithTimeout(ctx, f.half/2)
	defer cancel()
	err := f.record(bctx)
	var gone *serviceerror.NotFound
	switch {
	case err == nil:
		f.last.Store(sent)
	case errors.As(err, &gone):
		f.fall() // timed out, or the workflow is closed: somebody else may fetch
		f.drain()
	case temporal.IsCanceledError(err) && bctx.Err() == nil:
		f.last.Store(sent)
		f.drain()
	}
}
