// Package sinktest is the conformance suite that every sink passes: replay,
// versions, deletes, crashes, writers at once, poison and odd input. It knows
// the sink.Sink and sink.Admin interfaces and no implementation.
package sinktest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"trawl/internal/sink"
)

// Harness is one sink under test.
type Harness struct {
	// Process answers with an Admin as a new process would have it: no memory
	// is shared with earlier ones, the stored data is.
	Process func(t *testing.T) sink.Admin
	// Settle makes acknowledged writes visible to Count and Search; nil if they
	// are visible at once.
	Settle func(t *testing.T, index string)
	// Large is the number of documents of the large batch; 0 means 2000.
	Large int
	// Find stands for Admin.Search where a sink cannot search, and says what its
	// documents are by other means; nil: it can. Case Search is left out then.
	Find func(t *testing.T, alias, query string, limit int) (hits []sink.Hit, total int64, err error)
}

const caseSearch = "Search"

// Run runs the suite; every case gets an index of its own, dropped at its end.
func Run(t *testing.T, factory func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*bench)
	}{
		{"Write", testWrite},
		{"Replay", testReplay},
		{"OlderVersion", testOlder},
		{"NewerVersion", testNewer},
		{"SameVersionOtherContent", testSameVersion},
		{"SameIDTwiceInOneBatch", testTwiceInBatch},
		{"DeleteThenOlder", testDeleteThenOlder},
		{"DeleteThenNewer", testDeleteThenNewer},
		{"DeleteMissing", testDeleteMissing},
		{"Reopen", testReopen},
		{"KillBetweenWriteAndPosition", testKill},
		{"TwoWriters", testTwoWriters},
		{"Poison", testPoison},
		{"BadOps", testBadOps},
		{"Newlines", testNewlines},
		{"Unicode", testUnicode},
		{"LongID", testLongID},
		{"LargeBatch", testLarge},
		{"EmptyBatch", testEmpty},
		{"Cancelled", testCancelled},
		{caseSearch, testSearch},
		{"Alias", testAlias},
		{"Missing", testMissing},
		{"Drop", testDrop},
		{"Holds", testHolds},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := factory(t)
			if h.Find != nil && c.name == caseSearch {
				t.Log("left out: the sink cannot search")
				return
			}
			c.run(newBench(t, h))
		})
	}
}

// bench is one case: an index and a writer of it.
type bench struct {
	*testing.T
	Harness
	ctx          context.Context
	admin        sink.Admin
	alias, index string
	sink         sink.Sink
}

func newBench(t *testing.T, h Harness) *bench {
	t.Helper()
	var random [6]byte
	if _, err := rand.Read(random[:]); err != nil {
		t.Fatal(err)
	}
	alias := "conformance-" + hex.EncodeToString(random[:])
	b := &bench{T: t, Harness: h, ctx: t.Context(), admin: h.Process(t), alias: alias, index: alias + "-20260102t030405"}
	t.Cleanup(func() {
		if err := b.admin.Drop(context.Background(), b.alias, b.index); err != nil {
			t.Errorf("Drop: %v", err)
		}
	})
	b.must(b.admin.Prepare(b.ctx, b.alias, b.index, true))
	b.sink = b.open(b.admin)
	return b
}

// search asks the sink, or who stands for it.
func (b *bench) search(alias, query string, limit int) ([]sink.Hit, int64, error) {
	b.Helper()
	if b.Find != nil {
		return b.Find(b.T, alias, query, limit)
	}
	return b.admin.Search(b.ctx, alias, query, limit)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) open(admin sink.Admin) sink.Sink {
	b.Helper()
	s, err := admin.Open(b.ctx, b.index)
	b.must(err)
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	})
	return s
}

// write writes and compares the outcomes.
func (b *bench) write(ops []sink.Op, want ...sink.Outcome) []sink.Result {
	b.Helper()
	return b.writeTo(b.sink, ops, want...)
}

