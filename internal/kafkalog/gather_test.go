package kafkalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
)

// crowd are callers of AppendAll that come while a first batch is under way.
type crowd struct {
	*faulty
	w    *produces
	pass chan struct{} // closed to let the first batch through
	then logtest.Fault
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs [][]error
}

// gatherAt starts a first append of one record to each partition, holds its
// request, and returns when it is under way.
func gatherAt(t *testing.T, partitions int, config ...string) *crowd {
	t.Helper()
	return gatherFor(t, time.Hour, partitions, config...)
}

// gatherFor is gatherAt with a time after which nothing waits any more.
func gatherFor(t *testing.T, late time.Duration, partitions int, config ...string) *crowd {
	t.Helper()
	f, w := startMany(t, partitions, config...)
	kafkalog.Late(f.log, late)
	c := &crowd{faulty: f, w: w, pass: make(chan struct{})}
	held := make(chan struct{})
	first := true
	w.fault = func(r kmsg.Request) (kmsg.Response, bool) {
		if first {
			first = false
			close(held)
			<-c.pass
			return nil, false
		}
		if c.then != nil {
			return c.then(r)
		}
		return nil, false
	}
	c.add(t.Context(), partsOf(f.topic, partitions, 1, 10))
	<-held
	return c
}

// add is one more caller.
func (c *crowd) add(ctx context.Context, parts []kafkalog.Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.errs)
	c.errs = append(c.errs, nil)
	c.wg.Go(func() {
		errs := c.log.AppendAll(ctx, parts)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs[i] = errs
	})
}

// wait until so many parts wait in a partition.
func (c *crowd) wait(t *testing.T, partition, n int) {
	t.Helper()
	until(t, strconv.Itoa(n)+" parts wait", func() bool { return kafkalog.Waiting(c.log, c.topic, partition) == n })
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so in a minute: %s", what)
		}
	}
}

func (c *crowd) finish(t *testing.T) {
	t.Helper()
	close(c.pass)
	c.wg.Wait()
	until(t, "no lane is left", func() bool { return kafkalog.Lanes(c.log) == 0 })
}

func one(topic string, partition, key, size int) []kafkalog.Part {
	return []kafkalog.Part{{Topic: topic, Partition: partition, Records: logtest.Numbered(key, 1, size)}}
}

// TestGather: what many callers bring while a batch is under way is one batch
// for each partition, in one request.
func TestGather(t *testing.T) {
	c := gatherAt(t, 3)
	for i := range 20 {
		parts := partsOf(c.topic, 3, 1, 10)
		for p := range parts {
			parts[p].Records = logtest.Numbered(1000*p+10+i, 1, 10)
		}
		c.add(t.Context(), parts)
		c.wait(t, 0, i+1)
	}
	c.finish(t)
	for _, errs := range c.errs {
		noErrors(t, errs)
	}
	if got := c.w.requests(); len(got) != 2 || !slices.Equal(got[1], []int32{0, 1, 2}) {
		t.Errorf("requests %v", got)
	}
	for p := range 3 {
		want := append(numbers(1000*p, 1), numbers(1000*p+10, 20)...)
		if got := c.values(t, p); !slices.Equal(got, want) {
			t.Errorf("partition %d: %v, want %v", p, got, want)
		}
	}
}

