//go:build real

package ingest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/sink/elastic"
)

// reality is a loader between a real Kafka and a real search server. Its
// connections go through wires that a test can break; the rest of what goes
// wrong is asked of the servers.
type reality struct {
	t                        *testing.T
	name                     string
	url                      string
	feed                     *kafkalog.Log
	source, failed           *kafkalog.Log
	admin                    *elastic.Admin
	sourceW, failedW, adminW wire
	part                     int    // of both topics
	poison                   string // of record 20

	mu    sync.Mutex
	state ingest.State
	class ingest.Class
	begun bool
	named bool
	last  int64
	wrong []string
	begin func()
	heal  func()
	heals sync.WaitGroup
}

// wire makes connections, refuses to, or breaks those that there are: all of
// them, or those that carry a request with a key of Kafka's.
type wire struct {
	refused, cut atomic.Bool
	key          atomic.Pointer[kmsg.Key]
}

func (w *wire) breaks(key kmsg.Key) { w.key.Store(&key) }

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if w.refused.Load() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wired{c, w}, nil
}

type wired struct {
	net.Conn

	w *wire
}

func (c *wired) broken() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

func (c *wired) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.w.cut.Load() || c.w.refused.Load() {
		_ = c.Close()
		return 0, c.broken()
	}
	return n, err
}

func (c *wired) Write(b []byte) (int, error) {
	key := c.w.key.Load()
	hit := key != nil && len(b) >= 6 && int16(binary.BigEndian.Uint16(b[4:])) == key.Int16()
	if hit || c.w.refused.Load() {
		_ = c.Close()
		return 0, c.broken()
	}
	return c.Conn.Write(b)
}

func newReality(t *testing.T) *reality {
	t.Helper()
	brokers, url := os.Getenv("TRAWL_KAFKA_BROKERS"), os.Getenv("TRAWL_ELASTIC_URL")
	if brokers == "" || url == "" {
		t.Fatal("TRAWL_KAFKA_BROKERS and TRAWL_ELASTIC_URL are not both set: start deploy/realstack/kafka.sh and opensearch.sh and name their addresses")
	}
	r := &reality{t: t, name: fmt.Sprintf("faults-%08x", rand.Uint32()), url: url, last: -1}
	log := func(c kafkalog.Config) *kafkalog.Log {
		c.Brokers = strings.Split(brokers, ",")
		l, err := kafkalog.Open(c)
		must(t, err)
		t.Cleanup(l.Close)
		return l
	}
	r.feed = log(kafkalog.Config{})
	r.source = log(kafkalog.Config{Dial: r.sourceW.dial, MaxBatchBytes: 1 << 20})
	r.failed = log(kafkalog.Config{Dial: r.failedW.dial})
	var err error
	r.admin, err = elastic.New(elastic.Config{URL: url, Dial: r.adminW.dial})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.feed.DeleteTopics(ctx, r.name, r.errors()); err != nil {
			t.Error(err)
		}
		if err := r.admin.Drop(ctx, r.name, r.index()); err != nil {
			t.Error(err)
		}
		_ = r.admin.Close()
	})
	return r
}

func (r *reality) errors() string { return r.name + ".errors" }
func (r *reality) index() string  { return r.name + "-1" }

func (r *reality) topic(name string, config map[string]string) {
	r.t.Helper()
	must(r.t, r.feed.EnsureTopics(r.t.Context(), []kafkalog.TopicSpec{{Name: name, Partitions: 1, Config: config}}))
}

// morePartitions adds a second one.
func (r *reality) morePartitions(name string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("TRAWL_KAFKA_BROKERS"), ",")...))
	must(r.t, err)
	defer c.Close()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, 2
	req.Topics = append(req.Topics, topic)
	_, err = req.RequestWith(r.t.Context(), c)
	must(r.t, err)
}

// block sets or removes what a disk that is full sets: no writes.
func (r *reality) block(on bool) {
	value := "null"
	if on {
		value = "true"
	}
	r.ask("PUT", "/"+r.index()+"/_settings", `{"index.blocks.read_only_allow_delete":`+value+`}`)
}

