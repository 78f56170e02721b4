package page

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// Errors of Plain.
var (
	// ErrCoding says that the content coding is none of those that we read.
	ErrCoding = errors.New("unknown content coding: want gzip, deflate, br or identity")
	// ErrCutShort says that the decoded body is longer than the limit, or the
	// coded body broke off; what was decoded until there comes with it.
	ErrCutShort = errors.New("body is cut")
)

// maxCodings bounds how many codings may be applied over each other.
const maxCodings = 3

// Plain is the body with its content coding undone, at most limit bytes of it.
// Without a coding it aliases Body. With an error that wraps ErrCutShort the
// bytes are the valid beginning; with any other they are nil.
func (p *Page) Plain(limit int64) ([]byte, error) {
	return Decompress(p.Body, p.ContentEncoding, limit)
}

// Decompress undoes the content codings of body, as a Content-Encoding header
// names them, within limit bytes of output. It reads no more than that, so a
// small body that decodes to a huge one costs no more than limit.
func Decompress(body []byte, coding string, limit int64) ([]byte, error) {
	limit = max(limit, 0)
	names, err := codings(coding)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 || len(body) == 0 {
		if int64(len(body)) > limit {
			return body[:limit:limit], fmt.Errorf("%w: longer than %d bytes", ErrCutShort, limit)
		}
		return body, nil
	}
	var r io.Reader = bytes.NewReader(body)
	for i := len(names) - 1; i >= 0; i-- { // the last was applied last
		if r, err = decoder(names[i], r); err != nil {
			return nil, fmt.Errorf("content coding %s: %w", names[i], err)
		}
	}
	return readAll(r, limit, len(body))
}

// codings lists the codings that are not identity.
func codings(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	var out []string
	for name := range strings.SplitSeq(s, ",") {
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "", "identity":
		case "gzip", "x-gzip", "deflate", "br":
			out = append(out, name)
		default:
			return nil, fmt.Errorf("%w: %.40q", ErrCoding, name)
		}
		if len(out) > maxCodings {
			return nil, fmt.Errorf("%w: more than %d over each other", ErrCoding, maxCodings)
		}
	}
	return out, nil
}

func decoder(name string, r io.Reader) (io.Reader, error) {
	switch name {
	case "br":
		return brotli.NewReader(r), nil
	case "deflate":
		return inflater(r)
	}
	return gzip.NewReader(r)
}

// inflater reads deflate as it is specified, in a zlib wrapper, and as some
// servers send it, without.
func inflater(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	head, err := br.Peek(2)
	if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(br)
	}
	return flate.NewReader(br), nil
}

// readAll reads at most limit bytes, and one more to know whether there are
// more. A stream that breaks off or is damaged gives what came before.
func readAll(r io.Reader, limit int64, hint int) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(int(min(limit, int64(hint)*4)) + bytes.MinRead)
	n, err := io.Copy(&out, io.LimitReader(r, limit))
	if err != nil {
		return out.Bytes(), fmt.Errorf("%w: after %d bytes: %w", ErrCutShort, n, err)
	}
	if n == limit {
		var one [1]byte
		if k, _ := io.ReadFull(r, one[:]); k > 0 {
			return out.Bytes(), fmt.Errorf("%w: longer than %d bytes", ErrCutShort, limit)
		}
	}
	return out.Bytes(), nil
}
