package kafkalog

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
)

const (
	// requestBytes bounds the uncompressed size of a request for several parts.
	// It is small beside what brokers take (100 MB), so that requests of many
	// bytes are encoded and sent side by side.
	requestBytes = 1 << 20
	// atOnce is how many parts a caller of AppendAll has under way by themselves.
	atOnce = 8
)

// Part is what AppendAll appends to one partition.
type Part struct {
	Topic     string
	Partition int
	Records   []Record
}

// AppendAll is Append for many partitions: it does as much and promises as much
// for each part. It returns when all parts have ended, with an error, or nil,
// for each of them in their order. Parts of the same partition get there in any
// order.
//
// Small parts go together: one request for those that have the same leader, and
// one batch for those of one partition, also if several callers bring them.
func (l *Log) AppendAll(ctx context.Context, parts []Part) []error {
	errs := make([]error, len(parts))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	alone := func(i int) {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			_, errs[i] = l.Append(ctx, parts[i].Topic, parts[i].Partition, parts[i].Records)
		})
	}
	var small []*ticket
	ended := make(chan *ticket, len(parts))
	for i := range parts {
		p := &parts[i]
		if len(p.Records) == 0 {
			continue
		}
		size := partHeader + len(p.Topic) + batchHeader + sizeOf(p.Records)
		if batchLen(p.Records) < len(p.Records) || size > requestBytes || ctx.Err() != nil {
			alone(i)
			continue
		}
		small = append(small, &ticket{part: p, size: size, number: i, ended: ended})
	}
	l.board(small)
	for left := len(small); left > 0; left-- {
		select {
		case t := <-ended:
			t.known = true
			if !t.acked { // for whatever reason: Append knows what to do
				alone(t.number)
			}
		case <-ctx.Done():
			for _, t := range l.leave(small) {
				errs[t.number] = &Error{"append to", t.part.Topic, t.part.Partition, kindOfCause(ctx.Err()), ctx.Err()}
			}
			left = 0
		}
	}
	wg.Wait()
	return errs
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int
}

func (p *Part) place() place { return place{p.Topic, p.Partition} }

func comparePlaces(a, b place) int {
	return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// findPart finds a partition among parts in ascending order of their places.
func findPart(parts []Part, at place) (int, bool) {
	return slices.BinarySearchFunc(parts, at, func(p Part, at place) int { return comparePlaces(p.place(), at) })
}
