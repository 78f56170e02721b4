package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	ticks      = 100 // per second: USER_HZ, the same on every Linux that Go runs on
	tick       = time.Second / ticks
	sampleTime = 100 * time.Millisecond
)

// cpuTime of a process since it began, user and system.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// cpuOf sums over processes, which must be running.
func cpuOf(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		t, err := cpuTime(pid)
		if err != nil {
			return 0, fmt.Errorf("process %d has ended: %w", pid, err)
		}
		sum += t
	}
	return sum, nil
}

// parseStat reads the fields 14 and 15 of /proc/PID/stat. The name, field 2,
// is in parentheses and may hold anything.
func parseStat(text string) (time.Duration, error) {
	_, rest, ok := cutLast(text, ")")
	f := strings.Fields(rest)
	if !ok || len(f) < 13 {
		return 0, fmt.Errorf("stat of a process is %q: want fields after the name", text)
	}
	sum, err := sumTicks(f[11:13])
	if err != nil {
		return 0, fmt.Errorf("user and system time: %w", err)
	}
	return sum, nil
}

func sumTicks(fields []string) (sum time.Duration, err error) {
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// machineBusy is the time that all processors together have spent on
// processes since the machine began, or that its host took from it. Interrupts
// are left out: no process is charged with them.
func machineBusy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseMachine(string(text))
}

// parseMachine reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal.
func parseMachine(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q: want cpu and eight numbers", line)
	}
	busy, err := sumTicks([]string{f[1], f[2], f[3], f[8]})
	if err != nil {
		return 0, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
	}
	return busy, nil
}

// foreign is the share of the machine that others than the measured used: busy
// is what all processors were, own what the processes of the run were.
func foreign(busy, own, took time.Duration, cpus int) float64 {
	if took <= 0 || cpus < 1 {
		return 0
	}
	return max(float64(busy-own)/float64(took)/float64(cpus), 0)
}

// resident memory of a process in bytes; 0 once it has ended.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// peak samples the sum of the resident memory of processes until ctx ends.
func peak(ctx context.Context, pids []int) int64 {
	every := time.NewTicker(sampleTime)
	defer every.Stop()
	var highest int64
	for {
		var now int64
		for _, pid := range pids {
			now += resident(pid)
		}
		highest = max(highest, now)
		select {
		case <-every.C:
		case <-ctx.Done():
			return highest
		}
	}
}

// usage is what a run cost.
type usage struct {
	took    time.Duration
	cpu     time.Duration // of the program and of all that it needs
	peak    int64         // bytes, of the same
	foreign float64       // share of the machine that others used
}

// watch starts a program and answers when it has ended: what it cost together
// with the processes that it needs. Those beside belong to the run, but their
// cost is not the contender's.
func watch(ctx context.Context, g program, needs, beside []int) (p *process, u usage, err error) {
	beside = append([]int{os.Getpid()}, beside...)
	before, err := readings(needs, beside)
	if err != nil {
		return nil, u, err
	}
	began := time.Now()
	if p, err = g.start(ctx); err != nil {
		return nil, u, err
	}
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	highest := make(chan int64)
	go func() { highest <- peak(sampling, append([]int{p.pid()}, needs...)) }()
	<-p.done
	u.took = time.Since(began)
	after, err := readings(needs, beside)
	stop()
	u.peak = <-highest
	if ctx.Err() != nil {
		return p, u, fmt.Errorf("%s did not end in time: %w\n%s", g.name, context.Cause(ctx), p.said())
	}
	if err != nil {
		return p, u, errors.Join(err, p.wait())
	}
	u.charge(before, after, p.cmd.ProcessState.UserTime()+p.cmd.ProcessState.SystemTime(), runtime.NumCPU())
	return p, u, nil
}

// charge what the clocks say to the run and to others; own is the time of the
// program itself.
func (u *usage) charge(before, after reading, own time.Duration, cpus int) {
	u.cpu = after.needs - before.needs + own
	u.foreign = foreign(after.busy-before.busy, u.cpu+after.beside-before.beside, u.took, cpus)
}

// reading of all clocks that count processor time.
type reading struct{ busy, needs, beside time.Duration }

func readings(needs, beside []int) (r reading, err error) {
	if r.needs, err = cpuOf(needs); err != nil {
		return r, err
	}
	if r.beside, err = cpuOf(beside); err != nil {
		return r, err
	}
	r.busy, err = machineBusy()
	return r, err
}
