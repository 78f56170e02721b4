package activities

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
)

// A log that begins later than the fold has come, because somebody deleted
// records, is folded from where it begins.
func TestFoldOfALogThatBeginsLater(t *testing.T) {
	b := newBench(t, "http://127.0.0.1:1/", nil)
	b.run.SpecAt = do[contract.SeedResult](b, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec}).SpecAt
	expand := func() contract.ExpandResult {
		return do[contract.ExpandResult](b, "Expand", contract.ExpandInput{Run: b.run, Shard: 0, Number: 1})
	}
	before := expand()
	topic := b.run.Topic("t", contract.TopicFrontier)
	var recs []kafkalog.Record
	for i := 0; len(recs) < 10; i++ {
		host := fmt.Sprintf("%d.example", i)
		if frontier.ShardOf(host, b.run.Shards) == 0 {
			k, v := frontier.Discovered{URL: "http://" + host + "/", How: frontier.HowSeed, When: time.Now()}.Record()
			recs = append(recs, kafkalog.Record{Key: k, Value: v})
		}
	}
	at, err := b.acts.Log.Append(t.Context(), topic, 0, recs)
	require.NoError(t, err)

	client, err := kgo.NewClient(kgo.SeedBrokers(b.brokers...))
	require.NoError(t, err)
	defer client.Close()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = 0, at+7
	records := kmsg.NewDeleteRecordsRequestTopic()
	records.Topic, records.Partitions = topic, append(records.Partitions, part)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, records)
	_, err = req.RequestWith(t.Context(), client)
	require.NoError(t, err)

	after := expand()
	require.Equal(t, at+10, after.End)
	require.False(t, after.LostTail)
	require.Equal(t, before.Totals.Locators+3, after.Totals.Locators)
}
