package runner

import "fmt"

// Judge says what is wrong with a run, by the site's log and by what the
// contender says (or its directory shows) it kept; kept is -1 for one that
// keeps nothing. No sentence: every page was fetched exactly once.
func Judge(l SiteLog, kept int64) []string {
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if l.Reachable == 0 {
		complain("the site has no pages: nothing was measured")
	}
	if n := l.Reachable - l.Distinct; n > 0 || len(l.Missing) > 0 {
		complain("skipped %d of %d pages%s", max(n, int64(len(l.Missing))), l.Reachable, example(l.Missing))
	}
	if l.Duplicates > 0 {
		complain("fetched %d pages again (%.1f %%)", l.Duplicates, 100*float64(l.Duplicates)/float64(max(l.Distinct, 1)))
	}
	if len(l.Extra) > 0 {
		complain("fetched pages that no link leads to%s", example(l.Extra))
	}
	if l.Unknown > 0 {
		complain("asked %d times for what is no page", l.Unknown)
	}
	if l.Active > 0 {
		complain("ended with %d requests under way", l.Active)
	}
	if bad := failures(l); bad > 0 {
		complain("%d requests were not answered with 200", bad)
	}
	if kept >= 0 && kept != l.Reachable {
		complain("kept %d of %d pages", kept, l.Reachable)
	}
	return wrong
}

func failures(l SiteLog) int64 {
	var n int64
	for status, count := range l.Status {
		if status != 200 {
			n += count
		}
	}
	return max(n-l.Unknown, 0)
}

func example(urls []string) string {
	if len(urls) == 0 {
		return ""
	}
	return ", such as " + urls[0]
}
