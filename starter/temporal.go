package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"

	"trawl/internal/contract"
	"trawl/internal/settings"
	"trawl/internal/spec"
	"trawl/workflows"
)

// States of an execution, as people read them.
const (
	stateNone       = ""
	stateRunning    = "running"
	stateCompleted  = "completed"
	stateCancelled  = "cancelled"
	stateTerminated = "terminated"
	stateFailed     = "failed"
	stateTimedOut   = "timed out"
)

// execution is the latest run of a crawl as Temporal knows it.
type execution struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`
	RunID   string    `json:"run_id,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Closed  time.Time `json:"closed,omitzero"`
}

// temporalServer is what the commands ask of Temporal. Its errors are
// exitErrors where the cause is known: not reachable, no worker, no such crawl.
type temporalServer interface {
	// Describe answers the latest run; State is empty if there is none.
	Describe(ctx context.Context, name string) (execution, error)
	// Spec is what the latest run was started with.
	Spec(ctx context.Context, name string) (*spec.Spec, error)
	// Start begins a run. errRunning: another one is running already.
	Start(ctx context.Context, name string, in contract.CrawlInput) (runID string, err error)
	// Wait returns when the run has ended. State tells how; the summary is nil
	// if it left none.
	Wait(ctx context.Context, name, runID string) (state string, summary *contract.Summary, err error)
	Status(ctx context.Context, name string) (contract.CrawlStatus, error)
	// Update sends an update and waits for its end. arg may be nil.
	Update(ctx context.Context, name, update string, arg any) error
	Cancel(ctx context.Context, name string) error
	// List answers at most limit crawls, one entry per name.
	List(ctx context.Context, limit int) ([]execution, error)
	// Worker tells whether somebody polls the queue of workflows.
	Worker(ctx context.Context) (bool, error)
	Close()
}

var errRunning = errors.New("the crawl is running already")

// Time limits of calls to the server.
const (
	dialTime    = 5 * time.Second
	callTime    = 10 * time.Second
	queryTime   = 5 * time.Second
	updateTime  = 30 * time.Second
	waitAgain   = time.Second      // between two waits for the end, while the server is away
	pollerAge   = 90 * time.Second // a long poll lasts a minute
	listPages   = 20
	historyPage = 1
)

type temporalClient struct {
	c       client.Client
	address string
	space   string
}

func dialTemporal(ctx context.Context, opts client.Options) (temporalServer, error) {
	opts.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	dctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	t := &temporalClient{address: opts.HostPort, space: opts.Namespace}
	if t.space == "" {
		t.space = client.DefaultNamespace
	}
	c, err := client.DialContext(dctx, opts)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, t.translate(ctx, "dial", err)
	}
	t.c = c
	return t, nil
}

func (t *temporalClient) Close() { t.c.Close() }

// translate gives errors that a person can act on.
func (t *temporalClient) translate(ctx context.Context, what string, err error) error {
	var space *serviceerror.NamespaceNotFound
	var denied *serviceerror.PermissionDenied
	var failed *failedRun
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &space):
		return fail(exitUnreachable, "Temporal at %s has no namespace %q: create it, or set TEMPORAL_NAMESPACE", t.address, t.space)
	case errors.As(err, &denied):
		return fail(exitUnreachable, "Temporal at %s refuses access: set TEMPORAL_API_KEY or the TEMPORAL_TLS_ variables", t.address)
	case isUnreachable(err) || what == "dial":
		return fail(exitUnreachable, `no Temporal server at %s: start one with "make up", or set TEMPORAL_ADDRESS`, t.address)
	}
	return fmt.Errorf("%s: Temporal at %s: %w", what, t.address, err)
}

func isUnreachable(err error) bool {
	var unavailable *serviceerror.Unavailable
	return errors.As(err, &unavailable)
}

func isDeadline(err error) bool {
	var deadline *serviceerror.DeadlineExceeded
	return errors.As(err, &deadline) || errors.Is(err, context.DeadlineExceeded)
}

func isNotFound(err error) bool {
	var missing *serviceerror.NotFound
	return errors.As(err, &missing)
}

func (t *temporalClient) Describe(ctx context.Context, name string) (execution, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	d, err := t.c.DescribeWorkflowExecution(cctx, workflows.CrawlID(name), "")
	if isNotFound(err) {
		return execution{Name: name}, nil
	}
	if err != nil {
		return execution{}, t.translate(ctx, "describe crawl "+name, err)
	}
	info := d.GetWorkflowExecutionInfo()
	e := execution{Name: name, State: stateOf(info.GetStatus()), RunID: info.GetExecution().GetRunId()}
	if s := info.GetStartTime(); s != nil {
		e.Started = s.AsTime()
	}
	if c := info.GetCloseTime(); c != nil {
		e.Closed = c.AsTime()
	}
	return e, nil
}

func stateOf(s enums.WorkflowExecutionStatus) string {
	switch s {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, enums.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return stateRunning
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return stateCompleted
	case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return stateCancelled
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return stateTerminated
	case enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return stateTimedOut
	}
	return stateFailed
}

// Spec reads the first event of the history, so it needs no worker.
func (t *temporalClient) Spec(ctx context.Context, name string) (*spec.Spec, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	res, err := t.c.WorkflowService().GetWorkflowExecutionHistory(cctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: t.space, Execution: &common.WorkflowExecution{WorkflowId: workflows.CrawlID(name)}, MaximumPageSize: historyPage,
	})
	if err != nil {
		return nil, t.translate(ctx, "read the spec of crawl "+name, err)
	}
	events := res.GetHistory().GetEvents()
	if len(events) == 0 {
		return nil, fmt.Errorf("crawl %s: its history is empty", name)
	}
	var in contract.CrawlInput
	input := events[0].GetWorkflowExecutionStartedEventAttributes().GetInput()
	if err := converter.GetDefaultDataConverter().FromPayloads(input, &in); err != nil {
		return nil, fmt.Errorf("crawl %s: its input is not readable: %w", name, err)
	}
	raw := in.Spec
	if in.State != nil { // continued as new
		raw = in.State.Spec
	}
	return spec.Decode(raw)
}

