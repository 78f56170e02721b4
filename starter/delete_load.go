package main

import (
	"context"
	"errors"
	"fmt"

	"trawl/internal/contract"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/workflows"
)

// deletion says how much goes, and who was asked.
type deletion struct {
	yes       bool
	keepIndex bool
	file      string // spec of a load that Temporal has forgotten
}

// deleteLoad removes what a load left: its positions, its index and its errors
// topic. In this order an interrupted delete can be repeated, and a run in between
// begins anew, rather than go on with an index that is gone. The topics that it
// read are not its own.
func (a *app) deleteLoad(ctx context.Context, id string, o deletion) error {
	name, ok := workflows.LoadRootName(id)
	if !ok {
		return fail(exitUsage, "%s is no load: write load/NAME, or delete the crawl", id)
	}
	t, err := a.world.loads(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	st, err := a.world.store(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	e, err := t.DescribeLoad(ctx, id)
	if err != nil {
		return err
	}
	if e.State == stateRunning {
		return fail(exitTaken, "%[1]s is running: cancel it first (starter cancel %[1]s --wait)", id)
	}
	if err := noLoaderRuns(ctx, t, name); err != nil {
		return err
	}
	topics, err := st.LoadTopics(ctx, name)
	if err != nil {
		return err
	}
	if len(topics) == 0 {
		return fail(exitNotFound, "there is no %s, or it was deleted; starter list shows what exists", id)
	}
	s, err := a.specToDelete(ctx, t, name, o)
	if err != nil {
		return err
	}
	with := "its positions, but not its index,"
	var targets sink.Targets
	if s != nil {
		elsewhere, err := a.ownIndex(ctx, st, s.Sink.Kind, contract.LoadRun(name), contract.TopicErrors, id)
		if err != nil {
			return err
		}
		if elsewhere != nil {
			return fail(exitCode(elsewhere, true), "nothing was deleted: %w", elsewhere)
		}
		if err := a.othersIndex(ctx, t, st, s); err != nil {
			return err
		}
		if targets, err = a.targets(s.Sink.Kind); err != nil {
			return err
		}
		with = fmt.Sprintf("its positions, its index %s (%s)", s.Sink.Index, s.Sink.Kind)
	}
	if !o.yes {
		if err := a.confirmDelete(fmt.Sprintf("%s with %s", id, with), name, topics); err != nil {
			return err
		}
	}
	done := "deleted"
	if s != nil {
		if err := st.DeleteLoad(ctx, name, nil); err != nil {
			return err
		}
		if done, err = a.dropTarget(ctx, targets, s); err != nil {
			return err
		}
	}
	if err := st.DeleteLoad(ctx, name, topics); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"name": id, "done": done})
	}
	a.say("%s: %s", id, done)
	return nil
}

// specToDelete says where the index is; nil if that stays.
func (a *app) specToDelete(ctx context.Context, t loadServer, name string, o deletion) (*spec.LoadSpec, error) {
	switch {
	case o.keepIndex:
		return nil, nil
	case o.file != "":
		raw, err := a.loadFile(o.file, name)
		if err != nil {
			return nil, err
		}
		return spec.DecodeLoad(raw)
	}
	raw, err := t.LoadSpec(ctx, name)
	if err != nil {
		return nil, fail(exitCode(err, true), "%w; or --keep-index leaves its index as it is", err)
	}
	return spec.DecodeLoad(raw)
}

// noLoaderRuns: a loader that outlived its load would state its position, and
// write, after both were deleted.
func noLoaderRuns(ctx context.Context, t loadServer, name string) error {
	for n := 0; ; n++ {
		id := workflows.LoadRootLoaderID(name, n)
		e, err := t.DescribeLoad(ctx, id)
		if err != nil {
			return err
		}
		switch e.State {
		case "":
			return nil
		case stateRunning:
			return fail(exitTaken, "%s, a loader of it, is still running: wait for its end, or terminate it in the Temporal Web UI", id)
		}
	}
}

func (a *app) targets(kind string) (sink.Targets, error) {
	admin, err := a.world.sink(kind)
	if err != nil {
		return nil, err
	}
	targets, ok := admin.(sink.Targets)
	if !ok {
		return nil, fail(exitUsage, "a sink of kind %s has no index that can be deleted: --keep-index leaves it as it is", kind)
	}
	return targets, nil
}

// dropTarget removes the index of a load and tells what was done.
func (a *app) dropTarget(ctx context.Context, targets sink.Targets, s *spec.LoadSpec) (string, error) {
	dropped, err := targets.DropTarget(ctx, sink.Target{Name: s.Sink.Index, DataStream: s.Sink.DataStream, Template: s.Sink.Template})
	if err != nil {
		err = a.sinkError(spec.Sink{Kind: s.Sink.Kind, Index: s.Sink.Index}, "load "+s.Name, err)
		var ee *exitError
		code := exitFailed
		if errors.As(err, &ee) {
			code = ee.code
		}
		return "", fail(code, "its positions are deleted, its index and topics are not: %w; --keep-index leaves the index as it is", err)
	}
	if !dropped {
		return fmt.Sprintf("deleted, but %s, an alias or data stream, stays with what it holds", s.Sink.Index), nil
	}
	return "deleted with its index " + s.Sink.Index, nil
}

func (s *kafkaStore) LoadTopics(ctx context.Context, name string) ([]string, error) {
	errors := contract.LoadRun(name).Topic(s.prefix, contract.TopicErrors)
	topics, err := s.log.Topics(ctx, errors)
	if err != nil || topics[errors] == 0 {
		return nil, s.translate(ctx, "list topics", err)
	}
	return []string{errors}, nil
}

func (s *kafkaStore) DeleteLoad(ctx context.Context, name string, topics []string) error {
	groups := []string{contract.LoadRootGroup(s.prefix, name)}
	if len(topics) > 0 {
		groups = append(groups, contract.LoadRun(name).QueueGroup(s.prefix))
	}
	for _, group := range groups {
		if err := s.log.DeleteGroup(ctx, group); err != nil {
			return s.translate(ctx, "delete the positions of load "+name, err)
		}
	}
	return s.translate(ctx, "delete topics of load "+name, s.log.DeleteTopics(ctx, topics...))
}

func (s *kafkaStore) LoadBegan(ctx context.Context, name string) (bool, error) {
	began, err := s.log.AnyCommitted(ctx, contract.LoadRootGroup(s.prefix, name))
	return began, s.translate(ctx, "read the positions of load "+name, err)
}
