// Package logtest is the conformance suite of internal/kafkalog: what a broker
// must do for us, and what the log must make of it. It runs on the in-process
// broker and on a real one. It refuses what only one of them can show: those
// cases are tests of internal/kafkalog itself.
package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"trawl/internal/kafkalog"
)

// limit of one case.
const limit = time.Minute

type suite struct {
	brokers []string
	log     *kafkalog.Log
}

// Run runs all cases on a cluster of one broker or more that does not create
// topics by itself. restart kills the cluster and returns when it serves again
// on the same addresses with the same data; nil leaves those cases out. Topics
// have random names and are deleted.
func Run(t *testing.T, brokers []string, restart func()) {
	s := &suite{brokers: brokers, log: Open(t, brokers)}
	for _, c := range []struct {
		name string
		run  func(*suite, *testing.T)
	}{
		{"Ping", (*suite).ping},
		{"EnsureTopics", (*suite).ensureTopics},
		{"EnsureTopicsAtOnce", (*suite).ensureAtOnce},
		{"DeleteTopics", (*suite).deleteTopics},
		{"SetConfig", (*suite).setConfig},
		{"RoundTrip", (*suite).roundTrip},
		{"Order", (*suite).order},
		{"Concurrent", (*suite).concurrent},
		{"LargeRecord", (*suite).largeRecord},
		{"TooLarge", (*suite).tooLarge},
		{"SplitBelowTopicLimit", (*suite).splitBelowLimit},
		{"AppendAll", (*suite).appendAll},
		{"ReadMiddle", (*suite).readMiddle},
		{"ReadStopped", (*suite).readStopped},
		{"ReadAt", (*suite).readAt},
		{"ReadWaits", (*suite).readWaits},
		{"Transactions", (*suite).transactions},
		{"Times", (*suite).times},
		{"OtherClients", (*suite).otherClients},
		{"Missing", (*suite).missing},
		{"OutOfRange", (*suite).outOfRange},
		{"Recreated", (*suite).recreated},
		{"Commit", (*suite).commit},
		{"Cancelled", (*suite).cancelled},
		{"Closed", (*suite).closed},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(s, t) })
	}
	if restart != nil {
		t.Run("Restart", func(t *testing.T) { s.restart(t, restart) })
	}
}

// Open opens a log that is closed when the test ends.
func Open(t testing.TB, brokers []string) *kafkalog.Log {
	t.Helper()
	l, err := kafkalog.Open(kafkalog.Config{Brokers: brokers, ClientID: "logtest"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// Topic creates a topic of a random name, deleted when the test ends. config
// is a list of keys and values.
func Topic(t testing.TB, l *kafkalog.Log, partitions int, config ...string) string {
	t.Helper()
	spec := kafkalog.TopicSpec{Name: name(), Partitions: partitions, Config: map[string]string{}}
	for i := 0; i+1 < len(config); i += 2 {
		spec.Config[config[i]] = config[i+1]
	}
	if err := l.EnsureTopics(ctx(t), []kafkalog.TopicSpec{spec}); err != nil {
		t.Fatal(err)
	}
	drop(t, l, spec.Name)
	return spec.Name
}

func name() string { return fmt.Sprintf("logtest.%016x", rand.Uint64()) }

func drop(t testing.TB, l *kafkalog.Log, topics ...string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := l.DeleteTopics(ctx, topics...); err != nil {
			t.Error(err)
		}
	})
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind kafkalog.Kind) {
	t.Helper()
	if e, ok := errors.AsType[*kafkalog.Error](err); !ok || e.Kind != kind {
		t.Fatalf("got %v, want kind %q", err, kind)
	}
}

func wantText(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not name %q", err, p)
		}
	}
}

