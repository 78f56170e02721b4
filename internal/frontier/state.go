package frontier

import (
	"container/heap"
	"fmt"
	"hash/maphash"
	"time"

	"trawl/internal/contract"
)

// Options of a shard's state. Whoever changes a limit makes a new State and
// folds again from the start: the rules then find what has come due.
type Options struct {
	Shard, Shards int
	Depth         int // greatest depth; -1: no limit
	Tries         int // failed tries of a round until a locator is given up; 0: 3
	HostErrors    int // errors in a row at which Fetch parks a host; 0: no limit
	PagesPerHost  int64
	Delay         time.Duration // between two requests to a host
	Parallelism   int           // requests to a host at once; 0: 1
	// IgnoreRobots: the crawl asks for no robots.txt, so hosts with delay 0 are
	// split without knowing their rules.
	IgnoreRobots bool
	// FirstSpec: the generation never had another spec, so no host can be open
	// in parts that this one does not make. Otherwise a host is dealt only when
	// the slots of all MaxParts parts are free.
	FirstSpec     bool
	BatchLocators int           // 0: 1,000
	BatchBytes    int           // of a batch in JSON; 0: 128 KiB
	TimeBox       time.Duration // of a batch; 0: 15 s
	// Horizon ends the crawl's recrawling: the next due of an f at or after it
	// does not count. Zero: a one-shot crawl, none counts.
	Horizon time.Time
	// ScratchDir holds the scratch file; empty: the system's.
	ScratchDir string
	// WindowURLs is how many pending URLs the shard keeps in memory; the others
	// are in the scratch file. 0: 65,536; negative: all in memory.
	WindowURLs int
}

func (o Options) withDefaults() Options {
	def := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	def(&o.Shards, 1)
	def(&o.Tries, 3)
	def(&o.Parallelism, 1)
	def(&o.BatchLocators, 1000)
	def(&o.BatchBytes, 128<<10)
	if o.TimeBox <= 0 {
		o.TimeBox = 15 * time.Second
	}
	if o.WindowURLs == 0 {
		o.WindowURLs = 65_536
	}
	o.Delay = max(o.Delay, 0)
	return o
}

// State is what the log of one shard means. It has no lock: one goroutine at a
// time. The zero value is of no use; New makes one, Close gives its scratch
// file back.
type State struct {
	options  Options
	maxTries uint32
	queues   int // per host: the parts that it may be split into

	position int64
	invalid  int64
	foreign  int64
	err      error // of the scratch file; the state is of no use until Reset

	seed   maphash.Seed // of URL hashes, so that no site can make them collide
	seen   table
	wide   wide
	hosts  []*host
	byName map[string]*host
	last   *host // of the fact before

	reasons, classes names
	counts           counts

	pool    pool
	later   later
	blocked blockedHeap
	ready   [lanes]lane
}

// lane holds the hosts with pending URLs that are not blocked, by slot.
type lane struct {
	slots [][]*host
	set   [contract.Slots / 64]uint64
}

// New makes the state of an empty log.
func New(o Options) *State {
	s := &State{options: o.withDefaults(), seed: maphash.MakeSeed()}
	s.maxTries = uint32(min(s.options.Tries, MaxTries))
	s.queues = 1
	// A cap per host needs to know all that is open of it, so it is not split.
	if s.options.Delay == 0 && s.options.PagesPerHost <= 0 {
		s.queues = min(s.options.Parallelism, MaxParts)
	}
	s.pool.scratch.dir = s.options.ScratchDir
	s.empty()
	return s
}

func (s *State) empty() {
	s.position, s.invalid, s.foreign, s.err = 0, 0, 0, nil
	s.seen, s.wide = table{}, wide{}
	s.hosts, s.byName, s.last = nil, map[string]*host{}, nil
	s.reasons, s.classes = newNames(), newNames()
	s.counts = counts{refused: map[uint32]int64{}, givenUp: map[uint32]int64{}}
	s.pool = pool{limit: s.options.WindowURLs, scratch: scratch{dir: s.options.ScratchDir}}
	limit := -1
	if s.options.WindowURLs > 0 {
		limit = max(s.options.WindowURLs/2, 1)
	}
	s.later = later{scratch: &s.pool.scratch, limit: limit, spilled: map[int64]*chain{}}
	s.blocked = nil
	for i := range s.ready {
		s.ready[i] = lane{slots: make([][]*host, contract.Slots)}
	}
}

