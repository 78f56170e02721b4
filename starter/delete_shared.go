package main

import (
	"context"

	"trawl/internal/contract"
	"trawl/internal/spec"
	"trawl/workflows"
)

// othersIndex refuses to delete the index of a load into which another one, that was
// not deleted, loads too: it would lose its documents and go on behind them. Only
// loads that Temporal remembers can be asked, at most maxList of them.
func (a *app) othersIndex(ctx context.Context, t loadServer, st store, s *spec.LoadSpec) error {
	if s.Sink.DataStream { // it stays in any case
		return nil
	}
	list, err := t.ListLoads(ctx, maxList)
	if err != nil {
		return err
	}
	for _, e := range list {
		name, ok := workflows.LoadRootName(e.Name)
		if !ok || name == s.Name {
			continue
		}
		shares, unknown := a.shares(ctx, t, st, name, s.Sink)
		if !shares && unknown == nil {
			continue
		}
		switch there, err := isThere(ctx, st, name, e); {
		case err != nil:
			return err
		case there && unknown != nil:
			return fail(exitCode(unknown, true), "nothing was deleted: whether load/%s loads into %s, too, is not known: %w; --keep-index leaves the index as it is", name, s.Sink.Index, unknown)
		case there:
			return fail(exitTaken, "nothing was deleted: load/%[1]s loads into the index %[2]s (%[3]s), too; starter delete load/%[4]s --keep-index deletes the rest and leaves the index to load/%[1]s", name, s.Sink.Index, s.Sink.Kind, s.Name)
		}
	}
	return nil
}

// shares: a load's spec names the same index, in the same place.
func (a *app) shares(ctx context.Context, t loadServer, st store, name string, with spec.LoadSink) (bool, error) {
	raw, err := t.LoadSpec(ctx, name)
	if exitCode(err, true) == exitNotFound {
		return false, nil // forgotten since it was listed
	}
	if err != nil {
		return false, err
	}
	s, err := spec.DecodeLoad(raw)
	if err != nil || s.Sink.Kind != with.Kind || s.Sink.Index != with.Index {
		return false, err
	}
	// In another data directory it is another index.
	elsewhere, _, err := a.elsewhere(ctx, st, with.Kind, contract.LoadRun(name), contract.TopicErrors)
	return elsewhere == "", err
}

// isThere: a load runs, or was not deleted since it did.
func isThere(ctx context.Context, st store, name string, e execution) (bool, error) {
	if e.State == stateRunning {
		return true, nil
	}
	topics, err := st.LoadTopics(ctx, name)
	return len(topics) > 0, err
}
