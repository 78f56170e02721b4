package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	readyTime = 60 * time.Second // for a server to be ready
	stopTime  = 90 * time.Second // for a worker to drain
	pollEvery = 50 * time.Millisecond
)

// endpoints is what trawl-dev writes once all is ready.
type endpoints struct {
	Temporal  string `json:"temporal"`
	Namespace string `json:"namespace"`
	UI        string `json:"ui"`
	Kafka     string `json:"kafka"`
}

// environment of worker and starter on these endpoints: nothing of the
// caller's that would send them elsewhere.
func environment(e endpoints, dataDir string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TRAWL_") && !strings.HasPrefix(kv, "TEMPORAL_") {
			env = append(env, kv)
		}
	}
	return append(env,
		"TEMPORAL_ADDRESS="+e.Temporal, "TEMPORAL_NAMESPACE="+e.Namespace,
		"TRAWL_KAFKA_BROKERS="+e.Kafka, "TRAWL_DATA_DIR="+dataDir)
}

// process is a program that was started, with its output in a file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs a program in a session of its own, so that Ctrl-C in the terminal
// reaches only us and we stop it in order.
func start(name, path, log string, env []string, args ...string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("there is no %s: build it with \"make build build-dev\"", path)
		}
		return nil, err
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop ends the process in order, or at once when that takes too long.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	t := time.NewTimer(stopTime)
	defer t.Stop()
	select {
	case <-p.done:
		return nil
	case <-t.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end in %v and was killed; its log is %s", p.name, stopTime, p.log)
	}
}

// wait until ready says so, the process ends, or time is up.
func (p *process) wait(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready:\n%s", p.name, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w):\n%s", p.name, ctx.Err(), tail(p.log))
		}
	}
	return nil
}

// tail is the end of a log.
func tail(log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4096):])
}

// startStack starts trawl-dev and waits for its endpoints.
func (o options) startStack(ctx context.Context, dir string, args ...string) (*process, endpoints, error) {
	var e endpoints
	file := filepath.Join(dir, "endpoints.json")
	args = append(args, "-data", filepath.Join(dir, "dev"), "-json-endpoints", file)
	p, err := start("the stack", filepath.Join(o.bin, "trawl-dev"), filepath.Join(dir, "trawl-dev.log"), os.Environ(), args...)
	if err != nil {
		return nil, e, err
	}
	err = p.wait(ctx, func() bool {
		b, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(b, &e) == nil
	})
	if err != nil {
		return nil, e, errors.Join(err, p.stop())
	}
	return p, e, nil
}

// startWorker starts a worker and waits until it says that it is ready.
func (o options) startWorker(ctx context.Context, dir string, env []string) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	env = append(env, "TRAWL_HTTP_ADDR="+addr)
	p, err := start("the worker", filepath.Join(o.bin, "worker"), filepath.Join(dir, "worker.log"), env)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Second}
	err = p.wait(ctx, func() bool {
		res, err := client.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		return res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
