// Command trawl-dev runs what trawl needs around it on a laptop or in a test:
// a Temporal server, its Web UI and a Kafka broker, in one process, on
// 127.0.0.1, persistent in one directory. It is not for production.
//
// It prints one line per endpoint and then "ready". SIGINT or SIGTERM stops it
// cleanly, a second signal at once; kill -9 loses nothing that was acknowledged.
//
// Exit codes: 0 stopped as asked, 1 failed, 2 wrong usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"trawl/dev/stack"
)

// errUsage marks errors of the command line; the flag package has said more.
var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// From the first signal on the next one has its default effect.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "trawl-dev:", err)
		os.Exit(1)
	}
}

// run the stack until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if c.version {
		_, err := fmt.Fprintln(stdout, stack.Version())
		return err
	}
	// A file of an earlier run must not pass for this one's.
	if err := removeEndpoints(c.endpoints); err != nil {
		return err
	}
	s, err := stack.Start(ctx, c.stack)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // asked to stop before it was up
		}
		return err
	}
	defer func() { err = errors.Join(err, removeEndpoints(c.endpoints), s.Close()) }()

	if err := announce(stdout, c.endpoints, s.Endpoints()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// command is what the command line asks for.
type command struct {
	stack     stack.Options
	endpoints string // file to write the endpoints to, or empty
	version   bool
}

func parse(args []string, stderr io.Writer) (command, error) {
	var c command
	f := flag.NewFlagSet("trawl-dev", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.stack.DataDir, "data", defaultDataDir(), "`directory` that everything is kept in")
	f.IntVar(&c.stack.TemporalPort, "temporal-port", stack.DefaultTemporalPort, "`port` of the Temporal server; 0 for any free one")
	f.IntVar(&c.stack.UIPort, "ui-port", stack.DefaultUIPort, "`port` of the Web UI; 0 for any free one")
	f.IntVar(&c.stack.KafkaPort, "kafka-port", stack.DefaultKafkaPort, "`port` of the Kafka broker; 0 for any free one")
	f.StringVar(&c.endpoints, "json-endpoints", "", "`file` that is written when all is ready and removed at the end")
	f.BoolVar(&c.version, "version", false, "print the versions of the servers and exit")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, errUsage
		}
		return c, fmt.Errorf("%w: %w", errUsage, err)
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "trawl-dev: unexpected argument %q: it takes flags only (--help lists them)\n", f.Arg(0))
		return c, errUsage
	}
	return c, nil
}

// defaultDataDir is a directory of the user, below TRAWL_DATA_DIR if that is set.
func defaultDataDir() string {
	if dir := os.Getenv("TRAWL_DATA_DIR"); dir != "" {
		return filepath.Join(dir, "dev")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "trawl", "dev")
	}
	return filepath.Join(".trawl", "dev")
}

// endpointsFile is the content of --json-endpoints.
type endpointsFile struct {
	stack.Endpoints
	PID int `json:"pid"`
}

// announce tells machines by the file, then people by the lines.
func announce(stdout io.Writer, file string, e stack.Endpoints) error {
	if file != "" {
		text, err := json.MarshalIndent(endpointsFile{e, os.Getpid()}, "", "  ")
		if err != nil {
			return err
		}
		if err := stack.WriteFileAtomic(file, append(text, '\n')); err != nil {
			return fmt.Errorf("write --json-endpoints: %w", err)
		}
	}
	_, err := fmt.Fprintf(stdout, "Temporal  %s\nWeb UI    %s\nKafka     %s\nData      %s\nready\n",
		e.Temporal, e.UI, e.Kafka, e.Data)
	return err
}

func removeEndpoints(file string) error {
	if file == "" {
		return nil
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove --json-endpoints: %w", err)
	}
	return nil
}
