package batch

import (
	"context"
	"sync"
	"time"
)

// pace spaces the requests to one host. A turn is taken before a request and
// ends when the request is on its connection, so that a slow dial followed by
// a quick one cannot bring two requests together at the site.
type pace struct {
	token chan struct{} // holds the right to start; unused while delay is 0
	mu    sync.Mutex
	delay time.Duration
	last  time.Time // the latest start known
	next  time.Time
}

func newPace(delay time.Duration) *pace {
	return &pace{token: make(chan struct{}, 1), delay: delay}
}

// hold makes the first turn wait d from now on, as if the host had been visited
// a delay before that.
func (p *pace) hold(d time.Duration) {
	p.mu.Lock()
	p.next = time.Now().Add(d)
	p.last = p.next.Add(-p.delay)
	p.mu.Unlock()
}

// widen makes the delay at least d.
func (p *pace) widen(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d <= p.delay {
		return
	}
	p.delay = d
	if !p.last.IsZero() {
		p.next = p.last.Add(d)
	}
}

// Delay is the distance between two starts.
func (p *pace) Delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// left is how long the next turn is away.
func (p *pace) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.next))
}

// take waits for the turn; nil means that ctx ended first.
func (p *pace) take(ctx context.Context) *turn {
	if ctx.Err() != nil {
		return nil
	}
	if p.Delay() <= 0 {
		return &turn{pace: p}
	}
	select {
	case p.token <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	t := &turn{pace: p, held: true}
	for {
		p.mu.Lock()
		wait := time.Until(p.next)
		p.mu.Unlock()
		if wait <= 0 {
			return t
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			t.give()
			return nil
		}
	}
}

// visited puts the next turn off by a delay from now; without a delay it notes
// the time for one that robots.txt may bring.
func (p *pace) visited() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	p.next = p.last.Add(p.delay)
}

// turn is the right to make one request.
type turn struct {
	pace *pace
	held bool
	once sync.Once
}

// sent says that the request goes out now; the next turn may begin a delay
// later. It may be called again by a second connection of the same request.
func (t *turn) sent() {
	t.pace.visited()
	t.give()
}

// over ends the turn of a request that never got a connection: its dial counts
// as the visit.
func (t *turn) over() {
	if t.held {
		t.once.Do(func() {
			t.pace.visited()
			<-t.pace.token
		})
	}
}

// give ends the turn without a request, or after it was sent.
func (t *turn) give() {
	if t.held {
		t.once.Do(func() { <-t.pace.token })
	}
}
