package kafkalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"
)

// made describes a batch as a broker would store it.
type made struct {
	base, last int64
	offsets    []int64 // of the records that are left
	attrs      int16
	producer   int64
	payload    []byte // instead of records
	count      int32  // with payload
	key        []byte // of every record; nil: its offset as text
}

func (m made) bytes() []byte {
	be := binary.BigEndian
	payload, count := m.payload, m.count
	if payload == nil {
		for _, off := range m.offsets {
			key := m.key
			if key == nil {
				key = []byte(strconv.FormatInt(off, 10))
			}
			rec := []byte{0}
			rec = binary.AppendVarint(rec, 0)
			rec = binary.AppendVarint(rec, off-m.base)
			rec = append(binary.AppendVarint(rec, int64(len(key))), key...)
			rec = binary.AppendVarint(rec, -1)
			rec = binary.AppendVarint(rec, 0)
			payload = append(binary.AppendVarint(payload, int64(len(rec))), rec...)
		}
		count = int32(len(m.offsets))
	}
	b := make([]byte, batchHeader, batchHeader+len(payload))
	be.PutUint64(b, uint64(m.base))
	be.PutUint32(b[8:], uint32(batchHeader-12+len(payload)))
	b[16] = 2
	be.PutUint16(b[21:], uint16(m.attrs))
	be.PutUint32(b[23:], uint32(m.last-m.base))
	be.PutUint64(b[43:], uint64(m.producer))
	be.PutUint32(b[57:], uint32(count))
	b = append(b, payload...)
	return sealed(b)
}

// sealed corrects the checksum.
func sealed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func opened(t testing.TB) *Log {
	l, err := Open(Config{Brokers: []string{"127.0.0.1:1"}, MaxBatchBytes: minMaxBatch})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// delivered reads a record set from an offset on.
func delivered(l *Log, f *fetched, from int64) (offsets []int64, next int64, err error) {
	next, err = l.deliver(f, from, func(r Record) error {
		offsets = append(offsets, r.Offset)
		return nil
	})
	return offsets, next, err
}

func set(batches ...made) []byte {
	var b []byte
	for _, m := range batches {
		b = append(b, m.bytes()...)
	}
	return b
}

func TestDeliver(t *testing.T) {
	l := opened(t)
	abort, commit := []byte{0, 0, 0, 0}, []byte{0, 0, 0, 1}
	for _, c := range []struct {
		name    string
		records []byte
		aborted []abortedTxn
		from    int64
		want    []int64
		next    int64
	}{
		{"nothing", nil, nil, 7, nil, 7},
		{"whole batch", set(made{base: 0, last: 2, offsets: []int64{0, 1, 2}}), nil, 0, []int64{0, 1, 2}, 3},
		{"from the middle", set(made{base: 0, last: 2, offsets: []int64{0, 1, 2}}), nil, 2, []int64{2}, 3},
		{"the tail is compacted away", set(made{base: 10, last: 19, offsets: []int64{11}}), nil, 12, nil, 20},
		{"the head is compacted away", set(made{base: 10, last: 19, offsets: []int64{19}}), nil, 10, []int64{19}, 20},
		{"an emptied batch", set(made{base: 10, last: 19}), nil, 10, nil, 20},
		{"a gap between batches", set(made{base: 0, last: 4, offsets: []int64{4}}, made{base: 50, last: 50, offsets: []int64{50}}), nil, 2, []int64{4, 50}, 51},
		{"older batches", set(made{base: 0, last: 4, offsets: []int64{4}}, made{base: 5, last: 6, offsets: []int64{5}}), nil, 6, nil, 7},
		{"an answer for the past", set(made{base: 0, last: 4, offsets: []int64{4}}), nil, 30, nil, 30},
		{"a batch cut off", slices.Concat(set(made{base: 0, last: 1, offsets: []int64{0, 1}}), set(made{base: 2, last: 3, offsets: []int64{2, 3}})[:70]), nil, 0, []int64{0, 1}, 2},
		{"a header cut off", slices.Concat(set(made{base: 0, last: 1, offsets: []int64{0, 1}}), make([]byte, 9)), nil, 0, []int64{0, 1}, 2},
		{
			"a control batch", set(made{base: 0, last: 0, offsets: []int64{0}}, made{base: 1, last: 1, offsets: []int64{1}, attrs: attrControl | attrTransactional, key: commit}),
			nil, 0,
			[]int64{0},
			2,
		},
		{
			"an aborted transaction between others",
			set(made{base: 0, last: 0, offsets: []int64{0}, attrs: attrTransactional, producer: 8},
				made{base: 1, last: 2, offsets: []int64{1, 2}, attrs: attrTransactional, producer: 9},
				made{base: 3, last: 3, offsets: []int64{3}},
				made{base: 4, last: 4, offsets: []int64{4}, attrs: attrControl | attrTransactional, producer: 9, key: abort},
				made{base: 5, last: 5, offsets: []int64{5}, attrs: attrTransactional, producer: 9},
				made{base: 6, last: 6, offsets: []int64{6}, attrs: attrControl | attrTransactional, producer: 9, key: commit}),
			[]abortedTxn{{9, 1}},
			0,
			[]int64{0, 3, 5},
			7,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, next, err := delivered(l, &fetched{records: c.records, aborted: c.aborted}, c.from)
			if err != nil || next != c.next || !slices.Equal(got, c.want) {
				t.Errorf("got %v, next %d, %v; want %v, next %d", got, next, err, c.want, c.next)
			}
		})
	}
}

