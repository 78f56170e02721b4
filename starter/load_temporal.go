package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"trawl/internal/contract"
	"trawl/workflows"
)

// loadServer is what the commands about loads ask of Temporal. Its ids are
// those of LoadsWorkflows: load/<name>, or crawl/<name>/load.
type loadServer interface {
	// DescribeLoad answers the latest run; State is empty if there is none.
	DescribeLoad(ctx context.Context, id string) (execution, error)
	// LoadSpec is what the latest run of a load was started with.
	LoadSpec(ctx context.Context, name string) (json.RawMessage, error)
	// StartLoad begins a run. errRunning: another one is running already.
	StartLoad(ctx context.Context, in contract.LoadsInput) (runID string, err error)
	// WaitLoad returns when the run has ended; the summary is nil if it left none.
	WaitLoad(ctx context.Context, id, runID string) (state string, s *contract.LoadsSummary, err error)
	LoadStatus(ctx context.Context, id string) (contract.LoadsStatus, error)
	// UpdateLoad sends an update and waits for its end. arg may be nil.
	UpdateLoad(ctx context.Context, id, update string, arg any) error
	CancelLoad(ctx context.Context, id string) error
	// ListLoads answers at most limit loads, one entry per name.
	ListLoads(ctx context.Context, limit int) ([]execution, error)
	// Worker tells whether somebody polls the queue of workflows.
	Worker(ctx context.Context) (bool, error)
	Close()
}

// loadUpdateTime: an order waits for the slice under way.
const loadUpdateTime = 90 * time.Second

func (t *temporalClient) DescribeLoad(ctx context.Context, id string) (execution, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	d, err := t.c.DescribeWorkflowExecution(cctx, id, "")
	if isNotFound(err) {
		return execution{Name: id}, nil
	}
	if err != nil {
		return execution{}, t.translate(ctx, "describe "+id, err)
	}
	info := d.GetWorkflowExecutionInfo()
	e := execution{Name: id, State: stateOf(info.GetStatus()), RunID: info.GetExecution().GetRunId(), Started: info.GetStartTime().AsTime()}
	if c := info.GetCloseTime(); c != nil {
		e.Closed = c.AsTime()
	}
	return e, nil
}

func (t *temporalClient) StartLoad(ctx context.Context, in contract.LoadsInput) (string, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	id := workflows.LoadRootID(in.Run.Crawl)
	run, err := t.c.ExecuteWorkflow(cctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.QueueMain,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "load " + in.Run.Crawl,
	}, workflows.LoadsType, in)
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &already) {
		return "", errRunning
	}
	if err != nil {
		return "", t.translate(ctx, "start "+id, err)
	}
	return run.GetRunID(), nil
}

func (t *temporalClient) WaitLoad(ctx context.Context, id, runID string) (string, *contract.LoadsSummary, error) {
	var s contract.LoadsSummary
	state, has, err := t.waitRun(ctx, id, id, runID, &s)
	if !has {
		return state, nil, err
	}
	return state, &s, err
}

func (t *temporalClient) LoadStatus(ctx context.Context, id string) (contract.LoadsStatus, error) {
	cctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var st contract.LoadsStatus
	v, err := t.c.QueryWorkflow(cctx, id, "", workflows.QryStatus)
	if err != nil {
		return st, t.loadError(ctx, id, err)
	}
	if err := v.Get(&st); err != nil {
		return st, fmt.Errorf("status of %s is not readable: %w", id, err)
	}
	if st.Phase != workflows.LoadsDone {
		st.Trouble = append(st.Trouble, t.noDataWorker(ctx, st.Queue)...)
	}
	return st, nil
}

// loadError translates errors of calls that only a worker can answer.
func (t *temporalClient) loadError(ctx context.Context, id string, err error) error {
	absent := ""
	if name, ok := workflows.LoadRootName(id); ok {
		absent = fmt.Sprintf("; starter load --name %s lets it go on (the loaders of a crawl are crawl/%s)", name, name)
	}
	return t.workerError(ctx, id, absent, err)
}

func (t *temporalClient) UpdateLoad(ctx context.Context, id, update string, arg any) error {
	cctx, cancel := context.WithTimeout(ctx, loadUpdateTime)
	defer cancel()
	opts := client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: update, WaitForStage: client.WorkflowUpdateStageCompleted}
	if arg != nil {
		opts.Args = []any{arg}
	}
	h, err := t.c.UpdateWorkflow(cctx, opts)
	if err == nil {
		err = h.Get(cctx, nil)
	}
	if isDeadline(err) && ctx.Err() == nil {
		return fail(exitNoWorker, "no worker answered for %s: start one with bin/worker; it may obey this order, which is kept", id)
	}
	return t.loadError(ctx, id, err)
}

func (t *temporalClient) CancelLoad(ctx context.Context, id string) error {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return t.loadError(ctx, id, t.c.CancelWorkflow(cctx, id, ""))
}

func (t *temporalClient) ListLoads(ctx context.Context, limit int) ([]execution, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	seen := map[string]int{}
	var out []execution
	var token []byte
	for range listPages {
		res, err := t.c.ListWorkflow(cctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.space, NextPageToken: token,
			Query: "WorkflowType = '" + workflows.LoadsType + "' AND WorkflowId STARTS_WITH 'load/'",
		})
		if err != nil {
			return nil, t.translate(ctx, "list loads", err)
		}
		for _, info := range res.GetExecutions() {
			id := info.GetExecution().GetWorkflowId()
			if _, ok := workflows.LoadRootName(id); !ok {
				continue
			}
			e := execution{Name: id, State: stateOf(info.GetStatus()), RunID: info.GetExecution().GetRunId(), Started: info.GetStartTime().AsTime()}
			if c := info.GetCloseTime(); c != nil {
				e.Closed = c.AsTime()
			}
			if i, ok := seen[id]; !ok {
				seen[id] = len(out)
				out = append(out, e)
			} else if e.Started.After(out[i].Started) {
				out[i] = e
			}
		}
		if token = res.GetNextPageToken(); len(token) == 0 || len(out) >= limit {
			break
		}
	}
	return out[:min(len(out), limit)], nil
}
