// Package load runs loads of topics by the real programs on the embedded stack:
// `starter load` to its end, steered, with topics that come and go, with a sink
// that is away, and with a configuration as Qanal had them. What was loaded is
// counted in the sink itself.
package load

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"trawl/dev/e2e/harness"
	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink/sqlite"
)

const (
	startTimeout = time.Minute
	loadTimeout  = 2 * time.Minute
	pollEvery    = 50 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// line is a stack with a worker, and a Kafka.
type line struct {
	t      *testing.T
	dev    *harness.Dev
	data   string
	extra  []string // environment
	worker *harness.Process
	log    *kafkalog.Log
	client client.Client
}

func newLine(t *testing.T, extra ...string) *line {
	t.Helper()
	dev := harness.StartDev(t, t.TempDir())
	return newLineOn(t, dev, dev.Kafka, extra...)
}

// newLineOn takes the Kafka at brokers instead of the stack's.
func newLineOn(t *testing.T, dev *harness.Dev, brokers string, extra ...string) *line {
	t.Helper()
	l := &line{t: t, data: t.TempDir(), dev: dev, extra: append(extra, "TRAWL_KAFKA_BROKERS="+brokers)}
	var err error
	if l.log, err = kafkalog.Open(kafkalog.Config{Brokers: strings.Split(brokers, ","), ClientID: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.log.Close)
	if l.client, err = client.Dial(client.Options{HostPort: l.dev.Temporal, Namespace: l.dev.Namespace, Logger: silence{}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.client.Close)
	l.startWorker()
	return l
}

// silence is the log of this test's own client.
type silence struct{}

func (silence) Debug(string, ...any) {}
func (silence) Info(string, ...any)  {}
func (silence) Warn(string, ...any)  {}
func (silence) Error(string, ...any) {}

func (l *line) env() []string {
	return append(append(l.dev.Env(l.data), "TRAWL_HTTP_ADDR=127.0.0.1:0", "NO_COLOR=1"), l.extra...)
}

func (l *line) startWorker() {
	l.t.Helper()
	l.worker = harness.StartProcess(l.t, "worker", harness.WorkerBinary(l.t), l.env())
	l.worker.WaitStderr(`"msg":"working"`, startTimeout)
}

// starter runs a command to its end and checks its exit code.
func (l *line) starter(want int, args ...string) harness.Result {
	l.t.Helper()
	r := harness.RunProcess(l.t, "starter "+args[0], harness.StarterBinary(l.t), l.env(), loadTimeout, args...)
	if r.Code != want {
		l.t.Fatalf("starter %v: want exit code %d: %v", args, want, r)
	}
	return r
}

// spec writes a load spec and gives its file.
func (l *line) spec(text string) string {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "load.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return file
}

// topic makes a topic.
func (l *line) topic(name string, partitions int) {
	l.t.Helper()
	if err := l.log.EnsureTopics(l.ctx(), []kafkalog.TopicSpec{{Name: name, Partitions: partitions}}); err != nil {
		l.t.Fatal(err)
	}
}

// ctx of one step; cleaning up is one, too.
func (l *line) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), time.Minute)
	l.t.Cleanup(cancel)
	return ctx
}

// put appends values to a partition.
func (l *line) put(topic string, partition int, values ...string) {
	l.t.Helper()
	recs := make([]kafkalog.Record, len(values))
	for i, v := range values {
		recs[i] = kafkalog.Record{Key: []byte(strconv.Itoa(i)), Value: []byte(v)}
	}
	if _, err := l.log.Append(l.ctx(), topic, partition, recs); err != nil {
		l.t.Fatal(err)
	}
}

// orders are n JSON objects.
func orders(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf(`{"order":{"id":"o-%d"},"price":"%d.5","secret":"x"}`, i, i)
	}
	return values
}

func summary(t *testing.T, r harness.Result) contract.LoadsSummary {
	t.Helper()
	var s contract.LoadsSummary
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatalf("summary: %v in %v", err, r)
	}
	if n := s.Ledger.Missing(); n != 0 {
		t.Errorf("the ledger does not balance by %d: %+v", n, s.Ledger)
	}
	return s
}

