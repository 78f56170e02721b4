package web

// Reach is the set of pages that a crawl can reach, with the least depth of
// each. A redirect keeps the depth, as a crawl does.
type Reach struct {
	web   *Web
	depth []int16 // -1: not reached; index host*pages+page
	// Kinds counts the reached pages by kind. Disallowed ones are counted,
	// although an obedient crawl requests none of them.
	Kinds [kinds]int
	Links int64 // links on the reached pages, duplicates included
}

// maxDepth is far above the depth of any web that fits MaxPages.
const maxDepth = 1<<15 - 1

// Reach follows the links from the given pages (none: page 0 of host 0) up to
// a depth (negative: no limit), by the model alone. It costs some 2 bytes a
// page of the whole web, and the time to hash every link once.
func (w *Web) Reach(depth int, from ...Ref) *Reach {
	if len(from) == 0 {
		from = []Ref{{}}
	}
	if depth < 0 || depth > maxDepth {
		depth = maxDepth
	}
	r := &Reach{web: w, depth: make([]int16, w.cfg.Hosts*w.cfg.PagesPerHost)}
	for i := range r.depth {
		r.depth[i] = -1
	}
	level := r.enter(nil, from, 0)
	var links []Ref
	for d := 1; len(level) > 0; d++ {
		var next []Ref
		for _, p := range level {
			links = w.Links(links[:0], p)
			r.Links += int64(len(links))
			if d <= depth {
				next = r.enter(next, links, d)
			}
		}
		level = next
	}
	return r
}

// enter marks pages not reached before, and the targets of redirects with
// them, and appends those that may have links to level.
func (r *Reach) enter(level, pages []Ref, depth int) []Ref {
	for _, p := range pages {
		for r.depth[r.index(p)] < 0 {
			r.depth[r.index(p)] = int16(min(depth, maxDepth))
			k := r.web.Kind(p)
			r.Kinds[k]++
			if k != Redirect {
				level = append(level, p)
				break
			}
			p = r.web.Target(p)
		}
	}
	return level
}

func (r *Reach) index(p Ref) int { return p.Host*r.web.cfg.PagesPerHost + p.Page }

// Has says whether a page is reached.
func (r *Reach) Has(p Ref) bool { return r.depth[r.index(p)] >= 0 }

// Depth of a reached page, the least; -1 if it is not reached.
func (r *Reach) Depth(p Ref) int { return int(r.depth[r.index(p)]) }

// Len is the number of reached pages of every kind.
func (r *Reach) Len() int {
	n := 0
	for _, k := range r.Kinds {
		n += k
	}
	return n
}

// Requested is the number of reached pages that an obedient crawl requests:
// all but the disallowed ones.
func (r *Reach) Requested() int { return r.Len() - r.Kinds[Disallowed] }

// Documents is the number of reached pages answered with 200 in the end and
// not disallowed.
func (r *Reach) Documents() int { return r.Kinds[Plain] + r.Kinds[Flaky] }

// Each yields every reached page, by host and page.
func (r *Reach) Each(yield func(Ref, Kind) bool) {
	for i, d := range r.depth {
		if d < 0 {
			continue
		}
		p := Ref{i / r.web.cfg.PagesPerHost, i % r.web.cfg.PagesPerHost}
		if !yield(p, r.web.Kind(p)) {
			return
		}
	}
}
