package loader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.temporal.io/sdk/client"

	"trawl/dev/e2e/harness"
	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
	"trawl/internal/sink/elastic/estest"
	"trawl/workflows"
)

const (
	sourceTopic = "events"
	loadName    = "kill"
	indexName   = "docs"
	records     = 120
	badEvery    = 10
	poisonAt    = 89
	maxContent  = 64 << 10 // of a bulk

	startTimeout = time.Minute
	doneTimeout  = 4 * time.Minute // with the heartbeat's time-out and the back-off in it
	pollEvery    = 50 * time.Millisecond
)

// plant is an installation whose broker and search server misbehave once, and
// whose worker dies of it.
type plant struct {
	t      *testing.T
	pair   pair
	fault  fault
	dev    *harness.Dev
	kafka  *kfake.Cluster
	es     *estest.Server
	feed   *kafkalog.Log // of the test
	client client.Client
	data   string

	kafkaGate, sinkGate *gate

	mu     sync.Mutex
	armed  bool
	hits   int
	worker *harness.Process
	killed chan struct{} // closed once the worker is dead
	good   map[int64]bool
	bad    map[int64]ingest.Class
}

func newPlant(t *testing.T, p pair, f fault) *plant {
	t.Helper()
	if f.fate == 0 {
		f.fate = p.class
	}
	l := &plant{
		t: t, pair: p, fault: f, data: t.TempDir(), kafkaGate: newGate(t), sinkGate: newGate(t),
		killed: make(chan struct{}), good: map[int64]bool{}, bad: map[int64]ingest.Class{},
	}
	_, port, err := net.SplitHostPort(l.kafkaGate.address)
	must(t, err)
	n, err := strconv.Atoi(port)
	must(t, err)
	l.kafka, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(n), kfake.ListenFn(func(string, string) (net.Listener, error) {
		return l.kafkaGate, nil
	}))
	must(t, err)
	t.Cleanup(l.kafka.Close)
	l.es = estest.New()
	t.Cleanup(l.es.Close)
	l.es.Set(func(s *estest.Server) { s.MaxContent = maxContent })
	server := &http.Server{Handler: http.HandlerFunc(l.search), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l.sinkGate) }() // it ends with the gate
	t.Cleanup(func() { _ = server.Close() })
	l.feed, err = kafkalog.Open(kafkalog.Config{Brokers: []string{l.kafkaGate.address}, ClientID: "test", MaxBatchBytes: 128 << 20})
	must(t, err)
	t.Cleanup(l.feed.Close)
	must(t, l.feed.EnsureTopics(t.Context(), []kafkalog.TopicSpec{
		{Name: sourceTopic, Partitions: 2, Config: map[string]string{"max.message.bytes": strconv.Itoa(128 << 20)}},
	}))
	for _, key := range append(slices.Clone(logtest.FaultKeys), kmsg.OffsetCommit) {
		l.kafka.ControlKey(key.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			l.kafka.KeepControl()
			return l.broker(r)
		})
	}
	l.dev = harness.StartDev(t, t.TempDir())
	l.client, err = client.Dial(client.Options{HostPort: l.dev.Temporal, Namespace: l.dev.Namespace, Logger: silence{}})
	must(t, err)
	t.Cleanup(l.client.Close)
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// silence is the log of this test's own client.
type silence struct{}

func (silence) Debug(string, ...any) {}
func (silence) Info(string, ...any)  {}
func (silence) Warn(string, ...any)  {}
func (silence) Error(string, ...any) {}

func (l *plant) env() []string {
	return append(l.dev.Env(l.data),
		"TRAWL_KAFKA_BROKERS="+l.kafkaGate.address, "TRAWL_ELASTIC_URL=http://"+l.sinkGate.address,
		"TRAWL_HTTP_ADDR=127.0.0.1:0", "NO_COLOR=1")
}

