// Command starter starts, watches and steers crawls, and answers questions
// about them. It decides nothing about a crawl beyond what its spec says: that
// is CrawlWorkflow's. It requests no pages and writes no facts.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
