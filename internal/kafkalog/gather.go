package kafkalog

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// While a batch of a partition is under way, what others append to it waits and
// goes as one batch: a broker writes, and some sync, each batch by itself. Where
// much waits, or what is under way is stuck, more go at the same time.
const (
	fullLane = 256 << 10 // bytes that do not wait
	laneMost = 4         // batches under way of one partition
)

// lane is what is appended to one partition.
type lane struct {
	queue  []*ticket
	bytes  int // in the queue
	flying int // batches under way
	late   int // of these, so long that nothing waits for them
}

// ticket is a small part of one caller.
type ticket struct {
	part   *Part
	size   int
	number int
	ended  chan<- *ticket // has room
	acked  bool           // set before it is in ended
	known  bool           // to the caller, who alone uses it
	load   *load          // nil while it waits; guarded by the log's lock
}

// load is one batch: tickets of one lane. The records are read from when packing
// is set, with the lock held, until packed is closed.
type load struct {
	lane    *lane
	at      place
	size    int // from above: tickets may leave
	tickets []*ticket
	packing bool
	packed  chan struct{}
	timer   *time.Timer // makes it late
	late    bool
	landed  bool
}

// lanes of a Log, without those that nothing is in.
type lanes struct {
	mu sync.Mutex
	m  map[place]*lane
}

// board queues tickets, and sends what need not wait.
func (l *Log) board(tickets []*ticket) {
	if len(tickets) == 0 {
		return
	}
	l.lanes.mu.Lock()
	var touched []*lane
	for _, t := range tickets {
		at := t.part.place()
		ln := l.lanes.m[at]
		if ln == nil {
			ln = &lane{}
			l.lanes.m[at] = ln
		}
		ln.queue = append(ln.queue, t)
		ln.bytes += t.size
		touched = append(touched, ln)
	}
	loads := l.ready(touched...)
	l.lanes.mu.Unlock()
	go l.depart(loads) // which may have to wait for a cluster, and the caller not
}

// leave takes back what waits, and gives the tickets that have not ended, or not
// well, and are not known to their caller. Their records are not read any more
// when it returns.
func (l *Log) leave(tickets []*ticket) (left []*ticket) {
	l.lanes.mu.Lock()
	var packing []*load
	for _, t := range tickets {
		switch {
		case t.known:
		case t.load == nil:
			ln := l.lanes.m[t.part.place()]
			ln.queue = slices.DeleteFunc(ln.queue, func(o *ticket) bool { return o == t })
			ln.bytes -= t.size
			left = append(left, t)
		case !t.load.packing:
			t.load.tickets = slices.DeleteFunc(t.load.tickets, func(o *ticket) bool { return o == t })
			left = append(left, t)
		case !t.acked:
			packing = append(packing, t.load)
			left = append(left, t)
		}
	}
	l.lanes.mu.Unlock()
	for _, d := range packing {
		<-d.packed
	}
	return left
}

// ready takes from the lanes what may go. With the lock held.
func (l *Log) ready(touched ...*lane) (loads []*load) {
	for _, ln := range touched {
		for len(ln.queue) > 0 && ln.flying < laneMost && (ln.flying == ln.late || ln.bytes >= fullLane) {
			d := ln.take()
			d.timer = time.AfterFunc(l.limits.late, func() { l.late(d) })
			loads = append(loads, d)
		}
	}
	return loads
}

// late lets others go beside a load that is stuck.
func (l *Log) late(d *load) {
	l.lanes.mu.Lock()
	if d.landed {
		l.lanes.mu.Unlock()
		return
	}
	d.late = true
	d.lane.late++
	loads := l.ready(d.lane)
	l.lanes.mu.Unlock()
	l.depart(loads)
}

// take makes a load of the first tickets: one, or as many as fit a batch.
func (ln *lane) take() *load {
	n, size := 0, 0
	for n < len(ln.queue) && (n == 0 || size+ln.queue[n].size <= batchBytes) {
		size += ln.queue[n].size
		n++
	}
	d := &load{lane: ln, at: ln.queue[0].part.place(), size: size, tickets: slices.Clone(ln.queue[:n]), packed: make(chan struct{})}
	ln.queue = slices.Delete(ln.queue, 0, n)
	ln.bytes -= size
	ln.flying++
	for _, t := range d.tickets {
		t.load = d
	}
	return d
}

