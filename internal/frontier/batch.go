package frontier

import (
	"slices"
	"strings"

	"trawl/internal/contract"
)

// batch is what was dealt, as the contract wants it.
func (d *dealing) batch() *contract.Batch {
	b := &contract.Batch{Number: d.in.Number, TimeBox: d.s.options.TimeBox, Locators: d.locators, HostCount: len(d.dealt)}
	for i := range d.dealt {
		b.Slots = append(b.Slots, d.dealt[i].slots...)
		b.Hosts = append(b.Hosts, d.hosts(&d.dealt[i])...)
	}
	slices.Sort(b.Slots)
	b.Slots = slices.Compact(b.Slots)
	return b
}

// hosts gives the share of a host by scheme.
func (d *dealing) hosts(share *dealtHost) []contract.BatchHost {
	h := share.host
	careful := has(d.in.Careful, h.slot)
	for _, slot := range share.slots {
		careful = careful || has(d.in.Careful, slot)
	}
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
			Streak: h.streak, Part: share.part, Careful: careful, Items: items,
		})
	}
	return out
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