func (r *reality) ask(method, path, body string) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.t.Context()), method, r.url+path, bytes.NewReader([]byte(body)))
	must(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	must(r.t, err)
	_ = res.Body.Close()
	if res.StatusCode >= 300 {
		r.t.Errorf("%s %s: %s", method, path, res.Status)
	}
}

// Read, Bounds and Append make it the source and the errors topic.
func (r *reality) Read(ctx context.Context, from int64, maxBytes int, maxWait time.Duration, fn func(kafkalog.Record) error) (int64, int64, error) {
	return r.source.Read(ctx, r.name, r.part, from, maxBytes, maxWait, fn)
}

func (r *reality) Bounds(ctx context.Context) (int64, int64, error) {
	return r.source.Bounds(ctx, r.name, r.part)
}

func (r *reality) Append(ctx context.Context, recs []kafkalog.Record) error {
	_, err := r.failed.Append(ctx, r.errors(), r.part, recs)
	return err
}

// watch begins the fault in the middle, and ends it once the state has named it.
func (r *reality) watch(p ingest.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Position < r.last {
		r.wrong = append(r.wrong, fmt.Sprintf("position went from %d to %d", r.last, p.Position))
	}
	r.last = max(r.last, p.Position)
	if !r.begun && p.Position >= 10 {
		r.begun = true
		r.begin()
	}
	if r.begun && !r.named && p.Attempts > 0 && p.Class == int(r.class) && p.State == r.state.String() {
		r.named = true
		r.heals.Go(r.heal)
	}
}

func (r *reality) transform(rec *kafkalog.Record) (sink.Op, bool, error) {
	op, ok, err := transform(rec)
	op.ID = strconv.FormatInt(rec.Offset, 10)
	if string(rec.Value) == "conflict" {
		op.Doc = []byte(`{"status":"a mapping conflict"}`)
	}
	return op, ok, err
}

// run loads n records and gives the ledger.
func (r *reality) run(n int64) (l contract.Ledger) {
	r.t.Helper()
	cfg := ingest.Config{
		Topic: r.name, Partition: r.part, Crawl: "faults", Target: r.index(), Policy: ingest.FromEarliest, BatchCount: 5, Progress: r.watch,
		Open: func(ctx context.Context, _ int64) (sink.Sink, int64, error) {
			if err := r.admin.Prepare(ctx, r.name, r.index(), false); err != nil {
				return nil, -1, err
			}
			s, err := r.admin.Open(ctx, r.index())
			return s, -1, err
		},
	}
	m, err := ingest.New(cfg, r, r.transform, nil, r)
	must(r.t, err)
	in := contract.LoadInput{Position: -1, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: n}
	for deadline := time.Now().Add(2 * time.Minute); in.Position < n; {
		if time.Now().After(deadline) {
			r.t.Fatalf("no end at %d: %+v", in.Position, in.Retry)
		}
		res, err := m.Slice(r.t.Context(), in)
		must(r.t, err)
		balanced(r.t, res.Ledger)
		l = l.Add(res.Ledger)
		in.Position, in.Retry = res.Position, res.Retry
		time.Sleep(max(time.Until(res.Retry.NextTry), 0)) // as the workflow's timer does
	}
	r.heals.Wait()
	return l
}

