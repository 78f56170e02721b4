package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/spec"
)

func (a *app) deleteCmd() *cobra.Command {
	var o deletion
	cmd := named("delete", "Delete what a crawl, or load/NAME, left in Kafka and its index", func(cmd *cobra.Command, name string) error {
		if isLoad(name) {
			return a.deleteLoad(cmd.Context(), name, o)
		}
		if o.file != "" {
			return fail(exitUsage, "--file is for load/NAME; %s means a crawl", name)
		}
		return a.connected(cmd.Context(), func(t temporalServer, st store) error {
			return a.delete(cmd.Context(), t, st, name, o)
		})
	})
	cmd.Long = `Delete everything that a crawl, all generations of it, left in Kafka and in its
sink. It asks for the name first. A delete that was interrupted can be repeated.
An index of SQLite, and files, are deleted where they are: TRAWL_DATA_DIR has to be
that of the workers that wrote them.

load/NAME means a load: its errors topic, its positions and the index that its
spec names go; the topics that it reads stay, and so do an alias, a data stream and
indexes that documents name themselves.`
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&o.keepIndex, "keep-index", false, "leave the index as it is")
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "of a load that Temporal has forgotten: its spec")
	return cmd
}

func (a *app) delete(ctx context.Context, t temporalServer, st store, name string, o deletion) error {
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
	gone, away, err := a.toDelete(ctx, st, gens, o.keepIndex)
	if err != nil {
		return err
	}
	with, done := " with its index", ""
	if o.keepIndex {
		with, done = ", but not its index,", "; its index stays"
	}
	if !o.yes {
		var topics []string
		for _, g := range gone {
			topics = append(topics, g.Topics...)
		}
		if err := a.confirmDelete("crawl "+name+with, name, topics); err != nil {
			return err
		}
	}
	for _, g := range gone {
		if err := a.deleteGeneration(ctx, st, g); err != nil {
			return err
		}
	}
	done = fmt.Sprintf("deleted, %d generation(s)%s", len(gone), done)
	if away != nil {
		return fail(exitCode(away, true), "%s: %s, others are not: %w", name, done, away)
	}
	return a.confirm(name, done)
}

// doomed is a generation that is to be deleted.
type doomed struct {
	generation
	sink *spec.Sink // of its index; nil: it has none that is known, or that stays
}

// toDelete finds the indexes of generations. Those whose index is in another data
// directory are left out, for away to say why: each directory can delete its own.
// If that is all of them it is the error.
func (a *app) toDelete(ctx context.Context, st store, gens []generation, keepIndex bool) (gone []doomed, away, err error) {
	found := false
	for _, g := range gens {
		d := doomed{generation: g}
		if !keepIndex {
			if d.sink, err = sinkOf(ctx, st, g); err != nil {
				return nil, nil, err
			}
		}
		if d.sink != nil {
			what := fmt.Sprintf("crawl %s, generation %s,", g.Crawl, g.Generation)
			elsewhere, err := a.ownIndex(ctx, st, d.sink.Kind, g.Run, contract.TopicPages, what)
			if err != nil {
				return nil, nil, err
			}
			if elsewhere != nil {
				away = elsewhere
				continue
			}
			found = true
		}
		gone = append(gone, d)
	}
	if away != nil && !found {
		return nil, nil, fail(exitCode(away, true), "nothing was deleted: %w", away)
	}
	return gone, away, nil
}

// sinkOf says where the index of a generation is; nil if it has none that is known.
func sinkOf(ctx context.Context, st store, g generation) (*spec.Sink, error) {
	if g.Shards == 0 {
		return nil, nil
	}
	s, err := st.AnySpec(ctx, g)
	if err != nil || s == nil || s.Sink.Kind == spec.SinkNone {
		return nil, err
	}
	return &s.Sink, nil
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
func (a *app) deleteGeneration(ctx context.Context, st store, g doomed) error {
	if g.sink != nil {
		if err := a.dropIndex(ctx, *g.sink, g.generation); err != nil {
			return err
		}
	}
	return st.Delete(ctx, g.generation)
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