func (b *bench) writeTo(s sink.Sink, ops []sink.Op, want ...sink.Outcome) []sink.Result {
	b.Helper()
	results, err := s.Write(b.ctx, ops)
	b.must(err)
	if len(results) != len(ops) {
		b.Fatalf("%d results for %d ops", len(results), len(ops))
	}
	for i, r := range results {
		expected := sink.Loaded
		if len(want) > 0 {
			expected = want[min(i, len(want)-1)]
		}
		if r.Outcome != expected {
			b.Fatalf("op %d (%.40q v%d): outcome %d (%d %s %s), want %d",
				i, ops[i].ID, ops[i].Version, r.Outcome, r.Status, r.Type, r.Reason, expected)
		}
		if r.Outcome == sink.Rejected && r.Reason == "" {
			b.Errorf("op %d is rejected without a reason", i)
		}
		if len(r.Reason) > sink.MaxReason {
			b.Errorf("op %d: reason has %d bytes", i, len(r.Reason))
		}
	}
	return results
}

func (b *bench) count(want int64) {
	b.Helper()
	b.settle()
	n, err := b.admin.Count(b.ctx, b.index)
	b.must(err)
	if n != want {
		b.Fatalf("index holds %d documents, want %d", n, want)
	}
}

func (b *bench) settle() {
	b.Helper()
	if b.Settle != nil {
		b.Settle(b.T, b.index)
	}
}

// found asserts which ids a query finds, in any order.
func (b *bench) found(query string, want ...string) []sink.Hit {
	b.Helper()
	b.settle()
	hits, total, err := b.search(b.alias, query, 100)
	if err != nil {
		b.Fatalf("search %q: %v", query, err)
	}
	ids := map[string]bool{}
	for _, h := range hits {
		ids[h.ID] = true
	}
	if len(ids) != len(want) || total != int64(len(want)) {
		b.Fatalf("search %q found %v (total %d), want %q", query, ids, total, want)
	}
	for _, id := range want {
		if !ids[id] {
			b.Fatalf("search %q found %v, want %q", query, ids, want)
		}
	}
	return hits
}

// Op builds an index op with a title and a text.
func Op(id string, version int64, title, text string) sink.Op {
	doc, err := json.Marshal(map[string]any{"url": id, "title": title, "text": text, "status": 200})
	if err != nil {
		panic(err) // strings always marshal
	}
	return sink.Op{ID: id, Version: version, Doc: doc}
}

func del(id string, version int64) sink.Op { return sink.Op{ID: id, Version: version, Delete: true} }

func testWrite(b *bench) {
	b.write([]sink.Op{Op("a", 1, "one", "apple"), Op("b", 0, "two", "banana")})
	b.count(2)
	b.found("apple", "a")
}

func testReplay(b *bench) {
	ops := []sink.Op{Op("a", 5, "one", "apple"), Op("b", 5, "two", "banana"), del("c", 5)}
	for range 3 {
		b.write(ops)
	}
	b.count(2)
	b.found("banana", "b")
}

func testOlder(b *bench) {
	b.write([]sink.Op{Op("a", 5, "new", "cherry")})
	b.write([]sink.Op{Op("a", 4, "old", "apple"), del("a", 3)}, sink.Superseded)
	b.count(1)
	b.found("apple")
	b.found("cherry", "a")
}

func testNewer(b *bench) {
	b.write([]sink.Op{Op("a", 5, "old", "apple pie")})
	b.write([]sink.Op{Op("a", 6, "new", "cherry pie")})
	b.write([]sink.Op{Op("a", 7, "new", "cherry pie")})
	b.write([]sink.Op{Op("a", 6, "old", "apple pie")}, sink.Superseded)
	b.count(1)
	b.found("apple")
	b.found("pie", "a")
	b.found("new", "a")
}

func testSameVersion(b *bench) {
	b.write([]sink.Op{Op("a", 5, "one", "apple")})
	b.write([]sink.Op{Op("a", 5, "one", "cherry")})
	b.count(1)
	b.found("apple")
	b.found("cherry", "a")
}

func testTwiceInBatch(b *bench) {
	b.write([]sink.Op{Op("a", 2, "one", "apple"), Op("a", 1, "one", "banana"), Op("a", 3, "one", "cherry")},
		sink.Loaded, sink.Superseded, sink.Loaded)
	b.count(1)
	b.found("cherry", "a")
}

func testDeleteThenOlder(b *bench) {
	b.write([]sink.Op{Op("a", 1, "one", "apple")})
	b.write([]sink.Op{del("a", 3)})
	b.write([]sink.Op{Op("a", 2, "late", "apple")}, sink.Superseded)
	b.count(0)
	b.found("apple")
	b.write([]sink.Op{del("a", 3)})
	// A delete that comes first keeps the older document out, too.
	b.write([]sink.Op{del("b", 3)})
	b.write([]sink.Op{Op("b", 2, "late", "banana")}, sink.Superseded)
	b.count(0)
}