func (l *line) count(index string) int64 {
	l.t.Helper()
	n, err := sqlite.New(l.data).Count(l.ctx(), index)
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// until waits for a condition of the status.
func (l *line) until(name, what string, met func(contract.LoadsStatus) bool) contract.LoadsStatus {
	l.t.Helper()
	var st contract.LoadsStatus
	for over := time.Now().Add(loadTimeout); ; time.Sleep(pollEvery) {
		v, err := l.client.QueryWorkflow(l.ctx(), "load/"+name, "", "status")
		if err == nil {
			st = contract.LoadsStatus{}
			if err = v.Get(&st); err == nil && met(st) {
				return st
			}
		}
		if time.Now().After(over) {
			l.t.Fatalf("load %s: no %s: %v, %+v", name, what, err, st)
		}
	}
}

// TestJSONTopicToSQLite is the thin line: a topic of JSON objects, until its end.
func TestJSONTopicToSQLite(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.topic("orders", 2)
	l.put("orders", 0, orders(100)...)
	l.put("orders", 1, append(orders(50), `no json`)...)
	file := l.spec("name: shop\nsources: [{topic: orders, until: end}]\n")
	l.starter(0, "load", "validate", "-f", file)
	s := summary(t, l.starter(3, "load", "--json", "-f", file))
	if s.Outcome != contract.OutcomeCompleted || s.Ledger.Offsets != 151 || s.Ledger.Loaded != 150 || s.Ledger.Errors != 1 {
		t.Errorf("%+v", s)
	}
	if n := l.count("shop"); n != 150 {
		t.Errorf("%d documents", n)
	}
	// The same name again: it goes on from its positions.
	l.put("orders", 0, orders(7)...)
	s = summary(t, l.starter(3, "load", "--json", "--name", "shop"))
	if s.Ledger.Offsets != 158 || s.Ledger.Loaded != 157 {
		t.Errorf("again: %+v", s.Ledger)
	}
	if n := l.count("shop"); n != 157 {
		t.Errorf("%d documents", n)
	}
	if r := l.starter(0, "list"); len(r.Stdout) == 0 {
		t.Error("the load is in no list")
	}
	l.starter(0, "status", "shop")
}

// TestOrdersOfPeople: pause, rate, skip, to-errors and cancel of a load under
// way; the ledger balances, and verify finds everything.
func TestOrdersOfPeople(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.topic("orders", 1)
	l.put("orders", 0, orders(100)...)
	l.starter(0, "load", "--wait=false", "-f", l.spec("name: shop\nsources: [{topic: orders, id: order.id}]\n"))
	at := func(n int64) func(contract.LoadsStatus) bool {
		return func(s contract.LoadsStatus) bool { return len(s.Partitions) == 1 && s.Partitions[0].Position >= n }
	}
	l.until("shop", "100 offsets", at(100))
	l.starter(0, "load", "pause", "shop")
	l.until("shop", "pause", func(s contract.LoadsStatus) bool { return s.Paused && s.Partitions[0].State == "paused" })
	where := []string{"--topic", "orders", "--partition", "0", "--reason", "a test"}
	l.starter(0, append([]string{"load", "skip", "shop", "--offset", "103", "--through", "104"}, where...)...)
	l.starter(0, append([]string{"load", "to-errors", "shop", "--offset", "106"}, where...)...)
	r := l.starter(2, append([]string{"load", "skip", "shop", "--offset", "7"}, where...)...)
	if want := "offset 7 is done"; !strings.Contains(r.Stderr, want) {
		t.Errorf("no %q in %v", want, r)
	}
	l.starter(2, "load", "skip", "shop", "--offset", "500", "--topic", "other", "--partition", "0", "--reason", "r")
	l.put("orders", 0, orders(10)...)
	l.starter(0, "load", "set-batch", "shop", "--count", "3")
	l.starter(0, "load", "set-rate", "shop", "--rate", "1000")
	l.starter(0, "load", "resume", "shop")
	s := l.until("shop", "110 offsets", at(110))
	if g := s.Ledger; g.Skipped != 2 || g.Errors != 1 || g.Missing() != 0 || s.RateLimit != 1000 || s.Batching.Count != 3 {
		t.Errorf("%+v", s)
	}
	l.starter(0, "verify", "shop")
	l.starter(0, append([]string{"load", "seek", "shop", "--offset", "50"}, where...)...)
	s = l.until("shop", "another range", func(s contract.LoadsStatus) bool {
		p := s.Partitions[0]
		return p.Start == 50 && p.Position == 110
	})
	l.starter(0, "cancel", "load/shop", "--wait")
	l.starter(0, "verify", "shop")
	// Another run knows the orders of this one only by the errors topic.
	l.put("orders", 0, orders(10)...)
	l.starter(0, "load", "--wait=false", "--name", "shop")
	l.until("shop", "120 offsets", at(120))
	l.starter(0, "cancel", "load/shop", "--wait")
	l.starter(0, "verify", "shop")
	if r := l.starter(0, "errors", "list", "shop", "--skipped", "--json"); strings.Count(r.Stdout, `"reason":"a test"`) != 2 || strings.Count(r.Stdout, "orders-0-10") != 2 {
		t.Errorf("skipped: %v", r)
	}
	if r := l.starter(0, "errors", "list", "shop", "--json"); strings.Count(r.Stdout, `"id"`) != 1 || !strings.Contains(r.Stdout, "orders-0-106") {
		t.Errorf("open: %v", r)
	}
	if n := l.count("shop"); n != 100 {
		t.Errorf("%d documents", n)
	}
}

// TestTopicsComeAndGo: a topic that is not there yet, one that gets partitions,
// one that vanishes and comes back.
func TestTopicsComeAndGo(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.starter(0, "load", "--wait=false", "-f", l.spec("name: shop\nsources: [{topic: orders}]\n"))
	l.until("shop", "missing topic", func(s contract.LoadsStatus) bool {
		return len(s.Trouble) > 0 && strings.Contains(s.Trouble[0], "topic orders is not there")
	})
	l.topic("orders", 1)
	l.put("orders", 0, orders(20)...)
	loaded := func(n int64) func(contract.LoadsStatus) bool {
		return func(s contract.LoadsStatus) bool { return s.Ledger.Loaded >= n }
	}
	l.until("shop", "20 documents", loaded(20))
	if err := l.log.DeleteTopics(l.ctx(), "orders"); err != nil {
		t.Fatal(err)
	}
	l.until("shop", "class 2", func(s contract.LoadsStatus) bool {
		y := s.Partitions[0].Retry
		return y.Attempts > 0 && y.Class == 2
	})
	l.topic("orders", 3)
	l.put("orders", 0, orders(5)...)
	l.put("orders", 2, orders(7)...)
	s := l.until("shop", "32 documents", loaded(32))
	if len(s.Partitions) != 3 || s.Ledger.Missing() != 0 {
		t.Errorf("%+v", s)
	}
	l.starter(0, "cancel", "load/shop", "--wait")
}

// TestDonePartitionsAreTakenBackAndLoadsAreDeleted: an empty partition has an
// end, one that is done is read again by a seek, and after a delete the load begins
// anew.
func TestDonePartitionsAreTakenBackAndLoadsAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.topic("orders", 2)
	l.topic("live", 1)
	l.put("orders", 0, orders(20)...)
	file := l.spec("name: shop\nsources: [{topic: orders, until: end, id: order.id}, {topic: live}]\n")
	l.starter(0, "load", "--wait=false", "-f", file)
	done := func(start int64) func(contract.LoadsStatus) bool {
		return func(s contract.LoadsStatus) bool {
			return len(s.Partitions) == 3 && s.Partitions[0].Closed && s.Partitions[1].Closed && s.Partitions[0].Start == start
		}
	}
	l.until("shop", "both ends", done(0))
	if r := l.starter(0, "status", "load/shop"); !strings.Contains(r.Stdout, "orders[0]: done at 20 of 20") || !strings.Contains(r.Stdout, "orders[1]: done at 0 of 0") {
		t.Error(r)
	}
	at := []string{"--topic", "orders", "--partition", "0", "--reason", "a test"}
	if r := l.starter(2, append([]string{"load", "skip", "shop", "--offset", "20"}, at...)...); !strings.Contains(r.Stderr, "starter load seek") {
		t.Error(r)
	}
	l.starter(0, append([]string{"load", "seek", "shop", "--offset", "5"}, at...)...)
	s := l.until("shop", "the end of another range", done(5))
	if p := s.Partitions[0]; p.Position != 20 || p.Ledger.Sub(p.Before).Offsets != 15 || p.Ledger.Offsets != 35 {
		t.Errorf("%+v", p)
	}
	l.starter(0, "verify", "shop")
	l.starter(5, "delete", "load/shop", "--yes")
	l.starter(0, "cancel", "load/shop", "--wait")
	l.starter(0, append([]string{"load", "seek", "shop", "--offset", "12"}, at...)...)
	l.starter(0, "load", "--wait=false", "--name", "shop")
	s = l.until("shop", "the end of a third range", done(12))
	if p := s.Partitions[0]; p.Ledger.Sub(p.Before).Offsets != 8 || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "moved from offset 20 to 12") {
		t.Errorf("%+v", p)
	}
	l.starter(0, "cancel", "load/shop", "--wait")
	l.starter(0, "verify", "shop")
	l.starter(0, "delete", "load/shop", "--yes")
	l.starter(8, "delete", "load/shop", "--yes")
	l.starter(8, "errors", "list", "shop")
	l.starter(0, "load", "--wait=false", "--name", "shop")
	s = l.until("shop", "both ends once more", done(0))
	if n := s.Ledger; n.Offsets != 20 || n.Loaded != 20 || l.count("shop") != 20 {
		t.Errorf("%+v, %d documents", n, l.count("shop"))
	}
	l.starter(0, "cancel", "load/shop", "--wait")
}
