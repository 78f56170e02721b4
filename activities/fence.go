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

var (
	errNoBeat = errors.New("no heartbeat was acknowledged yet")
	errFallen = errors.New("the heartbeat is too old: another worker may have the batch")
)

// MaySend says whether a request may start now, or why not.
func (f *fence) MaySend() error {
	b := f.last.Load()
	if b == nil {
		return errNoBeat
	}
	select {
	case <-f.fallen:
		return errFallen
	default:
	}
	if time.Since(b.mono) < f.half && f.wall().Sub(b.wall) < f.half {
		return nil
	}
	f.fall()
	return errFallen
}

// Fallen is closed once the fence fell; it does not rise again.
func (f *fence) Fallen() <-chan struct{} { return f.fallen }

func (f *fence) fall() { f.fallOne.Do(func() { close(f.fallen) }) }

// first beats until one beat is acknowledged, the fence falls or ctx ends.
func (f *fence) first(ctx context.Context) {
	for f.beat(ctx); f.last.Load() == nil; f.beat(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-f.fallen:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// run beats until ctx ends.
func (f *fence) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.beat(ctx)
		if f.last.Load() != nil {
			_ = f.MaySend() // lets the fence fall in time
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
