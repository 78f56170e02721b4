package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
	"trawl/internal/sink"
	"trawl/internal/sink/elastic"
	"trawl/internal/sink/elastic/estest"
)

const (
	srcTopic, errTopic = "src", "failed"
	partition          = 1 // of two: it can be absent while its topic is there
	indexName          = "docs-1"
	kafkaPort          = "9092"
	broker             = "127.0.0.1:" + kafkaPort
	sinkPort           = "9200"

	maxDoc = 20_000 // bytes that the sink takes in one request
	maxErr = 40_000 // bytes that the errors topic takes in one record
	maxLog = 2 << 20
)

// plant is an installation on a network in memory and a fake clock: a broker, a
// search server, our own clients, and a loader between them. Faults are made on
// the wire, so that what is tested begins with what the clients make of them.
type plant struct {
	t     *testing.T
	net   kfake.VirtualNetwork
	kafka *kfake.Cluster
	es    *estest.Server
	log   *kafkalog.Log // of the loader
	feed  *kafkalog.Log // of the producer: no fault meets it
	admin *elastic.Admin
	cell  cell

	mu      sync.Mutex
	conns   map[net.Conn]string // of the loader, by port
	opened  sink.Sink           // of Open, until a reset
	want    map[int64]ingest.Class
	good    map[int64]bool
	total   int64
	until   int64           // records that come in all
	stated  map[string]bool // acknowledged by the errors topic
	named   bool            // the state has shown the class
	began   time.Time       // of the fault
	heard   []string        // what the state said while the fault lasted
	broken  []string        // violations of the order and of visibility
	last    int64
	poisons int
	met     int // requests that the fault could have met
	tries   int // attempts that the state has shown
	// namedAfter is how long the fault had lasted when the state named it.
	namedAfter time.Duration

	// What a test may put between the loader and its clients.
	config   func(*ingest.Config)
	writer   func(sink.Sink) sink.Sink
	errorLog ingest.ErrorLog
	ops      ingest.TransformFunc
}

func newPlant(t *testing.T, c cell) *plant {
	t.Helper()
	p := &plant{
		t: t, cell: c, conns: map[net.Conn]string{}, want: map[int64]ingest.Class{}, good: map[int64]bool{}, stated: map[string]bool{}, last: -1,
	}
	p.writer = func(s sink.Sink) sink.Sink { return s }
	p.errorLog, p.ops = source{p}, transform
	var err error
	p.kafka, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(p.net.Listen))
	must(t, err)
	t.Cleanup(p.kafka.Close)
	l, err := p.net.Listen("tcp", "127.0.0.1:"+sinkPort)
	must(t, err)
	p.es = estest.On(l)
	t.Cleanup(p.es.Close)
	p.es.Set(func(s *estest.Server) { s.MaxContent, s.Before, s.Item = maxDoc, p.before, p.item })
	p.feed = p.open(kafkalog.Config{Dial: p.net.DialContext})
	p.log = p.open(kafkalog.Config{Dial: p.dial, MaxBatchBytes: 1 << 20})
	p.admin, err = elastic.New(elastic.Config{URL: "http://127.0.0.1:" + sinkPort, Dial: p.dial})
	must(t, err)
	t.Cleanup(func() { _ = p.admin.Close() })
	must(t, p.feed.EnsureTopics(t.Context(), []kafkalog.TopicSpec{
		{Name: srcTopic, Partitions: 2, Config: map[string]string{"max.message.bytes": strconv.Itoa(2 * maxLog)}},
		{Name: errTopic, Partitions: 2},
	}))
	for _, key := range logtest.FaultKeys {
		p.kafka.ControlKey(key.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			p.kafka.KeepControl()
			return p.control(r)
		})
	}
	return p
}

func (p *plant) open(c kafkalog.Config) *kafkalog.Log {
	c.Brokers, c.ClientID = []string{broker}, "feed"
	if c.MaxBatchBytes > 0 {
		c.ClientID = "loader"
	}
	l, err := kafkalog.Open(c)
	must(p.t, err)
	p.t.Cleanup(l.Close)
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// active says whether the fault is there now: from the first time that it meets
// anything, once until the state has named it, or for a minute.
func (p *plant) active() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = time.Now()
		return true
	}
	if p.cell.lasts > 0 {
		return time.Since(p.began) < p.cell.lasts
	}
	return !p.named
}

