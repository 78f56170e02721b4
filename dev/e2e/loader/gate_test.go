package loader

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// gate is a listener on one port that can be shut: connections break, and new
// ones are refused until it is opened again. Who accepts on it does not notice.
type gate struct {
	address string

	mu     sync.Mutex
	cond   *sync.Cond
	inner  net.Listener // nil: shut
	conns  map[net.Conn]bool
	closed bool
}

func newGate(t *testing.T) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: l.Addr().String(), inner: l, conns: map[net.Conn]bool{}}
	g.cond = sync.NewCond(&g.mu)
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// Accept implements net.Listener: it waits while the gate is shut.
func (g *gate) Accept() (net.Conn, error) {
	for {
		g.mu.Lock()
		for g.inner == nil && !g.closed {
			g.cond.Wait()
		}
		l, closed := g.inner, g.closed
		g.mu.Unlock()
		if closed {
			return nil, net.ErrClosed
		}
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			continue // shut, or closed
		}
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		g.conns[c] = true
		g.mu.Unlock()
		return c, nil
	}
}

// Close implements net.Listener.
func (g *gate) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.cond.Broadcast()
	if g.inner == nil {
		return nil
	}
	return g.inner.Close()
}

// Addr implements net.Listener.
func (g *gate) Addr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", g.address)
	if err != nil {
		panic(err) // it was the address of a listener
	}
	return a
}

// shut refuses connections and breaks those that there are.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inner == nil {
		return
	}
	_ = g.inner.Close()
	g.inner = nil
	for c := range g.conns {
		_ = c.Close()
	}
	clear(g.conns)
}

// open lets connections in again, on the same port.
func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inner != nil || g.closed {
		return nil
	}
	l, err := net.Listen("tcp", g.address)
	if err != nil {
		return err
	}
	g.inner = l
	g.cond.Broadcast()
	return nil
}
