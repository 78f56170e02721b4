package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/spec"
	"trawl/workflows"
)

// loadID is the workflow of the loaders that a name means: a load's, or with
// crawl/ before it those of a crawl.
func loadID(name string) string {
	if crawl, ok := workflows.CrawlName(name); ok {
		return workflows.LoadsID(crawl)
	}
	if load, ok := workflows.LoadRootName(name); ok {
		name = load
	}
	return workflows.LoadRootID(name)
}

// verbName is the name that loadID makes an id of.
func verbName(id string) string {
	if name, ok := workflows.LoadRootName(id); ok {
		return name
	}
	return strings.TrimSuffix(id, "/load")
}

// order sends an update to loaders under way and confirms it.
func (a *app) order(ctx context.Context, name, update string, arg any, done string) error {
	t, err := a.world.loads(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	id := loadID(name)
	told := a.tellLater(ctx, id+": asked; it is answered when the slices under way have ended")
	err = t.UpdateLoad(ctx, id, update, arg)
	told()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"id": id, "done": done})
	}
	a.say("%s: %s", id, done)
	return nil
}

// patience is how long an order may take before it is said what it waits for.
const patience = 2 * time.Second

// tellLater says text if that much time passes before what it returns is called.
func (a *app) tellLater(ctx context.Context, text string) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if a.hold(ctx, patience) == nil {
			a.say("%s", text)
		}
	}()
	return func() { cancel(); <-ended }
}

func (a *app) loadVerbs() []*cobra.Command {
	verbs := []*cobra.Command{
		named("pause", "Let no slice begin until resume", func(cmd *cobra.Command, name string) error {
			return a.order(cmd.Context(), name, workflows.UpPause, nil, "paused; starter load resume "+name+" lets it go on")
		}),
		named("resume", "Let paused loaders go on", func(cmd *cobra.Command, name string) error {
			return a.order(cmd.Context(), name, workflows.UpResume, nil, "goes on")
		}),
		a.seekCmd(), a.skipCmd(), a.toErrorsCmd(), a.setBatchCmd(), a.setLoadRateCmd(),
	}
	for _, v := range verbs {
		v.Long = v.Short + ".\n\nNAME is that of a load; crawl/NAME means the loaders of a crawl."
	}
	return verbs
}

// target are the flags that name a partition.
type target struct {
	topic     string
	partition int
	reason    string
}

func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.topic, "topic", "", "topic of the load; leave it out for a crawl")
	cmd.Flags().IntVar(&t.partition, "partition", 0, "partition of the topic (required)")
	cmd.Flags().StringVar(&t.reason, "reason", "", "why; it stays in the history (required)")
	for _, f := range []string{"partition", "reason"} {
		if err := cmd.MarkFlagRequired(f); err != nil {
			panic(err) // the flags are just above
		}
	}
}

func (t *target) load() contract.LoadTarget {
	return contract.LoadTarget{Topic: t.topic, Partition: t.partition}
}

func (a *app) seekCmd() *cobra.Command {
	var t target
	var offset int64
	var at string
	cmd := named("seek", "Let a loader go on at another offset, or at a time", func(cmd *cobra.Command, name string) error {
		o := contract.SeekLoad{LoadTarget: t.load(), Offset: offset, Reason: t.reason}
		where := fmt.Sprintf("offset %d", offset)
		if at != "" {
			moment, err := time.Parse(time.RFC3339Nano, at)
			if err != nil {
				return fail(exitUsage, "--time %s is no time of RFC 3339: write 2026-01-31T00:00:00Z", at)
			}
			o.Time, where = moment.UTC(), moment.UTC().Format(time.RFC3339)
		} else if err := a.checkSeek(cmd.Context(), name, o); err != nil {
			return err
		}
		if ended, err := a.seekEnded(cmd.Context(), name, o); ended || err != nil {
			return err
		}
		return a.order(cmd.Context(), name, workflows.UpSeek, o, fmt.Sprintf("partition %d goes on at %s; its ledger begins there", t.partition, where))
	})
	t.flags(cmd)
	cmd.Flags().Int64Var(&offset, "offset", 0, "offset to go on at")
	cmd.Flags().StringVar(&at, "time", "", "the first record at or after this time, RFC 3339")
	cmd.MarkFlagsMutuallyExclusive("offset", "time")
	cmd.MarkFlagsOneRequired("offset", "time")
	return cmd
}

// seekEnded moves a load that has ended, where its next run begins: one that has
// reached its end would end again before it could be told. ended says whether it
// has, and err whether that failed.
func (a *app) seekEnded(ctx context.Context, name string, o contract.SeekLoad) (ended bool, err error) {
	id := loadID(name)
	load, root := workflows.LoadRootName(id)
	if !root {
		return false, nil
	}
	t, err := a.world.loads(ctx)
	if err != nil {
		return false, err
	}
	defer t.Close()
	e, err := t.DescribeLoad(ctx, id)
	if err != nil || e.State == stateRunning || e.State == stateNone {
		return false, err
	}
	if !o.Time.IsZero() || o.Offset < 0 {
		return true, fail(exitUsage, "%s is not running: give the --offset, from 0 on, at which its next run begins", id)
	}
	st, err := a.world.store(ctx)
	if err != nil {
		return true, err
	}
	defer st.Close()
	if err := st.SeekLoad(ctx, load, o); err != nil {
		if errors.Is(err, errNoPosition) {
			return true, fail(exitUsage, "%s has not read topic %q partition %d: sources[].start says where it begins", id, o.Topic, o.Partition)
		}
		return true, err
	}
	done := fmt.Sprintf("partition %d begins at offset %d when the load runs again: starter load --name %s", o.Partition, o.Offset, load)
	if a.json {
		return true, a.printJSON(map[string]string{"id": id, "done": done})
	}
	a.say("%s: %s", id, done)
	return true, nil
}

