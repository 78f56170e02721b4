//go:build real

package kafkalog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
)

// realBrokers are those of TRAWL_KAFKA_BROKERS, separated by commas.
func realBrokers(t testing.TB) []string {
	t.Helper()
	v := os.Getenv("TRAWL_KAFKA_BROKERS")
	if v == "" {
		t.Fatal("TRAWL_KAFKA_BROKERS is not set: start deploy/realstack/kafka.sh and name its address")
	}
	return strings.Split(v, ",")
}

// TestRealConformance runs the suite. TRAWL_KAFKA_RESTART is a shell command
// that kills the cluster and starts it again; without it that case is left out.
func TestRealConformance(t *testing.T) {
	var restart func()
	if cmd := os.Getenv("TRAWL_KAFKA_RESTART"); cmd != "" {
		restart = func() {
			if out, err := exec.Command("bash", "-c", cmd).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", cmd, err, out)
			}
		}
	}
	logtest.Run(t, realBrokers(t), restart)
}

// TestRealLogAppendTime: the in-process broker does not stamp records.
func TestRealLogAppendTime(t *testing.T) {
	l := logtest.Open(t, realBrokers(t))
	topic := logtest.Topic(t, l, 1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().Add(-time.Minute)
	_, err := l.Append(t.Context(), topic, 0, []kafkalog.Record{{Value: []byte("v"), Time: time.UnixMilli(1)}})
	if err != nil {
		t.Fatal(err)
	}
	r, ok, err := l.ReadAt(t.Context(), topic, 0, 0)
	if err != nil || !ok || r.Time.Before(before) {
		t.Errorf("%v, %v, time %v", ok, err, r.Time)
	}
}

// TestRealBadConfig: a real broker refuses what the in-process one accepts.
func TestRealBadConfig(t *testing.T) {
	l := logtest.Open(t, realBrokers(t))
	err := l.EnsureTopics(t.Context(), []kafkalog.TopicSpec{{
		Name: "logtest.bad", Partitions: 1, Config: map[string]string{"segment.bytes": "none"},
	}})
	if err == nil || !errors.Is(err, kafka.InvalidConfiguration) {
		t.Errorf("got %v", err)
	}
	// One broker cannot hold two replicas.
	err = l.EnsureTopics(t.Context(), []kafkalog.TopicSpec{{Name: "logtest.bad", Partitions: 1, Replication: 2}})
	if !errors.Is(err, kafka.InvalidReplicationFactor) {
		t.Errorf("got %v", err)
	}
}

const (
	hotKeys = 10 // rewritten by every batch
	batches = 60
)

// TestRealCompacted reads a topic that the broker's cleaner has really cleaned.
// There a batch keeps its last offset when its last records are gone, and a
// reader that knows offsets of records only never gets past it. The cleaner of
// deploy/realstack's node wakes up sooner with log.cleaner.backoff.ms=200.
func TestRealCompacted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	brokers := realBrokers(t)
	l := logtest.Open(t, brokers)
	for _, codec := range []string{"none", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := logtest.Topic(t, l, 1, "cleanup.policy", "compact", "segment.bytes", strconv.Itoa(1<<20),
				"min.cleanable.dirty.ratio", "0.01", "max.compaction.lag.ms", "1000", "delete.retention.ms", "0")
			want, end := fill(ctx, t, l, topic, codec)
			awaitClean(ctx, t, l, topic, end, len(want))

			got := map[int64]string{}
			next, err := l.ReadRange(ctx, topic, 0, 0, end, func(r kafkalog.Record) error {
				got[r.Offset] = string(r.Key)
				return nil
			})
			if err != nil || next != end {
				t.Fatalf("read to %d of %d: %v", next, end, err)
			}
			if !maps.Equal(got, want) {
				t.Errorf("%d records survive, %d were read", len(want), len(got))
			}
			everyOffset(ctx, t, l, topic, end, want)

			stuck := naive(ctx, t, l, brokers, topic, end)
			t.Logf("%d of %d records survive; a reader of records stands still at %v", len(want), end, stuck)
			if len(stuck) == 0 {
				t.Error("the topic has no place where a naive reader stands still: the test shows nothing")
			}
		})
	}
}