func testDeleteThenNewer(b *bench) {
	b.write([]sink.Op{Op("a", 1, "one", "apple"), del("a", 2), Op("a", 3, "back", "cherry")})
	b.count(1)
	b.found("apple")
	b.found("cherry", "a")
}

func testDeleteMissing(b *bench) {
	b.write([]sink.Op{del("never", 9)})
	b.count(0)
}

func testReopen(b *bench) {
	b.write([]sink.Op{Op("a", 5, "one", "apple"), del("b", 5)})
	b.must(b.sink.Close())
	again := b.Process(b.T)
	b.must(again.Prepare(b.ctx, b.alias, b.index, true))
	s := b.open(again)
	b.writeTo(s, []sink.Op{Op("a", 4, "old", "x"), Op("b", 4, "old", "x")}, sink.Superseded)
	b.writeTo(s, []sink.Op{Op("a", 6, "new", "cherry")})
	b.count(1)
	b.found("cherry", "a")
}

// testKill acknowledges a write, forgets the position (a new process that never
// saw the first one closed), and writes the same range again.
func testKill(b *bench) {
	var ops []sink.Op
	for i := range 50 {
		ops = append(ops, Op(fmt.Sprintf("doc-%d", i), int64(i), "t", "apple"))
	}
	b.write(ops[:30])
	b.count(30)
	successor := b.open(b.Process(b.T))
	b.writeTo(successor, ops[10:])
	b.count(50)
	// The first process wakes up and finishes its write.
	b.write(ops)
	b.count(50)
}

func testTwoWriters(b *bench) {
	const writers, rounds, ids = 4, 12, 20
	sinks := []sink.Sink{b.sink, b.open(b.admin), b.open(b.Process(b.T)), b.open(b.Process(b.T))}
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				ops := make([]sink.Op, ids)
				for i := range ops {
					v := int64((r*7+w*3+i)%rounds*writers + w)
					ops[i] = Op(fmt.Sprintf("doc-%d", i), v, fmt.Sprintf("version%d", v), "apple")
				}
				if _, err := sinks[w].Write(b.ctx, ops); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	b.must(errors.Join(errs...))
	b.count(ids)
	// Each id was given every residue of every writer, so the greatest version
	// is the same for all.
	hits := b.found("apple", idList(ids)...)
	for _, h := range hits {
		if want := fmt.Sprintf("version%d", (rounds-1)*writers+writers-1); h.Title != want {
			b.Errorf("%s ended at %q, want %q", h.ID, h.Title, want)
		}
	}
}

func idList(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("doc-%d", i)
	}
	return ids
}

// poison are documents that no sink can hold.
var poison = map[string][]byte{
	"broken":   []byte(`{"title":"x"`),
	"array":    []byte(`["x"]`),
	"null":     []byte(`null`),
	"text":     []byte(`hello`),
	"NaN":      []byte(`{"status":NaN}`),
	"bad UTF8": []byte("{\"title\":\"a\xff\xfeb\"}"),
	"two":      []byte(`{"a":1}{"b":2}`),
	"nested":   []byte(strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)),
	"line":     []byte("{\"title\":\"x\"\n"),
}

func testPoison(b *bench) {
	for name, doc := range poison {
		b.Run(name, func(*testing.T) {
			b.write([]sink.Op{
				Op(name+"-before", 1, "t", "neighbour"),
				{ID: name, Version: 1, Doc: doc},
				Op(name+"-after", 1, "t", "neighbour"),
			}, sink.Loaded, sink.Rejected, sink.Loaded)
		})
	}
	b.count(int64(2 * len(poison)))
}

// testBadOps: what CheckOp refuses must not fail its neighbours.
func testBadOps(b *bench) {
	bad := []sink.Op{
		Op("", 1, "t", "x"),
		Op(strings.Repeat("x", sink.MaxID+1), 1, "t", "x"),
		{ID: "a\xffb", Version: 1, Doc: []byte(`{}`)},
		Op("negative", -1, "t", "x"),
		del("negative", -2),
		{ID: "nothing", Version: 1},
		{ID: "both", Version: 1, Delete: true, Doc: []byte(`{}`)},
	}
	for i, op := range bad {
		b.write([]sink.Op{Op(fmt.Sprintf("good-%d", i), 1, "t", "fine"), op}, sink.Loaded, sink.Rejected)
	}
	b.count(int64(len(bad)))
}

