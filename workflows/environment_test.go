package workflows

import (
	"log/slog"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
)

// newEnvironment is a quiet test environment that gives up after half a
// minute in which nothing happens.
func newEnvironment() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet())
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	return env
}

// suggestNewRun lets an activity suggest it: the environment's own loop, which
// the workflow reads it in, does so before the activity's end.
func suggestNewRun(env *testsuite.TestWorkflowEnvironment) {
	env.RegisterDelayedCallback(func() { env.SetContinueAsNewSuggested(true) }, 0)
}

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }
