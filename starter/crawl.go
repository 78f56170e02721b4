package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/spec"
	"trawl/internal/weburl"
	"trawl/workflows"
)

// startTries bounds how often a start that lost a race is decided again.
const startTries = 3

type crawlOptions struct {
	file   string
	again  bool
	dryRun bool
	wait   bool
	flags  *specFlags
}

func (a *app) crawlCmd() *cobra.Command {
	var o crawlOptions
	cmd := &cobra.Command{
		Use:   "crawl [URL...]",
		Short: "Start a crawl, attach to it, or let it go on",
		Long: `Start the crawl that the URLs, the spec file and the flags describe, and follow
it to its end. Flags win over the file.

The same name again: a crawl under way is attached to; one that was cancelled,
terminated or failed goes on where it was; of one that is complete the summary is
printed, unless a limit that ended it is higher now. --again begins a new
generation. With --name alone the stored spec is used.

Ctrl-C detaches; the crawl goes on.`,
		Example: `  starter crawl https://docs.example.org/ --pages 1000
  starter crawl -f spec.yaml --dry-run
  starter crawl --name docs-example-org`,
		RunE: func(cmd *cobra.Command, urls []string) error {
			return a.crawl(cmd.Context(), o, urls)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "spec file in YAML; - for standard input")
	f.BoolVar(&o.again, "again", false, "begin a new generation, whatever is there of that name")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the effective spec and what would happen; start nothing")
	f.BoolVar(&o.wait, "wait", true, "follow the crawl to its end; false prints the workflow id")
	o.flags = addSpecFlags(f)
	return cmd
}

func (a *app) crawl(ctx context.Context, o crawlOptions, urls []string) error {
	s, byName, err := a.buildSpec(o, urls)
	if err != nil {
		return err
	}
	if byName {
		return a.byName(ctx, o, s)
	}
	if err := finish(s); err != nil {
		return err
	}
	if o.dryRun {
		return a.dryRun(ctx, s, o)
	}
	for _, n := range s.Notes() {
		a.say("note: %s", n)
	}
	return a.connected(ctx, func(t temporalServer, st store) error {
		return a.launch(ctx, t, st, s, o)
	})
}

// finish completes and validates the spec, and compiles its scope, so that no
// worker will find it impossible later.
func finish(s *spec.Spec) error {
	if err := s.Finish(); err != nil {
		return err
	}
	if _, err := weburl.NewScope(s.Scope, s.Seeds.URLs); err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	return nil
}

// buildSpec reads file and flags. byName: nothing says what to crawl but a
// name.
func (a *app) buildSpec(o crawlOptions, urls []string) (s *spec.Spec, byName bool, err error) {
	s = spec.New()
	if o.file != "" {
		if s, err = a.readSpec(o.file); err != nil {
			return nil, false, err
		}
	}
	if len(urls) > 0 {
		if err := o.flags.seed(urls); err != nil {
			return nil, false, err
		}
	}
	if err := o.flags.apply(s); err != nil {
		return nil, false, err
	}
	none := len(s.Seeds.URLs)+len(s.Seeds.Files)+len(s.Seeds.Sitemaps) == 0
	return s, o.file == "" && none && s.Name != "", nil
}

// readSpec reads the spec file of a crawl; "-" is standard input.
func (a *app) readSpec(file string) (*spec.Spec, error) {
	name, data, err := a.readFile(file)
	if err != nil {
		return nil, err
	}
	return spec.Parse(name, data)
}

// readFile reads a spec file, and answers the name that its problems are
// reported under.
func (a *app) readFile(file string) (name string, data []byte, err error) {
	in, name := a.in, "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", nil, fail(exitUsage, "the spec cannot be read: %w", err)
		}
		defer f.Close()
		in, name = f, file
	}
	data, err = io.ReadAll(io.LimitReader(in, spec.MaxFile+1))
	if err != nil {
		return "", nil, fail(exitUsage, "the spec cannot be read: %w", err)
	}
	return name, data, nil
}

// byName takes the stored spec of a crawl, with the flags over it.
func (a *app) byName(ctx context.Context, o crawlOptions, named *spec.Spec) error {
	return a.connected(ctx, func(t temporalServer, st store) error {
		f, err := lookUp(ctx, t, st, named.Name)
		if err != nil {
			return err
		}
		if f.Spec == nil {
			return fail(exitNotFound, "there is no crawl %s: name at least one URL or a spec file to start it", named.Name)
		}
		s := f.Spec.Copy()
		if err := o.flags.apply(s); err != nil {
			return err
		}
		if err := finish(s); err != nil {
			return err
		}
		if o.dryRun {
			return a.plan(s, f, o)
		}
		return a.launch(ctx, t, st, s, o)
	})
}

