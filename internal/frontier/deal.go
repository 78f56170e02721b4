package frontier

import (
	"cmp"
	"container/heap"
	"math"
	"math/bits"
	"slices"
	"time"

	"trawl/internal/contract"
)

const (
	// crumb: fewer locators of a split host are left to grow while other parts
	// of it are open.
	crumb = 20
	// partTarget: parts of a split host are dealt together until they have so
	// many locators.
	partTarget = 100
	// fewParts: a split host of more parts, each worth one request at once, has
	// them dealt by two: so many batches use it to the full, and more of them
	// take memory and flush less at a time.
	fewParts = 8
	// maxProbes bounds the hosts that Deal looks at to set More.
	maxProbes = 256
	// maxMisfits bounds the hosts that a batch passes over for their tempo.
	maxMisfits = 2048

	itemBytes = 40  // of an item in JSON without its path
	hostBytes = 140 // of a host without its name
)

// Deal chooses the next batch at the time now, or says why there is none. It
// remembers nothing of what it gives: asked again with the same input it gives
// the same locators. The caller fills End and LostTail and handles MayWait,
// and looks at Err afterwards.
func (s *State) Deal(now time.Time, in contract.ExpandInput) contract.ExpandResult {
	res := contract.ExpandResult{Verdict: contract.VerdictLater, Totals: s.Totals()}
	if s.err != nil {
		return res
	}
	ms := now.UnixMilli()
	if s.err = s.advance(ms); s.err != nil {
		return res
	}
	d := dealing{s: s, in: in, now: ms, room: s.options.BatchLocators, holds: map[int]int64{}}
	for _, h := range in.Holds {
		for _, slot := range h.Slots {
			d.holds[slot] = h.MS
		}
	}
	granted := int64(math.MaxInt64)
	if in.Grant.Number > 0 {
		granted = in.Grant.Total - res.Totals.Spent - in.OpenLocators
	}
	working := in.OpenBatches > 0 || in.OpenLocators > 0
	switch {
	case res.Totals.Pending == 0 && !working:
		res.Verdict = contract.VerdictIdle
	case res.Totals.Pending > 0 && granted <= 0 && !working:
		res.Verdict = contract.VerdictStarved
	case res.Totals.Pending > 0 && granted > 0 && in.OpenBatches < contract.MaxOpenBatches:
		d.room = int(min(int64(d.room), granted))
		d.fillAny()
	}
	if d.locators > 0 {
		res.Verdict, res.Batch = contract.VerdictBatch, d.batch()
		res.More = in.OpenBatches+1 < contract.MaxOpenBatches && granted > int64(d.locators) && d.more()
	}
	res.NextDue = s.nextDue()
	if err := s.pool.trim(); d.err == nil {
		d.err = err
	}
	if s.err = d.err; s.err != nil {
		return contract.ExpandResult{Verdict: contract.VerdictLater, Totals: res.Totals}
	}
	return res
}

