// Command bench measures trawl beside other crawlers, on one site that it
// serves itself, and prints a table; all numbers go into a JSON file. It only
// wires: package runner says how it measures.
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
	"strings"
	"syscall"
	"time"

	"trawl/bench/runner"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := runner.Config{Log: stderr}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&c.Bin, "bin", "bin", "`directory` of the programs")
	fs.StringVar(&c.Dir, "dir", "", "`directory` for the data of runs; empty: that for temporary files")
	fs.IntVar(&c.Pages, "pages", 20000, "pages of the site")
	fs.IntVar(&c.Links, "links", 40, "links of a page")
	fs.IntVar(&c.Size, "size", 20000, "mean bytes of a page")
	fs.IntVar(&c.Rounds, "rounds", 3, "times that every contender runs")
	fs.DurationVar(&c.Limit, "limit", 5*time.Minute, "time after which a run is given up")
	only := fs.String("only", "", "`names` of contenders, separated by commas; empty: all")
	out := fs.String("json", "dist/bench.json", "`file` for all numbers")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: it takes flags only", fs.Arg(0))
	}
	c.Only = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	report, err := runner.Measure(ctx, c)
	if report == nil {
		return err
	}
	report.Finish()
	return errors.Join(err, report.WriteText(stdout), write(*out, report))
}

func write(path string, r *runner.Report) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.WriteJSON(f)
}