// testNewlines: white space between tokens is part of JSON.
func testNewlines(b *bench) {
	b.write([]sink.Op{
		{ID: "pretty", Version: 1, Doc: []byte("\n{\r\n  \"title\": \"pretty\",\n\t\"text\": \"apple\\nbanana\"\n}\n")},
		Op("next", 1, "next", "cherry"),
	})
	b.count(2)
	b.found("banana", "pretty")
	b.found("cherry", "next")
}

func testUnicode(b *bench) {
	ids := []string{"https://example.org/ü?q=日本語&x=\"'\\", "id with spaces\tand\nlines", "emoji-😀", "\u0000null", "ß"}
	for i, id := range ids {
		b.write([]sink.Op{Op(id, int64(i), "Grüße aus Zürich", "Füße 日本語 \u2028 \u0000 😀")})
		b.write([]sink.Op{Op(id, int64(i), "Grüße aus Zürich", "Füße 日本語 \u2028 \u0000 😀")})
	}
	b.count(int64(len(ids)))
	b.found("Zürich", ids...)
	b.found(`"grüße aus"`, ids...)
}

func testLongID(b *bench) {
	id := strings.Repeat("ü", sink.MaxID/2)
	b.write([]sink.Op{Op(id, 2, "long", "apple")})
	b.write([]sink.Op{Op(id, 1, "long", "apple")}, sink.Superseded)
	b.found("apple", id)
}

func testLarge(b *bench) {
	n := b.Large
	if n == 0 {
		n = 2000
	}
	text := strings.Repeat("lorem ipsum dolor sit amet ", 80)
	ops := make([]sink.Op, n, n+1)
	for i := range ops {
		ops[i] = Op(fmt.Sprintf("doc-%d", i), 1, "t", text)
	}
	big := Op("big", 1, "big", strings.Repeat("immensity ", 1<<20/10))
	b.write(append(ops, big))
	b.write(ops)
	b.count(int64(n + 1))
	b.found("immensity", "big")
}

func testEmpty(b *bench) {
	b.write(nil)
	b.count(0)
}

func testCancelled(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.sink.Write(ctx, []sink.Op{Op("a", 1, "t", "x")}); !errors.Is(err, context.Canceled) {
		b.Fatalf("write under a cancelled context: %v, want context.Canceled", err)
	}
	b.write([]sink.Op{Op("a", 1, "t", "x")})
	b.count(1)
}

func testSearch(b *bench) {
	b.write([]sink.Op{
		Op("title", 1, "harbour lights", "nothing of note"),
		Op("text", 1, "other", "from the harbour one sees lights"),
		Op("one", 1, "other", "a harbour only"),
		Op("quoted", 1, "other", `he said "mind the OR gap" NOT here*`),
	})
	b.found("harbour", "title", "text", "one")
	b.found("harbour lights", "title", "text")
	b.found(`"harbour lights"`, "title")
	b.found("mind OR gap", "quoted")
	b.found("absent")
	for _, odd := range []string{
		"", " ", `"`, `""`, "*", "AND", "title:x", "a AND (b", "NEAR(x y)", "-", "^x", "{a b}:c", "'; DROP TABLE documents; --",
		"\x00", "\xff\xfe", "a\x00b", strings.Repeat("(", 3000), strings.Repeat("word ", 5000), "/re(ge/", "~1 +x -y |z",
	} {
		if _, _, err := b.search(b.alias, odd, 5); err != nil {
			b.Errorf("search %.40q: %v", odd, err)
		}
	}
	hits, total, err := b.search(b.alias, "harbour", 2)
	b.must(err)
	if len(hits) != 2 || total != 3 {
		b.Fatalf("limit 2 gave %d hits of %d, want 2 of 3", len(hits), total)
	}
	best := b.found(`"harbour lights"`, "title")[0]
	if best.Title != "harbour lights" || best.Score <= 0 || best.Snippet == "" {
		b.Errorf("hit %+v lacks title, score or snippet", best)
	}
	if s := b.found("sees", "text")[0].Snippet; !strings.Contains(s, "sees") {
		b.Errorf("snippet %q does not show the word", s)
	}
}

