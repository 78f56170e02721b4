package activities

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
)

// Census reads the log ends and compares them with the ends at which the shards
// reported idle.
func (a *Activities) Census(ctx context.Context, in contract.CensusInput) (contract.CensusResult, error) {
	ends, err := a.Log.Ends(ctx, in.Run.Topic(a.Prefix, contract.TopicFrontier), in.Run.Shards)
	if err != nil {
		return contract.CensusResult{}, err
	}
	equal := slices.Equal(ends, in.Ends)
	if equal && a.Replication > 1 {
		equal, err = a.confirm(ctx, in)
	}
	return contract.CensusResult{Ends: ends, Equal: equal}, err
}

// confirm appends a marker to each shard, whose offset must be the end that was
// counted: a leader that was deposed unawares cannot acknowledge it. A census
// that fails leaves longer logs, so the shards report again.
func (a *Activities) confirm(ctx context.Context, in contract.CensusInput) (bool, error) {
	topic := in.Run.Topic(a.Prefix, contract.TopicFrontier)
	for shard, end := range in.Ends {
		at, err := a.Log.Append(ctx, topic, shard, []kafkalog.Record{{Key: []byte(frontier.MarkerKey)}})
		if err != nil || at != end {
			return false, err
		}
	}
	return true, nil
}

// LogEnds reads the ends of the pages topic: where the loaders drain to.
func (a *Activities) LogEnds(ctx context.Context, in contract.LogEndsInput) (contract.LogEndsResult, error) {
	ends, err := a.Log.Ends(ctx, in.Run.Topic(a.Prefix, contract.TopicPages), in.Run.Partitions)
	return contract.LogEndsResult{Ends: ends}, err
}

// Finalize states the summary and points the alias at this generation. Written
// twice, the last summary counts.
func (a *Activities) Finalize(ctx context.Context, in contract.FinalizeInput) (*contract.Summary, error) {
	defer beat(ctx, 10*time.Second)()
	s, err := a.specOf(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	if s.Sink.Kind != "none" {
		admin, err := a.Sink(s.Sink.Kind)
		if err != nil {
			return nil, err
		}
		// What was cancelled does not replace an index that people search.
		point, err := in.Outcome != contract.OutcomeCancelled, error(nil)
		if !point {
			if point, err = a.firstGeneration(ctx, in.Run); err != nil {
				return nil, err
			}
		}
		if err := admin.Prepare(ctx, s.Sink.Index, in.Run.Index(s.Sink.Index), point); err != nil {
			return nil, err
		}
	}
	summary := &contract.Summary{
		Crawl: in.Run.Crawl, Generation: in.Run.Generation, Outcome: in.Outcome, Started: in.Started,
		Ended: clock(ctx)(), Totals: in.Totals, Ledger: in.Ledger, Notes: in.Notes, Sink: s.Sink.Kind,
	}
	raw, err := json.Marshal(summary)
	if err != nil {
		return nil, err
	}
	key, value := frontier.Summary{JSON: raw}.Record()
	_, err = a.Log.Append(ctx, in.Run.Topic(a.Prefix, contract.TopicFrontier), 0, []kafkalog.Record{{Key: key, Value: value}})
	return summary, err
}
