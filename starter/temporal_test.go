package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"trawl/internal/contract"
	"trawl/workflows"
)

// fakeClient answers with what a test put into it; other calls panic.
type fakeClient struct {
	client.Client
	err      error
	describe *workflowservice.DescribeWorkflowExecutionResponse
	pages    []*workflowservice.ListWorkflowExecutionsResponse
	pollers  []*taskqueue.PollerInfo
	started  client.StartWorkflowOptions
	result   func(any) error
	answer   any      // of queries; nil: a crawl that is crawling
	asked    []string // queues
}

func (c *fakeClient) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return c.describe, c.err
}

func (c *fakeClient) CancelWorkflow(context.Context, string, string) error { return c.err }

func (c *fakeClient) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.answer == nil {
		c.answer = contract.CrawlStatus{Phase: "crawling"}
	}
	p, err := converter.GetDefaultDataConverter().ToPayloads(c.answer)
	return client.NewValue(p), err
}

func (c *fakeClient) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, c.err
}

func (c *fakeClient) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	c.started = o
	return fakeRun{c}, c.err
}

func (c *fakeClient) GetWorkflow(context.Context, string, string) client.WorkflowRun {
	return fakeRun{c}
}

func (c *fakeClient) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if c.err != nil {
		return nil, c.err
	}
	p := c.pages[0]
	c.pages = c.pages[1:]
	return p, nil
}

func (c *fakeClient) DescribeTaskQueue(_ context.Context, queue string, kind enums.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	c.asked = append(c.asked, queue+" "+kind.String())
	return &workflowservice.DescribeTaskQueueResponse{Pollers: c.pollers}, c.err
}

type fakeRun struct{ c *fakeClient }

func (r fakeRun) GetID() string    { return "id" }
func (r fakeRun) GetRunID() string { return "run" }

func (r fakeRun) GetFirstExecutionRunID() string { return "run" }

func (r fakeRun) Get(_ context.Context, v any) error {
	if r.c.result != nil {
		return r.c.result(v)
	}
	return r.c.err
}

func (r fakeRun) GetWithOptions(ctx context.Context, v any, _ client.WorkflowRunGetOptions) error {
	return r.Get(ctx, v)
}

func server(c *fakeClient) *temporalClient {
	return &temporalClient{c: c, address: "h:1", space: "default"}
}

func info(id string, state enums.WorkflowExecutionStatus, started time.Time) *workflow.WorkflowExecutionInfo {
	return &workflow.WorkflowExecutionInfo{
		Execution: &common.WorkflowExecution{WorkflowId: id, RunId: "r-" + id}, Status: state, StartTime: timestamppb.New(started), CloseTime: timestamppb.New(started),
	}
}

