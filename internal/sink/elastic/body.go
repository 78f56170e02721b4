package elastic

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"trawl/internal/sink"
)

// A body is the NDJSON of one _bulk, which is never in one piece: action lines
// of ours in one buffer, and the documents where the ops have them. The
// transport may read it after the server has answered: so a reader copies under
// the lock, and after recycle it touches neither documents nor buffers.
type body struct {
	actions []byte  // action lines and line breaks, one after the other
	pieces  []piece // in the order of the stream
	size    int64   // bytes of the stream

	mu      sync.Mutex
	current *bodyReader // the one that may read
}

// A piece of the stream is a document or, where doc is nil, a part of actions.
type piece struct {
	doc        []byte
	start, end int
}

// add appends the lines of an op; line is its document, nil for a delete.
func (b *body) add(op *sink.Op, create bool, line []byte) {
	start := len(b.actions)
	b.actions = appendAction(b.actions, op, create)
	if n := len(b.pieces); n > 0 { // the last piece is never a document
		b.pieces[n-1].end = len(b.actions)
	} else {
		b.pieces = append(b.pieces, piece{start: start, end: len(b.actions)})
	}
	if line != nil {
		b.pieces = append(b.pieces, piece{doc: line}, piece{start: len(b.actions), end: len(b.actions) + 1})
		b.actions = append(b.actions, '\n')
		b.size += int64(len(line))
	}
	b.size += int64(len(b.actions) - start)
}

// open gives the stream from its start and ends the reader before: the
// transport asks again when a pooled connection turned out to be dead.
func (b *body) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = &bodyReader{b: b}
	return b.current, nil
}

// recycle ends all reading and keeps the buffers for another body.
func (b *body) recycle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = nil
	clear(b.pieces) // lets go of the documents
	if cap(b.actions) <= maxSpare {
		spare.Put(&buffers{b.actions, b.pieces})
	}
	b.actions, b.pieces = nil, nil
}

type bodyReader struct {
	b      *body
	at, in int // piece, and offset in it, of the next Read
}

var errOver = errors.New("the request is over")

func (r *bodyReader) Read(p []byte) (n int, err error) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.b.current != r {
		return 0, errOver
	}
	for n < len(p) && r.at < len(r.b.pieces) {
		piece := &r.b.pieces[r.at]
		rest := piece.doc
		if rest == nil {
			rest = r.b.actions[piece.start:piece.end]
		}
		c := copy(p[n:], rest[r.in:])
		n += c
		if r.in += c; r.in == len(rest) {
			r.at, r.in = r.at+1, 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close is the transport's; recycle is what ends a reader.
func (r *bodyReader) Close() error { return nil }

// spare keeps the buffers of bodies that are over.
var spare = sync.Pool{New: func() any { return new(buffers) }}

const maxSpare = 4 << 20 // bytes of action lines: some 20,000 ops

type buffers struct {
	actions []byte
	pieces  []piece
}

func newBody() *body {
	s := spare.Get().(*buffers)
	return &body{actions: s.actions[:0], pieces: s.pieces[:0]}
}

type bodyKey struct{}

// withBody hands b past olivere, which takes strings only, to bodies.
func withBody(ctx context.Context, b *body) context.Context {
	return context.WithValue(ctx, bodyKey{}, b)
}

// bodies is the RoundTripper that gives a request the body of its context.
type bodies struct{ http.RoundTripper }

func (t bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	b, ok := r.Context().Value(bodyKey{}).(*body)
	if !ok {
		return t.RoundTripper.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.ContentLength, r.GetBody = b.size, b.open
	r.Body, _ = b.open() // never fails
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections is asked for by http.Client.
func (t bodies) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
