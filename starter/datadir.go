package main

import (
	"context"

	"trawl/internal/contract"
	"trawl/internal/settings"
	"trawl/internal/spec"
	"trawl/workflows"
)

// elsewhere is the id of the data directory that holds the index of a local sink,
// if that is another one than ours, and the id of ours; empty: it is here, or
// nobody ever said where.
func (a *app) elsewhere(ctx context.Context, st store, kind string, run contract.Run, topic string) (id, mine string, err error) {
	if !spec.LocalSink(kind) {
		return "", "", nil
	}
	queue, err := st.IndexQueue(ctx, run, topic)
	if err != nil {
		return "", "", err
	}
	id, ok := workflows.DataID(queue)
	if !ok {
		return "", "", nil
	}
	if mine, err = settings.DataDirID(a.set.DataDir); err != nil || id == mine {
		return "", mine, err
	}
	return id, mine, nil
}

// ownIndex says why an index cannot be deleted here: it is in another data
// directory, so that "deleted" would be said of nothing and it would stay for ever.
// what names whose it is. nil: it can.
func (a *app) ownIndex(ctx context.Context, st store, kind string, run contract.Run, topic, what string) (elsewhere, err error) {
	id, mine, err := a.elsewhere(ctx, st, kind, run, topic)
	if err != nil || id == "" {
		return nil, err
	}
	has := "has the id " + mine
	if mine == "" {
		has = "has none: no worker has used it"
	}
	return fail(exitUsage, "the index (%s) of %s is in the data directory whose file id says %s, and %s %s; run this where that directory is, with %s set to it, or leave the index as it is with --keep-index",
		kind, what, id, a.set.DataDir, has, settings.DataDir), nil
}

func (s *kafkaStore) IndexQueue(ctx context.Context, run contract.Run, topic string) (string, error) {
	_, queue, _, err := s.log.Committed(ctx, run.QueueGroup(s.prefix), run.Topic(s.prefix, topic), 0)
	return queue, s.translate(ctx, "read where the index is", err)
}
