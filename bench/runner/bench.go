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
	"strings"
	"syscall"
	"time"
)

// Config of a benchmark. Zero numbers mean those of the web.
type Config struct {
	Bin       string // directory with webserver, contender, starter, worker, trawl-dev
	Peers     string // directory of the peers; empty: they do not run
	RealStack string // directory of the scripts that start real servers
	Dir       string // where runs keep their data, removed after each; empty: the system's
	Web       string // name; empty: the first
	Pages     int
	Links     int
	Size      int // bytes of a page
	Rounds    int
	Limit     time.Duration // of one run
	Only      []string      // names of contenders; empty: those of the web
	Also      []string      // names of contenders that run with those of the web
	Log       io.Writer     // a line for each run
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
	Ideal     *Ideal        `json:"ideal,omitempty"` // of polite webs only
	Heap      *Heap         `json:"heap,omitempty"`  // where it is sampled
	Foreign   float64       `json:"foreign_cpu"`     // share of the machine that others used meanwhile
	Disturbed bool          `json:"disturbed"`       // that share is too large for the run to count
	Wrong     []string      `json:"wrong,omitempty"`
}

// disturbing is the share of the machine that others may use before a run is
// marked.
const disturbing = 0.10

// StackNumbers are what a run of trawl left in Temporal and Kafka.
type StackNumbers struct {
	Activities float64 `json:"activities_per_1000_pages"`
	History    float64 `json:"history_bytes_per_page"`
	Kafka      float64 `json:"kafka_bytes_per_page"`
}

// web that is chosen, with the numbers of the configuration.
func (c Config) web() (Web, error) {
	w, err := findWeb(c.Web)
	if err != nil {
		return w, err
	}
	for _, n := range []struct {
		name string
		v    int
		into *int
	}{{"pages", c.Pages, &w.Pages}, {"links", c.Links, &w.Links}, {"size", c.Size, &w.Size}, {"rounds", c.Rounds, &w.rounds}} {
		if n.v < 0 {
			return w, fmt.Errorf("%s is %d: want a number above 0, or 0 for that of the web", n.name, n.v)
		}
		if n.v > 0 {
			*n.into = n.v
		}
	}
	if c.Limit > 0 {
		w.limit = c.Limit
	}
	return w, nil
}

// sitesOf contenders: the web that is chosen, and those of contenders that have
// one of their own, which is as large, unless it is smaller by nature.
func sitesOf(w Web, contenders []Contender) ([]Web, error) {
	var out []Web
	for _, x := range contenders {
		if slices.ContainsFunc(out, func(o Web) bool { return o.Name == x.Web }) {
			continue
		}
		if x.Web == w.Name {
			out = append(out, w)
			continue
		}
		other, err := findWeb(x.Web)
		if err != nil {
			return nil, err
		}
		if other.Name != fifty {
			other.Pages = w.Pages
		}
		out = append(out, other)
	}
	return out, nil
}

// bench is a benchmark under way.
type bench struct {
	Config
	web   Web
	sites map[string]site
	kafka *realKafka // nil: no contender needs it
}

// Measure runs every contender once a round, in an order that moves on by one
// from round to round.
func Measure(ctx context.Context, c Config) (r *Report, err error) {
	w, err := c.web()
	if err != nil {
		return nil, err
	}
	wanted := c.Only
	if len(wanted) == 0 {
		wanted = append(slices.Clone(w.runs), c.Also...)
	}
	contenders, err := choose(Contenders(c.Bin, c.Peers, w), wanted)
	if err != nil {
		return nil, err
	}
	r = &Report{
		Began: time.Now().UTC(), CPUs: runtime.NumCPU(), Go: runtime.Version(),
		Version: version(ctx, c.Bin), Load: loadBefore(), Rounds: w.rounds, Contenders: contenders,
	}
	b := &bench{Config: c, web: w, sites: map[string]site{}}
	defer func() { err = errors.Join(err, b.stop()) }()
	if r.Sites, err = b.start(ctx, contenders); err != nil {
		return nil, err
	}
	for round := range w.rounds {
		for i := range contenders {
			run, err := b.one(ctx, contenders[(i+round)%len(contenders)])
			if err != nil {
				return r, err
			}
			run.Round = round + 1
			r.Runs = append(r.Runs, run)
			fmt.Fprintf(c.Log, "round %d  %s\n", run.Round, run)
		}
	}
	return r, nil
}

