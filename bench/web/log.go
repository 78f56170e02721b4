package web

import (
	"sync"
	"sync/atomic"
	"time"
)

// Entry is one answered request.
type Entry struct {
	Seq    int64         `json:"seq"` // 0, 1, 2, ... in the order of their ends
	Host   int           `json:"host"`
	Path   string        `json:"path"`
	Start  time.Duration `json:"start_ns"` // since the log began, monotonic
	End    time.Duration `json:"end_ns"`
	Status int           `json:"status"`
}

// Stats are the counters over all requests since the log began or was reset.
type Stats struct {
	Requests    int64         `json:"requests"`     // of every path
	Pages       int64         `json:"pages"`        // requests of pages
	Distinct    int64         `json:"distinct"`     // different pages requested
	Duplicates  int64         `json:"duplicates"`   // requests of pages beyond the first of each (a flaky page earns one)
	Disallowed  int64         `json:"disallowed"`   // requests of pages that robots.txt forbids
	Robots      int64         `json:"robots"`       // requests of robots.txt
	Unknown     int64         `json:"unknown"`      // requests of anything that is no page of this web
	Status      map[int]int64 `json:"status"`       // requests by status
	Hosts       int           `json:"hosts"`        // hosts requested
	MaxParallel int64         `json:"max_parallel"` // requests at once, over all hosts
	// MaxHostParallel is the largest number at once on one host, and
	// MinSpacing the shortest time between the starts of two requests on one
	// host, robots.txt included; 0 if no host had two.
	MaxHostParallel int64         `json:"max_host_parallel"`
	MinSpacing      time.Duration `json:"min_spacing_ns"`
	MinSpacingHost  int           `json:"min_spacing_host"`
	Active          int64         `json:"active"`     // under way now
	LastStart       time.Duration `json:"last_start"` // since the log began
}

// Log records requests: counters for all, entries for the newest. It is safe
// for concurrent use.
type Log struct {
	pagesPerHost int
	began        time.Time
	active, peak atomic.Int64
	hosts        []hostLog

	mu   sync.Mutex
	ring []Entry
	seq  int64
}

type hostLog struct {
	mu                       sync.Mutex
	counts                   []uint32 // per page, made at the first request
	status                   map[int]int64
	requests, pages          int64
	distinct, dups           int64
	robots, unknown, private int64
	active, peak             int64
	last                     time.Duration
	spacing                  time.Duration // 0: none yet
}

func newLog(cfg Config) *Log {
	return &Log{
		pagesPerHost: cfg.PagesPerHost,
		began:        time.Now(),
		hosts:        make([]hostLog, cfg.Hosts),
		ring:         make([]Entry, 0, cfg.LogCapacity),
	}
}

// Began is the time from which entries count.
func (l *Log) Began() time.Time { return l.began }

// begin notes the start of a request and answers how many times the page (if
// it is one) was requested before.
func (l *Log) begin(host int, p Ref, what target) (start time.Duration, before uint32) {
	if now := l.active.Add(1); now > l.peak.Load() {
		raise(&l.peak, now)
	}
	h := &l.hosts[host]
	h.mu.Lock()
	defer h.mu.Unlock()
	start = time.Since(l.began) // under the lock, so that starts are in order
	if h.requests > 0 {
		if gap := max(start-h.last, 1); h.spacing == 0 || gap < h.spacing {
			h.spacing = gap
		}
	}
	h.last = start
	h.requests++
	h.active++
	h.peak = max(h.peak, h.active)
	switch what {
	case robotsFile:
		h.robots++
	case nothing:
		h.unknown++
	default:
		before = h.countPage(p, l.pagesPerHost)
		if what == privatePage {
			h.private++
		}
	}
	return start, before
}

func (h *hostLog) countPage(p Ref, pages int) (before uint32) {
	if h.counts == nil {
		h.counts = make([]uint32, pages)
	}
	before = h.counts[p.Page]
	h.counts[p.Page]++
	h.pages++
	if before == 0 {
		h.distinct++
	} else {
		h.dups++
	}
	return before
}

