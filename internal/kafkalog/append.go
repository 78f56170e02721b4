package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// batchBytes bounds the uncompressed size of a batch of several records.
const batchBytes = 900 << 10

// Append writes the records in order to one partition and returns when all
// in-sync replicas have acknowledged all of them; base is the offset of the
// first, and they need not be consecutive. A batch holds at most 900 KB before
// compression, or one single record.
//
// While Kafka is unavailable or the connection breaks it tries again, with
// growing pauses, until ctx ends; while the topic is missing, for five seconds.
// So it writes at least once: records may be there twice, and after an error
// none, some or all of them may be there. A record that the broker or
// Config.MaxBatchBytes refuses is KindTooLarge (errors.Is ErrTooLarge); the
// records before it have been written.
//
// Without records it does nothing and base is -1.
func (l *Log) Append(ctx context.Context, topic string, partition int, recs []Record) (base int64, err error) {
	return l.append(ctx, topic, partition, recs, l.codec)
}

// AppendWith is Append with another compression than the Config's.
func (l *Log) AppendWith(ctx context.Context, topic string, partition int, recs []Record, compression string) (base int64, err error) {
	codec, err := codecOf(compression)
	if err != nil {
		return -1, &Error{"append to", topic, partition, KindOther, err}
	}
	return l.append(ctx, topic, partition, recs, codec)
}

func (l *Log) append(ctx context.Context, topic string, partition int, recs []Record, codec codec) (int64, error) {
	base := int64(-1)
	for len(recs) > 0 {
		n := batchLen(recs)
		at, err := l.appendBatch(ctx, topic, partition, recs[:n], codec)
		if err != nil {
			return base, err
		}
		if base < 0 {
			base = at
		}
		recs = recs[n:]
	}
	return base, nil
}

// batchLen is how many of the first records make a batch: at least one.
func batchLen(recs []Record) int {
	sum := 0
	for i := range recs {
		if sum += recs[i].size(); sum > batchBytes && i > 0 {
			return i
		}
	}
	return len(recs)
}

// appendBatch writes a batch, in halves where a topic's limit is below ours.
func (l *Log) appendBatch(ctx context.Context, topic string, partition int, recs []Record, codec codec) (int64, error) {
	if size := recs[0].size(); size > l.maxBatch {
		return -1, tooLarge(topic, partition, size, fmt.Errorf("our limit is %d", l.maxBatch))
	}
	at, err := l.produceUntil(ctx, topic, partition, recs, codec)
	if err == nil || KindOf(err) != KindTooLarge {
		return at, err
	}
	if len(recs) == 1 {
		return -1, tooLarge(topic, partition, recs[0].size(), errors.Unwrap(err))
	}
	half := len(recs) / 2
	if at, err = l.appendBatch(ctx, topic, partition, recs[:half], codec); err != nil {
		return at, err
	}
	_, err = l.appendBatch(ctx, topic, partition, recs[half:], codec)
	return at, err
}

func tooLarge(topic string, partition, size int, cause error) error {
	err := fmt.Errorf("record of about %d bytes: %w; raise the topic's max.message.bytes or cut the record", size, cause)
	return &Error{"append to", topic, partition, KindTooLarge, err}
}

// produceUntil repeats produce as long as waiting can help and ctx allows.
func (l *Log) produceUntil(ctx context.Context, topic string, partition int, recs []Record, codec codec) (int64, error) {
	p := l.limits.backoff
	missing := time.Now().Add(l.limits.missing)
	var reason *Error // of the last try that ctx did not end
	for {
		var at int64
		err := l.run(ctx, "append to", topic, partition, func(ctx context.Context) (err error) {
			at, err = l.produceOne(ctx, Part{topic, partition, recs}, codec)
			return err
		})
		if err == nil {
			return at, nil
		}
		if ctx.Err() != nil {
			return -1, l.gaveUp(ctx, reason, err)
		}
		switch KindOf(err) {
		case KindUnavailable, KindNetwork:
		case KindTopic, KindPartition:
			if time.Now().After(missing) {
				return -1, err
			}
		default:
			return -1, err
		}
		if reason == nil || !errors.Is(err, context.DeadlineExceeded) {
			reason, _ = errors.AsType[*Error](err)
		}
		if p.wait(ctx) != nil {
			return -1, l.gaveUp(ctx, reason, err)
		}
	}
}

// gaveUp says why there was something to wait for when ctx ended; without an
// earlier reason err is all there is.
func (l *Log) gaveUp(ctx context.Context, reason *Error, err error) error {
	if reason == nil {
		return err
	}
	return l.ended(ctx, reason)
}
