package kafkalog_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
)

// faulty is a cluster whose broker answers requests of one kind with the given
// error codes, one after the other, and then well.
type faulty struct {
	*kfake.Cluster
	log   *kafkalog.Log
	topic string
	asked int
}

func start(t *testing.T) *faulty {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := logtest.Open(t, c.ListenAddrs())
	f := &faulty{Cluster: c, log: l, topic: logtest.Topic(t, l, 1)}
	kafkalog.Hasten(l)
	return f
}

// answer makes the broker answer requests with a key by reply, for as long as
// that gives something.
func (f *faulty) answer(key kmsg.Key, reply func(kmsg.Request) kmsg.Response) {
	f.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		if res := reply(req); res != nil {
			return res, nil, true
		}
		return nil, nil, false
	})
}

// codes gives one code per call, 0 when they are used up.
func (f *faulty) codes(codes []int16) int16 {
	f.asked++
	if f.asked <= len(codes) {
		return codes[f.asked-1]
	}
	return 0
}

func (f *faulty) produceCodes(codes ...int16) {
	f.answer(kmsg.Produce, func(req kmsg.Request) kmsg.Response {
		code := f.codes(codes)
		if code == 0 {
			return nil
		}
		r := req.(*kmsg.ProduceRequest)
		res := r.ResponseKind().(*kmsg.ProduceResponse)
		t := kmsg.NewProduceResponseTopic()
		t.Topic = r.Topics[0].Topic
		p := kmsg.NewProduceResponseTopicPartition()
		p.ErrorCode = code
		t.Partitions = append(t.Partitions, p)
		res.Topics = append(res.Topics, t)
		return res
	})
}

// TestAppendRetries: what passes is waited out, what does not is told at once.
func TestAppendRetries(t *testing.T) {
	recs := logtest.Numbered(0, 1, 10)
	for _, c := range []struct {
		name  string
		codes []int16
		kind  kafkalog.Kind // KindOther with asked 0: success
		asked int           // requests that the broker saw; 0: one more than codes
	}{
		{"leader elected", []int16{5, 5, 5}, 0, 0},
		{"leader moved, more often than a call refreshes", []int16{6, 6, 6, 6, 6}, 0, 0},
		{"timeout, too few replicas, network", []int16{7, 19, 20, 13}, 0, 0},
		{"storage", []int16{56}, 0, 0},
		{"topic new to the broker", []int16{3, 3}, 0, 0},
		{"too large", []int16{10}, kafkalog.KindTooLarge, 1},
		{"not allowed", []int16{29}, kafkalog.KindOther, 1},
		{"invalid record", []int16{87}, kafkalog.KindOther, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			f.produceCodes(c.codes...)
			_, err := f.log.Append(t.Context(), f.topic, 0, recs)
			if c.asked == 0 {
				if err != nil || f.asked != len(c.codes)+1 {
					t.Errorf("%v after %d requests", err, f.asked)
				}
				return
			}
			e, ok := errors.AsType[*kafkalog.Error](err)
			if !ok || e.Kind != c.kind || e.Topic != f.topic || e.Partition != 0 || f.asked != c.asked {
				t.Errorf("got %v after %d requests", err, f.asked)
			}
		})
	}
}

// TestAppendTwice: an acknowledgement that is lost gives the record twice, and
// the promise says so.
func TestAppendTwice(t *testing.T) {
	f := start(t)
	cut := false
	f.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		if cut {
			return nil, nil, false
		}
		cut = true
		return nil, errors.New("cut"), true // the broker hangs up
	})
	base, err := f.log.Append(t.Context(), f.topic, 0, logtest.Numbered(0, 1, 10))
	if err != nil || base < 0 {
		t.Errorf("%d, %v", base, err)
	}
	if !cut {
		t.Error("the connection was not cut")
	}
}

// TestAppendGivesUp: the end of ctx ends it, with the reason that it waited for.
func TestAppendGivesUp(t *testing.T) {
	f := start(t)
	f.produceCodes(slices.Repeat([]int16{19}, 100_000)...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := f.log.Append(ctx, f.topic, 0, logtest.Numbered(0, 1, 10))
	if kafkalog.KindOf(err) != kafkalog.KindUnavailable || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "[19]") {
		t.Errorf("got %v", err)
	}
}

