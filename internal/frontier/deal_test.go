package frontier

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trawl/internal/contract"
)

// shard is a State with facts stated to it, one offset after the other.
type shard struct {
	*State
	t testing.TB
}

func newShard(t testing.TB, o Options) shard {
	if o.ScratchDir == "" {
		o.ScratchDir = t.TempDir()
	}
	s := shard{New(o), t}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s shard) states(facts ...Fact) shard {
	for _, f := range facts {
		if err := fold(s.State, s.Position(), f); err != nil {
			s.t.Fatal(err)
		}
	}
	if s.Invalid() > 0 {
		s.t.Fatalf("%d invalid facts", s.Invalid())
	}
	return s
}

func (s shard) found(host string, n int) shard {
	for i := range n {
		s.states(Discovered{URL: fmt.Sprintf("http://%s/%d", host, i)})
	}
	return s
}

func busySet(slots ...int) contract.SlotSet {
	b := make(contract.SlotSet, contract.Slots/8)
	for _, slot := range slots {
		b[slot>>3] |= 1 << (slot & 7)
	}
	return b
}

func urlsOf(b *contract.Batch) (urls []string) {
	if b == nil {
		return nil
	}
	for _, h := range b.Hosts {
		for _, it := range h.Items {
			urls = append(urls, h.Scheme+"://"+h.Host+it.Path)
		}
	}
	slices.Sort(urls)
	return urls
}

var noon = at(epoch)

func TestDealFirstBatch(t *testing.T) {
	s := newShard(t, Options{Depth: -1, Delay: time.Second, Parallelism: 2})
	s.states(
		Discovered{URL: "https://a.example/x?y=1&z", Depth: 2, Hop: 1},
		Discovered{URL: "http://a.example/", Depth: 0},
		Robots{Host: "a.example", Scheme: "https", CrawlDelay: 3 * time.Second, Expiry: noon.Add(time.Hour)},
		Streak{Host: "a.example", Errors: 2},
	)
	res := s.Deal(noon, contract.ExpandInput{Number: 7, Careful: busySet(SlotOf("a.example"))})
	want := &contract.Batch{
		Number: 7, TimeBox: 15 * time.Second, Slots: []int{SlotOf("a.example")}, Cool: 3 * time.Second, Locators: 2, HostCount: 1,
		Hosts: []contract.BatchHost{
			{
				Scheme: "https", Host: "a.example", DelayMS: 3000, Parallelism: 2, RobotsAt: 2, Streak: 2, Careful: true,
				Items: []contract.Item{{Path: "/x?y=1&z", Depth: 2, Hop: 1}},
			},
			{
				Scheme: "http", Host: "a.example", DelayMS: 3000, Parallelism: 2, RobotsAt: 2, Streak: 2, Careful: true,
				Items: []contract.Item{{Path: "/"}},
			},
		},
	}
	if res.Verdict != contract.VerdictBatch || !reflect.DeepEqual(res.Batch, want) || res.More {
		t.Errorf("Deal = %+v\nbatch %+v\n want %+v", res, res.Batch, want)
	}
	later := s.Deal(noon.Add(2*time.Hour), contract.ExpandInput{Number: 8})
	if later.Batch.Hosts[0].RobotsAt != -1 {
		t.Error("expired rules are used")
	}
}

