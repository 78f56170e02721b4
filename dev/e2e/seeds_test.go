package e2e

import (
	"context"
	"strconv"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"trawl/bench/web"
	"trawl/internal/contract"
	"trawl/workflows"
)

// Seeds that come when a crawl is about to end are either refused or fetched.
func TestSeedsAtTheEnd(t *testing.T) {
	t.Parallel()
	const crawls, most = 8, 6
	l := newLine(t, 1, web.Config{Seed: 14, PagesPerHost: 1000, Size: 1 << 10})
	late := 0
	for n := range crawls {
		l.name = "late-" + strconv.Itoa(n)
		l.web.Log().Reset()
		starter := l.crawl("--delay", "0s", "--depth", "0", "--shards", "2")
		accepted := 0
		for i := 1; i <= most; i++ {
			// Some time after the last page, to meet every phase of the end.
			l.fetched(int64(i))
			end := 110 // milliseconds that it takes, more or less
			if i > 1 {
				end = 450 // shards wait inside of Expand now
			}
			l.after(time.Duration((n*31+i*97)%end) * time.Millisecond)
			if err := l.addSeed(web.Ref{Page: i}); err != nil {
				t.Logf("crawl %d: seed %d refused: %v", n, i, err)
				break
			}
			accepted++
		}
		s := l.summary(starter, 0)
		late += accepted
		if s.Outcome != contract.OutcomeCompleted || s.Totals.Pending != 0 {
			t.Errorf("crawl %d: outcome %q with %d pending", n, s.Outcome, s.Totals.Pending)
		}
		for i := range accepted + 1 {
			if got := l.web.Log().Count(web.Ref{Page: i}); got != 1 {
				t.Errorf("crawl %d: page %d was accepted and requested %d times, want once", n, i, got)
			}
		}
		l.documents(s, int64(accepted)+1)
	}
	t.Logf("%d seeds were accepted", late)
	if late == 0 {
		t.Error("no seed was accepted: the test has shown nothing")
	}
}

// after waits until the last request was so long ago.
func (l *line) after(d time.Duration) {
	l.t.Helper()
	l.until("silence", time.Minute, func() bool {
		return time.Since(l.web.Log().Began())-l.stats().LastStart >= d
	})
}

func (l *line) addSeed(p web.Ref) error {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 30*time.Second)
	defer cancel()
	h, err := l.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflows.CrawlID(l.name), UpdateName: workflows.UpAddSeeds,
		Args: []any{contract.AddSeeds{URLs: []string{l.web.URL(p)}}}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}
