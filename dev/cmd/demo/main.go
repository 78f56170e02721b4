// Command demo shows trawl on this machine, with the programs that "make
// build-dev" and "make build" left in a directory.
//
//	demo        crawls the bundled sample site on a stack of its own, compares
//	            every page with what is expected of it, and stops everything
//	demo up     starts the stack and a worker, and leaves them running; what
//	            follows "up" goes to trawl-dev, for example -temporal-port 0
//	demo down   stops what "demo up" started, by process id
//
// It owns the processes that it starts and refuses to touch any other. Exit
// codes: 0 as expected, 1 not, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the program at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options are what all commands share.
type options struct {
	bin    string // directory of the programs
	data   string // of "up": where everything is kept
	stdout io.Writer
	stderr io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := options{stdout: stdout, stderr: stderr}
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.bin, "bin", "bin", "`directory` of trawl-dev, worker and starter")
	fs.StringVar(&o.data, "data", defaultDataDir(), "`directory` of up and down")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return err
	}
	o.bin = bin
	switch fs.Arg(0) {
	case "":
		return o.demo(ctx)
	case "up":
		return o.up(ctx, fs.Args()[1:])
	case "down":
		return o.down(ctx)
	}
	fmt.Fprintf(stderr, "demo: unknown command %q: want none, up or down\n", fs.Arg(0))
	return errUsage
}

// defaultDataDir is the one that worker and starter use by default.
func defaultDataDir() string {
	if dir := os.Getenv("TRAWL_DATA_DIR"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "trawl")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ".trawl"
	}
	return filepath.Join(home, ".local", "share", "trawl")
}