func TestDealVerdicts(t *testing.T) {
	a := Discovered{URL: "http://a.example/"}
	slot := SlotOf("a.example")
	grant := func(total int64) contract.Grant { return contract.Grant{Number: 1, Total: total} }
	cases := []struct {
		name    string
		facts   []Fact
		in      contract.ExpandInput
		verdict string
		next    time.Time
	}{
		{"empty log", nil, contract.ExpandInput{}, contract.VerdictIdle, time.Time{}},
		{"empty log, something open", nil, contract.ExpandInput{OpenBatches: 1}, contract.VerdictLater, time.Time{}},
		{"due", []Fact{a}, contract.ExpandInput{}, contract.VerdictBatch, time.Time{}},
		{"slot busy", []Fact{a}, contract.ExpandInput{Busy: busySet(slot), OpenBatches: 1}, contract.VerdictLater, time.Time{}},
		{"other slot busy", []Fact{a}, contract.ExpandInput{Busy: busySet(slot ^ 1)}, contract.VerdictBatch, time.Time{}},
		{"as many open as may be", []Fact{a}, contract.ExpandInput{OpenBatches: contract.MaxOpenBatches}, contract.VerdictLater, time.Time{}},
		{"no grant left", []Fact{a}, contract.ExpandInput{Grant: grant(0)}, contract.VerdictStarved, time.Time{}},
		{"all of it open", []Fact{a}, contract.ExpandInput{Grant: grant(3), OpenLocators: 3, OpenBatches: 1}, contract.VerdictLater, time.Time{}},
		{"some grant left", []Fact{a}, contract.ExpandInput{Grant: grant(4), OpenLocators: 3, OpenBatches: 1}, contract.VerdictBatch, time.Time{}},
		{"no grant and nothing to do", nil, contract.ExpandInput{Grant: grant(0)}, contract.VerdictIdle, time.Time{}},
		{"fetched", []Fact{a, Fetched{URL: a.URL, Round: 1, Status: 200}}, contract.ExpandInput{}, contract.VerdictIdle, time.Time{}},
		{
			"try later",
			[]Fact{a, Tried{URL: a.URL, Number: 1, NextDue: noon.Add(time.Minute)}},
			contract.ExpandInput{},
			contract.VerdictLater, noon.Add(time.Minute),
		},
		{
			"try now",
			[]Fact{a, Tried{URL: a.URL, Number: 1, NextDue: noon}},
			contract.ExpandInput{},
			contract.VerdictBatch,
			time.Time{},
		},
		{
			"tries exhausted",
			[]Fact{a, Tried{URL: a.URL, Number: 3, NextDue: noon}},
			contract.ExpandInput{},
			contract.VerdictIdle,
			time.Time{},
		},
		{
			"blocked",
			[]Fact{a, Blocked{Host: "a.example", Until: noon.Add(time.Minute)}},
			contract.ExpandInput{},
			contract.VerdictLater, noon.Add(time.Minute),
		},
		{
			"the latest part counts",
			[]Fact{
				a, Blocked{Host: "a.example", Part: 1, Until: noon.Add(time.Minute)}, Blocked{Host: "a.example", Until: noon.Add(time.Second)},
			},
			contract.ExpandInput{},
			contract.VerdictLater, noon.Add(time.Minute),
		},
		{
			"block over",
			[]Fact{a, Blocked{Host: "a.example", Until: noon}},
			contract.ExpandInput{},
			contract.VerdictBatch,
			time.Time{},
		},
		{
			"a block for ever ends in a day",
			[]Fact{a, Blocked{Host: "a.example", Until: noon.Add(9000 * time.Hour), When: noon}},
			contract.ExpandInput{},
			contract.VerdictLater, noon.Add(24 * time.Hour),
		},
		{"parked", []Fact{a, Parked{Host: "a.example"}}, contract.ExpandInput{}, contract.VerdictIdle, time.Time{}},
		{"ten redirects", []Fact{Discovered{URL: a.URL, Hop: 10}}, contract.ExpandInput{}, contract.VerdictIdle, time.Time{}},
		{"too deep", []Fact{Discovered{URL: a.URL, Depth: 4}}, contract.ExpandInput{}, contract.VerdictIdle, time.Time{}},
		{
			"cut, then known at a lesser depth",
			[]Fact{
				Discovered{URL: a.URL, Depth: 3}, Fetched{URL: a.URL, Status: 200, Depth: 3, CutDepth: true}, Discovered{URL: a.URL, Depth: 2},
			},
			contract.ExpandInput{},
			contract.VerdictBatch,
			time.Time{},
		},
		{
			"not cut, then known at a lesser depth",
			[]Fact{
				Discovered{URL: a.URL, Depth: 3}, Fetched{URL: a.URL, Status: 200, Depth: 3}, Discovered{URL: a.URL, Depth: 2},
			},
			contract.ExpandInput{},
			contract.VerdictIdle,
			time.Time{},
		},
		{
			"a late try after the answer",
			[]Fact{a, Fetched{URL: a.URL, Status: 200}, Tried{URL: a.URL, Number: 1, NextDue: noon}},
			contract.ExpandInput{},
			contract.VerdictIdle,
			time.Time{},
		},
		{
			"a late reset after parking",
			[]Fact{a, Parked{Host: "a.example"}, Streak{Host: "a.example"}, a},
			contract.ExpandInput{},
			contract.VerdictIdle,
			time.Time{},
		},
	}
	for _, window := range []int{0, -1, 1} {
		for _, c := range cases {
			s := newShard(t, Options{Depth: 3, Delay: time.Second, WindowURLs: window}).states(c.facts...)
			res := s.Deal(noon, c.in)
			if res.Verdict != c.verdict || !res.NextDue.Equal(c.next) || (res.Batch != nil) != (c.verdict == contract.VerdictBatch) {
				t.Errorf("%s: %s, next due %v; want %s, %v", c.name, res.Verdict, res.NextDue, c.verdict, c.next)
			}
		}
	}
}

func TestRaisedLimitsReviveLocators(t *testing.T) {
	facts := []Fact{
		Discovered{URL: "http://a.example/deep", Depth: 2},
		Discovered{URL: "http://a.example/cut", Depth: 1},
		Fetched{URL: "http://a.example/cut", Status: 200, Depth: 1, CutDepth: true},
		Discovered{URL: "http://a.example/tried"},
		Tried{URL: "http://a.example/tried", Number: 2, Class: "dns", NextDue: noon},
	}
	low := newShard(t, Options{Depth: 1, Tries: 2, Delay: time.Second}).states(facts...)
	res := low.Deal(noon, contract.ExpandInput{})
	want := contract.Totals{
		Locators: 3, Fetched: 1, Spent: 1, Status: map[string]int64{"2xx": 1}, Refused: map[string]int64{"depth": 1},
		GivenUp: map[string]int64{"dns": 1}, Tries: 2, Hosts: 1, CutDepth: 1,
	}
	if res.Verdict != contract.VerdictIdle || !reflect.DeepEqual(res.Totals, want) {
		t.Errorf("Deal = %+v, want idle with %+v", res, want)
	}
	high := newShard(t, Options{Depth: 2, Tries: 3, Delay: time.Second}).states(facts...)
	res = high.Deal(noon, contract.ExpandInput{})
	got := urlsOf(res.Batch)
	if want := []string{"http://a.example/cut", "http://a.example/deep", "http://a.example/tried"}; !slices.Equal(got, want) {
		t.Errorf("dealt %v, want %v", got, want)
	}
	for _, it := range res.Batch.Hosts[0].Items {
		if it.Path == "/cut" && it.Round != 2 || it.Path == "/tried" && it.Try != 2 {
			t.Errorf("item %+v", it)
		}
	}
}

func TestRecrawlCarriesValidators(t *testing.T) {
	s := newShard(t, Options{Depth: -1, Delay: time.Second, Horizon: noon.Add(24 * time.Hour), WindowURLs: 1})
	s.states(
		Discovered{URL: "http://a.example/"},
		Fetched{URL: "http://a.example/", Status: 200, ETag: `"e"`, LastModified: "Tue", NextDue: noon.Add(time.Hour)},
		Discovered{URL: "http://a.example/2"},
		Fetched{URL: "http://a.example/2", Status: 200, NextDue: noon.Add(48 * time.Hour)}, // beyond the horizon
	)
	if res := s.Deal(noon, contract.ExpandInput{}); res.Verdict != contract.VerdictLater || !res.NextDue.After(noon) {
		t.Errorf("Deal = %+v", res)
	}
	res := s.Deal(noon.Add(time.Hour), contract.ExpandInput{})
	want := []contract.Item{{Path: "/", Round: 2, ETag: `"e"`, LastModified: "Tue"}}
	if res.Batch == nil || !reflect.DeepEqual(res.Batch.Hosts[0].Items, want) {
		t.Errorf("Deal = %+v", res.Batch)
	}
}

