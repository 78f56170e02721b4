package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"trawl/internal/contract"
)

// thousands prints 1234567 as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// bytesText prints a size for people.
func bytesText(n int64) string {
	f, unit := float64(n), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for f >= 1024 && unit < len(units)-1 {
		f, unit = f/1024, unit+1
	}
	if unit == 0 {
		return strconv.FormatInt(n, 10) + " B"
	}
	return fmt.Sprintf("%.1f %s", f, units[unit])
}

// lapse prints a duration to the second, or finer when it is short.
func lapse(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// parts prints a map of counts, the greatest first, at most six.
func parts(m map[string]int64) string {
	const most = 6
	type part struct {
		name string
		n    int64
	}
	list := make([]part, 0, len(m))
	for k, n := range m {
		if n != 0 {
			list = append(list, part{k, n})
		}
	}
	slices.SortFunc(list, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name))
	})
	var out []string
	for i, p := range list {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		out = append(out, p.name+" "+thousands(p.n))
	}
	return strings.Join(out, ", ")
}

func withParts(n int64, m map[string]int64) string {
	if p := parts(m); p != "" {
		return thousands(n) + " (" + p + ")"
	}
	return thousands(n)
}

// clean makes text from outside safe for a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
}

// summaryText is the result of a crawl for people.
func summaryText(s contract.Summary) string {
	var b strings.Builder
	t, l := s.Totals, s.Ledger
	fmt.Fprintf(&b, "crawl %s: %s in %s\n", s.Crawl, outcomeText(s.Outcome), lapse(s.Ended.Sub(s.Started)))
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("pages", "%s fetched, %s", withParts(t.Fetched, t.Status), bytesText(t.Bytes))
	if n := sumOf(t.Refused); n > 0 {
		row("refused", "%s", withParts(n, t.Refused))
	}
	if n := sumOf(t.GivenUp); n > 0 {
		row("failed", "%s", withParts(n, t.GivenUp))
	}
	if t.Pending > 0 {
		row("pending", "%s", thousands(t.Pending))
	}
	hosts := thousands(t.Hosts)
	if t.Parked > 0 {
		hosts += fmt.Sprintf(", %s of them parked", thousands(t.Parked))
	}
	row("hosts", "%s", hosts)
	row("documents", "%s", ledgerText(l))
	row("generation", "%s", s.Generation)
	for _, n := range slices.Concat(s.Notes, remarks(s)) {
		row("note", "%s", clean(n))
	}
	return b.String()
}

func outcomeText(outcome string) string {
	switch outcome {
	case contract.OutcomeBudget:
		return "ended at its page limit"
	case contract.OutcomeTime:
		return "ended at its time limit"
	}
	return outcome
}

func ledgerText(l contract.Ledger) string {
	out := []string{thousands(l.Loaded) + " loaded"}
	add := func(n int64, what string) {
		if n > 0 {
			out = append(out, thousands(n)+" "+what)
		}
	}
	add(l.Deleted, "deleted")
	add(l.Superseded, "there already or newer")
	add(l.NoDocument, "pages without a document")
	add(l.Errors, "failed")
	add(l.Skipped, "skipped")
	return strings.Join(out, ", ")
}

// remarks say in a sentence why a crawl came out empty.
func remarks(s contract.Summary) []string {
	t := s.Totals
	robots := t.Refused["robots"]
	switch {
	case t.Fetched > 0:
		return nil
	case t.Locators == 0:
		return []string{"there was nothing to crawl: no seed was stated"}
	case robots > 0 && robots == t.Locators:
		return []string{"no page: robots.txt forbids every URL that was found"}
	case sumOf(t.GivenUp) == t.Locators:
		return []string{"no page: no host answered; check the seeds and the network"}
	case t.Refused["address"] > 0:
		return []string{"no page: the addresses are private or reserved; --allow-network names networks that may be reached"}
	}
	return []string{"no page: starter show URL explains what became of a seed"}
}

// summaryCode is the exit code of a crawl that ended with this summary.
func summaryCode(s contract.Summary) int {
	switch {
	case s.Outcome == contract.OutcomeCancelled:
		return exitCancelled
	case sumOf(s.Totals.GivenUp) > 0, s.Ledger.Errors > 0, s.Totals.Fetched == 0:
		return exitPages
	}
	return exitOK
}

// pagesSeen is how many pages were fetched for all that is known: shards tell
// their totals less often than loaders, which have seen the pages before.
func pagesSeen(st contract.CrawlStatus) int64 {
	l := st.Ledger
	return max(st.Totals.Fetched, l.Offsets-l.Compacted-l.Lost)
}

// statusLine is the state of a crawl under way in one line.
func statusLine(name string, st contract.CrawlStatus, now time.Time) string {
	t := st.Totals
	state := st.Phase
	if st.Paused {
		state = "paused"
	}
	pages := thousands(pagesSeen(st)) + " pages"
	// No rate if nothing is to be fetched, or if loaders know more than shards told.
	if st.Rate > 0 || t.Pending > 0 && pagesSeen(st) == t.Fetched {
		pages += fmt.Sprintf(" (%.1f/s)", st.Rate)
	}
	words := []string{pages, thousands(t.Pending) + " pending"}
	if state != "" {
		words = slices.Insert(words, 0, state)
	}
	words = append(words, withParts(sumOf(t.GivenUp), t.GivenUp)+" failed", thousands(st.Ledger.Loaded)+" loaded")
	if !st.Started.IsZero() {
		words = append(words, lapse(max(now.Sub(st.Started), 0).Truncate(time.Second)))
	}
	return name + ": " + strings.Join(words, ", ")
}