// TestGatherBounds: batches of many callers are bounded, and where much waits
// it does not wait for one batch after the other.
func TestGatherBounds(t *testing.T) {
	c := gatherAt(t, 1)
	const size = 100_000
	for i := range 40 {
		c.add(t.Context(), one(c.topic, 0, 10+i, size))
	}
	// Three more batches may be under way beside the first: of three records, as
	// soon as they are more than a full lane.
	c.wait(t, 0, 40-9)
	c.finish(t)
	for _, errs := range c.errs {
		noErrors(t, errs)
	}
	if c.w.bytes > 1<<20 {
		t.Errorf("a request of %d bytes", c.w.bytes)
	}
	if n := len(c.w.requests()); n > 10 {
		t.Errorf("%d requests", n)
	}
	got := c.values(t, 0)
	slices.Sort(got)
	if want := append(numbers(0, 1), numbers(10, 40)...); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestGatherRefused: a request that is refused for all is tried again by each
// caller for itself, and a record that is too large is the trouble of its own
// caller.
func TestGatherRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault logtest.Fault
		size  int // of the record in the middle
		kind  kafkalog.Kind
	}{
		{"for now", logtest.ProduceCode(19), 10, -1},
		{"too large", nil, 20_000, kafkalog.KindTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gatherAt(t, 1, "max.message.bytes", "10000")
			refused := false
			g.then = func(r kmsg.Request) (kmsg.Response, bool) {
				if refused || c.fault == nil {
					return nil, false
				}
				refused = true
				return c.fault(r)
			}
			for i := range 5 {
				size := 100
				if i == 2 {
					size = max(size, c.size)
				}
				g.add(t.Context(), one(g.topic, 0, 10+i, size))
				g.wait(t, 0, i+1)
			}
			g.finish(t)
			want := numbers(10, 5)
			for i, errs := range g.errs[1:] {
				if i == 2 && c.kind >= 0 {
					if kafkalog.KindOf(errs[0]) != c.kind {
						t.Errorf("got %v", errs[0])
					}
					want = slices.DeleteFunc(want, func(k string) bool { return k == "12" })
					continue
				}
				noErrors(t, errs)
			}
			got := g.values(t, 0)
			slices.Sort(got)
			if want := append(numbers(0, 1), want...); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestGatherLeaves: a caller that gives up takes its part with it, or leaves at
// once if it is under way; the others notice nothing.
func TestGatherLeaves(t *testing.T) {
	c := gatherAt(t, 1)
	leaving, leave := context.WithCancel(t.Context())
	c.add(t.Context(), one(c.topic, 0, 10, 10))
	c.wait(t, 0, 1)
	c.add(leaving, one(c.topic, 0, 11, 10))
	c.wait(t, 0, 2)
	c.add(t.Context(), one(c.topic, 0, 12, 10))
	c.wait(t, 0, 3)
	leave()
	c.wait(t, 0, 2)
	c.finish(t)
	noErrors(t, c.errs[1])
	if err := c.errs[2][0]; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left: %v", err)
	}
	noErrors(t, c.errs[3])
	if got, want := c.values(t, 0), []string{"0", "10", "12"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestGatherUnderWay: a caller that gives up does not wait for the broker.
func TestGatherUnderWay(t *testing.T) {
	c := gatherAt(t, 1)
	leaving, leave := context.WithCancel(t.Context())
	c.add(leaving, one(c.topic, 0, 10, 300_000)) // does not wait for the first
	c.wait(t, 0, 0)
	leave()
	until(t, "the caller has left, though the broker is silent", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.errs[1] != nil && errors.Is(c.errs[1][0], context.Canceled)
	})
	c.finish(t)
	noErrors(t, c.errs[0])
}

// TestGatherLate: nothing waits for a batch that is stuck, say with its connection,
// up to a bound.
func TestGatherLate(t *testing.T) {
	c := gatherFor(t, 20*time.Millisecond, 1)
	for i := range 6 {
		c.add(t.Context(), one(c.topic, 0, 10+i, 10))
		until(t, "more are under way", func() bool { return kafkalog.Flying(c.log, c.topic, 0) >= min(2+i, 4) })
	}
	if n := kafkalog.Flying(c.log, c.topic, 0); n != 4 {
		t.Errorf("%d are under way", n)
	}
	c.finish(t)
	got := c.values(t, 0)
	slices.Sort(got)
	if want := append(numbers(0, 1), numbers(10, 6)...); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestGatherClose: what waits ends with the log.
func TestGatherClose(t *testing.T) {
	c := gatherAt(t, 1)
	c.add(t.Context(), one(c.topic, 0, 10, 10))
	c.wait(t, 0, 1)
	c.log.Close()
	c.wg.Wait()
	for i, errs := range c.errs {
		if !errors.Is(errs[0], kafkalog.ErrClosed) {
			t.Errorf("caller %d: %v", i, errs[0])
		}
	}
	close(c.pass)
}

// TestGatherLeavesRecords: records are not read any more when their caller has
// left.
func TestGatherLeavesRecords(t *testing.T) {
	const partitions = 8
	f, _ := startMany(t, partitions)
	for i := range 80 {
		parts := make([]kafkalog.Part, partitions)
		for p := range parts {
			parts[p] = kafkalog.Part{Topic: f.topic, Partition: p, Records: []kafkalog.Record{{Value: bytes.Repeat([]byte{1}, 500_000)}}}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
		f.log.AppendAll(ctx, parts)
		for _, p := range parts {
			clear(p.Records[0].Value)
		}
		cancel()
	}
	for p := range partitions {
		_, end, err := f.log.Bounds(t.Context(), f.topic, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.log.ReadRange(t.Context(), f.topic, p, 0, end, func(r kafkalog.Record) error {
			if bytes.IndexByte(r.Value, 0) >= 0 {
				return fmt.Errorf("record %d of partition %d was read too late", r.Offset, p)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestGatherNoCluster: a caller waits no longer than it wants for brokers that do
// not even answer a dial.
func TestGatherNoCluster(t *testing.T) {
	l, err := kafkalog.Open(kafkalog.Config{
		Brokers: []string{"127.0.0.1:1"},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := l.AppendAll(ctx, one("x", 0, 0, 10))[0]; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}
