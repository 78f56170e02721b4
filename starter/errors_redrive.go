package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/redrive"
	"trawl/internal/spec"
	"trawl/workflows"
)

const (
	defaultMost  = 3   // redrives in vain before a record is refused
	discardBatch = 500 // resolutions appended at once
	maxReason    = 500 // bytes of a discard's reason
)

// selectOptions say which open failures are meant.
type selectOptions struct {
	all     bool
	classes []string
	id      string
}

func (o *selectOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.classes, "class", nil, "open failures of this error class, by name or number; repeatable")
	f.StringVar(&o.id, "id", "", "the failure with this id")
}

// selection checks that exactly one way of selecting was taken.
func (o *selectOptions) selection(ways string) (contract.RedriveSelect, error) {
	given := 0
	for _, b := range []bool{o.all, len(o.classes) > 0, o.id != ""} {
		if b {
			given++
		}
	}
	if given != 1 {
		return contract.RedriveSelect{}, fail(exitUsage, "say which failures: exactly one of %s", ways)
	}
	classes, err := parseClasses(o.classes)
	return contract.RedriveSelect{All: o.all, Classes: classes, ID: o.id, Most: defaultMost}, err
}

type redriveOptions struct {
	selectOptions
	rate   string
	most   int
	force  bool
	dryRun bool
	detach bool
	file   string
}

func (a *app) redriveCmd() *cobra.Command {
	var o redriveOptions
	cmd := named("redrive", "Send open failures once more, after their cause is gone", func(cmd *cobra.Command, name string) error {
		sel, err := o.selection("--all, --class and --id")
		if err != nil {
			return err
		}
		rate, err := parseRate(o.rate)
		if err != nil {
			return err
		}
		if o.most < 1 || o.most > 100 {
			return fail(exitUsage, "--most %d is not between 1 and 100", o.most)
		}
		sel.Most, sel.Force = o.most, o.force
		return a.withErrors(cmd, name, func(log errorTopics, at failed) error {
			if o.dryRun {
				return a.planRedrive(cmd.Context(), log, at, sel)
			}
			if err := knownID(cmd.Context(), log, at, sel.ID); err != nil {
				return err
			}
			return a.redrive(cmd.Context(), at, sel, rate, o)
		})
	})
	cmd.Long = "A redrive sends the original records through the same transform and to the same\nindex as the loader did, under the same ids and versions. It takes what is in the\nerrors topic when it begins. Whatever fails again stays open, with one redrive\nmore; a record that was redriven --most times in vain is refused. Ctrl-C detaches."
	o.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "all open failures")
	f.StringVar(&o.rate, "rate", "", "at most so many records: 50/s, 30/m")
	f.IntVar(&o.most, "most", defaultMost, "refuse what was redriven so often in vain, 1 to 100")
	f.BoolVar(&o.force, "force", false, "take also what was redriven --most times in vain")
	f.BoolVar(&o.dryRun, "dry-run", false, "tell what would be taken, and start nothing")
	f.BoolVarP(&o.detach, "detach", "d", false, "return as soon as it runs")
	f.StringVarP(&o.file, "file", "f", "", "the load.yaml to use, for a load (default: that of its last start)")
	return cmd
}

// planned is the answer of a dry run.
type planned struct {
	Name    string           `json:"name"`
	Taken   int64            `json:"taken"`
	Refused int64            `json:"refused"`
	Classes map[string]int64 `json:"classes"` // of those taken
}

