package workflows

import (
	"slices"
	"time"

	"trawl/internal/contract"
)

// slots is the durable politeness between batches: which slots of a shard are
// open or cooling, which are careful, and how often Fetches over them were lost.
type slots struct {
	open    map[int]bool
	cooling map[int]time.Time
	coolAll time.Time // every slot cools until then
	careful contract.SlotSet
	lost    map[int]int
	whole   contract.SlotSet // slots that are open or cool for whole hosts only
}

func newSlots() *slots {
	return &slots{open: map[int]bool{}, cooling: map[int]time.Time{}, lost: map[int]int{}}
}

// beginCareful is for a run whose predecessor did not complete.
func (s *slots) beginCareful(now time.Time) {
	s.coolAll = now.Add(CarefulCooling)
	s.careful = make(contract.SlotSet, contract.Slots/8)
	for i := range s.careful {
		s.careful[i] = 0xff
	}
}

// take opens the slots of a batch. Its hosts carry the care, so the mark goes.
// A slot that still cools for a part of a host stays one of parts.
func (s *slots) take(b contract.Batch, now time.Time) {
	cools := map[int]bool{}
	for _, slot := range b.Slots {
		cools[slot] = now.Before(s.cooling[slot]) && !isSet(s.whole, slot)
		s.open[slot] = true
		clear1(s.careful, slot)
		clear1(s.whole, slot)
	}
	for _, slot := range b.Whole {
		if !cools[slot] {
			s.whole = set1(s.whole, slot)
		}
	}
}

// answered closes the slots of a Fetch that gave its result.
func (s *slots) answered(batch []int, now time.Time, delay time.Duration) {
	for _, slot := range batch {
		delete(s.open, slot)
		delete(s.lost, slot)
		if delay > 0 {
			s.cooling[slot] = later(s.cooling[slot], now.Add(delay))
		}
	}
}

// silent closes the slots of a Fetch that gave no answer. counted: it was lost
// to a heartbeat or StartToClose time-out.
func (s *slots) silent(batch []int, now time.Time, counted bool) {
	for _, slot := range batch {
		delete(s.open, slot)
		s.cooling[slot] = now.Add(CarefulCooling)
		s.careful = set1(s.careful, slot)
		if counted {
			s.lost[slot]++
		}
	}
}

// unused closes the slots of a Fetch that no worker ever began. They may have
// been careful, and nobody has waited since.
func (s *slots) unused(batch []int) {
	for _, slot := range batch {
		delete(s.open, slot)
		s.careful = set1(s.careful, slot)
	}
}

// busy is the bitmap of open slots, and of those that cool for longer than a
// Fetch may hold them; what has cooled is forgotten.
func (s *slots) busy(now time.Time) contract.SlotSet {
	if now.Before(s.coolAll) {
		all := make(contract.SlotSet, contract.Slots/8)
		for i := range all {
			all[i] = 0xff
		}
		return all
	}
	var b contract.SlotSet
	for _, slot := range sortedKeys(s.open) {
		b = set1(b, slot)
	}
	for _, slot := range sortedKeys(s.cooling) {
		if !now.Before(s.cooling[slot]) {
			delete(s.cooling, slot)
			continue
		}
		if !s.holdable(slot, now) {
			b = set1(b, slot)
		}
	}
	return b
}

// holdable: the slot cools for so short a time that a Fetch can wait for it.
// Temporal's timers are up to a second late; a wait in the Fetch is not. What
// is careful cools here: nobody knows when its hosts were asked last.
func (s *slots) holdable(slot int, now time.Time) bool {
	return !s.cooling[slot].After(now.Add(holdMost)) && !now.Before(s.coolAll) && !isSet(s.careful, slot)
}

// holds are the slots that are not open and cool for a short time, by what is
// left of it.
func (s *slots) holds(now time.Time) (list []contract.Hold) {
	byEnd := map[int64]*contract.Hold{}
	var ends []int64
	for _, slot := range sortedKeys(s.cooling) {
		until := s.cooling[slot]
		if s.open[slot] || !now.Before(until) || !s.holdable(slot, now) {
			continue
		}
		ms := (until.Sub(now) + time.Millisecond - 1).Milliseconds()
		h := byEnd[ms]
		if h == nil {
			h = &contract.Hold{MS: ms}
			byEnd[ms] = h
			ends = append(ends, ms)
		}
		h.Slots = append(h.Slots, slot)
	}
	slices.Sort(ends)
	for _, ms := range ends {
		list = append(list, *byEnd[ms])
	}
	return list
}

// dealable is when the next slot that cools may be dealt with a hold.
func (s *slots) dealable(now time.Time) (next time.Time, any bool) {
	if now.Before(s.coolAll) {
		return s.coolAll, true
	}
	for _, slot := range sortedKeys(s.cooling) {
		at := s.cooling[slot]
		if !isSet(s.careful, slot) {
			at = at.Add(-holdMost)
		}
		if now.Before(at) && (!any || at.Before(next)) {
			next, any = at, true
		}
	}
	return next, any
}

// cools says whether any slot cools, and when the next one ends.
func (s *slots) cools(now time.Time) (next time.Time, any bool) {
	if now.Before(s.coolAll) {
		return s.coolAll, true
	}
	for _, slot := range sortedKeys(s.cooling) {
		until := s.cooling[slot]
		if !now.Before(until) {
			continue
		}
		if !any || until.Before(next) {
			next, any = until, true
		}
	}
	return next, any
}

func set1(b contract.SlotSet, slot int) contract.SlotSet {
	if b == nil {
		b = make(contract.SlotSet, contract.Slots/8)
	}
	b[slot>>3] |= 1 << (slot & 7)
	return b
}

func clear1(b contract.SlotSet, slot int) {
	if b != nil {
		b[slot>>3] &^= 1 << (slot & 7)
	}
}

func isSet(b contract.SlotSet, slot int) bool { return b != nil && b[slot>>3]&(1<<(slot&7)) != 0 }

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m { //workflowcheck:ignore sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