func (l *plant) startWorker() {
	l.t.Helper()
	w := harness.StartProcess(l.t, "worker", harness.WorkerBinary(l.t), l.env())
	w.WaitStderr(`"msg":"working"`, startTimeout)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worker = w
}

func (l *plant) errorsTopic() string {
	return contract.LoadRun(loadName).Topic("trawl", contract.TopicErrors)
}

// meets counts a hit, if the fault is there: the first is answered badly, and at
// the second, when the worker knows, it is killed. A fault that refuses
// connections is not met again: there the state says when it is known.
func (l *plant) meets() (there bool) {
	l.mu.Lock()
	if !l.armed {
		l.mu.Unlock()
		return false
	}
	l.hits++
	n := l.hits
	l.mu.Unlock()
	if n == 1 && l.fault.shut != nil {
		l.fault.shut(l).shut()
		return true
	}
	if n == 2 {
		l.killWorker()
	}
	return true
}

// killWorker kills it at this instant, and ends the fault.
func (l *plant) killWorker() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.armed {
		return
	}
	l.armed = false
	l.worker.Kill()
	close(l.killed)
}

var errCut = errors.New("cut")

// broker is asked before the broker answers.
func (l *plant) broker(r kmsg.Request) (kmsg.Response, error, bool) {
	if q, ok := r.(*kmsg.ProduceRequest); ok && l.fault.poison != "" && q.Topics[0].Topic == l.errorsTopic() {
		return l.stating(q)
	}
	if l.fault.last != nil && l.fault.last(r) {
		l.killWorker()
		return nil, nil, false
	}
	if l.fault.kafka == nil || l.fault.poison != "" || !l.concerns(r) {
		return nil, nil, false
	}
	answer, hit := l.fault.kafka(l)(r)
	if !hit || !l.meets() {
		return nil, nil, false
	}
	if answer == nil {
		return nil, errCut, true
	}
	return answer, nil, true
}

// stating is the instant of a record that failed: the broker takes the failure,
// and the worker does not live to hear of it. In state errors a record that is
// too large is refused first.
func (l *plant) stating(q *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
	if l.fault.kafka != nil {
		if answer, hit := l.fault.kafka(l)(q); hit {
			return answer, nil, true
		}
	}
	l.killWorker()
	return nil, nil, false
}

// concerns: the test's own requests are spared, and metadata but that of the
// topic that is gone.
func (l *plant) concerns(r kmsg.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.armed {
		return false
	}
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		return r.Topics[0].Topic == l.errorsTopic()
	case *kmsg.FetchRequest:
		return r.Topics[0].Topic == sourceTopic
	case *kmsg.ListOffsetsRequest:
		return r.Topics[0].Topic == sourceTopic
	case *kmsg.MetadataRequest:
		return l.hits > 0 // the layout is asked for once the request was refused
	}
	return true
}

// search is asked before the search server.
func (l *plant) search(w http.ResponseWriter, r *http.Request) {
	bulk := strings.HasSuffix(r.URL.Path, "/_bulk")
	if l.fault.sink != nil && bulk == (l.pair.state == ingest.Load) && l.meets() {
		l.fault.sink(w, r)
		return
	}
	l.es.ServeHTTP(w, r)
}

// fill writes a half of the records: one in ten fails by its format or, in the
// second half, one as the cell says.
func (l *plant) fill(half int64) {
	l.t.Helper()
	recs := make([]kafkalog.Record, 0, records/2)
	for i := half * records / 2; i < (half+1)*records/2; i++ {
		value := fmt.Sprintf(`{"n":"%d"}`, i)
		switch {
		case l.fault.poison != "" && i == poisonAt:
			value, l.bad[i] = l.fault.poison, l.fault.fate
		case l.fault.poison == "" && i%badEvery == badEvery-1:
			value, l.bad[i] = "no JSON", ingest.InvalidFormat
		default:
			l.good[i] = true
		}
		recs = append(recs, kafkalog.Record{Key: []byte("k"), Value: []byte(value)})
	}
	if base, err := l.feed.Append(l.t.Context(), sourceTopic, 1, recs); err != nil || base != half*records/2 {
		l.t.Fatalf("append: at %d, %v", base, err)
	}
}

