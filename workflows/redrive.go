package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

// RedriveWorkflow sends selected failures of an errors topic once more: what
// was there when it began, partition by partition, in time-boxed slices whose
// position it carries. Its result is its last status; cancelled, it ends
// cancelled with it after the slice under way has drained. What it did is
// stated in the errors topic, so another redrive goes on where it ended.
func RedriveWorkflow(ctx workflow.Context, in contract.RedriveInput) (*contract.RedriveStatus, error) {
	root, _ := workflow.NewDisconnectedContext(ctx)
	r := newRedrive(root, in)
	if err := r.handlers(root); err != nil {
		return nil, err
	}
	if in.State == nil {
		if err := r.begin(root, ctx); err != nil {
			return nil, err
		}
	}
	for {
		if r.plan.Ends != nil {
			r.skipEmpty()
		}
		switch {
		case ctx.Err() != nil:
			return nil, temporal.NewCanceledError(r.end(root, contract.RedriveCancelled))
		case r.st.Partition >= len(r.plan.Ends):
			return r.end(root, contract.RedriveCompleted), nil
		case workflow.GetInfo(root).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(root):
			in.State = &contract.RedriveState{Plan: r.plan, Status: r.st}
			return nil, workflow.NewContinueAsNewError(ctx, RedriveType, in)
		case r.st.Paused:
			r.describe(root, contract.RedrivePaused)
			r.sleep(root, ctx.Done(), 0)
		case r.wait(root) > 0:
			r.describe(root, contract.RedriveWaiting)
			r.sleep(root, ctx.Done(), r.wait(root))
		default:
			r.describe(root, contract.RedriveRunning)
			if err := r.slice(root, ctx.Done()); err != nil {
				return nil, err
			}
		}
	}
}

type redrive struct {
	in        contract.RedriveInput
	plan      contract.RedrivePlan
	st        contract.RedriveStatus
	wake      workflow.Channel
	cancelled bool
	described string // state of the search attributes
}

func newRedrive(ctx workflow.Context, in contract.RedriveInput) *redrive {
	r := &redrive{in: in, wake: workflow.NewBufferedChannel(ctx, 1)}
	if in.State != nil {
		r.plan, r.st = in.State.Plan, in.State.Status
		return r
	}
	r.st = contract.RedriveStatus{
		Name: in.Name, State: contract.RedrivePlanning, Select: in.Select, Rate: in.Rate, Left: -1, Started: workflow.Now(ctx),
	}
	return r
}

func (r *redrive) handlers(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, QryStatus, func() (contract.RedriveStatus, error) { return r.st, nil }); err != nil {
		return err
	}
	pause := func(paused bool) func(workflow.Context) error {
		return func(workflow.Context) error {
			r.st.Paused = paused
			r.wake.SendAsync(true)
			return nil
		}
	}
	validate := workflow.UpdateHandlerOptions{Validator: func(workflow.Context) error {
		if !r.st.Ended.IsZero() {
			return errors.New("the redrive has ended; start another one with: starter errors redrive")
		}
		return nil
	}}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, UpPause, pause(true), validate); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpResume, pause(false), validate)
}

// begin finds out what there is to do. A cancellation ends the wait for it.
func (r *redrive) begin(ctx, user workflow.Context) error {
	r.describe(ctx, contract.RedrivePlanning)
	actx := workflow.WithActivityOptions(user, redrivePlanOptions("what there is to redrive"))
	err := workflow.ExecuteActivity(actx, ActRedrivePlan, contract.RedrivePlanInput{
		Name: r.in.Name, Run: r.in.Run, Load: r.in.Load, Select: r.in.Select,
	}).Get(user, &r.plan)
	if err != nil && !temporal.IsCanceledError(err) {
		return err
	}
	r.st.Topic = r.plan.Topic
	r.enter(0)
	return nil
}

// enter goes to the start of a partition.
func (r *redrive) enter(partition int) {
	r.st.Partition = partition
	if partition < len(r.plan.Ends) {
		r.st.Position, r.st.End = r.plan.Starts[partition], r.plan.Ends[partition]
	}
	r.count()
}

func (r *redrive) skipEmpty() {
	for r.st.Partition < len(r.plan.Ends) && r.st.Position >= r.st.End {
		r.enter(r.st.Partition + 1)
	}
}

func (r *redrive) count() {
	r.st.Left = -1
	if r.plan.Ends != nil && r.plan.Selected >= 0 {
		r.st.Left = max(0, r.plan.Selected-r.st.Counts.Taken-r.st.Counts.Refused)
	}
}

