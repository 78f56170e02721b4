package elastic

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"trawl/internal/sink"
)

// load is what the answer to a bulk says about the cluster.
type load int

const (
	unknown load = iota // nothing: it was not reached, or refused for another reason
	fine
	tooMuch // 429, 503, or no answer in time
)

const (
	firstLimit = 2 // fill a server of two cores
	// Times of the best latency: up to quick a bulk did not wait in a queue
	// worth speaking of and more may go at once, from slow on fewer.
	quick, slow = 2, 4
	// slack is added to the best latency: small bulks vary by as much.
	slack = 20 * time.Millisecond
	// probeEvery is how often one bulk goes alone: under load its latency would
	// not be the best one, and that is forgotten here. It costs some bulks' time.
	probeEvery = time.Minute
)

// limiter bounds the bulks that this process has in flight to one cluster, for
// all its loaders together. The bound grows by one per round while every bulk
// in it is quick and the bound was reached; it shrinks slowly when they are
// slow, and halves on tooMuch, once per round. What is quick is measured by a
// bulk that goes alone, the first one and one a minute. Who waits is served in
// turn.
type limiter struct {
	most int
	now  func() time.Time

	mu      sync.Mutex
	bound   float64 // 1..most
	running int
	waiting []chan struct{}
	cut     time.Time                  // when the bound was halved last
	probed  time.Time                  // when a bulk went alone last
	probing bool                       // until one has
	best    [sizeClasses]time.Duration // latency, by size of the bulk
}

// sizeClasses are doublings from 64 KiB on.
const sizeClasses = 12

func sizeClass(size int64) int {
	return min(bits.Len64(uint64(size)>>16), sizeClasses-1)
}

func newLimiter(most int, now func() time.Time) *limiter {
	return &limiter{most: most, now: now, bound: float64(min(firstLimit, most))}
}

// place is one bulk in flight. It has to be left, once.
type place struct {
	l       *limiter
	class   int
	entered time.Time
	full    bool // the bound was reached when it entered
	alone   bool // a probe
}

// enter waits for a place. When ctx times out before there is one, the error is
// an UnavailableError: nothing reached the sink.
func (l *limiter) enter(ctx context.Context, size int64) (*place, error) {
	asked := l.now()
	l.mu.Lock()
	l.probing = l.probing || asked.Sub(l.probed) >= probeEvery
	if l.running < l.places() && len(l.waiting) == 0 {
		l.running++
		l.mu.Unlock()
		return l.take(size), nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return l.take(size), nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, turn); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else { // the turn came at the same moment
		l.running--
		l.admit()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, &sink.UnavailableError{Err: fmt.Errorf("waited %s for one of the %d bulks in flight to end: %w",
			l.now().Sub(asked).Round(time.Millisecond), l.running, ctx.Err())}
	}
	return nil, ctx.Err()
}

// take makes the place of a bulk that is counted in running.
func (l *limiter) take(size int64) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &place{
		l: l, class: sizeClass(size), entered: l.now(),
		full: l.running >= int(l.bound), alone: l.probing && l.running == 1,
	}
}

// places is how many bulks may be in flight now.
func (l *limiter) places() int {
	if l.probing {
		return 1
	}
	return int(l.bound)
}

// admit lets in who waits, as far as the bound goes.
func (l *limiter) admit() {
	for len(l.waiting) > 0 && l.running < l.places() {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.running++
	}
}

// leave gives the place back and says how it went.
func (p *place) leave(how load) {
	l := p.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	switch how {
	case tooMuch:
		if p.entered.After(l.cut) { // later ones of the same round say the same
			l.bound = max(l.bound/2, 1)
			l.cut = l.now()
		}
	case fine:
		l.adapt(p, l.now().Sub(p.entered))
	case unknown:
	}
	if p.alone { // whatever it learned
		l.probing, l.probed = false, l.now()
	}
	l.admit()
}

func (l *limiter) adapt(p *place, took time.Duration) {
	best := &l.best[p.class]
	if p.alone || *best == 0 || took < *best {
		*best = took
	}
	switch {
	case took > slow**best+slack:
		l.bound = max(l.bound-1/l.bound, 1)
	case took <= quick**best+slack && p.full:
		l.bound = min(l.bound+1/l.bound, float64(l.most))
	}
}

// Load gives how many bulks are in flight, how many may be, and how many wait.
func (a *Admin) Load() (running, bound, waiting int) {
	a.limit.mu.Lock()
	defer a.limit.mu.Unlock()
	return a.limit.running, int(a.limit.bound), len(a.limit.waiting)
}
