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
	var yes bool
	cmd := named("delete", "Delete the topics and indexes of a crawl, all generations", func(cmd *cobra.Command, name string) error {
		return a.connected(cmd.Context(), func(t temporalServer, st store) error {
			return a.delete(cmd.Context(), t, st, name, yes)
		})
	})
	cmd.Long = "Delete everything that a crawl left in Kafka and in its sink. It asks for the\nname first. A delete that was interrupted can be repeated."
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) delete(ctx context.Context, t temporalServer, st store, name string, yes bool) error {
	if isLoad(name) {
		return fail(exitUsage, "%s: only crawls can be deleted; what remains of a load are its index and the topic that starter errors reads", name)
	}
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
		return fail(exitNotFound, "there is no crawl %s; starter list shows those that exist", name)
	}
	if !yes {
		if err := a.confirmDelete(name, gens); err != nil {
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
func (a *app) confirmDelete(name string, gens []generation) error {
	fmt.Fprintf(a.err, "this deletes crawl %s with its index and these topics:\n", name)
	for _, g := range gens {
		for _, topic := range g.Topics {
			fmt.Fprintln(a.err, "  "+topic)
		}
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
