package main

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"trawl/workflows"
)

// waitRun waits until a run has ended; without a run id it is the latest one.
// What it answered, or left when it was cancelled, goes to answer; has is false
// if there was nothing. A server that is away is sat out: the run does, too.
// what names the run to people.
func (t *temporalClient) waitRun(ctx context.Context, what, id, runID string, answer any) (state string, has bool, err error) {
	for {
		state, has, err = t.waitOnce(ctx, what, id, runID, answer)
		if ctx.Err() != nil || !(isUnreachable(err) || isDeadline(err)) {
			return state, has, t.translate(ctx, "wait for "+what, err)
		}
		select {
		case <-ctx.Done():
			return "", false, ctx.Err()
		case <-time.After(waitAgain):
		}
	}
}

func (t *temporalClient) waitOnce(ctx context.Context, what, id, runID string, answer any) (state string, has bool, err error) {
	err = t.c.GetWorkflow(ctx, id, runID).Get(ctx, answer)
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var failed *temporal.WorkflowExecutionError
	switch {
	case err == nil:
		return stateCompleted, true, nil
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case errors.As(err, &cancelled):
		return stateCancelled, cancelled.HasDetails() && cancelled.Details(answer) == nil, nil
	case errors.As(err, &terminated):
		return stateTerminated, false, nil
	case errors.As(err, &timeout):
		return stateTimedOut, false, nil
	case errors.As(err, &failed):
		return stateFailed, false, &failedRun{what, rootCause(err)}
	}
	return "", false, err
}

// failedRun is the end of a crawl, load or redrive whose workflow failed.
type failedRun struct {
	what  string
	cause error
}

func (f *failedRun) Error() string { return f.what + " failed: " + f.cause.Error() }
func (f *failedRun) Unwrap() error { return f.cause }

func rootCause(err error) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return errors.New(app.Message())
	}
	return err
}

// workerError translates errors of calls that only a worker can answer. what
// names the run to people, absent says what to type if it is not running.
func (t *temporalClient) workerError(ctx context.Context, what, absent string, err error) error {
	var rejected *temporal.ApplicationError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case isNotFound(err):
		return fail(exitNotFound, "%s is not running%s", what, absent)
	case errors.As(err, &rejected):
		return fail(rejectionCode(rejected), "%s: %s", what, rejected.Message())
	case isDeadline(err):
		return fail(exitNoWorker, "no worker answered for %s: start one with bin/worker", what)
	}
	return t.translate(ctx, "ask "+what, err)
}

// rejectionCode is the exit code of an order that a workflow answers with an error.
func rejectionCode(err *temporal.ApplicationError) int {
	switch err.Type() {
	case workflows.ErrTypeRefused:
		return exitUsage
	case workflows.ErrTypeEnding:
		return exitNotFound
	}
	return exitFailed
}