// TestDeliverBad: what cannot be read names its batch, after everything before
// it was given.
func TestDeliverBad(t *testing.T) {
	l := opened(t)
	good := made{base: 0, last: 1, offsets: []int64{0, 1}}
	mutated := func(m made, change func([]byte)) []byte {
		b := m.bytes()
		change(b)
		return b
	}
	second := made{base: 2, last: 5, offsets: []int64{2, 4}}
	for _, c := range []struct {
		name string
		bad  []byte
		kind Kind
	}{
		{"checksum", mutated(second, func(b []byte) { b[len(b)-1]++ }), KindOther},
		{"old message format", mutated(second, func(b []byte) { b[16] = 1 }), KindOther},
		{"length below a header", mutated(second, func(b []byte) { binary.BigEndian.PutUint32(b[8:], 3) }), KindOther},
		{"negative length", mutated(second, func(b []byte) { binary.BigEndian.PutUint32(b[8:], 1<<31) }), KindOther},
		{"ends before it begins", made{base: 2, last: 1}.bytes(), KindOther},
		{"more records claimed", mutated(second, func(b []byte) { binary.BigEndian.PutUint32(b[57:], 1<<31-1); sealed(b) }), KindOther},
		{"offset behind the batch", made{base: 2, last: 5, offsets: []int64{6}}.bytes(), KindOther},
		{"offset before the batch", made{base: 2, last: 5, offsets: []int64{1}}.bytes(), KindOther},
		{"offsets fall", made{base: 2, last: 5, offsets: []int64{4, 3}}.bytes(), KindOther},
		{"unknown compression", made{base: 2, last: 5, attrs: 7, offsets: []int64{2}}.bytes(), KindOther},
		{"not zstd", made{base: 2, last: 5, attrs: 4, offsets: []int64{2}}.bytes(), KindOther},
		{"not lz4", made{base: 2, last: 5, attrs: 3, offsets: []int64{2}}.bytes(), KindOther},
		{"not gzip", made{base: 2, last: 5, attrs: 1, offsets: []int64{2}}.bytes(), KindOther},
		{"not snappy", made{base: 2, last: 5, attrs: 2, count: 1, payload: slices.Concat(xerial, make([]byte, 8), []byte{0x7f, 0xff, 0xff, 0xff})}.bytes(), KindOther},
		{"zstd bomb", bomb(4), KindTooLarge},
		{"lz4 bomb", bomb(3), KindTooLarge},
		{"snappy bomb", bomb(2), KindTooLarge},
		{"snappy bomb in frames", bomb(-2), KindTooLarge},
		{"gzip bomb", bomb(1), KindTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, next, err := delivered(l, &fetched{records: append(good.bytes(), c.bad...)}, 0)
			if !slices.Equal(got, []int64{0, 1}) || next != 2 {
				t.Errorf("before it: %v, next %d", got, next)
			}
			b, ok := errors.AsType[*BatchError](err)
			if !ok || b.Base != 2 || kindOfCause(err) != c.kind {
				t.Errorf("got %v of kind %q, want kind %q", err, kindOfCause(err), c.kind)
			}
		})
	}
}

