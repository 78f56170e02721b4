package kafkalog_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
)

// produces notes the partitions of every produce request that a cluster gets,
// and lets fault answer some of them.
type produces struct {
	mu    sync.Mutex
	seen  [][]int32
	bytes int // most records in a request
	fault logtest.Fault
}

func watch(c *kfake.Cluster) *produces {
	w := &produces{}
	c.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		w.mu.Lock()
		defer w.mu.Unlock()
		var partitions []int32
		bytes := 0
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				partitions = append(partitions, p.Partition)
				bytes += len(p.Records)
			}
		}
		w.seen = append(w.seen, partitions)
		w.bytes = max(w.bytes, bytes)
		if w.fault != nil {
			if res, hit := w.fault(req); hit {
				return res, nil, true
			}
		}
		return nil, nil, false
	})
	return w
}

// requests are the partitions of the requests since the last call.
func (w *produces) requests() [][]int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// partsOf makes a part of n records for each partition, with its own keys.
func partsOf(topic string, partitions, n, size int) []kafkalog.Part {
	parts := make([]kafkalog.Part, partitions)
	for p := range parts {
		parts[p] = kafkalog.Part{Topic: topic, Partition: p, Records: logtest.Numbered(1000*p, n, size)}
	}
	return parts
}

// startMany is start with two brokers and a topic whose partitions the first
// leads; the log knows them.
func startMany(t *testing.T, partitions int, config ...string) (*faulty, *produces) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := logtest.Open(t, c.ListenAddrs())
	f := &faulty{Cluster: c, log: l, topic: logtest.Topic(t, l, partitions, config...)}
	kafkalog.Hasten(l)
	for p := range partitions {
		f.move(t, p, 0)
	}
	warm := logtest.Open(t, c.ListenAddrs()) // has seen the topic as it is now
	kafkalog.Hasten(warm)
	f.log = warm
	if err := warm.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f, watch(c)
}

func (f *faulty) move(t *testing.T, partition int, to int32) {
	t.Helper()
	if err := f.MoveTopicPartition(f.topic, int32(partition), to); err != nil {
		t.Fatal(err)
	}
}

