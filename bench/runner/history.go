package runner

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

const (
	lists     = 100 // pages of a list, and looks at it
	lookEvery = 300 * time.Millisecond
)

// histories sums over all runs of all workflows of the crawl: activities that
// were scheduled, and bytes as Temporal counts them.
func histories(ctx context.Context, s *stack) (activities, bytes int64, err error) {
	c, err := client.DialContext(ctx, client.Options{
		HostPort: s.Temporal, Namespace: s.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	runs, err := settledRuns(ctx, c, s.Namespace)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range runs {
		d, err := c.DescribeWorkflowExecution(ctx, r.GetWorkflowId(), r.GetRunId())
		if err != nil {
			return 0, 0, err
		}
		bytes += d.GetWorkflowExecutionInfo().GetHistorySizeBytes()
		n, err := scheduled(ctx, c, r)
		if err != nil {
			return 0, 0, err
		}
		activities += n
	}
	return activities, bytes, nil
}

// settledRuns lists the runs until all have ended and two looks agree: the
// list follows what happens with some delay.
func settledRuns(ctx context.Context, c client.Client, namespace string) ([]*common.WorkflowExecution, error) {
	before := -1
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for range lists {
		runs, open, err := listRuns(ctx, c, namespace)
		if err != nil {
			return nil, err
		}
		if open == 0 && len(runs) > 0 && len(runs) == before {
			return runs, nil
		}
		before = len(runs)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("workflows of crawl %s are still running %s after its end", crawlName, lists*lookEvery)
}

func listRuns(ctx context.Context, c client.Client, namespace string) (runs []*common.WorkflowExecution, open int, err error) {
	req := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: namespace, Query: fmt.Sprintf("WorkflowId STARTS_WITH %q", "crawl/"+crawlName),
	}
	for range lists {
		res, err := c.ListWorkflow(ctx, req)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range res.GetExecutions() {
			runs = append(runs, e.GetExecution())
			if e.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
				open++
			}
		}
		if req.NextPageToken = res.GetNextPageToken(); len(req.NextPageToken) == 0 {
			return runs, open, nil
		}
	}
	return nil, 0, fmt.Errorf("the list of runs has more than %d pages", lists)
}

// scheduled counts the activities of a run; a retry is none.
func scheduled(ctx context.Context, c client.Client, r *common.WorkflowExecution) (n int64, err error) {
	events := c.GetWorkflowHistory(ctx, r.GetWorkflowId(), r.GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return 0, err
		}
		if e.GetEventType() == enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			n++
		}
	}
	return n, nil
}
