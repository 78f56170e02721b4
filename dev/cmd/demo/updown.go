package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programs that up leaves running, in the order in which down stops them.
var programs = []string{"worker", "trawl-dev"}

func (o options) pidFile(program string) string {
	return filepath.Join(o.data, program+".pid")
}

// up starts the stack, on its usual ports unless the arguments say otherwise,
// and a worker, and leaves them.
func (o options) up(ctx context.Context, args []string) error {
	if err := os.MkdirAll(o.data, 0o700); err != nil {
		return err
	}
	for _, p := range programs {
		if pid, ok := o.running(p); ok {
			return fmt.Errorf("%s is running with process id %d; \"make down\" stops it", p, pid)
		}
	}
	stack, e, err := o.startStack(ctx, o.data, args...)
	if err != nil {
		return err
	}
	if err := o.leave("trawl-dev", stack); err != nil {
		return errors.Join(err, stack.stop())
	}
	worker, err := o.startWorker(ctx, o.data, environment(e, o.data))
	if err != nil {
		return errors.Join(err, o.down(context.WithoutCancel(ctx)))
	}
	if err := o.leave("worker", worker); err != nil {
		return errors.Join(err, worker.stop(), o.down(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(o.stdout, "Running: Temporal %s, Kafka %s, one worker. Logs and data are in %s.\nWeb UI:  %s\n", e.Temporal, e.Kafka, o.data, e.UI)
	if len(args) > 0 || o.data != defaultDataDir() {
		fmt.Fprintf(o.stdout, "Type:    export TEMPORAL_ADDRESS=%s TRAWL_KAFKA_BROKERS=%s TRAWL_DATA_DIR=%s\n", e.Temporal, e.Kafka, o.data)
	}
	fmt.Fprintf(o.stdout, "Try:     %s crawl https://www.example.org --name example\nStop:    make down\n", filepath.Join(o.bin, "starter"))
	return nil
}

func (o options) leave(program string, p *process) error {
	return os.WriteFile(o.pidFile(program), []byte(strconv.Itoa(p.cmd.Process.Pid)+"\n"), 0o600)
}

// down stops what up started, the worker first: it drains while the servers
// are still there.
func (o options) down(ctx context.Context) error {
	var errs []error
	for _, program := range programs {
		errs = append(errs, o.stopLeft(ctx, program))
	}
	return errors.Join(errs...)
}

func (o options) stopLeft(ctx context.Context, program string) error {
	pid, ok := o.running(program)
	if !ok {
		fmt.Fprintf(o.stdout, "%s is not running\n", program)
		return o.forget(program)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s, process %d: %w", program, pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if _, ok := o.running(program); !ok {
			fmt.Fprintf(o.stdout, "%s is stopped\n", program)
			return o.forget(program)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s, process %d, has not ended yet: %w", program, pid, ctx.Err())
		}
	}
}

func (o options) forget(program string) error {
	if err := os.Remove(o.pidFile(program)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// running says whether the process of the pid file still runs that program. A
// process id that another program has by now is not ours.
func (o options) running(program string) (pid int, ok bool) {
	b, err := os.ReadFile(o.pidFile(program))
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return 0, false
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return 0, false
	}
	return pid, filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == program
}