// pack makes the batch of those who have not left. With the lock held.
func (d *load) pack() (p Part, any bool) {
	d.packing = true
	switch len(d.tickets) {
	case 0:
		return p, false
	case 1:
		return *d.tickets[0].part, true
	}
	p = Part{Topic: d.at.topic, Partition: d.at.partition}
	for _, t := range d.tickets {
		p.Records = append(p.Records, t.part.Records...)
	}
	return p, true
}

// depart sends loads, those of one leader together.
func (l *Log) depart(loads []*load) {
	if len(loads) == 0 {
		return
	}
	cluster := l.known(l.life)
	leaders := make(map[*load]int32, len(loads))
	for _, d := range loads {
		b, err := leader(d.at.topic, d.at.partition)(cluster)
		if err != nil {
			b.ID = -1
		}
		leaders[d] = b.ID
	}
	slices.SortFunc(loads, func(a, b *load) int {
		return cmp.Or(cmp.Compare(leaders[a], leaders[b]), comparePlaces(a.at, b.at))
	})
	for len(loads) > 0 {
		n, size := 0, 0
		for n < len(loads) && leaders[loads[n]] == leaders[loads[0]] {
			if size += loads[n].size; n > 0 && (size > requestBytes || loads[n-1].at == loads[n].at) {
				break
			}
			n++
		}
		together := loads[:n:n]
		loads = loads[n:]
		go l.fly(together, leaders[together[0]] >= 0)
	}
}

// fly tries once to append loads by one request, if their leader is known, and
// then sends what waited for them.
func (l *Log) fly(loads []*load, known bool) {
	acked := l.carry(loads, known)
	l.lanes.mu.Lock()
	var touched []*lane
	for i, d := range loads {
		for _, t := range d.tickets {
			t.acked = acked != nil && acked[i]
		}
		d.landed = true
		d.timer.Stop()
		d.lane.flying--
		if d.late {
			d.lane.late--
		}
		touched = append(touched, d.lane)
	}
	next := l.ready(touched...)
	for _, d := range loads {
		if d.lane.flying == 0 && len(d.lane.queue) == 0 {
			delete(l.lanes.m, d.at)
		}
	}
	l.lanes.mu.Unlock()
	for _, d := range loads {
		for _, t := range d.tickets {
			t.ended <- t
		}
	}
	l.depart(next)
}

// carry says which loads were acknowledged; nil is none.
func (l *Log) carry(loads []*load, known bool) []bool {
	parts, of := make([]Part, 0, len(loads)), make([]int, 0, len(loads))
	l.lanes.mu.Lock()
	for i, d := range loads {
		if p, any := d.pack(); any {
			parts, of = append(parts, p), append(of, i)
		}
	}
	l.lanes.mu.Unlock()
	var buf *[]byte
	var err error
	if known = known && len(parts) > 0; known {
		buf, err = l.request(l.life, parts, l.codec)
	}
	for _, d := range loads {
		close(d.packed)
	}
	if !known || err != nil {
		return nil
	}
	out, err := l.exchange(l.life, parts, buf)
	if err != nil {
		return nil
	}
	acked := make([]bool, len(loads))
	for j, i := range of {
		acked[i] = out[j].err == nil
	}
	return acked
}

// known is the layout of the cluster as it is cached, without any partition
// when none is known.
func (l *Log) known(ctx context.Context) protocol.Cluster {
	if l.closed.Load() {
		return protocol.Cluster{}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	res, err := l.transport.RoundTrip(ctx, l.addr, glance{})
	if err != nil {
		return protocol.Cluster{}
	}
	return res.(*answer).value.(protocol.Cluster)
}

// glance is a request for the layout that the transport has: it becomes no
// request to a broker, and the answer is all that it was given.
type glance struct{}

var _ protocol.Splitter = glance{}

func (glance) ApiKey() protocol.ApiKey { return protocol.Metadata }

func (glance) Split(c protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	return nil, glanced(c), nil
}

type glanced protocol.Cluster

func (g glanced) Merge([]protocol.Message, []any) (protocol.Message, error) {
	return &answer{protocol.Metadata, protocol.Cluster(g)}, nil
}
