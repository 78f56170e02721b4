package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/spec"
)

// TestStoreOnBroker runs the store on the in-process broker.
func TestStoreOnBroker(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	log, err := kafkalog.Open(kafkalog.Config{Brokers: c.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()

	older := contract.Run{Crawl: "docs-example-org", Generation: gen1}
	newer := contract.Run{Crawl: "docs-example-org", Generation: "20260203t000000"}
	other := contract.Run{Crawl: "docs-example-org-2", Generation: gen1}
	var topics []kafkalog.TopicSpec
	for _, r := range []contract.Run{older, newer, other} {
		topics = append(topics,
			kafkalog.TopicSpec{Name: r.Topic("trawl", contract.TopicFrontier), Partitions: 2},
			kafkalog.TopicSpec{Name: r.Topic("trawl", contract.TopicPages), Partitions: 3})
	}
	topics = append(topics, kafkalog.TopicSpec{Name: "trawl.odd", Partitions: 1}, kafkalog.TopicSpec{Name: "trawler.x.y.frontier", Partitions: 1})
	if err := log.EnsureTopics(ctx, topics); err != nil {
		t.Fatal(err)
	}
	state := func(f frontier.Fact) {
		t.Helper()
		k, v := f.Record()
		if _, err := log.Append(ctx, newer.Topic("trawl", contract.TopicFrontier), 0, []kafkalog.Record{{Key: k, Value: v}}); err != nil {
			t.Fatal(err)
		}
	}
	encoded := func(pages int64) []byte {
		raw, err := docs(t, func(s *spec.Spec) { s.Limits.Pages = pages }).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}

	st, err := openStore(ctx, kafkalog.Config{Brokers: c.ListenAddrs()}, "trawl")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	gens, err := st.Generations(ctx, "docs-example-org")
	g, ok := current(gens)
	if err != nil || len(gens) != 2 || !ok || g.Generation != newer.Generation || g.Shards != 2 || g.Partitions != 3 || len(g.Topics) != 2 {
		t.Fatalf("%+v %v", gens, err)
	}
	if all, err := st.Generations(ctx, ""); err != nil || len(all) != 3 {
		t.Errorf("%+v %v", all, err)
	}
	if got, err := st.Stored(ctx, g); err != nil || got.Spec != nil || got.Summary != nil {
		t.Errorf("empty: %+v %v", got, err)
	}

	state(frontier.Spec{JSON: encoded(5)})
	state(frontier.Discovered{URL: "https://docs.example.org/", How: frontier.HowSeed, When: epoch})
	state(frontier.Summary{JSON: []byte(`{"outcome":"budget"}`)})
	state(frontier.Spec{JSON: encoded(6)})
	got, err := st.Stored(ctx, g)
	if err != nil || got.Spec.Limits.Pages != 6 || got.SpecAt != 3 || got.Summary.Outcome != "budget" {
		t.Errorf("%+v %v", got, err)
	}
	if s, err := st.AnySpec(ctx, g); err != nil || s.Limits.Pages != 5 {
		t.Errorf("%+v %v", s, err)
	}
	n := 0
	if err := st.Facts(ctx, g, 0, 2, func(offset int64, _, _ []byte) error {
		n++
		return nil
	}); err != nil || n != 2 {
		t.Errorf("%d facts, %v", n, err)
	}
	mine := errors.New("mine")
	if err := st.Facts(ctx, g, 0, 0, func(int64, []byte, []byte) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("the callback's error became %v", err)
	}

	if err := st.Delete(ctx, g); err != nil {
		t.Fatal(err)
	}
	gens, err = st.Generations(ctx, "docs-example-org")
	if g, _ := current(gens); err != nil || g.Generation != older.Generation {
		t.Errorf("after the delete: %+v %v", gens, err)
	}
	if err := st.Delete(ctx, g); err != nil {
		t.Errorf("a second delete: %v", err)
	}

	load := contract.LoadRun("shop").Topic("trawl", contract.TopicErrors)
	if err := log.EnsureTopics(ctx, []kafkalog.TopicSpec{{Name: load, Partitions: 1, Replication: 1}, {Name: "orders", Partitions: 1, Replication: 1}}); err != nil {
		t.Fatal(err)
	}
	group := contract.LoadRootGroup("trawl", "shop")
	if err := log.Commit(ctx, group, "orders", 0, 7, "note"); err != nil {
		t.Fatal(err)
	}
	seek := contract.SeekLoad{LoadTarget: contract.LoadTarget{Topic: "orders"}, Offset: 3, Reason: "once more"}
	if err := log.Commit(ctx, group, "orders", 0, 7, `{"offsets":7,"loaded":7,"skips":[{"from":9,"through":9,"reason":"r"}]}`); err != nil {
		t.Fatal(err)
	}
	if err := st.SeekLoad(ctx, "shop", seek); err != nil {
		t.Error(err)
	}
	at, text, _, err := log.Committed(ctx, group, "orders", 0)
	if want := `"start":3,"before":{"offsets":7,"loaded":7,`; err != nil || at != 3 || !strings.Contains(text, want) ||
		!strings.Contains(text, `"skips":[{"from":9`) || !strings.Contains(text, "moved from offset 7 to 3: once more") {
		t.Errorf("after a seek: %d %s %v, want %s", at, text, err, want)
	}
	// Of the greatest note that a loader leaves, with as much in it as there can be.
	huge := contract.Ledger{Offsets: 1 << 50, Loaded: 1 << 50, Bytes: 1 << 60, Skipped: 1 << 50}
	raw, err := json.Marshal(contract.LoadNote{Ledger: huge, Skips: []contract.Skip{{Reason: strings.Repeat("r", 2700)}}})
	if err != nil || len(raw) > 3000 || len(raw) < 2800 {
		t.Fatalf("a note of %d bytes: %v", len(raw), err)
	}
	if err := log.Commit(ctx, group, "orders", 0, 1<<50, string(raw)); err != nil {
		t.Fatal(err)
	}
	escaped := seek
	escaped.Reason = strings.Repeat("<", 500)
	if err := st.SeekLoad(ctx, "shop", escaped); err != nil {
		t.Error(err)
	}
	if err := st.SeekLoad(ctx, "other", seek); !errors.Is(err, errNoPosition) {
		t.Errorf("seek of what never began: %v", err)
	}
	where := func(want string, began bool) {
		t.Helper()
		queue, err := st.IndexQueue(ctx, contract.LoadRun("shop"), contract.TopicErrors)
		has, berr := st.LoadBegan(ctx, "shop")
		if queue != want || has != began || err != nil || berr != nil {
			t.Errorf("the index is at %q, it began: %v, want %q, %v: %v, %v", queue, has, want, began, err, berr)
		}
	}
	where("", true)
	if err := log.Commit(ctx, contract.LoadRun("shop").QueueGroup("trawl"), load, 0, 0, "data"); err != nil {
		t.Fatal(err)
	}
	where("data", true)
	if err := st.DeleteLoad(ctx, "shop", nil); err != nil {
		t.Error(err)
	}
	where("data", false) // a delete that goes on after an interruption needs it
	for _, want := range []int{1, 0} {
		topics, err := st.LoadTopics(ctx, "shop")
		if err != nil || len(topics) != want || want > 0 && topics[0] != load {
			t.Errorf("topics of the load: %v %v", topics, err)
		}
		if err := st.DeleteLoad(ctx, "shop", topics); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	where("", false)
	if _, _, ok, err := log.Committed(ctx, group, "orders", 0); ok || err != nil {
		t.Errorf("the load's position is still there: %v", err)
	}
	if _, _, err := log.Bounds(ctx, "orders", 0); err != nil {
		t.Errorf("what it read is gone: %v", err)
	}
}
