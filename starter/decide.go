package main

import (
	"fmt"
	"strings"

	"trawl/internal/contract"
	"trawl/internal/spec"
)

// found is what there is of a name already.
type found struct {
	exec execution
	gen  generation
	has  bool // gen is there
	stored
}

// running tells whether a run is under way.
func (f found) running() bool { return f.exec.State == stateRunning }

// action is what to do about a name.
type action int

const (
	begin  action = iota // a new generation
	goOn                 // the current one
	attach               // to the run under way
	show                 // the summary of a crawl that is complete
)

// decision is the action with its reason, and what people should know.
type decision struct {
	do     action
	reason string
	notes  []string
}

// decide applies the rules for a name that may be there already: running ->
// attach; ended early -> go on; completed -> show, unless a limit that ended it
// is higher now or there are more seeds; again -> a new generation. A spec that
// differs by more than limits, politeness and more seeds is refused.
func decide(s *spec.Spec, f found, again bool) (decision, error) {
	if again {
		if f.running() {
			return decision{}, fail(exitTaken, "crawl %s is running: cancel it first (starter cancel %s --wait), or leave --again out to attach", s.Name, s.Name)
		}
		return decision{do: begin, reason: "a new generation was asked for"}, nil
	}
	if !f.has && !f.running() {
		return decision{do: begin, reason: "the name is new"}, nil
	}
	allowed, err := compare(s, f)
	if err != nil {
		return decision{}, err
	}
	if f.running() {
		d := decision{do: attach, reason: "it is running"}
		for _, a := range allowed {
			d.notes = append(d.notes, a+" (not applied to the crawl under way: use set-rate or add-seeds, or cancel it and start it again)")
		}
		return d, nil
	}
	d := ended(s, f)
	d.notes = append(d.notes, allowed...)
	return d, nil
}

// compare refuses a spec that is another one than the stored one.
func compare(s *spec.Spec, f found) (allowed []string, err error) {
	if f.Spec == nil {
		return nil, nil
	}
	s.Adopt(f.Spec)
	allowed, refused := spec.Diff(f.Spec, s)
	if len(refused) > 0 {
		return nil, fail(exitTaken, "name taken by another spec: crawl %s has\n%s\nchoose another --name, or begin anew with --again", s.Name, strings.Join(refused, "\n"))
	}
	return allowed, nil
}

// ended decides about a generation without a run under way.
func ended(s *spec.Spec, f found) decision {
	switch f.exec.State {
	case stateCancelled, stateTerminated, stateFailed, stateTimedOut:
		return decision{do: goOn, reason: "its last run was " + past(f.exec.State)}
	}
	switch {
	case f.Summary == nil:
		return decision{do: goOn, reason: "its last run left no summary"}
	case f.Summary.Outcome == contract.OutcomeCancelled:
		return decision{do: goOn, reason: "its last run was cancelled"}
	}
	if why := more(s, f.Spec, f.Summary); why != "" {
		return decision{do: goOn, reason: why}
	}
	return decision{do: show, reason: "it is complete"}
}

func past(state string) string {
	switch state {
	case stateFailed:
		return "stopped by a failure"
	case stateTimedOut:
		return "stopped by a time-out"
	}
	return state
}

// more names a reason for which a crawl that has ended has work again.
func more(now, was *spec.Spec, sum *contract.Summary) string {
	if was == nil {
		return ""
	}
	l, o := now.Limits, was.Limits
	t := sum.Totals
	switch {
	case sum.Outcome == contract.OutcomeBudget && raised(l.Pages, o.Pages, 0):
		return change("limits.pages", o.Pages, l.Pages)
	case sum.Outcome == contract.OutcomeTime && raised(int64(l.Time), int64(o.Time), 0):
		return fmt.Sprintf("limits.time was raised from %s to %s", o.Time, l.Time)
	case len(now.Seeds.URLs)+len(now.Seeds.Sitemaps) > len(was.Seeds.URLs)+len(was.Seeds.Sitemaps):
		return "there are more seeds"
	case raised(int64(now.Scope.Depth), int64(was.Scope.Depth), -1) && (t.CutDepth > 0 || t.Refused["depth"] > 0):
		return change("scope.depth", int64(was.Scope.Depth), int64(now.Scope.Depth))
	case raised(l.PagesPerHost, o.PagesPerHost, 0) && sumOf(t.Refused) > 0:
		return change("limits.pages_per_host", o.PagesPerHost, l.PagesPerHost)
	case l.Tries > o.Tries && sumOf(t.GivenUp) > 0:
		return change("limits.tries", int64(o.Tries), int64(l.Tries))
	}
	return ""
}

// raised: none is the value that stands for no limit.
func raised(now, was, none int64) bool {
	if was == none || now == was {
		return false
	}
	return now == none || now > was
}

func change(key string, was, now int64) string {
	return fmt.Sprintf("%s was raised from %d to %d", key, was, now)
}

func sumOf(m map[string]int64) int64 {
	var n int64
	for _, v := range m {
		n += v
	}
	return n
}

// input is what CrawlWorkflow gets for a decision to begin or go on.
func input(s *spec.Spec, f found, d decision) (contract.CrawlInput, error) {
	raw, err := s.Encode()
	if err != nil {
		return contract.CrawlInput{}, err
	}
	in := contract.CrawlInput{
		Spec: raw, Reason: d.reason,
		Run: contract.Run{Crawl: s.Name, Shards: s.Shards, Partitions: s.Shards},
	}
	if d.do == goOn {
		in.Resume = true
		in.Run.Generation, in.Run.Shards, in.Run.Partitions = f.gen.Generation, f.gen.Shards, f.gen.Partitions
	}
	return in, nil
}
