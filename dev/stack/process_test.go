package stack_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.temporal.io/sdk/client"

	"trawl/dev/e2e/harness"
)

const (
	killTopic      = "kill"
	killPartitions = 3
	// acksPerRound of each kind are awaited before a kill, so that it falls in
	// the middle of many requests.
	acksPerRound = 60
	killRounds   = 4
	cleanRound   = 1 // ends by SIGTERM: what is written then must not confuse a later kill
)

// acknowledged is what the servers said is safe.
type acknowledged struct {
	mu      sync.Mutex
	records map[position]uint64 // the number that a record carries
	runs    map[string]string   // run id of each workflow id
	enough  chan struct{}       // closed when both have grown by acksPerRound
	target  [2]int
}

type position struct {
	partition int32
	offset    int64
}

func newAcknowledged() *acknowledged {
	return &acknowledged{records: make(map[position]uint64), runs: make(map[string]string)}
}

func (a *acknowledged) beginRound() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.target = [2]int{len(a.records) + acksPerRound, len(a.runs) + acksPerRound}
	a.enough = make(chan struct{})
	return a.enough
}

func (a *acknowledged) add(what func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what()
	if a.enough != nil && len(a.records) >= a.target[0] && len(a.runs) >= a.target[1] {
		close(a.enough)
		a.enough = nil
	}
}

// Kill -9 in the middle of appends and workflow starts, several times, once
// after a clean stop: everything that was acknowledged is there, where it was
// said to be.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	dev := harness.StartDev(t, t.TempDir())
	createTopic(t, kafka(t, dev.Kafka), killTopic, killPartitions)
	acks := newAcknowledged()
	for round := range killRounds {
		work(t, dev, acks, round)
		if round == cleanRound {
			dev.Shutdown()
		}
		dev = dev.Restart()
		checkRecords(t, dev, acks)
		checkRuns(t, dev, acks)
	}
	t.Logf("%d records and %d workflows acknowledged over %d kills and a clean stop, all there", len(acks.records), len(acks.runs), killRounds-1)
	dev.Shutdown()
}

// work appends and starts from several goroutines until enough is
// acknowledged, then kills the stack under them; in cleanRound it leaves it running.
func work(t *testing.T, dev *harness.Dev, acks *acknowledged, round int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := acks.beginRound()
	producer := kafka(t, dev.Kafka, kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordRetries(0))
	starter := dial(t, dev.Temporal)

	var workers sync.WaitGroup
	for p := range int32(killPartitions) {
		workers.Go(func() { appendUntil(ctx, producer, p, uint64(round)<<32, acks) })
	}
	for n := range 4 {
		workers.Go(func() { startUntil(ctx, starter, fmt.Sprintf("kill/%d/%d", round, n), acks) })
	}
	select {
	case <-enough:
	case <-ctx.Done():
		t.Error("the stack did not acknowledge enough in a minute")
	}
	if round != cleanRound {
		dev.Kill()
	}
	cancel()
	workers.Wait()
}

// appendUntil appends one record at a time until one fails.
func appendUntil(ctx context.Context, c *kgo.Client, partition int32, from uint64, acks *acknowledged) {
	for n := from; ; n++ {
		value := binary.BigEndian.AppendUint64(nil, n)
		r, err := c.ProduceSync(ctx, &kgo.Record{Topic: killTopic, Partition: partition, Value: value}).First()
		if err != nil {
			return
		}
		acks.add(func() { acks.records[position{partition, r.Offset}] = n })
	}
}

// startUntil starts one workflow at a time until one fails. No worker runs it.
func startUntil(ctx context.Context, c client.Client, prefix string, acks *acknowledged) {
	for n := 0; ; n++ {
		id := fmt.Sprintf("%s/%d", prefix, n)
		callCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		run, err := c.ExecuteWorkflow(callCtx, client.StartWorkflowOptions{ID: id, TaskQueue: taskQueue}, "greet", "nobody")
		cancel()
		if err != nil {
			return
		}
		acks.add(func() { acks.runs[id] = run.GetRunID() })
	}
}

