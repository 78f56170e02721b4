package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// maxMetadata is the broker's default limit of a commit's metadata.
const maxMetadata = 4096

// Bounds gives the first offset that is kept and the end: the offset that the
// next record will get. Records of open transactions lie behind the end.
func (l *Log) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	list := func(at int64) (int64, error) {
		v, err := l.list(ctx, "bounds of", topic, partition, []int{partition}, at)
		if err != nil {
			return -1, err
		}
		return v[0], nil
	}
	if first, err = list(kafka.FirstOffset); err != nil {
		return -1, -1, err
	}
	if end, err = list(kafka.LastOffset); err != nil {
		return -1, -1, err
	}
	return first, end, nil
}

// End gives the end of one partition, asked now of the leader that fresh metadata
// name: a former one may not know that it is none.
func (l *Log) End(ctx context.Context, topic string, partition int) (int64, error) {
	v, err := l.list(ctx, "end of", topic, partition, []int{partition}, kafka.LastOffset)
	if err != nil {
		return -1, err
	}
	return v[0], nil
}

// Ends gives the ends of the partitions 0 to partitions-1, asked of their
// leaders now. It answers for all of them or fails.
func (l *Log) Ends(ctx context.Context, topic string, partitions int) ([]int64, error) {
	all := make([]int, max(0, partitions))
	for i := range all {
		all[i] = i
	}
	return l.list(ctx, "ends of", topic, -1, all, kafka.LastOffset)
}

func (l *Log) list(ctx context.Context, op, topic string, partition int, partitions []int, at int64) (ends []int64, err error) {
	err = l.patiently(ctx, func() error {
		return l.run(ctx, op, topic, partition, func(ctx context.Context) (err error) {
			ends, err = l.listOnce(ctx, topic, partitions, at)
			return err
		})
	})
	return ends, err
}

// listOnce groups the partitions by the leaders that fresh metadata name: one
// request each. (kafka-go would open a connection per partition, and reads a
// partition that an answer lacks as offset 0.)
func (l *Log) listOnce(ctx context.Context, topic string, partitions []int, at int64) ([]int64, error) {
	res, err := l.metadata(ctx, topic)
	if err != nil {
		return nil, err
	}
	leaders, err := leadersOf(res, topic, partitions)
	if err != nil {
		return nil, err
	}
	found := make(map[int]int64, len(partitions))
	for id, led := range leaders {
		if err := l.listLeader(ctx, id, topic, led, at, found); err != nil {
			return nil, err
		}
	}
	out := make([]int64, len(partitions))
	for i, p := range partitions {
		off, ok := found[p]
		if !ok || off < 0 {
			return nil, fmt.Errorf("the broker gave no offset for partition %d", p)
		}
		out[i] = off
	}
	return out, nil
}

// leadersOf says who leads what; codes 3 and 5 where nobody does.
func leadersOf(res *metadata.Response, topic string, partitions []int) (map[int32][]int, error) {
	if len(res.Topics) != 1 || res.Topics[0].Name != topic {
		return nil, protocol.NewErrNoTopic(topic)
	}
	if code := res.Topics[0].ErrorCode; code != 0 {
		return nil, kafka.Error(code)
	}
	leader := make(map[int]int32, len(res.Topics[0].Partitions))
	for _, p := range res.Topics[0].Partitions {
		leader[int(p.PartitionIndex)] = p.LeaderID
	}
	led := map[int32][]int{}
	for _, p := range partitions {
		id, ok := leader[p]
		if !ok {
			return nil, &missingPartition{topic, p}
		}
		if id < 0 {
			return nil, kafka.LeaderNotAvailable
		}
		led[id] = append(led[id], p)
	}
	return led, nil
}

// missingPartition is found by fresh metadata: nothing is left to diagnose.
type missingPartition struct {
	topic     string
	partition int
}

func (e *missingPartition) Error() string {
	return fmt.Sprintf("topic %s has no partition %d", e.topic, e.partition)
}

