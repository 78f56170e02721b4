package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/spec"
	"trawl/internal/transform"
	"trawl/workflows"
)

type loadOptions struct {
	file   string
	name   string
	dryRun bool
	wait   bool
}

func (a *app) loadCmd() *cobra.Command {
	var o loadOptions
	cmd := &cobra.Command{
		Use:   "load -f FILE",
		Short: "Load Kafka topics into an index, attach to a load, or let it go on",
		Long: `Load the topics that a spec file describes, and follow the load to its end. It
ends when all of its sources have an end and have reached it; else it goes on for
ever.

The same name again: a load under way is attached to; one that has ended goes on
from its positions. With --name alone the stored spec is used. See docs/load.md.

Ctrl-C detaches; the load goes on.`,
		Example: `  starter load -f load.yaml
  starter load -f load.yaml --dry-run
  starter load --name orders
  starter load pause orders`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.load(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "spec file in YAML; - for standard input")
	f.StringVar(&o.name, "name", "", "a load that was started before, in place of its file")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the effective spec and what would happen; start nothing")
	f.BoolVar(&o.wait, "wait", true, "follow the load to its end; false prints the workflow id")
	cmd.MarkFlagsMutuallyExclusive("file", "name")
	cmd.MarkFlagsOneRequired("file", "name")
	cmd.AddCommand(a.loadValidateCmd())
	cmd.AddCommand(a.loadVerbs()...)
	for _, sub := range cmd.Commands() {
		a.marked(sub)
	}
	return cmd
}

func (a *app) loadValidateCmd() *cobra.Command {
	return validator("Check the spec file of a load; start nothing", func(file string) error {
		s, err := a.readLoad(file)
		if err != nil {
			return a.valid(file, "", nil, err)
		}
		return a.valid(file, "load "+s.Name, s.Notes(), nil)
	})
}

// readLoad reads a load spec and compiles what it says about records, so that
// no worker will find it impossible later.
func (a *app) readLoad(file string) (*spec.LoadSpec, error) {
	name, data, err := a.readFile(file)
	if err != nil {
		return nil, err
	}
	s, err := spec.ParseLoad(name, data)
	if err != nil {
		return nil, err
	}
	for i := range s.Sources {
		if _, err := transform.New(s.Sources[i]); err != nil {
			return nil, fail(exitUsage, "%s: sources[%d]: %w", name, i, err)
		}
	}
	return s, nil
}

func (a *app) load(ctx context.Context, o loadOptions) error {
	var s *spec.LoadSpec
	if o.file != "" {
		var err error
		if s, err = a.readLoad(o.file); err != nil {
			return err
		}
		o.name = s.Name
	}
	t, err := a.world.loads(ctx)
	if err != nil && !(o.dryRun && s != nil) {
		return err
	}
	if err != nil {
		a.say("note: whether the name %s is taken is not known: %v", o.name, err)
		return a.printLoad(s)
	}
	defer t.Close()
	if s == nil {
		raw, err := t.LoadSpec(ctx, o.name)
		if err != nil {
			return err
		}
		if s, err = spec.DecodeLoad(raw); err != nil {
			return err
		}
	}
	return a.launchLoad(ctx, t, s, o)
}

// launchLoad decides and acts. Somebody else may start the same name in
// between; then it is decided again.
func (a *app) launchLoad(ctx context.Context, t loadServer, s *spec.LoadSpec, o loadOptions) error {
	id := workflows.LoadRootID(s.Name)
	for range startTries {
		e, err := t.DescribeLoad(ctx, id)
		if err != nil {
			return err
		}
		if err := compareLoad(ctx, t, s, e); err != nil {
			return err
		}
		// Asked before: once it runs it has positions.
		plan, done := loadWords(e.State, a.began(ctx, e.State, s.Name), id)
		if o.dryRun {
			if err := a.printLoad(s); err != nil {
				return err
			}
			a.say("would %s", plan)
			return nil
		}
		runID := e.RunID
		if e.State != stateRunning {
			for _, n := range s.Notes() {
				a.say("note: %s", n)
			}
			raw, err := s.Encode()
			if err != nil {
				return err
			}
			runID, err = t.StartLoad(ctx, contract.LoadsInput{Run: contract.Run{Crawl: s.Name}, Load: raw, Rate: s.Limits.Rate})
			if errors.Is(err, errRunning) {
				continue
			}
			if err != nil {
				return err
			}
		}
		a.say("%s", done)
		return a.attendLoad(ctx, t, s.Name, runID, o)
	}
	return fail(exitTaken, "%s is started and ended by somebody else at the same time: try again", id)
}

// Whether a load that has ended has positions to go on from: one that was deleted,
// or never read anything, has none.
const (
	beganUnknown = ""
	beganYes     = "yes"
	beganNo      = "no"
)

// began asks Kafka about a load that has ended. Starting it needs only Temporal, so
// a broker that is away is no error.
func (a *app) began(ctx context.Context, state, name string) string {
	if state == stateRunning || state == stateNone {
		return beganUnknown
	}
	st, err := a.world.store(ctx)
	if err != nil {
		return beganUnknown
	}
	defer st.Close()
	switch began, err := st.LoadBegan(ctx, name); {
	case err != nil:
		return beganUnknown
	case began:
		return beganYes
	}
	return beganNo
}

// loadWords say what starting a load would do, and what it did.
func loadWords(state, began, id string) (plan, done string) {
	const anew = " again; it has no positions, so its sources begin at their start"
	switch {
	case state == stateRunning:
		return "attach to " + id, "attached to " + id
	case state == stateNone:
		return "start " + id, "started " + id
	case began == beganYes:
		return "go on from its positions with " + id, "going on from its positions with " + id
	case began == beganNo:
		return "start " + id + anew, "started " + id + anew
	}
	return "go on with " + id, "going on with " + id
}

// compareLoad refuses another spec for a load under way. One that has ended may
// go on with another one: its positions are those of the topics.
func compareLoad(ctx context.Context, t loadServer, s *spec.LoadSpec, e execution) error {
	if e.State != stateRunning {
		return nil
	}
	raw, err := t.LoadSpec(ctx, s.Name)
	if err != nil {
		return err
	}
	was, err := spec.DecodeLoad(raw)
	if err != nil {
		return err
	}
	if diff := spec.DiffLoad(was, s); len(diff) > 0 {
		return fail(exitTaken, "load %[1]s is running with another spec:\n%[2]s\ncancel it (starter cancel load/%[1]s --wait) and start it again: it goes on from its positions", s.Name, strings.Join(diff, "\n"))
	}
	return nil
}

func (a *app) printLoad(s *spec.LoadSpec) error {
	if !a.json {
		return s.Effective(a.out)
	}
	raw, err := s.Encode()
	if err != nil {
		return err
	}
	a.print("%s\n", raw)
	return nil
}

// attendLoad follows a run, or prints its id.
func (a *app) attendLoad(ctx context.Context, t loadServer, name, runID string, o loadOptions) error {
	id := workflows.LoadRootID(name)
	if o.wait {
		return a.watchLoad(ctx, t, name, runID)
	}
	if ok, err := t.Worker(ctx); err == nil && !ok {
		a.say("no worker is polling queue %s; start one with bin/worker", workflows.QueueMain)
	}
	if a.json {
		return a.printJSON(map[string]string{"id": id, "run_id": runID})
	}
	a.print("%s\n", id)
	return nil
}

// loadEnding is how a run ended.
type loadEnding struct {
	state   string
	summary *contract.LoadsSummary
	err     error
}

// watchLoad shows progress until the run has ended, and prints the result.
func (a *app) watchLoad(ctx context.Context, t loadServer, name, runID string) error {
	e := a.followLoad(ctx, t, workflows.LoadRootID(name), runID)
	if ctx.Err() != nil {
		fmt.Fprintf(a.err, "detached: load %[1]s goes on\n  to come back: starter load --name %[1]s\n  to look:      starter status load/%[1]s\n  to stop it:   starter cancel load/%[1]s\n", name)
		return exit(exitDetached)
	}
	return a.loadResult(e, name)
}

func (a *app) followLoad(ctx context.Context, t loadServer, id, runID string) loadEnding {
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan loadEnding, 1)
	go func() {
		state, s, err := t.WaitLoad(wctx, id, runID)
		done <- loadEnding{state, s, err}
	}()
	d := &display{a: a}
	defer d.clear()
	told := map[string]bool{}
	for {
		select {
		case e := <-done:
			return e
		case <-ctx.Done():
			<-done // it ends with its context; it must not outlive us
			return loadEnding{err: ctx.Err()}
		case <-a.world.after(askEvery):
			a.tickLoad(wctx, t, id, d, told)
		}
	}
}

