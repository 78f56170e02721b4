package runner

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	ticks      = 100 // per second: USER_HZ, the same on every Linux that Go runs on
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

// parseStat reads the fields 14 and 15 of /proc/PID/stat. The name, field 2,
// is in parentheses and may hold anything.
func parseStat(text string) (time.Duration, error) {
	_, rest, ok := cutLast(text, ")")
	f := strings.Fields(rest)
	if !ok || len(f) < 13 {
		return 0, fmt.Errorf("stat of a process is %q: want fields after the name", text)
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("user time: %w", err)
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("system time: %w", err)
	}
	return time.Duration(user+system) * (time.Second / ticks), nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
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
func peak(ctx context.Context, processes []*process) int64 {
	tick := time.NewTicker(sampleTime)
	defer tick.Stop()
	var highest int64
	for {
		var now int64
		for _, p := range processes {
			now += resident(p.pid())
		}
		highest = max(highest, now)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return highest
		}
	}
}