// start what several runs share: the sites, and the real broker, warm.
func (b *bench) start(ctx context.Context, contenders []Contender) (all []Web, err error) {
	if all, err = sitesOf(b.web, contenders); err != nil {
		return nil, err
	}
	for _, w := range all {
		if b.sites[w.Name], err = startSite(ctx, b.Bin, w); err != nil {
			delete(b.sites, w.Name) // it does not run
			return nil, err
		}
	}
	i := slices.IndexFunc(contenders, func(x Contender) bool { return x.Real })
	if i < 0 {
		return all, nil
	}
	dir, err := os.MkdirTemp(b.Dir, "trawl-bench-kafka-")
	if err != nil {
		return nil, err
	}
	b.kafka, err = startKafka(ctx, b.RealStack, dir)
	if err != nil {
		return nil, err
	}
	return all, b.warm(ctx, contenders[i])
}

// warm lets a contender crawl until it has done so for some time, and forgets
// what it measured: a Java machine is slow at first.
func (b *bench) warm(ctx context.Context, x Contender) error {
	for left := warmTime; left > 0; {
		run, err := b.one(ctx, x)
		if err != nil {
			return err
		}
		if run.Seconds == 0 || len(run.Wrong) > 0 {
			return fmt.Errorf("%s does not warm up: %v", x.Name, run.Wrong)
		}
		left -= time.Duration(run.Seconds * float64(time.Second))
		fmt.Fprintf(b.Log, "warm-up  %s\n", run)
	}
	return nil
}

func (b *bench) stop() (err error) {
	if b.kafka != nil {
		err = errors.Join(b.kafka.stop(), os.RemoveAll(b.kafka.dir))
	}
	for _, s := range b.sites {
		err = errors.Join(err, s.stop())
	}
	return err
}

// version of the trawl that is measured.
func version(ctx context.Context, bin string) string {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "starter"), "version").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// loadBefore is the load of the machine before anything is measured.
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
func (b *bench) one(ctx context.Context, x Contender) (run Run, err error) {
	at := b.sites[x.Web]
	dir, err := os.MkdirTemp(b.Dir, "trawl-bench-")
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := at.reset(ctx); err != nil {
		return run, err
	}
	// What the one before has left to be written must not slow this one.
	syscall.Sync()
	limited, cancel := context.WithTimeout(ctx, b.web.limit)
	defer cancel()
	m, failed := b.run(limited, x, at, dir)
	if ctx.Err() != nil {
		return run, ctx.Err()
	}
	log, err := at.log(ctx)
	if err != nil {
		return run, err
	}
	run = summarize(x, m, log, failed)
	if failed != nil {
		return run, nil
	}
	return run, at.explain(ctx, &run, m)
}

func (b *bench) run(ctx context.Context, x Contender, at site, dir string) (measured, error) {
	if x.Workers == 0 {
		return x.runAlone(ctx, at, dir)
	}
	o := stackOptions{bin: b.Bin, dir: dir}
	if x.Real {
		o.kafka = b.kafka
	}
	if !at.Web.heap {
		return x.runOnStack(ctx, o, at, nil)
	}
	var samples []HeapSample
	m, err := x.runOnStack(ctx, o, at, func(ctx context.Context, s *stack, ended <-chan struct{}) (err error) {
		samples, err = sampleHeaps(ctx, s.workers, at, ended)
		return err
	})
	m.heap = samples
	return m, err
}

// explain adds what only the log of the site can tell of a run.
func (s site) explain(ctx context.Context, run *Run, m measured) (err error) {
	if s.Web.polite > 0 {
		if run.Ideal, err = s.ideal(ctx); err != nil {
			return err
		}
	}
	if len(m.heap) > 0 {
		known, err := s.known(ctx)
		if err != nil {
			return err
		}
		run.Heap = judgeHeap(m.heap, known, int64(s.Web.Pages))
	}
	return nil
}

func summarize(x Contender, m measured, l SiteLog, failed error) Run {
	r := Run{Contender: x.Name, Pages: l.Pages, Distinct: l.Distinct, Dups: l.Duplicates, Wrong: Judge(l, m.kept)}
	if failed != nil {
		r.Wrong = append(r.Wrong, failed.Error())
	}
	r.Seconds, r.PeakBytes = m.took.Seconds(), m.peak
	r.Foreign, r.Disturbed = m.foreign, m.foreign > disturbing
	n := float64(l.Distinct)
	if n == 0 || m.took <= 0 {
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
	s := fmt.Sprintf("%-22s %8.1f s  %8.0f pages/s", r.Contender, r.Seconds, r.Speed)
	if r.Disturbed {
		s += fmt.Sprintf("  DISTURBED: others used %.0f %% of the machine", 100*r.Foreign)
	}
	if len(r.Wrong) > 0 {
		s += "  WRONG: " + strings.Join(r.Wrong, "; ")
	}
	return s
}