func (a *app) planRedrive(ctx context.Context, log errorTopics, at failed, sel contract.RedriveSelect) error {
	res := planned{Name: at.name, Classes: map[string]int64{}}
	err := redrive.Each(ctx, log, at.topic, at.partitions, func(e redrive.Entry) error {
		switch {
		case !redrive.Pending(sel, e.Status) || !redrive.Takes(sel, &e.Failure):
		case redrive.Refused(sel, &e.Failure):
			res.Refused++
		default:
			res.Taken++
			res.Classes[e.Class.String()]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(res)
	}
	a.print("would take %s\n", withParts(res.Taken, res.Classes))
	if res.Refused > 0 {
		a.print("would refuse %s: redriven %d times in vain; --force takes them\n", thousands(res.Refused), sel.Most)
	}
	return nil
}

func (a *app) redrive(ctx context.Context, at failed, sel contract.RedriveSelect, rate float64, o redriveOptions) error {
	in := contract.RedriveInput{Name: at.name, Select: sel, Rate: rate}
	t, err := a.world.redrives(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	switch {
	case at.kind == kindLoad && o.file != "":
		in.Load, err = a.loadFile(o.file, at.name)
	case at.kind == kindLoad:
		in.Load, err = t.LoadSpec(ctx, at.name)
	case o.file != "":
		err = fail(exitUsage, "--file %s: crawl %s keeps its spec itself", o.file, at.name)
	default:
		in.Run, err = a.crawlRun(ctx, at)
	}
	if err != nil {
		return err
	}
	n, err := startNext(ctx, t, in)
	if err != nil {
		return err
	}
	a.say("%s is running; starter errors status %s tells how far, pause, resume and cancel steer it", workflows.RedriveID(at.name, n), at.name)
	if o.detach {
		return nil
	}
	return a.followRedrive(ctx, t, at.name, n)
}

// loadFile reads the spec of a load from a file.
func (a *app) loadFile(file, name string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fail(exitUsage, "--file: %w", err)
	}
	s, err := spec.ParseLoad(file, data)
	if err != nil {
		return nil, err
	}
	if s.Name != name {
		return nil, fail(exitUsage, "--file %s is the load %s, not %s", file, s.Name, name)
	}
	return s.Encode()
}

// crawlRun is the generation with the spec that counts now.
func (a *app) crawlRun(ctx context.Context, at failed) (contract.Run, error) {
	st, err := a.world.store(ctx)
	if err != nil {
		return at.gen.Run, err
	}
	defer st.Close()
	kept, err := st.Stored(ctx, at.gen)
	if err != nil {
		return at.gen.Run, err
	}
	if kept.Spec == nil {
		return at.gen.Run, fail(exitNotFound, "crawl %s has not been seeded: nothing of it can have failed", at.name)
	}
	run := at.gen.Run
	run.SpecAt = kept.SpecAt
	return run, nil
}

// startNext starts the redrive after the latest one, if that has ended. Two
// that try at once take the same number, and one of them is refused.
func startNext(ctx context.Context, t redriveServer, in contract.RedriveInput) (int, error) {
	n, state, err := t.LatestRedrive(ctx, in.Name)
	if err != nil {
		return 0, err
	}
	if n > 0 && state == stateRunning {
		return 0, runningAlready(in.Name, n)
	}
	err = t.StartRedrive(ctx, in.Name, n+1, in)
	if errors.Is(err, errRunning) {
		return 0, runningAlready(in.Name, n+1)
	}
	return n + 1, err
}

func runningAlready(name string, n int) error {
	return fail(exitTaken, "%s is running: wait for its end, or end it with starter errors cancel %s", workflows.RedriveID(name, n), name)
}

// followRedrive shows progress until the redrive has ended or ctx is done.
func (a *app) followRedrive(ctx context.Context, t redriveServer, name string, n int) error {
	type end struct {
		state string
		st    *contract.RedriveStatus
		err   error
	}
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan end, 1)
	go func() {
		state, st, err := t.WaitRedrive(wctx, name, n)
		done <- end{state, st, err}
	}()
	d := &display{a: a}
	defer d.clear()
	for {
		select {
		case e := <-done:
			d.clear()
			if e.err != nil {
				return e.err
			}
			return a.redriveEnded(name, n, e.state, e.st)
		case <-a.world.after(askEvery):
			st, err := t.RedriveStatus(wctx, name, n)
			switch {
			case wctx.Err() != nil:
			case err != nil:
				d.update(workflows.RedriveID(name, n) + ": " + waiting(err))
			default:
				d.update(redriveLine(name, n, st))
			}
		}
	}
}

// redriveLine is a line of progress.
func redriveLine(name string, n int, st contract.RedriveStatus) string {
	c := st.Counts
	line := fmt.Sprintf("%s: %s, %s taken, %s failed again", workflows.RedriveID(name, n), st.State, thousands(c.Taken), thousands(c.Failed))
	if st.Left >= 0 {
		line += ", " + thousands(st.Left) + " left"
	}
	if st.Retry.Error != "" {
		line += fmt.Sprintf("; %s, class %d %s, attempt %d: %s", st.Retry.State, st.Retry.Class, classOf(st.Retry.Class), st.Retry.Attempts, clean(st.Retry.Error))
	}
	return line
}

// redriveEnded prints the summary and chooses the exit code.
func (a *app) redriveEnded(name string, n int, state string, st *contract.RedriveStatus) error {
	if st == nil {
		return fail(exitFailed, "%s ended %s without a summary; starter errors redrive begins another one that goes on", workflows.RedriveID(name, n), state)
	}
	if a.json {
		if err := a.printJSON(st); err != nil {
			return err
		}
	} else {
		a.print("%s", redriveText(n, st))
	}
	switch {
	case st.State == contract.RedriveCancelled:
		return exit(exitCancelled)
	case st.Counts.Failed > 0 || st.Counts.Refused > 0:
		return exit(exitPages)
	}
	return nil
}

func redriveText(n int, st *contract.RedriveStatus) string {
	var b strings.Builder
	c := st.Counts
	took := ""
	if !st.Ended.IsZero() {
		took = " in " + lapse(st.Ended.Sub(st.Started))
	}
	fmt.Fprintf(&b, "%s: %s%s\n", workflows.RedriveID(st.Name, n), st.State, took)
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	row := func(name string, count int64, note string) {
		fmt.Fprintf(w, "  %s\t%s%s\n", name, thousands(count), note)
	}
	row("taken", c.Taken, "")
	row("loaded", c.Loaded, "")
	row("superseded", c.Superseded, "")
	row("no document", c.NoDocument, "")
	note := ""
	if c.Failed > 0 {
		note = "; starter errors histogram " + st.Name + " says why"
	}
	row("failed again", c.Failed, note)
	note = ""
	if c.Refused > 0 {
		note = fmt.Sprintf("; redriven %d times in vain, --force takes them", st.Select.Most)
	}
	row("refused", c.Refused, note)
	if st.Left >= 0 {
		row("left", st.Left, "")
	}
	_ = w.Flush() // into memory
	if st.Retry.Error != "" {
		fmt.Fprintf(&b, "  waits in %s, class %d %s, attempt %d: %s\n", st.Retry.State, st.Retry.Class, classOf(st.Retry.Class), st.Retry.Attempts, clean(st.Retry.Error))
	}
	return b.String()
}

// redriveVerbs steer the latest redrive of a name.
func (a *app) redriveVerbs() []*cobra.Command {
	verb := func(use, short string, run func(ctx context.Context, t redriveServer, name string, n int, state string) error) *cobra.Command {
		return named(use, short, func(cmd *cobra.Command, name string) error {
			t, err := a.world.redrives(cmd.Context())
			if err != nil {
				return err
			}
			defer t.Close()
			n, state, err := t.LatestRedrive(cmd.Context(), name)
			if err != nil {
				return err
			}
			if n == 0 {
				return fail(exitNotFound, "%s was never redriven, or it is forgotten; starter errors redrive %s begins", name, name)
			}
			return run(cmd.Context(), t, name, n, state)
		})
	}
	update := func(update, done string) func(context.Context, redriveServer, string, int, string) error {
		return func(ctx context.Context, t redriveServer, name string, n int, _ string) error {
			if err := t.UpdateRedrive(ctx, name, n, update); err != nil {
				return err
			}
			return a.redriveDone(name, n, done)
		}
	}
	return []*cobra.Command{
		verb("status", "Tell how far the latest redrive is, or how it ended", func(ctx context.Context, t redriveServer, name string, n int, state string) error {
			return a.redriveStatus(ctx, t, name, n, state)
		}),
		verb("watch", "Show the progress of the latest redrive until it has ended", func(ctx context.Context, t redriveServer, name string, n int, _ string) error {
			return a.followRedrive(ctx, t, name, n)
		}),
		verb("pause", "Let the redrive under way send nothing until resume", update(workflows.UpPause, "paused")),
		verb("resume", "Let a paused redrive go on", update(workflows.UpResume, "goes on")),
		verb("cancel", "End the redrive under way in order; another one goes on where it ended", func(ctx context.Context, t redriveServer, name string, n int, _ string) error {
			if err := t.CancelRedrive(ctx, name, n); err != nil {
				return err
			}
			return a.redriveDone(name, n, "cancel requested")
		}),
	}
}

func (a *app) redriveDone(name string, n int, done string) error {
	if a.json {
		return a.printJSON(map[string]string{"redrive": workflows.RedriveID(name, n), "done": done})
	}
	a.say("%s: %s", workflows.RedriveID(name, n), done)
	return nil
}

func (a *app) redriveStatus(ctx context.Context, t redriveServer, name string, n int, state string) error {
	if state != stateRunning {
		state, st, err := t.WaitRedrive(ctx, name, n)
		if err != nil {
			return err
		}
		return a.redriveEnded(name, n, state, st)
	}
	st, err := t.RedriveStatus(ctx, name, n)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(st)
	}
	a.print("%s", redriveText(n, &st))
	return nil
}

