package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
)

// report is what status prints of one crawl.
type report struct {
	Name    string                `json:"name"`
	State   string                `json:"state"`
	Status  *contract.CrawlStatus `json:"status,omitempty"`
	Summary *contract.Summary     `json:"summary,omitempty"`
	Load    *contract.LoadsStatus `json:"load,omitempty"`
	Trouble string                `json:"trouble,omitempty"`
}

func (a *app) statusCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Say how a crawl or load is doing, or all that are running",
		Long:  "Say how a crawl is doing, or all that are running. load/NAME is a load, and so\nis NAME if no crawl has it; crawl/NAME/load are the loaders of a crawl.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && isLoad(args[0]) {
				return a.statusLoad(cmd.Context(), args[0], follow)
			}
			t, err := a.world.temporal(cmd.Context())
			if err != nil {
				return err
			}
			defer t.Close()
			switch {
			case len(args) == 0:
				return a.statusAll(cmd.Context(), t)
			case follow:
				return a.statusFollow(cmd.Context(), t, args[0])
			}
			return a.statusOne(cmd.Context(), t, args[0])
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "show progress until the crawl ends, as crawl does")
	return cmd
}

func (a *app) statusFollow(ctx context.Context, t temporalServer, name string) error {
	e, err := t.Describe(ctx, name)
	if err != nil {
		return err
	}
	if e.State != stateRunning {
		return a.statusOne(ctx, t, name)
	}
	return a.watch(ctx, t, name, e.RunID)
}

func (a *app) statusOne(ctx context.Context, t temporalServer, name string) error {
	e, err := t.Describe(ctx, name)
	if err != nil {
		return err
	}
	r := report{Name: name, State: e.State}
	var problem error
	if e.State == stateRunning {
		problem = r.ask(ctx, t)
	} else if err := a.past(ctx, t, e, &r); err != nil {
		return err
	}
	if r.State == stateNone {
		return a.statusLoad(ctx, name, false)
	}
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		a.print("%s", a.reportText(r))
	}
	return problem
}

// ask adds the status of a crawl under way.
func (r *report) ask(ctx context.Context, t temporalServer) error {
	st, err := t.Status(ctx, r.Name)
	if err != nil {
		r.Trouble = err.Error()
		return err
	}
	r.Status = &st
	return nil
}

// past finds the summary of a crawl that has ended: Temporal has it for a
// while, the log has it for ever.
func (a *app) past(ctx context.Context, t temporalServer, e execution, r *report) error {
	if e.State == stateCompleted || e.State == stateCancelled {
		if _, sum, err := t.Wait(ctx, e.Name, e.RunID); err == nil && sum != nil {
			r.Summary = sum
			return nil
		}
	}
	st, err := a.world.store(ctx)
	if err != nil {
		if e.State != stateNone && ctx.Err() == nil {
			r.Trouble = err.Error()
			return nil
		}
		return err
	}
	defer st.Close()
	gens, err := st.Generations(ctx, e.Name)
	if err != nil {
		return err
	}
	g, ok := current(gens)
	if !ok {
		return nil
	}
	s, err := st.Stored(ctx, g)
	if err != nil {
		return err
	}
	r.Summary = s.Summary
	if r.State == stateNone {
		r.State = "ended"
	}
	return nil
}

// silence is said of all that is asked after the first one got no answer.
const silence = "no worker answered: start one with bin/worker"

func (a *app) statusAll(ctx context.Context, t temporalServer) error {
	list, err := t.List(ctx, maxList)
	if err != nil {
		return err
	}
	reports := []report{}
	var problem error
	for _, e := range list {
		if e.State != stateRunning {
			continue
		}
		r := report{Name: e.Name, State: e.State}
		// One silence is enough: without a worker each query waits its time out.
		var ee *exitError
		if errors.As(problem, &ee) && ee.code == exitNoWorker {
			r.Trouble = silence
		} else if err := r.ask(ctx, t); err != nil {
			problem = err
		}
		reports = append(reports, r)
	}
	loads, lerr := a.runningLoads(ctx)
	problem = cmp.Or(problem, lerr)
	reports = append(reports, loads...)
	if a.json {
		if err := a.printJSON(reports); err != nil {
			return err
		}
		return problem
	}
	if len(reports) == 0 {
		a.say("no crawl and no load is running; starter list shows all")
	}
	for _, r := range reports {
		if r.Load != nil {
			a.print("%s\n", loadLine(r.Name, *r.Load, a.world.now()))
			continue
		}
		if r.Status == nil {
			a.print("%s: %s, %s\n", r.Name, r.State, clean(r.Trouble))
			continue
		}
		a.print("%s\n", statusLine(r.Name, *r.Status, a.world.now()))
	}
	return problem
}

// reportText is the long form of one crawl.
func (a *app) reportText(r report) string {
	switch {
	case r.Status != nil:
		return a.runningText(r.Name, *r.Status)
	case r.Summary != nil && (r.State == stateCompleted || r.State == stateCancelled || r.State == "ended"):
		return summaryText(*r.Summary)
	case r.State == stateRunning:
		return fmt.Sprintf("crawl %s: running, but %s\n", r.Name, clean(r.Trouble))
	}
	text := fmt.Sprintf("crawl %s: its last run was %s; starter crawl --name %s lets it go on\n", r.Name, past(r.State), r.Name)
	if r.Trouble != "" {
		text += "  " + clean(r.Trouble) + "\n"
	}
	return text
}

func (a *app) runningText(name string, st contract.CrawlStatus) string {
	var b strings.Builder
	fmt.Fprintln(&b, statusLine(name, st, a.world.now()))
	t := st.Totals
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("pages", "%s fetched, %s", withParts(t.Fetched, t.Status), bytesText(t.Bytes))
	row("known", "%s URLs on %s hosts, %s parked", thousands(t.Locators), thousands(t.Hosts), thousands(t.Parked))
	if n := sumOf(t.Refused); n > 0 {
		row("refused", "%s", withParts(n, t.Refused))
	}
	if n := sumOf(t.GivenUp); n > 0 {
		row("failed", "%s", withParts(n, t.GivenUp))
	}
	row("documents", "%s", ledgerText(st.Ledger))
	row("generation", "%s, since %s", st.Run.Generation, stamp(st.Started))
	for _, owner := range owners(st.Owners) {
		row("worker", "%s", owner)
	}
	row("shards", "%s", shardStates(st.Shards))
	for _, n := range st.Trouble {
		row("waits", "%s", clean(n))
	}
	for _, n := range st.Notes {
		row("note", "%s", clean(n))
	}
	return b.String()
}

func owners(m map[string]int) []string {
	var out []string
	for q, n := range m {
		out = append(out, fmt.Sprintf("%s folds %d shard(s)", clean(q), n))
	}
	slices.Sort(out)
	return out
}

// shardStates counts the shards by state.
func shardStates(shards []contract.ShardStatus) string {
	states := map[string]int64{}
	open := 0
	for _, s := range shards {
		states[s.State]++
		open += s.Open
	}
	return fmt.Sprintf("%s, %d open batch(es)", withParts(int64(len(shards)), states), open)
}