// slice runs one Redrive and takes its position: the position is decided here.
// A pause or a cancellation ends it early; it answers with what it did.
func (r *redrive) slice(ctx workflow.Context, cancelled workflow.Channel) error {
	actx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	summary := fmt.Sprintf("errors partition %d from %d of %d", r.st.Partition, r.st.Position, r.st.End)
	actx = workflow.WithActivityOptions(actx, redriveOptions(r.plan.Queue, summary))
	future := workflow.ExecuteActivity(actx, ActRedrive, contract.RedriveSliceInput{
		Name: r.in.Name, Run: r.in.Run, Load: r.in.Load, Select: r.in.Select, Rate: r.in.Rate,
		Redrive: workflow.GetInfo(ctx).FirstRunID, Topic: r.plan.Topic, Partition: r.st.Partition,
		Position: r.st.Position, End: r.st.End, TimeBox: redriveSlice, Retry: r.st.Retry,
	})
	for !future.IsReady() {
		sel := workflow.NewSelector(ctx)
		sel.AddFuture(future, func(workflow.Future) {})
		r.listen(sel, cancelled)
		sel.Select(ctx)
		if r.st.Paused || r.cancelled {
			cancel()
		}
	}
	var res contract.RedriveSlice
	if err := future.Get(ctx, &res); err != nil {
		// Cancelled before a worker had begun it, or its worker died: a slice
		// whose cancellation was asked for is not tried again by the server.
		if temporal.IsCanceledError(err) || temporal.IsTimeoutError(err) {
			return nil
		}
		return err
	}
	r.st.Position, r.st.Retry = res.Position, res.Retry
	r.st.Counts = r.st.Counts.Add(res.Counts)
	r.count()
	return nil
}

// listen adds what may interrupt a wait.
func (r *redrive) listen(sel workflow.Selector, cancelled workflow.Channel) {
	sel.AddReceive(r.wake, func(c workflow.ReceiveChannel, _ bool) {
		var nudge bool
		c.ReceiveAsync(&nudge)
	})
	if !r.cancelled {
		sel.AddReceive(cancelled, func(workflow.ReceiveChannel, bool) { r.cancelled = true })
	}
}

// wait is how long a redrive in trouble has to wait for its next try.
func (r *redrive) wait(ctx workflow.Context) time.Duration {
	if r.st.Retry.NextTry.IsZero() {
		return 0
	}
	return r.st.Retry.NextTry.Sub(workflow.Now(ctx))
}

// sleep waits for a message, a cancellation, or until the time is over; 0 means
// without limit.
func (r *redrive) sleep(ctx workflow.Context, cancelled workflow.Channel, d time.Duration) {
	tctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	sel := workflow.NewSelector(ctx)
	if d > 0 {
		sel.AddFuture(workflow.NewTimer(tctx, d), func(workflow.Future) {})
	}
	r.listen(sel, cancelled)
	sel.Select(ctx)
}

func (r *redrive) end(ctx workflow.Context, state string) *contract.RedriveStatus {
	r.st.Ended = workflow.Now(ctx)
	if state == contract.RedriveCompleted {
		r.st.Left = 0
	}
	r.describe(ctx, state)
	return &r.st
}

// describe keeps what people see up to date. Search attributes change with the
// state only: each change is an event.
func (r *redrive) describe(ctx workflow.Context, state string) {
	r.st.State = state
	if state != r.described {
		r.described = state
		_ = workflow.UpsertTypedSearchAttributes(ctx, attrCrawl.ValueSet(r.in.Name), attrState.ValueSet(state))
	}
	var b strings.Builder
	c := r.st.Counts
	fmt.Fprintf(&b, "**redrive of %s**: %s\n\n%d taken: %d loaded, %d superseded, %d no document, %d failed again; %d refused",
		r.in.Name, state, c.Taken, c.Loaded, c.Superseded, c.NoDocument, c.Failed, c.Refused)
	if r.st.Left >= 0 {
		fmt.Fprintf(&b, ", %d left", r.st.Left)
	}
	if n := len(r.plan.Ends); r.st.Partition < n {
		fmt.Fprintf(&b, "\n\nerrors partition %d of %d, offset %d of %d", r.st.Partition, n, r.st.Position, r.st.End)
	}
	if r.st.Retry.Error != "" {
		fmt.Fprintf(&b, "\n\n%s, class %d, attempt %d: %s", r.st.Retry.State, r.st.Retry.Class, r.st.Retry.Attempts, r.st.Retry.Error)
	}
	workflow.SetCurrentDetails(ctx, b.String())
}
