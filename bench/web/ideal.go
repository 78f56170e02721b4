package web

import (
	"cmp"
	"slices"
	"time"
)

// Ideal compares the requests in the log with those of a crawler that asks
// every host again as soon as politeness allows, from the moment it knows a
// page of it.
type Ideal struct {
	Requests int     `json:"requests"` // made, robots.txt among them: it is a request to the host
	Possible float64 `json:"possible"` // in the time in which hosts had work
	Seconds  float64 `json:"seconds"`  // from the first request to the end of the last
	Share    float64 `json:"share"`    // Requests / Possible
}

// span of time, from and to since the log began.
type span struct{ from, to time.Duration }

// hostWork is what one host had to do: gap is the time that its requests take
// from the host, each the longer of delay and latency.
type hostWork struct {
	spans    []span
	requests int
	gap      time.Duration
}

// Ideal of the crawl in the log, which must hold every entry since it was
// reset. A host has work while a page is known (a page that links to it was
// answered) and not yet requested, and until the delay or the latency of its
// last request is over. Its ideal rate is 1 / max(delay, latency), on average
// over its requests. If every host was seeded, its first page is known from the
// first request on.
func (w *Web) Ideal(delay time.Duration, seeded bool) (Ideal, error) {
	r, err := w.replay()
	if err != nil || len(r.entries) == 0 {
		return Ideal{}, err
	}
	hosts := make([]hostWork, w.cfg.Hosts)
	out := Ideal{Requests: len(r.entries)}
	first, last := r.entries[0].Start, r.entries[0].End
	if seeded {
		for host := range w.cfg.Hosts {
			r.learn(Ref{Host: host}, r.began)
		}
	}
	for _, e := range r.entries {
		first, last = min(first, e.Start), max(last, e.End)
		h := &hosts[e.Host]
		took := max(delay, e.End-e.Start)
		h.requests++
		h.gap += took
		h.spans = append(h.spans, span{e.Start, e.Start + took})
		if p, ok := r.step(e); ok {
			h.spans = append(h.spans, span{r.known[r.index(p)], e.Start})
		}
	}
	for i, at := range r.known { // known, and never asked for
		if at != unknown && !r.asked[i] {
			h := &hosts[i/w.cfg.PagesPerHost]
			h.spans = append(h.spans, span{at, last})
		}
	}
	for i := range hosts {
		out.Possible += hosts[i].possible(delay)
	}
	out.Seconds = (last - first).Seconds()
	if out.Possible > 0 {
		out.Share = float64(out.Requests) / out.Possible
	}
	return out, nil
}

// possible is how many requests the host could have had.
func (h *hostWork) possible(delay time.Duration) float64 {
	gap := float64(delay)
	if h.requests > 0 {
		gap = float64(h.gap) / float64(h.requests)
	}
	if gap <= 0 {
		return float64(h.requests)
	}
	return float64(union(h.spans)) / gap
}

// union is the length of the time that spans cover together. It sorts them.
func union(spans []span) (sum time.Duration) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var end time.Duration
	for i, s := range spans {
		if i == 0 || s.from > end {
			end = s.from
		}
		if s.to > end {
			sum += s.to - end
			end = s.to
		}
	}
	return sum
}
