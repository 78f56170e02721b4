package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"trawl/internal/contract"
)

// measured is what a run cost, whatever the site says of it.
type measured struct {
	usage
	kept       int64 // pages; -1: keeps nothing
	activities int64
	history    int64 // bytes
	kafka      int64 // bytes
	heap       []HeapSample
}

// runAlone runs a contender that is one process.
func (c Contender) runAlone(ctx context.Context, at site, dir string) (m measured, err error) {
	m.kept = -1
	here := place{root: at.Root, dir: dir}
	p, u, err := watch(ctx, program{name: c.Name, argv: here.fill(c.Command), env: here.fill(c.Env)}, nil, at.pids())
	m.usage = u
	if err != nil {
		return m, err
	}
	if c.Stores {
		files, err := os.ReadDir(dir)
		if err != nil {
			return m, err
		}
		m.kept = int64(len(files))
	}
	return m, p.wait()
}

// beside does something while a crawl runs on a stack, and answers soon after
// ended is closed.
type beside func(ctx context.Context, s *stack, ended <-chan struct{}) error

// runOnStack runs trawl: a fresh stack, workers that are ready, then the
// command, which is what is measured.
func (c Contender) runOnStack(ctx context.Context, o stackOptions, at site, do beside) (m measured, err error) {
	s, err := startStack(ctx, o, c.Workers)
	defer func() { err = errors.Join(err, s.stop()) }()
	if err != nil {
		return m, err
	}
	here := place{root: at.Root, dir: o.dir, spec: filepath.Join(o.dir, "spec.yaml")}
	if err := at.writeSpec(ctx, here.spec); err != nil {
		return m, err
	}
	if do == nil {
		do = func(context.Context, *stack, <-chan struct{}) error { return nil }
	}
	ended, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- do(ctx, s, ended) }()
	err = c.crawl(ctx, s, here, at, &m)
	close(ended)
	if err = errors.Join(err, <-done); err != nil {
		return m, err
	}
	if m.activities, m.history, err = histories(ctx, s); err != nil {
		return m, err
	}
	return m, s.tidy(ctx)
}

func (c Contender) crawl(ctx context.Context, s *stack, here place, at site, m *measured) error {
	before, err := s.kafkaBytes()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	p, u, err := watch(ctx, program{name: c.Name, argv: here.fill(c.Command), env: s.env, stdout: &out}, s.pids(), at.pids())
	m.usage = u
	if err != nil {
		return err
	}
	after, err := s.kafkaBytes()
	if err != nil {
		return err
	}
	m.kafka = after - before
	if m.kept, err = keptBy(out.Bytes()); err != nil {
		return errors.Join(err, p.wait())
	}
	return p.wait()
}

// keptBy reads from the summary how many pages the crawl has fetched, which are
// those that it has on its log.
func keptBy(summary []byte) (int64, error) {
	var s contract.Summary
	if err := json.Unmarshal(summary, &s); err != nil {
		return 0, fmt.Errorf("summary of the crawl: %w in %q", err, summary)
	}
	return s.Totals.Fetched, nil
}