// realFaults are the cells that can be made on real servers without hurting
// others there, and how.
var realFaults = map[pair]struct {
	how    string
	before func(*reality) // instead of making the topics
	begin  func(*reality) // in the middle; nil: it is there from the start
	heal   func(*reality)
	poison string
	fate   ingest.Class
	quiet  bool // nothing is retried
}{
	{ingest.Configure, ingest.KafkaUnavailable}: {
		how: "connections are refused", before: func(r *reality) { r.sourceW.refused.Store(true) },
		heal: func(r *reality) { r.sourceW.refused.Store(false) },
	},
	{ingest.Configure, ingest.PartitionNotFound}: {
		how: "partition 1 of one; then there are two", before: func(r *reality) { r.part = 1 },
		heal: func(r *reality) { r.morePartitions(r.name); r.morePartitions(r.errors()); r.fill() },
	},
	{ingest.Configure, ingest.Network}: {
		how: "connections break when offsets are asked for", before: func(r *reality) { r.sourceW.breaks(kmsg.ListOffsets) },
		heal: func(r *reality) { r.sourceW.key.Store(nil) },
	},
	{ingest.Configure, ingest.SinkUnavailable}: {
		how: "connections are refused", before: func(r *reality) { r.adminW.refused.Store(true) },
		heal: func(r *reality) { r.adminW.refused.Store(false) },
	},
	{ingest.Configure, ingest.SinkRefused}: {
		how:    "an alias has the index's name; then it is gone",
		before: func(r *reality) { r.alias("PUT") }, heal: func(r *reality) { r.alias("DELETE") },
	},
	{ingest.Extract, ingest.KafkaUnavailable}: {
		how: "connections break and are refused", begin: func(r *reality) { r.sourceW.refused.Store(true) },
		heal: func(r *reality) { r.sourceW.refused.Store(false) },
	},
	{ingest.Extract, ingest.Network}: {
		how: "connections break when records are asked for", begin: func(r *reality) { r.sourceW.breaks(kmsg.Fetch) },
		heal: func(r *reality) { r.sourceW.key.Store(nil) },
	},
	{ingest.Extract, ingest.MessageTooBig}: {
		how: "a record of 1.5 MB, the reader takes 1 MiB", poison: strings.Repeat("x", 3<<19), fate: ingest.MessageTooBig, quiet: true,
	},
	{ingest.Load, ingest.Network}: {
		how: "connections break", begin: func(r *reality) { r.adminW.cut.Store(true) },
		heal: func(r *reality) { r.adminW.cut.Store(false) },
	},
	{ingest.Load, ingest.SinkUnavailable}: {
		how: "connections break and are refused", begin: func(r *reality) { r.adminW.refused.Store(true) },
		heal: func(r *reality) { r.adminW.refused.Store(false) },
	},
	{ingest.Load, ingest.ItemsFailed}: {how: "a mapping conflict", poison: "conflict", fate: ingest.ItemsFailed, quiet: true},
	{ingest.Load, ingest.SinkRefused}: {
		how: "index.blocks.read_only_allow_delete, as a full disk sets it", begin: func(r *reality) { r.block(true) },
		heal: func(r *reality) { r.block(false) },
	},
	{ingest.Errors, ingest.KafkaUnavailable}: {
		how: "connections break and are refused", begin: func(r *reality) { r.failedW.refused.Store(true) },
		heal: func(r *reality) { r.failedW.refused.Store(false) },
	},
	{ingest.Errors, ingest.TopicNotFound}: {
		how: "the topic is not there; then it is", before: func(*reality) {},
		heal: func(r *reality) { r.topic(r.errors(), nil) },
	},
	{ingest.Errors, ingest.PartitionNotFound}: {
		how: "partition 1 of one; then there are two", before: func(r *reality) { r.part = 1; r.morePartitions(r.name) },
		heal: func(r *reality) { r.morePartitions(r.errors()) },
	},
	{ingest.Errors, ingest.MessageTooBig}: {
		how: "max.message.bytes of 20,000, a failure of 50 KB", poison: strings.Repeat("bad", 17_000), fate: ingest.InvalidFormat, quiet: true,
	},
	{ingest.Errors, ingest.Network}: {
		how: "connections break when records are appended", begin: func(r *reality) { r.failedW.breaks(kmsg.Produce) },
		heal: func(r *reality) { r.failedW.key.Store(nil) },
	},
}

// alias makes or removes an alias with the name of the index, on another index.
func (r *reality) alias(method string) {
	if method == "PUT" {
		r.ask("PUT", "/"+r.name+"-2", "")
		r.t.Cleanup(func() { r.ask("DELETE", "/"+r.name+"-2", "") })
	}
	r.ask(method, "/"+r.name+"-2/_alias/"+r.index(), "")
}

