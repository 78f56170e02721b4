package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/spec"
)

// generation is one life of a crawl as its topics show it.
type generation struct {
	contract.Run
	Topics []string // names, sorted
}

// stored is what a generation says about itself.
type stored struct {
	Spec    *spec.Spec        // nil: Seed has not stated it yet
	SpecAt  int64             // offset of that fact
	Summary *contract.Summary // nil: no run of it has ended in order
}

// store reads what remains of crawls in Kafka.
type store interface {
	Ping(ctx context.Context) error
	// Generations of one crawl, or of all for "", oldest first within a crawl.
	Generations(ctx context.Context, crawl string) ([]generation, error)
	// Stored folds the spec and the summary out of partition 0.
	Stored(ctx context.Context, g generation) (stored, error)
	// AnySpec is some spec of the generation, the first that is found: enough
	// for what never changes in one (scope, sink). nil: there is none.
	AnySpec(ctx context.Context, g generation) (*spec.Spec, error)
	// Facts gives the records of a shard from an offset on, up to its end of
	// now. Key and value are valid until fn returns; errStop ends the reading.
	Facts(ctx context.Context, g generation, shard int, from int64, fn func(offset int64, key, value []byte) error) error
	// Delete removes the topics.
	Delete(ctx context.Context, g generation) error
	// LoadTopics are the topics of a load's own, without those that it reads.
	LoadTopics(ctx context.Context, name string) ([]string, error)
	// DeleteLoad removes a load's positions and then the topics, if there are any,
	// with what says in which data directory its index is.
	DeleteLoad(ctx context.Context, name string, topics []string) error
	// LoadBegan tells whether a load has positions.
	LoadBegan(ctx context.Context, name string) (bool, error)
	// IndexQueue is the task queue of the workers that can write an index in a data
	// directory; empty if no worker has begun one. topic is the kind of topic beside
	// which the queue is kept.
	IndexQueue(ctx context.Context, run contract.Run, topic string) (string, error)
	// SeekLoad moves the position of a load that is not running, for its next run.
	// errNoPosition: it has none.
	SeekLoad(ctx context.Context, name string, o contract.SeekLoad) error
	Close()
}

// errNoPosition: a loader never began.
var errNoPosition = errors.New("no position")

// errStop ends a reading early, without an error.
var errStop = errors.New("stop")

const pingTime = 5 * time.Second

type kafkaStore struct {
	log     *kafkalog.Log
	prefix  string
	brokers string
}

