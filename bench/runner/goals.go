package runner

import (
	"math"
	"slices"
)

// Result of a goal: what a benchmark shows of it.
type Result struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"` // 0 if it could not be measured
	AtLeast bool    `json:"at_least"`
	Wanted  float64 `json:"wanted"`
	Reached bool    `json:"reached"`
}

// goal is a number that trawl wants to reach. It counts if all its contenders
// took part, the first on one of the webs; value answers NaN if one of them has
// no number.
type goal struct {
	what    string
	webs    []string // empty: all
	of      []string // contenders
	value   func(r *Report, of []string) float64
	atLeast bool
	wanted  float64
}

// goals of issue 4, in its order.
func goals() []goal {
	speed := func(what string, wanted float64, of, to string) goal {
		return goal{what, []string{busy}, []string{of, to}, speedRatio, true, wanted}
	}
	list := []goal{
		speed("trawl to Kafka / plain colly that stores, pages/s", 5, trawl1, CollyStores),
		speed("trawl to Kafka / colly that stores and is given no fragments, pages/s", 5, trawl1, collyCut),
		speed("trawl to Kafka / raw floor that stores, pages/s", 0.6, trawl1, RawStores),
		speed("trawl to Kafka and SQLite / raw floor that stores, pages/s", 0.25, trawlSQLite, RawStores),
		speed("trawl on the real broker / on the embedded one, pages/s", 0.8, trawlReal, trawl1),
		speed("trawl to Kafka / spider in memory, pages/s", 0.8, trawl1, spiderMemory),
		speed("trawl to Kafka / spider by default, pages/s", 4, trawl1, spiderDisk),
		speed("trawl to Kafka / Scrapy with JOBDIR, pages/s", 25, trawl1, scrapyDir),
		speed("one host / 1,000 hosts, delay 0, trawl to Kafka, pages/s", 0.8, trawl1, trawlHosts),
		{"CPU per page, trawl to Kafka with all that it needs / raw floor", []string{busy}, []string{trawl1, RawStores}, cpuRatio, false, 2},
		{"50 pages, delay 0, from the command to its summary, seconds", nil, []string{trawlFifty}, seconds, false, 3},
	}
	for _, name := range []string{trawl1, trawlSQLite, trawlHosts, trawlReal} {
		of, on := []string{name}, []string{busy, hosts} // webs that keep workers busy
		list = append(list,
			goal{"activities per 1,000 pages, " + name, on, of, stackNumber(func(s StackNumbers) float64 { return s.Activities }), false, 10},
			goal{"history, bytes per page, " + name, on, of, stackNumber(func(s StackNumbers) float64 { return s.History }), false, 200})
	}
	return append(list,
		goal{"pages that " + trawl1 + " fetched twice", nil, []string{trawl1}, duplicates, false, 0},
		goal{"share of the rate that politeness allows", nil, []string{trawl1}, idealShare, true, 0.95},
		goal{"live heap without the seen-set, farthest from its median", nil, []string{trawl1}, heapFarthest, false, flatWithin})
}

// results of the goals whose contenders took part.
func results(r *Report) []Result {
	var out []Result
	for _, g := range goals() {
		if !r.tookPart(g.of) || len(g.webs) > 0 && !slices.Contains(g.webs, r.webOf(g.of[0])) {
			continue
		}
		v := g.value(r, g.of)
		if math.IsInf(v, 0) {
			continue // not of this web
		}
		x := Result{What: g.what, AtLeast: g.atLeast, Wanted: g.wanted}
		if !math.IsNaN(v) {
			x.Value = v
			x.Reached = g.atLeast == (v >= g.wanted) || v == g.wanted
		}
		out = append(out, x)
	}
	return out
}

// webOf a contender that took part.
func (r *Report) webOf(name string) string {
	i := slices.IndexFunc(r.Contenders, func(c Contender) bool { return c.Name == name })
	return r.Contenders[i].Web
}

func (r *Report) tookPart(names []string) bool {
	for _, n := range names {
		if r.median(n) == nil {
			return false
		}
	}
	return true
}

func speedRatio(r *Report, of []string) float64 {
	if x, ok := r.ratio(of[0], of[1]); ok {
		return x.Speed
	}
	return math.NaN()
}

func cpuRatio(r *Report, of []string) float64 {
	if x, ok := r.ratio(of[0], of[1]); ok {
		return x.CPU
	}
	return math.NaN()
}

func seconds(r *Report, of []string) float64 {
	if m := r.median(of[0]); m.Seconds > 0 && len(m.Wrong) == 0 {
		return m.Seconds
	}
	return math.NaN()
}

func duplicates(r *Report, of []string) float64 {
	m := r.median(of[0])
	if m.Distinct == 0 {
		return math.NaN()
	}
	return float64(m.Duplicates)
}

// stackNumber is one of the numbers that a run leaves in Temporal.
func stackNumber(of func(StackNumbers) float64) func(*Report, []string) float64 {
	return func(r *Report, names []string) float64 {
		if m := r.median(names[0]); m.Stack != nil {
			return of(*m.Stack)
		}
		return math.NaN()
	}
}

func idealShare(r *Report, of []string) float64 {
	if m := r.median(of[0]); m.Ideal != nil {
		return m.Ideal.Share
	}
	return math.Inf(1)
}

func heapFarthest(r *Report, of []string) float64 {
	switch m := r.median(of[0]); {
	case m.Heap == nil:
		return math.Inf(1)
	case m.Heap.Median == 0:
		return math.NaN()
	default:
		return m.Heap.Farthest
	}
}
