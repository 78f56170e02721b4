package ingest_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"trawl/internal/ingest"
)

var update = flag.Bool("update", false, "draw the table into docs/loader.md")

const (
	drawnIn   = "../../docs/loader.md"
	drawStart = "<!-- drawn from internal/ingest/table.go by: go test ./internal/ingest -run TestDrawing -update -->\n"
	drawEnd   = "<!-- end of the drawing -->\n"
)

// The page about the loader shows the table as it is.
func TestDrawing(t *testing.T) {
	page, err := os.ReadFile(drawnIn)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), drawStart)
	drawn, after, end := strings.Cut(rest, drawEnd)
	if !ok || !end {
		t.Fatalf("%s lacks the lines\n%s%s", drawnIn, drawStart, drawEnd)
	}
	want := drawing()
	if drawn == want {
		return
	}
	if !*update {
		t.Errorf("%s does not show the table as it is; this draws it: go test ./internal/ingest -run TestDrawing -update", drawnIn)
		return
	}
	if err := os.WriteFile(drawnIn, []byte(before+drawStart+want+drawEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// drawing of the states as Mermaid, then the table of states and classes, then
// why, cell by cell.
func drawing() string {
	var b strings.Builder
	b.WriteString("\n```mermaid\nstateDiagram-v2\n    direction LR\n    [*] --> configure\n")
	for _, a := range arrows() {
		fmt.Fprintf(&b, "    %s --> %s : %s\n", a.from, a.to, strings.Join(a.labels, "<br>"))
	}
	b.WriteString("```\n\n")
	overview(&b)
	reasons(&b)
	return b.String()
}

type arrow struct {
	from, to string
	labels   []string
}

// arrows between states: one per pair of states, errors by action. What cannot
// happen is left out.
func arrows() []*arrow {
	var all []*arrow
	var lists []map[ingest.Action][]string
	add := func(from, to string, label func(*arrow, map[ingest.Action][]string)) {
		i := slices.IndexFunc(all, func(a *arrow) bool { return a.from == from && a.to == to })
		if i < 0 {
			i = len(all)
			all, lists = append(all, &arrow{from: from, to: to}), append(lists, map[ingest.Action][]string{})
		}
		label(all[i], lists[i])
	}
	ingest.Table(func(s ingest.State, e ingest.Event, step ingest.Step) {
		switch {
		case step.Do == ingest.Impossible:
		case e >= ingest.Configured:
			add(s.String(), step.Next.String(), func(a *arrow, _ map[ingest.Action][]string) {
				label := e.String()
				if step.Do == ingest.Advance {
					label += ", position moves"
				}
				a.labels = append(a.labels, label)
			})
		default:
			add(s.String(), step.Next.String(), func(_ *arrow, l map[ingest.Action][]string) {
				l[step.Do] = append(l[step.Do], fmt.Sprint(int(e)))
			})
		}
	})
	for i, a := range all {
		for do := range ingest.Impossible {
			if classes := lists[i][do]; len(classes) > 0 {
				a.labels = append(a.labels, fmt.Sprintf("%s %s", do, strings.Join(classes, " ")))
			}
		}
	}
	return all
}

// overview is the table of classes and states.
func overview(b *strings.Builder) {
	var states []ingest.State
	cells := map[ingest.Event]map[ingest.State]string{}
	ingest.Table(func(s ingest.State, e ingest.Event, step ingest.Step) {
		if !slices.Contains(states, s) {
			states = append(states, s)
		}
		if e >= ingest.Configured {
			return
		}
		if cells[e] == nil {
			cells[e] = map[ingest.State]string{}
		}
		if cells[e][s] = step.Do.String(); step.Do == ingest.Impossible {
			cells[e][s] = ""
		}
	})
	b.WriteString("| class |")
	for _, s := range states {
		fmt.Fprintf(b, " %s |", s)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(states)) + "\n")
	for e := range ingest.Configured {
		fmt.Fprintf(b, "| %d %s |", int(e), e)
		for _, s := range states {
			fmt.Fprintf(b, " %s |", cells[e][s])
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// reasons lists every cell with its reason; what cannot happen in one line per
// reason.
func reasons(b *strings.Builder) {
	b.WriteString("| state | meets | does | next | because |\n| --- | --- | --- | --- | --- |\n")
	var whys []string
	never := map[string][]string{}
	ingest.Table(func(s ingest.State, e ingest.Event, step ingest.Step) {
		meets := e.String()
		if e < ingest.Configured {
			meets = fmt.Sprintf("%d %s", int(e), e)
		}
		if step.Do != ingest.Impossible {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", s, meets, step.Do, step.Next, step.Why)
			return
		}
		if never[step.Why] == nil {
			whys = append(whys, step.Why)
		}
		never[step.Why] = append(never[step.Why], fmt.Sprintf("%s %d", s, int(e)))
	})
	b.WriteString("\nWhat cannot happen, and is handled as class 0 if it does:\n\n| pairs | because |\n| --- | --- |\n")
	for _, why := range whys {
		fmt.Fprintf(b, "| %s | %s |\n", strings.Join(never[why], ", "), why)
	}
	b.WriteString("\n")
}
