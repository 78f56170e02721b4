package main

import (
	"github.com/spf13/cobra"

	"trawl/workflows"
)

func (a *app) resumeCmd() *cobra.Command {
	return named("resume", "Let a paused crawl go on", func(cmd *cobra.Command, name string) error {
		return a.steer(cmd.Context(), name, workflows.UpResume, nil, "goes on")
	})
}