func TestHostsGetTheirTimeBox(t *testing.T) {
	for delay, want := range map[time.Duration]int{
		time.Second: 15, 4 * time.Second: 3, 15 * time.Second: 1, time.Minute: 1, time.Millisecond: 40,
	} {
		s := newShard(t, Options{Depth: -1, Delay: delay}).found("a.example", 40)
		if res := s.Deal(noon, contract.ExpandInput{}); res.Batch.Locators != want {
			t.Errorf("delay %v: %d locators, want %d", delay, res.Batch.Locators, want)
		}
	}
	s := newShard(t, Options{Depth: -1, Delay: time.Second, HostErrors: 5}).found("a.example", 40)
	s.states(Streak{Host: "a.example", Errors: 3})
	if res := s.Deal(noon, contract.ExpandInput{}); res.Batch.Locators != 2 {
		t.Errorf("%d locators of a host that is parked after two more errors", res.Batch.Locators)
	}
}

func TestSlowHostsGetBatchesOfTheirOwn(t *testing.T) {
	s := newShard(t, Options{Depth: -1, Delay: time.Second})
	for i := range 20 {
		s.found(fmt.Sprintf("fast%d.example", i), 3)
		slow := fmt.Sprintf("slow%d.example", i)
		s.found(slow, 3).states(Robots{Host: slow, CrawlDelay: 10 * time.Second, Expiry: noon.Add(time.Hour)})
		s.found("failing"+slow, 3).states(Streak{Host: "failing" + slow, Errors: 1})
	}
	for number := range int64(8) {
		res := s.Deal(noon, contract.ExpandInput{Number: number})
		kinds := map[bool]int{}
		for _, h := range res.Batch.Hosts {
			kinds[strings.Contains(h.Host, "slow")]++
		}
		if len(kinds) != 1 || kinds[number%4 == 3] == 0 || !res.More {
			t.Errorf("batch %d: %v", number, kinds)
		}
	}
}

func TestBatchBounds(t *testing.T) {
	s := newShard(t, Options{Depth: -1, BatchBytes: 20_000})
	for i := range 300 {
		s.states(Discovered{URL: fmt.Sprintf("http://%d.example/%s?a&b&c", i%40, strings.Repeat("x", i))})
	}
	res := s.Deal(noon, contract.ExpandInput{Number: 1})
	text, err := json.Marshal(res.Batch)
	if err != nil || len(text) > 20_500 || len(text) < 15_000 || !res.More {
		t.Errorf("batch of %d bytes, more %v, %v", len(text), res.More, err)
	}
	s = newShard(t, Options{Depth: -1, BatchBytes: 1000}).states(Discovered{URL: "http://a.example/" + strings.Repeat("x", 9000)})
	if res := s.Deal(noon, contract.ExpandInput{}); res.Verdict != contract.VerdictBatch {
		t.Error("a locator longer than a batch is never dealt")
	}
	s = newShard(t, Options{Depth: -1}).found("a.example", 600)
	if res := s.Deal(noon, contract.ExpandInput{Grant: contract.Grant{Number: 1, Total: 7}, OpenBatches: 1, OpenLocators: 2}); res.Batch.Locators != 5 || res.More {
		t.Errorf("%d locators, more %v; 5 are granted", res.Batch.Locators, res.More)
	}
}

func TestPagesPerHost(t *testing.T) {
	s := newShard(t, Options{Depth: -1, PagesPerHost: 3, Parallelism: 8}).found("a.example", 10)
	res := s.Deal(noon, contract.ExpandInput{})
	if res.Batch.Locators != 3 {
		t.Fatalf("%d locators, the cap is 3", res.Batch.Locators)
	}
	for _, u := range urlsOf(res.Batch) {
		s.states(Fetched{URL: u, Status: 200})
	}
	res = s.Deal(noon, contract.ExpandInput{})
	if res.Verdict != contract.VerdictIdle || res.Totals.Refused["host-cap"] != 7 || res.Totals.Pending != 0 {
		t.Errorf("Deal = %+v", res)
	}
}

func TestSplitHost(t *testing.T) {
	o := Options{Depth: -1, Parallelism: 8}
	known := Robots{Host: "a.example", Expiry: noon.Add(time.Hour)}
	in := contract.ExpandInput{Number: 5}

	whole := newShard(t, o).found("a.example", 400)
	if b := whole.Deal(noon, in).Batch; b.Locators != 400 || b.Hosts[0].Part != 0 || b.Hosts[0].Parallelism != 8 {
		t.Errorf("robots not known: %+v", b)
	}
	if b := whole.Deal(noon, contract.ExpandInput{Busy: busySet(PartSlot("a.example", 3))}).Batch; b != nil {
		t.Error("dealt whole while a part is open")
	}

	s := newShard(t, o).found("a.example", 4000).states(known)
	seen := map[string]bool{}
	used := map[int]bool{}
	busy := busySet()
	for range 8 {
		res := s.Deal(noon, contract.ExpandInput{Number: in.Number, Busy: busy, OpenBatches: len(used)})
		if res.Batch == nil {
			t.Fatalf("after %d parts: %+v", len(used), res)
		}
		h := res.Batch.Hosts[0]
		if len(res.Batch.Hosts) != 1 || len(res.Batch.Slots) != 1 || h.Part == 0 || h.Parallelism != 1 ||
			res.Batch.Slots[0] != PartSlot("a.example", h.Part-1) || used[h.Part] || res.More != (len(used) < 7) {
			t.Fatalf("part %+v, more %v", res.Batch, res.More)
		}
		used[h.Part] = true
		for _, u := range urlsOf(res.Batch) {
			if seen[u] {
				t.Fatalf("%s twice", u)
			}
			seen[u] = true
		}
		busy[res.Batch.Slots[0]>>3] |= 1 << (res.Batch.Slots[0] & 7)
	}
	if len(seen) < 3500 {
		t.Errorf("%d of 4000 locators in 8 parts", len(seen))
	}
	if res := s.Deal(noon, contract.ExpandInput{Busy: busySet(SlotOf("a.example")), OpenBatches: 1}); res.Batch != nil {
		t.Error("a part was dealt while the host is open")
	}
	for name, fact := range map[string]Fact{
		"blocked once": Blocked{Host: "a.example", Until: noon},
		"crawl delay":  Robots{Host: "a.example", Expiry: noon.Add(time.Hour), CrawlDelay: time.Second},
		"expired":      Robots{Host: "a.example", Expiry: noon},
	} {
		s := newShard(t, o).found("a.example", 400).states(known, fact)
		if b := s.Deal(noon, in).Batch; b.Hosts[0].Part != 0 {
			t.Errorf("%s: still split: %+v", name, b)
		}
	}
}

