package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// stackOptions say what a stack is made of.
type stackOptions struct {
	bin, dir string
	kafka    *realKafka // nil: the embedded broker
}

// stack is a fresh embedded stack with its workers.
type stack struct {
	Temporal  string `json:"temporal"`
	Namespace string `json:"namespace"`
	Kafka     string `json:"kafka"`
	Data      string `json:"data"`

	bin       string
	env       []string
	processes []*process // the stack first
	workers   []string   // URLs of the workers' health
	real      *realKafka
	prefix    string // of the topics; empty: the program's default
}

// startStack starts bin/trawl-dev on free ports and an empty directory, and
// the workers once it is ready. What was started is in the answer even if
// there is an error: stop it.
func startStack(ctx context.Context, o stackOptions, workers int) (*stack, error) {
	s := &stack{bin: o.bin, real: o.kafka}
	file := filepath.Join(o.dir, "endpoints.json")
	if _, err := s.add(ctx, "ready", program{name: "trawl-dev", argv: []string{
		filepath.Join(o.bin, "trawl-dev"), "--data", filepath.Join(o.dir, "stack"),
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
	if s.real != nil {
		s.Kafka, s.prefix = s.real.address, s.real.nextPrefix()
	}
	s.env = []string{
		"TEMPORAL_ADDRESS=" + s.Temporal, "TEMPORAL_NAMESPACE=" + s.Namespace,
		"TRAWL_KAFKA_BROKERS=" + s.Kafka, "TRAWL_DATA_DIR=" + filepath.Join(o.dir, "data"),
	}
	if s.prefix != "" {
		s.env = append(s.env, "TRAWL_TOPIC_PREFIX="+s.prefix)
	}
	for range workers {
		if err := s.addWorker(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// healthURL in a line of the worker's log, whatever its format.
var healthURL = regexp.MustCompile(`http://[0-9.]+:[0-9]+`)

func (s *stack) addWorker(ctx context.Context) error {
	p, err := s.add(ctx, "working", program{name: "worker", argv: []string{filepath.Join(s.bin, "worker")}, env: s.env})
	if err != nil {
		return err
	}
	line, err := p.waitLine(ctx, "health and metrics")
	if err != nil {
		return err
	}
	url := healthURL.FindString(line)
	if url == "" {
		return fmt.Errorf("the worker says %q: want the URL of its health", line)
	}
	s.workers = append(s.workers, url)
	return nil
}

func (s *stack) add(ctx context.Context, ready string, g program) (*process, error) {
	p, err := g.start(ctx)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, p)
	_, err = p.waitLine(ctx, ready)
	return p, err
}

// stop the workers, then the stack.
func (s *stack) stop() error {
	var errs []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		errs = append(errs, s.processes[i].stop())
	}
	return errors.Join(errs...)
}

// pids of all that a crawl needs besides the starter.
func (s *stack) pids() []int {
	var all []int
	for _, p := range s.processes {
		all = append(all, p.pid())
	}
	if s.real != nil {
		all = append(all, s.real.pid)
	}
	return all
}

// kafkaBytes is what the broker has on disk of this crawl.
func (s *stack) kafkaBytes() (int64, error) {
	if s.real != nil {
		return s.real.bytes(s.prefix)
	}
	return diskBytes(filepath.Join(s.Data, "kafka"), func(string) bool { return true })
}

// tidy deletes the topics of a broker that lives on.
func (s *stack) tidy(ctx context.Context) error {
	if s.real == nil {
		return nil
	}
	p, err := program{name: "starter delete", argv: []string{filepath.Join(s.bin, "starter"), "delete", crawlName, "--yes"}, env: s.env}.start(ctx)
	if err != nil {
		return err
	}
	return p.wait()
}

// diskBytes sums the sizes of the files below a directory that count.
func diskBytes(root string, counts func(path string) bool) (sum int64, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !counts(path) {
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