func (p *plant) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if f := p.cell.fault; f.refuse == port && (f.atDial || p.begun()) && p.active() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	c, err := p.net.DialContext(ctx, network, address)
	if err == nil {
		p.mu.Lock()
		p.conns[c] = port
		p.mu.Unlock()
	}
	return c, err
}

func (p *plant) begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.began.IsZero()
}

// cut breaks the loader's connections to a port.
func (p *plant) cut(port string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, to := range p.conns {
		if to == port {
			_ = c.Close()
			delete(p.conns, c)
		}
	}
}

// errCut makes the broker hang up.
var errCut = errors.New("cut")

// control is the broker's misbehaviour; the producer's requests are spared.
func (p *plant) control(r kmsg.Request) (kmsg.Response, error, bool) {
	f := p.cell.fault
	if f.kafka == nil || !p.concerns(r) {
		return nil, nil, false
	}
	answer, hit := f.kafka(r)
	if p.mu.Lock(); hit && p.began.IsZero() {
		p.met++
		hit = p.met > f.spare
	}
	p.mu.Unlock()
	switch {
	case !hit || !p.active():
		return nil, nil, false
	case f.refuse != "":
		p.cut(f.refuse)
	}
	if answer == nil {
		return nil, errCut, true
	}
	return answer, nil, true
}

// concerns: metadata only where the fault is about what is there.
func (p *plant) concerns(r kmsg.Request) bool {
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		return r.Topics[0].Topic == errTopic
	case *kmsg.MetadataRequest:
		return len(r.Topics) == 1 && r.Topics[0].Topic != nil && p.started()
	}
	return p.started()
}

func (p *plant) started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total > 0
}

// before is the misbehaviour of the search server.
func (p *plant) before(w http.ResponseWriter, r *http.Request) bool {
	f := p.cell.fault
	if f.sink == nil || strings.HasSuffix(r.URL.Path, "/_bulk") != (p.cell.state == ingest.Load) || r.Header.Get("Applied") != "" || !p.active() {
		return false
	}
	f.sink(p, w, r)
	return true
}