// Sixteen parts of one request each are dealt by two, evenly, and one locator
// that may still be asked for is dealt, too.
func TestPartsByTwo(t *testing.T) {
	o := Options{Depth: -1, Parallelism: 16}
	known := Robots{Host: "a.example", Expiry: noon.Add(time.Hour)}
	s := newShard(t, o).found("a.example", 20_000).states(known)
	busy, batches := busySet(), 0
	for ; ; batches++ {
		res := s.Deal(noon, contract.ExpandInput{Busy: busy, OpenBatches: batches})
		if res.Batch == nil {
			break
		}
		if h := res.Batch.Hosts[0]; h.Parallelism != 2 || len(res.Batch.Slots) != 2 || res.Batch.Locators < 900 {
			t.Fatalf("batch %d: %d locators at %d at once in slots %v", batches, res.Batch.Locators, h.Parallelism, res.Batch.Slots)
		}
		parts := map[int]int{}
		for _, u := range urlsOf(res.Batch) {
			parts[partOf([]byte(u), 16)]++
		}
		for part, n := range parts {
			if len(parts) != 2 || n < res.Batch.Locators/2 || n > res.Batch.Locators/2+1 {
				t.Errorf("batch %d has %d locators of part %d: %v", batches, n, part, parts)
			}
		}
		for _, slot := range res.Batch.Slots {
			busy[slot>>3] |= 1 << (slot & 7)
		}
	}
	if batches != fewParts {
		t.Errorf("%d batches, want %d", batches, fewParts)
	}
	granted := contract.Grant{Number: 1, Total: 1}
	if b := s.Deal(noon, contract.ExpandInput{Grant: granted}).Batch; b == nil || b.Locators != 1 {
		t.Errorf("one granted locator: %+v", b)
	}
	alone := busySet() // one part is free: the batch is no smaller for that
	for part := 1; part < 16; part++ {
		alone[PartSlot("a.example", part)>>3] |= 1 << (PartSlot("a.example", part) & 7)
	}
	if b := s.Deal(noon, contract.ExpandInput{Busy: alone, OpenBatches: 8}).Batch; b.Locators < 900 || len(b.Slots) != 1 {
		t.Errorf("the last free part: %d locators in slots %v", b.Locators, b.Slots)
	}
	wide := newShard(t, Options{Depth: -1, Parallelism: 64}).found("a.example", 8000).states(known)
	if b := wide.Deal(noon, contract.ExpandInput{}).Batch; len(b.Slots) != 1 || b.Hosts[0].Parallelism != 4 {
		t.Errorf("parts of four requests: %+v", b.Slots)
	}
}

// After set-rate parts of the earlier spec may be open: whatever this spec
// makes of the host, all of them count.
func TestPartsOfAnEarlierSpec(t *testing.T) {
	const host, most = "a.example", 15
	known := Robots{Host: host, Expiry: noon.Add(time.Hour)}
	for _, c := range []struct {
		name string
		o    Options
		part int
		free bool
	}{
		{"delay raised", Options{Delay: time.Second, Parallelism: 8}, 3, false},
		{"delay raised, last part", Options{Delay: time.Second}, most, false},
		{"parallelism cut to one", Options{Parallelism: 1}, most, false},
		{"parallelism cut", Options{Parallelism: 4}, 4, false},
		{"parallelism cut, last part", Options{Parallelism: 4}, most, false},
		{"parts of both", Options{Parallelism: 4}, 1, true},
		{"first spec", Options{Delay: time.Second, Parallelism: 8, FirstSpec: true}, 3, true},
		{"first spec of parts", Options{Parallelism: 4, FirstSpec: true}, 4, true},
	} {
		c.o.Depth = -1
		s := newShard(t, c.o).found(host, 4000).states(known)
		res := s.Deal(noon, contract.ExpandInput{OpenBatches: 1, Busy: busySet(PartSlot(host, c.part))})
		if (res.Batch != nil) != c.free {
			t.Errorf("%s: part %d is open, dealt %v, want %v", c.name, c.part, res.Batch != nil, c.free)
		}
		// More must not promise what the next Deal would refuse.
		other := newShard(t, c.o).found(host, 4000).found("b.example", 1).states(known)
		for n := range int64(8) {
			res := other.Deal(noon, contract.ExpandInput{Number: n, OpenBatches: 1, Busy: busySet(PartSlot(host, c.part))})
			if res.Batch != nil && res.Batch.Hosts[0].Host == "b.example" && len(res.Batch.Hosts) == 1 && res.More && !c.free {
				t.Errorf("%s: more is promised", c.name)
			}
		}
	}
}

// Whole hosts are in the way of their own parts only: with hundreds of them open
// every slot of a host would be taken, were they those of parts. And whatever is
// open, cooling, found to be slow or split anew, no host is open twice.
func TestWholeHostsAndParts(t *testing.T) {
	const hosts = 300
	name := func(i int) string { return fmt.Sprintf("h%d.example", i) }
	s := newShard(t, Options{Depth: -1, Parallelism: 4, BatchLocators: 500})
	for i := range hosts {
		s.found(name(i), 420).states(Robots{Host: name(i), Expiry: noon.Add(time.Hour), CrawlDelay: time.Second})
	}
	c := newOpenHosts(t)
	for {
		res := s.DealAll(noon, c.in)
		if res.Batch == nil {
			break
		}
		for _, b := range append([]contract.Batch{*res.Batch}, res.Further...) {
			c.open(b)
		}
	}
	// Hosts of one slot wait for each other.
	slots := map[int]bool{}
	for i := range hosts {
		slots[SlotOf(name(i))] = true
	}
	if len(c.whole) < len(slots) {
		t.Errorf("%d hosts are open, want %d", len(c.whole), len(slots))
	}

	rnd := rand.New(rand.NewPCG(1, 2))
	dealt := map[bool]int{}
	for range 3000 {
		if len(c.batches) > 8 || rnd.IntN(2) == 0 {
			c.close(rnd)
		}
		h := name(rnd.IntN(hosts))
		switch rnd.IntN(4) {
		case 0:
			s.states(Robots{Host: h, Expiry: noon.Add(time.Hour)})
		case 1:
			s.states(Robots{Host: h, Expiry: noon.Add(time.Hour), CrawlDelay: time.Second})
		case 2:
			s.states(Robots{Host: h, Expiry: noon})
		}
		if res := s.Deal(noon, c.in); res.Batch != nil {
			c.open(*res.Batch)
			dealt[len(res.Batch.Whole) > 0]++
		}
	}
	if dealt[true] < 100 || dealt[false] < 100 {
		t.Errorf("%v batches of whole hosts and of parts: the test shows little", dealt)
	}
}

