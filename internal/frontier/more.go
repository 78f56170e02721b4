package frontier

import (
	"math/bits"
	"time"

	"trawl/internal/contract"
)

const (
	maxTogether     = 8 // batches of one answer, 128 KiB each
	batchesTogether = 3 // full batches of one answer
)

// DealAll deals batch after batch while there is more, as if it were asked again
// for each: hosts of many tempos are not kept waiting for a round of messages
// each. Bounded in count and size.
func (s *State) DealAll(now time.Time, in contract.ExpandInput) contract.ExpandResult {
	res := s.Deal(now, in)
	if res.Batch == nil {
		return res
	}
	last, locators := *res.Batch, res.Batch.Locators
	for res.More && len(res.Further)+1 < maxTogether && locators < batchesTogether*s.options.BatchLocators {
		in = opened(in, last)
		next := s.Deal(now, in)
		res.NextDue, res.More = next.NextDue, next.More
		if next.Batch == nil {
			break
		}
		last = *next.Batch
		locators += last.Locators
		res.Further = append(res.Further, last)
	}
	return res
}

// opened is what the shard asks next, with a batch open.
func opened(in contract.ExpandInput, b contract.Batch) contract.ExpandInput {
	busy := make(contract.SlotSet, contract.Slots/8)
	copy(busy, in.Busy)
	for _, slot := range b.Slots {
		busy[slot>>3] |= 1 << (slot & 7)
	}
	in.Busy = busy
	in.Number++
	in.OpenBatches++
	in.OpenLocators += int64(b.Locators)
	return in
}

// more says whether another Deal now would give a batch, too.
func (d *dealing) more() bool {
	opened := map[int]bool{}
	for _, share := range d.dealt {
		for _, slot := range share.slots {
			opened[slot] = true
		}
	}
	busy := func(slot int) bool { return opened[slot] || d.busy(slot) }
	probes := 0
	for lane := range d.s.ready {
		l := &d.s.ready[lane]
		for word, set := range l.set {
			for ; set != 0; set &= set - 1 {
				slot := word*64 + bits.TrailingZeros64(set)
				if busy(slot) {
					continue
				}
				for _, h := range l.slots[slot] {
					if probes++; probes > maxProbes || d.err != nil {
						return false
					}
					if d.wants(h, busy) {
						return true
					}
				}
			}
		}
	}
	return false
}

// wants says whether a host would be dealt with these slots busy.
func (d *dealing) wants(h *host, busy func(int) bool) bool {
	if h.until > d.now {
		return false
	}
	parts := d.s.parts(h, d.now)
	if parts == 1 {
		return d.wholeFree(h, busy) && d.live(h.queues, 1) == 1
	}
	if d.earlierOpen(h, parts, busy) {
		return false
	}
	least, n := 1, 0
	for part := range parts {
		if busy(PartSlot(h.name, part)) {
			least = crumb
		}
	}
	for part := 0; part < parts && part < len(h.queues) && n < least; part++ {
		if !busy(PartSlot(h.name, part)) {
			n += d.live(h.queues[part:part+1], least-n)
		}
	}
	return n >= least
}

// live counts live records, up to most.
func (d *dealing) live(queues []pending, most int) (n int) {
	for _, q := range queues {
		if q == nil || n >= most || d.err != nil {
			continue
		}
		d.err = q.visit(func(r record) step {
			if _, _, live := d.s.live(r); !live {
				return drop
			}
			if n++; n >= most {
				return stop
			}
			return keep
		})
	}
	return n
}
