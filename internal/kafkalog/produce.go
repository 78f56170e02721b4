package kafkalog

import (
	"context"
	"encoding/binary"
	"errors"
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
	// maxProduced bounds an answer.
	maxProduced = 1 << 20
)

// exchange sends the request in buf once, to the leader of the first part, and
// gives the answers to the parts, or an error when there is none. They are not
// empty and in ascending order of their places, a batch each. buf goes to the pool.
func (l *Log) exchange(ctx context.Context, parts []Part, buf *[]byte) ([]produced, error) {
	v, err := l.call(ctx, 0, &call{
		key:   protocol.Produce,
		route: leader(parts[0].Topic, parts[0].Partition),
		exchange: func(rw io.ReadWriter, version int16) (any, error) {
			if version < minProduceVersion {
				return nil, fmt.Errorf("the broker speaks produce version %d, at least %d is needed: upgrade it", version, minProduceVersion)
			}
			version = min(version, maxProduceVersion)
			binary.BigEndian.PutUint16((*buf)[produceVersionAt:], uint16(version))
			if _, err := rw.Write(*buf); err != nil {
				return nil, err
			}
			return readProduced(rw, version, parts)
		},
	})
	if err != nil {
		// The connection may still be sending the buffer: it is not used again.
		return nil, err
	}
	l.pools.put(buf)
	return v.([]produced), nil
}

// produceOne sends one batch once.
func (l *Log) produceOne(ctx context.Context, part Part, with codec) (int64, error) {
	parts := []Part{part}
	buf, err := l.request(ctx, parts, with)
	if err != nil {
		return -1, err
	}
	out, err := l.exchange(ctx, parts, buf)
	if err != nil {
		return -1, err
	}
	return out[0].base, out[0].err
}

// request encodes a whole produce request, but for its version.
func (l *Log) request(ctx context.Context, parts []Part, with codec) (*[]byte, error) {
	size := produceHeader + len(l.clientID)
	for i := range parts {
		size += partHeader + len(parts[i].Topic) + batchBound(parts[i].Records, with)
	}
	buf := l.pools.get(size)
	b := appendProduce((*buf)[:0], l.clientID, ackTimeout(ctx))
	b, err := l.appendParts(b, parts, with)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	*buf = b
	return buf, nil
}

// appendParts encodes the parts by topic, as they follow the header.
func (l *Log) appendParts(b []byte, parts []Part, with codec) (_ []byte, err error) {
	be, now := binary.BigEndian, time.Now()
	topicsAt, partsAt := len(b), 0
	b = append(b, 0, 0, 0, 0) // topics
	for i := range parts {
		p := &parts[i]
		if i == 0 || p.Topic != parts[i-1].Topic {
			count(b[topicsAt:])
			b = append(be.AppendUint16(b, uint16(len(p.Topic))), p.Topic...)
			partsAt = len(b)
			b = append(b, 0, 0, 0, 0) // partitions
		}
		count(b[partsAt:])
		b = be.AppendUint32(b, uint32(p.Partition))
		b = append(b, 0, 0, 0, 0) // size of the records
		at := len(b)
		if b, err = l.pools.appendBatch(b, p.Records, with, now); err != nil {
			return nil, err
		}
		be.PutUint32(b[at-4:], uint32(len(b)-at))
	}
	return b, nil
}

// count adds one to the number that b begins with.
func count(b []byte) { binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)+1) }

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
	// produceHeader is the size of a request without client id and parts.
	produceHeader = 26
	// partHeader is the size of what is before a part's batch, but for the name
	// of its topic, from above: parts of one topic share some of it.
	partHeader = 14
)

// appendProduce encodes a request up to its topics, with room for its size and
// version.
func appendProduce(b []byte, client string, timeout time.Duration) []byte {
	be := binary.BigEndian
	b = append(b, 0, 0, 0, 0) // size
	b = be.AppendUint16(b, uint16(protocol.Produce))
	b = append(b, 0, 0) // version
	b = be.AppendUint32(b, correlation)
	b = append(be.AppendUint16(b, uint16(len(client))), client...)
	b = be.AppendUint16(b, ^uint16(0)) // no transaction
	b = be.AppendUint16(b, ^uint16(0)) // all replicas
	return be.AppendUint32(b, uint32(timeout.Milliseconds()))
}

// produced is a broker's answer about a part: where its batch begins, or why
// it was not taken.
type produced struct {
	base int64
	err  error
}

// errUnanswered is the answer about a part that a broker does not mention.
var errUnanswered = errors.New("the produce answer lacks the partition")

// readProduced reads one answer. After an error the connection is given up.
func readProduced(r io.Reader, version int16, parts []Part) ([]produced, error) {
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
	return parseProduced(b, version, parts)
}

// parseProduced gives an answer to each part, in the order of the parts: that of
// the broker is any.
func parseProduced(b []byte, version int16, parts []Part) ([]produced, error) {
	c := cursor{b: b}
	if id := c.i32(); id != correlation {
		return nil, fmt.Errorf("produce answer with correlation id %d", id)
	}
	out := make([]produced, len(parts))
	for i := range out {
		out[i] = produced{-1, errUnanswered}
	}
	for range max(0, c.i32()) {
		topic := string(c.take(int(c.i16())))
		for range max(0, c.i32()) {
			partition := int(c.i32())
			p := c.produced(version)
			if c.short {
				return nil, errShort
			}
			i, asked := findPart(parts, place{topic, partition})
			if !asked || !errors.Is(out[i].err, errUnanswered) {
				return nil, fmt.Errorf("produce answer for partition %d of topic %q, which was not asked for, or twice", partition, topic)
			}
			out[i] = p
		}
		if c.short {
			return nil, errShort
		}
	}
	c.i32() // throttle: the broker itself delays what comes next
	if c.short {
		return nil, errShort
	}
	return out, nil
}

// produced reads the answer about a partition after its number.
func (c *cursor) produced(version int16) produced {
	code := c.i16()
	p := produced{base: c.i64()}
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
	if code != 0 {
		p.base, p.err = -1, answered(code, message)
	}
	return p
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