// bomb is a small batch at offset 2 that decodes to 64 MiB; -2 is snappy in
// frames that are small each.
func bomb(codec int) []byte {
	var out bytes.Buffer
	chunk := make([]byte, 1<<20)
	switch codec {
	case 1:
		w := gzip.NewWriter(&out)
		for range 64 {
			w.Write(chunk)
		}
		w.Close()
	case 2:
		out.Write(snappy.Encode(nil, make([]byte, 64<<20)))
	case -2:
		codec = 2
		out.Write(xerial)
		out.Write(make([]byte, 8))
		block := snappy.Encode(nil, chunk[:32<<10])
		for range 64 << 20 / (32 << 10) {
			out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
			out.Write(block)
		}
	case 3:
		w := lz4.NewWriter(&out)
		for range 64 {
			w.Write(chunk)
		}
		w.Close()
	case 4:
		w, _ := zstd.NewWriter(&out)
		for range 64 {
			w.Write(chunk)
		}
		w.Close()
	}
	return made{base: 2, last: 5, attrs: int16(codec), count: 1, payload: out.Bytes()}.bytes()
}

// TestXerial: Java's framing of snappy.
func TestXerial(t *testing.T) {
	plain := []byte("framed in two blocks")
	framed := slices.Concat(xerial, []byte{0, 0, 0, 1, 0, 0, 0, 1})
	for _, part := range [][]byte{plain[:7], plain[7:]} {
		block := snappy.Encode(nil, part)
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
	}
	got, err := unsnappy(nil, framed, 100)
	if err != nil || !bytes.Equal(got, plain) {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestNoStandStill: whatever compaction leaves of a log, asking for any offset
// gives exactly the survivors from there on, and next always moves past every
// batch that came.
func TestNoStandStill(t *testing.T) {
	l := opened(t)
	rapid.Check(t, func(t *rapid.T) {
		var records []byte
		var survivors []int64
		end := int64(rapid.IntRange(0, 5).Draw(t, "start"))
		start := end
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			m := made{base: end, last: end + int64(rapid.IntRange(0, 6).Draw(t, "delta"))}
			for off := m.base; off <= m.last; off++ {
				if rapid.Bool().Draw(t, "kept") {
					m.offsets = append(m.offsets, off)
				}
			}
			end = m.last + 1
			survivors = append(survivors, m.offsets...)
			records = append(records, m.bytes()...)
		}
		from := start + int64(rapid.IntRange(0, int(end-start-1)).Draw(t, "from"))
		got, next, err := delivered(l, &fetched{records: records}, from)
		i, _ := slices.BinarySearch(survivors, from)
		if err != nil || next != end || !slices.Equal(got, survivors[i:]) {
			t.Fatalf("from %d: got %v, next %d, %v; want %v, next %d", from, got, next, err, survivors[i:], end)
		}
	})
}

// TestHostileBytes: nothing that a broker sends makes a reader panic, give
// records out of order, or go back.
func TestHostileBytes(t *testing.T) {
	l := opened(t)
	rapid.Check(t, func(t *rapid.T) {
		b := set(made{base: 3, last: 5, offsets: []int64{3, 5}}, made{base: 6, last: 9, offsets: []int64{7, 9}})
		at := []int{0, len(b) / 2}[rapid.IntRange(0, 1).Draw(t, "batch")]
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			b[at+rapid.IntRange(0, len(b)/2-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		if rapid.Bool().Draw(t, "seal") { // a liar's checksum is right
			if n := int(int32(binary.BigEndian.Uint32(b[at+8:]))); n >= batchHeader-12 && at+12+n <= len(b) {
				sealed(b[at : at+12+n])
			}
		}
		got, next, _ := delivered(l, &fetched{records: b, aborted: []abortedTxn{{1, 2}}}, 4)
		if next < 4 || !slices.IsSorted(got) || len(got) > 0 && got[0] < 4 {
			t.Fatalf("got %v, next %d", got, next)
		}
	})
}

// TestHostileAnswer: the same for what is around the records.
func TestHostileAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := int16(rapid.IntRange(minFetchVersion, maxFetchVersion).Draw(t, "version"))
		b := answerOf(version, "topic", 3, set(made{base: 3, last: 5, offsets: []int64{3, 5}}))
		f, err := parseFetch(b, version, "topic", 3)
		if err != nil || f.high != 77 || len(f.records) == 0 || !slices.Equal(f.aborted, []abortedTxn{{9, 2}}) {
			t.Fatalf("a good answer: %+v, %v", f, err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		_, _ = parseFetch(b[:rapid.IntRange(0, len(b)).Draw(t, "len")], version, "topic", 3)
		_, _ = parseFetch(rapid.SliceOf(rapid.Byte()).Draw(t, "noise"), version, "topic", 3)
	})
}

// answerOf encodes a fetch answer, without the size before it.
func answerOf(version int16, topic string, partition int, records []byte) []byte {
	be := binary.BigEndian
	var b []byte
	i32 := func(v int) { b = be.AppendUint32(b, uint32(int32(v))) }
	i64 := func(v int64) { b = be.AppendUint64(b, uint64(v)) }
	i32(correlation)
	i32(0)
	if version >= 7 {
		b = append(b, 0, 0)
		i32(0)
	}
	i32(1)
	b = append(be.AppendUint16(b, uint16(len(topic))), topic...)
	i32(1)
	i32(partition)
	b = append(b, 0, 0)
	i64(78) // high watermark
	i64(77) // last stable offset
	if version >= 5 {
		i64(0)
	}
	i32(1)
	i64(9)
	i64(2)
	if version >= 11 {
		i32(-1)
	}
	i32(len(records))
	return append(b, records...)
}

// TestOversizeAnswer: a batch that makes an answer too large to accept is
// named, so that a caller can go on behind it.
func TestOversizeAnswer(t *testing.T) {
	l := opened(t)
	b := answerOf(maxFetchVersion, "topic", 3, made{base: 40, last: 42, count: 3, payload: make([]byte, 3<<20)}.bytes())
	b = append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	_, err := l.readFetch(bytes.NewReader(b), maxFetchVersion, "topic", 3, 2<<20)
	if e, ok := errors.AsType[*BatchError](err); !ok || e.Base != 40 || e.Last != 42 || kindOfCause(err) != KindTooLarge {
		t.Errorf("got %v", err)
	}
	for _, size := range []uint32{0, 3, 1 << 31, 1<<31 - 1} {
		head := binary.BigEndian.AppendUint32(nil, size)
		if _, err := l.readFetch(bytes.NewReader(head), maxFetchVersion, "topic", 3, 2<<20); err == nil {
			t.Errorf("an answer of %d bytes was accepted", size)
		}
	}
}

func TestBatchLen(t *testing.T) {
	rec := func(n int) Record { return Record{Value: make([]byte, n)} }
	for _, c := range []struct {
		sizes []int
		want  int
	}{
		{[]int{1}, 1},
		{[]int{2 << 20}, 1},
		{[]int{2 << 20, 1}, 1},
		{[]int{1, 2 << 20}, 1},
		{[]int{400 << 10, 400 << 10, 400 << 10}, 2},
		{[]int{1, 1, 1}, 3},
	} {
		var recs []Record
		for _, n := range c.sizes {
			recs = append(recs, rec(n))
		}
		if got := batchLen(recs); got != c.want {
			t.Errorf("%v: got %d, want %d", c.sizes, got, c.want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []Config{
		{},
		{Brokers: []string{"host"}},
		{Brokers: []string{"host:1"}, Compression: "brotli"},
		{Brokers: []string{"host:1"}, MaxBatchBytes: 5},
	} {
		if l, err := Open(c); err == nil {
			l.Close()
			t.Errorf("%+v was accepted", c)
		}
	}
}
