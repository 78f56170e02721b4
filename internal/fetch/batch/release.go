package batch

import (
	"context"
	"slices"
	"sync"
	"time"

	"trawl/internal/contract"
	"trawl/internal/frontier"
)

// Slots are given back before the first of the hosts that are done may be asked
// again, in time for the next batch over it; together with those of all hosts
// that are done by then, as each time costs a message, an Expand and a Fetch.
const (
	releaseLead  = 700 * time.Millisecond
	releaseLeast = 400 * time.Millisecond
	maxReleases  = 16 // per batch; the rest waits for its end
)

// releaser gives slots back while a batch goes on, so that one page that takes
// a minute does not hold up the other hosts.
type releaser struct {
	x      *run
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	running map[int]int     // hosts of a slot that are not done
	waiting map[int][]*host // done, by slot; for slots that were not given back
	left    int             // hosts that are not done
	sent    int
	timer   *time.Timer
	armed   bool // the timer runs, or slots are being given back
	over    bool
	sending sync.WaitGroup
}

func newReleaser(x *run, hosts []*host) *releaser {
	r := &releaser{x: x, running: map[int]int{}, waiting: map[int][]*host{}, left: len(hosts)}
	r.ctx, r.cancel = context.WithCancel(x.requests)
	for _, h := range hosts {
		r.running[frontier.SlotOf(h.key)]++
	}
	return r
}

// ended notes that a host has no request running and none to make.
func (r *releaser) ended(h *host) {
	slot := frontier.SlotOf(h.key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left--
	r.running[slot]--
	if h.part != 0 || !slices.Contains(r.x.job.Batch.Slots, slot) {
		return // parts of a host have other slots
	}
	r.waiting[slot] = append(r.waiting[slot], h)
	r.arm()
}

// arm sets the timer if there is something to give back and somebody to wait
// for. With the lock held.
func (r *releaser) arm() {
	if r.over || r.armed || r.left == 0 || r.x.job.Release == nil || r.sent >= maxReleases {
		return
	}
	first, any := time.Duration(0), false
	for slot, list := range r.waiting {
		if r.running[slot] > 0 {
			continue
		}
		for _, h := range list {
			if left := h.pace.left(); !any || left < first {
				first, any = left, true
			}
		}
	}
	if !any {
		return
	}
	wait := max(releaseLeast, first-releaseLead)
	r.armed = true
	r.timer = time.AfterFunc(wait, r.release)
}

// release makes the facts of the hosts that are done durable, then gives their
// slots back.
func (r *releaser) release() {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.sending.Add(1)
	defer r.sending.Done()
	// Cool is owed to hosts of careful slots that are not in the batch.
	out := contract.Released{Number: r.x.job.Batch.Number, Cool: r.x.job.Batch.Cool}
	var hosts []*host
	for slot, list := range r.waiting {
		if r.running[slot] > 0 {
			continue
		}
		out.Slots = append(out.Slots, slot)
		hosts = append(hosts, list...)
		delete(r.waiting, slot)
	}
	r.mu.Unlock()
	slices.Sort(out.Slots)
	for _, h := range hosts {
		for _, g := range h.groups {
			out.Locators += int64(len(g.Items))
		}
	}
	// A drain or a fallen fence ends the batch anyway.
	if len(hosts) > 0 && r.x.called.Err() == nil && !isClosed(r.x.job.Gate.Fallen()) && r.x.out.flush(r.ctx) == nil {
		for _, h := range hosts {
			out.Cool = max(out.Cool, h.pace.left())
		}
		_ = r.x.job.Release(r.ctx, out) // else they stay open
	}
	r.mu.Lock()
	r.armed = false
	r.sent++
	r.arm()
	r.mu.Unlock()
}

// stop ends it; nothing is sent any more when it returns.
func (r *releaser) stop() {
	r.mu.Lock()
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.cancel()
	r.sending.Wait()
}
