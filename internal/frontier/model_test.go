package frontier

import (
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trawl/internal/contract"
)

// The model is DESIGN section 3 said a second time, without thrift: from the
// last value of each key to what it means.

type logRecord struct {
	offset     int64
	key, value []byte
}

type view struct {
	Known        bool
	End          string // "" while it has none, else "2xx", "refused:<reason>", "given up:<class>"
	Pending      bool   // as far as its own facts say
	Round, Try   int
	Due          int64
	Depth, Hop   int
	CutLinks     bool
	Bytes, Tries int64
}

type hostView struct {
	Streak   int
	Parked   string
	Until    int64
	RobotsAt int64
	Crawl    int64
	Expiry   int64
}

type dump struct {
	Locators map[string]view
	Hosts    map[string]hostView
	Totals   contract.Totals
}

func cutWait(due, when time.Time) int64 {
	if due.IsZero() {
		return 0
	}
	if !when.IsZero() {
		due = time.UnixMilli(min(due.UnixMilli(), when.UnixMilli()+maxWaitMS))
	}
	return due.UnixMilli()
}

// model computes the dump from a log.
func model(o Options, log []logRecord, urls, hosts []string) dump {
	o = o.withDefaults()
	last := map[string]logRecord{}
	for _, r := range log {
		last[string(r.key)] = r
	}
	type locatorFacts struct {
		d    *Discovered
		f    *Fetched
		t    *Tried
		host string
	}
	facts := map[string]*locatorFacts{}
	of := func(url string) *locatorFacts {
		if facts[url] == nil {
			facts[url] = &locatorFacts{host: HostOf(url)}
		}
		return facts[url]
	}
	hv := map[string]*hostView{}
	hostFor := func(name string) *hostView {
		if hv[name] == nil {
			hv[name] = &hostView{RobotsAt: -1}
		}
		return hv[name]
	}
	for _, r := range last {
		fact, err := Decode(r.key, r.value)
		if err != nil || ShardOf(fact.HostKey(), o.Shards) != o.Shard {
			continue
		}
		h := hostFor(fact.HostKey())
		switch f := fact.(type) {
		case Discovered:
			if l := of(f.URL); l.d == nil || f.Depth < l.d.Depth {
				l.d = &f
			}
		case Fetched:
			of(f.URL).f = &f
		case Tried:
			if l := of(f.URL); l.t == nil || f.Round > l.t.Round || (f.Round == l.t.Round && f.Number > l.t.Number) {
				l.t = &f
			}
		case Streak:
			h.Streak = f.Errors
		case Blocked:
			h.Until = max(h.Until, cutWait(f.Until, f.When))
		case Parked:
			h.Parked = "parked " + f.Reason
		case Robots:
			h.RobotsAt, h.Crawl, h.Expiry = r.offset, min(f.CrawlDelay.Milliseconds(), maxCrawlDelay), cutWait(f.Expiry, time.Time{})
		}
	}
	out := dump{Locators: map[string]view{}, Hosts: map[string]hostView{}}
	answered := map[string]int64{}
	for url, l := range facts {
		v := view{Round: 1}
		if l.t != nil {
			v.Tries = int64(l.t.Number)
		}
		if l.d == nil && l.f == nil {
			out.Locators[url] = view{Tries: v.Tries}
			continue
		}
		v.Known, v.Pending = true, true
		if l.d != nil {
			v.Depth, v.Hop = l.d.Depth, l.d.Hop
		} else {
			v.Depth = l.f.Depth
		}
		if l.f != nil {
			v.End = kindOf(l.f.Status)
			if l.f.Refusal != "" {
				v.End = "refused:" + l.f.Refusal
			} else {
				answered[l.host]++
				v.Bytes = l.f.Bytes
			}
			v.CutLinks = l.f.CutDepth
			follows := l.f.CutDepth && (o.Depth < 0 || v.Depth < o.Depth)
			recrawls := !l.f.NextDue.IsZero() && l.f.NextDue.Before(o.Horizon)
			v.Round, v.Pending = l.f.Round, follows || recrawls
			if v.Pending {
				v.Round++
			}
			if recrawls && !follows {
				v.Due = l.f.NextDue.UnixMilli()
			}
		}
		if v.Pending {
			why := ""
			if l.t != nil && l.t.Round == v.Round {
				v.Try, v.Due = l.t.Number, cutWait(l.t.NextDue, l.t.When)
				if v.Try >= o.Tries {
					why = "given up:" + l.t.Class
				}
			}
			if o.Depth >= 0 && v.Depth > o.Depth {
				why = "refused:depth"
			}
			if v.Hop >= maxHops {
				why = "refused:hops"
			}
			if why != "" {
				v.Pending = false
				if v.End == "" {
					v.End = why
				}
			}
		}
		out.Locators[url] = v
	}
	for name, h := range hv {
		out.Hosts[name] = *h
	}
	out.Totals = modelTotals(o, out, answered)
	for _, u := range urls {
		if _, ok := out.Locators[u]; !ok {
			out.Locators[u] = view{}
		}
	}
	return out
}

