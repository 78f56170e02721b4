package runner

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 9).Draw(t, "speeds")
		runs := make([]Run, len(v))
		for i := range v {
			runs[i].Speed = v[i]
		}
		s := spread(runs, func(r Run) float64 { return r.Speed })
		above, below := 0, 0
		for _, x := range v {
			if x > s.Median {
				above++
			}
			if x < s.Median {
				below++
			}
			if x < s.Min || x > s.Max {
				t.Errorf("%g is outside of %+v", x, s)
			}
		}
		if above > len(v)/2 || below > len(v)/2 {
			t.Errorf("%d above and %d below the median of %d", above, below, len(v))
		}
	})
}

func TestRatiosAreOfMedians(t *testing.T) {
	r := &Report{Contenders: []Contender{{Name: RawStores, Stores: true}, {Name: "trawl", Workers: 1, Stores: true}, {Name: "raw"}}}
	for round, speed := range []float64{100, 10, 40} {
		r.Runs = append(r.Runs,
			Run{Contender: RawStores, Round: round, Speed: 2 * speed, CPU: 1},
			Run{Contender: "trawl", Round: round, Speed: speed, CPU: 3, Stack: &StackNumbers{Activities: speed}})
	}
	r.Finish()
	if len(r.Ratios) != 1 || r.Ratios[0] != (Ratio{Of: "trawl", To: RawStores, Speed: 0.5, CPU: 3}) {
		t.Errorf("ratios are %+v", r.Ratios)
	}
	if got := r.Medians[1].Stack.Activities; got != 40 {
		t.Errorf("%g activities, want 40", got)
	}
}

func TestAContenderThatNeverRanIsWrong(t *testing.T) {
	r := &Report{Contenders: []Contender{{Name: "x"}}}
	r.Finish()
	if len(r.Medians[0].Wrong) == 0 || !strings.Contains(text(t, r), "WRONG") {
		t.Errorf("report is %s", text(t, r))
	}
}

func TestCommandsAreComplete(t *testing.T) {
	here := place{root: "http://x/", dir: "/tmp/d", spec: "/tmp/s"}
	for _, w := range webs() {
		list := Contenders("/bin", "/peers", w)
		if _, err := choose(list, w.runs); err != nil {
			t.Errorf("web %s: %v", w.Name, err)
		}
		for _, c := range list {
			argv := strings.Join(append(here.fill(c.Env), here.fill(c.Command)...), " ")
			// A URL on the command line would take the place of the seeds of the spec.
			if strings.Contains(argv, "http://x/") == w.seeded || strings.ContainsAny(argv, "{}") {
				t.Errorf("%s runs %q", c.Name, argv)
			}
			if len(c.Differs) == 0 && strings.Contains(argv, " -") {
				t.Errorf("%s runs %q and says of no flag that it differs", c.Name, argv)
			}
			if _, err := findWeb(c.Web); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			if c.Name != trawl1 && c.Name != trawlFifty && len(c.Differs) > 0 && w.polite > 0 && strings.Contains(argv, "--delay") {
				t.Errorf("%s on polite web %s runs %q", c.Name, w.Name, argv)
			}
		}
		if argv := strings.Join(w.argv("server"), " "); !strings.Contains(argv, "-pages") || (w.polite > 0) != strings.Contains(argv, "-crawl-delay") {
			t.Errorf("web %s is served by %q", w.Name, argv)
		}
	}
}

func TestSites(t *testing.T) {
	w, err := Config{Pages: 300, Rounds: 2}.web()
	if err != nil || w.Name != busy || w.Pages != 300 || w.rounds != 2 || w.Links == 0 {
		t.Fatalf("web is %+v, %v", w, err)
	}
	all, err := choose(Contenders("", "", w), []string{RawStores, trawlHosts, "raw", trawlFifty})
	if err != nil {
		t.Fatal(err)
	}
	got, err := sitesOf(w, all)
	if err != nil || len(got) != 3 || got[1].Name != hosts || got[1].Pages != 300 || got[2].Pages != 50 {
		t.Errorf("sites are %+v, %v", got, err)
	}
	if argv := got[1].argv("x"); argv[2] != "300" || argv[4] != "1" {
		t.Errorf("300 pages of 1,000 hosts are served by %q, want 300 hosts of one page", argv)
	}
}

func TestConfig(t *testing.T) {
	if _, err := choose(Contenders("", "", webs()[0]), []string{"nobody"}); err == nil || !strings.Contains(err.Error(), RawStores) {
		t.Errorf("error is %v, want the names that there are", err)
	}
	for want, c := range map[string]Config{"want one of": {Web: "nowhere"}, "above 0": {Size: -1}, "twice": {Only: []string{"raw", "raw"}}} {
		if r, err := Measure(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("measured %v, %v; want %q", r, err, want)
		}
	}
}

func TestKeptBy(t *testing.T) {
	if n, err := keptBy([]byte(`{"totals":{"fetched":7}}`)); err != nil || n != 7 {
		t.Errorf("kept %d, %v", n, err)
	}
	if _, err := keptBy([]byte("no crawl")); err == nil {
		t.Error("a summary that is none is no error")
	}
}

func TestProcess(t *testing.T) {
	p, err := program{name: "sh", argv: []string{"/bin/sh", "-c", `echo "$WORD up"; echo down >&2; exec cat /dev/zero >/dev/null`}, env: []string{"WORD=is"}}.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.waitLine(t.Context(), "up"); err != nil || line != "is up" {
		t.Errorf("line is %q, %v", line, err)
	}
	if _, err := p.waitLine(t.Context(), "down"); err != nil {
		t.Error(err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if _, err := p.waitLine(t.Context(), "never"); err == nil {
		t.Error("found a line that was never written")
	}
	if p.wait() == nil {
		t.Error("a process that a signal ended has no error")
	}
}
