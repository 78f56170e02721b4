package kafkalog

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Produce versions that we speak: 3 brought this message format, 8 is the last
// before lengths become varints. The request is the same in all of them.
const (
	minProduceVersion = 3
	maxProduceVersion = 8
	// maxProduced bounds an answer for one partition.
	maxProduced = 1 << 20
)

// produce sends one batch once.
func (l *Log) produce(ctx context.Context, topic string, partition int, recs []Record, with codec) (int64, error) {
	buf, err := l.request(ctx, topic, partition, recs, with)
	if err != nil {
		return -1, err
	}
	v, err := l.call(ctx, 0, &call{
		key:   protocol.Produce,
		route: leader(topic, partition),
		exchange: func(rw io.ReadWriter, version int16) (any, error) {
			if version < minProduceVersion {
				return nil, fmt.Errorf("the broker speaks produce version %d, at least %d is needed: upgrade it", version, minProduceVersion)
			}
			version = min(version, maxProduceVersion)
			binary.BigEndian.PutUint16((*buf)[produceVersionAt:], uint16(version))
			if _, err := rw.Write(*buf); err != nil {
				return nil, err
			}
			return readProduced(rw, version, topic, partition)
		},
	})
	if err != nil {
		// The connection may still be sending the buffer: it is not used again.
		return -1, err
	}
	l.pools.put(buf)
	p := v.(*produced)
	return p.base, p.err
}

// request encodes a whole produce request, but for its version.
func (l *Log) request(ctx context.Context, topic string, partition int, recs []Record, with codec) (*[]byte, error) {
	buf := l.pools.get(produceHeader + len(l.clientID) + len(topic) + batchBound(recs, with))
	b := appendProduce((*buf)[:0], l.clientID, topic, partition, ackTimeout(ctx))
	at := len(b)
	b, err := l.pools.appendBatch(b, recs, with, time.Now())
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(b[at-4:], uint32(len(b)-at))
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	*buf = b
	return buf, nil
}

// ackTimeout is how long the broker may wait for its replicas: half of our own
// patience, so that its answer is not missed.
func ackTimeout(ctx context.Context) time.Duration {
	left := requestTimeout
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end))
	}
	return max(left/2, time.Millisecond)
}

const (
	produceVersionAt = 6
	// produceHeader is the size of a request without client id, topic, batch.
	produceHeader = 44
)

// appendProduce encodes a request of one partition up to its records, with
// room for the sizes and the version.
func appendProduce(b []byte, client, topic string, partition int, timeout time.Duration) []byte {
	be := binary.BigEndian
	b = append(b, 0, 0, 0, 0) // size
	b = be.AppendUint16(b, uint16(protocol.Produce))
	b = append(b, 0, 0) // version
	b = be.AppendUint32(b, correlation)
	b = append(be.AppendUint16(b, uint16(len(client))), client...)
	b = be.AppendUint16(b, ^uint16(0)) // no transaction
	b = be.AppendUint16(b, ^uint16(0)) // all replicas
	b = be.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = be.AppendUint32(b, 1)
	b = append(be.AppendUint16(b, uint16(len(topic))), topic...)
	b = be.AppendUint32(b, 1)
	b = be.AppendUint32(b, uint32(partition))
	return append(b, 0, 0, 0, 0) // size of the records
}

// produced is a broker's answer about the partition: where the batch begins,
// or why it was not taken.
type produced struct {
	base int64
	err  error
}

// readProduced reads one answer. After an error the connection is given up.
func readProduced(r io.Reader, version int16, topic string, partition int) (*produced, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(head[:]))
	if size < 4 || size > maxProduced {
		return nil, fmt.Errorf("produce answer of %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return parseProduced(b, version, topic, partition)
}

func parseProduced(b []byte, version int16, topic string, partition int) (*produced, error) {
	c := cursor{b: b}
	if id := c.i32(); id != correlation {
		return nil, fmt.Errorf("produce answer with correlation id %d", id)
	}
	if n := c.i32(); n != 1 {
		return nil, fmt.Errorf("produce answer with %d topics", n)
	}
	if name := c.take(int(c.i16())); string(name) != topic {
		return nil, fmt.Errorf("produce answer for topic %q", name)
	}
	if n := c.i32(); n != 1 {
		return nil, fmt.Errorf("produce answer with %d partitions", n)
	}
	if p := c.i32(); int(p) != partition {
		return nil, fmt.Errorf("produce answer for partition %d", p)
	}
	code := c.i16()
	p := &produced{base: c.i64()}
	c.i64() // log append time
	if version >= 5 {
		c.i64() // log start
	}
	var message string
	if version >= 8 {
		for range max(0, c.i32()) {
			c.i32() // index of a record
			c.nullable()
			if c.short {
				break
			}
		}
		message = c.nullable()
	}
	c.i32() // throttle: the broker itself delays what comes next
	if c.short {
		return nil, errShort
	}
	if code != 0 {
		p.base, p.err = -1, answered(code, message)
	}
	return p, nil
}

// answered is a broker's refusal.
func answered(code int16, message string) error {
	if message == "" {
		return kafka.Error(code)
	}
	return fmt.Errorf("%w: %s", kafka.Error(code), message)
}

// nullable reads a string; -1 is "".
func (c *cursor) nullable() string {
	n := c.i16()
	if n == -1 {
		return ""
	}
	return string(c.take(int(n)))
}
