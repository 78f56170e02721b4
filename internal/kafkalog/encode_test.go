package kafkalog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

var (
	written = []codec{noCodec, snappyCodec, lz4Codec, zstdCodec}
	noon    = time.UnixMilli(1_700_000_000_000).UTC()
)

// encoded is a batch of the records.
func encoded(t interface{ Fatal(...any) }, recs []Record, with codec) []byte {
	b, err := new(bufferPool).appendBatch(nil, recs, with, noon)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// text is n bytes that compress well.
func text(n int) []byte { return bytes.Repeat([]byte("all work and no play "), n/21+1)[:n] }

// noise is n bytes that do not.
func noise(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(b)
	return b
}

// TestGolden: the bytes as the format's description has them.
func TestGolden(t *testing.T) {
	got := encoded(t, []Record{
		{Key: []byte("k"), Value: []byte("value"), Time: noon, Headers: []Header{{"h", []byte("x")}, {"n", nil}}},
		{Key: []byte{}, Time: noon.Add(time.Second)}, // a tombstone
		{Value: []byte("now"), Time: time.Time{}},
	}, noCodec)
	want := strings.Join([]string{
		"0000000000000000", "00000057", "ffffffff", "02", "4258a8ce", // base, length, leader epoch, magic, checksum
		"0000", "00000002", "0000018bcfe56800", "0000018bcfe56be8", // attributes, last offset delta, first and last time
		"ffffffffffffffff", "ffff", "ffffffff", "00000003", // producer, epoch, sequence, count
		"26" + "00" + "00" + "00" + "026b" + "0a76616c7565" + "04" + "0268" + "0278" + "026e" + "01",
		"0e" + "00" + "d00f" + "02" + "00" + "01" + "00",
		"12" + "00" + "00" + "04" + "01" + "066e6f77" + "00",
	}, "")
	if h := hex.EncodeToString(got); h != want {
		t.Errorf("got\n%s, want\n%s", h, want)
	}
}

func drawRecord(t *rapid.T) Record {
	data := rapid.OneOf(
		rapid.Just[[]byte](nil), rapid.SliceOfN(rapid.Byte(), 0, 300),
		rapid.Map(rapid.IntRange(0, 70_000), text), rapid.Map(rapid.IntRange(0, 3000), noise),
	)
	r := Record{Key: data.Draw(t, "key"), Value: data.Draw(t, "value")}
	if rapid.Bool().Draw(t, "time") {
		r.Time = time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "ms")).UTC()
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, Header{rapid.StringN(0, 20, 200).Draw(t, "name"), data.Draw(t, "header")})
	}
	return r
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// equal ignores offsets; a record without a time got noon.
func equal(got, want Record) bool {
	if want.Time.IsZero() {
		want.Time = noon
	}
	return same(got.Key, want.Key) && same(got.Value, want.Value) && got.Time.Equal(want.Time) &&
		slices.EqualFunc(got.Headers, want.Headers, func(a, b Header) bool { return a.Key == b.Key && same(a.Value, b.Value) })
}

// TestEncodeAny: whatever the records and the codec, we and other clients read
// what was written, in a batch no larger than was foretold.
func TestEncodeAny(t *testing.T) {
	l := opened(t)
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rapid.Custom(drawRecord), 1, 20).Draw(t, "records")
		with := rapid.SampledFrom(written).Draw(t, "codec")
		b := encoded(t, recs, with)
		if with != zstdCodec && len(b) > batchBound(recs, with) {
			t.Fatalf("%d bytes, at most %d were foretold", len(b), batchBound(recs, with))
		}
		for name, decode := range map[string]func(*rapid.T, *Log, []byte) []Record{"ours": decodeOurs, "franz-go": decodeFranz, "kafka-go": decodeSegment} {
			if got := decode(t, l, b); !slices.EqualFunc(got, recs, equal) {
				t.Fatalf("%s: got %d records %v", name, len(got), got)
			}
		}
	})
}

func decodeOurs(t *rapid.T, l *Log, b []byte) (out []Record) {
	next, err := l.deliver(&fetched{records: b}, 0, func(r Record) error {
		if r.Offset != int64(len(out)) {
			t.Fatalf("record %d has offset %d", len(out), r.Offset)
		}
		out = append(out, r.clone())
		return nil
	})
	if err != nil || next != int64(len(out)) {
		t.Fatalf("next %d, %v", next, err)
	}
	return out
}

func decodeFranz(t *rapid.T, _ *Log, b []byte) (out []Record) {
	p, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{},
		&kmsg.FetchResponseTopicPartition{RecordBatches: b}, kgo.DefaultDecompressor(), nil)
	if p.Err != nil {
		t.Fatalf("franz-go: %v", p.Err)
	}
	for _, r := range p.Records {
		rec := Record{Key: r.Key, Value: r.Value, Time: r.Timestamp}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, Header(h))
		}
		out = append(out, rec)
	}
	return out
}

func decodeSegment(t *rapid.T, _ *Log, b []byte) (out []Record) {
	b = append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	var set protocol.RecordSet
	if _, err := set.ReadFrom(bytes.NewReader(b)); err != nil {
		t.Fatalf("kafka-go: %v", err)
	}
	read := func(b kafka.Bytes) []byte {
		if b == nil {
			return nil
		}
		v, err := protocol.ReadAll(b)
		if err != nil {
			t.Fatalf("kafka-go: %v", err)
		}
		return v
	}
	for {
		r, err := set.Records.ReadRecord()
		if err != nil {
			return out
		}
		rec := Record{Key: read(r.Key), Value: read(r.Value), Time: r.Time}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, Header(h))
		}
		out = append(out, rec)
	}
}

// TestCompressed: only what becomes smaller is compressed.
func TestCompressed(t *testing.T) {
	for _, with := range written[1:] {
		for _, c := range []struct {
			name  string
			value []byte
			want  codec
		}{
			{"text", text(100_000), with},
			{"noise", noise(100_000), noCodec},
			{"mixed", slices.Concat(text(100_000), noise(100_000)), with},
			{"mostly noise", slices.Concat(text(10_000), noise(100_000)), noCodec},
			{"little", text(400), noCodec},
		} {
			b := encoded(t, []Record{{Value: c.value}}, with)
			if got := codec(headerOf(b).attrs); got != c.want || c.want == noCodec && len(b) < len(c.value) {
				t.Errorf("%s by %d: written by %d, %d bytes", c.name, with, got, len(b))
			}
		}
	}
}

// TestSnappyFrames: Java reads blocks of a bounded size after its header.
func TestSnappyFrames(t *testing.T) {
	plain := text(600 << 10)
	b := appendSnappy([]byte("before"), plain)
	b, ok := bytes.CutPrefix(b, append([]byte("before"), xerialHeader...))
	if !ok {
		t.Fatalf("begins with %x", b[:22])
	}
	var sizes []int
	for len(b) > 0 {
		n := binary.BigEndian.Uint32(b)
		block, err := unsnappyBlock(nil, b[4:4+n], 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(block))
		b = b[4+n:]
	}
	if !slices.Equal(sizes, []int{256 << 10, 256 << 10, 88 << 10}) {
		t.Errorf("blocks of %v", sizes)
	}
}