// nextDue is a time before which nothing else comes due; zero if nothing will.
func (s *State) nextDue() time.Time {
	for len(s.later.heap) > 0 {
		d := s.later.heap[0]
		if _, _, live := s.live(d.record); live && !s.hosts[d.host].parked {
			break
		}
		heap.Pop(&s.later.heap)
	}
	for len(s.blocked) > 0 && (!s.blocked[0].host.waiting || s.blocked[0].host.parked) {
		heap.Pop(&s.blocked)
	}
	at, ok := s.later.next()
	if len(s.blocked) > 0 && (!ok || s.blocked[0].until < at) {
		at, ok = s.blocked[0].until, true
	}
	if !ok {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}

// dealing is one Deal under way.
type dealing struct {
	s     *State
	in    contract.ExpandInput
	now   int64
	room  int           // locators that still fit
	holds map[int]int64 // ms that a slot still cools
	loss  int           // only slots that lost so many Fetches; 0: those that lost fewer than two

	dealt    []dealtHost
	tempo    tempo // of the hosts dealt
	misfits  int
	bytes    int
	locators int
	full     bool
	around   []*host // of the slot that is visited
	err      error
}

// dealtHost is the share of one host in a batch.
type dealtHost struct {
	host  *host
	slots []int
	part  int // 0: whole; else 1 + the first part
	share int // parallelism
	items []dealtItem
}

type dealtItem struct {
	scheme byte
	item   contract.Item
}

func has(set contract.SlotSet, slot int) bool {
	return slot>>3 < len(set) && set[slot>>3]&(1<<(slot&7)) != 0
}

func (d *dealing) busy(slot int) bool { return has(d.in.Busy, slot) }

// split: a part of some host is open in the slot, or it cools for one.
func (d *dealing) split(slot int) bool { return d.busy(slot) && !has(d.in.Whole, slot) }

// fits says whether a free slot belongs to this pass.
func (d *dealing) fits(slot int) bool {
	lost := d.in.Lost[slot]
	if lost < 2 {
		lost = 0
	}
	return !d.busy(slot) && lost == d.loss
}

// fillAny takes hosts of one kind only: fast ones, slow ones, or those over
// which Fetches were lost. The number of the batch turns their order, so that
// none waits for ever.
func (d *dealing) fillAny() {
	normal := []func(){func() { d.fill(fast) }, func() { d.fill(slow) }}
	passes := normal
	for _, loss := range d.losses() {
		passes = append(passes, func() {
			d.loss = loss
			d.fill(fast)
			d.fill(slow)
			d.halve()
			d.loss = 0
		})
	}
	switch turn := d.in.Number & 3; {
	case turn == 3:
		passes[0], passes[1] = passes[1], passes[0]
	case turn == 1 && len(passes) > len(normal):
		passes = append(slices.Clone(passes[len(normal):]), passes[:len(normal)]...)
	}
	for _, pass := range passes {
		if pass(); d.locators > 0 || d.err != nil {
			return
		}
	}
}

// losses are the counts of lost Fetches that make a difference, greatest first.
func (d *dealing) losses() []int {
	var counts []int
	for slot, n := range d.in.Lost {
		if n >= 2 && !d.busy(slot) {
			counts = append(counts, n)
		}
	}
	slices.SortFunc(counts, func(a, b int) int { return cmp.Compare(b, a) })
	return slices.Compact(counts)
}

// fill visits the slots with hosts of a lane, beginning anywhere: the number
// of the batch decides, so the answer is a function of the input.
func (d *dealing) fill(lane int) {
	l := &d.s.ready[lane]
	start := int(mix(uint64(d.in.Number)) % uint64(len(l.set)))
	for i := range l.set {
		word := (start + i) % len(l.set)
		for set := l.set[word]; set != 0 && !d.full; set &= set - 1 {
			slot := word*64 + bits.TrailingZeros64(set)
			if !d.busy(slot) {
				d.fillSlot(l.slots[slot])
			}
		}
		if d.full || d.err != nil {
			return
		}
	}
}

// fillSlot deals the hosts of a slot together. It works on a copy because
// hosts without work leave the list.
func (d *dealing) fillSlot(hosts []*host) {
	if d.loss == 0 && !d.suits(hosts) {
		return
	}
	if len(hosts) > 1 && d.locators > 0 && d.demand(hosts) > d.room {
		d.full = true // lest one of them waits for the batch of the other
		return
	}
	d.around = append(d.around[:0], hosts...)
	n := len(d.around)
	first := int(uint64(d.in.Number) % uint64(n))
	for i := range n {
		if d.full || d.err != nil {
			return
		}
		d.take(d.around[(first+i)%n])
	}
}

func (d *dealing) take(h *host) {
	s := d.s
	if h.until > d.now {
		s.unlist(h)
		h.waiting = true
		heap.Push(&s.blocked, blockedHost{h.until, h})
		return
	}
	parts := s.parts(h, d.now)
	if parts > 1 && d.earlierOpen(h, parts, d.split) {
		return
	}
	if parts == 1 || (h.wanted < partTarget && d.fits(h.slot) && d.wholeFree(h, d.busy, d.split)) {
		d.takeWhole(h) // a host with little to ask for is not worth many slots
	} else {
		d.takeParts(h, parts)
	}
	if h.listed && h.empty() {
		s.unlist(h)
	}
}

// allowance is how many locators of a host go into one batch.
func (d *dealing) allowance(h *host) int {
	o := &d.s.options
	n := d.room
	if delay := d.s.delay(h); delay > 0 {
		n = min(n, d.inTime(h, delay))
	}
	if h.streak > 0 && o.HostErrors > 0 {
		n = min(n, max(1, o.HostErrors-h.streak)) // then it is parked
	}
	if o.PagesPerHost > 0 {
		n = min(n, int(min(o.PagesPerHost-h.answered, int64(n))))
	}
	return n
}

// A tempo tells hosts apart that would hold each other up in a batch: by how
// long their shares last, and by their delays, of which the longest is what all
// slots of the batch cool. Both are powers of two.
type tempo struct{ lasts, delay int }

func (d *dealing) tempoOf(h *host) tempo {
	delay := d.s.delay(h)
	if delay <= 0 {
		return tempo{}
	}
	n := min(int64(d.inTime(h, delay)), max(1, h.wanted))
	return tempo{bits.Len64(uint64(n*delay+d.holds[h.slot]) / 1000), 1 + bits.Len64(uint64(delay)/500)}
}

// demand is how many locators the hosts of a slot would get, were there room.
func (d *dealing) demand(hosts []*host) (n int) {
	for _, h := range hosts {
		n += int(min(int64(d.allowance(h)), h.wanted))
	}
	return n
}

// suits says whether the hosts of a slot, which are dealt together, go well with
// those that the batch has; the first ones set the tempo. After many that do
// not, the batch is full as it is.
func (d *dealing) suits(hosts []*host) bool {
	var t tempo
	for _, h := range hosts {
		of := d.tempoOf(h)
		t = tempo{max(t.lasts, of.lasts), max(t.delay, of.delay)}
	}
	if d.locators == 0 || t == d.tempo {
		d.tempo = t
		return true
	}
	d.misfits++
	d.full = d.full || d.misfits >= maxMisfits
	return false
}

// inTime is how many requests to a host fit a time box: at least one.
func (d *dealing) inTime(h *host, delay int64) int {
	return int(max(1, (d.s.options.TimeBox.Milliseconds()-d.holds[h.slot])/delay))
}

// wholeFree: neither the host nor any part that it may have is open.
func (d *dealing) wholeFree(h *host, busy, split func(int) bool) bool {
	return !busy(h.slot) && !d.earlierOpen(h, 0, split)
}

// earlierOpen: a part of the host from this one on is open. Parts that this
// spec does not make may be open of an earlier one (set-rate).
func (d *dealing) earlierOpen(h *host, from int, split func(int) bool) bool {
	for part := from; part < d.s.everParts(); part++ {
		if split(PartSlot(h.name, part)) {
			return true
		}
	}
	return false
}

func (d *dealing) takeWhole(h *host) {
	if !d.fits(h.slot) || !d.wholeFree(h, d.busy, d.split) {
		return
	}
	share := dealtHost{host: h, slots: []int{h.slot}, share: d.s.options.Parallelism}
	if d.s.laneOf(h) == slow {
		// A careful batch of it may make no request: the marks of its parts must
		// go with the batch, lest it never make one.
		share.slots = append(share.slots, d.carefulParts(h)...)
	}
	left := d.allowance(h)
	for i, q := range h.queues {
		if q == nil {
			continue
		}
		quota := (left + len(h.queues) - i - 1) / (len(h.queues) - i)
		left -= d.collect(&share, q, quota)
	}
	d.add(share)
}

// carefulParts are the careful slots of a host's parts, but for those that cool
// for other hosts.
func (d *dealing) carefulParts(h *host) (slots []int) {
	if len(d.in.Careful) == 0 {
		return nil
	}
	for part := range d.s.everParts() {
		if slot := PartSlot(h.name, part); has(d.in.Careful, slot) && !d.busy(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// takeParts deals as many parts as make a batch worth its while. While other
// parts are open a crumb is left to grow.
func (d *dealing) takeParts(h *host, parts int) {
	open := false
	share := dealtHost{host: h}
	each := max(1, d.s.options.Parallelism/parts)
	free := func(part int) bool {
		return part < len(h.queues) && h.queues[part] != nil && !h.queues[part].empty() && d.fits(PartSlot(h.name, part))
	}
	together := d.together(parts, each, free)
	left := d.allowance(h)
	bytes := d.bytes
	for i := range parts {
		part := (int(d.in.Number%int64(parts)) + parts + i) % parts
		slot := PartSlot(h.name, part)
		open = open || d.busy(slot)
		if left <= 0 || len(share.items) >= partTarget && len(share.slots) >= together || !free(part) {
			continue
		}
		missing := max(1, together-len(share.slots))
		n := d.collect(&share, h.queues[part], (left+missing-1)/missing)
		if n == 0 {
			continue
		}
		left -= n
		share.slots = append(share.slots, slot)
		share.share += each
		if share.part == 0 {
			share.part = part + 1
		}
		if d.loss > 0 {
			break // the halves are to lie in slots of their own
		}
	}
	if open && d.in.OpenBatches > 0 && len(share.items) < crumb && d.loss == 0 && !d.full {
		d.bytes = bytes
		return
	}
	d.add(share)
}

// together is how many parts of a host a batch is to have, if it is full.
func (d *dealing) together(parts, each int, free func(part int) bool) int {
	if each > 1 || parts <= fewParts || d.loss > 0 {
		return 1
	}
	n := 0
	for part := 0; part < parts && n < 2; part++ {
		if free(part) {
			n++
		}
	}
	return max(1, n)
}

// collect takes up to n live records that are not in the batch yet.
func (d *dealing) collect(share *dealtHost, q pending, n int) (got int) {
	if n <= 0 || d.err != nil {
		return 0
	}
	// What was collected is marked when it is added; two live records of one
	// locator can only meet in the same queue.
	mine := map[uint64]bool{}
	d.err = q.visit(func(r record) step {
		v, l, live := d.s.live(r)
		if !live || mine[r.hash] {
			return drop
		}
		if d.full || got >= n {
			return stop
		}
		it := itemOf(r.blob, v, &l)
		cost := jsonBytes(it.item.Path) + len(it.item.ETag) + len(it.item.LastModified) + itemBytes
		if len(share.items) == 0 {
			cost += hostBytes + len(share.host.name)
		}
		if d.bytes+cost > d.s.options.BatchBytes && d.bytes > 0 {
			d.full = true
			return stop
		}
		mine[r.hash] = true
		d.bytes += cost
		share.items = append(share.items, it)
		got++
		return keep
	})
	return got
}

func (d *dealing) add(share dealtHost) {
	n := len(share.items)
	if n == 0 {
		return
	}
	d.dealt = append(d.dealt, share)
	d.locators += n
	d.room -= n
	d.full = d.full || d.room <= 0
}

// halve cuts a batch over slots that lost Fetches: by half for each loss from
// the second on, down to one locator.
func (d *dealing) halve() {
	if d.locators == 0 {
		return
	}
	n := max(1, d.locators>>min(d.loss-1, 30))
	d.locators = n
	for i := range d.dealt {
		items := &d.dealt[i].items
		if *items = (*items)[:min(n, len(*items))]; d.locators == 1 && n == 1 {
			(*items)[0].item.StateTry = true
		}
		if n -= len(*items); n == 0 {
			d.dealt = d.dealt[:i+1]
			return
		}
	}
}
