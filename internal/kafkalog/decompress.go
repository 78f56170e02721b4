package kafkalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// plain decompresses the payload to at most limit bytes. A buffer of the pool
// may be behind it: done gives it back.
func (l *Log) plain(bt *batch) (b []byte, done func(), err error) {
	done = func() {}
	if bt.attrs&attrCodec == 0 {
		return bt.payload, done, nil
	}
	buf := l.pools.get(0)
	done = func() { l.pools.put(buf) }
	*buf, err = l.decompress((*buf)[:0], codec(bt.attrs&attrCodec), bt.payload)
	if err != nil {
		done()
		return nil, nil, &BatchError{bt.base, bt.last, err}
	}
	return *buf, done, nil
}

func (l *Log) decompress(dst []byte, codec codec, src []byte) ([]byte, error) {
	tooLarge := func() error {
		return fmt.Errorf("%d bytes decode to more than %d: %w", len(src), l.maxBatch, errLimit)
	}
	var err error
	switch codec {
	case gzipCodec:
		r, _ := gzipReaders.Get().(*gzip.Reader)
		if err = r.Reset(bytes.NewReader(src)); err == nil {
			dst, err = readAtMost(dst, r, l.maxBatch)
		}
		gzipReaders.Put(r)
	case snappyCodec:
		dst, err = unsnappy(dst, src, l.maxBatch)
	case lz4Codec:
		r, _ := lz4Readers.Get().(*lz4.Reader)
		r.Reset(bytes.NewReader(src))
		dst, err = readAtMost(dst, r, l.maxBatch)
		lz4Readers.Put(r)
	case zstdCodec:
		dst, err = l.zstd.DecodeAll(src, dst)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			err = errLimit
		}
	default:
		return dst, fmt.Errorf("unknown compression %d", codec)
	}
	if errors.Is(err, errLimit) {
		return dst, tooLarge()
	}
	if err != nil {
		return dst, fmt.Errorf("decompress: %w", noEOF(err))
	}
	return dst, nil
}

// noEOF keeps the end of a compressed stream from reading as a broken
// connection.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the compressed data end early")
	}
	return err
}

var (
	gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
)

// readAtMost reads r to its end into dst, errLimit if that is past limit.
func readAtMost(dst []byte, r io.Reader, limit int) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	n, err := buf.ReadFrom(io.LimitReader(r, int64(limit)+1))
	if err == nil && n > int64(limit) {
		err = errLimit
	}
	return buf.Bytes(), err
}

// unsnappy takes framed blocks, and a bare one, as other clients write it.
func unsnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerial) {
		return unsnappyBlock(dst, src, limit)
	}
	c := cursor{b: src}
	c.take(len(xerial) + 8)
	for len(c.b) > 0 {
		block := c.take(int(c.i32()))
		if c.short {
			break
		}
		var err error
		if dst, err = unsnappyBlock(dst, block, limit); err != nil {
			return dst, err
		}
	}
	if c.short {
		return dst, io.ErrUnexpectedEOF
	}
	return dst, nil
}

func unsnappyBlock(dst, block []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return dst, err
	}
	if n > limit-len(dst) {
		return dst, errLimit
	}
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	_, err = s2.Decode(dst[at:], block)
	return dst, err
}