func modelTotals(o Options, d dump, answered map[string]int64) contract.Totals {
	t := contract.Totals{Hosts: int64(len(d.Hosts))}
	for _, h := range d.Hosts {
		if h.Parked != "" {
			t.Parked++
		}
	}
	for url, v := range d.Locators {
		t.Tries += v.Tries
		if !v.Known {
			continue
		}
		t.Locators++
		if v.CutLinks {
			t.CutDepth++
		}
		t.Bytes += v.Bytes
		end, pending := v.End, v.Pending
		host := HostOf(url)
		if d.Hosts[host].Parked != "" {
			if end == "" && pending {
				end = "given up:parked"
			}
			pending = false
		} else if o.PagesPerHost > 0 && answered[host] >= o.PagesPerHost {
			if end == "" && pending {
				end = "refused:host-cap"
			}
			pending = false
		}
		if pending {
			t.Pending++
		}
		switch {
		case end == "":
		case len(end) > 8 && end[:8] == "refused:":
			t.Refused = plus(t.Refused, end[8:], 1)
		case len(end) > 9 && end[:9] == "given up:":
			t.GivenUp = plus(t.GivenUp, end[9:], 1)
		default:
			t.Fetched++
			t.Spent++
			t.Status = plus(t.Status, end, 1)
		}
	}
	return t
}

// dump of a real state, over the given URLs.
func (s *State) dump(urls []string) dump {
	out := dump{Locators: map[string]view{}, Hosts: map[string]hostView{}, Totals: s.Totals()}
	for _, u := range urls {
		l := s.load(maphash.String(s.seed, u))
		st := s.standing(&l)
		if st.end == unknown {
			out.Locators[u] = view{Tries: int64(l.tries)}
			continue
		}
		v := view{
			Known: true, Pending: st.pending, Round: int(st.round), Try: int(st.try), Due: st.due,
			Depth: int(l.depth), Hop: int(l.hop), CutLinks: l.cut, Tries: int64(l.tries),
		}
		switch st.end {
		case fetched:
			v.End, v.Bytes = kindOf(int(l.status)), l.bytes
		case refused:
			v.End = "refused:" + s.reasons.list[l.refusal]
		case tooDeep:
			v.End = "refused:depth"
		case manyHops:
			v.End = "refused:hops"
		case exhausted:
			v.End = "given up:" + s.classes.list[l.class]
		}
		if !v.Pending && !l.fetched {
			v.Due = 0
		}
		out.Locators[u] = v
	}
	for _, h := range s.hosts {
		hv := hostView{Streak: h.streak, Until: h.until, RobotsAt: h.robotsAt, Crawl: h.crawl, Expiry: h.expiry}
		if h.parked {
			hv.Parked = "parked " + h.reason
		}
		out.Hosts[h.name] = hv
	}
	return out
}

// world is what random logs speak of: few names, so that facts meet.
var (
	worldHosts = []string{"a.example", "b.example:8080", "c.example", "d.example"}
	worldURLs  = func() (urls []string) {
		for _, h := range worldHosts {
			for i := range 4 {
				urls = append(urls, fmt.Sprintf("http://%s/%d", h, i))
			}
			urls = append(urls, "https://"+h+"/0?x&y")
		}
		return urls
	}()
)

const epoch = 1_700_000_000_000

func drawTime(t *rapid.T, name string) time.Time {
	switch n := rapid.IntRange(0, 12).Draw(t, name); n {
	case 0:
		return time.Time{}
	case 1:
		return at(epoch + 100*maxWaitMS)
	default:
		return at(epoch + int64(n)*7_000)
	}
}

