package kafkalog

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
)

// While a batch of a partition is under way, what others append to it waits and
// goes as one batch: a broker writes, and some sync, each batch by itself. Where
// much waits, more go at the same time.
const (
	fullLane    = 256 << 10 // bytes that do not wait
	lanesAtOnce = 4         // batches under way of one partition
)

// lane is what is appended to one partition.
type lane struct {
	queue  []*ticket
	bytes  int // in the queue
	flying int // batches under way
}

// ticket is a small part of one caller. Whoever takes it from the queue of its
// lane reads the records until the load is packed.
type ticket struct {
	part   *Part
	size   int
	number int
	ended  chan<- *ticket // has room
	acked  bool           // set before it is in ended
	known  bool           // to the caller, who alone uses it
	load   *load          // nil while it waits; guarded by the log's lock
}

// load is one batch: tickets of one lane.
type load struct {
	lane    *lane
	part    Part
	size    int
	tickets []*ticket
	packed  chan struct{} // closed when the records are not needed any more
}

// lanes of a Log, without those that nothing is in.
type lanes struct {
	mu sync.Mutex
	m  map[place]*lane
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int
}

// board queues tickets, and sends what need not wait.
func (l *Log) board(tickets []*ticket) {
	if len(tickets) == 0 {
		return
	}
	l.lanes.mu.Lock()
	var touched []*lane
	for _, t := range tickets {
		at := place{t.part.Topic, t.part.Partition}
		ln := l.lanes.m[at]
		if ln == nil {
			ln = &lane{}
			l.lanes.m[at] = ln
		}
		ln.queue = append(ln.queue, t)
		ln.bytes += t.size
		touched = append(touched, ln)
	}
	loads := ready(touched)
	l.lanes.mu.Unlock()
	l.depart(loads)
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
			at := place{t.part.Topic, t.part.Partition}
			ln := l.lanes.m[at]
			ln.queue = slices.DeleteFunc(ln.queue, func(o *ticket) bool { return o == t })
			ln.bytes -= t.size
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
func ready(touched []*lane) (loads []*load) {
	for _, ln := range touched {
		for len(ln.queue) > 0 && (ln.flying == 0 || ln.bytes >= fullLane && ln.flying < lanesAtOnce) {
			loads = append(loads, ln.take())
		}
	}
	return loads
}

// take makes a load of the first tickets: one, or as many as fit a batch.
func (ln *lane) take() *load {
	n, size := 0, 0
	for n < len(ln.queue) && (n == 0 || size+ln.queue[n].size <= batchBytes) {
		size += ln.queue[n].size
		n++
	}
	d := &load{lane: ln, size: size, tickets: slices.Clone(ln.queue[:n]), packed: make(chan struct{})}
	ln.queue = slices.Delete(ln.queue, 0, n)
	ln.bytes -= size
	ln.flying++
	d.part = *d.tickets[0].part
	if n > 1 {
		d.part.Records = nil
	}
	for _, t := range d.tickets {
		t.load = d
		if n > 1 {
			d.part.Records = append(d.part.Records, t.part.Records...)
		}
	}
	return d
}

// depart sends loads, those of one leader together.
func (l *Log) depart(loads []*load) {
	if len(loads) == 0 {
		return
	}
	cluster := l.known(l.life)
	leaders := make(map[*load]int32, len(loads))
	for _, d := range loads {
		b, err := leader(d.part.Topic, d.part.Partition)(cluster)
		if err != nil {
			b.ID = -1
		}
		leaders[d] = b.ID
	}
	slices.SortFunc(loads, func(a, b *load) int {
		return cmp.Or(cmp.Compare(leaders[a], leaders[b]), comparePlaces(&a.part, &b.part))
	})
	for len(loads) > 0 {
		n, size := 0, 0
		for n < len(loads) && leaders[loads[n]] == leaders[loads[0]] {
			if size += loads[n].size; n > 0 && (size > requestBytes || comparePlaces(&loads[n-1].part, &loads[n].part) == 0) {
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
	parts := make([]Part, len(loads))
	for i, d := range loads {
		parts[i] = d.part
	}
	var out []produced
	var buf *[]byte
	var err error
	if known {
		buf, err = l.request(l.life, parts, l.codec)
	}
	for _, d := range loads {
		close(d.packed)
	}
	if known && err == nil {
		out, err = l.exchange(l.life, parts, buf)
	}
	l.lanes.mu.Lock()
	var touched []*lane
	for i, d := range loads {
		acked := known && err == nil && out[i].err == nil
		for _, t := range d.tickets {
			t.acked = acked
		}
		d.lane.flying--
		touched = append(touched, d.lane)
	}
	next := ready(touched)
	for i, d := range loads {
		if d.lane.flying == 0 && len(d.lane.queue) == 0 {
			delete(l.lanes.m, place{parts[i].Topic, parts[i].Partition})
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
