package main

import (
	"context"
	"errors"
	"strings"

	"go.temporal.io/sdk/client"

	"trawl/workflows"
)

// dialLoads is dialTemporal for the commands about loads.
func dialLoads(ctx context.Context, opts client.Options) (loadServer, error) {
	t, err := dialTemporal(ctx, opts)
	if err != nil {
		return nil, err
	}
	return t.(*temporalClient), nil
}

// isLoad: names with a kind before them are loaders; others are crawls, if
// there is one.
func isLoad(name string) bool { return strings.Contains(name, "/") }

// statusID is the workflow of the loaders that status is asked about.
func statusID(name string) string {
	if crawl, ok := strings.CutSuffix(name, "/load"); ok {
		name = crawl
	}
	return loadID(name)
}

func (a *app) statusLoad(ctx context.Context, name string, follow bool) error {
	t, err := a.world.loads(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	id := statusID(name)
	e, err := t.DescribeLoad(ctx, id)
	if err != nil {
		return err
	}
	load, root := workflows.LoadRootName(id)
	switch {
	case e.State == stateNone && !isLoad(name):
		return fail(exitNotFound, "there is no crawl and no load %s; starter list shows those that exist", name)
	case e.State == stateNone:
		return fail(exitNotFound, "there is no %s; starter list shows what exists", id)
	case follow && root && e.State == stateRunning:
		return a.watchLoad(ctx, t, load, e.RunID)
	case e.State == stateRunning || !root:
		return a.loadNow(ctx, t, id, e.State)
	}
	state, sum, err := t.WaitLoad(ctx, id, e.RunID)
	if err != nil {
		return err
	}
	if sum == nil {
		a.print("load %s: its last run was %s; starter load --name %s lets it go on\n", load, past(state), load)
		return nil
	}
	if a.json {
		return a.printJSON(map[string]any{"name": id, "state": state, "load_summary": sum})
	}
	a.print("%s", loadSummaryText(*sum))
	return nil
}

func (a *app) loadNow(ctx context.Context, t loadServer, id, state string) error {
	st, err := t.LoadStatus(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(report{Name: id, State: state, Load: &st})
	}
	a.print("%s", loadText(id, st, a.world.now()))
	return nil
}

// runningLoads asks every load under way. One silence is enough: without a
// worker each query waits its time out.
func (a *app) runningLoads(ctx context.Context) (reports []report, err error) {
	t, err := a.world.loads(ctx)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	list, err := t.ListLoads(ctx, maxList)
	if err != nil {
		return nil, err
	}
	var problem error
	for _, e := range list {
		if e.State != stateRunning {
			continue
		}
		r := report{Name: e.Name, State: e.State}
		var ee *exitError
		if errors.As(problem, &ee) && ee.code == exitNoWorker {
			r.Trouble = silence
		} else if st, err := t.LoadStatus(ctx, e.Name); err != nil {
			problem, r.Trouble = err, err.Error()
		} else {
			r.Load = &st
		}
		reports = append(reports, r)
	}
	return reports, problem
}

// loadRows are the loads in the list.
func (a *app) loadRows(ctx context.Context) (rows []listed, err error) {
	t, err := a.world.loads(ctx)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	list, err := t.ListLoads(ctx, maxList)
	for _, e := range list {
		rows = append(rows, listed{execution: e})
	}
	return rows, err
}

func (a *app) cancelLoad(ctx context.Context, name string, wait bool) error {
	load, ok := workflows.LoadRootName(name)
	if !ok {
		return fail(exitUsage, "%s is no load: write load/NAME, or cancel the crawl", name)
	}
	t, err := a.world.loads(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	e, err := t.DescribeLoad(ctx, name)
	if err != nil {
		return err
	}
	if e.State != stateRunning {
		return fail(exitNotFound, "%s is not running", name)
	}
	if err := t.CancelLoad(ctx, name); err != nil {
		return err
	}
	if !wait {
		a.say("%s: cancel requested; starter status %s tells when it has ended", name, name)
		return nil
	}
	if err := a.watchLoad(ctx, t, load, e.RunID); exitCode(err, true) != exitCancelled {
		return err
	}
	return nil // it is what was asked for
}
