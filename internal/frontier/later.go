package frontier

import (
	"container/heap"
	"encoding/binary"
)

// delayed is a record that comes due later, with where it belongs.
type delayed struct {
	record
	host, part int
}

type delayedHeap []delayed

func (h delayedHeap) Len() int           { return len(h) }
func (h delayedHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h delayedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *delayedHeap) Push(x any)        { *h = append(*h, x.(delayed)) }
func (h *delayedHeap) Pop() any {
	end := len(*h) - 1
	x := (*h)[end]
	(*h)[end] = delayed{}
	*h = (*h)[:end]
	return x
}

// later holds the records of a shard that are not due yet: a heap of limited
// size in memory, beyond it chains in the scratch file, one per span of time.
type later struct {
	scratch *scratch
	limit   int
	heap    delayedHeap
	spilled map[int64]*chain // by due / spanMS
	spans   spanHeap
}

const spanMS = 8000

type spanHeap []int64

func (h spanHeap) Len() int           { return len(h) }
func (h spanHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h spanHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *spanHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *spanHeap) Pop() any {
	end := len(*h) - 1
	x := (*h)[end]
	*h = (*h)[:end]
	return x
}

func (l *later) push(d delayed) error {
	if l.limit < 0 || len(l.heap) < l.limit {
		heap.Push(&l.heap, d)
		return nil
	}
	span := d.due / spanMS
	c := l.spilled[span]
	if c == nil {
		c = &chain{}
		l.spilled[span] = c
		heap.Push(&l.spans, span)
	}
	b := binary.AppendUvarint(nil, uint64(d.host))
	b = binary.AppendUvarint(b, uint64(d.part))
	return l.scratch.pushBack(c, appendRecord(b, d.record))
}

// next answers with a time before which nothing comes due, unix ms; false if
// nothing is left at all.
func (l *later) next() (int64, bool) {
	var at int64
	ok := false
	if len(l.heap) > 0 {
		at, ok = l.heap[0].due, true
	}
	if len(l.spans) > 0 && (!ok || l.spans[0]*spanMS < at) {
		at, ok = l.spans[0]*spanMS, true
	}
	return at, ok
}

// pop takes one record that is due at now; false if there is none.
func (l *later) pop(now int64) (d delayed, ok bool, err error) {
	for len(l.spans) > 0 && l.spans[0]*spanMS <= now {
		c := l.spilled[l.spans[0]]
		if c.empty() {
			delete(l.spilled, l.spans[0])
			heap.Pop(&l.spans)
			continue
		}
		chunk, err := l.scratch.popFront(c)
		if err != nil {
			return d, false, err
		}
		if d, err = readDelayed(chunk); err != nil {
			return d, false, err
		}
		if d.due <= now {
			return d, true, nil
		}
		heap.Push(&l.heap, d)
	}
	if len(l.heap) == 0 || l.heap[0].due > now {
		return d, false, nil
	}
	return heap.Pop(&l.heap).(delayed), true, nil
}

func readDelayed(b []byte) (d delayed, err error) {
	host, n := binary.Uvarint(b)
	if n <= 0 {
		return d, errChunk
	}
	part, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return d, errChunk
	}
	r, k := readRecord(b[n+m:])
	if k == 0 {
		return d, errChunk
	}
	return delayed{r, int(host), int(part)}, nil
}

// blockedHost is a host that may be asked again at a time, unix ms.
type blockedHost struct {
	until int64
	host  *host
}

type blockedHeap []blockedHost

func (h blockedHeap) Len() int           { return len(h) }
func (h blockedHeap) Less(i, j int) bool { return h[i].until < h[j].until }
func (h blockedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *blockedHeap) Push(x any)        { *h = append(*h, x.(blockedHost)) }
func (h *blockedHeap) Pop() any {
	end := len(*h) - 1
	x := (*h)[end]
	(*h)[end] = blockedHost{}
	*h = (*h)[:end]
	return x
}
