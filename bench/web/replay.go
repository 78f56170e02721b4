package web

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// errCut is the answer to a question that needs every entry of the log.
var errCut = errors.New("web: the log has lost its oldest entries: want a larger capacity")

// unknown is the time of a page that no requested page has linked to.
const unknown = time.Duration(-1)

// replay goes through the log in the order in which requests ended, and knows
// at each of them which pages a crawler can know of.
type replay struct {
	web     *Web
	entries []Entry
	began   time.Duration   // start of the first request
	known   []time.Duration // by host*pages+page: when a link to it was first answered
	asked   []bool
	links   []Ref
	pages   int // different pages answered
	count   int // pages known
}

func (w *Web) replay() (*replay, error) {
	entries := w.log.Entries(0)
	if len(entries) > 0 && entries[0].Seq != 0 {
		return nil, errCut
	}
	n := w.cfg.Hosts * w.cfg.PagesPerHost
	r := &replay{web: w, entries: entries, known: make([]time.Duration, n), asked: make([]bool, n)}
	for i := range r.known {
		r.known[i] = unknown
	}
	if len(entries) > 0 {
		first := slices.MinFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Start, b.Start) })
		r.began = first.Start
		r.learn(Ref{}, r.began) // the root is known from the first request on
	}
	return r, nil
}

func (r *replay) index(p Ref) int { return p.Host*r.web.cfg.PagesPerHost + p.Page }

func (r *replay) learn(p Ref, at time.Duration) {
	if i := r.index(p); r.known[i] == unknown {
		r.known[i] = at
		r.count++
	}
}

// step takes the next entry in; it answers the page, if it was one that was
// not answered before.
func (r *replay) step(e Entry) (Ref, bool) {
	p, ok := r.web.locatePath(e.Host, e.Path)
	if !ok || r.asked[r.index(p)] {
		return p, false
	}
	r.asked[r.index(p)] = true
	r.pages++
	r.learn(p, e.Start)
	if e.Status == 200 {
		r.links = r.web.Links(r.links[:0], p)
		for _, l := range r.links {
			r.learn(l, e.End)
		}
	}
	return p, true
}

// Progress of a crawl at one time.
type Progress struct {
	Pages int `json:"pages"` // different pages answered
	Known int `json:"known"` // different pages answered or linked to from those
}

// Progress answers how many pages were known to a crawler when so many were
// done, at about as many points as asked for. The log must hold every entry
// since it was reset.
func (w *Web) Progress(points int) ([]Progress, error) {
	r, err := w.replay()
	if err != nil {
		return nil, err
	}
	every := max(len(r.entries)/max(points, 1), 1)
	var out []Progress
	for i, e := range r.entries {
		r.step(e)
		if i%every == 0 || i == len(r.entries)-1 {
			out = append(out, Progress{Pages: r.pages, Known: r.count})
		}
	}
	return out, nil
}