func (l *Log) listLeader(ctx context.Context, id int32, topic string, partitions []int, at int64, found map[int]int64) error {
	req := &listoffsets.Request{ReplicaID: -1, IsolationLevel: 1, Topics: []listoffsets.RequestTopic{{Topic: topic}}}
	for _, p := range partitions {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, listoffsets.RequestPartition{
			Partition: int32(p), CurrentLeaderEpoch: -1, Timestamp: at,
		})
	}
	v, err := l.call(ctx, 0, &call{
		key: protocol.ListOffsets,
		route: func(c protocol.Cluster) (protocol.Broker, error) {
			b, ok := c.Brokers[id]
			if !ok {
				return b, fmt.Errorf("leader %d of %s: %w", id, topic, kafka.NotLeaderForPartition)
			}
			return b, nil
		},
		exchange: func(rw io.ReadWriter, version int16) (any, error) {
			return protocol.RoundTrip(rw, version, correlation, l.clientID, req)
		},
	})
	if err != nil {
		return err
	}
	for _, t := range v.(*listoffsets.Response).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return kafka.Error(p.ErrorCode)
			}
			if t.Topic == topic {
				found[int(p.Partition)] = p.Offset
			}
		}
	}
	return nil
}

// Commit stores an offset and a note of at most 4096 bytes under a group that
// has no members. Tools that show lag see it.
func (l *Log) Commit(ctx context.Context, group, topic string, partition int, offset int64, note string) error {
	const op = "commit"
	if len(note) > maxMetadata {
		err := fmt.Errorf("metadata of %d bytes, limit %d", len(note), maxMetadata)
		return &Error{op, topic, partition, KindTooLarge, err}
	}
	return l.patiently(ctx, func() error {
		return l.run(ctx, op, topic, partition, func(ctx context.Context) error {
			res, err := l.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
				GroupID: group, GenerationID: -1,
				Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: partition, Offset: offset, Metadata: note}}},
			})
			if err != nil {
				return err
			}
			for _, p := range res.Topics[topic] {
				if p.Partition == partition {
					return p.Error
				}
			}
			return errors.New("the broker did not answer for the partition")
		})
	})
}

// DeleteGroup forgets what was stored under a group that has no members; one
// that is not there is no error.
func (l *Log) DeleteGroup(ctx context.Context, group string) error {
	return l.patiently(ctx, func() error {
		return l.run(ctx, "delete group", group, -1, func(ctx context.Context) error {
			res, err := l.client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
			if err != nil {
				return err
			}
			if err := res.Errors[group]; err != nil && !errors.Is(err, kafka.GroupIdNotFound) {
				return err
			}
			return nil
		})
	})
}

// Committed gives what Commit stored last; ok is false when there is nothing,
// which does not say that the topic exists.
func (l *Log) Committed(ctx context.Context, group, topic string, partition int) (offset int64, note string, ok bool, err error) {
	err = l.patiently(ctx, func() error {
		return l.run(ctx, "committed offset of", topic, partition, func(ctx context.Context) error {
			offset, note, err = l.committed(ctx, group, topic, partition)
			return err
		})
	})
	if err != nil || offset < 0 {
		return -1, "", false, err
	}
	return offset, note, true, nil
}

// AnyCommitted tells whether Commit stored anything under a group, for whatever
// topic.
func (l *Log) AnyCommitted(ctx context.Context, group string) (found bool, err error) {
	err = l.patiently(ctx, func() error {
		return l.run(ctx, "committed offsets of", group, -1, func(ctx context.Context) error {
			res, err := l.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group}) // no topics: all
			if err != nil {
				return err
			}
			if res.Error != nil && !errors.Is(res.Error, kafka.GroupIdNotFound) {
				return res.Error
			}
			found = len(res.Topics) > 0
			return nil
		})
	})
	return found, err
}

func (l *Log) committed(ctx context.Context, group, topic string, partition int) (int64, string, error) {
	res, err := l.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: {partition}},
	})
	if err != nil {
		return -1, "", err
	}
	// Some brokers answer "no such group" for one that never committed.
	if errors.Is(res.Error, kafka.GroupIdNotFound) {
		return -1, "", nil
	}
	if res.Error != nil {
		return -1, "", res.Error
	}
	for _, p := range res.Topics[topic] {
		if p.Partition == partition {
			return p.CommittedOffset, p.Metadata, p.Error
		}
	}
	return -1, "", errors.New("the broker did not answer for the partition")
}
