package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report of a benchmark.
type Report struct {
	Began      time.Time   `json:"began"`
	CPUs       int         `json:"cpus"`
	Go         string      `json:"go"`
	Version    string      `json:"version"`     // of starter
	Load       string      `json:"load_before"` // of the machine, over 1, 5 and 15 minutes
	Site       []string    `json:"site"`        // command of the site server
	Rounds     int         `json:"rounds"`
	Contenders []Contender `json:"contenders"`
	Runs       []Run       `json:"runs"`
	Medians    []Median    `json:"medians"`
	Ratios     []Ratio     `json:"ratios"`
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
	Stack      *StackNumbers `json:"stack,omitempty"` // medians
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
	r.Medians, r.Ratios = nil, nil
	for _, c := range r.Contenders {
		r.Medians = append(r.Medians, median(c.Name, r.runsOf(c.Name)))
	}
	for _, c := range r.Contenders {
		if c.Workers == 0 {
			continue
		}
		for _, to := range []string{RawStores, CollyStores} {
			if ratio, ok := r.ratio(c.Name, to); ok {
				r.Ratios = append(r.Ratios, ratio)
			}
		}
	}
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
	m.Distinct = runs[0].Distinct
	for _, x := range runs {
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
	find := func(name string) int {
		return slices.IndexFunc(r.Medians, func(m Median) bool { return m.Contender == name && m.Speed.Median > 0 && m.CPU.Median > 0 })
	}
	i, j := find(of), find(to)
	if i < 0 || j < 0 {
		return Ratio{}, false
	}
	a, b := r.Medians[i], r.Medians[j]
	return Ratio{Of: of, To: to, Speed: a.Speed.Median / b.Speed.Median, CPU: a.CPU.Median / b.CPU.Median}, true
}

// WriteJSON writes the whole report.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for people: commands, table, ratios, complaints.
func (r *Report) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s, %s, %d CPUs, load before %s, %d rounds; site: %s\n\n",
		r.Began.Format(time.DateOnly), r.Version, r.CPUs, r.Load, r.Rounds, strings.Join(r.Site, " "))
	r.commands(b)
	if err := r.table(b); err != nil {
		return err
	}
	r.ratios(b)
	r.complaints(b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) commands(b *strings.Builder) {
	for _, c := range r.Contenders {
		fmt.Fprintf(b, "%s: %s\n", c.Name, strings.Join(c.Command, " "))
		if c.Workers > 0 {
			fmt.Fprintf(b, "    workers: %d, on a fresh embedded stack\n", c.Workers)
		}
		if len(c.Differs) > 0 {
			fmt.Fprintf(b, "    differs from the defaults: %s\n", strings.Join(c.Differs, "; "))
		}
	}
	b.WriteByte('\n')
}

func (r *Report) table(b *strings.Builder) error {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contender\tpages/s\tspread\tdistinct\tduplicates\tCPU s/1000\tpeak MB\tactivities/1000\thistory B/page\tKafka B/page\tpages right\t")
	for _, m := range r.Medians {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f-%.0f\t%d\t%d\t%.2f\t%d\t%s\t%s\t\n", m.Contender, m.Speed.Median, m.Speed.Min, m.Speed.Max,
			m.Distinct, m.Duplicates, m.CPU.Median, m.PeakBytes>>20, stackCells(m.Stack), verdict(m.Wrong))
	}
	return t.Flush()
}

func stackCells(s *StackNumbers) string {
	if s == nil {
		return "\t\t"
	}
	return fmt.Sprintf("%.1f\t%.0f\t%.0f", s.Activities, s.History, s.Kafka)
}

func verdict(wrong []string) string {
	if len(wrong) > 0 {
		return "WRONG"
	}
	return "yes"
}

func (r *Report) ratios(b *strings.Builder) {
	b.WriteByte('\n')
	for _, x := range r.Ratios {
		fmt.Fprintf(b, "%s / %s: pages/s %.2f, CPU per page %.2f\n", x.Of, x.To, x.Speed, x.CPU)
	}
}

func (r *Report) complaints(b *strings.Builder) {
	for _, m := range r.Medians {
		for _, w := range m.Wrong {
			fmt.Fprintf(b, "WRONG: %s, %s\n", m.Contender, w)
		}
	}
}
