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
	in.Whole = taken(in, b)
	in.Busy = busy
	in.Number++
	in.OpenBatches++
	in.OpenLocators += int64(b.Locators)
	return in
}

// taken is Whole with a batch open. A slot that still cools for a part is in its
// way whoever takes it.
func taken(in contract.ExpandInput, b contract.Batch) contract.SlotSet {
	whole := make(contract.SlotSet, contract.Slots/8)
	copy(whole, in.Whole)
	parts := map[int]bool{}
	for _, h := range in.Holds {
		for _, slot := range h.Slots {
			parts[slot] = !has(in.Whole, slot)
		}
	}
	for _, slot := range b.Slots {
		whole[slot>>3] &^= 1 << (slot & 7)
	}
	for _, slot := range b.Whole {
		if !parts[slot] {
			whole[slot>>3] |= 1 << (slot & 7)
		}
	}
	return whole
}

// more says whether another Deal now would give a batch, too.
func (d *dealing) more() bool {
	in := opened(d.in, contract.Batch{Slots: d.slots(), Whole: d.whole()})
	busy := func(slot int) bool { return has(in.Busy, slot) }
	split := func(slot int) bool { return has(in.Busy, slot) && !has(in.Whole, slot) }
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
					if d.wants(h, busy, split) {
						return true
					}
				}
			}
		}
	}
	return false
}

// wants says whether a host would be dealt with these slots busy, and these for
// parts of hosts.
func (d *dealing) wants(h *host, busy, split func(int) bool) bool {
	if h.until > d.now {
		return false
	}
	parts := d.s.parts(h, d.now)
	if parts == 1 {
		return d.wholeFree(h, busy, split) && d.live(h.queues, 1) == 1
	}
	if d.earlierOpen(h, parts, split) {
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
