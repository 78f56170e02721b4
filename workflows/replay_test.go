package workflows

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Every history that an earlier build left must still lead to the same
// commands: a crawl under way survives the next release. "make histories"
// records those of this tree; the histories of a release stay. A change that
// breaks one of a release needs workflow.GetVersion.
func TestRecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "histories", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no histories: record some with: make histories")
	r := worker.NewWorkflowReplayer()
	for name, f := range map[string]any{
		CrawlType: CrawlWorkflow, ShardType: ShardWorkflow, LoadsType: LoadsWorkflow, LoadType: LoadWorkflow,
		RedriveType: RedriveWorkflow,
	} {
		r.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			h := readHistory(t, file)
			started := h.Events[0].GetWorkflowExecutionStartedEventAttributes()
			require.NotNil(t, started, "the first event of a history")
			seen[started.WorkflowType.Name] = true
			require.NoError(t, r.ReplayWorkflowHistoryWithOptions(quiet(), h, worker.ReplayWorkflowHistoryOptions{
				// Messages are compared with the own id, so it must be that of then.
				OriginalExecution: workflow.Execution{ID: started.WorkflowId, RunID: started.OriginalExecutionRunId},
			}))
		})
	}
	require.Len(t, seen, 5, "each type of workflow has a history")
}

func readHistory(t *testing.T, file string) *historypb.History {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	h, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, h.Events)
	return h
}
