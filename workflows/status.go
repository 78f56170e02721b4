package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"trawl/internal/contract"
)

var (
	attrCrawl   = temporal.NewSearchAttributeKeyKeyword(AttrCrawl)
	attrState   = temporal.NewSearchAttributeKeyKeyword(AttrState)
	attrOutcome = temporal.NewSearchAttributeKeyKeyword(AttrOutcome)
)

// describe keeps what the Web UI shows up to date. Search attributes change
// with the phase only: each change is an event.
func (c *crawl) describe(ctx workflow.Context) {
	state := c.phase
	if c.st.Paused {
		state = "paused"
	}
	if state != c.described {
		c.described = state
		_ = workflow.UpsertTypedSearchAttributes(ctx, attrCrawl.ValueSet(c.run.Crawl), attrState.ValueSet(state), attrOutcome.ValueSet(c.outcome))
	}
	workflow.SetCurrentDetails(ctx, c.details(state))
}

func (c *crawl) details(state string) string {
	var b strings.Builder
	t := c.totals()
	fmt.Fprintf(&b, "**crawl %s**, generation %s: %s %s\n\n%s\n\n%d documents loaded, %d in errors",
		c.run.Crawl, c.run.Generation, state, c.outcome, totalsLine(t), c.ledger().Loaded, c.ledger().Errors)
	if c.phase == PhaseCrawl {
		fmt.Fprintf(&b, "\n\n%.1f pages/s of late", c.rate)
	}
	for _, line := range c.trouble() {
		b.WriteString("\n\n" + line)
	}
	return b.String()
}

func (c *crawl) trouble() (lines []string) {
	for _, r := range c.st.Shards {
		if r.Trouble != "" {
			lines = append(lines, fmt.Sprintf("shard %d: %s", r.Shard, r.Trouble))
		}
	}
	for _, p := range c.st.Loads.Partitions {
		if p.Retry.Error != "" {
			lines = append(lines, fmt.Sprintf("loader %d in %s, class %d, attempt %d: %s", p.Partition, p.Retry.State, p.Retry.Class, p.Retry.Attempts, p.Retry.Error))
		}
	}
	return lines
}

// measure keeps the rate of late, over at least two seconds.
func (c *crawl) measure(ctx workflow.Context) {
	now, fetched := workflow.Now(ctx), c.totals().Fetched
	if c.rateAt.IsZero() {
		c.rateAt, c.rateOf = now, fetched
		return
	}
	if d := now.Sub(c.rateAt); d >= 2*time.Second {
		c.rate = float64(fetched-c.rateOf) / d.Seconds()
		c.rateAt, c.rateOf = now, fetched
	}
}

func (c *crawl) status() contract.CrawlStatus {
	s := contract.CrawlStatus{
		Run: c.run, Phase: c.phase, Paused: c.st.Paused, Outcome: c.outcome, Totals: c.totals(), Ledger: c.ledger(),
		LoadQueue: c.st.LoadQueue, Rate: c.rate, Owners: map[string]int{}, Started: c.st.Started, Summary: c.summary, Notes: c.st.Notes, Trouble: c.trouble(),
	}
	for _, r := range c.st.Shards {
		if r.Owner != "" {
			s.Owners[r.Owner]++
		}
		s.Shards = append(s.Shards, contract.ShardStatus{Shard: r.Shard, Owner: r.Owner, State: r.State, Totals: r.Totals, Open: r.Open})
	}
	return s
}

func (c *crawl) ledger() (l contract.Ledger) {
	for _, p := range c.st.Loads.Partitions {
		l = l.Add(p.Ledger)
	}
	return l
}

func (c *crawl) totals() (t contract.Totals) {
	for _, r := range c.st.Shards {
		t = t.Add(r.Totals)
	}
	return t
}