func drawFact(t *rapid.T) Fact {
	url := rapid.SampledFrom(worldURLs).Draw(t, "url")
	host := rapid.SampledFrom(worldHosts).Draw(t, "host")
	n := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	when := func() time.Time { return drawTime(t, "when") }
	switch n("kind", 0, 15) {
	case 0, 1, 2, 3, 4, 5:
		depth := n("depth", 0, 5)
		if depth == 5 {
			depth = 300
		}
		return Discovered{URL: url, Depth: depth, Hop: rapid.SampledFrom([]int{0, 0, 0, 1, 9, 10, 40}).Draw(t, "hop"), When: when()}
	case 6, 7, 8:
		f := Fetched{
			URL: url, Round: n("round", 1, 3), Status: rapid.SampledFrom([]int{200, 204, 301, 404, 410, 403, 503}).Draw(t, "status"),
			Bytes: rapid.SampledFrom([]int64{0, 17, 1 << 20, 1 << 22}).Draw(t, "bytes"), Depth: n("depth", 0, 4), When: when(),
		}
		if n("refused", 0, 3) == 0 {
			f.Status, f.Refusal, f.Bytes = 0, rapid.SampledFrom([]string{"robots", "type"}).Draw(t, "reason"), 0
		}
		f.CutDepth = n("cut", 0, 2) == 0
		if n("recrawl", 0, 3) == 0 {
			f.NextDue, f.ETag = drawTime(t, "due"), "etag"
		}
		return f
	case 9, 10, 11:
		return Tried{
			URL: url, Round: n("round", 1, 3), Number: n("number", 1, 4), Class: rapid.SampledFrom([]string{"dns", "timeout"}).Draw(t, "class"),
			NextDue: drawTime(t, "due"), When: when(),
		}
	case 12:
		return Streak{Host: host, Errors: n("errors", 0, 5), When: when()}
	case 13:
		return Blocked{Host: host, Part: n("part", 0, 2), Until: drawTime(t, "until"), When: when()}
	case 14:
		if n("parked", 0, 5) > 0 {
			return Streak{Host: host, When: when()}
		}
		return Parked{Host: host, Reason: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "why"), When: when()}
	default:
		return Robots{
			Host: host, Scheme: "http", Rules: []byte("r"), CrawlDelay: time.Duration(n("crawl", 0, 2)) * 40 * time.Second,
			Expiry: drawTime(t, "expiry"), When: when(),
		}
	}
}

func drawOptions(t *rapid.T) Options {
	o := Options{
		Shards:        rapid.IntRange(1, 2).Draw(t, "shards"),
		Depth:         rapid.IntRange(-1, 4).Draw(t, "limit"),
		Tries:         rapid.IntRange(0, 4).Draw(t, "tries"),
		HostErrors:    rapid.IntRange(0, 3).Draw(t, "host errors"),
		PagesPerHost:  rapid.SampledFrom([]int64{0, 0, 1, 2}).Draw(t, "per host"),
		Delay:         rapid.SampledFrom([]time.Duration{0, 0, time.Second, 20 * time.Second}).Draw(t, "delay"),
		Parallelism:   rapid.SampledFrom([]int{0, 1, 3, 32}).Draw(t, "parallelism"),
		BatchLocators: rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "batch"),
		WindowURLs:    rapid.SampledFrom([]int{-1, 0, 1, 4}).Draw(t, "window"),
		IgnoreRobots:  rapid.Bool().Draw(t, "ignore robots"),
		FirstSpec:     rapid.Bool().Draw(t, "first spec"),
	}
	if rapid.Bool().Draw(t, "continuous") {
		o.Horizon = at(epoch + 60_000)
	}
	return o
}

func drawLog(t *rapid.T) (log []logRecord) {
	for i := range rapid.IntRange(0, 120).Draw(t, "facts") {
		key, value := drawFact(t).Record()
		if rapid.IntRange(0, 30).Draw(t, "garbage") == 0 {
			key = append([]byte("?"), key...) // never a key that counts
		}
		log = append(log, logRecord{int64(i * 2), key, value})
	}
	return log
}

// compacted drops any records that a later one of their key replaces.
func compacted(t *rapid.T, log []logRecord) (out []logRecord) {
	lastOf := map[string]int64{}
	for _, r := range log {
		lastOf[string(r.key)] = r.offset
	}
	for _, r := range log {
		if lastOf[string(r.key)] == r.offset || rapid.Bool().Draw(t, "uncleaned") {
			out = append(out, r)
		}
	}
	return out
}

// reordered keeps the order of each key only.
func reordered(t *rapid.T, log []logRecord) []logRecord {
	byKey := map[string][]logRecord{}
	for _, r := range log {
		byKey[string(r.key)] = append(byKey[string(r.key)], r)
	}
	keys := slices.Sorted(maps.Keys(byKey))
	var out []logRecord
	for len(keys) > 0 {
		i := rapid.IntRange(0, len(keys)-1).Draw(t, "next key")
		k := keys[i]
		r := byKey[k][0]
		r.offset = int64(len(out))
		out = append(out, r)
		if byKey[k] = byKey[k][1:]; len(byKey[k]) == 0 {
			keys = slices.Delete(keys, i, i+1)
		}
	}
	return out
}

