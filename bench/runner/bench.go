package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config of a benchmark.
type Config struct {
	Bin    string // directory with webserver, contender, starter, worker, trawl-dev
	Dir    string // where runs keep their data, removed after each; empty: the system's
	Pages  int
	Links  int
	Size   int // bytes of a page
	Rounds int
	Limit  time.Duration // of one run
	Only   []string      // names of contenders; empty: all
	Log    io.Writer     // a line for each run
}

// Run is one contender in one round.
type Run struct {
	Contender string        `json:"contender"`
	Round     int           `json:"round"`
	Seconds   float64       `json:"seconds"` // from the start of its command to its end
	Speed     float64       `json:"pages_per_second"`
	Pages     int64         `json:"pages"`
	Distinct  int64         `json:"distinct"`
	Dups      int64         `json:"duplicates"`
	CPU       float64       `json:"cpu_seconds_per_1000_pages"`
	PeakBytes int64         `json:"peak_bytes"`
	Stack     *StackNumbers `json:"stack,omitempty"` // of trawl only
	Wrong     []string      `json:"wrong,omitempty"`
}

// StackNumbers are what a run of trawl left in Temporal and Kafka.
type StackNumbers struct {
	Activities float64 `json:"activities_per_1000_pages"`
	History    float64 `json:"history_bytes_per_page"`
	Kafka      float64 `json:"kafka_bytes_per_page"`
}

// choose the contenders to run.
func (c Config) choose() ([]Contender, error) {
	all := Contenders(c.Bin)
	if len(c.Only) == 0 {
		return all, nil
	}
	var out []Contender
	for _, name := range c.Only {
		i := slices.IndexFunc(all, func(x Contender) bool { return x.Name == name })
		if i < 0 {
			names := make([]string, len(all))
			for j, x := range all {
				names[j] = x.Name
			}
			return nil, fmt.Errorf("there is no contender %q: want some of %s", name, strings.Join(names, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func (c Config) check() error {
	if c.Pages < 1 || c.Rounds < 1 || c.Links < 1 || c.Size < 1 || c.Limit <= 0 {
		return fmt.Errorf("pages %d, links %d, size %d, rounds %d, limit %s: want all above 0", c.Pages, c.Links, c.Size, c.Rounds, c.Limit)
	}
	return nil
}

// Measure runs every contender once a round, in an order that moves on by one
// from round to round.
func Measure(ctx context.Context, c Config) (r *Report, err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	contenders, err := c.choose()
	if err != nil {
		return nil, err
	}
	command := []string{
		filepath.Join(c.Bin, "webserver"), "-hosts", "1", "-pages", strconv.Itoa(c.Pages),
		"-links", strconv.Itoa(c.Links), "-size", strconv.Itoa(c.Size),
	}
	server, at, err := startSite(ctx, command)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	r = &Report{
		Began: time.Now().UTC(), CPUs: runtime.NumCPU(), Go: runtime.Version(),
		Version: version(ctx, c.Bin), Load: loadBefore(),
		Site: command, Rounds: c.Rounds, Contenders: contenders,
	}
	for round := range c.Rounds {
		for i := range contenders {
			run, err := c.one(ctx, contenders[(i+round)%len(contenders)], at)
			if err != nil {
				return r, err
			}
			run.Round = round + 1
			r.Runs = append(r.Runs, run)
			fmt.Fprintln(c.Log, run)
		}
	}
	return r, nil
}

// version of the trawl that is measured.
func version(ctx context.Context, bin string) string {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "starter"), "version").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// loadBefore is the load of the machine before anything is measured: a table
// from a busy machine can be told from others.
func loadBefore() string {
	text, err := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(text))
	if err != nil || len(f) < 3 {
		return "unknown"
	}
	return strings.Join(f[:3], " ")
}

// one run: a contender that fails is wrong, and the benchmark goes on; only
// what concerns the site or ourselves is an error.
func (c Config) one(ctx context.Context, x Contender, at site) (run Run, err error) {
	dir, err := os.MkdirTemp(c.Dir, "trawl-bench-")
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := at.reset(ctx); err != nil {
		return run, err
	}
	// What the one before has left to be written must not slow this one.
	syscall.Sync()
	limited, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	m, failed := c.run(limited, x, at.Root, dir)
	if ctx.Err() != nil {
		return run, ctx.Err()
	}
	log, err := at.log(ctx)
	if err != nil {
		return run, err
	}
	return summarize(x, m, log, failed), nil
}

func (c Config) run(ctx context.Context, x Contender, root, dir string) (measured, error) {
	if x.Workers > 0 {
		return x.runOnStack(ctx, c.Bin, root, dir)
	}
	return x.runAlone(ctx, root, dir)
}

func summarize(x Contender, m measured, l SiteLog, failed error) Run {
	r := Run{Contender: x.Name, Pages: l.Pages, Distinct: l.Distinct, Dups: l.Duplicates, Wrong: Judge(l, m.kept)}
	if failed != nil {
		r.Wrong = append(r.Wrong, failed.Error())
	}
	r.Seconds, r.PeakBytes = m.wall.Seconds(), m.peakBytes
	n := float64(l.Distinct)
	if n == 0 || m.wall <= 0 {
		return r
	}
	r.Speed = n / r.Seconds
	r.CPU = m.cpu.Seconds() / n * 1000
	if x.Workers > 0 {
		r.Stack = &StackNumbers{Activities: float64(m.activities) / n * 1000, History: float64(m.history) / n, Kafka: float64(m.kafka) / n}
	}
	return r
}

// String is a line about the run.
func (r Run) String() string {
	s := fmt.Sprintf("round %d  %-22s %8.1f s  %8.0f pages/s", r.Round, r.Contender, r.Seconds, r.Speed)
	if len(r.Wrong) > 0 {
		s += "  WRONG: " + strings.Join(r.Wrong, "; ")
	}
	return s
}