func testAlias(b *bench) {
	b.write([]sink.Op{Op("a", 1, "first", "apple")})
	next := b.alias + "-20270102t030405"
	b.must(b.admin.Prepare(b.ctx, b.alias, next, false))
	b.Cleanup(func() {
		if err := b.admin.Drop(context.Background(), b.alias, next); err != nil {
			b.Errorf("Drop: %v", err)
		}
	})
	s, err := b.admin.Open(b.ctx, next)
	b.must(err)
	b.writeTo(s, []sink.Op{Op("b", 1, "second", "apple")})
	b.must(s.Close())
	b.found("apple", "a")
	for range 2 {
		b.must(b.admin.Prepare(b.ctx, b.alias, next, true))
	}
	if b.Settle != nil {
		b.Settle(b.T, next)
	}
	b.found("apple", "b")
	b.count(1)
	// Dropping the old generation leaves the alias alone.
	b.must(b.sink.Close())
	b.must(b.admin.Drop(b.ctx, b.alias, b.index))
	hits, _, err := b.search(b.alias, "apple", 10)
	if err != nil || len(hits) != 1 {
		b.Fatalf("after dropping the old index: %v, %v", hits, err)
	}
}

func testMissing(b *bench) {
	if _, _, err := b.search(b.alias+"-none", "x", 1); !errors.Is(err, sink.ErrNoIndex) {
		b.Errorf("search of no alias: %v, want ErrNoIndex", err)
	}
	if _, err := b.admin.Count(b.ctx, b.index+"9"); !errors.Is(err, sink.ErrNoIndex) {
		b.Errorf("count of no index: %v, want ErrNoIndex", err)
	}
	if s, err := b.admin.Open(b.ctx, b.index+"9"); !errors.Is(err, sink.ErrNoIndex) {
		b.Errorf("open of no index: %v, want ErrNoIndex", err)
		if err == nil {
			b.must(s.Close())
		}
	}
	for _, bad := range []string{"", "../x", "a/b", "A", "a b", "_x", "a,b", "*", strings.Repeat("x", 300)} {
		if err := b.admin.Prepare(b.ctx, bad, b.index, false); err == nil {
			b.Errorf("alias %q was accepted", bad)
		}
		if err := b.admin.Drop(b.ctx, b.alias, bad); err == nil {
			b.Errorf("drop of index %q was accepted", bad)
		}
	}
}

func testDrop(b *bench) {
	b.write([]sink.Op{Op("a", 1, "t", "apple")})
	b.must(b.sink.Close())
	for range 2 {
		b.must(b.admin.Drop(b.ctx, b.alias, b.index))
	}
	if _, _, err := b.search(b.alias, "apple", 1); !errors.Is(err, sink.ErrNoIndex) {
		b.Errorf("search after drop: %v, want ErrNoIndex", err)
	}
	b.must(b.admin.Prepare(b.ctx, b.alias, b.index, true))
	b.count(0)
	s := b.open(b.admin)
	b.writeTo(s, []sink.Op{Op("a", 0, "t", "cherry")})
	b.found("apple")
	b.found("cherry", "a")
}

func testHolds(b *bench) {
	holder, ok := b.admin.(sink.Holder)
	if !ok {
		b.Fatal("the sink cannot be asked what it holds")
	}
	b.write([]sink.Op{Op("a", 5, "t", "x"), Op("b", 0, "t", "x"), del("b", 7), Op("c ü\n", 9, "t", "x")})
	ids := []sink.HeldID{{ID: "c ü\n"}, {ID: "b"}, {ID: "a"}, {ID: "none"}, {ID: "a"}, {ID: "a", Index: b.index}, {ID: "a", Index: b.index + "9"}}
	want := []sink.Holding{{Found: true, Version: 9}, {}, {Found: true, Version: 5}, {}, {Found: true, Version: 5}, {Found: true, Version: 5}, {}}
	held, err := holder.Holds(b.ctx, b.index, ids)
	b.must(err)
	if !slices.Equal(held, want) {
		b.Errorf("holds %+v, want %+v", held, want)
	}
	held, err = holder.Holds(b.ctx, b.index+"9", ids[:2])
	if err != nil || !slices.Equal(held, make([]sink.Holding, 2)) {
		b.Errorf("an index that is not there holds %+v, %v", held, err)
	}
	if _, err := holder.Holds(b.ctx, b.index, make([]sink.HeldID, sink.MaxHeld+1)); err == nil {
		b.Error("too many ids were accepted")
	}
}