// TestErrorsOfTemporal: every call turns what the server says into an exit code
// and a next step.
func TestErrorsOfTemporal(t *testing.T) {
	ctx := context.Background()
	calls := map[string]func(*temporalClient) error{
		"describe": func(s *temporalClient) error { _, err := s.Describe(ctx, "x"); return err },
		"start":    func(s *temporalClient) error { _, err := s.Start(ctx, "x", contract.CrawlInput{}); return err },
		"status":   func(s *temporalClient) error { _, err := s.Status(ctx, "x"); return err },
		"update":   func(s *temporalClient) error { return s.Update(ctx, "x", "pause", nil) },
		"cancel":   func(s *temporalClient) error { return s.Cancel(ctx, "x") },
		"list":     func(s *temporalClient) error { _, err := s.List(ctx, 10); return err },
		"worker":   func(s *temporalClient) error { _, err := s.Worker(ctx); return err },
	}
	for _, tt := range []struct {
		err   error
		calls string
		code  int
		want  string
	}{
		{serviceerror.NewUnavailable("down"), "describe start status update cancel list worker", exitUnreachable, `start one with "make up", or set TEMPORAL_ADDRESS`},
		{serviceerror.NewNamespaceNotFound("default"), "describe start status update cancel list worker", exitUnreachable, "set TEMPORAL_NAMESPACE"},
		{serviceerror.NewPermissionDenied("no", ""), "describe start list worker", exitUnreachable, "TEMPORAL_API_KEY"},
		{serviceerror.NewDeadlineExceeded("slow"), "status update", exitNoWorker, "start one with bin/worker"},
		{context.DeadlineExceeded, "status update", exitNoWorker, "start one with bin/worker"},
		{serviceerror.NewNotFound("none"), "status update cancel", exitNotFound, "is not running"},
		{temporal.NewApplicationError("the activity failed", "x"), "update", exitFailed, "crawl x: the activity failed"},
		{temporal.NewApplicationError("the crawl is ending", workflows.ErrTypeEnding), "update", exitNotFound, "crawl x: the crawl is ending"},
		{temporal.NewApplicationError("delay 7", workflows.ErrTypeRefused), "update", exitUsage, "crawl x: delay 7"},
		{errors.New("odd"), "describe start status update cancel list worker", exitFailed, "Temporal at h:1: odd"},
	} {
		for _, name := range strings.Fields(tt.calls) {
			err := calls[name](server(&fakeClient{err: tt.err}))
			if exitCode(err, true) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, %v: %v", name, tt.err, err)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	s := server(&fakeClient{err: serviceerror.NewNotFound("none")})
	if e, err := s.Describe(context.Background(), "x"); err != nil || e.State != stateNone {
		t.Errorf("%+v %v", e, err)
	}
	for state, want := range map[enums.WorkflowExecutionStatus]string{
		enums.WORKFLOW_EXECUTION_STATUS_RUNNING: stateRunning, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED: stateCompleted,
		enums.WORKFLOW_EXECUTION_STATUS_CANCELED: stateCancelled, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED: stateTerminated,
		enums.WORKFLOW_EXECUTION_STATUS_FAILED: stateFailed, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT: stateTimedOut,
	} {
		s := server(&fakeClient{describe: &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info("crawl/x", state, epoch)}})
		if e, err := s.Describe(context.Background(), "x"); err != nil || e.State != want || !e.Started.Equal(epoch) || e.RunID != "r-crawl/x" {
			t.Errorf("%+v %v", e, err)
		}
	}
}

func TestStart(t *testing.T) {
	c := &fakeClient{}
	if run, err := server(c).Start(context.Background(), "x", contract.CrawlInput{}); err != nil || run != "run" {
		t.Error(run, err)
	}
	if c.started.ID != "crawl/x" || c.started.TaskQueue != workflows.QueueMain || !c.started.WorkflowExecutionErrorWhenAlreadyStarted {
		t.Errorf("%+v", c.started)
	}
	c.err = serviceerror.NewWorkflowExecutionAlreadyStarted("is there", "", "")
	if _, err := server(c).Start(context.Background(), "x", contract.CrawlInput{}); !errors.Is(err, errRunning) {
		t.Error(err)
	}
}

func TestWait(t *testing.T) {
	sum := contract.Summary{Outcome: "cancelled"}
	for _, tt := range []struct {
		err   error
		state string
		has   bool
	}{
		{nil, stateCompleted, true},
		{temporal.NewCanceledError(sum), stateCancelled, true},
		{temporal.NewCanceledError(), stateCancelled, false},
		{&temporal.TerminatedError{}, stateTerminated, false},
		{temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil), stateTimedOut, false},
	} {
		c := &fakeClient{result: func(any) error { return tt.err }}
		state, got, err := server(c).Wait(context.Background(), "x", "r")
		if err != nil || state != tt.state || (got != nil) != tt.has {
			t.Errorf("%v: %s %v %v", tt.err, state, got, err)
		}
	}
}