// A Fetch over a part of a host was lost, and the host is split no more. Its care
// is in the slot of that part: whoever is dealt there takes the mark, so the slot
// stays in the way of the host, for as long as the batch cools it.
func TestCareOfAPartStaysInTheWay(t *testing.T) {
	const slowHost = "slow.example"
	part, other := PartSlot(slowHost, 3), ""
	for i := 0; other == ""; i++ {
		if name := fmt.Sprintf("g%d.example", i); SlotOf(name) == part {
			other = name
		}
	}
	s := newShard(t, Options{Depth: -1, Parallelism: 4})
	s.found(slowHost, 5).states(Robots{Host: slowHost, Expiry: noon.Add(time.Hour), CrawlDelay: 5 * time.Second})
	s.found(other, 5).states(Robots{Host: other, Expiry: noon.Add(time.Hour), CrawlDelay: time.Second})
	in := contract.ExpandInput{Careful: busySet(part), Busy: busySet(SlotOf(slowHost))}
	b := s.Deal(noon, in).Batch
	if !slices.Equal(b.Slots, []int{part}) || len(b.Whole) > 0 || b.Cool != 5*time.Second {
		t.Fatalf("slots %v, whole %v, cool %v, want %d, no part of it, for 5 s", b.Slots, b.Whole, b.Cool, part)
	}
	was := in
	was.Whole = busySet(part)
	if b := s.Deal(noon, was).Batch; !slices.Equal(b.Whole, []int{part}) {
		t.Errorf("whole %v: a Fetch over whole hosts was lost", b.Whole)
	}
	in = opened(in, *b)
	in.Careful = nil // the hosts of the batch carry it
	in.Busy[SlotOf(slowHost)>>3] &^= 1 << (SlotOf(slowHost) & 7)
	if b := s.Deal(noon, in).Batch; b != nil {
		t.Errorf("%s is dealt, careful %v", b.Hosts[0].Host, b.Hosts[0].Careful)
	}
	in.Whole = busySet(part) // had it been of whole hosts
	if b := s.Deal(noon, in).Batch; b == nil {
		t.Error("a host waits for what is not in its way")
	}
}

// openHosts is what a shard keeps of the batches that are open.
type openHosts struct {
	t       *testing.T
	in      contract.ExpandInput
	batches []contract.Batch
	cools   contract.Batch  // the one whose slots cool
	whole   map[string]bool // hosts that are open or cool
	parts   map[string]int  // how many batches are open over parts of a host, or cool
}

func newOpenHosts(t *testing.T) *openHosts {
	return &openHosts{t: t, in: contract.ExpandInput{Busy: busySet()}, whole: map[string]bool{}, parts: map[string]int{}}
}

func (c *openHosts) open(b contract.Batch) {
	c.in = opened(c.in, b)
	c.in.OpenBatches = 1
	c.batches = append(c.batches, b)
	for _, h := range b.Hosts {
		if c.whole[h.Host] || h.Part == 0 && c.parts[h.Host] > 0 {
			c.t.Fatalf("part %d of %s is dealt; open: whole %v, %d parts", h.Part, h.Host, c.whole[h.Host], c.parts[h.Host])
		}
		if h.Part == 0 {
			c.whole[h.Host] = true
		} else {
			c.parts[h.Host]++
		}
	}
}

// close ends any batch; its slots cool until the next one ends.
func (c *openHosts) close(rnd *rand.Rand) {
	for _, slot := range c.cools.Slots {
		c.in.Busy[slot>>3] &^= 1 << (slot & 7)
	}
	for _, h := range c.cools.Hosts {
		if h.Part == 0 {
			delete(c.whole, h.Host)
		} else {
			c.parts[h.Host]--
		}
	}
	c.cools = contract.Batch{}
	if len(c.batches) > 0 {
		i := rnd.IntN(len(c.batches))
		c.cools = c.batches[i]
		c.batches = slices.Delete(c.batches, i, i+1)
	}
}

// The care for a part passes to the host that is dealt whole. Where a careful
// batch may make no request the marks of the parts go with it.
func TestCarefulPart(t *testing.T) {
	const host = "a.example"
	part := PartSlot(host, 11)
	in := contract.ExpandInput{Careful: busySet(part)}
	for _, c := range []struct {
		delay time.Duration
		slots []int
	}{
		{time.Second, []int{SlotOf(host)}},
		{20 * time.Second, []int{SlotOf(host), part}},
	} {
		b := newShard(t, Options{Depth: -1, Delay: c.delay}).found(host, 5).Deal(noon, in).Batch
		slices.Sort(c.slots)
		if !b.Hosts[0].Careful || !slices.Equal(b.Slots, c.slots) {
			t.Errorf("delay %v: careful %v, slots %v, want %v", c.delay, b.Hosts[0].Careful, b.Slots, c.slots)
		}
	}
	b := newShard(t, Options{Depth: -1, Delay: time.Second, FirstSpec: true}).found(host, 5).Deal(noon, in).Batch
	if b.Hosts[0].Careful {
		t.Error("careful for a part that no spec ever made")
	}
}

