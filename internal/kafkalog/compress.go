package kafkalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec is a compression as a batch's attributes name it.
type codec int16

const (
	noCodec     codec = 0
	gzipCodec   codec = 1 // read only
	snappyCodec codec = 2
	lz4Codec    codec = 3
	zstdCodec   codec = 4
)

const (
	// minCompress is the least size of records to compress.
	minCompress = 512
	// minGain: what compression does not make smaller by an eighth is sent as
	// it is, and no reader decodes it in vain.
	minGain = 8
	// snappyBlock is how much is compressed at a time: larger blocks compress
	// better (3.4 times against 2.6 at Java's 32 KB); a reader in Java holds
	// one of them, below what its collector treats as huge.
	snappyBlock = 256 << 10
)

// codecOf reads the name of a compression.
func codecOf(name string) (codec, error) {
	switch name {
	case "none":
		return noCodec, nil
	case "", "snappy":
		return snappyCodec, nil
	case "lz4":
		return lz4Codec, nil
	case "zstd":
		return zstdCodec, nil
	}
	return 0, fmt.Errorf("compression: %q is none of none, snappy, lz4, zstd", name)
}

// bound is room enough for n bytes after compression, for most codecs.
func (c codec) bound(n int) int {
	if c == noCodec {
		return n
	}
	return n + n/6 + 64*(n/snappyBlock+2)
}

// compress appends src, compressed, to dst.
func compress(dst []byte, codec codec, src []byte) ([]byte, error) {
	switch codec {
	case snappyCodec:
		return appendSnappy(dst, src), nil
	case lz4Codec:
		return appendLZ4(dst, src)
	case zstdCodec:
		return zstdWriter().EncodeAll(src, dst), nil
	}
	return nil, fmt.Errorf("compression %d is not written", codec)
}

// xerial is how the Java clients frame snappy: this magic, two version numbers,
// then blocks with their length before them. Java's reader takes no block
// without the frame that is larger than its own.
var (
	xerial       = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}
	xerialHeader = slices.Concat(xerial, []byte{0, 0, 0, 1, 0, 0, 0, 1})
)

// appendSnappy appends framed blocks, encoded by s2: it writes the snappy
// format faster than snappy does.
func appendSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(src) > 0 {
		part := src[:min(snappyBlock, len(src))]
		src = src[len(part):]
		dst = slices.Grow(dst, 4+s2.MaxEncodedLen(len(part)))
		at := len(dst) + 4
		block := s2.EncodeSnappy(dst[at:cap(dst)], part) // in place: there is room
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
		dst = dst[:at+len(block)]
	}
	return dst
}

var lz4Writers = sync.Pool{New: func() any {
	w := lz4.NewWriter(nil)
	// One goroutine, and blocks as small as Java's: the default of 4 MB is
	// cleared for every batch.
	if err := w.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
		panic(err) // of constant options
	}
	return w
}}

func appendLZ4(dst, src []byte) ([]byte, error) {
	w, _ := lz4Writers.Get().(*lz4.Writer)
	defer lz4Writers.Put(w)
	out := bytes.NewBuffer(dst)
	w.Reset(out)
	if _, err := w.Write(src); err != nil {
		return nil, fmt.Errorf("lz4: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("lz4: %w", err)
	}
	return out.Bytes(), nil
}

// zstdWriter is made on first use. The window is what a batch has, not more.
var zstdWriter = sync.OnceValue(func() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(512<<10), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // of constant options
	}
	return w
})
