package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"trawl/internal/spec"
)

func (a *app) deleteCmd() *cobra.Command {
	var o deletion
	cmd := named("delete", "Delete what a crawl, or load/NAME, left in Kafka and its index", func(cmd *cobra.Command, name string) error {
		if isLoad(name) {
			return a.deleteLoad(cmd.Context(), name, o)
		}
		if o.keepIndex || o.file != "" {
			return fail(exitUsage, "--keep-index and --file are for load/NAME; %s means a crawl", name)
		}
		return a.connected(cmd.Context(), func(t temporalServer, st store) error {
			return a.delete(cmd.Context(), t, st, name, o.yes)
		})
	})
	cmd.Long = `Delete everything that a crawl, all generations of it, left in Kafka and in its
sink. It asks for the name first. A delete that was interrupted can be repeated.

load/NAME means a load: its errors topic, its positions and the index that its
spec names go; the topics that it reads stay, and so do an alias, a data stream and
indexes that documents name themselves.`
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&o.keepIndex, "keep-index", false, "of a load: leave its index as it is")
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "of a load that Temporal has forgotten: its spec")
	return cmd
}

func (a *app) delete(ctx context.Context, t temporalServer, st store, name string, yes bool) error {
	e, err := t.Describe(ctx, name)
	if err != nil {
		return err
	}
	if e.State == stateRunning {
		return fail(exitTaken, "crawl %s is running: cancel it first (starter cancel %s --wait)", name, name)
	}
	gens, err := st.Generations(ctx, name)
	if err != nil {
		return err
	}
	if len(gens) == 0 {
		return fail(exitNotFound, "there is no crawl %[1]s (a load would be load/%[1]s); starter list shows those that exist", name)
	}
	if !yes {
		var topics []string
		for _, g := range gens {
			topics = append(topics, g.Topics...)
		}
		if err := a.confirmDelete("crawl "+name+" with its index", name, topics); err != nil {
			return err
		}
	}
	for _, g := range gens {
		if err := a.deleteGeneration(ctx, st, g); err != nil {
			return err
		}
	}
	return a.confirm(name, fmt.Sprintf("deleted, %d generation(s)", len(gens)))
}

// confirmDelete shows what goes and wants the name typed.
func (a *app) confirmDelete(what, name string, topics []string) error {
	fmt.Fprintf(a.err, "this deletes %s and these topics:\n", what)
	for _, topic := range topics {
		fmt.Fprintln(a.err, "  "+topic)
	}
	fmt.Fprintf(a.err, "type %s to go on: ", name)
	line, err := bufio.NewReader(io.LimitReader(a.in, 256)).ReadString('\n')
	if err != nil && line == "" {
		return fail(exitUsage, "nothing was deleted: nobody answered; --yes deletes without asking")
	}
	if strings.TrimSpace(line) != name {
		return fail(exitUsage, "nothing was deleted: %q is not the name", strings.TrimSpace(line))
	}
	return nil
}

// deleteGeneration removes the index first: the topics hold the spec that says
// where it is, so an interrupted delete can be repeated.
func (a *app) deleteGeneration(ctx context.Context, st store, g generation) error {
	if g.Shards > 0 {
		s, err := st.AnySpec(ctx, g)
		if err != nil {
			return err
		}
		if s != nil && s.Sink.Kind != spec.SinkNone {
			if err := a.dropIndex(ctx, s.Sink, g); err != nil {
				return err
			}
		}
	}
	return st.Delete(ctx, g)
}

func (a *app) dropIndex(ctx context.Context, s spec.Sink, g generation) error {
	admin, err := a.world.sink(s.Kind)
	if err != nil {
		return err
	}
	if err := admin.Drop(ctx, s.Index, g.Index(s.Index)); err != nil {
		err = a.sinkError(s, g.Crawl, err)
		var ee *exitError
		code := exitFailed
		if errors.As(err, &ee) {
			code = ee.code
		}
		return fail(code, "its topics are kept: %w", err)
	}
	return nil
}