// A slot that cools for a short time is dealt with what is left of it; a whole
// host waits for its parts, too.
func TestHoldsOfCoolingSlots(t *testing.T) {
	const host = "a.example"
	in := contract.ExpandInput{Holds: []contract.Hold{
		{MS: 300, Slots: []int{SlotOf(host)}}, {MS: 700, Slots: []int{PartSlot(host, 1)}}, {MS: 900, Slots: []int{SlotOf("b.example")}},
	}}
	b := newShard(t, Options{Depth: -1, Delay: time.Second, FirstSpec: true}).found(host, 5).Deal(noon, in).Batch
	if b.Hosts[0].HoldMS != 300 {
		t.Errorf("held %d ms, want 300: no spec ever made parts", b.Hosts[0].HoldMS)
	}
	b = newShard(t, Options{Depth: -1, Delay: time.Second}).found(host, 5).Deal(noon, in).Batch
	if b.Hosts[0].HoldMS != 700 {
		t.Errorf("held %d ms, want those of a part", b.Hosts[0].HoldMS)
	}
	s := newShard(t, Options{Depth: -1, Parallelism: 4, IgnoreRobots: true}).found(host, 4000)
	for n := range int64(8) {
		in.Number = n
		for _, h := range s.Deal(noon, in).Batch.Hosts {
			if h.Part == 0 || h.HoldMS < 300 {
				t.Errorf("part %d is held %d ms", h.Part, h.HoldMS)
			}
		}
	}
}

// Hosts that last about as long share a batch, so that those with little to do
// do not wait for the others.
func TestTempoOfABatch(t *testing.T) {
	s := newShard(t, Options{Depth: -1, Delay: time.Second, FirstSpec: true})
	few := map[string]bool{}
	for i := range 40 {
		name := fmt.Sprintf("%d.example", i)
		few[name] = i%2 == 0
		s.found(name, map[bool]int{true: 2, false: 40}[few[name]])
	}
	var open []int
	batches, hosts := 0, 0
	for {
		res := s.Deal(noon, contract.ExpandInput{Number: int64(batches + 1), OpenBatches: batches, Busy: busySet(open...)})
		if res.Batch == nil {
			break
		}
		for _, h := range res.Batch.Hosts {
			if few[h.Host] != few[res.Batch.Hosts[0].Host] {
				t.Fatalf("%s is in a batch with %s", h.Host, res.Batch.Hosts[0].Host)
			}
		}
		open = append(open, res.Batch.Slots...)
		hosts += res.Batch.HostCount
		batches++
	}
	if batches != 2 || hosts != 40 {
		t.Errorf("%d batches of %d hosts, want one of each kind", batches, hosts)
	}
}

// However small batches are, an answer has at most so many.
func TestDealAllIsBoundedInCount(t *testing.T) {
	s := newShard(t, Options{Depth: -1, Delay: time.Second, FirstSpec: true, BatchLocators: 500, BatchBytes: 400})
	for i := range 100 {
		s.found(fmt.Sprintf("%d.example", i), 2)
	}
	if res := s.DealAll(noon, contract.ExpandInput{Number: 1}); len(res.Further)+1 != maxTogether || !res.More {
		t.Errorf("%d further batches, more %v; want %d batches and more", len(res.Further), res.More, maxTogether)
	}
}

// DealAll gives what the shard would get if it asked again and again, up to its
// bounds.
func TestDealAllIsAskingAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		hosts   int
		in      contract.ExpandInput
		batches int
		more    bool
	}{
		{"two tempos", 40, contract.ExpandInput{}, 2, false},
		{"hardly more than three full batches", 400, contract.ExpandInput{}, 4, true},
		{"the grant ends it", 400, contract.ExpandInput{Grant: contract.Grant{Number: 1, Total: 600}}, 2, false},
		{"as many as may be open", 400, contract.ExpandInput{OpenBatches: contract.MaxOpenBatches - 2}, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShard(t, Options{Depth: -1, Delay: time.Second, FirstSpec: true, BatchLocators: 500})
			for i := range c.hosts {
				s.found(fmt.Sprintf("%d.example", i), map[bool]int{true: 2, false: 40}[i%2 == 0])
			}
			c.in.Number = 1
			all := s.DealAll(noon, c.in)
			if all.Batch == nil || 1+len(all.Further) != c.batches || all.More != c.more {
				t.Fatalf("%d further batches, more %v; want %d batches, more %v", len(all.Further), all.More, c.batches, c.more)
			}
			for i, b := range append([]contract.Batch{*all.Batch}, all.Further...) {
				one := s.Deal(noon, c.in)
				if !reflect.DeepEqual(*one.Batch, b) {
					t.Fatalf("batch %d: %+v\nasked one by one: %+v", i, b, *one.Batch)
				}
				c.in.Busy = busySet(append(slotsOf(c.in.Busy), b.Slots...)...)
				c.in.Number++
				c.in.OpenBatches++
				c.in.OpenLocators += int64(b.Locators)
			}
		})
	}
}

