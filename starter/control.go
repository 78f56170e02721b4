package main

import (
	"context"

	"github.com/spf13/cobra"
)

// steer sends an update to a crawl under way and confirms it.
func (a *app) steer(ctx context.Context, name, update string, arg any, done string) error {
	t, err := a.world.temporal(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.Update(ctx, name, update, arg); err != nil {
		return err
	}
	return a.confirm(name, done)
}

// confirm says what was done, as data or as a sentence.
func (a *app) confirm(name, done string) error {
	if a.json {
		return a.printJSON(map[string]string{"name": name, "done": done})
	}
	a.say("crawl %s: %s", name, done)
	return nil
}

// named is a command about one crawl.
func named(use, short string, run func(cmd *cobra.Command, name string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, args[0]) },
	}
}
