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

// Fetch versions that we speak: 4 brought record batches and transactions, 11
// is the last before names become ids.
const (
	minFetchVersion = 4
	maxFetchVersion = 11
)

// fetched is the part of a fetch answer that a reader needs.
type fetched struct {
	code    int16
	high    int64 // what may be read ends there: the last stable offset, or the watermark
	aborted []abortedTxn
	records []byte
	release func()

	watermark int64 // end of what all replicas in sync have
}

type abortedTxn struct{ producer, first int64 }

// isolation of a fetch, as the protocol has it.
type isolation byte

const (
	uncommitted isolation = 0
	committed   isolation = 1
)

// fetch asks the leader once. Its records are valid until release.
func (l *Log) fetch(ctx context.Context, level isolation, topic string, partition int, from int64, maxBytes int, maxWait time.Duration) (*fetched, error) {
	v, err := l.call(ctx, maxWait, &call{
		key:   protocol.Fetch,
		route: leader(topic, partition),
		exchange: func(rw io.ReadWriter, version int16) (any, error) {
			if version < minFetchVersion {
				return nil, fmt.Errorf("the broker speaks fetch version %d, at least %d is needed: upgrade it", version, minFetchVersion)
			}
			version = min(version, maxFetchVersion)
			req := appendFetch(nil, version, level, l.clientID, topic, partition, from, maxBytes, maxWait)
			if _, err := rw.Write(req); err != nil {
				return nil, err
			}
			return l.readFetch(rw, version, topic, partition, maxBytes+l.maxBatch+headroom)
		},
	})
	if err != nil {
		return nil, err
	}
	f := v.(*fetched)
	if level == uncommitted {
		f.high, f.aborted = f.watermark, nil
	}
	if f.code != 0 {
		f.release()
		return nil, kafka.Error(f.code)
	}
	return f, nil
}

// appendFetch encodes a fetch request of one partition.
func appendFetch(b []byte, version int16, level isolation, client, topic string, partition int, from int64, maxBytes int, maxWait time.Duration) []byte {
	be := binary.BigEndian
	i32 := func(v int) { b = be.AppendUint32(b, uint32(int32(v))) }
	str := func(s string) { b = append(be.AppendUint16(b, uint16(len(s))), s...) }

	start := len(b)
	i32(0) // size, below
	b = be.AppendUint16(b, uint16(protocol.Fetch))
	b = be.AppendUint16(b, uint16(version))
	i32(correlation)
	str(client)
	i32(-1) // replica
	i32(int(maxWait.Milliseconds()))
	i32(1) // min bytes
	i32(maxBytes)
	b = append(b, byte(level))
	if version >= 7 {
		i32(0) // no session
		i32(-1)
	}
	i32(1)
	str(topic)
	i32(1)
	i32(partition)
	if version >= 9 {
		i32(-1) // leader epoch: not known
	}
	b = be.AppendUint64(b, uint64(from))
	if version >= 5 {
		b = be.AppendUint64(b, ^uint64(0)) // log start: followers only
	}
	i32(maxBytes)
	if version >= 7 {
		i32(0) // forgotten topics
	}
	if version >= 11 {
		str("") // rack
	}
	be.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// headroom is what an answer may hold besides records.
const headroom = 1 << 20

// readFetch reads one answer of at most limit bytes. On any error the caller's
// connection is given up, so that nothing needs to be drained.
func (l *Log) readFetch(r io.Reader, version int16, topic string, partition, limit int) (*fetched, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 {
		return nil, fmt.Errorf("fetch answer of %d bytes", size)
	}
	if size > limit {
		return nil, oversize(r, version, topic, partition, size, limit)
	}
	buf := l.pools.get(size)
	if _, err := io.ReadFull(r, *buf); err != nil {
		l.pools.put(buf)
		return nil, err
	}
	f, err := parseFetch(*buf, version, topic, partition)
	if err != nil {
		l.pools.put(buf)
		return nil, err
	}
	f.release = func() { l.pools.put(buf) }
	return f, nil
}

// oversize names the batch that makes an answer larger than we accept: a
// broker sends the first batch whole, whatever maximum was asked for.
func oversize(r io.Reader, version int16, topic string, partition, size, limit int) error {
	cause := fmt.Errorf("answer of %d bytes, limit %d: %w", size, limit, errLimit)
	prefix := make([]byte, min(size, 64<<10))
	if _, err := io.ReadFull(r, prefix); err != nil {
		return err
	}
	f, err := parseFetch(prefix, version, topic, partition)
	if err != nil || len(f.records) < batchHeader {
		return cause
	}
	h := headerOf(f.records)
	return &BatchError{h.base, h.last, cause}
}

var errShort = errors.New("the answer ends early")

// parseFetch decodes an answer for exactly the asked partition. A record set
// that is cut off is given as far as it goes.
func parseFetch(b []byte, version int16, topic string, partition int) (*fetched, error) {
	c := cursor{b: b}
	if id := c.i32(); id != correlation {
		return nil, fmt.Errorf("fetch answer with correlation id %d", id)
	}
	c.i32() // throttle
	f := &fetched{}
	if version >= 7 {
		f.code = c.i16()
		c.i32() // session
	}
	topics := c.i32()
	if !c.short && f.code != 0 {
		return f, nil
	}
	if topics != 1 {
		return nil, fmt.Errorf("fetch answer with %d topics", topics)
	}
	if name := c.take(int(c.i16())); string(name) != topic {
		return nil, fmt.Errorf("fetch answer for topic %q", name)
	}
	if n := c.i32(); n != 1 {
		return nil, fmt.Errorf("fetch answer with %d partitions", n)
	}
	if p := c.i32(); int(p) != partition {
		return nil, fmt.Errorf("fetch answer for partition %d", p)
	}
	f.code = c.i16()
	f.watermark = c.i64()
	f.high = c.i64()
	if version >= 5 {
		c.i64() // log start
	}
	for range max(0, c.i32()) {
		if c.short {
			break
		}
		f.aborted = append(f.aborted, abortedTxn{c.i64(), c.i64()})
	}
	if version >= 11 {
		c.i32() // preferred replica: we named no rack
	}
	n := max(0, int(c.i32()))
	if c.short {
		return nil, errShort
	}
	f.records = c.b[:min(n, len(c.b))]
	return f, nil
}

// cursor reads big-endian fields; once short, it stays short and gives zeroes.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) i16() int16 {
	if v := c.take(2); v != nil {
		return int16(binary.BigEndian.Uint16(v))
	}
	return 0
}

func (c *cursor) i32() int32 {
	if v := c.take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (c *cursor) i64() int64 {
	if v := c.take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

// varint reads a zigzag number.
func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.short, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

// bytes reads a length and as many bytes; -1 is nil.
func (c *cursor) bytes() []byte {
	n := c.varint()
	if n < 0 || c.short {
		return nil
	}
	if n > int64(len(c.b)) {
		c.short, c.b = true, nil
		return nil
	}
	return c.take(int(n))
}
