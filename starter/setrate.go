package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/spec"
	"trawl/workflows"
)

// What CrawlWorkflow accepts.
const (
	maxParallelism = 64
	maxDelay       = time.Hour
)

func (a *app) setRateCmd() *cobra.Command {
	var delay spec.Duration
	var parallelism int
	cmd := named("set-rate", "Change delay and parallelism of a crawl under way", func(cmd *cobra.Command, name string) error {
		if isLoad(name) {
			return fail(exitUsage, "a load has no delay: use starter load set-rate %s --rate RECORDS", verbName(loadID(name)))
		}
		if parallelism < 0 || parallelism > maxParallelism {
			return fail(exitUsage, "--parallelism %d is not between 1 and %d", parallelism, maxParallelism)
		}
		if delay.Std() > maxDelay {
			return fail(exitUsage, "--delay %s is longer than %s: pause the crawl instead", delay, spec.Duration(maxDelay))
		}
		rate := contract.Rate{DelayMS: delay.Std().Milliseconds(), Parallelism: parallelism}
		if delay > 0 && delay < spec.Duration(time.Millisecond) {
			return fail(exitUsage, "--delay %s is shorter than a millisecond: write 0s or at least 1ms", delay)
		}
		done := fmt.Sprintf("one request to a host every %s from now on", delay)
		if delay == 0 {
			done = "no delay between requests to a host from now on"
		}
		return a.steer(cmd.Context(), name, workflows.UpSetRate, rate, done)
	})
	cmd.Flags().Var(&delay, "delay", "time between two requests to a host (required)")
	cmd.Flags().IntVar(&parallelism, "parallelism", 0, "requests to a host at once; 0 leaves it as it is")
	if err := cmd.MarkFlagRequired("delay"); err != nil {
		panic(err) // the flag is three lines above
	}
	return cmd
}