// discarded is the answer of discard.
type discarded struct {
	Name      string `json:"name"`
	Discarded int64  `json:"discarded"`
}

func (a *app) discardCmd() *cobra.Command {
	var o selectOptions
	var reason string
	cmd := named("discard", "Be done with open failures without loading them", func(cmd *cobra.Command, name string) error {
		sel, err := o.selection("--class and --id")
		if err != nil {
			return err
		}
		reason = strings.TrimSpace(reason)
		if reason == "" || len(reason) > maxReason {
			return fail(exitUsage, "--reason has %d bytes: say in 1 to %d why these are not wanted; it is kept with each", len(reason), maxReason)
		}
		return a.withErrors(cmd, name, func(log errorTopics, at failed) error {
			return a.discard(cmd.Context(), log, at, sel, reason)
		})
	})
	cmd.Long = "The records stay in the errors topic, and their originals in the source. They no\nlonger count as open, unless a loader states them once more."
	o.flags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why they are not wanted (required)")
	return cmd
}

// discard states a resolution for each. It may be repeated: what it stated no
// longer counts as open.
func (a *app) discard(ctx context.Context, log errorTopics, at failed, sel contract.RedriveSelect, reason string) error {
	res := discarded{Name: at.name}
	for p := range at.partitions {
		var batch []kafkalog.Record
		flush := func() error {
			if err := log.Append(ctx, at.topic, p, batch); err != nil {
				return fmt.Errorf("after %d: %w; repeat the command for the others", res.Discarded, err)
			}
			res.Discarded += int64(len(batch))
			batch = nil
			return nil
		}
		err := redrive.EachOf(ctx, log, at.topic, p, func(e redrive.Entry) error {
			if e.Status != redrive.Open || !redrive.Takes(sel, &e.Failure) {
				return nil
			}
			batch = append(batch, resolution(&e.Failure, ingest.Discarded, reason, a.world.now()))
			if len(batch) < discardBatch {
				return nil
			}
			return flush()
		})
		if err == nil && len(batch) > 0 {
			err = flush()
		}
		if err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(res)
	}
	a.say("%s %s: %s discarded", at.kind, at.name, thousands(res.Discarded))
	return nil
}

// resolution is the record that ends a failure.
func resolution(f *ingest.Failure, how, reason string, now time.Time) kafkalog.Record {
	out := *f
	out.Resolution, out.Type, out.Reason, out.Time = how, "", reason, now
	out.Pointer, out.Cut, out.Redrive = false, 0, ""
	out.Original = kafkalog.Record{Key: []byte(f.ID), Value: []byte{}}
	return out.Record(-1)
}
