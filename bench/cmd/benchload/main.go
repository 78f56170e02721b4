// Command benchload measures the loader beside the simplest program that does
// the same, on servers that run already.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"

	"trawl/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchload:", err)
		os.Exit(1) //nolint:gocritic // nothing of the defer matters at the end
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("benchload", flag.ContinueOnError)
	brokers := f.String("brokers", "127.0.0.1:9092", "Kafka, host:port")
	elastic := f.String("elastic", "", "OpenSearch or Elasticsearch, a URL; none: SQLite only")
	small := f.Int("small", 1_000_000, "messages of 1 KB; 0: none")
	large := f.Int("large", 200_000, "messages of 5 KB; 0: none")
	inSQLite := f.Int("sqlite", 100_000, "messages of 1 KB into SQLite; 0: none")
	rounds := f.Int("rounds", 3, "rounds that count, after one that does not")
	partitions := f.Int("partitions", 4, "partitions of the topic, and so loaders")
	count := f.Int("batch-count", 5000, "documents of a batch")
	size := f.Int("batch-bytes", 5<<20, "bytes of a batch")
	profile := f.String("cpuprofile", "", "file for a profile of all legs")
	only := f.String("only", "", "names of the legs to run, separated by commas; none: all")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *profile != "" {
		out, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer out.Close()
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	dir, err := os.MkdirTemp("", "benchload-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg := load.Config{
		Brokers: strings.Split(*brokers, ","), Elastic: *elastic, Dir: dir, Rounds: *rounds, Partitions: *partitions,
		BatchBytes: *size, BatchCount: *count, SQLite: *inSQLite, Only: *only,
	}
	for _, s := range []load.Size{{Bytes: 1 << 10, Count: *small}, {Bytes: 5 << 10, Count: *large}} {
		if s.Count > 0 {
			cfg.Sizes = append(cfg.Sizes, s)
		}
	}
	return load.Run(ctx, cfg, os.Stdout)
}