// item refuses poisoned documents one by one.
func (p *plant) item(_, id string) (status int, kind string) {
	o, err := strconv.ParseInt(id[strings.LastIndexByte(id, '-')+1:], 10, 64)
	if err != nil {
		return 500, "bad_id"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.want[o] == ingest.ItemsFailed {
		return 400, "mapper_parsing_exception"
	}
	return 0, ""
}

// put appends a record; its fate is a function of what is in it.
func (p *plant) put(value string, class ingest.Class, fails bool) {
	p.t.Helper()
	p.mu.Lock()
	o := p.total
	p.total++
	if fails {
		p.want[o] = class
	} else {
		p.good[o] = true
	}
	p.mu.Unlock()
	at, err := p.feed.Append(context.WithoutCancel(p.t.Context()), srcTopic, partition, []kafkalog.Record{{Key: []byte("k"), Value: []byte(value)}})
	if err != nil || at != o {
		p.t.Errorf("append: offset %d, want %d: %v", at, o, err)
	}
}

// record appends the n-th record of the stream: documents, every fourth of them
// bad, and the cell's poison among them.
func (p *plant) record(n int) {
	f := p.cell.fault
	if f.poison != "" && n >= poisonFrom && (p.cell.lasts > 0 || p.poisons == 0) && n < poisonFrom+12 {
		p.poisons++
		p.put(strings.Repeat(f.poison, max(f.size/len(f.poison), 1)), f.fate, true)
		return
	}
	if n%4 == 3 {
		p.put("bad", ingest.InvalidFormat, true)
		return
	}
	p.put("good", 0, false)
}

// transform is a pure function of the record.
func transform(r *kafkalog.Record) (sink.Op, bool, error) {
	op := sink.Op{ID: ingest.RecordID(srcTopic, partition, r.Offset), Version: r.Offset, Doc: fmt.Appendf(nil, `{"n":%d}`, r.Offset)}
	fail := func(c ingest.Class) (sink.Op, bool, error) {
		return op, false, &ingest.RecordError{Class: c, Err: errors.New("as the record says")}
	}
	switch v := string(r.Value); v[0] {
	case 'b':
		return fail(ingest.InvalidFormat)
	case '0', '2', '3', '5':
		return fail(ingest.Class(v[0] - '0'))
	case 'e':
		op.ID = ""
	case 'p':
		panic("as the record says")
	case 'v':
		op.Doc = []byte("no JSON")
	case 'l':
		op.Doc = fmt.Appendf(nil, `{"s":%q}`, v)
	}
	return op, true, nil
}

// nowhere: nothing is known of the loader.
var nowhere = ingest.Beginning{Position: -1}

// loader makes the machine as a worker does: a new one per slice.
func (p *plant) loader() *ingest.Machine {
	p.t.Helper()
	cfg := ingest.Config{
		Topic: srcTopic, Partition: partition, Crawl: "c", Target: indexName, Policy: ingest.FromEarliest,
		BatchCount: 5, MaxRecord: maxLog / 4, Progress: p.watch, CallLimit: 20 * time.Second,
		Open: func(ctx context.Context, _ int64) (sink.Sink, ingest.Beginning, error) {
			if p.opened == nil {
				if err := p.admin.Prepare(ctx, "docs", indexName, false); err != nil {
					return nil, nowhere, err
				}
				s, err := p.admin.Open(ctx, indexName)
				if err != nil {
					return nil, nowhere, err
				}
				p.opened = p.writer(s)
			}
			return p.opened, nowhere, nil
		},
		Rebuild: func(context.Context) error { p.opened = nil; return nil },
	}
	if p.config != nil {
		p.config(&cfg)
	}
	m, err := ingest.New(cfg, source{p}, p.ops, nil, p.errorLog)
	must(p.t, err)
	return m
}

// source and errors topic of the loader; what is acknowledged is noted.
type source struct{ p *plant }

func (s source) Read(ctx context.Context, from int64, maxBytes int, maxWait time.Duration, fn func(kafkalog.Record) error) (int64, int64, error) {
	return s.p.log.Read(ctx, srcTopic, partition, from, maxBytes, maxWait, fn)
}

func (s source) Bounds(ctx context.Context) (int64, int64, error) {
	return s.p.log.Bounds(ctx, srcTopic, partition)
}

func (s source) Append(ctx context.Context, recs []kafkalog.Record) error {
	if _, err := s.p.log.Append(ctx, errTopic, partition, recs); err != nil {
		return err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for i := range recs {
		if f, ok := ingest.ParseFailure(&recs[i]); ok {
			s.p.stated[f.ID] = true
		}
	}
	return nil
}

// watch checks every change of the state: the position moves forward only, and
// only over what is acknowledged; and the state names the class from the first
// failure until the fault is over.
func (p *plant) watch(s ingest.Progress) {
	docs := p.es.Docs(indexName)
	p.mu.Lock()
	defer p.mu.Unlock()
	complain := func(format string, args ...any) { p.broken = append(p.broken, fmt.Sprintf(format, args...)) }
	if s.Position < p.last {
		complain("position went from %d to %d", p.last, s.Position)
	}
	for o := max(p.last, 0); o < s.Position; o++ {
		id := ingest.RecordID(srcTopic, partition, o)
		if _, ok := docs[id]; !ok && !p.stated[id] {
			complain("position %d, and offset %d is not acknowledged", s.Position, o)
		}
	}
	p.last = max(p.last, s.Position)
	if p.began.IsZero() {
		return
	}
	over := p.cell.lasts > 0 && time.Since(p.began) >= p.cell.lasts
	p.tries = max(p.tries, s.Attempts)
	named := s.Attempts > 0 && s.Class == int(p.cell.class) && s.Error != ""
	if named && p.namedAfter == 0 { // Kafka away may be met in another state first
		p.namedAfter = max(time.Since(p.began), 1)
	}
	p.named = p.named || named && s.State == p.cell.state.String()
	if line := fmt.Sprintf("%s class %d attempt %d", s.State, s.Class, s.Attempts); !over && (len(p.heard) == 0 || p.heard[len(p.heard)-1] != line) {
		p.heard = append(p.heard, line)
	}
	if p.cell.lasts > 0 && p.named && !named && !over && p.cell.retried() {
		complain("%s after the fault began the state says %+v", time.Since(p.began), s)
	}
}

// run loads until everything is done, as LoadWorkflow does: slices, and waits
// between them where a slice says so.
func (p *plant) run() contract.Ledger {
	p.t.Helper()
	var ledger contract.Ledger
	in := contract.LoadInput{Position: -1, TimeBox: 30 * time.Second, IdleWait: 2 * time.Second, Until: p.until}
	for slices := 0; in.Position < in.Until; slices++ {
		if slices > 500 {
			p.t.Fatalf("no end at position %d: %+v", in.Position, in.Retry)
		}
		r, err := p.loader().Slice(p.t.Context(), in)
		must(p.t, err)
		if in.Position >= 0 && r.Start != in.Position || r.Ledger.Offsets != max(r.Position, 0)-max(r.Start, 0) {
			p.t.Errorf("slice [%d, %d) from %d counts %+v", r.Start, r.Position, in.Position, r.Ledger)
		}
		balanced(p.t, r.Ledger)
		ledger = ledger.Add(r.Ledger)
		in.Position, in.Retry = r.Position, r.Retry
		if d := time.Until(r.Retry.NextTry); d > 0 {
			time.Sleep(d) // of the fake clock: the workflow's timer
		}
	}
	return ledger
}

func balanced(t testing.TB, l contract.Ledger) {
	t.Helper()
	if sum := l.Loaded + l.Deleted + l.Superseded + l.NoDocument + l.Errors + l.Skipped + l.Compacted + l.Lost; sum != l.Offsets {
		t.Errorf("ledger does not balance: %d of %d offsets: %+v", sum, l.Offsets, l)
	}
}

// conserved says what is wrong with what came of the records: each has to be a
// document once, or a failure once by its id, with the class that it has to have.
func (p *plant) conserved(l contract.Ledger) (wrong []string) {
	p.t.Helper()
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	docs := p.es.Docs(indexName)
	failed := p.failures()
	for o := range p.total {
		id := ingest.RecordID(srcTopic, partition, o)
		version, loaded := docs[id]
		f, stated := failed[id]
		class, fails := p.want[o]
		switch {
		case loaded == stated:
			complain("offset %d: document %t, failure %t: it has to be exactly one", o, loaded, stated)
		case loaded && (fails || version != o):
			complain("offset %d: document of version %d; to fail: %t", o, version, fails)
		case stated && (!fails || f.Class != class || f.Offset != o):
			complain("offset %d: failure %+v; to fail: %t with class %s", o, f, fails, class)
		}
		delete(docs, id)
		delete(failed, id)
	}
	if len(docs)+len(failed) > 0 {
		complain("nobody wrote %v, %v", slices.Collect(maps.Keys(docs)), slices.Collect(maps.Keys(failed)))
	}
	want := contract.Ledger{Offsets: p.total, Loaded: int64(len(p.good)), Errors: int64(len(p.want)), Bytes: l.Bytes}
	if l != want {
		complain("ledger %+v, want %+v", l, want)
	}
	return append(wrong, p.broken...)
}

// sound reports what is wrong, as far as one wants to read it.
func (p *plant) sound(l contract.Ledger) {
	p.t.Helper()
	wrong := p.conserved(l)
	for _, w := range wrong[:min(len(wrong), 8)] {
		p.t.Error(w)
	}
	if p.t.Failed() {
		p.t.Logf("heard: %v", p.heard)
	}
}

// failures reads the errors topic back, by id.
func (p *plant) failures() map[string]ingest.Failure {
	p.t.Helper()
	byID := map[string]ingest.Failure{}
	_, end, err := p.feed.Bounds(p.t.Context(), errTopic, partition)
	must(p.t, err)
	_, err = p.feed.ReadRange(p.t.Context(), errTopic, partition, 0, end, func(r kafkalog.Record) error {
		f, ok := ingest.ParseFailure(&r)
		if !ok {
			return fmt.Errorf("offset %d of the errors topic is no failure", r.Offset)
		}
		byID[f.ID] = f
		return nil
	})
	must(p.t, err)
	return byID
}

// applied lets the server do what was asked, and says nothing about it.
func applied(p *plant, _ http.ResponseWriter, r *http.Request) {
	again := r.Clone(r.Context())
	again.Header.Set("Applied", "yes")
	p.es.ServeHTTP(httptest.NewRecorder(), again)
	panic(http.ErrAbortHandler) // hangs up
}

// says answers a request in place of the server.
func says(status int, contentType, body string) func(*plant, http.ResponseWriter, *http.Request) {
	return func(_ *plant, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may be gone
	}
}

func refusal(status int, kind string) func(*plant, http.ResponseWriter, *http.Request) {
	body, err := json.Marshal(map[string]any{"status": status, "error": map[string]string{"type": kind, "reason": "by the test"}})
	if err != nil {
		panic(err)
	}
	return says(status, "application/json", string(body))
}