// Reset forgets everything, as after a lost tail: fold from offset 0 again.
func (s *State) Reset() {
	_ = s.pool.scratch.close() // of an unlinked file: nobody misses what it held
	s.empty()
}

// Close gives the scratch file back. The state is empty afterwards.
func (s *State) Close() error {
	err := s.pool.scratch.close()
	s.empty()
	return err
}

// Position is the next offset to fold; 0 after an error of the scratch file,
// because everything is to be folded again.
func (s *State) Position() int64 {
	if s.err != nil {
		return 0
	}
	return s.position
}

// Skip moves Position up to next: the caller read so far, and what it did not
// fold in between was compacted away.
func (s *State) Skip(next int64) { s.position = max(s.position, next) }

// Invalid counts records that were no valid fact.
func (s *State) Invalid() int64 { return s.invalid }

// Foreign counts facts about hosts of other shards, which are ignored.
func (s *State) Foreign() int64 { return s.foreign }

// Err is an error of the scratch file that a Deal met. From it on Deal answers
// "later"; the next Fold reports it and begins anew, from Position 0.
func (s *State) Err() error { return s.err }

// Fold takes one record of the shard's partition; neither key nor value is
// kept. Records below Position were folded and are skipped; offsets may have
// gaps. A record that is no valid fact is counted and changes nothing. The
// only errors are those of the scratch file: the state is then empty and has
// to be folded again from offset 0, here or on another worker.
func (s *State) Fold(offset int64, key, value []byte) error {
	if s.err != nil {
		return s.fail()
	}
	if offset < s.position {
		return nil
	}
	s.position = offset + 1
	var r raw
	if err := r.decode(key, value); err != nil {
		s.invalid++
		return nil
	}
	if err := s.fold(offset, &r); err != nil {
		s.err = fmt.Errorf("fold offset %d of shard %d: %w", offset, s.options.Shard, err)
		return s.fail()
	}
	return nil
}

func (s *State) fail() error {
	err := s.err
	s.Reset()
	return err
}

func (s *State) fold(offset int64, r *raw) error {
	if r.kind == kindSpec || r.kind == kindSummary {
		return nil
	}
	h := s.hostOf(r.host)
	if h == nil {
		s.foreign++
		return nil
	}
	switch r.kind {
	case kindDiscovered, kindFetched, kindTried:
		return s.foldLocator(h, r)
	}
	return s.foldHost(h, r, offset)
}

// foldLocator applies a d, f or t fact and keeps counts and queues in step.
func (s *State) foldLocator(h *host, r *raw) error {
	hash := maphash.Bytes(s.seed, r.subject)
	was := s.load(hash)
	is := was
	s.apply(&is, r)
	if is == was {
		return nil
	}
	s.store(hash, &is)
	before, after := s.standing(&was), s.standing(&is)
	s.sumHost(h, -1)
	capped := s.capped(h)
	s.sum(h, &was, before, -1)
	s.sum(h, &is, after, +1)
	s.sumHost(h, +1)
	if s.capped(h) != capped {
		s.enlist(h)
	}
	if !after.pending || (before.pending && before.due == after.due) {
		return nil
	}
	return s.schedule(h, r, record{hash: hash, due: after.due, blob: blobOf(r, is.recrawl != 0)})
}

func (s *State) apply(l *locator, r *raw) {
	switch r.kind {
	case kindDiscovered:
		if !l.found || r.a <= l.depth {
			l.found, l.depth, l.hop = true, r.a, uint32(r.n[4])
		}
	case kindFetched:
		s.applyFetched(l, r)
	case kindTried:
		if r.a > l.tryRound || (r.a == l.tryRound && r.b >= l.tries) {
			l.tryRound, l.tries, l.class = r.a, r.b, s.classes.of(r.t[1])
			l.retry = bounded(r, 2, 3)
		}
	}
}

