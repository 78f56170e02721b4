//go:build real

package ingest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
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
	"trawl/internal/spec"
	formats "trawl/internal/transform"
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
	change                   formats.Func
	gateway                  *gateway // nil: none

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

// newReality asks the search server through a gateway if there is one.
func newReality(t *testing.T, gateway *gateway) *reality {
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
	r.change, err = formats.New(spec.LoadSource{
		Topic: r.name, Format: spec.FormatJSON, Version: spec.VersionOffset,
		Fields: []spec.FieldOp{{Expr: &spec.ExprOp{Field: "half", Expression: "n / 2"}}},
	})
	must(t, err)
	if gateway != nil {
		url = gateway.before(t, url)
	}
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

func (r *reality) sourceTopic() {
	r.topic(r.name, map[string]string{"max.message.bytes": "4000000"})
}

// kafka sends a request that our own client does not know.
func (r *reality) kafka(req kmsg.Request) kmsg.Response {
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("TRAWL_KAFKA_BROKERS"), ",")...))
	must(r.t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
	defer cancel()
	res, err := c.Request(ctx, req)
	must(r.t, err)
	return res
}

// morePartitions adds a second one.
func (r *reality) morePartitions(name string) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, 2
	req.Topics = append(req.Topics, topic)
	r.kafka(req)
}

// deny takes a right at a topic away from everybody; allow gives it back.
func (r *reality) deny(topic string, op kmsg.ACLOperation) {
	r.t.Cleanup(func() { r.allow(topic) })
	req := kmsg.NewPtrCreateACLsRequest()
	for operation, permission := range map[kmsg.ACLOperation]kmsg.ACLPermissionType{
		kmsg.ACLOperationAll: kmsg.ACLPermissionTypeAllow, op: kmsg.ACLPermissionTypeDeny,
	} {
		acl := kmsg.NewCreateACLsRequestCreation()
		acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
		acl.Principal, acl.Host, acl.Operation, acl.PermissionType = "User:*", "*", operation, permission
		req.Creations = append(req.Creations, acl)
	}
	for _, res := range r.kafka(req).(*kmsg.CreateACLsResponse).Results {
		if res.ErrorCode != 0 {
			r.t.Errorf("no right can be denied, code %d: the broker needs an authorizer, as deploy/realstack/test.sh gives it one", res.ErrorCode)
		}
	}
}

func (r *reality) allow(topic string) {
	req := kmsg.NewPtrDeleteACLsRequest()
	all := kmsg.NewDeleteACLsRequestFilter()
	all.ResourceType, all.ResourceName, all.ResourcePatternType = kmsg.ACLResourceTypeTopic, &topic, kmsg.ACLResourcePatternTypeLiteral
	all.Operation, all.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	req.Filters = append(req.Filters, all)
	r.kafka(req)
}

// forget removes the records before an offset, as retention does.
func (r *reality) forget(before int64) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = int32(r.part), before
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic, topic.Partitions = r.name, append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	r.kafka(req)
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

// run loads n records and gives the ledger.
func (r *reality) run(n int64) (l contract.Ledger) {
	r.t.Helper()
	cfg := ingest.Config{
		Topic: r.name, Partition: r.part, Crawl: "faults", Target: r.index(), Policy: ingest.FromEarliest, BatchCount: 5, MaxRecord: maxRealRecord,
		Progress: r.watch,
		Open: func(ctx context.Context, _ int64) (sink.Sink, ingest.Beginning, error) {
			if err := r.admin.Prepare(ctx, r.name, r.index(), false); err != nil {
				return nil, nowhere, err
			}
			s, err := r.admin.Open(ctx, r.index())
			return s, nowhere, err
		},
	}
	change := func(rec *kafkalog.Record) (sink.Op, bool, error) { return r.change(rec, r.name, r.part) }
	m, err := ingest.New(cfg, r, change, nil, r)
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

// alias makes or removes an alias with the name of the index, on another index.
func (r *reality) alias(method string) {
	if method == "PUT" {
		r.ask("PUT", "/"+r.name+"-2", "")
		r.t.Cleanup(func() { r.ask("DELETE", "/"+r.name+"-2", "") })
	}
	r.ask(method, "/"+r.name+"-2/_alias/"+r.index(), "")
}

const (
	realRecords   = 40
	maxRealRecord = 100_000 // bytes; larger is class 4 in transform
)

// fill writes the records: every eighth is bad, and one is the poison.
func (r *reality) fill() {
	recs := make([]kafkalog.Record, 0, realRecords)
	for i := range realRecords {
		value := fmt.Sprintf(`{"n":%d}`, i)
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

// judge compares index and errors topic with the records.
func (r *reality) judge(l contract.Ledger, f realFault) {
	r.t.Helper()
	want := map[string]ingest.Class{}
	for i := range int64(realRecords) {
		if i%8 == 7 {
			want[ingest.RecordID(r.name, r.part, i)] = ingest.InvalidFormat
		}
	}
	if f.poison != "" {
		want[ingest.RecordID(r.name, r.part, 20)] = f.fate
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
	switch {
	case l.Missing() != 0:
		r.t.Errorf("ledger %+v", l)
	case f.loses: // what is gone is lost and said to be, all else is there
		if l.Lost == 0 || l.Offsets != realRecords || l.Loaded != docs || l.Errors != int64(len(failed)) || len(r.wrong) > 0 {
			r.t.Errorf("%d documents, failures %v, ledger %+v, %v", docs, failed, l, r.wrong)
		}
	case docs != realRecords-int64(len(want)) || !maps.Equal(failed, want):
		r.t.Errorf("%d documents, failures %v; want %d, %v", docs, failed, realRecords-len(want), want)
	case f.again: // what was loaded before may be loaded once more
	case l.Offsets != realRecords || l.Loaded != docs || l.Errors != int64(len(want)) || len(r.wrong) > 0:
		r.t.Errorf("ledger %+v, %v", l, r.wrong)
	}
}
