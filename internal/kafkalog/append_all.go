package kafkalog

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
)

const (
	// requestBytes bounds the uncompressed size of a request for several parts.
	// It is small beside what brokers take (100 MB), so that requests of many
	// bytes are encoded and sent side by side.
	requestBytes = 1 << 20
	// atOnce is how many requests AppendAll has under way.
	atOnce = 8
)

// Part is what AppendAll appends to one partition.
type Part struct {
	Topic     string
	Partition int
	Records   []Record
}

// AppendAll is Append for many partitions: it does as much and promises as much
// for each part, but sends small parts together, one request for those that have
// the same leader. It returns when all parts have ended, with an error, or nil,
// for each of them in their order. Parts of the same partition get there in any
// order.
func (l *Log) AppendAll(ctx context.Context, parts []Part) []error {
	errs := make([]error, len(parts))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	alone := func(i int) {
		slots <- struct{}{}
		defer func() { <-slots }()
		_, errs[i] = l.Append(ctx, parts[i].Topic, parts[i].Partition, parts[i].Records)
	}
	shared, rest := l.plan(ctx, parts)
	for _, i := range rest {
		wg.Go(func() { alone(i) })
	}
	for _, some := range shared {
		wg.Go(func() {
			slots <- struct{}{}
			left := l.appendShared(ctx, parts, some)
			<-slots
			for _, i := range left {
				wg.Go(func() { alone(i) })
			}
		})
	}
	wg.Wait()
	return errs
}

// appendShared tries once to append some of the parts by one request. What was
// not acknowledged, for whatever reason, is left: Append knows what to do.
func (l *Log) appendShared(ctx context.Context, parts []Part, some []int) (left []int) {
	together := make([]Part, len(some))
	for j, i := range some {
		together[j] = parts[i]
	}
	out, err := l.produce(ctx, together, l.codec)
	if err != nil {
		return some
	}
	for j := range out {
		if out[j].err != nil {
			left = append(left, some[j])
		}
	}
	return left
}

// plan divides parts, by their numbers, into requests that several share and a
// rest: large ones, those whose leader is not known, those that are left over.
// Empty parts are in none.
func (l *Log) plan(ctx context.Context, parts []Part) (shared [][]int, rest []int) {
	type candidate struct {
		leader int32
		size   int
		part   int
	}
	cluster := l.known(ctx)
	var all []candidate
	for i := range parts {
		p := &parts[i]
		if len(p.Records) == 0 {
			continue
		}
		b, err := leader(p.Topic, p.Partition)(cluster)
		size := partHeader + len(p.Topic) + batchHeader + sizeOf(p.Records)
		if err != nil || batchLen(p.Records) < len(p.Records) || size > requestBytes {
			rest = append(rest, i)
			continue
		}
		all = append(all, candidate{b.ID, size, i})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.leader, b.leader), comparePlaces(&parts[a.part], &parts[b.part]))
	})
	for len(all) > 0 {
		n, size := 0, 0
		for n < len(all) && all[n].leader == all[0].leader {
			if size += all[n].size; size > requestBytes || n > 0 && comparePlaces(&parts[all[n-1].part], &parts[all[n].part]) == 0 {
				break
			}
			n++
		}
		some := make([]int, n)
		for j := range some {
			some[j] = all[j].part
		}
		all = all[n:]
		if n == 1 {
			rest = append(rest, some...)
			continue
		}
		shared = append(shared, some)
	}
	return shared, rest
}

// comparePlaces orders parts by topic and partition.
func comparePlaces(a, b *Part) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// findPart finds a partition among parts in ascending order of their places.
func findPart(parts []Part, topic string, partition int) (int, bool) {
	at := &Part{Topic: topic, Partition: partition}
	return slices.BinarySearchFunc(parts, at, func(p Part, at *Part) int { return comparePlaces(&p, at) })
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
