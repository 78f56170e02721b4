package runner

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people: commands, table, goals, complaints.
func (r *Report) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s, %s, %d CPUs, load before %s, %d rounds\n", r.Began.Format(time.DateOnly), r.Version, r.CPUs, r.Load, r.Rounds)
	for _, s := range r.Sites {
		fmt.Fprintf(b, "web %s: %s\n", s.Name, strings.Join(s.argv("webserver"), " "))
	}
	b.WriteByte('\n')
	r.commands(b)
	if err := r.table(b); err != nil {
		return err
	}
	r.ratios(b)
	r.particulars(b)
	if err := r.goals(b); err != nil {
		return err
	}
	r.complaints(b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) commands(b *strings.Builder) {
	for _, c := range r.Contenders {
		fmt.Fprintf(b, "%s (web %s): %s\n", c.Name, c.Web, strings.Join(append(c.Env, c.Command...), " "))
		if c.Workers > 0 {
			broker := "its own broker"
			if c.Real {
				broker = "the broker of the Maven jars, after a minute of warm-up"
			}
			fmt.Fprintf(b, "    workers: %d, on a fresh embedded stack with %s\n", c.Workers, broker)
		}
		if len(c.Differs) > 0 {
			fmt.Fprintf(b, "    differs from the defaults: %s\n", strings.Join(c.Differs, "; "))
		}
	}
	b.WriteByte('\n')
}

func (r *Report) table(b *strings.Builder) error {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contender\tpages/s\tspread\tdistinct\tduplicates\tCPU s/1000\tpeak MB\tactivities/1000\thistory B/page\tKafka B/page\tother load\tpages right\t")
	for _, m := range r.Medians {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f-%.0f\t%d\t%d\t%.2f\t%d\t%s\t%s\t%s\t\n", m.Contender, m.Speed.Median, m.Speed.Min, m.Speed.Max,
			m.Distinct, m.Duplicates, m.CPU.Median, m.PeakBytes>>20, stackCells(m.Stack), otherLoad(m), verdict(m.Wrong))
	}
	return t.Flush()
}

func stackCells(s *StackNumbers) string {
	if s == nil {
		return "\t\t"
	}
	return fmt.Sprintf("%.1f\t%.0f\t%.0f", s.Activities, s.History, s.Kafka)
}

func otherLoad(m Median) string {
	s := fmt.Sprintf("%.0f %%", 100*m.Foreign)
	if m.Disturbed {
		s += " DISTURBED"
	}
	return s
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

// particulars are of webs that show more than speed.
func (r *Report) particulars(b *strings.Builder) {
	for _, m := range r.Medians {
		if i := m.Ideal; i != nil && i.Seconds > 0 {
			fmt.Fprintf(b, "%s: %d requests in %.0f s, %.0f a second; hosts with work allowed %.0f a second; share %.3f\n",
				m.Contender, i.Requests, i.Seconds, float64(i.Requests)/i.Seconds, i.Possible/i.Seconds, i.Share)
		}
		if m.Heap != nil {
			m.Heap.write(b, m.Contender)
		}
	}
}

func (h *Heap) write(b *strings.Builder, name string) {
	fmt.Fprintf(b, "%s: live heap after garbage collection, MB\n", name)
	for _, s := range h.Samples {
		fmt.Fprintf(b, "    %9d pages  %6.1f  without %d bytes for each of %d locators: %6.1f\n",
			s.Pages, mega(s.Bytes), seenBytes, s.Known, mega(s.Rest))
	}
	if h.Median == 0 {
		fmt.Fprintf(b, "    too few samples from page %d on for a judgement: want %d, one every %s\n", h.From, fewestHeaps, heapEvery)
		return
	}
	fmt.Fprintf(b, "    from page %d to %d: median %.1f, farthest from it %.1f %%, last third over first third %+.1f %%\n",
		h.From, h.To, mega(h.Median), 100*h.Farthest, 100*h.Growth)
}

func mega(n int64) float64 { return float64(n) / (1 << 20) }

func (r *Report) goals(b *strings.Builder) error {
	if len(r.Goals) == 0 {
		return nil
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "goal\tmeasured\twanted\treached")
	for _, g := range r.Goals {
		sign, reached := "at most", "no"
		if g.AtLeast {
			sign = "at least"
		}
		if g.Reached {
			reached = "yes"
		}
		fmt.Fprintf(t, "%s\t%.3g\t%s %g\t%s\n", g.What, g.Value, sign, g.Wanted, reached)
	}
	return t.Flush()
}

func (r *Report) complaints(b *strings.Builder) {
	for _, m := range r.Medians {
		for _, w := range m.Wrong {
			fmt.Fprintf(b, "WRONG: %s, %s\n", m.Contender, w)
		}
		if m.Disturbed {
			fmt.Fprintf(b, "DISTURBED: %s: other programs used up to %.0f %% of the machine; measure again\n", m.Contender, 100*m.Foreign)
		}
	}
}