// openStore makes a store and checks that a broker answers.
func openStore(ctx context.Context, kafka kafkalog.Config, prefix string) (store, error) {
	log, err := kafkalog.Open(kafka)
	if err != nil {
		return nil, fmt.Errorf("open Kafka: %w", err)
	}
	s := &kafkaStore{log: log, prefix: prefix, brokers: strings.Join(kafka.Brokers, ",")}
	pctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if err := s.Ping(pctx); err != nil {
		log.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return s, nil
}

func (s *kafkaStore) Close() { s.log.Close() }

func (s *kafkaStore) Ping(ctx context.Context) error {
	if err := s.log.Ping(ctx); err != nil {
		return fail(exitUnreachable, `no Kafka broker at %s: start one with "make up", or set TRAWL_KAFKA_BROKERS`, s.brokers)
	}
	return nil
}

// translate gives the errors of an absent broker their code and next step.
func (s *kafkaStore) translate(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	switch kafkalog.KindOf(err) {
	case kafkalog.KindUnavailable, kafkalog.KindNetwork:
		return fail(exitUnreachable, "%s: Kafka at %s does not answer: %w; try again when it does", what, s.brokers, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *kafkaStore) Generations(ctx context.Context, crawl string) ([]generation, error) {
	prefix := s.prefix + "."
	if crawl != "" {
		prefix += crawl + "."
	}
	topics, err := s.log.Topics(ctx, prefix)
	if err != nil {
		return nil, s.translate(ctx, "list topics", err)
	}
	return generations(s.prefix, topics), nil
}

// generations groups topics. One without a frontier topic has been deleted in
// part: it counts, so that delete can end it, but has no shards.
func generations(prefix string, topics map[string]int) []generation {
	byKey := map[string]*generation{}
	for name, partitions := range topics {
		crawl, gen, kind, ok := contract.ParseTopic(prefix, name)
		if !ok {
			continue
		}
		g := byKey[crawl+"."+gen]
		if g == nil {
			g = &generation{Run: contract.Run{Crawl: crawl, Generation: gen}}
			byKey[crawl+"."+gen] = g
		}
		g.Topics = append(g.Topics, name)
		switch kind {
		case contract.TopicFrontier:
			g.Shards = partitions
		case contract.TopicPages:
			g.Partitions = partitions
		}
	}
	out := make([]generation, 0, len(byKey))
	for _, g := range byKey {
		slices.Sort(g.Topics)
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b generation) int {
		return strings.Compare(a.Crawl+"."+a.Generation, b.Crawl+"."+b.Generation)
	})
	return out
}

// current is the greatest generation that has a frontier.
func current(gens []generation) (generation, bool) {
	for _, g := range slices.Backward(gens) {
		if g.Shards > 0 {
			return g, true
		}
	}
	return generation{}, false
}

func (s *kafkaStore) Stored(ctx context.Context, g generation) (stored, error) {
	var out stored
	err := s.Facts(ctx, g, 0, 0, func(offset int64, key, value []byte) error {
		return out.fold(offset, key, value)
	})
	return out, err
}

// fold takes one record of partition 0; the last of each kind counts.
func (o *stored) fold(offset int64, key, value []byte) error {
	// Two records among millions matter: look before decoding.
	if len(key) == 0 || key[0] != 's' && key[0] != 'z' {
		return nil
	}
	fact, err := frontier.Decode(key, value)
	if err != nil {
		return fmt.Errorf("frontier offset %d: %w", offset, err)
	}
	switch f := fact.(type) {
	case frontier.Spec:
		if o.Spec, err = spec.Decode(f.JSON); err != nil {
			return fmt.Errorf("frontier offset %d: %w", offset, err)
		}
		o.SpecAt = offset
	case frontier.Summary:
		sum := &contract.Summary{}
		if err := json.Unmarshal(f.JSON, sum); err != nil {
			return fmt.Errorf("frontier offset %d: summary: %w", offset, err)
		}
		o.Summary = sum
	}
	return nil
}

func (s *kafkaStore) AnySpec(ctx context.Context, g generation) (*spec.Spec, error) {
	var out stored
	err := s.Facts(ctx, g, 0, 0, func(offset int64, key, value []byte) error {
		if len(key) == 0 || key[0] != 's' {
			return nil
		}
		if err := out.fold(offset, key, value); err != nil {
			return err
		}
		return errStop
	})
	return out.Spec, err
}

func (s *kafkaStore) Facts(ctx context.Context, g generation, shard int, from int64, fn func(offset int64, key, value []byte) error) error {
	topic := g.Topic(s.prefix, contract.TopicFrontier)
	first, end, err := s.log.Bounds(ctx, topic, shard)
	if err != nil {
		return s.translate(ctx, "read "+topic, err)
	}
	var refused error
	_, err = s.log.ReadRange(ctx, topic, shard, max(first, from), end, func(r kafkalog.Record) error {
		refused = fn(r.Offset, r.Key, r.Value)
		return refused
	})
	switch {
	case errors.Is(refused, errStop):
		return nil
	case refused != nil:
		return refused
	}
	return s.translate(ctx, "read "+topic, err)
}

func (s *kafkaStore) Delete(ctx context.Context, g generation) error {
	return s.translate(ctx, "delete topics of "+g.Crawl, s.log.DeleteTopics(ctx, g.Topics...))
}