// Numbered makes n records whose values are of the given size and hard to
// compress; keys are their numbers from first on.
func Numbered(first, n, size int) []kafkalog.Record {
	recs := make([]kafkalog.Record, n)
	for i := range recs {
		rng := rand.New(rand.NewPCG(uint64(first+i), 7))
		v := make([]byte, size)
		for j := range v {
			v[j] = byte(rng.Uint32())
		}
		recs[i] = kafkalog.Record{Key: []byte(strconv.Itoa(first + i)), Value: v}
	}
	return recs
}

func (s *suite) append(t testing.TB, topic string, recs []kafkalog.Record) int64 {
	t.Helper()
	base, err := s.log.Append(ctx(t), topic, 0, recs)
	must(t, err)
	return base
}

// keys reads a range and gives the keys of its records.
func (s *suite) keys(t testing.TB, topic string, from, end int64) []string {
	t.Helper()
	var keys []string
	next, err := s.log.ReadRange(ctx(t), topic, 0, from, end, func(r kafkalog.Record) error {
		keys = append(keys, string(r.Key))
		return nil
	})
	must(t, err)
	if next != end {
		t.Fatalf("next is %d, want %d", next, end)
	}
	return keys
}

func numbers(first, n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, strconv.Itoa(first+i))
	}
	return keys
}

func (s *suite) ping(t *testing.T) { must(t, s.log.Ping(ctx(t))) }