// values are the keys of a partition's records.
func (f *faulty) values(t *testing.T, partition int) []string {
	t.Helper()
	_, end, err := f.log.Bounds(t.Context(), f.topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if _, err := f.log.ReadRange(t.Context(), f.topic, partition, 0, end, func(r kafkalog.Record) error {
		got = append(got, string(r.Key))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// check wants each part's records so many times in its partition.
func (f *faulty) check(t *testing.T, parts []kafkalog.Part, times int) {
	t.Helper()
	for _, p := range parts {
		var want []string
		for _, r := range p.Records {
			want = append(want, string(r.Key))
		}
		if got := f.values(t, p.Partition); !slices.Equal(got, slices.Repeat(want, times)) {
			t.Errorf("partition %d: %v, want %d times %v", p.Partition, got, times, want)
		}
	}
}

func noErrors(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("part %d: %v", i, err)
		}
	}
}

// TestAppendAllTogether: parts of one leader are one request.
func TestAppendAllTogether(t *testing.T) {
	f, w := startMany(t, 17)
	parts := partsOf(f.topic, 17, 3, 100)
	noErrors(t, f.log.AppendAll(t.Context(), parts))
	if got := w.requests(); len(got) != 1 || len(got[0]) != 17 {
		t.Errorf("requests %v", got)
	}
	f.check(t, parts, 1)
}

// TestAppendAllLeaders: each leader gets a request of its own parts.
func TestAppendAllLeaders(t *testing.T) {
	f, w := startMany(t, 6)
	for p := 1; p < 6; p += 2 {
		f.move(t, p, 1)
	}
	f.log = logtest.Open(t, f.ListenAddrs())
	parts := partsOf(f.topic, 6, 3, 100)
	noErrors(t, f.log.AppendAll(t.Context(), parts))
	got := w.requests()
	slices.SortFunc(got, slices.Compare)
	if want := [][]int32{{0, 2, 4}, {1, 3, 5}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("requests %v, want %v", got, want)
	}
	f.check(t, parts, 1)
}

// TestAppendAllBounds: a request is bounded, a part of several batches has its
// own, and empty ones and those of the same partition do no harm.
func TestAppendAllBounds(t *testing.T) {
	f, w := startMany(t, 13)
	parts := partsOf(f.topic, 12, 4, 50_000)
	parts[5].Records = logtest.Numbered(5000, 20, 100_000)
	parts[6].Records = nil
	parts[11].Records = logtest.Numbered(11_000, 19, 50_000) // above a batch; with the small one after it below a request
	again := kafkalog.Part{Topic: f.topic, Partition: 12, Records: logtest.Numbered(12_000, 3, 10)}
	noErrors(t, f.log.AppendAll(t.Context(), append(parts, again, again)))
	f.check(t, parts, 1)
	f.check(t, []kafkalog.Part{again}, 2)
	if w.bytes > 1<<20 {
		t.Errorf("a request of %d bytes", w.bytes)
	}
	for _, partitions := range w.requests() {
		slices.Sort(partitions)
		if len(slices.Compact(partitions)) != len(partitions) || len(partitions) > 1 && (slices.Contains(partitions, 5) || slices.Contains(partitions, 11)) {
			t.Errorf("a request of partitions %v", partitions)
		}
	}
	if errs := f.log.AppendAll(t.Context(), nil); len(errs) != 0 {
		t.Errorf("of nothing: %v", errs)
	}
}

// TestAppendAllLeaderMoved: only the part whose leader has moved is sent again.
func TestAppendAllLeaderMoved(t *testing.T) {
	f, w := startMany(t, 5)
	f.move(t, 3, 1)
	parts := partsOf(f.topic, 5, 3, 100)
	noErrors(t, f.log.AppendAll(t.Context(), parts))
	f.check(t, parts, 1)
	got := w.requests()
	if len(got) < 2 || len(got[0]) != 5 {
		t.Fatalf("requests %v", got)
	}
	for _, partitions := range got[1:] {
		if !slices.Equal(partitions, []int32{3}) {
			t.Errorf("requests %v", got)
		}
	}
}

// TestAppendAllUnanswered: parts that the answer lacks are sent again, and those
// that it refuses for now.
func TestAppendAllUnanswered(t *testing.T) {
	f, w := startMany(t, 5)
	first := true
	w.fault = func(r kmsg.Request) (kmsg.Response, bool) {
		if !first {
			return nil, false
		}
		first = false
		return logtest.ProduceCode(19)(r) // of the first part alone
	}
	parts := partsOf(f.topic, 5, 3, 100)
	noErrors(t, f.log.AppendAll(t.Context(), parts))
	f.check(t, parts, 1)
	if got := w.requests(); len(got) != 6 {
		t.Errorf("requests %v", got)
	}
}

// TestAppendAllRefused: a part that is refused for ever has its error, the
// others are acknowledged, once.
func TestAppendAllRefused(t *testing.T) {
	f, w := startMany(t, 5)
	narrow := logtest.Topic(t, f.log, 2, "max.message.bytes", "10000")
	// The log has to know the new topic, for its parts to go with the others.
	if _, err := f.log.Append(t.Context(), narrow, 1, logtest.Numbered(0, 1, 10)); err != nil {
		t.Fatal(err)
	}
	w.requests()
	parts := append(
		partsOf(f.topic, 5, 3, 100),
		kafkalog.Part{Topic: narrow, Records: logtest.Numbered(0, 1, 20_000)},
		kafkalog.Part{Topic: "absent", Records: logtest.Numbered(0, 1, 10)},
		kafkalog.Part{Topic: f.topic, Partition: 99, Records: logtest.Numbered(0, 1, 10)},
	)
	errs := f.log.AppendAll(t.Context(), parts)
	for i, kind := range map[int]kafkalog.Kind{5: kafkalog.KindTooLarge, 6: kafkalog.KindTopic, 7: kafkalog.KindPartition} {
		if e, ok := errors.AsType[*kafkalog.Error](errs[i]); !ok || e.Kind != kind || e.Topic != parts[i].Topic {
			t.Errorf("part %d: %v", i, errs[i])
		}
		errs[i] = nil
	}
	noErrors(t, errs)
	f.check(t, parts[:5], 1)
	shared := 0
	for _, partitions := range w.requests() {
		if len(partitions) > 1 {
			shared++
		}
	}
	if shared == 0 {
		t.Error("no request of several parts")
	}
}

// cutter hangs up in place of the first answer after it was armed.
type cutter struct {
	net.Listener
	armed atomic.Bool
}

func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{conn, c}, nil
}

type cutConn struct {
	net.Conn
	by *cutter
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.by.armed.CompareAndSwap(true, false) {
		c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// TestAppendAllTwice: an acknowledgement that is lost gives all of its records
// twice, in their order.
func TestAppendAllTwice(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cut := &cutter{Listener: ln}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(func(string, string) (net.Listener, error) { return cut, nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := logtest.Open(t, c.ListenAddrs())
	f := &faulty{Cluster: c, log: l, topic: logtest.Topic(t, l, 4)}
	kafkalog.Hasten(l)
	// A batch of its own first: the log then knows the topic and has a
	// connection that carries produce requests.
	first := partsOf(f.topic, 4, 1, 10)
	noErrors(t, l.AppendAll(t.Context(), first))
	if _, err := l.Append(t.Context(), f.topic, 0, first[0].Records); err != nil {
		t.Fatal(err)
	}
	w := watch(c)
	cut.armed.Store(true)
	parts := partsOf(f.topic, 4, 3, 10)
	noErrors(t, l.AppendAll(t.Context(), parts))
	if got := w.requests(); len(got) != 5 || len(got[0]) != 4 || cut.armed.Load() {
		t.Errorf("requests %v", got)
	}
	for p := 1; p < 4; p++ {
		want := append(numbers(1000*p, 1), slices.Repeat(numbers(1000*p, 3), 2)...)
		if got := f.values(t, p); !slices.Equal(got, want) {
			t.Errorf("partition %d: %v, want %v", p, got, want)
		}
	}
}

func numbers(first, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(first + i)
	}
	return keys
}

// TestAppendAllGivesUp: the end of ctx ends all parts that are not acknowledged,
// whether the broker refuses or does not answer, and the others have no error.
func TestAppendAllGivesUp(t *testing.T) {
	f, w := startMany(t, 4)
	w.fault = func(r kmsg.Request) (kmsg.Response, bool) {
		q := r.(*kmsg.ProduceRequest)
		if len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 2 {
			return nil, false
		}
		return logtest.ProduceCode(19)(r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	parts := partsOf(f.topic, 4, 3, 10)
	for i, err := range f.log.AppendAll(ctx, parts) {
		if i == 2 {
			if err != nil {
				t.Errorf("part 2: %v", err)
			}
			continue
		}
		if kafkalog.KindOf(err) != kafkalog.KindUnavailable || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("part %d: %v", i, err)
		}
	}
	f.check(t, parts[2:3], 1)
	for i, err := range f.log.AppendAll(ctx, parts) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end, part %d: %v", i, err)
		}
	}
	f.log.Close()
	for i, err := range f.log.AppendAll(t.Context(), parts) {
		if !errors.Is(err, kafkalog.ErrClosed) {
			t.Errorf("closed, part %d: %v", i, err)
		}
	}
}
