// Package errors runs redrives by the real programs on the embedded stack: a
// load leaves failures, their cause is removed, and a redrive loads them, with
// the worker killed in the middle. What became of them is counted in the sink
// and in the errors topic itself.
package errors

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trawl/dev/e2e/harness"
	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/redrive"
	"trawl/internal/sink/sqlite"
)

const (
	startTimeout = time.Minute
	loadTimeout  = 2 * time.Minute
	errorsTopic  = "trawl.load.shop.errors"
	records      = 200
	poison       = 50
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// line is a stack with a worker and a topic of orders, some of them poison.
type line struct {
	t      *testing.T
	dev    *harness.Dev
	data   string
	worker *harness.Process
	log    *kafkalog.Log
}

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{t: t, data: t.TempDir(), dev: harness.StartDev(t, t.TempDir())}
	var err error
	if l.log, err = kafkalog.Open(kafkalog.Config{Brokers: []string{l.dev.Kafka}, ClientID: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.log.Close)
	l.startWorker()
	if err := l.log.EnsureTopics(l.ctx(), []kafkalog.TopicSpec{{Name: "orders", Partitions: 1}}); err != nil {
		t.Fatal(err)
	}
	recs := make([]kafkalog.Record, records)
	for i := range recs {
		recs[i].Value = fmt.Appendf(nil, `{"id":"o-%d","amount":%d}`, i, i)
		if i%(records/poison) == 0 {
			recs[i].Value = fmt.Appendf(nil, `{"id":"o-%d","amount":"%d"}`, i, i)
		}
	}
	if _, err := l.log.Append(l.ctx(), "orders", 0, recs); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *line) env() []string {
	return append(l.dev.Env(l.data), "TRAWL_HTTP_ADDR=127.0.0.1:0", "NO_COLOR=1")
}

func (l *line) startWorker() {
	l.t.Helper()
	l.worker = harness.StartProcess(l.t, "worker", harness.WorkerBinary(l.t), l.env())
	l.worker.WaitStderr(`"msg":"working"`, startTimeout)
}

func (l *line) ctx() context.Context {
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	l.t.Cleanup(cancel)
	return ctx
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

// spec writes the load with an expression and gives its file.
func (l *line) spec(expression string) string {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "load.yaml")
	text := "name: shop\nsources:\n- topic: orders\n  until: end\n  id: id\n  fields: [{expr: {field: twice, expression: '" + expression + "'}}]\nsink: {kind: sqlite}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return file
}

// counts are the ids of the errors topic, and the documents of the index.
func (l *line) counts() (redrive.Count, int64) {
	l.t.Helper()
	topics, err := l.log.Topics(l.ctx(), errorsTopic)
	if err != nil {
		l.t.Fatal(err)
	}
	all, err := redrive.CountIDs(l.ctx(), l.log, errorsTopic, topics[errorsTopic])
	if err != nil {
		l.t.Fatal(err)
	}
	documents, err := sqlite.New(l.data).Count(l.ctx(), "shop")
	if err != nil {
		l.t.Fatal(err)
	}
	return all[redrive.SourcePartition{Topic: "orders"}], documents
}

func (l *line) want(open, redriven, discarded, documents int64) {
	l.t.Helper()
	want := redrive.Count{Open: open, Redriven: redriven, Discarded: discarded}
	if c, n := l.counts(); c != want || n != documents {
		l.t.Errorf("%+v and %d documents, want %+v and %d", c, n, want, documents)
	}
}

func status(t *testing.T, r harness.Result) contract.RedriveStatus {
	t.Helper()
	var st contract.RedriveStatus
	if err := json.Unmarshal([]byte(r.Stdout), &st); err != nil {
		t.Fatalf("summary: %v in %v", err, r)
	}
	return st
}

// TestPoisonIsRedrivenOnceItsCauseIsGone: nothing is lost, nothing is there
// twice, though the worker is killed in the middle of the redrive.
func TestPoisonIsRedrivenOnceItsCauseIsGone(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	bad, good := l.spec("amount * 2"), l.spec("int(amount) * 2")
	l.starter(3, "load", "--json", "-f", bad)
	l.want(poison, 0, 0, records-poison)
	if n := strings.Count(l.starter(0, "errors", "shop", "--json").Stdout, "\n"); n != poison {
		t.Errorf("%d failures listed", n)
	}

	// The cause is still there.
	st := status(t, l.starter(3, "errors", "redrive", "shop", "--all", "--json"))
	if want := (contract.RedriveCounts{Taken: poison, Failed: poison}); st.Counts != want || st.State != contract.RedriveCompleted {
		t.Errorf("%+v, want %+v", st, want)
	}
	l.want(poison, 0, 0, records-poison)

	// One is not wanted at all.
	l.starter(0, "errors", "discard", "shop", "--id", "orders-0-0", "--reason", "a test")
	l.want(poison-1, 0, 1, records-poison)

	// The cause is gone. The worker dies in the middle; one redrive at a time.
	l.starter(0, "errors", "redrive", "shop", "--all", "-f", good, "--rate", "20/s", "--detach")
	l.starter(5, "errors", "redrive", "shop", "--all", "-f", good)
	for over := time.Now().Add(loadTimeout); ; {
		if c, _ := l.counts(); c.Redriven > 0 {
			break
		}
		if time.Now().After(over) {
			t.Fatal("nothing is redriven")
		}
	}
	l.worker.Kill()
	l.startWorker()
	l.starter(0, "errors", "pause", "shop")
	l.starter(0, "errors", "resume", "shop")
	st = status(t, l.starter(0, "errors", "watch", "shop", "--json"))
	if want := (contract.RedriveCounts{Taken: poison - 1, Loaded: poison - 1}); st.Counts != want || st.Left != 0 {
		t.Errorf("%+v, want %+v", st, want)
	}
	l.want(0, poison-1, 1, records-1)

	// Nothing is left: another redrive takes nothing.
	st = status(t, l.starter(0, "errors", "redrive", "shop", "--all", "-f", good, "--json"))
	if st.Counts != (contract.RedriveCounts{}) {
		t.Errorf("%+v", st)
	}
	l.want(0, poison-1, 1, records-1)
}

// TestRedriveIsCancelledAndGoesOn: what was done stays done.
func TestRedriveIsCancelledAndGoesOn(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.starter(3, "load", "--json", "-f", l.spec("amount * 2"))
	good := l.spec("int(amount) * 2")
	l.starter(0, "errors", "redrive", "shop", "--class", "transformation", "-f", good, "--rate", "2/s", "--detach")
	for over := time.Now().Add(loadTimeout); ; {
		if c, _ := l.counts(); c.Redriven > 0 {
			break
		}
		if time.Now().After(over) {
			t.Fatal("nothing is redriven")
		}
	}
	l.starter(0, "errors", "cancel", "shop")
	st := status(t, l.starter(6, "errors", "watch", "shop", "--json"))
	if st.State != contract.RedriveCancelled || st.Counts.Loaded == 0 || st.Counts.Loaded == poison {
		t.Errorf("%+v", st)
	}
	l.starter(0, "errors", "redrive", "shop", "--class", "transformation", "-f", good)
	l.want(0, poison, 0, records)
}
