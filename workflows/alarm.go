package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// alarm keeps one timer for a loop that waits for messages: an earlier wish
// replaces it, a later one lets it fire and the loop looks again. That costs
// fewer events than a timer for each turn of the loop.
type alarm struct {
	timer  workflow.Future
	at     time.Time
	cancel workflow.CancelFunc
}

// watch adds to the selector a timer that fires at the time given or before.
func (a *alarm) watch(ctx workflow.Context, sel workflow.Selector, at time.Time) {
	if a.timer == nil || at.Before(a.at) {
		if a.timer != nil {
			a.cancel()
		}
		tctx, cancel := workflow.WithCancel(ctx)
		a.at, a.cancel = at, cancel
		a.timer = workflow.NewTimer(tctx, max(at.Sub(workflow.Now(ctx)), time.Millisecond))
	}
	sel.AddFuture(a.timer, func(workflow.Future) { a.timer = nil })
}