func foldAll(t interface{ Fatal(...any) }, s *State, log []logRecord) {
	for _, r := range log {
		if err := s.Fold(r.offset, r.key, r.value); err != nil {
			t.Fatal(err)
		}
		if s.Position() != r.offset+1 {
			t.Fatal("position", s.Position(), "after offset", r.offset)
		}
	}
}

func requireDump(t *rapid.T, what string, got, want dump) {
	for u, v := range want.Locators {
		if !v.Pending && v.End != "" {
			// what would have been due does not matter any more
			g := got.Locators[u]
			g.Due, g.Try, v.Due, v.Try = 0, 0, 0, 0
			got.Locators[u], want.Locators[u] = g, v
		}
	}
	for u, v := range want.Locators {
		if got.Locators[u] != v {
			t.Fatalf("%s: %s:\n got %+v\nwant %+v", what, u, got.Locators[u], v)
		}
	}
	if !reflect.DeepEqual(got.Hosts, want.Hosts) {
		t.Fatalf("%s: hosts:\n got %+v\nwant %+v", what, got.Hosts, want.Hosts)
	}
	if !reflect.DeepEqual(got.Totals, want.Totals) {
		t.Fatalf("%s: totals:\n got %+v\nwant %+v", what, got.Totals, want.Totals)
	}
}

// Invariant 3: the log, any compaction of it, any order that keeps that of
// each key, and duplicates all fold to the same state, which is the model's.
func TestStateIsAFunctionOfLastValues(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		o.ScratchDir = dir
		log := drawLog(t)
		want := func(log []logRecord) dump { return model(o, log, worldURLs, worldHosts) }
		check := func(what string, log []logRecord) {
			s := New(o)
			defer s.Close()
			foldAll(t, s, log)
			foldAll(t, s, nil)
			requireDump(t, what, s.dump(worldURLs), want(log))
			for _, r := range log { // below the position: skipped
				if err := s.Fold(r.offset, r.key, r.value); err != nil {
					t.Fatal(err)
				}
			}
			requireDump(t, what+", read twice", s.dump(worldURLs), want(log))
			s.Reset()
			foldAll(t, s, log)
			requireDump(t, what+", after Reset", s.dump(worldURLs), want(log))
		}
		check("log", log)
		short := compacted(t, log)
		if !reflect.DeepEqual(want(short), want(log)) {
			t.Fatal("the model itself depends on what compaction drops")
		}
		check("compacted", short)
		check("reordered", reordered(t, log))
	})
}

// Deals in between change nothing of the state.
func TestDealsDoNotChangeTheState(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		o.ScratchDir = dir
		log := drawLog(t)
		s := New(o)
		defer s.Close()
		now := at(epoch)
		for i, r := range log {
			foldAll(t, s, []logRecord{r})
			if rapid.IntRange(0, 4).Draw(t, "deal") == 0 {
				now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "pass")) * time.Second)
				in := contract.ExpandInput{Number: int64(i)}
				first := s.DealAll(now, in)
				checkBatch(t, s, first.Batch, now)
				for i := range first.Further {
					checkBatch(t, s, &first.Further[i], now)
				}
				if again := s.DealAll(now, in); !reflect.DeepEqual(again, first) {
					t.Fatalf("asked again: %+v, was %+v", again, first)
				}
			}
		}
		requireDump(t, "after deals", s.dump(worldURLs), model(o, log, worldURLs, worldHosts))
	})
}

// checkBatch: what is dealt is due, of hosts that may be asked, once.
func checkBatch(t *rapid.T, s *State, b *contract.Batch, now time.Time) {
	if b == nil {
		return
	}
	seen, n := map[string]bool{}, 0
	for _, bh := range b.Hosts {
		h := s.byName[bh.Host]
		if h.parked || h.until > now.UnixMilli() || s.capped(h) {
			t.Fatalf("dealt host %+v at %v", h, now)
		}
		for _, it := range bh.Items {
			u := bh.Scheme + "://" + bh.Host + it.Path
			l := s.load(maphash.String(s.seed, u))
			v := s.standing(&l)
			if seen[u] || !v.pending || v.due > now.UnixMilli() {
				t.Fatalf("dealt %s at %v: %+v, seen %v", u, now, v, seen[u])
			}
			if max(it.Round, 1) != int(v.round) || it.Try != int(v.try) || it.Depth != int(l.depth) || it.Hop != int(l.hop) {
				t.Fatalf("item %+v of %+v %+v", it, v, l)
			}
			seen[u] = true
			n++
		}
	}
	if n != b.Locators || n == 0 || n > s.options.BatchLocators || len(b.Slots) == 0 {
		t.Fatalf("batch of %d: %+v", n, b)
	}
}