func (s *suite) ensureTopics(t *testing.T) {
	prefix := name()
	specs := []kafkalog.TopicSpec{
		{Name: prefix + ".a", Partitions: 3, Config: map[string]string{"cleanup.policy": "compact"}},
		{Name: prefix + ".b", Partitions: 1},
	}
	drop(t, s.log, specs[0].Name, specs[1].Name)
	for range 2 { // the second time they exist
		must(t, s.log.EnsureTopics(ctx(t), specs))
	}
	got, err := s.log.Topics(ctx(t), prefix)
	must(t, err)
	if want := map[string]int{specs[0].Name: 3, specs[1].Name: 1}; !maps.Equal(got, want) {
		t.Errorf("topics: got %v, want %v", got, want)
	}
	// Usable at once, also by a client that has just asked for it in vain.
	_, err = s.log.Append(ctx(t), specs[0].Name, 2, Numbered(0, 1, 10))
	must(t, err)

	more := specs[0]
	more.Partitions = 4
	wantText(t, s.log.EnsureTopics(ctx(t), []kafkalog.TopicSpec{more}), more.Name, "3 partitions", "4 are wanted")
	other := specs[0]
	other.Config = nil
	wantText(t, s.log.EnsureTopics(ctx(t), []kafkalog.TopicSpec{other}), other.Name, "cleanup.policy", `"compact"`, `"delete"`)
	for _, bad := range []kafkalog.TopicSpec{{Partitions: 1}, {Name: prefix}, {Name: strings.Repeat("n", 250), Partitions: 1}} {
		if err := s.log.EnsureTopics(ctx(t), []kafkalog.TopicSpec{bad}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func (s *suite) ensureAtOnce(t *testing.T) {
	spec := kafkalog.TopicSpec{Name: name(), Partitions: 2}
	drop(t, s.log, spec.Name)
	logs := []*kafkalog.Log{s.log, Open(t, s.brokers), Open(t, s.brokers)}
	var wg sync.WaitGroup
	for _, l := range logs {
		wg.Go(func() {
			if err := l.EnsureTopics(ctx(t), []kafkalog.TopicSpec{spec}); err != nil {
				t.Error(err)
				return
			}
			if _, err := l.Append(ctx(t), spec.Name, 1, Numbered(0, 1, 10)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ends, err := s.log.Ends(ctx(t), spec.Name, 2)
	must(t, err)
	if want := []int64{0, 3}; !slices.Equal(ends, want) {
		t.Errorf("ends: got %v, want %v", ends, want)
	}
}

func (s *suite) deleteTopics(t *testing.T) {
	topic := Topic(t, s.log, 1)
	for range 2 {
		must(t, s.log.DeleteTopics(ctx(t), topic, name()))
	}
	got, err := s.log.Topics(ctx(t), topic)
	must(t, err)
	if len(got) != 0 {
		t.Errorf("still there: %v", got)
	}
}

func (s *suite) setConfig(t *testing.T) {
	topic := Topic(t, s.log, 1)
	must(t, s.log.SetConfig(ctx(t), topic, "cleanup.policy", "compact"))
	spec := kafkalog.TopicSpec{Name: topic, Partitions: 1, Config: map[string]string{"cleanup.policy": "compact"}}
	must(t, s.log.EnsureTopics(ctx(t), []kafkalog.TopicSpec{spec}))
	wantKind(t, s.log.SetConfig(ctx(t), name(), "retention.ms", "1000"), kafkalog.KindTopic)
}

// roundTrip: every field of a record comes back, by every compression.
func (s *suite) roundTrip(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	recs := []kafkalog.Record{
		{Key: []byte("key"), Value: []byte("value"), Time: at},
		{Key: []byte("tombstone"), Time: at.Add(-time.Hour)},
		{Value: []byte("no key"), Time: at},
		{Key: []byte{}, Value: []byte{}, Time: at},
		{Key: []byte("headers"), Value: bytes.Repeat([]byte("text "), 1000), Time: at, Headers: []kafkalog.Header{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte("2")},
		}},
		{Key: []byte("after headers"), Value: []byte("none"), Time: at},
	}
	for _, codec := range []string{"none", "lz4", "zstd", "snappy"} {
		t.Run(codec, func(t *testing.T) {
			topic := Topic(t, s.log, 1)
			base, err := s.log.AppendWith(ctx(t), topic, 0, recs, codec)
			must(t, err)
			var got []kafkalog.Record
			next, high, err := s.log.Read(ctx(t), topic, 0, base, 1<<20, time.Second, func(r kafkalog.Record) error {
				got = append(got, copied(r))
				return nil
			})
			must(t, err)
			if end := base + int64(len(recs)); next != end || high != end {
				t.Errorf("next %d, high %d, want %d", next, high, end)
			}
			if len(got) != len(recs) {
				t.Fatalf("%d records, want %d", len(got), len(recs))
			}
			for i, want := range recs {
				want.Offset = base + int64(i)
				if g, w := fmt.Sprintf("%#v", got[i]), fmt.Sprintf("%#v", want); g != w {
					t.Errorf("record %d:\n got %s\nwant %s", i, g, w)
				}
			}
		})
	}
	if _, err := s.log.AppendWith(ctx(t), "any", 0, recs, "gzip9"); err == nil {
		t.Error("an unknown compression was accepted")
	}
}

func copied(r kafkalog.Record) kafkalog.Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	var hs []kafkalog.Header
	for _, h := range r.Headers {
		hs = append(hs, kafkalog.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	r.Headers = hs
	return r
}

// order: one call may need many batches; the log holds the records in order.
func (s *suite) order(t *testing.T) {
	topic := Topic(t, s.log, 1)
	if base, err := s.log.Append(ctx(t), topic, 0, nil); err != nil || base != -1 {
		t.Errorf("nothing appended: %d, %v", base, err)
	}
	const n = 300
	if base := s.append(t, topic, Numbered(0, n, 10_000)); base != 0 {
		t.Errorf("base %d, want 0", base)
	}
	if base := s.append(t, topic, Numbered(n, 1, 10)); base != n {
		t.Errorf("base %d, want %d", base, n)
	}
	if got, want := s.keys(t, topic, 0, n+1), numbers(0, n+1); !slices.Equal(got, want) {
		t.Errorf("got %d keys: %v", len(got), got)
	}
	if got, want := s.keys(t, topic, 17, 23), numbers(17, 6); !slices.Equal(got, want) {
		t.Errorf("range: got %v, want %v", got, want)
	}
	if got := s.keys(t, topic, 5, 5); len(got) != 0 {
		t.Errorf("empty range: got %v", got)
	}
	first, end, err := s.log.Bounds(ctx(t), topic, 0)
	if must(t, err); first != 0 || end != n+1 {
		t.Errorf("bounds %d to %d, want 0 to %d", first, end, n+1)
	}
	if end, err := s.log.End(ctx(t), topic, 0); err != nil || end != n+1 {
		t.Errorf("end %d, want %d: %v", end, n+1, err)
	}
}

// concurrent: writers and readers share one Log.
func (s *suite) concurrent(t *testing.T) {
	const writers, batches, each = 4, 10, 20
	topic := Topic(t, s.log, 2)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for b := range batches {
				recs := Numbered((w*batches+b)*each, each, 500)
				if _, err := s.log.Append(ctx(t), topic, w%2, recs); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := make([]map[string]int, 2)
	for p := range 2 {
		seen[p] = map[string]int{}
		wg.Go(func() {
			_, err := s.log.ReadRange(ctx(t), topic, p, 0, writers/2*batches*each, func(r kafkalog.Record) error {
				seen[p][string(r.Key)]++
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	maps.Copy(seen[0], seen[1])
	if got := len(seen[0]); got != writers*batches*each {
		t.Errorf("%d different keys, want %d", got, writers*batches*each)
	}
}

// largeRecord: more than a fetch asks for still comes.
func (s *suite) largeRecord(t *testing.T) {
	topic := Topic(t, s.log, 1, "max.message.bytes", strconv.Itoa(10<<20))
	recs := Numbered(0, 3, 100)
	recs[1].Value = bytes.Repeat(Numbered(9, 1, 1<<20)[0].Value, 3)
	s.append(t, topic, recs)
	var got []int
	from := int64(0)
	for from < 3 {
		next, _, err := s.log.Read(ctx(t), topic, 0, from, 1000, time.Second, func(r kafkalog.Record) error {
			got = append(got, len(r.Value))
			return nil
		})
		if must(t, err); next == from {
			t.Fatalf("stands still at %d", from)
		}
		from = next
	}
	if want := []int{100, 3 << 20, 100}; !slices.Equal(got, want) {
		t.Errorf("sizes %v, want %v", got, want)
	}
}

func (s *suite) tooLarge(t *testing.T) {
	topic := Topic(t, s.log, 1, "max.message.bytes", strconv.Itoa(100_000))
	recs := Numbered(0, 5, 1000)
	recs[3] = Numbered(3, 1, 200_000)[0]
	_, err := s.log.Append(ctx(t), topic, 0, recs)
	wantKind(t, err, kafkalog.KindTooLarge)
	if !errors.Is(err, kafkalog.ErrTooLarge) {
		t.Errorf("%v is not ErrTooLarge", err)
	}
	wantText(t, err, topic, "2000", "max.message.bytes")
	if got, want := s.keys(t, topic, 0, 3), numbers(0, 3); !slices.Equal(got, want) {
		t.Errorf("records before it: got %v, want %v", got, want)
	}
	_, err = s.log.Append(ctx(t), topic, 0, []kafkalog.Record{{Value: make([]byte, 65<<20)}})
	wantKind(t, err, kafkalog.KindTooLarge)
}

// splitBelowLimit: a topic's limit below our batches is met by smaller ones.
func (s *suite) splitBelowLimit(t *testing.T) {
	topic := Topic(t, s.log, 1, "max.message.bytes", strconv.Itoa(50_000))
	s.append(t, topic, Numbered(0, 60, 10_000))
	if got, want := s.keys(t, topic, 0, 60), numbers(0, 60); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// appendAll: many partitions of two topics at once, of which one refuses its
// record and one has to take smaller batches.
func (s *suite) appendAll(t *testing.T) {
	wide, low := Topic(t, s.log, 8), Topic(t, s.log, 2, "max.message.bytes", strconv.Itoa(50_000))
	_, err := s.log.Append(ctx(t), low, 0, Numbered(0, 1, 10)) // now the log knows both
	must(t, err)
	var parts []kafkalog.Part
	for p := range 8 {
		parts = append(parts, kafkalog.Part{Topic: wide, Partition: p, Records: Numbered(100*p, 3, 1000)})
	}
	parts = append(parts,
		kafkalog.Part{Topic: low, Partition: 0, Records: Numbered(1, 20, 10_000)},
		kafkalog.Part{Topic: low, Partition: 1, Records: Numbered(0, 1, 200_000)},
	)
	errs := s.log.AppendAll(ctx(t), parts)
	wantKind(t, errs[9], kafkalog.KindTooLarge)
	must(t, errors.Join(errs[:9]...))
	if got, want := s.keys(t, low, 0, 21), numbers(0, 21); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for p := range 8 {
		var got []string
		_, err := s.log.ReadRange(ctx(t), wide, p, 0, 3, func(r kafkalog.Record) error {
			got = append(got, string(r.Key))
			return nil
		})
		if must(t, err); !slices.Equal(got, numbers(100*p, 3)) {
			t.Errorf("partition %d: got %v", p, got)
		}
	}
}

// readMiddle: an offset inside a compressed batch gives nothing before it.
func (s *suite) readMiddle(t *testing.T) {
	topic := Topic(t, s.log, 1)
	_, err := s.log.AppendWith(ctx(t), topic, 0, Numbered(0, 10, 100), "lz4")
	must(t, err)
	for from := range int64(10) {
		if got, want := s.keys(t, topic, from, 10), numbers(int(from), 10-int(from)); !slices.Equal(got, want) {
			t.Errorf("from %d: got %v", from, got)
		}
	}
}

// readStopped: the callback's own error comes back with the offset to go on.
func (s *suite) readStopped(t *testing.T) {
	topic := Topic(t, s.log, 1)
	s.append(t, topic, Numbered(0, 10, 10))
	mine := errors.New("mine")
	stop := func(r kafkalog.Record) error {
		if r.Offset == 6 {
			return mine
		}
		return nil
	}
	if next, _, err := s.log.Read(ctx(t), topic, 0, 2, 1<<20, time.Second, stop); next != 6 || !errors.Is(err, mine) {
		t.Errorf("Read: %d, %v", next, err)
	}
	if next, err := s.log.ReadRange(ctx(t), topic, 0, 2, 10, stop); next != 6 || !errors.Is(err, mine) {
		t.Errorf("ReadRange: %d, %v", next, err)
	}
}

func (s *suite) readAt(t *testing.T) {
	topic := Topic(t, s.log, 1)
	s.append(t, topic, Numbered(0, 10, 10))
	for _, off := range []int64{0, 4, 9} {
		r, ok, err := s.log.ReadAt(ctx(t), topic, 0, off)
		if must(t, err); !ok || string(r.Key) != strconv.FormatInt(off, 10) || r.Offset != off {
			t.Errorf("offset %d: %v %q", off, ok, r.Key)
		}
	}
	for _, off := range []int64{10, 11, 1 << 40, -1} {
		if _, ok, err := s.log.ReadAt(ctx(t), topic, 0, off); ok || err != nil {
			t.Errorf("offset %d: %v, %v", off, ok, err)
		}
	}
	_, _, err := s.log.ReadAt(ctx(t), name(), 0, 0)
	wantKind(t, err, kafkalog.KindTopic)
}

// readWaits: a read at the end waits for the next record.
func (s *suite) readWaits(t *testing.T) {
	topic := Topic(t, s.log, 1)
	next, high, err := s.log.Read(ctx(t), topic, 0, 0, 1<<20, 10*time.Millisecond, nil)
	if must(t, err); next != 0 || high != 0 {
		t.Errorf("empty log: next %d, high %d", next, high)
	}
	done := make(chan string, 1)
	go func() {
		var key string
		_, _, _ = s.log.Read(t.Context(), topic, 0, 0, 1<<20, 20*time.Second, func(r kafkalog.Record) error {
			key = string(r.Key)
			return nil
		})
		done <- key
	}()
	s.append(t, topic, Numbered(7, 1, 10))
	select {
	case key := <-done:
		if key != "7" {
			t.Errorf("got %q", key)
		}
	case <-time.After(15 * time.Second):
		t.Error("the waiting read did not see the record")
	}
}

// transactions: aborted records and markers are stepped over, and an open
// transaction hides what follows until it ends.
func (s *suite) transactions(t *testing.T) {
	topic := Topic(t, s.log, 1)
	c := s.client(t, topic, kgo.TransactionalID(name()))
	write := func(n int) {
		must(t, c.ProduceSync(ctx(t), &kgo.Record{Key: []byte(strconv.Itoa(n)), Value: []byte("v")}).FirstErr())
	}
	end := func(how kgo.TransactionEndTry) { must(t, c.EndTransaction(ctx(t), how)) }

	s.append(t, topic, Numbered(0, 1, 10)) // offset 0
	must(t, c.BeginTransaction())
	write(1)
	write(2)
	end(kgo.TryAbort) // 1 to 3
	must(t, c.BeginTransaction())
	write(4)
	end(kgo.TryCommit) // 4, 5
	if got, want := s.keys(t, topic, 0, 6), []string{"0", "4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	must(t, c.BeginTransaction())
	write(6)
	s.append(t, topic, Numbered(7, 1, 10))
	if _, end, err := s.log.Bounds(ctx(t), topic, 0); err != nil || end != 6 {
		t.Errorf("with an open transaction: end %d, %v; want 6", end, err)
	}
	next, _, err := s.log.Read(ctx(t), topic, 0, 6, 1<<20, 0, nil)
	if must(t, err); next != 6 {
		t.Errorf("read past an open transaction, to %d", next)
	}
	end(kgo.TryAbort)
	if got, want := s.keys(t, topic, 5, 9), []string{"7"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var all []string
	for at, high := int64(0), int64(1); at < high; {
		at, high, err = s.log.ReadUncommitted(ctx(t), topic, 0, at, 1<<20, time.Second, func(r kafkalog.Record) error {
			all = append(all, string(r.Key))
			return nil
		})
		must(t, err)
	}
	if want := []string{"0", "1", "2", "4", "6", "7"}; !slices.Equal(all, want) {
		t.Errorf("uncommitted: %v, want %v", all, want)
	}
}

// times: offsets by the time of records, and the count of partitions.
func (s *suite) times(t *testing.T) {
	topic, absent := Topic(t, s.log, 3), name()
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	recs := Numbered(0, 4, 10)
	for i := range recs {
		recs[i].Time = day.Add(time.Duration(i) * time.Hour)
		_, err := s.log.Append(ctx(t), topic, 0, recs[i:i+1]) // a batch each: what a broker can tell apart
		must(t, err)
	}
	for at, want := range map[time.Time]int64{
		time.Unix(0, 0): 0, day: 0, day.Add(time.Minute): 1, day.Add(3 * time.Hour): 3, day.Add(4 * time.Hour): 4,
	} {
		if got, err := s.log.OffsetAt(ctx(t), topic, 0, at); err != nil || got != want {
			t.Errorf("offset at %s: %d, %v; want %d", at, got, err, want)
		}
	}
	if got, err := s.log.OffsetAt(ctx(t), topic, 1, day); err != nil || got != 0 {
		t.Errorf("an empty partition: %d, %v", got, err)
	}
	if n, err := s.log.Partitions(ctx(t), topic); err != nil || n != 3 {
		t.Errorf("%d partitions, %v", n, err)
	}
	_, err := s.log.OffsetAt(ctx(t), topic, 7, day)
	wantKind(t, err, kafkalog.KindPartition)
	_, err = s.log.OffsetAt(ctx(t), absent, 0, day)
	wantKind(t, err, kafkalog.KindTopic)
	_, err = s.log.Partitions(ctx(t), absent)
	wantKind(t, err, kafkalog.KindTopic)
}

// otherClients: batches of another client are read, by every compression.
func (s *suite) otherClients(t *testing.T) {
	topic := Topic(t, s.log, 1)
	recs := Numbered(0, 50, 100)
	for i, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		c := s.client(t, topic, kgo.ProducerBatchCompression(codec))
		var out []*kgo.Record
		for _, r := range recs[i*10 : i*10+10] {
			out = append(out, &kgo.Record{Key: r.Key, Value: r.Value})
		}
		must(t, c.ProduceSync(ctx(t), out...).FirstErr())
	}
	if got, want := s.keys(t, topic, 0, 50), numbers(0, 50); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func (s *suite) client(t *testing.T, topic string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.brokers...), kgo.DefaultProduceTopic(topic))...)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func (s *suite) missing(t *testing.T) {
	topic, absent := Topic(t, s.log, 1), name()
	nothing := func(kafkalog.Record) error { return nil }
	// A client that knows the cluster, and one that knows nothing yet.
	for _, l := range []*kafkalog.Log{s.log, Open(t, s.brokers)} {
		_, _, err := l.Read(ctx(t), absent, 0, 0, 1, 0, nothing)
		wantKind(t, err, kafkalog.KindTopic)
		_, _, err = l.Read(ctx(t), topic, 5, 0, 1, 0, nothing)
		wantKind(t, err, kafkalog.KindPartition)
		_, _, err = l.Bounds(ctx(t), absent, 0)
		wantKind(t, err, kafkalog.KindTopic)
		_, _, err = l.Bounds(ctx(t), topic, 5)
		wantKind(t, err, kafkalog.KindPartition)
		_, err = l.End(ctx(t), absent, 0)
		wantKind(t, err, kafkalog.KindTopic)
		_, err = l.End(ctx(t), topic, 5)
		wantKind(t, err, kafkalog.KindPartition)
		_, err = l.Ends(ctx(t), topic, 2)
		wantKind(t, err, kafkalog.KindPartition)
	}
	if got, err := s.log.Topics(ctx(t), absent); err != nil || len(got) != 0 {
		t.Errorf("asking created it: %v, %v", got, err)
	}
}

func (s *suite) outOfRange(t *testing.T) {
	topic := Topic(t, s.log, 1)
	s.append(t, topic, Numbered(0, 3, 10))
	for _, from := range []int64{4, 1 << 50} {
		next, high, err := s.log.Read(ctx(t), topic, 0, from, 1, 0, nil)
		wantKind(t, err, kafkalog.KindOffset)
		if next != from || high != -1 {
			t.Errorf("next %d, high %d", next, high)
		}
	}
}

// recreated: a topic that is deleted and made again is read as the new one by a
// client that knew the old one.
func (s *suite) recreated(t *testing.T) {
	topic := Topic(t, s.log, 1)
	s.append(t, topic, Numbered(0, 5, 10))
	other := Open(t, s.brokers)
	must(t, other.DeleteTopics(ctx(t), topic))
	must(t, other.EnsureTopics(ctx(t), []kafkalog.TopicSpec{{Name: topic, Partitions: 1}}))
	s.append(t, topic, Numbered(50, 1, 10))
	if got := s.keys(t, topic, 0, 1); !slices.Equal(got, []string{"50"}) {
		t.Errorf("got %v", got)
	}
	_, _, err := s.log.Read(ctx(t), topic, 0, 4, 1, 0, nil)
	wantKind(t, err, kafkalog.KindOffset)
}

func (s *suite) commit(t *testing.T) {
	topic, group := Topic(t, s.log, 2), name()
	if _, _, ok, err := s.log.Committed(ctx(t), group, topic, 0); ok || err != nil {
		t.Errorf("before any commit: %v, %v", ok, err)
	}
	note := strings.Repeat("n", 4096)
	something := func(want bool) {
		t.Helper()
		if got, err := s.log.AnyCommitted(ctx(t), group); got != want || err != nil {
			t.Errorf("anything committed: %v, %v; want %v", got, err, want)
		}
	}
	something(false)
	for _, off := range []int64{0, 7, 3} {
		must(t, s.log.Commit(ctx(t), group, topic, 1, off, note))
		something(true)
		got, gotNote, ok, err := s.log.Committed(ctx(t), group, topic, 1)
		if must(t, err); got != off || gotNote != note || !ok {
			t.Errorf("committed %d, got %d, %v, note of %d bytes", off, got, ok, len(gotNote))
		}
	}
	if _, _, ok, err := s.log.Committed(ctx(t), group, topic, 0); ok || err != nil {
		t.Errorf("the other partition: %v, %v", ok, err)
	}
	defer func() {
		for range 2 { // the second time there is none
			must(t, s.log.DeleteGroup(ctx(t), group))
		}
		if _, _, ok, err := s.log.Committed(ctx(t), group, topic, 1); ok || err != nil {
			t.Errorf("a deleted group: %v %v", ok, err)
		}
		something(false)
	}()
	err := s.log.Commit(ctx(t), group, topic, 1, 8, note+"n")
	wantKind(t, err, kafkalog.KindTooLarge)
	wantText(t, err, "4097", "4096")
}

func (s *suite) cancelled(t *testing.T) {
	topic := Topic(t, s.log, 1)
	c, cancel := context.WithCancel(ctx(t))
	started := make(chan error, 1)
	go func() {
		_, _, err := s.log.Read(c, topic, 0, 0, 1, 30*time.Second, nil)
		started <- err
	}()
	cancel()
	select {
	case err := <-started:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a cancelled read does not end")
	}
	if _, err := s.log.Append(c, topic, 0, Numbered(0, 1, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("append: got %v", err)
	}
}

func (s *suite) closed(t *testing.T) {
	l := Open(t, s.brokers)
	must(t, l.Ping(ctx(t)))
	l.Close()
	l.Close()
	if err := l.Ping(ctx(t)); !errors.Is(err, kafkalog.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// restart: what was acknowledged and committed is there after the broker died
// in the middle, and an append that began before ends after.
func (s *suite) restart(t *testing.T, restart func()) {
	topic, group := Topic(t, s.log, 1), name()
	s.append(t, topic, Numbered(0, 100, 1000))
	must(t, s.log.Commit(ctx(t), group, topic, 0, 42, "note"))
	restart()
	s.append(t, topic, Numbered(100, 1, 10))
	off, note, ok, err := s.log.Committed(ctx(t), group, topic, 0)
	if must(t, err); off != 42 || note != "note" || !ok {
		t.Errorf("committed: %d, %q, %v", off, note, ok)
	}

	acked := make(chan int, 1)
	c, stop := context.WithCancel(ctx(t))
	appended := make(chan struct{})
	go func() {
		defer close(acked)
		n := 101
		for ; c.Err() == nil; n++ {
			if _, err := s.log.Append(ctx(t), topic, 0, Numbered(n, 1, 100)); err != nil {
				t.Error(err)
				break
			}
			if n == 110 {
				close(appended)
			}
		}
		acked <- n
	}()
	<-appended
	restart()
	stop()
	n := <-acked
	_, end, err := s.log.Bounds(ctx(t), topic, 0)
	must(t, err)
	got := slices.Compact(s.keys(t, topic, 0, end)) // at least once: duplicates are allowed
	if want := numbers(0, n); !slices.Equal(got, want) {
		t.Errorf("%d keys read back, %d acknowledged", len(got), n)
	}
}
