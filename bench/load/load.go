// Package load measures the loader beside the simplest program that does the
// same: reads a topic of a real Kafka and writes the documents to a real
// OpenSearch, or to SQLite. Both run in this process, alternating, at the same
// concurrency and batch sizes; what the index takes when it is fed from memory
// is the ceiling of both. It refuses to start servers: deploy/realstack/bench.sh
// does.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"trawl/internal/kafkalog"
)

// Config of a run.
type Config struct {
	Brokers    []string
	Elastic    string // URL; "": only SQLite
	Dir        string // for SQLite's files
	Sizes      []Size
	Rounds     int
	Partitions int
	BatchBytes int
	BatchCount int
	Only       string // names of legs, "": all
	SQLite     int    // documents of 1 KB for SQLite; 0: none
}

// Size is one row of the table.
type Size struct{ Bytes, Count int }

// leg is one way of loading a topic once; it answers how many documents the
// sink has acknowledged.
type leg struct {
	name string
	run  func(ctx context.Context) (int, error)
	made func() (free func()) // what is made before the clock starts; may be nil
}

// Run measures and prints the table. The first round warms the servers up and
// does not count.
func Run(ctx context.Context, cfg Config, out io.Writer) error {
	log, err := kafkalog.Open(kafkalog.Config{Brokers: cfg.Brokers, ClientID: "benchload"})
	if err != nil {
		return err
	}
	defer log.Close()
	for _, size := range cfg.Sizes {
		if cfg.Elastic == "" {
			break
		}
		b := &bench{cfg: cfg, log: log, size: size, topic: fmt.Sprintf("benchload-%d", size.Bytes)}
		if err := b.measure(ctx, out, "OpenSearch", b.elasticLegs()); err != nil {
			return err
		}
	}
	if cfg.SQLite > 0 {
		b := &bench{cfg: cfg, log: log, size: Size{1 << 10, cfg.SQLite}, topic: "benchload-sqlite"}
		return b.measure(ctx, out, "SQLite", b.sqliteLegs())
	}
	return nil
}

type bench struct {
	cfg   Config
	log   *kafkalog.Log
	size  Size
	topic string
	ends  []int64  // of the partitions
	seq   int      // of the indexes
	kept  [][]byte // bulks in memory
}

func (b *bench) measure(ctx context.Context, out io.Writer, sink string, legs []leg) error {
	legs = slices.DeleteFunc(legs, func(l leg) bool { return b.cfg.Only != "" && !slices.Contains(strings.Split(b.cfg.Only, ","), l.name) })
	if err := b.fill(ctx); err != nil {
		return fmt.Errorf("fill %s: %w", b.topic, err)
	}
	fmt.Fprintf(out, "\n%d messages of %d bytes, %d partitions, Kafka -> %s\n", b.size.Count, b.size.Bytes, b.cfg.Partitions, sink)
	fmt.Fprintf(out, "%-10s %10s %12s %12s %14s   %s\n", "", "docs/s", "median", "of simple", "client CPU/doc", "live heap MB, by quarter of the time")
	var seen [][]usage
	for round := range b.cfg.Rounds + 1 {
		order := slices.Clone(legs)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, l := range order {
			i := slices.IndexFunc(legs, func(x leg) bool { return x.name == l.name })
			if len(seen) <= i {
				seen = append(seen, make([][]usage, len(legs)-len(seen))...)
			}
			free := func() {}
			if l.made != nil {
				free = l.made()
			}
			u, err := watch(func() (int, error) { return l.run(ctx) })
			free()
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			if u.docs != b.size.Count {
				return fmt.Errorf("%s: %d documents, want %d", l.name, u.docs, b.size.Count)
			}
			note := ""
			if round == 0 {
				note = "  (warm-up)"
			} else {
				seen[i] = append(seen[i], u)
			}
			fmt.Fprintf(out, "%-10s %10.0f %37.1f us   %s%s\n", l.name, u.rate(), u.perDoc(), quarters(u.live), note)
		}
	}
	report(out, legs, seen)
	return b.log.DeleteTopics(ctx, b.topic)
}

func report(out io.Writer, legs []leg, seen [][]usage) {
	simple := 0.0
	rates := make([]float64, len(legs))
	for i := range legs {
		rates[i] = median(seen[i], usage.rate)
		if legs[i].name == simpleLeg {
			simple = rates[i]
		}
	}
	for i, l := range legs {
		fmt.Fprintf(out, "%-10s %23.0f %12.2f %11.1f us   ", l.name, rates[i], rates[i]/simple, median(seen[i], usage.perDoc))
		var live [4]float64
		for q := range live {
			live[q] = median(seen[i], func(u usage) float64 { return u.live[q] })
		}
		fmt.Fprintln(out, quarters(live))
	}
}

// quarters of a leg's time: flat is what does not grow.
func quarters(mb [4]float64) string {
	return fmt.Sprintf("%4.0f %4.0f %4.0f %4.0f", mb[0], mb[1], mb[2], mb[3])
}

func median(us []usage, of func(usage) float64) float64 {
	var v []float64
	for _, u := range us {
		v = append(v, of(u))
	}
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// fill makes the topic anew, with documents of about the size.
func (b *bench) fill(ctx context.Context) error {
	if err := b.log.DeleteTopics(ctx, b.topic); err != nil && kafkalog.KindOf(err) != kafkalog.KindTopic {
		return err
	}
	if err := b.log.EnsureTopics(ctx, []kafkalog.TopicSpec{{Name: b.topic, Partitions: b.cfg.Partitions}}); err != nil {
		return err
	}
	const chunk = 500
	b.ends = make([]int64, b.cfg.Partitions)
	recs := make([]kafkalog.Record, 0, chunk)
	for n := 0; n < b.size.Count; n += len(recs) {
		recs = recs[:0]
		for i := range min(chunk, b.size.Count-n) {
			recs = append(recs, kafkalog.Record{Value: document(n+i, b.size.Bytes), Time: time.Now()})
		}
		p := n / chunk % b.cfg.Partitions
		if _, err := b.log.Append(ctx, b.topic, p, recs); err != nil {
			return err
		}
		b.ends[p] += int64(len(recs))
	}
	return nil
}

// document is an event: some fields, and sentences up to the size.
func document(n, size int) []byte {
	var s strings.Builder
	s.Grow(size)
	fmt.Fprintf(&s, `{"url":"https://example.org/%d/%d","fetched_at":"2026-03-04T05:%02d:%02dZ","status":200,"link_count":%d,"title":"event %d","text":"`,
		n%97, n, n/60%60, n%60, n%40, n)
	x := uint32(n)*2654435761 + 1
	for s.Len() < size-2-12 {
		x = x*1664525 + 1013904223
		fmt.Fprintf(&s, "%s ", words[(x>>16)%uint32(len(words))])
	}
	s.WriteString(`"}`)
	return []byte(s.String())
}

// words are some thousand, so that an index has something to do.
var words = func() (out []string) {
	x := uint32(7)
	for range 4096 {
		var w []byte
		for range 3 + x>>20%8 {
			x = x*1664525 + 1013904223
			w = append(w, byte('a'+x>>24%26))
		}
		out = append(out, string(w))
	}
	return out
}()

var errMissing = errors.New("the index did not acknowledge everything")
