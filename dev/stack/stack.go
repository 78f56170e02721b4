package stack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Host is the only address that the stack listens on.
const Host = "127.0.0.1"

// Default ports, those of the programs' own documentation.
const (
	DefaultTemporalPort = 7233
	DefaultUIPort       = 8233
	DefaultKafkaPort    = 9092
)

// readyTimeout bounds the wait for servers that have started but do not answer.
const readyTimeout = 30 * time.Second

// Options of one stack.
type Options struct {
	// DataDir is created if it is not there. Required.
	DataDir string
	// Ports on 127.0.0.1; 0 takes a free one, which then differs from start
	// to start.
	TemporalPort, UIPort, KafkaPort int
}

// Endpoints that a started stack answers on.
type Endpoints struct {
	Temporal  string `json:"temporal"`  // host:port of the frontend (gRPC)
	Namespace string `json:"namespace"` // the namespace that exists
	UI        string `json:"ui"`        // URL of the Web UI
	Kafka     string `json:"kafka"`     // host:port, the only bootstrap broker
	Data      string `json:"data"`      // absolute path of the data directory
}

// Stack that is running. Close it to stop.
type Stack struct {
	endpoints Endpoints
	closers   []closer // in the order of starting
	closeOnce sync.Once
	closeErr  error
}

type closer struct {
	what string
	stop func() error
}

// Start brings the stack up and returns once a workflow can be started, the
// Web UI answers and the broker accepts. When it fails everything that it had
// started is stopped again. A failure inside the Temporal server that the
// server itself calls fatal ends the process, with a sentence on standard error.
func Start(ctx context.Context, opts Options) (_ *Stack, err error) {
	s := &Stack{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()

	dir, err := openDataDir(opts.DataDir)
	if err != nil {
		return nil, err
	}
	s.onClose("data directory", dir.close)

	ports, err := reservePorts(opts)
	if err != nil {
		return nil, err
	}
	defer ports.release()

	logs, err := openLogs(dir)
	if err != nil {
		return nil, err
	}
	s.onClose("log files", logs.close)

	// Nothing may be acknowledged before the directory says what wrote it.
	if err := prepareDatabase(dir); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	kafka, err := startBroker(dir, ports.kafka.take(), logs.kafka)
	if err != nil {
		return nil, err
	}
	s.onClose("Kafka broker", kafka.close)

	temporal, err := startTemporal(dir, ports, logs.temporal)
	if err != nil {
		return nil, err
	}
	s.onClose("Temporal server", temporal.close)

	ui := startUI(ports, temporal.address)
	s.onClose("Web UI", ui.close)

	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := temporal.awaitReady(ctx); err != nil {
		return nil, err
	}
	if err := ui.awaitReady(ctx); err != nil {
		return nil, err
	}
	s.endpoints = Endpoints{
		Temporal:  temporal.address,
		Namespace: Namespace,
		UI:        ui.url,
		Kafka:     kafka.address,
		Data:      dir.path,
	}
	return s, nil
}

// Endpoints of the running stack.
func (s *Stack) Endpoints() Endpoints { return s.endpoints }

// Close stops the servers in the reverse order of their start and gives the
// data directory free. It may be called more than once; later calls return the
// first result.
func (s *Stack) Close() error {
	s.closeOnce.Do(func() {
		var errs []error
		for i := len(s.closers) - 1; i >= 0; i-- {
			if err := s.closers[i].stop(); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", s.closers[i].what, err))
			}
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

func (s *Stack) onClose(what string, stop func() error) {
	s.closers = append(s.closers, closer{what, stop})
}
