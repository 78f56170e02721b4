package batch

import "sync"

// recent remembers links whose discovered facts were acknowledged, so that a
// worker does not state the navigation of a site once per page. It forgets by
// halves: a link that it has forgotten costs one more fact, never a page.
type recent struct {
	mu       sync.RWMutex
	half     int
	now, old map[uint64]int32 // key -> least depth stated
}

func newRecent(size int) *recent {
	return &recent{half: max(size/2, 1), now: map[uint64]int32{}}
}

// has says that the link was stated at this depth or a lesser one.
func (r *recent) has(key uint64, depth int32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	d, ok := r.now[key]
	if !ok {
		d, ok = r.old[key]
	}
	return ok && d <= depth
}

// add is called after the acknowledgement only.
func (r *recent) add(marks []mark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range marks {
		if d, ok := r.now[m.key]; ok && d <= m.depth {
			continue
		}
		if len(r.now) >= r.half {
			r.old, r.now = r.now, make(map[uint64]int32, r.half)
		}
		r.now[m.key] = m.depth
	}
}

// mark is one link of a parcel.
type mark struct {
	key   uint64
	depth int32
}
