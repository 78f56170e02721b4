package kafkalog_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
)

// narrow makes its first connection that carries a megabyte stop there until
// it is opened, with little room for what is on its way.
type narrow struct {
	net.Listener
	first   atomic.Bool
	stopped chan struct{} // closed when the connection stands
	opened  chan struct{}
}

func (n *narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		return nil, err
	}
	return &narrowConn{Conn: c, n: n}, nil
}

type narrowConn struct {
	net.Conn
	n    *narrow
	seen int
}

func (c *narrowConn) Read(b []byte) (int, error) {
	if c.seen > 1<<20 && c.n.first.CompareAndSwap(false, true) {
		close(c.n.stopped)
		<-c.n.opened
	}
	n, err := c.Conn.Read(b[:min(len(b), 64<<10)])
	c.seen += n
	return n, err
}

// TestAbandoned: a batch whose caller has left is sent as it was, whatever is
// appended meanwhile.
func TestAbandoned(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &narrow{Listener: ln, stopped: make(chan struct{}), opened: make(chan struct{})}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(func(string, string) (net.Listener, error) { return n, nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := logtest.Open(t, c.ListenAddrs())
	topic := logtest.Topic(t, l, 2, "max.message.bytes", "9000000")

	value := func(b byte) []kafkalog.Record {
		return []kafkalog.Record{{Value: bytes.Repeat([]byte{b}, 7<<20)}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-n.stopped
		cancel()
	}()
	if _, err := l.AppendWith(ctx, topic, 0, value('a'), "none"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := l.AppendWith(t.Context(), topic, 1, value('b'), "none"); err != nil {
		t.Fatal(err)
	}
	close(n.opened)
	for p, b := range []byte("ab") {
		var got [][]byte
		_, err := l.ReadRange(t.Context(), topic, p, 0, 1, func(r kafkalog.Record) error {
			got = append(got, bytes.Clone(r.Value))
			return nil
		})
		if err != nil || len(got) != 1 || !slices.Equal(got[0], value(b)[0].Value) {
			t.Errorf("partition %d: %d records, %v", p, len(got), err)
		}
	}
}
