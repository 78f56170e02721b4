package runner

import (
	"math"
	"os"
	"testing"
	"time"
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

func TestParseMachine(t *testing.T) {
	// user, nice, system and steal count; idle, iowait and interrupts do not.
	got, err := parseMachine("cpu  100 20 30 4000 500 6 7 50 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	if err != nil || got != 2*time.Second {
		t.Errorf("busy is %s, %v; want 2s", got, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"} {
		if got, err := parseMachine(bad); err == nil {
			t.Errorf("%q is %s, want an error", bad, got)
		}
	}
	before, err := machineBusy()
	if err != nil || before <= 0 {
		t.Errorf("this machine was busy for %s, %v", before, err)
	}
}

func TestForeign(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		busy, own, took time.Duration
		cpus            int
		want            float64
	}{
		{10 * s, 10 * s, 5 * s, 2, 0},
		{10 * s, 8 * s, 10 * s, 2, 0.1},
		{20 * s, 10 * s, 10 * s, 2, 0.5},
		{9 * s, 10 * s, 10 * s, 2, 0}, // clocks of different grain
		{s, 0, 0, 2, 0},
		{s, 0, s, 0, 0},
	} {
		if got := foreign(c.busy, c.own, c.took, c.cpus); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("busy %s of which own %s in %s on %d: foreign is %g, want %g", c.busy, c.own, c.took, c.cpus, got, c.want)
		}
	}
}

// TestCharge: the processes that a run needs are its cost, those beside it are
// nobody's, and the rest of a busy machine is foreign.
func TestCharge(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		before, after reading
		cpu           time.Duration
		foreign       float64
	}{
		{reading{}, reading{busy: 10 * s, needs: 4 * s, beside: 3 * s}, 7 * s, 0},
		{reading{100 * s, 50 * s, 20 * s}, reading{110 * s, 54 * s, 23 * s}, 7 * s, 0},
		{reading{}, reading{busy: 15 * s, needs: 4 * s, beside: 3 * s}, 7 * s, 0.25},
		{reading{}, reading{busy: 10 * s, needs: 4 * s}, 7 * s, 0.15},
	} {
		u := usage{took: 10 * s}
		u.charge(c.before, c.after, 3*s, 2)
		if u.cpu != c.cpu || math.Abs(u.foreign-c.foreign) > 1e-9 {
			t.Errorf("%+v to %+v is charged as %+v, want CPU %s and foreign %g", c.before, c.after, u, c.cpu, c.foreign)
		}
	}
}

// TestWatchCountsAll: the time of a busy process is that of the run that needs
// it, and of no run that has it beside it.
func TestWatchCountsAll(t *testing.T) {
	other, err := program{name: "other", argv: []string{"/bin/sh", "-c", "while :; do :; done"}}.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.stop() }()
	pids := []int{other.pid()}
	run := func(needs, beside []int) (u usage, others time.Duration) {
		before, err := cpuOf(pids)
		if err != nil {
			t.Fatal(err)
		}
		p, u, err := watch(t.Context(), program{name: "run", argv: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"}}, needs, beside)
		if err != nil || p.wait() != nil {
			t.Fatal(err)
		}
		after, err := cpuOf(pids)
		if err != nil {
			t.Fatal(err)
		}
		return u, after - before
	}
	u, others := run(pids, nil)
	if u.cpu < others/2 || u.peak == 0 || u.took <= 0 {
		t.Errorf("a run costs %+v with what it needs, which alone costs %s", u, others)
	}
	if u, _ := run(nil, pids); u.cpu > u.took+tick {
		t.Errorf("one thread costs %s in %s: what is beside it is counted", u.cpu, u.took)
	}
	if _, _, err := watch(t.Context(), program{name: "run", argv: []string{"/bin/true"}}, []int{-1}, nil); err == nil {
		t.Error("a process that the run needs and that is not there is no error")
	}
}

func TestOwnUsage(t *testing.T) {
	if _, err := cpuTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	if n := resident(os.Getpid()); n < 1<<20 {
		t.Errorf("%d bytes resident", n)
	}
	if _, err := cpuOf([]int{os.Getpid(), -1}); err == nil {
		t.Error("a process that is not there has CPU time")
	}
	if n := resident(-1); n != 0 {
		t.Errorf("a process that is not there has %d bytes", n)
	}
}