// arm lets the fault come.
func (l *plant) arm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = true
}

const loadSpec = `name: ` + loadName + `
sources:
  - topic: ` + sourceTopic + `
    partitions: [1]
    start: earliest
    format: json
    fields:
      - cast: {field: n, type: int}
limits: {record: 1MiB, batch_count: 20}
sink: {index: ` + indexName + `, kind: `

// start starts the load.
func (l *plant) start() {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "load.yaml")
	kind := "elastic"
	if l.fault.sqlite != nil {
		kind = "sqlite"
	}
	must(l.t, os.WriteFile(file, []byte(loadSpec+kind+"}\n"), 0o600))
	r := harness.RunProcess(l.t, "starter load", harness.StarterBinary(l.t), l.env(), startTimeout, "load", "-f", file, "--wait=false")
	if r.Code != 0 {
		l.t.Fatalf("starter load: %v", r)
	}
}

func (l *plant) until(what string, timeout time.Duration, met func() bool) {
	l.t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	over := time.After(timeout)
	for !met() {
		select {
		case <-tick.C:
		case <-over:
			l.t.Fatalf("%s: not after %s; hits %d, loader %+v", what, timeout, l.hits, l.report())
		}
	}
}

// report is what the loader's parent knows of it.
func (l *plant) report() contract.LoadReport {
	r, known := l.ask()
	if !known {
		return contract.LoadReport{Position: -1}
	}
	return r
}

// ask the loader's parent, if there is somebody to answer.
func (l *plant) ask() (r contract.LoadReport, known bool) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	answer, err := l.client.QueryWorkflow(ctx, workflows.LoadRootID(loadName), "", workflows.QryStatus)
	var s contract.LoadsStatus
	if err != nil || answer.Get(&s) != nil || len(s.Partitions) == 0 {
		return r, false
	}
	return s.Partitions[0], true
}

// named: the state of the running slice names class and state of the cell.
func (l *plant) named() bool {
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	d, err := l.client.DescribeWorkflowExecution(ctx, workflows.LoadRootLoaderID(loadName, 0), "")
	if err != nil {
		return false
	}
	for _, a := range d.GetPendingActivities() {
		for _, payload := range a.GetHeartbeatDetails().GetPayloads() {
			text := string(payload.GetData())
			if strings.Contains(text, `"state":"`+l.pair.state.String()+`"`) && strings.Contains(text, `"class":`+strconv.Itoa(int(l.pair.class))+`,`) {
				return true
			}
		}
	}
	return false
}

// docs are the ids and versions in the sink.
func (l *plant) docs() map[string]int64 {
	l.t.Helper()
	if l.fault.sqlite != nil {
		return l.rows()
	}
	return l.es.Docs(indexName)
}

// failures of the errors topic, by id, and how many records state them.
func (l *plant) failures() (byID map[string]ingest.Failure, stated int) {
	l.t.Helper()
	byID = map[string]ingest.Failure{}
	topics, err := l.feed.Topics(l.t.Context(), l.errorsTopic())
	must(l.t, err)
	for partition := range topics[l.errorsTopic()] { // none: it is not made yet
		_, end, err := l.feed.Bounds(l.t.Context(), l.errorsTopic(), partition)
		must(l.t, err)
		_, err = l.feed.ReadRange(l.t.Context(), l.errorsTopic(), partition, 0, end, func(r kafkalog.Record) error {
			if f, ok := ingest.ParseFailure(&r); ok {
				byID[f.ID] = f
				stated++
			}
			return nil
		})
		must(l.t, err)
	}
	return byID, stated
}
