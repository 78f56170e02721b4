package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/redrive"
)

// errorTopics reads and appends to errors topics. Its errors are exitErrors
// where the cause is known.
type errorTopics interface {
	redrive.Log
	// Topics gives the partitions of the topics whose names begin with prefix.
	Topics(ctx context.Context, prefix string) (map[string]int, error)
	Append(ctx context.Context, topic string, partition int, recs []kafkalog.Record) error
	Close()
}

// Kinds of what has an errors topic.
const (
	kindCrawl = "crawl"
	kindLoad  = "load"
)

// failed is the errors topic of a crawl or load.
type failed struct {
	name, kind string
	gen        generation // of a crawl
	topic      string
	partitions int
}

func (a *app) errorsCmd() *cobra.Command {
	var o listOptions
	cmd := named("errors", "List, count, redrive and discard what could not be loaded", func(cmd *cobra.Command, name string) error {
		return a.listErrors(cmd, name, o)
	})
	cmd.Long = "List the open failures of a crawl or load, one line per record of its source,\nhowever often it failed. See docs/errors.md."
	o.flags(cmd)
	cmd.PersistentFlags().String("kind", "", "crawl or load, where both have the name")
	list := named("list", "List open failures (the default)", func(cmd *cobra.Command, name string) error {
		return a.listErrors(cmd, name, o)
	})
	o.flags(list)
	cmd.AddCommand(list, a.histogramCmd(), a.showErrorCmd(), a.redriveCmd(), a.discardCmd())
	cmd.AddCommand(a.redriveVerbs()...)
	for _, sub := range cmd.Commands() {
		a.marked(sub)
	}
	return cmd
}

// withErrors runs f with the errors topic of a name.
func (a *app) withErrors(cmd *cobra.Command, name string, f func(log errorTopics, at failed) error) error {
	kind, err := cmd.Flags().GetString("kind")
	if err != nil {
		return err
	}
	if kind != "" && kind != kindCrawl && kind != kindLoad {
		return fail(exitUsage, "--kind %s: it is %s or %s", kind, kindCrawl, kindLoad)
	}
	log, err := a.world.errors(cmd.Context())
	if err != nil {
		return err
	}
	defer log.Close()
	at, err := a.findErrors(cmd.Context(), log, name, kind)
	if err != nil {
		return err
	}
	return f(log, at)
}

// findErrors finds the errors topic of a crawl's current generation, or of a
// load.
func (a *app) findErrors(ctx context.Context, log errorTopics, name, kind string) (failed, error) {
	load := failed{name: name, kind: kindLoad, topic: contract.LoadRun(name).Topic(a.set.TopicPrefix, contract.TopicErrors)}
	topics, err := log.Topics(ctx, load.topic)
	if err != nil {
		return load, err
	}
	load.partitions = topics[load.topic]
	if kind == kindLoad || kind == "" && load.partitions > 0 {
		if load.partitions == 0 {
			return load, fail(exitNotFound, "load %s has no errors topic %s: it never ran, or was deleted", name, load.topic)
		}
		if kind == "" {
			if _, err := a.crawlErrors(ctx, log, name); err == nil {
				return load, fail(exitUsage, "%s is the name of a crawl and of a load: say --kind crawl or --kind load", name)
			}
		}
		return load, nil
	}
	return a.crawlErrors(ctx, log, name)
}

func (a *app) crawlErrors(ctx context.Context, log errorTopics, name string) (failed, error) {
	at := failed{name: name, kind: kindCrawl}
	topics, err := log.Topics(ctx, a.set.TopicPrefix+"."+name+".")
	if err != nil {
		return at, err
	}
	g, ok := current(generations(a.set.TopicPrefix, topics))
	if !ok {
		return at, fail(exitNotFound, "there is no crawl or load %s; starter list shows those that exist", name)
	}
	at.gen, at.topic = g, g.Topic(a.set.TopicPrefix, contract.TopicErrors)
	if at.partitions = topics[at.topic]; at.partitions == 0 {
		return at, fail(exitNotFound, "crawl %s has no errors topic %s: it was not seeded, or is being deleted", name, at.topic)
	}
	return at, nil
}

// parseClasses reads names and numbers of error classes.
func parseClasses(texts []string) ([]int, error) {
	var out []int
	for _, text := range texts {
		code, found := -1, false
		if n, err := strconv.Atoi(text); err == nil {
			code = n
		}
		for c := ingest.Class(0); !strings.HasPrefix(c.String(), "class-"); c++ {
			if c.String() == text || int(c) == code {
				out, found = append(out, int(c)), true
			}
		}
		if !found {
			return nil, fail(exitUsage, "--class %s: it is a number from 0 to 13 or a name such as %s; docs/loader.md has all", text, ingest.InvalidFormat)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// parseSince reads a time, or how long ago.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fail(exitUsage, "--since %s: give a duration such as 24h, or a time such as %s", text, now.UTC().Format(time.RFC3339))
	}
	return t, nil
}

// parseRate reads records a second: 50, 50/s or 30/m; "" is no limit.
func parseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	if unit == "m" {
		n /= 60
	}
	if err != nil || unit != "" && unit != "s" && unit != "m" || n < 0.1 || n > 1e6 {
		return 0, fail(exitUsage, "--rate %s: give records a second as 50 or 50/s, or a minute as 30/m; at least one in ten seconds", text)
	}
	return n, nil
}

// kafkaErrors is errorTopics by Kafka.
type kafkaErrors struct{ *kafkaStore }

func (s *kafkaStore) topicsWith(ctx context.Context, prefix string) (map[string]int, error) {
	topics, err := s.log.Topics(ctx, prefix)
	return topics, s.translate(ctx, "list topics", err)
}

func (k kafkaErrors) Topics(ctx context.Context, prefix string) (map[string]int, error) {
	return k.topicsWith(ctx, prefix)
}

func (k kafkaErrors) Bounds(ctx context.Context, topic string, partition int) (int64, int64, error) {
	first, end, err := k.log.Bounds(ctx, topic, partition)
	return first, end, k.translate(ctx, "read "+topic, err)
}

func (k kafkaErrors) ReadRange(ctx context.Context, topic string, partition int, from, end int64, fn func(kafkalog.Record) error) (int64, error) {
	var refused error
	next, err := k.log.ReadRange(ctx, topic, partition, from, end, func(r kafkalog.Record) error {
		refused = fn(r)
		return refused
	})
	if refused != nil {
		return next, refused
	}
	return next, k.translate(ctx, "read "+topic, err)
}

func (k kafkaErrors) Append(ctx context.Context, topic string, partition int, recs []kafkalog.Record) error {
	actx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := k.log.Append(actx, topic, partition, recs)
	return k.translate(ctx, fmt.Sprintf("append to %s", topic), err)
}
