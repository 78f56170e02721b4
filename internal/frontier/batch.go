package frontier

import (
	"slices"
	"strings"
	"time"

	"trawl/internal/contract"
)

// batch is what was dealt, as the contract wants it.
func (d *dealing) batch() *contract.Batch {
	b := &contract.Batch{Number: d.in.Number, TimeBox: d.s.options.TimeBox, Locators: d.locators, HostCount: len(d.dealt)}
	for i := range d.dealt {
		b.Hosts = append(b.Hosts, d.hosts(&d.dealt[i])...)
	}
	b.Slots, b.Whole = d.slots(), d.whole()
	b.Cool = d.cool(b.Slots)
	return b
}

// slots are those of the hosts dealt, ascending.
func (d *dealing) slots() (list []int) {
	for i := range d.dealt {
		list = append(list, d.dealt[i].slots...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// whole are the slots in which only whole hosts were dealt, ascending; none if
// no host of the crawl is ever split. A careful slot in which a part may have been
// stays one of parts: the batch cools it for all whose part may have been there.
func (d *dealing) whole() (list []int) {
	if d.s.everParts() == 0 {
		return nil
	}
	parts := map[int]bool{}
	for i := range d.dealt {
		for _, slot := range d.dealt[i].slots {
			if d.dealt[i].part > 0 || slot != d.dealt[i].host.slot {
				parts[slot] = true
			}
		}
	}
	for _, slot := range d.slots() {
		if !parts[slot] && (!has(d.in.Careful, slot) || has(d.in.Whole, slot)) {
			list = append(list, slot)
		}
	}
	return list
}

// cool is the greatest delay of the hosts that a careful slot of the batch may
// be careful for, in the batch or not: the mark goes with the batch. 0 if no
// slot is careful.
func (d *dealing) cool(slots []int) time.Duration {
	careful := make(map[int]bool)
	for _, slot := range slots {
		if has(d.in.Careful, slot) {
			careful[slot] = true
		}
	}
	if len(careful) == 0 {
		return 0
	}
	most := d.s.options.Delay.Milliseconds()
	for _, h := range d.s.hosts {
		if delay := d.s.delay(h); delay > most && !h.parked && d.touches(h, careful) {
			most = delay
		}
	}
	return time.Duration(most) * time.Millisecond
}

// touches says that the host, or a part of it, falls into one of the slots.
func (d *dealing) touches(h *host, slots map[int]bool) bool {
	if slots[h.slot] {
		return true
	}
	for part := range d.s.everParts() {
		if slots[PartSlot(h.name, part)] {
			return true
		}
	}
	return false
}

// hosts gives the share of a host by scheme.
func (d *dealing) hosts(share *dealtHost) []contract.BatchHost {
	h := share.host
	careful := has(d.in.Careful, h.slot) || share.part == 0 && len(d.carefulParts(h)) > 0
	for _, slot := range share.slots {
		careful = careful || has(d.in.Careful, slot)
	}
	hold := d.hold(share)
	robotsAt := h.robotsAt
	if h.expiry <= d.now {
		robotsAt = -1
	}
	var out []contract.BatchHost
	for _, scheme := range []string{"https", "http"} {
		var items []contract.Item
		for _, it := range share.items {
			if (it.scheme == 's') == (scheme == "https") {
				items = append(items, it.item)
			}
		}
		if len(items) == 0 {
			continue
		}
		out = append(out, contract.BatchHost{
			Scheme: scheme, Host: h.name, DelayMS: d.s.delay(h), Parallelism: share.share, RobotsAt: robotsAt,
			Streak: h.streak, Part: share.part, Careful: careful, HoldMS: hold, Items: items,
		})
	}
	return out
}

// hold is how long the slots of a share still cool, in ms. A whole host waits
// for all of its parts.
func (d *dealing) hold(share *dealtHost) int64 {
	if len(d.holds) == 0 {
		return 0
	}
	most := d.holds[share.host.slot]
	for _, slot := range share.slots {
		most = max(most, d.holds[slot])
	}
	if share.part == 0 {
		for part := range d.s.everParts() {
			if slot := PartSlot(share.host.name, part); !has(d.in.Whole, slot) {
				most = max(most, d.holds[slot])
			}
		}
	}
	return most
}

// itemOf makes an item of a record. Round 1 is left out, as the contract says.
func itemOf(blob string, v standing, l *locator) dealtItem {
	target, validators, _ := strings.Cut(blob[1:], "\x00")
	etag, modified, _ := strings.Cut(validators, "\x00")
	it := contract.Item{
		Path: target, Depth: int(l.depth), Try: int(v.try), Hop: int(l.hop), ETag: etag, LastModified: modified,
	}
	if v.round > 1 {
		it.Round = int(v.round)
	}
	return dealtItem{blob[0], it}
}

// jsonBytes is the length of a path in JSON as encoding/json writes it.
func jsonBytes(path string) int { return len(path) + 5*strings.Count(path, "&") }
