package main

import (
	"github.com/spf13/cobra"

	"trawl/workflows"
)

func (a *app) resumeCmd() *cobra.Command {
	return named("resume", "Let a paused crawl go on", func(cmd *cobra.Command, name string) error {
		if isLoad(name) {
			return a.order(cmd.Context(), name, workflows.UpResume, nil, "goes on")
		}
		return a.steer(cmd.Context(), name, workflows.UpResume, nil, "goes on")
	})
}
