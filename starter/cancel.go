package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) cancelCmd() *cobra.Command {
	var wait bool
	cmd := named("cancel", "End a crawl or load in order; it can go on later", func(cmd *cobra.Command, name string) error {
		if isLoad(name) {
			return a.cancelLoad(cmd.Context(), name, wait)
		}
		return a.cancel(cmd.Context(), name, wait)
	})
	cmd.Long = "NAME is that of a crawl; load/NAME is a load. No request starts any more, what was\nfetched is loaded, and the crawl ends with outcome cancelled. A load ends after the\nslices under way. starter crawl --name NAME, or starter load --name NAME, lets it go\non later."
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it has ended")
	return cmd
}

func (a *app) cancel(ctx context.Context, name string, wait bool) error {
	t, err := a.world.temporal(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	e, err := t.Describe(ctx, name)
	if err != nil {
		return err
	}
	if e.State != stateRunning {
		return fail(exitNotFound, "crawl %[1]s is not running (a load is ended by starter cancel load/%[1]s)", name)
	}
	if err := t.Cancel(ctx, name); err != nil {
		return err
	}
	if !wait {
		return a.confirm(name, "cancel requested; starter status "+name+" tells when it has ended")
	}
	if err := a.watch(ctx, t, name, e.RunID); exitCode(err, true) != exitCancelled {
		return err
	}
	return nil // it is what was asked for
}
