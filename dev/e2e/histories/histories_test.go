// Package histories runs small crawls by real processes, and replays every
// history that they leave with the workflows of this tree. With -record it
// also writes the histories, for the replay test of each release:
//
//	make histories LABEL=v1.2.3
//
// It owns what those crawls go through: pauses, new rates and seeds, a budget, a
// cancellation, a killed worker, continue-as-new.
package histories

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"trawl/bench/web"
	"trawl/dev/e2e/harness"
	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/workflows"
)

var (
	record = flag.String("record", "", "directory to which the histories are written")
	label  = flag.String("label", "current", "what the names of the files begin with: the release")
)

const (
	startTimeout = time.Minute
	crawlTimeout = 4 * time.Minute
	pollEvery    = 100 * time.Millisecond
	maxRecorded  = 1 << 20 // bytes of a history that is worth keeping in the repository
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// stage is a stack with a worker and a web.
type stage struct {
	t      *testing.T
	dev    *harness.Dev
	data   string
	web    *web.Server
	worker *harness.Process
	client client.Client
}

func newStage(t *testing.T) *stage {
	t.Helper()
	w, err := web.New(web.Config{Seed: 7, Hosts: 4, PagesPerHost: 60, OffHost: 100})
	if err != nil {
		t.Fatal(err)
	}
	server, err := w.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	s := &stage{t: t, data: t.TempDir(), web: server, dev: harness.StartDev(t, t.TempDir())}
	s.client, err = client.Dial(client.Options{HostPort: s.dev.Temporal, Namespace: s.dev.Namespace, Logger: silence{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	s.startWorker()
	return s
}

func (s *stage) env() []string {
	return append(s.dev.Env(s.data), "TRAWL_HTTP_ADDR=127.0.0.1:0", "NO_COLOR=1")
}

func (s *stage) startWorker() {
	s.t.Helper()
	s.worker = harness.StartProcess(s.t, "worker", harness.WorkerBinary(s.t), s.env())
	s.worker.WaitStderr(`"msg":"working"`, startTimeout)
}

// crawl starts a crawl of the whole web over two shards.
func (s *stage) crawl(name string, flags ...string) {
	s.t.Helper()
	args := []string{
		"crawl", s.web.Root(), "--name", name, "--shards", "2", "--wait=false",
		"--allow-network", "127.0.0.0/8", "--contact", "https://bot.example.org/",
	}
	for i := range s.web.Config().Hosts {
		args = append(args, "--host", s.web.Host(i))
	}
	s.starter(0, append(args, flags...)...)
}

func (s *stage) starter(want int, args ...string) {
	s.t.Helper()
	if r := harness.RunProcess(s.t, "starter "+args[0], harness.StarterBinary(s.t), s.env(), startTimeout, args...); r.Code != want {
		s.t.Fatalf("starter %s: want exit code %d: %v", strings.Join(args, " "), want, r)
	}
}

func (s *stage) status(name string) contract.CrawlStatus {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var status contract.CrawlStatus
	answer, err := s.client.QueryWorkflow(ctx, workflows.CrawlID(name), "", workflows.QryStatus)
	if err == nil {
		err = answer.Get(&status)
	}
	if err != nil {
		s.t.Fatalf("status of %s: %v", name, err)
	}
	return status
}

func (s *stage) until(name, what string, done func(contract.CrawlStatus) bool) {
	s.t.Helper()
	for over := time.Now().Add(crawlTimeout); ; time.Sleep(pollEvery) {
		status := s.status(name)
		if done(status) {
			return
		}
		if time.Now().After(over) {
			s.t.Fatalf("crawl %s: no %s: %+v", name, what, status)
		}
	}
}

func (s *stage) fetched(name string, n int64) {
	s.t.Helper()
	s.until(name, strconv.FormatInt(n, 10)+" pages", func(c contract.CrawlStatus) bool { return c.Totals.Fetched >= n })
}

// ended waits for the end of the crawl and checks its outcome.
func (s *stage) ended(name, outcome string) {
	s.t.Helper()
	s.until(name, "end", func(c contract.CrawlStatus) bool { return c.Phase == workflows.PhaseDone })
	if got := s.status(name).Outcome; got != outcome {
		s.t.Errorf("crawl %s: outcome %q, want %q", name, got, outcome)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_ = s.client.GetWorkflow(ctx, workflows.CrawlID(name), "").Get(ctx, nil) // cancelled is an error
}

// ids of the workflows of a crawl, with the names of their files.
func (s *stage) ids(name string) map[string]string {
	if name == loadName {
		return map[string]string{
			workflows.LoadRootID(name): "root", workflows.LoadRootLoaderID(name, 0): "loader-0", workflows.RedriveID(name, 1): "redrive",
		}
	}
	ids := map[string]string{workflows.CrawlID(name): "crawl", workflows.LoadsID(name): "loads"}
	for i := range 2 {
		ids[workflows.ShardID(name, i)] = fmt.Sprintf("shard-%d", i)
		ids[workflows.LoadID(name, i)] = fmt.Sprintf("load-%d", i)
	}
	return ids
}

// replay replays the history of every run of a crawl's workflows.
func (s *stage) replay(name string) {
	s.t.Helper()
	for id, file := range s.ids(name) {
		runs := s.runs(id)
		for n, run := range runs {
			h := s.history(id, run)
			if err := replay(h, workflow.Execution{ID: id, RunID: run}); err != nil {
				s.t.Errorf("replay of %s, run %d of %d, %d events: %v", id, n+1, len(runs), len(h.Events), err)
			}
			s.t.Logf("%s, run %d of %d: %d events, ends %s", id, n+1, len(runs), len(h.Events), h.Events[len(h.Events)-1].EventType)
			s.write(h, fmt.Sprintf("%s-%s-%s-run%d.json", *label, name, file, n+1))
		}
	}
}

// runs of a workflow, the first one first: each names its successor.
func (s *stage) runs(id string) []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var all []*workflowpb.WorkflowExecutionInfo
	for over := time.Now().Add(startTimeout); ; time.Sleep(pollEvery) { // visibility lags behind
		r, err := s.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = %q", id)})
		if err != nil {
			s.t.Fatalf("runs of %s: %v", id, err)
		}
		all = r.Executions
		closed := len(all) > 0
		for _, e := range all {
			closed = closed && e.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		}
		if closed {
			break
		}
		if time.Now().After(over) {
			s.t.Fatalf("%s has not closed", id)
		}
	}
	runs := make([]string, len(all)) // the latest comes first
	for i, e := range all {
		runs[len(all)-1-i] = e.Execution.RunId
	}
	return runs
}

func (s *stage) history(id, run string) *historypb.History {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	h := &historypb.History{}
	events := s.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			s.t.Fatalf("history of %s: %v", id, err)
		}
		h.Events = append(h.Events, e)
	}
	return h
}

func replay(h *historypb.History, execution workflow.Execution) error {
	r := worker.NewWorkflowReplayer()
	for name, f := range map[string]any{
		workflows.CrawlType: workflows.CrawlWorkflow, workflows.ShardType: workflows.ShardWorkflow,
		workflows.LoadsType: workflows.LoadsWorkflow, workflows.LoadType: workflows.LoadWorkflow,
		workflows.RedriveType: workflows.RedriveWorkflow,
	} {
		r.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	return r.ReplayWorkflowHistoryWithOptions(silence{}, h, worker.ReplayWorkflowHistoryOptions{OriginalExecution: execution})
}

// write records a history, without the names of the machine. Of shards and of
// loaders one each is enough.
func (s *stage) write(h *historypb.History, file string) {
	s.t.Helper()
	if *record == "" || strings.Contains(file, "-1-") {
		return
	}
	scrub(h.ProtoReflect())
	text, err := protojson.Marshal(h)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(text) > maxRecorded {
		s.t.Logf("%s is not recorded: %d bytes", file, len(text))
		return
	}
	if err := os.WriteFile(filepath.Join(*record, file), text, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// scrub replaces identities and sticky queues: they hold host names.
func scrub(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() == protoreflect.StringKind && !f.IsList() && f.Name() == "identity":
			m.Set(f, protoreflect.ValueOfString("worker"))
		case f.Kind() != protoreflect.MessageKind || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				scrub(v.List().Get(i).Message())
			}
		case f.Message().FullName() == "temporal.api.taskqueue.v1.TaskQueue":
			q := v.Message()
			name, kind := q.Descriptor().Fields().ByName("name"), q.Descriptor().Fields().ByName("kind")
			if q.Get(kind).Enum() == protoreflect.EnumNumber(enumspb.TASK_QUEUE_KIND_STICKY) {
				q.Set(name, protoreflect.ValueOfString("sticky"))
			}
		default:
			scrub(v.Message())
		}
		return true
	})
}

type silence struct{}

func (silence) Debug(string, ...any) {}
func (silence) Info(string, ...any)  {}
func (silence) Warn(string, ...any)  {}
func (silence) Error(string, ...any) {}

func TestSteeredCrawlReplays(t *testing.T) {
	t.Parallel()
	const name = "steered"
	s := newStage(t)
	s.crawl(name, "--delay", "100ms")
	s.fetched(name, 20)
	s.starter(0, "pause", name)
	s.until(name, "pause of all shards", func(c contract.CrawlStatus) bool {
		paused := 0
		for _, shard := range c.Shards {
			if shard.State == contract.ShardPaused {
				paused++
			}
		}
		return paused == len(c.Shards)
	})
	s.starter(0, "resume", name)
	s.starter(0, "set-rate", name, "--delay", "50ms")
	s.starter(0, "add-seeds", name, s.web.Root()+"?added=1")
	s.ended(name, contract.OutcomeCompleted)
	s.replay(name)
}

const loadName = "loaded"

// TestLoadReplays: a load of a topic that is paused, steered and cancelled, and
// a redrive of a document that fails again.
func TestLoadReplays(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	log, err := kafkalog.Open(kafkalog.Config{Brokers: []string{s.dev.Kafka}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := log.EnsureTopics(ctx, []kafkalog.TopicSpec{{Name: "orders", Partitions: 1}}); err != nil {
		t.Fatal(err)
	}
	recs := make([]kafkalog.Record, 50)
	for i := range recs {
		recs[i].Value = []byte(`{"a":1}`)
	}
	recs[7].Value = []byte("poison")
	if _, err := log.Append(ctx, "orders", 0, recs); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "load.yaml")
	if err := os.WriteFile(file, []byte("name: "+loadName+"\nsources: [{topic: orders}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.starter(0, "load", "-f", file, "--wait=false")
	for over := time.Now().Add(crawlTimeout); ; time.Sleep(pollEvery) {
		var st contract.LoadsStatus
		v, err := s.client.QueryWorkflow(ctx, workflows.LoadRootID(loadName), "", workflows.QryStatus)
		if err == nil && v.Get(&st) == nil && st.Ledger.Loaded == 49 && st.Ledger.Errors == 1 {
			break
		}
		if time.Now().After(over) {
			t.Fatalf("not loaded: %v %+v", err, st)
		}
	}
	s.starter(3, "errors", "redrive", loadName, "--all")
	s.starter(0, "load", "pause", loadName)
	s.starter(0, "load", "skip", loadName, "--topic", "orders", "--partition", "0", "--offset", "60", "--reason", "a test")
	s.starter(0, "load", "seek", loadName, "--topic", "orders", "--partition", "0", "--offset", "10", "--reason", "a test")
	s.starter(0, "load", "resume", loadName)
	s.starter(0, "load", "set-rate", loadName, "--rate", "1000")
	s.starter(0, "load", "pause", loadName)
	s.starter(0, "load", "skip", loadName, "--topic", "orders", "--partition", "0", "--offset", "70", "--reason", "for the next run")
	s.starter(0, "cancel", "load/"+loadName, "--wait")
	_, note, _, err := log.Committed(t.Context(), contract.LoadRootGroup("trawl", loadName), "orders", 0)
	if err != nil || !strings.Contains(note, `"from":70`) {
		t.Errorf("the order of a paused loader is not kept: %s, %v", note, err)
	}
	s.replay(loadName)
}

func TestBudgetReplays(t *testing.T) {
	t.Parallel()
	const name = "budget"
	s := newStage(t)
	s.crawl(name, "--delay", "10ms", "--pages", "50")
	s.ended(name, contract.OutcomeBudget)
	s.replay(name)
}

func TestCancelledCrawlReplays(t *testing.T) {
	t.Parallel()
	const name = "cancelled"
	s := newStage(t)
	s.crawl(name, "--delay", "200ms")
	s.fetched(name, 10)
	s.starter(0, "cancel", name)
	s.ended(name, contract.OutcomeCancelled)
	s.replay(name)
}

func TestCrawlOfKilledWorkerReplays(t *testing.T) {
	t.Parallel()
	const name = "killed"
	s := newStage(t)
	s.crawl(name, "--delay", "100ms")
	s.fetched(name, 20)
	s.worker.Kill()
	s.startWorker()
	s.ended(name, contract.OutcomeCompleted)
	s.replay(name)
}

// Foreign messages are dropped, but they make the history long enough for the
// server to suggest that each workflow continues as new.
func TestContinuedCrawlReplays(t *testing.T) {
	t.Parallel()
	const name = "continued"
	s := newStage(t)
	s.crawl(name, "--delay", "100ms")
	s.fetched(name, 20)
	s.starter(0, "pause", name)
	for id, kind := range s.ids(name) {
		signal := workflows.SigReport
		if strings.HasPrefix(kind, "shard") || strings.HasPrefix(kind, "load-") {
			signal = workflows.SigControl
		}
		s.lengthen(id, signal)
	}
	s.starter(0, "resume", name)
	s.ended(name, contract.OutcomeCompleted)
	s.replay(name)
}

// lengthen the history of a workflow until it continues as new.
func (s *stage) lengthen(id, signal string) {
	s.t.Helper()
	const enough, senders, each = 4_200, 8, 25
	ctx, cancel := context.WithTimeout(context.Background(), crawlTimeout)
	defer cancel()
	foreign := map[string]contract.Parent{"parent": {ID: "another"}}
	first, length := s.current(ctx, id)
	for length < enough {
		var sent sync.WaitGroup
		for range senders {
			sent.Go(func() {
				for range each {
					if err := s.client.SignalWorkflow(ctx, id, "", signal, foreign); err != nil {
						s.t.Errorf("signal %s: %v", id, err)
						return
					}
				}
			})
		}
		sent.Wait()
		run, n := s.current(ctx, id)
		if length = n; run != first || s.t.Failed() {
			return
		}
	}
	for over := time.Now().Add(startTimeout); ; time.Sleep(pollEvery) {
		if run, _ := s.current(ctx, id); run != first {
			return
		}
		if time.Now().After(over) {
			s.t.Fatalf("%s did not continue as new after %d events", id, length)
		}
	}
}

// current is the run of a workflow that is there now, and its number of events.
func (s *stage) current(ctx context.Context, id string) (run string, length int64) {
	s.t.Helper()
	d, err := s.client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return d.WorkflowExecutionInfo.Execution.RunId, d.WorkflowExecutionInfo.HistoryLength
}