func TestAppendMissingTopic(t *testing.T) {
	f := start(t)
	_, err := f.log.Append(t.Context(), "absent", 0, logtest.Numbered(0, 1, 10))
	if kafkalog.KindOf(err) != kafkalog.KindTopic {
		t.Errorf("got %v", err)
	}
	_, err = f.log.Append(t.Context(), f.topic, 1, logtest.Numbered(0, 1, 10))
	if kafkalog.KindOf(err) != kafkalog.KindPartition {
		t.Errorf("got %v", err)
	}
}

// TestCoordinatorStarts: the first offset calls after a broker's start answer
// 16, then 14; never is that "nothing committed".
func TestCoordinatorStarts(t *testing.T) {
	f := start(t)
	if err := f.log.Commit(t.Context(), "group", f.topic, 0, 5, "note"); err != nil {
		t.Fatal(err)
	}
	f.offsetFetchCodes(16, 14, 15)
	off, note, ok, err := f.log.Committed(t.Context(), "group", f.topic, 0)
	if off != 5 || note != "note" || !ok || err != nil {
		t.Errorf("got %d, %q, %v, %v", off, note, ok, err)
	}
}

// TestCoordinatorGone: when it lasts it is class 1.
func TestCoordinatorGone(t *testing.T) {
	f := start(t)
	f.offsetFetchCodes(slices.Repeat([]int16{16}, 1000)...)
	_, _, ok, err := f.log.Committed(t.Context(), "group", f.topic, 0)
	if ok || kafkalog.KindOf(err) != kafkalog.KindUnavailable {
		t.Errorf("got %v, %v", ok, err)
	}
	if f.asked > 50 {
		t.Errorf("%d requests", f.asked)
	}
}

func (f *faulty) offsetFetchCodes(codes ...int16) {
	f.answer(kmsg.OffsetFetch, func(req kmsg.Request) kmsg.Response {
		code := f.codes(codes)
		if code == 0 {
			return nil
		}
		res := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		res.ErrorCode = code
		return res
	})
}

// TestEndsAllOrNone: a partition that fails fails the call; no zero slips in.
func TestEndsAllOrNone(t *testing.T) {
	f := start(t)
	topic := logtest.Topic(t, f.log, 3)
	var change func(*kmsg.ListOffsetsResponse)
	f.answer(kmsg.ListOffsets, func(req kmsg.Request) kmsg.Response {
		r := req.(*kmsg.ListOffsetsRequest)
		res := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = r.Topics[0].Topic
		for _, p := range r.Topics[0].Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset = p.Partition, 7
			t.Partitions = append(t.Partitions, rp)
		}
		res.Topics = append(res.Topics, t)
		change(res)
		return res
	})
	for _, c := range []struct {
		name   string
		change func(*kmsg.ListOffsetsResponse)
		kind   kafkalog.Kind
		ok     bool
	}{
		{"good", func(*kmsg.ListOffsetsResponse) {}, 0, true},
		{"one partition lacks", func(r *kmsg.ListOffsetsResponse) { r.Topics[0].Partitions = r.Topics[0].Partitions[1:] }, 0, false},
		{"one has no offset", func(r *kmsg.ListOffsetsResponse) { r.Topics[0].Partitions[1].Offset = -1 }, 0, false},
		{"one has no leader", func(r *kmsg.ListOffsetsResponse) { r.Topics[0].Partitions[2].ErrorCode = 5 }, kafkalog.KindUnavailable, false},
		{"the watermark lags", func(r *kmsg.ListOffsetsResponse) { r.Topics[0].Partitions[0].ErrorCode = 78 }, kafkalog.KindUnavailable, false},
		{"another topic", func(r *kmsg.ListOffsetsResponse) { r.Topics[0].Topic = "other" }, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			change = c.change
			ends, err := f.log.Ends(t.Context(), topic, 3)
			if (err == nil) != c.ok || kafkalog.KindOf(err) != c.kind || c.ok && !slices.Equal(ends, []int64{7, 7, 7}) {
				t.Errorf("got %v, %v", ends, err)
			}
		})
	}
}