func checkRecords(t *testing.T, dev *harness.Dev, acks *acknowledged) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := kafka(t, dev.Kafka, kgo.ConsumeTopics(killTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	missing := len(acks.records)
	for missing > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d acknowledged records are missing: %v", missing, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			want, ok := acks.records[position{r.Partition, r.Offset}]
			if !ok {
				return // stored, but the acknowledgement did not get through
			}
			missing--
			if got := binary.BigEndian.Uint64(r.Value); got != want {
				t.Errorf("partition %d offset %d: %#x, acknowledged was %#x", r.Partition, r.Offset, got, want)
			}
		})
	}
}

func checkRuns(t *testing.T, dev *harness.Dev, acks *acknowledged) {
	t.Helper()
	c := dial(t, dev.Temporal)
	for id, run := range acks.runs {
		d, err := c.DescribeWorkflowExecution(t.Context(), id, "")
		if err != nil {
			t.Errorf("workflow %s was acknowledged: %v", id, err)
			continue
		}
		if got := d.GetWorkflowExecutionInfo().GetExecution().GetRunId(); got != run {
			t.Errorf("workflow %s has run %s, acknowledged was %s", id, got, run)
		}
	}
}

// What the program itself refuses says how to go on, and ends with exit code 1.
func TestProgramRefuses(t *testing.T) {
	dir := t.TempDir()
	dev := harness.StartDev(t, dir)
	_, kafkaPort, err := net.SplitHostPort(dev.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	free := []string{"--temporal-port", "0", "--ui-port", "0", "--kafka-port", "0"}
	otherVersion := t.TempDir()
	if err := os.WriteFile(filepath.Join(otherVersion, "VERSION"), []byte("temporal 0.1, kfake v0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"directory in use", append(free, "--data", dir), 1, []string{dir, fmt.Sprintf("process %d", dev.PID()), "--data"}},
		{"other version", append(free, "--data", otherVersion), 1, []string{otherVersion, "temporal 0.1", "--data"}},
		{"port taken", []string{"--data", t.TempDir(), "--temporal-port", "0", "--ui-port", "0", "--kafka-port", kafkaPort}, 1, []string{kafkaPort, "--kafka-port"}},
		{"unknown flag", []string{"--prot", "1"}, 2, []string{"-prot"}},
		{"argument", []string{"start"}, 2, []string{`"start"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := harness.RunProcess(t, "trawl-dev", harness.DevBinary(t), nil, time.Minute, test.args...)
			if r.Code != test.code || r.Stdout != "" {
				t.Errorf("want exit code %d and nothing on stdout, got %v", test.code, r)
			}
			for _, want := range test.want {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("%q is not named in %v", want, r)
				}
			}
		})
	}
	dev.Shutdown()
}

// The endpoints file is there exactly while the stack is ready, and a stop is
// clean, also one that comes while it starts.
func TestProgramStops(t *testing.T) {
	file := filepath.Join(t.TempDir(), "endpoints.json")
	if err := os.WriteFile(file, []byte("of an earlier run"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--data", t.TempDir(), "--temporal-port", "0", "--ui-port", "0", "--kafka-port", "0", "--json-endpoints", file}
	p := harness.StartProcess(t, "trawl-dev", harness.DevBinary(t), nil, args...)
	for _, line := range []string{"Temporal  127.0.0.1:", "Web UI    http://127.0.0.1:", "Kafka     127.0.0.1:", "ready"} {
		p.WaitStdout(line, time.Minute)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), fmt.Sprintf(`"pid": %d`, p.PID())) {
		t.Errorf("endpoints %s, %v", text, err)
	}
	if code := p.Stop(time.Minute); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the endpoints file outlived the stack: %v", err)
	}
}
