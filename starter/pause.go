package main

import (
	"github.com/spf13/cobra"

	"trawl/workflows"
)

func (a *app) pauseCmd() *cobra.Command {
	return named("pause", "Let no request begin until resume", func(cmd *cobra.Command, name string) error {
		if isLoad(name) {
			return a.order(cmd.Context(), name, workflows.UpPause, nil, "paused; starter resume "+name+" lets it go on")
		}
		return a.steer(cmd.Context(), name, workflows.UpPause, nil, "paused; starter resume "+name+" lets it go on")
	})
}