func slotsOf(set contract.SlotSet) (slots []int) {
	for slot := range contract.Slots {
		if has(set, slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// What is left of the cooling is taken off the time box.
func TestHeldHostGetsLess(t *testing.T) {
	s := newShard(t, Options{Depth: -1, Delay: time.Second, FirstSpec: true}).found("a.example", 100)
	in := contract.ExpandInput{Holds: []contract.Hold{{MS: 2500, Slots: []int{SlotOf("a.example")}}}}
	if n := s.Deal(noon, in).Batch.Locators; n != 12 {
		t.Errorf("%d locators in 12.5 s, want 12", n)
	}
}

// Two hosts of one slot go into one batch or the second would wait for the
// first one's batch.
func TestSlotIsNotCutInTwo(t *testing.T) {
	const a = "a.example"
	var beside string
	for i := 0; beside == ""; i++ {
		if name := fmt.Sprintf("%d.example", i); SlotOf(name) == SlotOf(a) {
			beside = name
		}
	}
	s := newShard(t, Options{Depth: -1, Delay: time.Second, FirstSpec: true, BatchLocators: 40})
	s.found(a, 15).found(beside, 15).found("x.example", 15)
	var got []string
	for n := range int64(8) { // wherever it begins
		b := s.Deal(noon, contract.ExpandInput{Number: n}).Batch
		hosts := map[string]bool{}
		for _, h := range b.Hosts {
			hosts[h.Host] = true
			got = append(got, h.Host)
		}
		if hosts[a] != hosts[beside] {
			t.Fatalf("batch %d has one of %s and %s: %v", n, a, beside, hosts)
		}
	}
	if !slices.Contains(got, a) || !slices.Contains(got, "x.example") {
		t.Errorf("not all are dealt: %v", got)
	}
}

// The mark of a careful slot goes with the first batch over it. So that the
// hosts of the slot that are not in the batch are safe, too, it cools for the
// longest delay of any of them.
func TestCarefulSlotsCool(t *testing.T) {
	const here = "a.example"
	var beside, elsewhere string // the first shares the slot
	for i := 0; beside == "" || elsewhere == ""; i++ {
		name := fmt.Sprintf("%d.example", i)
		switch SlotOf(name) {
		case SlotOf(here):
			beside = name
		case SlotOf("x.example"):
			elsewhere = name
		}
	}
	crawlDelay := func(host string, d time.Duration) Fact {
		return Robots{Host: host, Scheme: "http", CrawlDelay: d, Expiry: noon.Add(time.Hour)}
	}
	careful := contract.ExpandInput{Careful: busySet(SlotOf(here))}
	for _, c := range []struct {
		name  string
		in    contract.ExpandInput
		facts []Fact
		want  time.Duration
	}{
		{"nothing careful", contract.ExpandInput{}, []Fact{crawlDelay(beside, 40*time.Second)}, 0},
		{"alone", careful, nil, time.Second},
		{"another lane", careful, []Fact{crawlDelay(beside, 40*time.Second)}, 40 * time.Second},
		{"blocked", careful, []Fact{crawlDelay(beside, 40*time.Second), Blocked{Host: beside, Until: noon.Add(time.Minute)}}, 40 * time.Second},
		{"parked", careful, []Fact{crawlDelay(beside, 40*time.Second), Parked{Host: beside}}, time.Second},
		{"another slot", careful, []Fact{crawlDelay(elsewhere, 40*time.Second)}, time.Second},
	} {
		s := newShard(t, Options{Depth: -1, Delay: time.Second, FirstSpec: true}).found(here, 3).found(beside, 3).states(c.facts...)
		b := s.Deal(noon, c.in).Batch
		if b.Hosts[0].Host != here && b.Hosts[len(b.Hosts)-1].Host != here || b.Cool != c.want {
			t.Errorf("%s: cools %v, want %v: %+v", c.name, b.Cool, c.want, b)
		}
	}
}

func TestNoCrumbsOfSplitHosts(t *testing.T) {
	s := newShard(t, Options{Depth: -1, Parallelism: 4, IgnoreRobots: true}).found("a.example", 30)
	res := s.Deal(noon, contract.ExpandInput{})
	if res.Batch.Locators != 30 || !slices.Equal(res.Batch.Slots, []int{SlotOf("a.example")}) {
		t.Fatalf("a small host: %+v", res.Batch)
	}
	open := contract.ExpandInput{OpenBatches: 1, Busy: busySet(PartSlot("a.example", 0))}
	if res := s.Deal(noon, open); res.Batch == nil || len(res.Batch.Slots) != 3 {
		t.Fatalf("three parts of some seven: %+v", res.Batch)
	}
	s = newShard(t, Options{Depth: -1, Parallelism: 4, IgnoreRobots: true}).found("a.example", 15)
	if res := s.Deal(noon, open); res.Verdict != contract.VerdictLater {
		t.Fatalf("a crumb was dealt: %+v", res.Batch)
	}
	open.OpenBatches = 0 // it cools: nothing is found any more
	if res := s.Deal(noon, open); res.Verdict != contract.VerdictBatch {
		t.Fatal("a crumb waits for ever")
	}
}

func TestLostFetchesAreBisected(t *testing.T) {
	s := newShard(t, Options{Depth: -1, Delay: time.Millisecond})
	for i := range 64 {
		s.states(Discovered{URL: fmt.Sprintf("http://%d.example/", i)})
	}
	lost := map[int]int{}
	for i := range 64 {
		lost[SlotOf(fmt.Sprintf("%d.example", i))] = 1
	}
	for losses, want := range map[int]int{0: 64, 1: 64, 2: 32, 3: 16, 6: 2, 7: 1, 40: 1} {
		for slot := range lost {
			lost[slot] = losses
		}
		b := s.Deal(noon, contract.ExpandInput{Lost: lost}).Batch
		if b.Locators != want || len(urlsOf(b)) != want || b.HostCount != want {
			t.Errorf("%d losses: %d locators of %d hosts, want %d", losses, len(urlsOf(b)), b.HostCount, want)
		}
		if stated := b.Hosts[0].Items[0].StateTry; stated != (want == 1) {
			t.Errorf("%d losses: state try %v", losses, stated)
		}
	}
	// Slots that lost nothing are not dealt together with those that did.
	lost = map[int]int{SlotOf("0.example"): 2}
	sizes := map[int]bool{}
	for n := range int64(4) {
		sizes[s.Deal(noon, contract.ExpandInput{Number: n, Lost: lost}).Batch.Locators] = true
	}
	if !sizes[1] || !sizes[63] || len(sizes) != 2 {
		t.Errorf("batches of %v, want 1 and 63", sizes)
	}
}

// A whole crawl, with batches lost, left over, failing and late, in tiny
// windows: every locator ends, no slot is open twice, and what was open is what
// the model says is pending.
func TestCrawlEnds(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		o.ScratchDir, o.Horizon, o.Shards = dir, time.Time{}, 1
		s := New(o)
		defer s.Close()
		c := &crawl{t: t, s: s, now: noon, open: map[int]bool{}, rnd: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
		for _, u := range worldURLs[:rapid.IntRange(1, 6).Draw(t, "seeds")] {
			c.state(Discovered{URL: u})
		}
		for step := 0; ; step++ {
			if step > 20_000 {
				t.Fatalf("no end: %+v", s.Totals())
			}
			if c.step() {
				break
			}
		}
		totals := s.Totals()
		sum := totals.Fetched
		for _, n := range totals.Refused {
			sum += n
		}
		for _, n := range totals.GivenUp {
			sum += n
		}
		if totals.Pending != 0 || sum != totals.Locators {
			t.Fatalf("ended with %+v", totals)
		}
		requireDump(t, "at the end", s.dump(worldURLs), model(o, c.log, worldURLs, worldHosts))
		if s.pool.limit > 0 && s.pool.records > s.pool.limit {
			t.Fatalf("%d records in memory, limit %d", s.pool.records, s.pool.limit)
		}
	})
}

type crawl struct {
	t       *rapid.T
	s       *State
	rnd     *rand.Rand
	now     time.Time
	number  int64
	open    map[int]bool
	batches []*contract.Batch
	log     []logRecord
}

func (c *crawl) state(f Fact) {
	key, value := f.Record()
	r := logRecord{int64(len(c.log)), key, value}
	c.log = append(c.log, r)
	foldAll(c.t, c.s, []logRecord{r})
}

// step is one Expand, and the end of one batch if there was nothing to deal.
func (c *crawl) step() (idle bool) {
	c.number++
	in := contract.ExpandInput{Number: c.number, OpenBatches: len(c.batches)}
	slots := make([]int, 0, len(c.open))
	for slot := range c.open {
		slots = append(slots, slot)
	}
	in.Busy = busySet(slots...)
	res := c.s.Deal(c.now, in)
	checkBatch(c.t, c.s, res.Batch, c.now)
	switch res.Verdict {
	case contract.VerdictIdle:
		return true
	case contract.VerdictBatch:
		for _, slot := range res.Batch.Slots {
			if c.open[slot] {
				c.t.Fatalf("slot %d is open twice", slot)
			}
			c.open[slot] = true
		}
		c.batches = append(c.batches, res.Batch)
		return false
	}
	if len(c.batches) == 0 {
		if !res.NextDue.After(c.now) {
			c.t.Fatalf("nothing open, nothing dealt, next due %v at %v, %+v", res.NextDue, c.now, res.Totals)
		}
		c.now = res.NextDue
		return false
	}
	i := c.rnd.IntN(len(c.batches))
	b := c.batches[i]
	c.batches = slices.Delete(c.batches, i, i+1)
	c.end(b)
	for _, slot := range b.Slots {
		delete(c.open, slot)
	}
	return false
}

// end of a batch: each locator is answered, fails, or is left over.
func (c *crawl) end(b *contract.Batch) {
	for _, h := range b.Hosts {
		if c.rnd.IntN(6) == 0 {
			c.state(Robots{Host: h.Host, Scheme: h.Scheme, Expiry: c.now.Add(time.Hour)})
		}
		for _, it := range h.Items {
			u := h.Scheme + "://" + h.Host + it.Path
			c.now = c.now.Add(time.Duration(c.rnd.IntN(300)) * time.Millisecond)
			switch c.rnd.IntN(10) {
			case 0: // left over
			case 1, 2:
				due := c.now.Add(time.Duration(c.rnd.IntN(60)) * time.Second)
				c.state(Tried{URL: u, Round: max(it.Round, 1), Number: it.Try + 1, Class: "dns", NextDue: due, When: c.now})
			case 3:
				c.state(Blocked{Host: h.Host, Part: h.Part, Until: c.now.Add(20 * time.Second), When: c.now})
			case 4:
				c.state(Fetched{URL: u, Round: it.Round, Refusal: "robots", When: c.now, Depth: it.Depth})
			default:
				cut := c.s.options.Depth >= 0 && it.Depth >= c.s.options.Depth
				if !cut {
					for range 3 {
						c.state(Discovered{URL: worldURLs[c.rnd.IntN(len(worldURLs))], Depth: it.Depth + 1, Parent: u, When: c.now})
					}
				}
				c.state(Fetched{URL: u, Round: it.Round, Status: 200, When: c.now, Depth: it.Depth, CutDepth: cut})
			}
			if c.rnd.IntN(200) == 0 {
				c.state(Parked{Host: h.Host, When: c.now})
			}
			if c.rnd.IntN(20) == 0 { // a late writer
				late := c.log[c.rnd.IntN(len(c.log))]
				late.offset = int64(len(c.log))
				c.log = append(c.log, late)
				foldAll(c.t, c.s, []logRecord{late})
			}
		}
	}
}

func BenchmarkFoldDiscovered(b *testing.B) {
	const n = 1 << 20
	keys, values := make([][]byte, n), make([][]byte, n)
	for i := range n {
		keys[i], values[i] = Discovered{
			URL: fmt.Sprintf("https://host%d.example/section/%d/page-%d.html", i%1000, i%37, i), Depth: i % 7,
			Parent: "https://host.example/section/parent.html", How: HowLink, When: noon,
		}.Record()
	}
	for _, window := range []int{0, -1} {
		b.Run(fmt.Sprint("window=", window), func(b *testing.B) {
			s := New(Options{Depth: -1, Delay: time.Second, WindowURLs: window, ScratchDir: b.TempDir()})
			defer s.Close()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%n == 0 && i > 0 {
					s.Reset()
				}
				if err := s.Fold(int64(i), keys[i%n], values[i%n]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("known", func(b *testing.B) {
		s := New(Options{Depth: -1, Delay: time.Second, ScratchDir: b.TempDir()})
		defer s.Close()
		for i := range n {
			_ = s.Fold(int64(i), keys[i], values[i])
		}
		b.ResetTimer()
		for i := range b.N {
			_ = s.Fold(int64(n+i), keys[i%n], values[i%n])
		}
	})
}

func BenchmarkDeal(b *testing.B) {
	for _, delay := range []time.Duration{0, time.Second} {
		b.Run(fmt.Sprint("delay=", delay), func(b *testing.B) {
			s := New(Options{Depth: -1, Delay: delay, Parallelism: 8, IgnoreRobots: true, FirstSpec: true, ScratchDir: b.TempDir()})
			defer s.Close()
			for i := range 1_000_000 {
				if err := fold(s, int64(i), Discovered{URL: fmt.Sprintf("http://host%d.example/%d", i%100_000, i)}); err != nil {
					b.Fatal(err)
				}
			}
			busy := busySet()
			for slot := range contract.Slots {
				if slot%3 > 0 {
					busy[slot>>3] |= 1 << (slot & 7)
				}
			}
			b.ResetTimer()
			for i := range b.N {
				in := contract.ExpandInput{Number: int64(i), Busy: busy, OpenBatches: 5}
				if delay == 0 {
					in.Busy = nil
				}
				if res := s.Deal(noon, in); res.Batch == nil || res.Batch.Locators < 490 {
					b.Fatalf("%+v", res)
				}
			}
		})
	}
}