// tickLoad asks once and shows the answer. A query that fails is no error of
// the load: workers restart, servers move.
func (a *app) tickLoad(ctx context.Context, t loadServer, id string, d *display, told map[string]bool) {
	if a.quiet {
		return
	}
	st, err := t.LoadStatus(ctx, id)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.update(id + ": " + waiting(err))
		return
	}
	for _, trouble := range st.Trouble {
		key := troubleKey(trouble)
		if !told[key] && len(told) < 100 {
			told[key] = true
			d.say("%s: waits: %s", id, clean(trouble))
		}
	}
	d.update(loadLine(id, st, a.world.now()))
}

// troubleKey is a trouble without its attempts, so that it is told once.
func troubleKey(s string) string {
	head, tail, ok := strings.Cut(s, ", attempt ")
	if !ok {
		return s
	}
	_, reason, _ := strings.Cut(tail, ": ")
	return head + reason
}

// loadResult prints how a run ended, and gives the exit code.
func (a *app) loadResult(e loadEnding, name string) error {
	if e.err != nil {
		return e.err
	}
	if e.summary == nil {
		code := exitFailed
		if e.state == stateCancelled {
			code = exitCancelled
		}
		return fail(code, "load %s was %s; starter load --name %s lets it go on", name, past(e.state), name)
	}
	if a.json {
		if err := a.printJSON(e.summary); err != nil {
			return err
		}
	} else {
		a.print("%s", loadSummaryText(*e.summary))
	}
	switch l := e.summary.Ledger; {
	case e.state == stateCancelled:
		return exit(exitCancelled)
	case l.Errors > 0 || l.Lost > 0 || l.Missing() != 0:
		a.say("what failed: starter errors %s", name)
		return exit(exitPages)
	}
	return nil
}
