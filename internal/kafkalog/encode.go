package kafkalog

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"time"
)

// What is around a record's key, value and headers, from above: the attributes,
// five lengths or counts, the time. A header has two lengths.
const (
	recordOverhead = 1 + 5*binary.MaxVarintLen32 + binary.MaxVarintLen64
	headerOverhead = 2 * binary.MaxVarintLen32
)

// size of a record in a batch, from above.
func (r *Record) size() int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += headerOverhead + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

func sizeOf(recs []Record) int {
	n := 0
	for i := range recs {
		n += recs[i].size()
	}
	return n
}

// batchBound is the size of a batch from above.
func batchBound(recs []Record, with codec) int { return batchHeader + with.bound(sizeOf(recs)) }

// appendBatch encodes one batch of one record at least, compressed if that
// makes it smaller; now is the time of records that have none.
func (p *bufferPool) appendBatch(b []byte, recs []Record, with codec, now time.Time) ([]byte, error) {
	times := spanOf(recs, now)
	start := len(b)
	b = append(b, make([]byte, batchHeader)...)
	b, used, err := p.appendPayload(b, recs, with, times.first, now)
	if err != nil {
		return nil, err
	}
	sealBatch(b[start:], used, len(recs), times)
	return b, nil
}

// appendPayload encodes the records; used is how they are compressed.
func (p *bufferPool) appendPayload(b []byte, recs []Record, with codec, first int64, now time.Time) (_ []byte, used codec, err error) {
	if with == noCodec {
		return appendRecords(b, recs, first, now), noCodec, nil
	}
	buf := p.get(sizeOf(recs))
	defer p.put(buf)
	plain := appendRecords((*buf)[:0], recs, first, now)
	if len(plain) < minCompress {
		return append(b, plain...), noCodec, nil
	}
	start := len(b)
	if b, err = compress(b, with, plain); err != nil {
		return nil, noCodec, err
	}
	if len(plain)-(len(b)-start) < len(plain)/minGain {
		return append(b[:start], plain...), noCodec, nil
	}
	return b, with, nil
}

// sealBatch writes the header of a batch of n records, which follow it in b. It is the batch of a producer without idempotence: producer
// id, its epoch and sequence are -1; offsets are the broker's to set.
func sealBatch(b []byte, used codec, n int, times span) {
	be := binary.BigEndian
	be.PutUint64(b, 0) // base offset
	be.PutUint32(b[8:], uint32(len(b)-12))
	be.PutUint32(b[12:], ^uint32(0)) // leader epoch
	b[16] = 2
	be.PutUint16(b[21:], uint16(used))
	be.PutUint32(b[23:], uint32(n-1))
	be.PutUint64(b[27:], uint64(times.first))
	be.PutUint64(b[35:], uint64(times.last))
	be.PutUint64(b[43:], ^uint64(0)) // producer
	be.PutUint16(b[51:], ^uint16(0)) // its epoch
	be.PutUint32(b[53:], ^uint32(0)) // its sequence
	be.PutUint32(b[57:], uint32(n))
	be.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
}

// span is the time of a batch's first record, which those of the others are
// relative to, and the latest of all, in milliseconds.
type span struct{ first, last int64 }

// spanOf the records; now is the time of those that have none.
func spanOf(recs []Record, now time.Time) span {
	at := recs[0].millis(now)
	s := span{at, at}
	for i := range recs {
		s.last = max(s.last, recs[i].millis(now))
	}
	return s
}

func (r *Record) millis(now time.Time) int64 {
	if r.Time.IsZero() {
		return now.UnixMilli()
	}
	return r.Time.UnixMilli()
}

// appendRecords encodes the records as they follow a batch's header when they
// are not compressed.
func appendRecords(b []byte, recs []Record, first int64, now time.Time) []byte {
	for i := range recs {
		r := &recs[i]
		delta := r.millis(now) - first
		b = binary.AppendVarint(b, int64(r.bodyLen(delta, i)))
		b = append(b, 0) // attributes: none are defined
		b = binary.AppendVarint(b, delta)
		b = binary.AppendVarint(b, int64(i))
		b = appendBytes(b, r.Key)
		b = appendBytes(b, r.Value)
		b = binary.AppendVarint(b, int64(len(r.Headers)))
		for j := range r.Headers {
			h := &r.Headers[j]
			b = append(binary.AppendVarint(b, int64(len(h.Key))), h.Key...)
			b = appendBytes(b, h.Value)
		}
	}
	return b
}

// bodyLen is the length that stands before a record.
func (r *Record) bodyLen(delta int64, i int) int {
	n := 1 + varintLen(delta) + varintLen(int64(i)) + bytesLen(r.Key) + bytesLen(r.Value) + varintLen(int64(len(r.Headers)))
	for j := range r.Headers {
		h := &r.Headers[j]
		n += varintLen(int64(len(h.Key))) + len(h.Key) + bytesLen(h.Value)
	}
	return n
}

// appendBytes writes the length and the bytes; nil is the length -1.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

func bytesLen(v []byte) int {
	if v == nil {
		return varintLen(-1)
	}
	return varintLen(int64(len(v))) + len(v)
}

// varintLen is the size of a zigzag number.
func varintLen(v int64) int {
	return (bits.Len64(uint64(v<<1)^uint64(v>>63)|1) + 6) / 7
}
