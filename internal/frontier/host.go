package frontier

import (
	"slices"
)

// host is what the last values of a host's keys say, and its pending URLs.
type host struct {
	name string
	id   int // index in State.hosts
	slot int

	streak   int
	parked   bool
	reason   string  // why it is parked
	blocks   []block // one per part that ever stated one
	until    int64   // the latest of them, unix ms
	robotsAt int64   // offset of the robots fact; -1: none
	expiry   int64   // of the robots rules, unix ms
	crawl    int64   // Crawl-delay, ms

	wanted    int64 // locators that want a request, were it not for the host
	wantedNew int64 // those of them that have no f
	answered  int64 // locators with an HTTP status

	queues  []pending // one, or one per part; nil until first used
	listed  bool      // in the list of its slot
	at      int       // index there
	lane    int       // list it is in: fast or slow
	waiting bool      // in the heap of blocked hosts
}

type block struct {
	part  uint32
	until int64
}

const (
	fast = iota
	slow
	lanes
)

// maxCrawlDelay caps what robots.txt may ask for, ms.
const maxCrawlDelay = 60_000

func (h *host) empty() bool {
	for _, q := range h.queues {
		if q != nil && !q.empty() {
			return false
		}
	}
	return true
}

// setBlock takes the last value of one part.
func (h *host) setBlock(part uint32, until int64) {
	i := slices.IndexFunc(h.blocks, func(b block) bool { return b.part == part })
	switch {
	case i >= 0:
		h.blocks[i].until = until
	case len(h.blocks) < 2*MaxParts:
		h.blocks = append(h.blocks, block{part, until})
	default:
		return // no Fetch states so many parts
	}
	h.until = 0
	for _, b := range h.blocks {
		h.until = max(h.until, b.until)
	}
}

// delay between two requests, ms.
func (s *State) delay(h *host) int64 { return max(s.options.Delay.Milliseconds(), h.crawl) }

// lane of a host: those that would hold up the others are dealt apart.
func (s *State) laneOf(h *host) int {
	if h.streak > 0 || s.delay(h)*2 >= s.options.TimeBox.Milliseconds() {
		return slow
	}
	return fast
}

// parts says into how many parts a host is split at this time; 1: not split.
func (s *State) parts(h *host, now int64) int {
	if s.queues < 2 || h.crawl > 0 || len(h.blocks) > 0 {
		return 1
	}
	if !s.options.IgnoreRobots && (h.robotsAt < 0 || h.expiry <= now) {
		return 1
	}
	return s.queues
}

// everParts is how many parts of a host may be open, of whichever spec of the
// generation.
func (s *State) everParts() int {
	switch {
	case !s.options.FirstSpec:
		return MaxParts
	case s.queues > 1:
		return s.queues
	}
	return 0
}

// capped says whether the host had all the pages that it may have.
func (s *State) capped(h *host) bool {
	return s.options.PagesPerHost > 0 && h.answered >= s.options.PagesPerHost
}

// hostOf finds the host of a fact; nil if it belongs to another shard.
func (s *State) hostOf(name []byte) *host {
	if s.last != nil && s.last.name == string(name) {
		return s.last
	}
	h, ok := s.byName[string(name)]
	if !ok {
		full := string(name)
		if ShardOf(full, s.options.Shards) != s.options.Shard {
			return nil
		}
		h = &host{name: full, id: len(s.hosts), slot: SlotOf(full), robotsAt: -1}
		s.hosts = append(s.hosts, h)
		s.byName[full] = h
	}
	s.last = h
	return h
}

// enlist puts a host with work into the list of its slot, or takes it out.
func (s *State) enlist(h *host) {
	want := !h.parked && !h.waiting && !s.capped(h) && !h.empty()
	lane := s.laneOf(h)
	if h.listed && (!want || lane != h.lane) {
		s.unlist(h)
	}
	if want && !h.listed {
		list := &s.ready[lane].slots[h.slot]
		h.listed, h.lane, h.at = true, lane, len(*list)
		*list = append(*list, h)
		s.ready[lane].set[h.slot/64] |= 1 << (h.slot % 64)
	}
}

func (s *State) unlist(h *host) {
	lane := &s.ready[h.lane]
	list := lane.slots[h.slot]
	end := len(list) - 1
	list[h.at] = list[end]
	list[h.at].at = h.at
	list[end] = nil
	lane.slots[h.slot] = list[:end]
	h.listed = false
	if end == 0 {
		lane.slots[h.slot] = nil
		lane.set[h.slot/64] &^= 1 << (h.slot % 64)
	}
}

// enqueue adds a record to the host's pending URLs of a part.
func (s *State) enqueue(h *host, part int, r record) error {
	if h.parked {
		return nil // for ever: nothing of it will be requested
	}
	if h.queues == nil {
		h.queues = make([]pending, s.queues)
	}
	if h.queues[part] == nil {
		h.queues[part] = s.newPending()
	}
	err := h.queues[part].push(r)
	if !h.listed {
		s.enlist(h)
	}
	return err
}

func (s *State) newPending() pending {
	if s.options.WindowURLs < 0 {
		return &memoryPending{}
	}
	return &spilling{pool: &s.pool}
}
