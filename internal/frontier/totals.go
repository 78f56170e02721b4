package frontier

import (
	"fmt"

	"trawl/internal/contract"
)

// counts are sums over locators and hosts, kept in step by Fold.
type counts struct {
	locators int64
	status   [1000]int64
	refused  map[uint32]int64 // by interned reason, stated by Fetch
	givenUp  map[uint32]int64 // by interned class, tries exhausted
	tooDeep  int64
	manyHops int64
	answered int64
	tries    int64
	bytes    int64
	cut      int64

	pending   int64 // of hosts that are neither parked nor capped
	parkedNew int64 // of parked hosts, without an f
	cappedNew int64
	parked    int64 // hosts
}

// sum adds a locator to the counts (sign +1) or takes it out (-1).
func (s *State) sum(h *host, l *locator, v standing, sign int64) {
	c := &s.counts
	c.tries += sign * int64(l.tries)
	if v.end == unknown {
		return
	}
	c.locators += sign
	switch v.end {
	case fetched:
		c.status[l.status] += sign
		c.answered += sign
		c.bytes += sign * l.bytes
		h.answered += sign
	case refused:
		add(c.refused, l.refusal, sign)
	case tooDeep:
		c.tooDeep += sign
	case manyHops:
		c.manyHops += sign
	case exhausted:
		add(c.givenUp, l.class, sign)
	}
	if l.cut {
		c.cut += sign
	}
	if v.pending {
		h.wanted += sign
		if v.end == open {
			h.wantedNew += sign
		}
	}
}

// sumHost adds what a host makes of its locators to the counts.
func (s *State) sumHost(h *host, sign int64) {
	switch {
	case h.parked:
		s.counts.parked += sign
		s.counts.parkedNew += sign * h.wantedNew
	case s.capped(h):
		s.counts.cappedNew += sign * h.wantedNew
	default:
		s.counts.pending += sign * h.wanted
	}
}

func add(m map[uint32]int64, key uint32, n int64) {
	if m[key] += n; m[key] == 0 {
		delete(m, key)
	}
}

// Totals are the shard's counts. Every locator is in exactly one of Fetched,
// Refused, GivenUp and Pending, except that one that is due once more (lesser
// depth, recrawl) also stays what its last f says. Tries counts the failed
// tries of each locator's last round that had any.
func (s *State) Totals() contract.Totals {
	c := &s.counts
	t := contract.Totals{
		Locators: c.locators, Fetched: c.answered, Pending: c.pending, Tries: c.tries, Bytes: c.bytes,
		Hosts: int64(len(s.hosts)), Parked: c.parked, Spent: c.answered, CutDepth: c.cut,
	}
	for status, n := range c.status {
		if n != 0 {
			t.Status = plus(t.Status, kindOf(status), n)
		}
	}
	for reason, n := range c.refused {
		t.Refused = plus(t.Refused, s.reasons.list[reason], n)
	}
	t.Refused = plus(t.Refused, reasonDepth, c.tooDeep)
	t.Refused = plus(t.Refused, reasonHops, c.manyHops)
	t.Refused = plus(t.Refused, reasonCap, c.cappedNew)
	for class, n := range c.givenUp {
		t.GivenUp = plus(t.GivenUp, s.classes.list[class], n)
	}
	t.GivenUp = plus(t.GivenUp, classParked, c.parkedNew)
	return t
}

func plus(m map[string]int64, key string, n int64) map[string]int64 {
	if n == 0 {
		return m
	}
	if m == nil {
		m = map[string]int64{}
	}
	m[key] += n
	return m
}

// kindOf groups statuses by their first digit, but for the two that mean that
// a page is gone.
func kindOf(status int) string {
	if status == 404 || status == 410 {
		return fmt.Sprint(status)
	}
	return fmt.Sprintf("%dxx", status/100)
}
