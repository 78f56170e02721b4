package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Result is one answer, or one failure.
type Result struct {
	Status int
	Header http.Header
	// Body is the body as it came, in the coding that Encoding names ("" is
	// none). If it was cut, Body is what was decoded and Encoding is "".
	Body     []byte
	Encoding string
	// Plain is the decoded body, at most PageSize bytes; nil if the coding is
	// none that we read.
	Plain    []byte
	Cut      bool // the body is longer than the limit
	Unwanted bool // Request.Want refused the body
	Duration time.Duration
	Remote   net.Addr // nil if nothing was connected
	Sent     bool     // the request may have reached the site
	Err      error    // nil: an answer
	Class    Class
	// Resend: the site closed the reused connection without an answer. Asking
	// again is harmless and no failure of the site's, but it is one more
	// request for its delay.
	Resend bool

	raw, plain *bytes.Buffer
}

// Release gives the buffers of the result back; Body and Plain are invalid
// from then on. It may be called twice.
func (r *Result) Release() {
	r.Body, r.Plain = nil, nil
	release(r.raw)
	release(r.plain)
	r.raw, r.plain = nil, nil
}

// keep is the greatest buffer that the pool keeps, so that a few large pages
// do not stay in memory for ever.
const keep = 512 << 10

var (
	buffers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, 32<<10)) }}
	readers sync.Pool
)

func release(b *bytes.Buffer) {
	if b != nil && b.Cap() <= keep {
		b.Reset()
		buffers.Put(b)
	}
}

// wire is the transport under the collector: it hands the request to
// net/http, reads the body within its limits and gives colly a response
// without one, so that colly neither copies nor decodes it again.
type wire struct{ client *Client }

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	k, _ := req.Context().Value(callKey{}).(*call)
	if k == nil {
		return nil, errors.New("request outside of Client.Do")
	}
	k.wired = true
	w.client.requests.Add(1)
	res, err := w.client.transport.RoundTrip(req)
	if err == nil {
		err = k.take(res)
	}
	if err != nil {
		k.err = err
		return nil, err
	}
	k.done = true
	return &http.Response{
		Status: res.Status, StatusCode: res.StatusCode, Proto: res.Proto, ProtoMajor: res.ProtoMajor, ProtoMinor: res.ProtoMinor,
		Header: res.Header, Body: http.NoBody, Uncompressed: true, Request: req,
	}, nil
}

// take reads the answer into the call's result.
func (k *call) take(res *http.Response) error {
	defer res.Body.Close()
	r := k.res
	r.Status, r.Header = res.StatusCode, res.Header
	if k.req.Want != nil && !k.req.Want(res.StatusCode, res.Header) {
		r.Unwanted = true
		return nil
	}
	k.read.Store(1)
	r.raw = buffers.Get().(*bytes.Buffer)
	if n := res.ContentLength; n > 0 {
		r.raw.Grow(int(min(n, k.limit, 1<<20)) + bytes.MinRead)
	}
	n, err := r.raw.ReadFrom(&counter{io.LimitReader(res.Body, k.limit+1), k})
	if err != nil {
		if cause := context.Cause(k.ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return err
	}
	if n > k.limit {
		r.Cut = true
		r.raw.Truncate(int(k.limit))
	}
	return k.decode(strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))))
}

// decode fills Body, Encoding and Plain from the raw body.
func (k *call) decode(coding string) error {
	r := k.res
	body := r.raw.Bytes()
	switch {
	case coding == "" || coding == "identity", strings.HasSuffix(coding, "gzip") && !isGzip(body):
		// Some sites name the coding but send the body without it.
		r.Body, r.Plain = body, body
		return nil
	case coding != "gzip" && coding != "x-gzip":
		r.Body, r.Encoding = body, coding
		return nil
	}
	r.plain = buffers.Get().(*bytes.Buffer)
	cut, err := gunzip(r.plain, body, k.limit)
	if err != nil && !r.Cut {
		return &protocolError{fmt.Errorf("gzip: %w", err)}
	}
	r.Cut = r.Cut || cut
	r.Plain = r.plain.Bytes()
	if r.Cut {
		r.Body = r.Plain
		return nil
	}
	r.Body, r.Encoding = body, "gzip"
	return nil
}

// gunzip decodes all members; what follows the last and is none is ignored, as
// browsers do.
func gunzip(dst *bytes.Buffer, body []byte, limit int64) (cut bool, err error) {
	src := bytes.NewReader(body)
	z, _ := readers.Get().(*gzip.Reader)
	if z == nil {
		z = new(gzip.Reader)
	}
	defer readers.Put(z)
	for {
		if err := z.Reset(src); err != nil {
			return false, err
		}
		z.Multistream(false)
		left := limit - int64(dst.Len())
		n, err := dst.ReadFrom(io.LimitReader(z, left+1))
		if n > left {
			dst.Truncate(int(limit))
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if !isGzip(body[len(body)-src.Len():]) {
			return false, nil
		}
	}
}

func isGzip(b []byte) bool { return len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b }

// counter tells the watch how much of the body has come.
type counter struct {
	r io.Reader
	k *call
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.k.read.Add(int64(n))
	return n, err
}