func (t *temporalClient) Start(ctx context.Context, name string, in contract.CrawlInput) (string, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	run, err := t.c.ExecuteWorkflow(cctx, client.StartWorkflowOptions{
		ID:        workflows.CrawlID(name),
		TaskQueue: workflows.QueueMain,
		// Not USE_EXISTING: whoever is first decides the spec, and the other one
		// has to compare with it.
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "crawl " + name,
	}, workflows.CrawlType, in)
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &already) {
		return "", errRunning
	}
	if err != nil {
		return "", t.translate(ctx, "start crawl "+name, err)
	}
	return run.GetRunID(), nil
}

func (t *temporalClient) Wait(ctx context.Context, name, runID string) (string, *contract.Summary, error) {
	var s contract.Summary
	state, has, err := t.waitRun(ctx, "crawl "+name, workflows.CrawlID(name), runID, &s)
	if !has {
		return state, nil, err
	}
	return state, &s, err
}

func (t *temporalClient) Status(ctx context.Context, name string) (contract.CrawlStatus, error) {
	cctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var st contract.CrawlStatus
	v, err := t.c.QueryWorkflow(cctx, workflows.CrawlID(name), "", workflows.QryStatus)
	if err != nil {
		return st, t.crawlError(ctx, name, err)
	}
	if err := v.Get(&st); err != nil {
		return st, fmt.Errorf("status of crawl %s is not readable: %w", name, err)
	}
	if st.Phase != workflows.PhaseDone {
		st.Trouble = append(st.Trouble, t.noDataWorker(ctx, st.LoadQueue)...)
	}
	return st, nil
}

// crawlError translates errors of calls that only a worker can answer.
func (t *temporalClient) crawlError(ctx context.Context, name string, err error) error {
	return t.workerError(ctx, "crawl "+name, fmt.Sprintf("; starter crawl --name %[1]s lets it go on (of a load: starter load --name %[1]s)", name), err)
}

func (t *temporalClient) Update(ctx context.Context, name, update string, arg any) error {
	cctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	opts := client.UpdateWorkflowOptions{
		WorkflowID: workflows.CrawlID(name), UpdateName: update, WaitForStage: client.WorkflowUpdateStageCompleted,
	}
	if arg != nil {
		opts.Args = []any{arg}
	}
	h, err := t.c.UpdateWorkflow(cctx, opts)
	if err == nil {
		err = h.Get(cctx, nil)
	}
	return t.crawlError(ctx, name, err)
}

func (t *temporalClient) Cancel(ctx context.Context, name string) error {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := t.c.CancelWorkflow(cctx, workflows.CrawlID(name), "")
	if isNotFound(err) {
		return fail(exitNotFound, "crawl %s is not running", name)
	}
	return t.translate(ctx, "cancel crawl "+name, err)
}

func (t *temporalClient) List(ctx context.Context, limit int) ([]execution, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	seen := map[string]int{}
	var out []execution
	var token []byte
	for range listPages {
		res, err := t.c.ListWorkflow(cctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.space, Query: "WorkflowType = '" + workflows.CrawlType + "'", NextPageToken: token,
		})
		if err != nil {
			return nil, t.translate(ctx, "list crawls", err)
		}
		for _, info := range res.GetExecutions() {
			name, ok := workflows.CrawlName(info.GetExecution().GetWorkflowId())
			if !ok {
				continue
			}
			e := execution{Name: name, State: stateOf(info.GetStatus()), RunID: info.GetExecution().GetRunId(), Started: info.GetStartTime().AsTime()}
			if c := info.GetCloseTime(); c != nil {
				e.Closed = c.AsTime()
			}
			if i, ok := seen[name]; ok {
				if e.Started.After(out[i].Started) {
					out[i] = e
				}
				continue
			}
			seen[name] = len(out)
			out = append(out, e)
		}
		token = res.GetNextPageToken()
		if len(token) == 0 || len(out) >= limit {
			break
		}
	}
	return out[:min(len(out), limit)], nil
}

// noDataWorker says that nobody polls the queue of a data directory: Load and
// Finalize wait there until somebody does, and no workflow can know of it.
func (t *temporalClient) noDataWorker(ctx context.Context, queue string) []string {
	id, ok := workflows.DataID(queue)
	if !ok {
		return nil
	}
	if polled, err := t.polled(ctx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY); polled || err != nil {
		return nil // if that cannot be asked, nothing is wrong that is known
	}
	return []string{fmt.Sprintf("no worker is polling queue %s: start one with the %s that holds the index; its file id says %s", queue, settings.DataDir, id)}
}

func (t *temporalClient) Worker(ctx context.Context) (bool, error) {
	return t.polled(ctx, workflows.QueueMain, enums.TASK_QUEUE_TYPE_WORKFLOW)
}

func (t *temporalClient) polled(ctx context.Context, queue string, kind enums.TaskQueueType) (bool, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	res, err := t.c.DescribeTaskQueue(cctx, queue, kind)
	if err != nil {
		return false, t.translate(ctx, "ask for workers", err)
	}
	for _, p := range res.GetPollers() {
		if p.GetLastAccessTime() == nil || time.Since(p.GetLastAccessTime().AsTime()) < pollerAge {
			return true, nil
		}
	}
	return false, nil
}