// fill writes batches that begin with a key of their own and end with keys that
// every batch has, then enough to close the segments before. It gives the
// records that compaction must keep.
func fill(ctx context.Context, t *testing.T, l *kafkalog.Log, topic, codec string) (want map[int64]string, end int64) {
	t.Helper()
	last := map[string]int64{}
	write := func(recs []kafkalog.Record) {
		base, err := l.AppendWith(ctx, topic, 0, recs, codec)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range recs {
			last[string(r.Key)] = base + int64(i)
		}
		end = base + int64(len(recs))
	}
	for b := range batches {
		recs := logtest.Numbered(1000+b, 1, 20_000)
		for k := range hotKeys {
			hot := logtest.Numbered(b*hotKeys+k, 1, 20_000)[0]
			hot.Key = []byte(fmt.Sprintf("hot-%d", k))
			recs = append(recs, hot)
		}
		write(recs)
	}
	for b := range 5 { // these stay in the active segment or close one
		write(logtest.Numbered(5000+30*b, 30, 20_000))
	}
	want = map[int64]string{}
	for key, off := range last {
		want[off] = key
	}
	return want, end
}

// awaitClean polls until only the survivors are left.
func awaitClean(ctx context.Context, t *testing.T, l *kafkalog.Log, topic string, end int64, survivors int) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		n := 0
		if _, err := l.ReadRange(ctx, topic, 0, 0, end, func(kafkalog.Record) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		if n <= survivors {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not cleaned: %d records, %d should survive", n, survivors)
		}
	}
}

// everyOffset asks for each offset on its own: the answer begins with the next
// survivor and always moves on.
func everyOffset(ctx context.Context, t *testing.T, l *kafkalog.Log, topic string, end int64, want map[int64]string) {
	t.Helper()
	survivors := slices.Sorted(maps.Keys(want))
	for off := range end {
		first := int64(-1)
		next, _, err := l.Read(ctx, topic, 0, off, 1, 0, func(r kafkalog.Record) error {
			if first < 0 {
				first = r.Offset
			}
			return nil
		})
		if err != nil || next <= off {
			t.Fatalf("offset %d: next %d, %v", off, next, err)
		}
		i, _ := slices.BinarySearch(survivors, off)
		if first >= 0 && first != survivors[i] || first < 0 && i < len(survivors) && survivors[i] < next {
			t.Fatalf("offset %d: first record at %d, next survivor %d, next %d", off, first, survivors[i], next)
		}
		_, kept := want[off]
		if _, ok, err := l.ReadAt(ctx, topic, 0, off); ok != kept || err != nil {
			t.Fatalf("record at %d: %v, %v, want %v", off, ok, err, kept)
		}
	}
}

// naive reads with kafka-go's Fetch, going on after the last record; where that
// stands still it is helped over. It gives those places.
func naive(ctx context.Context, t *testing.T, l *kafkalog.Log, brokers []string, topic string, end int64) (stuck []int64) {
	t.Helper()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	c := kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport}
	for from := int64(0); from < end; {
		res, err := c.Fetch(ctx, &kafka.FetchRequest{
			Topic: topic, Offset: from, MinBytes: 1, MaxBytes: 64 << 20, MaxWait: 100 * time.Millisecond,
		})
		if err == nil {
			err = res.Error
		}
		if err != nil {
			t.Fatal(err)
		}
		next := from
		for {
			r, err := res.Records.ReadRecord()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			next = max(next, r.Offset+1)
			if r.Key != nil {
				r.Key.Close()
			}
			if r.Value != nil {
				r.Value.Close()
			}
		}
		if next == from {
			stuck = append(stuck, from)
			if next, _, err = l.Read(ctx, topic, 0, from, 1, 0, func(kafkalog.Record) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		from = next
	}
	return stuck
}
