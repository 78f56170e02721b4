package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"golang.org/x/term"

	"trawl/activities"
	"trawl/internal/kafkalog"
	"trawl/internal/settings"
	"trawl/internal/sink"
	"trawl/internal/sink/elastic"
	"trawl/internal/sink/files"
	"trawl/internal/sink/sqlite"
	"trawl/workflows"
)

// version is set by the linker.
var version = "dev"

// run is the program; it ends when ctx does, after a drain.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "run workflows and activities of trawl until SIGTERM; a second signal exits at once",
		Long: "worker takes work from Temporal: seeding, folding shards, fetching, loading.\n" +
			"It is configured by environment variables only:\n\n" + variables(),
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: version,
		RunE: func(*cobra.Command, []string) error { return serve(ctx, environ, stderr) },
	}
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd.Execute()
}

// variables is the table of the environment for the help text.
func variables() string {
	var b strings.Builder
	for _, v := range settings.Table() {
		fmt.Fprintf(&b, "  %s\n      %s", v.Name, v.Doc)
		if v.Default != "" {
			fmt.Fprintf(&b, " Default: %s.", v.Default)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// serve waits for the servers, works, and drains.
func serve(ctx context.Context, environ []string, stderr io.Writer) error {
	env := settings.Env(environ)
	conf, err := settings.Load(env.Get)
	if err != nil {
		return err
	}
	if unknown := settings.Unknown(environ); len(unknown) > 0 {
		return fmt.Errorf("unknown variables %s: see worker --help for those that exist", strings.Join(unknown, ", "))
	}
	log := newLogger(stderr, conf.LogLevel)
	health, err := listen(conf.HTTPAddr, conf.HTTPAddrGiven)
	if err != nil {
		return err
	}
	defer health.close()
	log.Info("health and metrics", "url", health.url())

	dataID, err := dataDirID(conf.DataDir)
	if err != nil {
		return err
	}
	klog, err := kafkalog.Open(kafkaConfig(conf))
	if err != nil {
		return err
	}
	defer klog.Close()
	options, err := settings.Temporal(environ)
	if err != nil {
		return err
	}
	queue := workflows.WorkerQueue(randomID())
	options.Identity, options.Logger = queue, temporallog.NewStructuredLogger(log.With("part", "temporal"))
	tc, err := dialAll(ctx, log, options, klog, conf.KafkaBrokers)
	if err != nil || tc == nil {
		return err
	}
	defer tc.Close()

	scratch, err := os.MkdirTemp("", "trawl-worker-")
	if err != nil {
		return fmt.Errorf("make a scratch folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	acts := activities.New(activities.Config{
		Temporal: tc, Log: klog, Prefix: conf.TopicPrefix, Replication: conf.Replication,
		Queue: queue, AcquireOn: workflows.QueueAcquire, DataQueue: workflows.DataQueue(dataID),
		SharedQueue: workflows.QueueMain, Scratch: scratch, Sink: sinks(conf), Logger: log,
		BadSpec: workflows.ErrTypeBadSpec, BadTopics: workflows.ErrTypeTopics, Released: workflows.SigReleased,
	})
	defer acts.Close()
	return work(ctx, tc, acts, queue, workflows.DataQueue(dataID), health, log)
}

func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

func kafkaConfig(s settings.Settings) kafkalog.Config {
	return kafkalog.Config{
		Brokers: s.KafkaBrokers, ClientID: "trawl-worker", TLS: s.KafkaTLS.Config(),
		Login: kafkalog.Login{Mechanism: s.KafkaSASL, Username: s.KafkaUsername, Password: s.KafkaPassword.Reveal()},
	}
}

func elasticConfig(s settings.Settings) elastic.Config {
	return elastic.Config{
		URL: s.ElasticURL.Reveal(), TLS: s.ElasticTLS.Config(), Username: s.ElasticUsername,
		Password: s.ElasticPassword.Reveal(), APIKey: s.ElasticAPIKey.Reveal(),
	}
}

// sinks opens the admin of each kind once.
func sinks(conf settings.Settings) func(kind string) (sink.Admin, error) {
	overElastic := sync.OnceValues(func() (sink.Admin, error) {
		return elastic.New(elasticConfig(conf))
	})
	return func(kind string) (sink.Admin, error) {
		switch kind {
		case "sqlite":
			return sqlite.New(conf.DataDir), nil
		case "files":
			return files.New(conf.DataDir), nil
		case "elastic":
			if conf.ElasticURL == "" {
				return nil, fmt.Errorf("sink.kind is elastic, but %s is not set on this worker", settings.ElasticURL)
			}
			return overElastic()
		}
		return nil, fmt.Errorf("sink.kind: %q; it must be sqlite, elastic, files or none", kind)
	}
}

// dialAll waits for Kafka and Temporal, saying so; nil without error when ctx
// ended first.
func dialAll(ctx context.Context, log *slog.Logger, o client.Options, klog *kafkalog.Log, brokers []string) (client.Client, error) {
	var tc client.Client
	err := waitFor(ctx, log, "Temporal at "+o.HostPort, func(ctx context.Context) (err error) {
		tc, err = client.DialContext(ctx, o)
		return err
	})
	if err == nil {
		err = waitFor(ctx, log, fmt.Sprintf("Kafka at %v", brokers), klog.Ping)
	}
	if errors.Is(err, context.Canceled) {
		return nil, nil
	}
	return tc, err
}

func waitFor(ctx context.Context, log *slog.Logger, what string, try func(context.Context) error) error {
	wait := 500 * time.Millisecond
	for {
		tctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := try(tctx)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		log.Warn("waiting for "+what+"; start the embedded stack with: make up", "error", err, "next_try", wait.String())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, 10*time.Second)
	}
}

func randomID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x", b)
}

// dataDirID is the id kept in the data directory: every worker that has the
// directory polls the queue of that id.
func dataDirID(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("data directory %s (%s): %w", dir, settings.DataDir, err)
	}
	name := filepath.Join(dir, settings.DataDirFile)
	for range 3 {
		if id, err := settings.DataDirID(dir); err != nil || id != "" {
			return id, err
		}
		tmp := name + "." + randomID()
		if err := os.WriteFile(tmp, []byte(randomID()), 0o644); err != nil {
			return "", fmt.Errorf("data directory %s (%s) is not writable: %w", dir, settings.DataDir, err)
		}
		err := os.Link(tmp, name) // the first one wins
		_ = os.Remove(tmp)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("data directory %s: %w", dir, err)
		}
	}
	return "", fmt.Errorf("data directory %s: file id is empty; remove it", dir)
}
