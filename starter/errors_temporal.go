package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"trawl/internal/contract"
	"trawl/workflows"
)

// redriveServer is what errors redrive asks of Temporal.
type redriveServer interface {
	// LatestRedrive gives the number of the last redrive of a name, and its
	// state; 0: there is none.
	LatestRedrive(ctx context.Context, name string) (n int, state string, err error)
	// StartRedrive begins one. errRunning: somebody else took the number.
	StartRedrive(ctx context.Context, name string, n int, in contract.RedriveInput) error
	RedriveStatus(ctx context.Context, name string, n int) (contract.RedriveStatus, error)
	// WaitRedrive returns when it has ended; the status is nil if it left none.
	WaitRedrive(ctx context.Context, name string, n int) (state string, st *contract.RedriveStatus, err error)
	UpdateRedrive(ctx context.Context, name string, n int, update string) error
	CancelRedrive(ctx context.Context, name string, n int) error
	// LoadSpec is what the latest run of a load was started with.
	LoadSpec(ctx context.Context, name string) (json.RawMessage, error)
	Close()
}

// LatestRedrive asks the list, which may lag behind, and then for each number
// after it, which does not.
func (t *temporalClient) LatestRedrive(ctx context.Context, name string) (int, string, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	latest := 0
	var token []byte
	for range listPages {
		res, err := t.c.ListWorkflow(cctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.space, NextPageToken: token,
			Query: fmt.Sprintf("WorkflowType = '%s' AND WorkflowId STARTS_WITH '%s'", workflows.RedriveType, workflows.RedrivePrefix(name)),
		})
		if err != nil {
			return 0, "", t.translate(ctx, "list redrives", err)
		}
		for _, info := range res.GetExecutions() {
			if n, ok := workflows.RedriveNumber(name, info.GetExecution().GetWorkflowId()); ok {
				latest = max(latest, n)
			}
		}
		if token = res.GetNextPageToken(); len(token) == 0 {
			break
		}
	}
	state := stateNone
	for n := max(latest, 1); ; n++ {
		d, err := t.c.DescribeWorkflowExecution(cctx, workflows.RedriveID(name, n), "")
		if isNotFound(err) {
			return n - 1, state, nil
		}
		if err != nil {
			return 0, "", t.translate(ctx, "describe "+workflows.RedriveID(name, n), err)
		}
		state = stateOf(d.GetWorkflowExecutionInfo().GetStatus())
	}
}

func (t *temporalClient) StartRedrive(ctx context.Context, name string, n int, in contract.RedriveInput) error {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := t.c.ExecuteWorkflow(cctx, client.StartWorkflowOptions{
		ID: workflows.RedriveID(name, n), TaskQueue: workflows.QueueMain,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "redrive of " + name,
	}, workflows.RedriveType, in)
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &already) {
		return errRunning
	}
	return t.translate(ctx, "start the redrive of "+name, err)
}

func (t *temporalClient) RedriveStatus(ctx context.Context, name string, n int) (contract.RedriveStatus, error) {
	cctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var st contract.RedriveStatus
	v, err := t.c.QueryWorkflow(cctx, workflows.RedriveID(name, n), "", workflows.QryStatus)
	if err == nil {
		err = v.Get(&st)
	}
	return st, t.redriveError(ctx, name, n, err)
}

// redriveError translates errors of calls that only a worker can answer.
func (t *temporalClient) redriveError(ctx context.Context, name string, n int, err error) error {
	return t.workerError(ctx, workflows.RedriveID(name, n), "; starter errors redrive "+name+" begins another one", err)
}

func (t *temporalClient) WaitRedrive(ctx context.Context, name string, n int) (string, *contract.RedriveStatus, error) {
	var st contract.RedriveStatus
	id := workflows.RedriveID(name, n)
	state, has, err := t.waitRun(ctx, id, id, "", &st)
	if !has {
		return state, nil, err
	}
	return state, &st, err
}

func (t *temporalClient) UpdateRedrive(ctx context.Context, name string, n int, update string) error {
	cctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	h, err := t.c.UpdateWorkflow(cctx, client.UpdateWorkflowOptions{
		WorkflowID: workflows.RedriveID(name, n), UpdateName: update, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(cctx, nil)
	}
	return t.redriveError(ctx, name, n, err)
}

func (t *temporalClient) CancelRedrive(ctx context.Context, name string, n int) error {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return t.redriveError(ctx, name, n, t.c.CancelWorkflow(cctx, workflows.RedriveID(name, n), ""))
}

// LoadSpec reads the first event of the history, so it needs no worker.
func (t *temporalClient) LoadSpec(ctx context.Context, name string) (json.RawMessage, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	res, err := t.c.WorkflowService().GetWorkflowExecutionHistory(cctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: t.space, Execution: &common.WorkflowExecution{WorkflowId: workflows.LoadRootID(name)}, MaximumPageSize: historyPage,
	})
	if isNotFound(err) {
		return nil, fail(exitNotFound, "Temporal knows no load %s, or has forgotten it: give its spec with --file load.yaml", name)
	}
	if err != nil {
		return nil, t.translate(ctx, "read the spec of load "+name, err)
	}
	var in contract.LoadsInput
	if events := res.GetHistory().GetEvents(); len(events) > 0 {
		input := events[0].GetWorkflowExecutionStartedEventAttributes().GetInput()
		err = converter.GetDefaultDataConverter().FromPayloads(input, &in)
	}
	if err != nil || len(in.Load) == 0 {
		return nil, fail(exitFailed, "load %s: its input is not readable: give its spec with --file load.yaml", name)
	}
	return in.Load, nil
}
