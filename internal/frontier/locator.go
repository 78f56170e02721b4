package frontier

// locator is what the last values of a URL's keys say, unpacked.
type locator struct {
	found bool   // a d fact is present
	depth uint32 // least depth of the d facts; without any, that of the f fact
	hop   uint32 // of the d fact with the least depth

	fetched bool   // an f fact is present
	status  uint32 // its HTTP status; 0 if refused
	refusal uint32 // its reason, interned
	cut     bool   // depth cut its links
	bytes   int64
	round   uint32 // its round
	recrawl int64  // its next due, unix ms; 0: none within the horizon

	tryRound uint32 // the t fact with the greatest round and number; 0: none
	tries    uint32
	class    uint32 // interned
	retry    int64  // its next due, unix ms
}

// wide holds locators that do not fit into a word: those with tries, later
// rounds, or pages of 2 MiB and more. They are few.
type wide map[uint64]locator

// The word of a locator, 48 bits.
const (
	bitFound   = 1 << 0
	bitFetched = 1 << 1
	bitWide    = 1 << 2
	bitCut     = 1 << 3
	bitRefused = 1 << 4
	outcomeAt  = 5 // 10 bits: status, or the interned reason
	hopAt      = 15
	depthAt    = 19 // 8 bits
	bytesAt    = 27 // 21 bits
)

// pack fits a locator into a word if it can.
func (l *locator) pack() (word uint64, ok bool) {
	if l.hop > 15 || l.depth > 255 || l.bytes >= 1<<21 || l.round > 1 || l.recrawl != 0 || l.tryRound != 0 {
		return bitWide, false
	}
	word = uint64(l.hop)<<hopAt | uint64(l.depth)<<depthAt | uint64(l.bytes)<<bytesAt
	if l.found {
		word |= bitFound
	}
	if l.fetched {
		word |= bitFetched
	}
	if l.cut {
		word |= bitCut
	}
	if l.refusal != 0 {
		return word | bitRefused | uint64(l.refusal)<<outcomeAt, true
	}
	return word | uint64(l.status)<<outcomeAt, true
}

func unpack(word uint64) locator {
	l := locator{
		found: word&bitFound != 0, fetched: word&bitFetched != 0, cut: word&bitCut != 0,
		hop: uint32(word >> hopAt & 15), depth: uint32(word >> depthAt & 255), bytes: int64(word >> bytesAt & (1<<21 - 1)),
	}
	outcome := uint32(word >> outcomeAt & 1023)
	if word&bitRefused != 0 {
		l.refusal = outcome
	} else {
		l.status = outcome
	}
	if l.fetched {
		l.round = 1
	}
	return l
}

// ending says where a locator stands, as far as its own facts tell.
type ending uint8

const (
	unknown   ending = iota // neither found nor fetched
	open                    // has no end
	fetched                 // has an HTTP status
	refused                 // by Fetch
	tooDeep                 // refused by the fold
	manyHops                // refused by the fold
	exhausted               // given up after its last allowed try
)

// Reasons and classes that the fold gives.
const (
	reasonDepth = "depth"
	reasonHops  = "hops"
	reasonCap   = "host-cap"
	classParked = "parked"
)

// maxHops is the number of redirects at which a locator is refused.
const maxHops = 10

// standing is a locator under the limits of the crawl.
type standing struct {
	end     ending // fetched and refused also while another round is pending
	pending bool   // wants a request, unless its host is parked or capped
	round   uint32
	try     uint32 // tries of this round that failed
	due     int64  // unix ms; 0: at once
}

// standing applies the rules of DESIGN section 3 to the facts of a locator.
func (s *State) standing(l *locator) standing {
	v := standing{round: 1, end: open, pending: true}
	if !l.found && !l.fetched {
		return standing{}
	}
	if l.fetched {
		v.end = fetched
		if l.refusal != 0 {
			v.end = refused
		}
		switch {
		case l.cut && s.within(l.depth+1):
			v.round = l.round + 1
		case l.recrawl != 0:
			v.round, v.due = l.round+1, l.recrawl
		default:
			v.round, v.pending = l.round, false
			return v
		}
	}
	verdict := v.end
	switch {
	case l.hop >= maxHops:
		verdict = manyHops
	case !s.within(l.depth):
		verdict = tooDeep
	}
	if l.tryRound == v.round {
		v.try, v.due = l.tries, l.retry
		if verdict == v.end && v.try >= s.maxTries {
			verdict = exhausted
		}
	}
	v.pending = verdict == v.end
	if v.end == open {
		v.end = verdict
	}
	return v
}

// within says whether the crawl goes to this depth.
func (s *State) within(depth uint32) bool {
	return s.options.Depth < 0 || int64(depth) <= int64(s.options.Depth)
}

func (s *State) load(hash uint64) locator {
	word := s.seen.get(hash)
	if word&bitWide != 0 {
		return s.wide[hash]
	}
	return unpack(word)
}

func (s *State) store(hash uint64, l *locator) {
	word, fits := l.pack()
	s.seen.put(hash, word)
	if !fits {
		s.wide[hash] = *l
	} else if len(s.wide) > 0 {
		delete(s.wide, hash)
	}
}

// live says whether a pending record still stands for a request to make.
func (s *State) live(r record) (v standing, l locator, ok bool) {
	l = s.load(r.hash)
	v = s.standing(&l)
	return v, l, v.pending && v.due == r.due
}

// names interns the few reasons and classes there are; index 0 is none.
type names struct {
	index map[string]uint32
	list  []string
}

// maxNames keeps an index in the bits of a word; what comes later is "other".
const maxNames = 1000

func newNames() names { return names{index: map[string]uint32{}, list: []string{""}} }

func (n *names) of(b []byte) uint32 {
	if len(b) == 0 {
		b = []byte("unknown")
	}
	if i, ok := n.index[string(b)]; ok {
		return i
	}
	name := string(b)
	if len(n.list) >= maxNames {
		name = "other"
		if i, ok := n.index[name]; ok {
			return i
		}
	}
	i := uint32(len(n.list))
	n.index[name] = i
	n.list = append(n.list, name)
	return i
}
