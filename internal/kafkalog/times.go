package kafkalog

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"
)

// Partitions counts the partitions of a topic, asked of a broker now. A topic
// that is not there is KindTopic.
func (l *Log) Partitions(ctx context.Context, topic string) (n int, err error) {
	err = l.run(ctx, "partitions of", topic, -1, func(ctx context.Context) error {
		res, err := l.metadata(ctx, topic)
		if err != nil {
			return err
		}
		if len(res.Topics) != 1 || res.Topics[0].Name != topic {
			return kafka.UnknownTopicOrPartition
		}
		if code := res.Topics[0].ErrorCode; code != 0 {
			return kafka.Error(code)
		}
		n = len(res.Topics[0].Partitions)
		return nil
	})
	return n, err
}

// OffsetAt is the offset of the first record at or after a time, asked of the
// leader now; the end of the log if there is none yet.
func (l *Log) OffsetAt(ctx context.Context, topic string, partition int, at time.Time) (int64, error) {
	var offset int64
	err := l.patiently(ctx, func() error {
		return l.run(ctx, "offset at a time of", topic, partition, func(ctx context.Context) error {
			res, err := l.metadata(ctx, topic)
			if err != nil {
				return err
			}
			leaders, err := leadersOf(res, topic, []int{partition})
			if err != nil {
				return err
			}
			found := map[int]int64{}
			for id, led := range leaders {
				if err := l.listLeader(ctx, id, topic, led, max(at.UnixMilli(), 0), found); err != nil {
					return err
				}
			}
			offset = -1
			if o, ok := found[partition]; ok {
				offset = o
			}
			return nil
		})
	})
	if err != nil || offset >= 0 {
		return offset, err
	}
	_, end, err := l.Bounds(ctx, topic, partition)
	return end, err
}