func raise(v *atomic.Int64, to int64) {
	for {
		old := v.Load()
		if to <= old || v.CompareAndSwap(old, to) {
			return
		}
	}
}

func (l *Log) end(host int, path string, start time.Duration, status int) {
	end := time.Since(l.began)
	l.active.Add(-1)
	h := &l.hosts[host]
	h.mu.Lock()
	h.active--
	if h.status == nil {
		h.status = make(map[int]int64)
	}
	h.status[status]++
	h.mu.Unlock()

	l.mu.Lock()
	defer l.mu.Unlock()
	e := Entry{Seq: l.seq, Host: host, Path: path, Start: start, End: end, Status: status}
	if len(l.ring) < cap(l.ring) {
		l.ring = append(l.ring, e)
	} else {
		l.ring[l.seq%int64(cap(l.ring))] = e
	}
	l.seq++
}

// Entries answers the kept entries from a sequence number on, oldest first.
// Entries older than the capacity are gone: the first may have a later number.
func (l *Log) Entries(from int64) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := max(from, l.seq-int64(len(l.ring)), 0)
	out := make([]Entry, 0, max(l.seq-first, 0))
	for s := first; s < l.seq; s++ {
		out = append(out, l.ring[s%int64(cap(l.ring))])
	}
	return out
}

// Count is how often a page was requested.
func (l *Log) Count(p Ref) int {
	h := &l.hosts[p.Host]
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		return 0
	}
	return int(h.counts[p.Page])
}

// Stats sums the counters.
func (l *Log) Stats() Stats {
	s := Stats{Status: map[int]int64{}, Active: l.active.Load(), MaxParallel: l.peak.Load()}
	for i := range l.hosts {
		l.hosts[i].addTo(&s, i)
	}
	return s
}

// HostStats are the counters of one host; MaxParallel and Active are its own.
func (l *Log) HostStats(i int) Stats {
	s := Stats{Status: map[int]int64{}}
	h := &l.hosts[i]
	h.addTo(&s, i)
	h.mu.Lock()
	s.Active, s.MaxParallel = h.active, h.peak
	h.mu.Unlock()
	return s
}

func (h *hostLog) addTo(s *Stats, i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests == 0 {
		return
	}
	s.Hosts++
	s.Requests += h.requests
	s.Pages += h.pages
	s.Distinct += h.distinct
	s.Duplicates += h.dups
	s.Disallowed += h.private
	s.Robots += h.robots
	s.Unknown += h.unknown
	for k, v := range h.status {
		s.Status[k] += v
	}
	s.MaxHostParallel = max(s.MaxHostParallel, h.peak)
	s.LastStart = max(s.LastStart, h.last)
	if h.spacing > 0 && (s.MinSpacing == 0 || h.spacing < s.MinSpacing) {
		s.MinSpacing, s.MinSpacingHost = h.spacing, i
	}
}

// Reset forgets all counters and entries but the requests under way, so that
// one server can serve several crawls, one after the other.
func (l *Log) Reset() {
	for i := range l.hosts {
		h := &l.hosts[i]
		h.mu.Lock()
		h.counts, h.status = nil, nil
		h.requests, h.pages, h.distinct, h.dups = 0, 0, 0, 0
		h.robots, h.unknown, h.private = 0, 0, 0
		h.peak, h.spacing, h.last = h.active, 0, 0
		h.mu.Unlock()
	}
	l.peak.Store(l.active.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring, l.seq = l.ring[:0], 0
}

// Diff compares the requests with what an obedient crawl from the pages of r
// makes: missing are reached pages that were not requested, extra are pages
// requested that are not reached or are disallowed. At most limit of each.
func (l *Log) Diff(r *Reach, limit int) (missing, extra []Ref) {
	w := r.web
	for host := range l.hosts {
		for page := range l.pagesPerHost {
			p := Ref{host, page}
			wanted := r.Has(p) && w.Kind(p) != Disallowed
			asked := l.Count(p) > 0
			switch {
			case wanted && !asked && len(missing) < limit:
				missing = append(missing, p)
			case asked && !wanted && len(extra) < limit:
				extra = append(extra, p)
			}
		}
	}
	return missing, extra
}
