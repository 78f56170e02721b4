// Command bench measures trawl beside other crawlers, on a site that it serves
// itself, and prints a table; all numbers go into a JSON file. Or it takes
// profiles of trawl's worker. It only wires: package runner says how.
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
	fs.StringVar(&c.Peers, "peers", "", "`directory` of the peers, as make bench-peers leaves it; empty: none")
	fs.StringVar(&c.RealStack, "realstack", "deploy/realstack", "`directory` of the scripts that start a real broker")
	fs.StringVar(&c.Dir, "dir", "", "`directory` for the data of runs; empty: that for temporary files")
	fs.StringVar(&c.Web, "web", "", "`name` of the site: "+runner.WebNames())
	fs.IntVar(&c.Pages, "pages", 0, "pages of the site; 0, here and below: what the site has by itself")
	fs.IntVar(&c.Links, "links", 0, "links of a page")
	fs.IntVar(&c.Size, "size", 0, "mean bytes of a page")
	fs.IntVar(&c.Rounds, "rounds", 0, "times that every contender runs")
	fs.DurationVar(&c.Limit, "limit", 0, "time after which a run is given up")
	only := fs.String("only", "", "`names` of contenders, separated by commas; empty: those of the site")
	also := fs.String("also", "", "`names` of contenders that run besides those of the site")
	out := fs.String("json", "dist/bench.json", "`file` for all numbers")
	profile := fs.String("profile", "", "write profiles of the worker into this `directory` instead")
	seconds := fs.Int("seconds", 8, "how long a profile lasts")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: it takes flags only", fs.Arg(0))
	}
	if *profile != "" {
		return runner.Profile(ctx, c, *seconds, *profile, stdout)
	}
	c.Only, c.Also = list(*only), list(*also)
	report, err := runner.Measure(ctx, c)
	if report == nil {
		return err
	}
	report.Finish()
	return errors.Join(err, report.WriteText(stdout), write(*out, report))
}

func list(names string) []string {
	return strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
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
