// Command contender crawls a site with one of the crawlers that trawl is
// measured beside, and prints what it fetched as JSON. It is a process of its
// own, so that its CPU time and memory are its own; it measures nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"trawl/bench/contender"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "contender:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o contender.Options
	fs := flag.NewFlagSet("contender", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.Dir, "store", "", "write each page to a file in this `directory`, which exists")
	fs.TextVar(&o.Net, "net", netip.Prefix{}, "crawl all hosts that are addresses of this `network`, such as 127.1.0.0/16; none: the host of the URL")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 2 {
		return fmt.Errorf("%d arguments: want raw, colly or colly-cut, and a URL", fs.NArg())
	}
	o.Root = fs.Arg(1)
	crawl, ok := map[string]func(context.Context, contender.Options) (contender.Result, error){
		"raw": contender.Raw, "colly": contender.Colly, "colly-cut": contender.CollyCut,
	}[fs.Arg(0)]
	if !ok {
		return fmt.Errorf("contender is %q: want raw, colly or colly-cut", fs.Arg(0))
	}
	result, err := crawl(ctx, o)
	return errors.Join(err, json.NewEncoder(stdout).Encode(result))
}
