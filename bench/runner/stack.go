package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"trawl/internal/contract"
)

// stack is a fresh embedded stack with its workers.
type stack struct {
	Temporal  string `json:"temporal"`
	Namespace string `json:"namespace"`
	Kafka     string `json:"kafka"`
	Data      string `json:"data"`

	env       []string
	processes []*process // the stack first
}

// startStack starts bin/trawl-dev on free ports and an empty directory, and
// the workers once it is ready. What was started is in the answer even if
// there is an error: stop it.
func startStack(ctx context.Context, bin, dir string, workers int) (*stack, error) {
	s := &stack{}
	file := filepath.Join(dir, "endpoints.json")
	if err := s.add(ctx, "ready", program{name: "trawl-dev", argv: []string{
		filepath.Join(bin, "trawl-dev"), "--data", filepath.Join(dir, "stack"),
		"--temporal-port", "0", "--ui-port", "0", "--kafka-port", "0", "--json-endpoints", file,
	}}); err != nil {
		return s, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, s); err != nil {
		return s, fmt.Errorf("endpoints of the stack: %w", err)
	}
	s.env = []string{
		"TEMPORAL_ADDRESS=" + s.Temporal, "TEMPORAL_NAMESPACE=" + s.Namespace,
		"TRAWL_KAFKA_BROKERS=" + s.Kafka, "TRAWL_DATA_DIR=" + filepath.Join(dir, "data"),
	}
	for range workers {
		if err := s.add(ctx, "working", program{name: "worker", argv: []string{filepath.Join(bin, "worker")}, env: s.env}); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *stack) add(ctx context.Context, ready string, g program) error {
	p, err := g.start(ctx)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	_, err = p.waitLine(ctx, ready)
	return err
}

// stop the workers, then the stack.
func (s *stack) stop() error {
	var errs []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		errs = append(errs, s.processes[i].stop())
	}
	return errors.Join(errs...)
}

func (s *stack) cpu() (sum time.Duration, err error) {
	for _, p := range s.processes {
		t, err := cpuTime(p.pid())
		if err != nil {
			return 0, fmt.Errorf("%s ended before the crawl did: %w\n%s", p.name, err, p.said())
		}
		sum += t
	}
	return sum, nil
}

// kafkaBytes is what the broker has on disk.
func (s *stack) kafkaBytes() (sum int64, err error) {
	err = filepath.WalkDir(filepath.Join(s.Data, "kafka"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return ignoreGone(err)
	})
	return sum, err
}

// ignoreGone: the broker may replace a file while we look.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// runOnStack runs trawl: a fresh stack, workers that are ready, then the
// command, which is what is measured.
func (c Contender) runOnStack(ctx context.Context, bin, root, dir string) (m measured, err error) {
	s, err := startStack(ctx, bin, dir, c.Workers)
	defer func() { err = errors.Join(err, s.stop()) }()
	if err != nil {
		return m, err
	}
	if err := c.crawl(ctx, s, root, &m); err != nil {
		return m, err
	}
	m.activities, m.history, err = histories(ctx, s)
	return m, err
}

func (c Contender) crawl(ctx context.Context, s *stack, root string, m *measured) error {
	cpu, err := s.cpu()
	if err != nil {
		return err
	}
	kafka, err := s.kafkaBytes()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	p, took, high, err := watch(ctx, program{name: c.Name, argv: c.argv(root, ""), env: s.env, stdout: &out}, s.processes)
	if err != nil {
		return err
	}
	after, err := s.cpu()
	if err != nil {
		return err
	}
	m.wall, m.peakBytes = took, high
	m.cpu = after - cpu + p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	if m.kafka, err = s.kafkaBytes(); err != nil {
		return err
	}
	m.kafka -= kafka
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
