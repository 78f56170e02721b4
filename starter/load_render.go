package main

import (
	"fmt"
	"strings"
	"time"

	"trawl/internal/contract"
	"trawl/workflows"
)

// maxLoaders bounds how many partitions a status prints.
const maxLoaders = 100

// loadLine is the state of loaders in one line.
func loadLine(id string, st contract.LoadsStatus, now time.Time) string {
	words := []string{
		loadState(st), fmt.Sprintf("%s loaded (%.1f/s)", thousands(st.Ledger.Loaded), st.Rate), thousands(st.Lag) + " to go",
		thousands(st.Ledger.Errors) + " failed",
	}
	if !st.Started.IsZero() {
		words = append(words, lapse(max(now.Sub(st.Started), 0).Truncate(time.Second)))
	}
	return id + ": " + strings.Join(words, ", ")
}

// loadState says what loaders do, by those that are not done: one that loads is
// enough.
func loadState(st contract.LoadsStatus) string {
	if st.Paused {
		return "paused"
	}
	if st.Phase != workflows.LoadsRunning && st.Phase != workflows.LoadsDraining {
		if len(st.Trouble) > 0 && st.Phase == workflows.LoadsStarting {
			return "waiting" // for topics
		}
		return st.Phase
	}
	open, troubled, idle, begun := 0, 0, 0, false
	for _, p := range st.Partitions {
		switch {
		case p.Closed:
			continue
		case p.Retry.Attempts > 0:
			troubled++
		case p.Position >= 0 && p.End >= 0 && p.Position >= p.End:
			idle++
		}
		open++
		begun = begun || p.End >= 0
	}
	switch {
	case open > 0 && troubled == 0 && !begun: // nobody has read yet
		return workflows.LoadsStarting
	case open == 0 || troubled+idle < open:
		return st.Phase
	case troubled > 0:
		return "waiting"
	}
	return "waiting for records"
}

// loadText is the long form.
func loadText(id string, st contract.LoadsStatus, now time.Time) string {
	var b strings.Builder
	fmt.Fprintln(&b, loadLine(id, st, now))
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("ledger", "%s", conservation(st.Ledger))
	if st.RateLimit > 0 {
		row("rate", "at most %v records a second", st.RateLimit)
	}
	if st.Batching != (contract.Batching{}) {
		row("batch", "%s records, %s (0: as the spec says)", thousands(int64(st.Batching.Count)), bytesText(st.Batching.Bytes))
	}
	loaders(&b, st.Partitions)
	for _, t := range st.Trouble {
		row("waits", "%s", clean(t))
	}
	for i, p := range st.Partitions {
		if y := p.Retry; y.Alone && !p.Closed && i < maxLoaders {
			row("stuck", "%s", stuckText(id, p))
		}
	}
	for _, n := range st.Notes {
		row("note", "%s", clean(n))
	}
	return b.String()
}

func partitionText(p contract.LoadReport) string {
	if p.Topic == "" {
		return fmt.Sprintf("pages[%d]", p.Partition)
	}
	return fmt.Sprintf("%s[%d]", p.Topic, p.Partition)
}

// stuckText says which record stops a loader and what to type.
func stuckText(id string, p contract.LoadReport) string {
	topic, offsets := "", fmt.Sprintf("--offset %d", p.Retry.Offset)
	if p.Topic != "" {
		topic = " --topic " + p.Topic
	}
	if p.Retry.Through > p.Retry.Offset {
		offsets += fmt.Sprintf(" --through %d", p.Retry.Through)
	}
	return fmt.Sprintf("%s at offset %d; to leave it out: starter load to-errors %s%s --partition %d %s --reason WHY",
		partitionText(p), p.Retry.Offset, verbName(id), topic, p.Partition, offsets)
}

func loaders(b *strings.Builder, parts []contract.LoadReport) {
	for i, p := range parts {
		if i == maxLoaders {
			fmt.Fprintf(b, "  and %d more partitions\n", len(parts)-i)
			return
		}
		state := p.State
		switch {
		case p.Closed && state != "stopped":
			state = "done"
		case p.Retry.Attempts > 0:
			state = fmt.Sprintf("%s, class %d, attempt %d", p.State, p.Retry.Class, p.Retry.Attempts)
		}
		line := fmt.Sprintf("%s: %s at %s of %s", partitionText(p), state, offsetText(p.Position), offsetText(p.End))
		if p.Rate > 0 && !p.Closed {
			line += fmt.Sprintf(", %.1f/s", p.Rate)
		}
		if r := p.Ledger.Sub(p.Before); p.Position >= 0 && r.Offsets != p.Position-p.Start {
			line += fmt.Sprintf(", ledger of %s offsets for %s", thousands(r.Offsets), thousands(p.Position-p.Start))
		}
		fmt.Fprintf(b, "  %-10s %s\n", "partition", line)
		for _, n := range p.Notes {
			fmt.Fprintf(b, "  %-10s %s: %s\n", "note", partitionText(p), clean(n))
		}
	}
}

func offsetText(n int64) string {
	if n < 0 {
		return "?"
	}
	return thousands(n)
}

// conservation is the ledger as the sum that it has to be.
func conservation(l contract.Ledger) string {
	var parts []string
	add := func(n int64, what string) {
		if n != 0 {
			parts = append(parts, thousands(n)+" "+what)
		}
	}
	add(l.Loaded, "loaded")
	add(l.Deleted, "deleted")
	add(l.Superseded, "there already or newer")
	add(l.NoDocument, "no document")
	add(l.Errors, "in errors")
	add(l.Skipped, "skipped")
	add(l.Compacted, "control or compacted")
	add(l.Lost, "lost to retention")
	if len(parts) == 0 {
		parts = []string{"nothing yet"}
	}
	text := fmt.Sprintf("%s offsets = %s", thousands(l.Offsets), strings.Join(parts, " + "))
	if n := l.Missing(); n != 0 {
		text += fmt.Sprintf("; %s NOT ACCOUNTED FOR", thousands(n))
	}
	return text
}

func loadSummaryText(s contract.LoadsSummary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %s: %s in %s\n", s.Name, s.Outcome, lapse(s.Ended.Sub(s.Started)))
	fmt.Fprintf(&b, "  %-10s %s\n", "ledger", conservation(s.Ledger))
	loaders(&b, s.Partitions)
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "  %-10s %s\n", "note", clean(n))
	}
	return b.String()
}
