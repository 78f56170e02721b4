package activities

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/spec"
	"trawl/internal/weburl"
)

// Seed creates the topics and the index of a generation and states its spec and
// seeds. Everything it does is idempotent: topics and index by name, facts by
// key.
func (a *Activities) Seed(ctx context.Context, in contract.SeedInput) (contract.SeedResult, error) {
	var res contract.SeedResult
	defer beat(ctx, 10*time.Second)()
	s, err := spec.Decode(in.Spec)
	if err != nil {
		return res, temporal.NewNonRetryableApplicationError(err.Error(), a.BadSpec, err)
	}
	facts, err := seedFacts(s, in.Only, clock(ctx)())
	if err != nil {
		return res, temporal.NewNonRetryableApplicationError(err.Error(), a.BadSpec, err)
	}
	if in.Only == nil {
		if err := a.ensure(ctx, in.Run, s); err != nil {
			return res, err
		}
		key, value := frontier.Spec{JSON: in.Spec}.Record()
		if res.SpecAt, err = a.Log.Append(ctx, in.Run.Topic(a.Prefix, contract.TopicFrontier), 0, []kafkalog.Record{{Key: key, Value: value}}); err != nil {
			return res, err
		}
	}
	res.Seeds = int64(len(facts))
	if res.LoadQueue, err = a.loadQueue(ctx, in.Run, s); err != nil {
		return res, err
	}
	return res, a.appendFacts(ctx, in.Run, facts)
}

// loadQueue is the queue of Load. A SQLite index, and files, lie in one data directory: the
// first worker that seeds a generation decides whose, and the decision is kept
// beside the loaders' positions, so that a later run goes on with the same.
func (a *Activities) loadQueue(ctx context.Context, run contract.Run, s *spec.Spec) (string, error) {
	return a.queueOf(ctx, s.Sink.Kind, run.QueueGroup(a.Prefix), run.Topic(a.Prefix, contract.TopicPages))
}

func (a *Activities) queueOf(ctx context.Context, kind, group, topic string) (string, error) {
	if !spec.LocalSink(kind) {
		return a.SharedQueue, nil
	}
	_, queue, _, err := a.Log.Committed(ctx, group, topic, 0)
	if err != nil {
		return "", err
	}
	if queue == "" {
		queue = a.DataQueue
	}
	return queue, a.Log.Commit(ctx, group, topic, 0, 0, queue) // what is known, too: see renewEvery
}

// seedFacts are the discovered facts of the seeds, or of some added URLs.
func seedFacts(s *spec.Spec, only []string, now time.Time) (facts []frontier.Fact, err error) {
	urls, sitemaps := s.Seeds.URLs, s.Seeds.Sitemaps
	if only != nil {
		urls, sitemaps = only, nil
	}
	add := func(list []string, how string) {
		for _, raw := range list {
			u, perr := weburl.Parse(raw)
			if perr != nil {
				err = errors.Join(err, fmt.Errorf("seed %q: %w", raw, perr))
				continue
			}
			facts = append(facts, frontier.Discovered{URL: u.String(), How: how, When: now})
		}
	}
	add(urls, frontier.HowSeed)
	add(sitemaps, frontier.HowSitemap)
	return facts, err
}

func (a *Activities) appendFacts(ctx context.Context, run contract.Run, facts []frontier.Fact) error {
	byShard := make([][]kafkalog.Record, run.Shards)
	for _, f := range facts {
		key, value := f.Record()
		shard := frontier.ShardOf(f.HostKey(), run.Shards)
		byShard[shard] = append(byShard[shard], kafkalog.Record{Key: key, Value: value})
	}
	topic := run.Topic(a.Prefix, contract.TopicFrontier)
	for shard, recs := range byShard {
		if len(recs) == 0 {
			continue
		}
		if _, err := a.Log.Append(ctx, topic, shard, recs); err != nil {
			return err
		}
	}
	return nil
}

// ensure creates topics and index. An existing topic of another shape is
// refused for good: it is somebody else's.
func (a *Activities) ensure(ctx context.Context, run contract.Run, s *spec.Spec) error {
	frontierConf := map[string]string{
		"cleanup.policy": "compact", "segment.bytes": strconv.Itoa(64 << 20), "min.cleanable.dirty.ratio": "0.3",
	}
	// Kafka's own retention of a week would lose the pages of a paused loader.
	pagesConf := map[string]string{
		"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
		"message.timestamp.type": "LogAppendTime",
		"max.message.bytes":      strconv.FormatInt(s.Limits.PageSize+(1<<20), 10),
	}
	specs := []kafkalog.TopicSpec{
		{Name: run.Topic(a.Prefix, contract.TopicFrontier), Partitions: run.Shards, Replication: a.Replication, Config: frontierConf},
		{Name: run.Topic(a.Prefix, contract.TopicPages), Partitions: run.Partitions, Replication: a.Replication, Config: pagesConf},
		{Name: run.Topic(a.Prefix, contract.TopicErrors), Partitions: run.Partitions, Replication: a.Replication, Config: pagesConf},
	}
	if err := a.Log.EnsureTopics(ctx, specs); err != nil {
		if errors.Is(err, kafkalog.ErrShape) {
			return temporal.NewNonRetryableApplicationError(err.Error(), a.BadTopics, err)
		}
		return err
	}
	if s.Sink.Kind == "none" {
		return nil
	}
	return a.prepare(ctx, run, s)
}

// prepare makes the index, and the alias of a first generation, unless an earlier
// Seed did so in another data directory: here they would be empty for ever.
//
// It comes before the commit of the queue (loadQueue), so that the directory whose
// queue is committed has both: Load would make the index, but nobody the alias. A
// Seed that dies between the two leaves an empty index to nobody if the next one
// is in another directory; the other way round it would leave a crawl that cannot
// be searched until its end. Of two Seeds at once in two directories (one was
// silent, and lives) both prepare, and whichever queue counts has its index.
func (a *Activities) prepare(ctx context.Context, run contract.Run, s *spec.Spec) error {
	if spec.LocalSink(s.Sink.Kind) {
		_, queue, _, err := a.Log.Committed(ctx, run.QueueGroup(a.Prefix), run.Topic(a.Prefix, contract.TopicPages), 0)
		if err != nil {
			return err
		}
		if queue != "" && queue != a.DataQueue {
			return nil
		}
	}
	first, err := a.firstGeneration(ctx, run)
	if err != nil {
		return err
	}
	admin, err := a.Sink(s.Sink.Kind)
	if err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), a.BadSpec, err)
	}
	return admin.Prepare(ctx, s.Sink.Index, run.Index(s.Sink.Index), first)
}

// firstGeneration: no other generation of the crawl has topics.
func (a *Activities) firstGeneration(ctx context.Context, run contract.Run) (bool, error) {
	topics, err := a.Log.Topics(ctx, a.Prefix+"."+run.Crawl+".")
	if err != nil {
		return false, err
	}
	for name := range topics {
		crawl, gen, _, ok := contract.ParseTopic(a.Prefix, name)
		if ok && crawl == run.Crawl && gen != run.Generation {
			return false, nil
		}
	}
	return true, nil
}