// applyFetched takes the last value of the f key, as compaction does: also one
// that a late writer stated, for an earlier round. Both are ends, so at worst
// one more request follows.
func (s *State) applyFetched(l *locator, r *raw) {
	l.fetched, l.round = true, r.round()
	l.status, l.refusal = uint32(r.n[1]), 0
	if len(r.t[2]) > 0 {
		l.status, l.refusal = 0, s.reasons.of(r.t[2])
	}
	l.cut, l.bytes = r.n[9] == 1, int64(r.n[7])
	if !l.found {
		l.depth = uint32(r.n[8])
	}
	l.recrawl = 0
	if due := int64(r.n[10]); due > 0 && due < s.options.Horizon.UnixMilli() {
		l.recrawl = due
	}
}

// maxWaitMS bounds how far in its own future a fact can put off a request, so
// that a wrong clock or a hostile Retry-After cannot keep a crawl for ever.
const maxWaitMS = 24 * 60 * 60 * 1000

// bounded is the time in field due, at most maxWaitMS after that in field when.
func bounded(r *raw, due, when int) int64 {
	if at := int64(r.n[when]); at > 0 {
		return min(int64(r.n[due]), at+maxWaitMS)
	}
	return int64(r.n[due])
}

// blobOf is what a pending record needs to become an item of a batch.
func blobOf(r *raw, recrawl bool) string {
	scheme := byte('h')
	if hasPrefix(r.subject, "https:") {
		scheme = 's'
	}
	b := append(make([]byte, 0, len(r.target)+1), scheme)
	b = append(b, r.target...)
	if recrawl && r.kind == kindFetched && len(r.t[4])+len(r.t[5]) > 0 {
		b = append(append(b, 0), r.t[4]...)
		b = append(append(b, 0), r.t[5]...)
	}
	return string(b)
}

// schedule queues a record: with its host if it is due since it was found,
// else until it comes due.
func (s *State) schedule(h *host, r *raw, rec record) error {
	part := partOf(r.subject, s.queues)
	if rec.due <= 0 {
		return s.enqueue(h, part, rec)
	}
	return s.later.push(delayed{rec, h.id, part})
}

func (s *State) foldHost(h *host, r *raw, offset int64) error {
	s.sumHost(h, -1)
	switch r.kind {
	case kindStreak:
		h.streak = int(r.n[1])
	case kindBlocked:
		h.setBlock(r.a, bounded(r, 1, 3))
		h.waiting = false // the next Deal looks at it again
	case kindParked:
		h.parked, h.reason = true, string(r.t[1])
	case kindRobots:
		h.robotsAt, h.expiry, h.crawl = offset, int64(r.n[4]), min(int64(r.n[3]), maxCrawlDelay)
	}
	s.sumHost(h, +1)
	s.enlist(h)
	if h.parked && h.queues != nil {
		return s.release(h)
	}
	return nil
}

// release forgets the pending URLs of a parked host: their ends are derived.
func (s *State) release(h *host) error {
	queues := h.queues
	h.queues = nil
	for _, q := range queues {
		if q == nil {
			continue
		}
		if err := q.visit(func(record) step { return drop }); err != nil {
			return err
		}
	}
	return nil
}

// maxAdvance bounds the records that one Deal takes over as due.
const maxAdvance = 50_000

// advance moves what has come due by now to the queues of its hosts.
func (s *State) advance(now int64) error {
	for range maxAdvance {
		d, ok, err := s.later.pop(now)
		if err != nil || !ok {
			s.unblock(now)
			return err
		}
		if _, _, live := s.live(d.record); !live {
			continue
		}
		if err := s.enqueue(s.hosts[d.host], d.part, d.record); err != nil {
			return err
		}
	}
	s.unblock(now)
	return nil
}

// unblock puts hosts whose block has ended back into the lists.
func (s *State) unblock(now int64) {
	for len(s.blocked) > 0 && s.blocked[0].until <= now {
		h := heap.Pop(&s.blocked).(blockedHost).host
		h.waiting = false
		s.enlist(h)
	}
}