// connected dials both servers and lets go of them afterwards.
func (a *app) connected(ctx context.Context, do func(temporalServer, store) error) error {
	t, err := a.world.temporal(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	st, err := a.world.store(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	return do(t, st)
}

// lookUp finds what there is of a name.
func lookUp(ctx context.Context, t temporalServer, st store, name string) (found, error) {
	var f found
	var err error
	if f.exec, err = t.Describe(ctx, name); err != nil {
		return f, err
	}
	gens, err := st.Generations(ctx, name)
	if err != nil {
		return f, err
	}
	if f.gen, f.has = current(gens); f.has {
		if f.stored, err = st.Stored(ctx, f.gen); err != nil {
			return f, err
		}
	}
	if f.running() {
		// Seed may not have stated it yet, or may be about to begin a new
		// generation: the run under way has the last word.
		if f.Spec, err = t.Spec(ctx, name); err != nil {
			return f, err
		}
	}
	return f, nil
}

// launch decides and acts. Somebody else may start the same name in between;
// then it is decided again.
func (a *app) launch(ctx context.Context, t temporalServer, st store, s *spec.Spec, o crawlOptions) error {
	for range startTries {
		f, err := lookUp(ctx, t, st, s.Name)
		if err != nil {
			return err
		}
		d, err := decide(s, f, o.again)
		if err != nil {
			return err
		}
		for _, n := range d.notes {
			a.say("note: %s", n)
		}
		runID := f.exec.RunID
		switch d.do {
		case show:
			a.say("crawl %s is complete; --again begins a new generation", s.Name)
			return a.result(ending{state: stateCompleted, summary: f.Summary}, s.Name)
		case begin, goOn:
			in, err := input(s, f, d)
			if err != nil {
				return err
			}
			runID, err = t.Start(ctx, s.Name, in)
			if errors.Is(err, errRunning) {
				continue
			}
			if err != nil {
				return err
			}
		}
		a.say("%s", announce(s.Name, d))
		return a.attend(ctx, t, s.Name, runID, o)
	}
	return fail(exitTaken, "crawl %s is started and ended by somebody else at the same time: try again", s.Name)
}

func announce(name string, d decision) string {
	id := workflows.CrawlID(name)
	switch d.do {
	case attach:
		return "attached to " + id + ", which is running"
	case goOn:
		return "going on with " + id + ": " + d.reason
	}
	return "started " + id
}

// attend follows a run, or prints its id.
func (a *app) attend(ctx context.Context, t temporalServer, name, runID string, o crawlOptions) error {
	if !o.wait {
		if ok, err := t.Worker(ctx); err == nil && !ok {
			a.say("no worker is polling queue %s; start one with bin/worker", workflows.QueueMain)
		}
		if a.json {
			return a.printJSON(map[string]string{"id": workflows.CrawlID(name), "run_id": runID})
		}
		a.print("%s\n", workflows.CrawlID(name))
		return nil
	}
	return a.watch(ctx, t, name, runID)
}

// watch waits for a worker, follows, and prints the result.
func (a *app) watch(ctx context.Context, t temporalServer, name, runID string) error {
	err := a.awaitWorker(ctx, t, workflows.QueueMain)
	e := ending{err: err}
	if err == nil {
		e = a.follow(ctx, t, name, runID)
	}
	if ctx.Err() != nil {
		fmt.Fprintf(a.err, "detached: crawl %[1]s goes on\n  to come back: starter crawl --name %[1]s\n  to look:      starter status %[1]s\n  to stop it:   starter cancel %[1]s\n", name)
		return exit(exitDetached)
	}
	return a.result(e, name)
}

// result prints how a run ended, and gives the exit code.
func (a *app) result(e ending, name string) error {
	if e.err != nil {
		return e.err
	}
	if e.summary == nil {
		switch e.state {
		case stateCancelled:
			return fail(exitCancelled, "crawl %s was cancelled; starter crawl --name %s lets it go on", name, name)
		}
		return fail(exitFailed, "crawl %s was %s; starter crawl --name %s lets it go on", name, past(e.state), name)
	}
	if a.json {
		if err := a.printJSON(e.summary); err != nil {
			return err
		}
	} else {
		a.print("%s", summaryText(*e.summary))
		a.next(*e.summary)
	}
	code := summaryCode(*e.summary)
	if e.state == stateCancelled {
		code = exitCancelled
	}
	return exit(code)
}

// next says what to do with the result.
func (a *app) next(s contract.Summary) {
	switch {
	case s.Outcome == contract.OutcomeCancelled:
		a.say("starter crawl --name %s lets it go on", s.Crawl)
	case s.Ledger.Loaded > 0 && s.Sink == spec.SinkFiles:
		a.say("its documents are JSONL files; where: starter search %s WORDS", s.Crawl)
	case s.Ledger.Loaded > 0:
		a.say("search it: starter search %s WORDS", s.Crawl)
	}
}

// dryRun prints the effective spec, and what would happen if the servers can
// be asked.
func (a *app) dryRun(ctx context.Context, s *spec.Spec, o crawlOptions) error {
	var f found
	err := a.connected(ctx, func(t temporalServer, st store) (err error) {
		f, err = lookUp(ctx, t, st, s.Name)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.say("note: whether the name %s is taken is not known: %v", s.Name, err)
	}
	return a.plan(s, f, o)
}

func (a *app) plan(s *spec.Spec, f found, o crawlOptions) error {
	d, refused := decide(s, f, o.again)
	if a.json {
		raw, err := s.Encode()
		if err != nil {
			return err
		}
		a.print("%s\n", raw)
	} else if err := s.Effective(a.out); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	for _, n := range d.notes {
		a.say("note: %s", n)
	}
	a.say("would %s: %s", verb(d.do), d.reason)
	if d.do == begin || d.do == goOn {
		a.say("would ask for robots.txt of %d host(s) and %d seed(s), and follow links in scope", len(s.Scope.Hosts), len(s.Seeds.URLs)+len(s.Seeds.Sitemaps))
	}
	return nil
}

func verb(do action) string {
	switch do {
	case begin:
		return "begin a new generation"
	case goOn:
		return "go on"
	case attach:
		return "attach"
	}
	return "print the summary"
}