func TestListKeepsTheLatestOfEachName(t *testing.T) {
	running, done := enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	c := &fakeClient{pages: []*workflowservice.ListWorkflowExecutionsResponse{
		{NextPageToken: []byte("x"), Executions: []*workflow.WorkflowExecutionInfo{
			info("crawl/a", done, epoch), info("crawl/a/shard/1", running, epoch), info("other", running, epoch),
		}},
		{Executions: []*workflow.WorkflowExecutionInfo{info("crawl/a", running, epoch.Add(time.Hour)), info("crawl/a", done, epoch.Add(time.Minute)), info("crawl/b", done, epoch)}},
	}}
	list, err := server(c).List(context.Background(), 10)
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[0].State != stateRunning || list[1].Name != "b" {
		t.Errorf("%+v %v", list, err)
	}
}

// TestWorker: pollers are remembered for minutes after they died.
func TestWorker(t *testing.T) {
	for _, tt := range []struct {
		pollers []*taskqueue.PollerInfo
		want    bool
	}{
		{nil, false},
		{[]*taskqueue.PollerInfo{{LastAccessTime: timestamppb.New(time.Now().Add(-4 * time.Minute))}}, false},
		{[]*taskqueue.PollerInfo{{LastAccessTime: timestamppb.New(time.Now().Add(-time.Minute))}}, true},
	} {
		if got, err := server(&fakeClient{pollers: tt.pollers}).Worker(context.Background()); err != nil || got != tt.want {
			t.Errorf("%v %v", got, err)
		}
	}
}

func TestStatusQuery(t *testing.T) {
	if st, err := server(&fakeClient{}).Status(context.Background(), "x"); err != nil || st.Phase != "crawling" {
		t.Errorf("%+v %v", st, err)
	}
}

// TestStatusSaysThatNobodyHasTheDataDirectory: Load and Finalize wait on its queue
// without a word.
func TestStatusSaysThatNobodyHasTheDataDirectory(t *testing.T) {
	ctx := context.Background()
	crawl := func(c *fakeClient, phase, queue string) []string {
		c.answer = contract.CrawlStatus{Phase: phase, LoadQueue: queue}
		st, err := server(c).Status(ctx, "x")
		if err != nil {
			t.Error(err)
		}
		return st.Trouble
	}
	load := func(c *fakeClient, phase, queue string) []string {
		c.answer = contract.LoadsStatus{Phase: phase, Queue: queue}
		st, err := server(c).LoadStatus(ctx, "load/x")
		if err != nil {
			t.Error(err)
		}
		return st.Trouble
	}
	there := []*taskqueue.PollerInfo{{LastAccessTime: timestamppb.Now()}}
	data := workflows.DataQueue("d1")
	for name, tt := range map[string]struct {
		ask          func(c *fakeClient, phase, queue string) []string
		phase, queue string
		pollers      []*taskqueue.PollerInfo
		trouble      bool
	}{
		"finalizing":       {crawl, workflows.PhaseFinalize, data, nil, true},
		"crawling":         {crawl, workflows.PhaseCrawl, data, nil, true},
		"done":             {crawl, workflows.PhaseDone, data, nil, false},
		"a worker is back": {crawl, workflows.PhaseFinalize, data, there, false},
		"a shared sink":    {crawl, workflows.PhaseFinalize, workflows.QueueMain, nil, false},
		"not seeded":       {crawl, workflows.PhaseSeed, "", nil, false},
		"a load":           {load, workflows.LoadsRunning, data, nil, true},
		"a load, polled":   {load, workflows.LoadsRunning, data, there, false},
		"a load, done":     {load, workflows.LoadsDone, data, nil, false},
	} {
		c := &fakeClient{pollers: tt.pollers}
		got := strings.Join(tt.ask(c, tt.phase, tt.queue), "; ")
		if tt.trouble != strings.Contains(got, "no worker is polling queue "+data+": start one with the TRAWL_DATA_DIR that holds the index; its file id says d1") {
			t.Errorf("%s: %q", name, got)
		}
		if asked := strings.Join(c.asked, ","); asked != "" && asked != data+" Activity" || tt.trouble && asked == "" {
			t.Errorf("%s: asked for %s", name, asked)
		}
	}
}