// TestLostTail: a range past the end of the log is not waited for for ever.
func TestLostTail(t *testing.T) {
	f := start(t)
	if _, err := f.log.Append(t.Context(), f.topic, 0, logtest.Numbered(0, 2, 10)); err != nil {
		t.Fatal(err)
	}
	next, err := f.log.ReadRange(t.Context(), f.topic, 0, 0, 3, func(kafkalog.Record) error { return nil })
	if next != 2 || kafkalog.KindOf(err) != kafkalog.KindOffset || !strings.Contains(err.Error(), "to 2, not to 3") {
		t.Errorf("next %d, %v", next, err)
	}
}

// TestNobodyThere: no operation calls an outage a missing topic or an empty log,
// whether the client knew the cluster before or not.
func TestNobodyThere(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "there"))
	if err != nil {
		t.Fatal(err)
	}
	addrs := c.ListenAddrs()
	warm, cold := logtest.Open(t, addrs), logtest.Open(t, addrs)
	kafkalog.Hasten(warm)
	kafkalog.Hasten(cold)
	const topic = "there"
	_, err = warm.Append(t.Context(), topic, 0, logtest.Numbered(0, 1, 10))
	c.Close()
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*kafkalog.Log{"warm": warm, "cold": cold} {
		nothing := func(kafkalog.Record) error { return nil }
		for op, call := range map[string]func(context.Context) error{
			"ping":      l.Ping,
			"read":      func(c context.Context) error { _, _, err := l.Read(c, topic, 0, 0, 1, 0, nothing); return err },
			"range":     func(c context.Context) error { _, err := l.ReadRange(c, topic, 0, 0, 1, nothing); return err },
			"at":        func(c context.Context) error { _, _, err := l.ReadAt(c, topic, 0, 0); return err },
			"bounds":    func(c context.Context) error { _, _, err := l.Bounds(c, topic, 0); return err },
			"end":       func(c context.Context) error { _, err := l.End(c, topic, 0); return err },
			"ends":      func(c context.Context) error { _, err := l.Ends(c, topic, 1); return err },
			"topics":    func(c context.Context) error { _, err := l.Topics(c, ""); return err },
			"commit":    func(c context.Context) error { return l.Commit(c, "g", topic, 0, 1, "") },
			"committed": func(c context.Context) error { _, _, _, err := l.Committed(c, "g", topic, 0); return err },
			"delete":    func(c context.Context) error { return l.DeleteTopics(c, topic) },
			"set":       func(c context.Context) error { return l.SetConfig(c, topic, "retention.ms", "1") },
			"ensure": func(c context.Context) error {
				return l.EnsureTopics(c, []kafkalog.TopicSpec{{Name: topic, Partitions: 1}})
			},
			"append": func(c context.Context) error {
				c, cancel := context.WithTimeout(c, 100*time.Millisecond)
				defer cancel()
				_, err := l.Append(c, topic, 0, logtest.Numbered(0, 1, 1))
				return err
			},
		} {
			err := call(t.Context())
			if k := kafkalog.KindOf(err); err == nil || k != kafkalog.KindUnavailable && k != kafkalog.KindNetwork {
				t.Errorf("%s %s: got %v", name, op, err)
			}
		}
	}
}

// TestSilentBroker: one that accepts connections and never answers is met by
// the caller's deadline.
func TestSilentBroker(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l := logtest.Open(t, []string{ln.Addr().String()})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := l.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestSeveralBrokers: partitions on different brokers, and their move.
func TestSeveralBrokers(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := logtest.Open(t, c.ListenAddrs())
	topic := logtest.Topic(t, l, 6)
	for p := range 6 {
		if _, err := l.Append(t.Context(), topic, p, logtest.Numbered(0, p, 10)); err != nil {
			t.Fatal(err)
		}
	}
	for move := range 3 {
		for p := range int32(6) {
			if err := c.MoveTopicPartition(topic, p, int32(move)); err != nil {
				t.Fatal(err)
			}
		}
		ends, err := l.Ends(t.Context(), topic, 6)
		if want := []int64{0, 1, 2, 3, 4, 5}; err != nil || !slices.Equal(ends, want) {
			t.Fatalf("ends %v, %v", ends, err)
		}
		for p := range 6 {
			n := 0
			if _, err := l.ReadRange(t.Context(), topic, p, 0, int64(p), func(kafkalog.Record) error { n++; return nil }); err != nil || n != p {
				t.Fatalf("partition %d after move %s: %d records, %v", p, strconv.Itoa(move), n, err)
			}
		}
	}
}
