package runner

import (
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseStat(t *testing.T) {
	fields := " S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0"
	for _, name := range []string{"worker", "a) b (c", ")"} {
		got, err := parseStat("42 (" + name + ")" + fields)
		if err != nil || got != 1750*time.Millisecond {
			t.Errorf("name %q: %s, %v; want 1.75s", name, got, err)
		}
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 x S" + fields, "42 (x) S 1 2 3 4 5 6 7 8 9 10 many 25", "42 (x) S 1 2 3 4 5 6 7 8 9 10 150 many"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q is %s, want an error", bad, got)
		}
	}
}

func TestOwnUsage(t *testing.T) {
	if _, err := cpuTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	if n := resident(os.Getpid()); n < 1<<20 {
		t.Errorf("%d bytes resident", n)
	}
	if _, err := cpuTime(-1); err == nil {
		t.Error("a process that is not there has CPU time")
	}
	if n := resident(-1); n != 0 {
		t.Errorf("a process that is not there has %d bytes", n)
	}
}

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
	r := &Report{Contenders: []Contender{{Name: RawStores}, {Name: "trawl", Workers: 1}}}
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
	for _, c := range Contenders("/bin") {
		argv := strings.Join(c.argv("http://x/", "/tmp/d"), " ")
		if !strings.Contains(argv, "http://x/") || strings.Contains(argv, "DIR") {
			t.Errorf("%s runs %q", c.Name, argv)
		}
		if len(c.Differs) == 0 && strings.Contains(argv, " -") {
			t.Errorf("%s runs %q and says of no flag that it differs", c.Name, argv)
		}
	}
}

func TestConfig(t *testing.T) {
	if _, err := (Config{Only: []string{"nobody"}}).choose(); err == nil || !strings.Contains(err.Error(), RawStores) {
		t.Errorf("error is %v, want the names that there are", err)
	}
	if got, err := (Config{Only: []string{"colly", "raw"}}).choose(); err != nil || len(got) != 2 || got[0].Name != "colly" {
		t.Errorf("chose %v, %v", got, err)
	}
	if r, err := Measure(t.Context(), Config{}); err == nil {
		t.Errorf("measured nothing: %v", r)
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