// SeekLoad begins another range, as a loader does that is told.
func (s *kafkaStore) SeekLoad(ctx context.Context, name string, o contract.SeekLoad) error {
	group := contract.LoadRootGroup(s.prefix, name)
	at, text, ok, err := s.log.Committed(ctx, group, o.Topic, o.Partition)
	if err != nil || !ok {
		return s.translate(ctx, "read the position of load "+name, cmp.Or(err, errNoPosition))
	}
	var note contract.LoadNote
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		note = contract.LoadNote{} // another program set it
	}
	reason := strings.ToValidUTF8(o.Reason[:min(len(o.Reason), maxMovedReason)], "")
	note.Moved = fmt.Sprintf("moved from offset %d to %d: %s", at, o.Offset, reason)
	note.Start, note.Before = o.Offset, note.Ledger
	raw, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return s.translate(ctx, "move load "+name, s.log.Commit(ctx, group, o.Topic, o.Partition, o.Offset, string(raw)))
}

// maxMovedReason in bytes: metadata of a position is small.
const maxMovedReason = 100

// checkSeek refuses an offset after the end of the log: the loader would wait
// there for records, or count as done. Validators do no I/O, so it is asked here.
func (a *app) checkSeek(ctx context.Context, name string, o contract.SeekLoad) error {
	if _, crawl := workflows.CrawlName(name); crawl || o.Topic == "" {
		return nil // the topics of a crawl are not named by people
	}
	log, err := a.world.errors(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	topics, err := log.Topics(ctx, o.Topic)
	if err != nil || o.Partition < 0 || o.Partition >= topics[o.Topic] {
		return err // what is no partition of the load is refused by the load
	}
	_, end, err := log.Bounds(ctx, o.Topic, o.Partition)
	if err != nil {
		return err
	}
	if o.Offset > end {
		return fail(exitUsage, "--offset %d is after the end of %s[%d], where the next record gets offset %d: give at most that", o.Offset, o.Topic, o.Partition, end)
	}
	return nil
}

func (a *app) skipCmd() *cobra.Command {
	return a.leaveOutCmd("skip", "Leave offsets out; they count as skipped", workflows.UpSkip, "skipped")
}

func (a *app) toErrorsCmd() *cobra.Command {
	return a.leaveOutCmd("to-errors", "Send the record that stops a loader to the errors topic", workflows.UpToErrors, "sent to the errors topic")
}

func (a *app) leaveOutCmd(use, short, update, done string) *cobra.Command {
	var t target
	var o contract.SkipLoad
	cmd := named(use, short, func(cmd *cobra.Command, name string) error {
		o.LoadTarget, o.Reason, o.By = t.load(), t.reason, a.world.operator()
		text := fmt.Sprintf("offset %d", o.Offset)
		if o.Through > o.Offset {
			text = fmt.Sprintf("offsets %d to %d", o.Offset, o.Through)
		}
		return a.order(cmd.Context(), name, update, o, fmt.Sprintf("%s of partition %d will be %s", text, t.partition, done))
	})
	t.flags(cmd)
	cmd.Flags().Int64Var(&o.Offset, "offset", 0, "the offset (required)")
	cmd.Flags().Int64Var(&o.Through, "through", 0, "the last of several offsets")
	if err := cmd.MarkFlagRequired("offset"); err != nil {
		panic(err) // the flag is two lines above
	}
	return cmd
}

func (a *app) setBatchCmd() *cobra.Command {
	var size string
	var b contract.Batching
	cmd := named("set-batch", "Change how much loaders write at once", func(cmd *cobra.Command, name string) error {
		if size != "" {
			n, err := spec.ParseSize(size)
			if err != nil {
				return fail(exitUsage, "--bytes %w", err)
			}
			b.Bytes = n
		}
		return a.order(cmd.Context(), name, workflows.UpSetBatch, b, "the next writes are of that size")
	})
	cmd.Flags().StringVar(&size, "bytes", "", "documents of one write, for example 2MiB; without it what the spec says")
	cmd.Flags().IntVar(&b.Count, "count", 0, "records of one write; 0 for what the spec says")
	cmd.MarkFlagsOneRequired("bytes", "count")
	return cmd
}

func (a *app) setLoadRateCmd() *cobra.Command {
	var rate float64
	cmd := named("set-rate", "Change how many records a second are loaded", func(cmd *cobra.Command, name string) error {
		done := fmt.Sprintf("at most %v records a second from now on", rate)
		if rate == 0 {
			done = "no limit of the rate from now on"
		}
		return a.order(cmd.Context(), name, workflows.UpSetRate, contract.LoadRate{Records: rate}, done)
	})
	cmd.Flags().Float64Var(&rate, "rate", 0, "records a second of all partitions together; 0 for no limit (required)")
	if err := cmd.MarkFlagRequired("rate"); err != nil {
		panic(err) // the flag is two lines above
	}
	return cmd
}