const realRecords = 40

// fill writes the records: every eighth is bad, and one is the poison.
func (r *reality) fill() {
	recs := make([]kafkalog.Record, 0, realRecords)
	for i := range realRecords {
		value := "good"
		switch {
		case i%8 == 7:
			value = "bad"
		case i == 20 && r.poison != "":
			value = r.poison
		}
		recs = append(recs, kafkalog.Record{Key: []byte("k"), Value: []byte(value)})
	}
	if base, err := r.feed.Append(r.t.Context(), r.name, r.part, recs); err != nil || base != 0 {
		r.t.Errorf("append: at %d, %v", base, err)
	}
}

// TestRealFaults makes on real servers what can be made there: nothing is lost,
// nothing is twice, and the state names the class.
func TestRealFaults(t *testing.T) {
	all, _ := cells()
	var b strings.Builder
	for _, c := range all {
		f, ok := realFaults[pair{c.state, c.class}]
		if !ok {
			fmt.Fprintf(&b, "%-34s -\n", c)
			continue
		}
		t.Run(strings.ReplaceAll(c.String(), "/", "-"), func(t *testing.T) {
			r := newReality(t)
			r.state, r.class, r.poison = c.state, c.class, f.poison
			r.begin, r.heal = func() {}, func() {}
			if f.begin != nil {
				r.begin = func() { f.begin(r) }
			}
			if f.heal != nil {
				r.heal = func() { f.heal(r) }
			}
			r.begun = f.begin == nil
			r.topic(r.name, map[string]string{"max.message.bytes": "4000000"})
			switch c.class {
			case ingest.TopicNotFound: // of the errors topic
			case ingest.MessageTooBig:
				r.topic(r.errors(), map[string]string{"max.message.bytes": "20000"})
			default:
				r.topic(r.errors(), nil)
			}
			if f.before != nil {
				f.before(r)
			}
			if r.part == 0 || c.state == ingest.Errors {
				r.fill()
			}
			l := r.run(realRecords)
			r.judge(l, f.poison != "", f.fate)
			if !f.quiet && !r.named {
				t.Errorf("the state never said class %d in %s", c.class, c.state)
			}
		})
		fmt.Fprintf(&b, "%-34s %s\n", c, f.how)
	}
	t.Logf("on %s and %s:\n%s", os.Getenv("TRAWL_KAFKA_BROKERS"), os.Getenv("TRAWL_ELASTIC_URL"), b.String())
}

// judge compares index and errors topic with the records.
func (r *reality) judge(l contract.Ledger, poison bool, fate ingest.Class) {
	r.t.Helper()
	want := map[string]ingest.Class{}
	for i := range int64(realRecords) {
		if i%8 == 7 {
			want[ingest.RecordID(r.name, r.part, i)] = ingest.InvalidFormat
		}
	}
	if poison {
		want[ingest.RecordID(r.name, r.part, 20)] = fate
	}
	r.ask("POST", "/"+r.index()+"/_refresh", "")
	docs, err := r.admin.Count(r.t.Context(), r.index())
	must(r.t, err)
	failed := map[string]ingest.Class{}
	_, end, err := r.feed.Bounds(r.t.Context(), r.errors(), r.part)
	must(r.t, err)
	_, err = r.feed.ReadRange(r.t.Context(), r.errors(), r.part, 0, end, func(rec kafkalog.Record) error {
		f, _ := ingest.ParseFailure(&rec)
		failed[f.ID] = f.Class
		return nil
	})
	must(r.t, err)
	if docs != realRecords-int64(len(want)) || fmt.Sprint(failed) != fmt.Sprint(want) {
		r.t.Errorf("%d documents, failures %v; want %d, %v", docs, failed, realRecords-len(want), want)
	}
	if l.Offsets != realRecords || l.Loaded != docs || l.Errors != int64(len(want)) || l.Missing() != 0 || len(r.wrong) > 0 {
		r.t.Errorf("ledger %+v, %v", l, r.wrong)
	}
}
