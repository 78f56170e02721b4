package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Contender is one way to crawl the site.
type Contender struct {
	Name    string   `json:"name"`
	Command []string `json:"command"` // URL stands for the root of the site, DIR for a fresh directory
	// Differs are the settings of the command that are not the program's
	// defaults, for a person to judge whether the comparison is fair.
	Differs []string `json:"differs"`
	Workers int      `json:"workers,omitempty"` // of trawl; 0: not trawl
	Stores  bool     `json:"stores"`            // keeps every page
}

// Names that ratios refer to.
const (
	RawStores   = "raw-store"
	CollyStores = "colly-store"
)

// Contenders that this repository holds; bin is the directory of the programs.
func Contenders(bin string) []Contender {
	own := filepath.Join(bin, "contender")
	list := []Contender{
		{Name: RawStores, Command: []string{own, "-store", "DIR", "raw", "URL"}, Differs: []string{"-store: every page becomes a file"}, Stores: true},
		{Name: "raw", Command: []string{own, "raw", "URL"}},
		{Name: CollyStores, Command: []string{own, "-store", "DIR", "colly", "URL"}, Differs: []string{"-store: every page becomes a file"}, Stores: true},
		{Name: "colly", Command: []string{own, "colly", "URL"}},
	}
	for _, n := range []int{1, 2} {
		list = append(list, trawl(bin, n, "none"))
	}
	return append(list, trawl(bin, 1, "sqlite"))
}

// crawlName of trawl's crawl; the stack is fresh, so it is always the same.
const crawlName = "bench"

func trawl(bin string, workers int, sink string) Contender {
	flags := []string{"--delay", "0", "--allow-network", "127.0.0.0/8"}
	differs := []string{"--delay 0", "--allow-network 127.0.0.0/8 (the site is on this machine)", "--name and --json (for the measurement)"}
	into := "kafka"
	if sink == "none" {
		flags = append(flags, "--sink", "none")
		differs = append(differs, "--sink none (pages go to Kafka only)")
	} else {
		into += "+" + sink
	}
	command := append([]string{filepath.Join(bin, "starter"), "crawl", "URL", "--name", crawlName, "--json"}, flags...)
	return Contender{Name: "trawl-" + into + "-" + strconv.Itoa(workers) + "w", Command: command, Differs: differs, Workers: workers, Stores: true}
}

// argv is the command with its placeholders filled in.
func (c Contender) argv(root, dir string) []string {
	out := make([]string, len(c.Command))
	for i, a := range c.Command {
		switch a {
		case "URL":
			a = root
		case "DIR":
			a = dir
		}
		out[i] = a
	}
	return out
}

// measured is what a run cost, whatever the site says of it.
type measured struct {
	wall       time.Duration
	cpu        time.Duration // of all processes that the contender needs
	peakBytes  int64
	kept       int64 // pages; -1: keeps nothing
	activities int64
	history    int64 // bytes
	kafka      int64 // bytes
}

// runAlone runs a contender that is one process.
func (c Contender) runAlone(ctx context.Context, root, dir string) (m measured, err error) {
	m.kept = -1
	p, took, high, err := watch(ctx, program{name: c.Name, argv: c.argv(root, dir)}, nil)
	if err != nil {
		return m, err
	}
	m.wall, m.peakBytes = took, high
	m.cpu = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	if c.Stores {
		files, err := os.ReadDir(dir)
		if err != nil {
			return m, err
		}
		m.kept = int64(len(files))
	}
	return m, p.wait()
}

// watch starts a program and answers when it has ended: how long it took, and
// the peak of its memory together with that of others that it needs.
func watch(ctx context.Context, g program, others []*process) (p *process, took time.Duration, high int64, err error) {
	began := time.Now()
	if p, err = g.start(ctx); err != nil {
		return nil, 0, 0, err
	}
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	highest := make(chan int64)
	go func() { highest <- peak(sampling, append([]*process{p}, others...)) }()
	<-p.done
	took = time.Since(began)
	stop()
	high = <-highest
	if ctx.Err() != nil {
		err = fmt.Errorf("%s did not end in time: %w\n%s", g.name, context.Cause(ctx), p.said())
	}
	return p, took, high, err
}
