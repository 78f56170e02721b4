package runner

import (
	"strings"
	"testing"
)

// shown is a report of contenders with these speeds, all right.
func shown(web string, speeds map[string]float64, change func(name string, r *Run)) *Report {
	r := &Report{}
	for name, speed := range speeds {
		x := Run{Contender: name, Speed: speed, CPU: 0.2, Distinct: 100, Seconds: 1}
		if strings.HasPrefix(name, "trawl") {
			x.CPU, x.Stack = 0.3, &StackNumbers{Activities: 5, History: 100}
		}
		if change != nil {
			change(name, &x)
		}
		r.Contenders = append(r.Contenders, Contender{Name: name, Web: web})
		r.Runs = append(r.Runs, x)
	}
	r.Finish()
	return r
}

// result of a goal by a part of its name.
func result(t *testing.T, r *Report, part string) *Result {
	t.Helper()
	var found *Result
	for i, g := range r.Goals {
		if strings.Contains(g.What, part) {
			if found != nil {
				t.Fatalf("two goals are named like %q", part)
			}
			found = &r.Goals[i]
		}
	}
	return found
}

func TestGoals(t *testing.T) {
	speeds := map[string]float64{trawl1: 4000, CollyStores: 1000, RawStores: 6000, trawlSQLite: 1500, trawlHosts: 4100, trawlFifty: 40, spiderDisk: 1000}
	r := shown(busy, speeds, func(name string, x *Run) {
		switch name {
		case trawl1:
			x.Dups = 1
			x.Stack.Activities = 10.5
		case trawlFifty:
			x.Seconds = 1.5
		case spiderDisk:
			x.Speed = 0 // it failed
		}
	})
	for part, want := range map[string]struct {
		value   float64
		reached bool
	}{
		"plain colly":                {4, false},
		"SQLite /":                   {0.25, true},
		"1,000 hosts, delay 0":       {4000.0 / 4100, true},
		"CPU per page":               {1.5, true},
		"50 pages":                   {1.5, true},
		"1,000 pages, " + trawlHosts: {5, true},
		"page, " + trawlSQLite:       {100, true},
		"fetched twice":              {1, false},
		"spider by default":          {0, false},
	} {
		g := result(t, r, part)
		if g == nil || g.Reached != want.reached || g.Value < want.value*0.999 || g.Value > want.value*1.001 {
			t.Errorf("goal %q is %+v, want %+v", part, g, want)
		}
	}
	for _, absent := range []string{"Scrapy", "politeness", "heap", "real broker"} {
		if g := result(t, r, absent); g != nil {
			t.Errorf("goal %q is shown, though none of its contenders ran: %+v", absent, g)
		}
	}
	if s := text(t, r); !strings.Contains(s, "at least 5") || !strings.Contains(s, "  no") || !strings.Contains(s, "  yes") {
		t.Errorf("the report shows no goals:\n%s", s)
	}
}

func TestGoalsOfPoliteWebs(t *testing.T) {
	for share, reached := range map[float64]bool{0.949: false, 0.95: true, 0.99: true} {
		r := shown("polite", map[string]float64{trawl1: 900}, func(_ string, x *Run) {
			x.Stack.Activities = 50
			x.Ideal = &Ideal{Requests: 950, Possible: 1000, Seconds: 1, Share: share}
		})
		if g := result(t, r, "politeness"); g == nil || g.Reached != reached || g.Value != share {
			t.Errorf("share %g is shown as %+v", share, g)
		}
		if g := result(t, r, "activities"); g != nil {
			t.Errorf("activities are a goal of busy webs: %+v", g)
		}
		if s := text(t, r); !strings.Contains(s, "allowed 1000 a second") {
			t.Errorf("the report has no ideal rate:\n%s", s)
		}
	}
}

func TestGoalsOfOtherWebs(t *testing.T) {
	speeds := map[string]float64{trawl1: 4000, RawStores: 6000}
	for web, want := range map[string]int{busy: 5, hosts: 3, "large": 1} {
		if r := shown(web, speeds, nil); len(r.Goals) != want {
			t.Errorf("on web %s %d goals are shown, want %d: %+v", web, len(r.Goals), want, r.Goals)
		}
	}
}

func TestDisturbedRunsAreMarked(t *testing.T) {
	for foreign, want := range map[float64]bool{0.05: false, 0.11: true} {
		m := measured{kept: -1}
		m.foreign = foreign
		x := Contender{Name: "x"}
		r := &Report{Contenders: []Contender{x}, Runs: []Run{summarize(x, m, good(), nil), summarize(x, measured{kept: -1}, good(), nil)}}
		r.Finish()
		if r.Runs[0].Disturbed != want || r.Runs[1].Disturbed || r.Medians[0].Disturbed != want {
			t.Errorf("%g of the machine used by others: runs %+v", foreign, r.Runs)
		}
		if strings.Contains(text(t, r), "DISTURBED: x") != want || strings.Contains(r.Runs[0].String(), "DISTURBED") != want {
			t.Errorf("%g of the machine used by others is reported as\n%s", foreign, text(t, r))
		}
	}
}
