package kafkalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"time"
)

// batchHeader is the size of a record batch's header (message format 2).
const batchHeader = 61

const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one record batch as it lies in the log. last is kept by compaction
// even when the record there is gone: it is what a reader steps over.
type batch struct {
	base, last      int64
	attrs           int16
	firstMS, lastMS int64
	producer        int64
	count           int32
	payload         []byte // compressed as attrs say
}

// headerOf decodes a header of batchHeader bytes without any check.
func headerOf(b []byte) batch {
	be := binary.BigEndian
	base := int64(be.Uint64(b))
	return batch{
		base:     base,
		attrs:    int16(be.Uint16(b[21:])),
		last:     base + int64(int32(be.Uint32(b[23:]))),
		firstMS:  int64(be.Uint64(b[27:])),
		lastMS:   int64(be.Uint64(b[35:])),
		producer: int64(be.Uint64(b[43:])),
		count:    int32(be.Uint32(b[57:])),
	}
}

// nextBatch cuts the first batch off a record set. ok is false at the end: an
// answer may stop in the middle of a batch.
func nextBatch(b []byte) (bt batch, rest []byte, ok bool, err error) {
	if len(b) < 17 {
		return batch{}, nil, false, nil
	}
	be := binary.BigEndian
	base, length := int64(be.Uint64(b)), int64(int32(be.Uint32(b[8:])))
	if magic := b[16]; magic != 2 {
		return batch{}, nil, false, &BatchError{base, base, fmt.Errorf("message format %d: only format 2 (Kafka 0.11 and later) can be read", magic)}
	}
	if length < batchHeader-12 {
		return batch{}, nil, false, &BatchError{base, base, fmt.Errorf("batch length %d is less than its header", length)}
	}
	if int64(len(b)) < 12+length {
		return batch{}, nil, false, nil
	}
	whole := b[:12+length]
	bt = headerOf(whole)
	if got, want := crc32.Checksum(whole[21:], castagnoli), be.Uint32(whole[17:]); got != want {
		return batch{}, nil, false, &BatchError{bt.base, bt.last, fmt.Errorf("checksum %08x, the batch says %08x", got, want)}
	}
	if bt.base < 0 || bt.last < bt.base {
		return batch{}, nil, false, &BatchError{bt.base, bt.last, errors.New("impossible offsets")}
	}
	bt.payload = whole[batchHeader:]
	return bt, b[12+length:], true, nil
}

func (bt *batch) bad(format string, args ...any) error {
	return &BatchError{bt.base, bt.last, fmt.Errorf(format, args...)}
}

// check walks all records, so that none of a malformed batch is given.
func (bt *batch) check(plain []byte) error { return bt.each(plain, math.MaxInt64, nil) }

// each gives the batch's records at or after from. plain is the decompressed
// payload; the records refer to it.
func (bt *batch) each(plain []byte, from int64, fn func(Record) error) error {
	c := cursor{b: plain}
	before := bt.base - 1
	var headers []Header
	for i := range bt.count {
		body := cursor{b: c.bytes()}
		if c.short {
			return bt.bad("%d records, the batch says %d", i, bt.count)
		}
		body.take(1) // attributes: none are defined
		stamp := bt.firstMS + body.varint()
		offset := bt.base + body.varint()
		key, value := body.bytes(), body.bytes()
		var err error
		if headers, err = body.headers(headers[:0]); err != nil || body.short {
			return bt.bad("record %d is malformed", i)
		}
		if offset <= before || offset > bt.last {
			return bt.bad("record %d claims offset %d", i, offset)
		}
		before = offset
		if offset < from {
			continue
		}
		if bt.attrs&attrLogAppendTime != 0 {
			stamp = bt.lastMS
		}
		rec := Record{Offset: offset, Key: key, Value: value, Time: time.UnixMilli(stamp).UTC()}
		if len(headers) > 0 {
			rec.Headers = headers
		}
		if err := fn(rec); err != nil {
			return &stopped{offset, err}
		}
	}
	return nil
}

func (c *cursor) headers(into []Header) ([]Header, error) {
	n := c.varint()
	if n < 0 || n > int64(len(c.b)) {
		return into, errShort
	}
	for range n {
		into = append(into, Header{Key: string(c.bytes()), Value: c.bytes()})
	}
	return into, nil
}

// stopped carries a callback's own error and the offset where it happened.
type stopped struct {
	at  int64
	err error
}

func (s *stopped) Error() string { return s.err.Error() }

// abortMarker tells what a control batch says: its producer's transaction was
// aborted, and ends here.
func (bt *batch) abortMarker() bool {
	abort := false
	_ = bt.each(bt.payload, bt.base, func(r Record) error {
		abort = len(r.Key) >= 4 && binary.BigEndian.Uint16(r.Key[2:]) == 0
		return nil
	})
	return abort
}

// bufferPool reuses buffers of common sizes; larger ones are left to the
// garbage collector, so that one giant does not stay for ever.
type bufferPool struct{ p sync.Pool }

const maxPooled = 8 << 20

// get gives a buffer of n bytes.
func (p *bufferPool) get(n int) *[]byte {
	b, _ := p.p.Get().(*[]byte)
	if b == nil {
		b = new([]byte)
	}
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	return b
}

func (p *bufferPool) put(b *[]byte) {
	if cap(*b) <= maxPooled {
		p.p.Put(b)
	}
}
