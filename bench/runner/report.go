package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Report of a benchmark.
type Report struct {
	Began      time.Time   `json:"began"`
	CPUs       int         `json:"cpus"`
	Go         string      `json:"go"`
	Version    string      `json:"version"`     // of starter
	Load       string      `json:"load_before"` // of the machine, over 1, 5 and 15 minutes
	Sites      []Web       `json:"sites"`
	Rounds     int         `json:"rounds"`
	Contenders []Contender `json:"contenders"`
	Runs       []Run       `json:"runs"`
	Medians    []Median    `json:"medians"`
	Ratios     []Ratio     `json:"ratios"`
	Goals      []Result    `json:"goals"`
}

// Spread of a number over the rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Median is a contender over all rounds. Distinct is that of its worst round,
// and Wrong holds the complaints of all.
type Median struct {
	Contender  string        `json:"contender"`
	Speed      Spread        `json:"pages_per_second"`
	Distinct   int64         `json:"distinct_least"`
	Duplicates int64         `json:"duplicates_most"`
	CPU        Spread        `json:"cpu_seconds_per_1000_pages"`
	PeakBytes  int64         `json:"peak_bytes_most"`
	Seconds    float64       `json:"seconds"`
	Stack      *StackNumbers `json:"stack,omitempty"`  // medians
	Foreign    float64       `json:"foreign_cpu_most"` // share of the machine that others used
	Disturbed  bool          `json:"disturbed"`        // in one round at least
	Ideal      *Ideal        `json:"ideal,omitempty"`  // of the worst round
	Heap       *Heap         `json:"heap,omitempty"`   // of the worst round
	Wrong      []string      `json:"wrong,omitempty"`
}

// Ratio of the medians of two contenders.
type Ratio struct {
	Of    string  `json:"of"`
	To    string  `json:"to"`
	Speed float64 `json:"speed"`
	CPU   float64 `json:"cpu"`
}

// Finish computes medians and ratios from the runs.
func (r *Report) Finish() {
	r.Medians, r.Ratios, r.Goals = nil, nil, nil
	for _, c := range r.Contenders {
		r.Medians = append(r.Medians, median(c.Name, r.runsOf(c.Name)))
	}
	for _, c := range r.Contenders {
		if c.Workers == 0 {
			continue
		}
		for _, to := range r.Contenders {
			if c.Name == to.Name || c.Web != to.Web || !to.Stores || (to.Workers > 0 && to.Name != trawl1) {
				continue
			}
			if ratio, ok := r.ratio(c.Name, to.Name); ok {
				r.Ratios = append(r.Ratios, ratio)
			}
		}
	}
	r.Goals = results(r)
}

// median of a contender; nil if it did not take part.
func (r *Report) median(name string) *Median {
	if i := slices.IndexFunc(r.Medians, func(m Median) bool { return m.Contender == name }); i >= 0 {
		return &r.Medians[i]
	}
	return nil
}

func (r *Report) runsOf(name string) []Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(x Run) bool { return x.Contender != name })
}

func median(name string, runs []Run) Median {
	m := Median{Contender: name}
	if len(runs) == 0 {
		m.Wrong = []string{"never ran"}
		return m
	}
	m.Speed = spread(runs, func(x Run) float64 { return x.Speed })
	m.CPU = spread(runs, func(x Run) float64 { return x.CPU })
	m.Seconds = spread(runs, func(x Run) float64 { return x.Seconds }).Median
	m.Distinct = runs[0].Distinct
	for _, x := range runs {
		m.Foreign, m.Disturbed = max(m.Foreign, x.Foreign), m.Disturbed || x.Disturbed
		if x.Ideal != nil && (m.Ideal == nil || x.Ideal.Share < m.Ideal.Share) {
			m.Ideal = x.Ideal
		}
		if x.Heap != nil && (m.Heap == nil || x.Heap.Farthest > m.Heap.Farthest) {
			m.Heap = x.Heap
		}
		m.Distinct = min(m.Distinct, x.Distinct)
		m.Duplicates = max(m.Duplicates, x.Dups)
		m.PeakBytes = max(m.PeakBytes, x.PeakBytes)
		for _, w := range x.Wrong {
			m.Wrong = append(m.Wrong, fmt.Sprintf("round %d: %s", x.Round, w))
		}
	}
	stacked := slices.DeleteFunc(slices.Clone(runs), func(x Run) bool { return x.Stack == nil })
	if len(stacked) > 0 {
		m.Stack = &StackNumbers{
			Activities: spread(stacked, func(x Run) float64 { return x.Stack.Activities }).Median,
			History:    spread(stacked, func(x Run) float64 { return x.Stack.History }).Median,
			Kafka:      spread(stacked, func(x Run) float64 { return x.Stack.Kafka }).Median,
		}
	}
	return m
}

func spread(runs []Run, of func(Run) float64) Spread {
	v := make([]float64, len(runs))
	for i, x := range runs {
		v[i] = of(x)
	}
	slices.SortFunc(v, cmp.Compare)
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (mid + v[len(v)/2-1]) / 2
	}
	return Spread{Median: mid, Min: v[0], Max: v[len(v)-1]}
}

func (r *Report) ratio(of, to string) (Ratio, bool) {
	a, b := r.median(of), r.median(to)
	if a == nil || b == nil || a.Speed.Median <= 0 || a.CPU.Median <= 0 || b.Speed.Median <= 0 || b.CPU.Median <= 0 {
		return Ratio{}, false
	}
	return Ratio{Of: of, To: to, Speed: a.Speed.Median / b.Speed.Median, CPU: a.CPU.Median / b.CPU.Median}, true
}

// WriteJSON writes the whole report.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
