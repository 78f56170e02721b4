package batch

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"trawl/internal/fetch"
)

// Bounds of the watch over the worker's own network.
const (
	silentFor    = 30 * time.Second // dials without any reply until the network counts as lost
	knownFor     = time.Hour        // a host that answered so recently tells the network's loss from its own
	lostMost     = time.Hour        // then failures count again, whatever dials say
	probeEvery   = 3 * time.Second  // requests that are tried while the network is lost
	maxAddresses = 4096             // remembered
)

// errNetwork is the failure of a batch that met a lost network.
var errNetwork = errors.New("this worker lost its network: no dial of the last 30 s had a reply; mend it, or stop the worker")

// network tells a loss of the worker's own network from failures of sites.
// While every dial goes without a reply and a host that answered lately does
// not accept one either, failures are in doubt; after silentFor of it the
// network is lost, until something replies.
type network struct {
	mu       sync.Mutex
	answered map[string]time.Time // by address: the latest dial that was accepted
	silent   time.Time            // the first dial without a reply since the last reply; zero: none
	missed   bool                 // one of those was to a host that answered lately
	lost     time.Time            // since when; zero: it is not
	probe    time.Time            // when the next request is tried although it is lost
	changed  chan struct{}        // closed when doubt ends, either way
}

func newNetwork() *network {
	return &network{answered: map[string]time.Time{}, changed: make(chan struct{})}
}

// dialed takes the outcome of a dial to host:port.
func (n *network) dialed(address string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		n.remember(address, now)
		n.calm()
	case isOurs(err):
	case isReply(err):
		if n.lost.IsZero() {
			n.calm()
		}
	default:
		if n.silent.IsZero() {
			n.silent = now
		}
		at, ok := n.answered[address]
		n.missed = n.missed || ok && now.Sub(at) < knownFor
		n.judge(now)
	}
}

// isOurs knows failures that say nothing about any network.
func isOurs(err error) bool {
	_, refused := errors.AsType[*fetch.AddressError](err)
	return refused || errors.Is(err, context.Canceled)
}

// isReply knows failures that somebody sent: a refused connection, a name that
// does not exist.
func isReply(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.IsNotFound
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

func (n *network) remember(address string, now time.Time) {
	if _, ok := n.answered[address]; !ok && len(n.answered) >= maxAddresses {
		for old := range n.answered {
			delete(n.answered, old)
			break
		}
	}
	n.answered[address] = now
}

// replied says that a site answered.
func (n *network) replied() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calm()
}

// calm ends doubt and loss.
func (n *network) calm() {
	if n.missed || !n.lost.IsZero() {
		close(n.changed)
		n.changed = make(chan struct{})
	}
	n.silent, n.missed, n.lost, n.probe = time.Time{}, false, time.Time{}, time.Time{}
}

// judge lets time pass.
func (n *network) judge(now time.Time) {
	switch {
	case !n.lost.IsZero():
		if now.Sub(n.lost) >= lostMost {
			clear(n.answered) // none of them can tell any more
			n.calm()
		}
	case n.missed && now.Sub(n.silent) >= silentFor:
		n.lost = now
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// isLost says whether the network is lost now.
func (n *network) isLost() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.judge(time.Now())
	return !n.lost.IsZero()
}

// blames says whether a failure is the site's. While that is in doubt it
// waits: for a reply, for the loss, or for the end of ctx, which leaves the
// failure unsaid.
func (n *network) blames(ctx context.Context) bool {
	for {
		n.mu.Lock()
		now := time.Now()
		n.judge(now)
		lost, doubt, changed := !n.lost.IsZero(), n.missed, n.changed
		wait := n.silent.Add(silentFor).Sub(now)
		n.mu.Unlock()
		switch {
		case lost:
			return false
		case !doubt:
			return true
		case !sleep(ctx, changed, wait):
			return false
		}
	}
}

// pass waits until the network is there. While it is lost one request at a
// time is let through, to find out.
func (n *network) pass(ctx context.Context) bool {
	for {
		n.mu.Lock()
		now := time.Now()
		n.judge(now)
		wait, changed := n.probe.Sub(now), n.changed
		if n.lost.IsZero() || wait <= 0 {
			n.probe = now.Add(probeEvery)
			n.mu.Unlock()
			return true
		}
		n.mu.Unlock()
		if !sleep(ctx, changed, wait) {
			return false
		}
	}
}

// sleep ends after d or by changed; false: ctx ended.
func sleep(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
