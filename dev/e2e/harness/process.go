package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process that a test runs. Its methods may be called from any goroutine.
type Process struct {
	tb     testing.TB
	name   string
	cmd    *exec.Cmd
	stdout *output
	stderr *output
	done   chan struct{} // closed once it has ended and all its output is here
	err    error         // of Wait; read it after done
}

// StartProcess starts a program with this test's environment plus env
// ("KEY=value", the last one of a key counts). Variables of Temporal and of
// trawl come from env alone: those of the caller would lead to other servers. When the test ends the process
// is killed, and if the test has failed the end of its output is logged.
func StartProcess(tb testing.TB, name, path string, env []string, args ...string) *Process {
	tb.Helper()
	p := &Process{tb: tb, name: name, stdout: newOutput(), stderr: newOutput(), done: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append(inherited(os.Environ()), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		p.stdout.finish()
		p.stderr.finish()
		close(p.done)
	}()
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("%s (process %d, %v) said:\n%s\n%s", name, p.PID(), p.cmd.ProcessState,
				tail(p.Stdout()), tail(p.Stderr()))
		}
	})
	return p
}

// inherited is the part of an environment that programs may see.
func inherited(environ []string) []string {
	return slices.DeleteFunc(environ, func(kv string) bool {
		return strings.HasPrefix(kv, "TRAWL_") || strings.HasPrefix(kv, "TEMPORAL_")
	})
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stdout that it has written so far.
func (p *Process) Stdout() string { return p.stdout.String() }

// Stderr that it has written so far.
func (p *Process) Stderr() string { return p.stderr.String() }

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal; a process that has ended already is no error.
func (p *Process) Signal(sig os.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Errorf("signal %s: %v", p.name, err)
	}
}

// Kill ends it at once (kill -9) and waits until it is gone.
func (p *Process) Kill() {
	p.tb.Helper()
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks it to end (SIGTERM) and returns its exit code. One that has not
// ended in time is killed and fails the test.
func (p *Process) Stop(timeout time.Duration) int {
	p.tb.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait(timeout)
}

// Wait for its end and return its exit code, -1 if a signal ended it. One that
// has not ended in time is killed and fails the test.
func (p *Process) Wait(timeout time.Duration) int {
	p.tb.Helper()
	select {
	case <-p.done:
	case <-time.After(timeout):
		p.Kill()
		p.tb.Errorf("%s did not end in %s", p.name, timeout)
	}
	return p.cmd.ProcessState.ExitCode()
}

// WaitStdout waits for a line on standard output that contains text and returns
// it. The test fails if the process ends before or the time is over.
func (p *Process) WaitStdout(text string, timeout time.Duration) string {
	p.tb.Helper()
	return p.waitLine(p.stdout, "a line with "+text, timeout, contains(text))
}

// WaitStderr is WaitStdout for standard error.
func (p *Process) WaitStderr(text string, timeout time.Duration) string {
	p.tb.Helper()
	return p.waitLine(p.stderr, "a line with "+text, timeout, contains(text))
}

func contains(text string) func(string) bool {
	return func(line string) bool { return strings.Contains(line, text) }
}

func (p *Process) waitLine(o *output, what string, timeout time.Duration, match func(string) bool) string {
	p.tb.Helper()
	over := time.After(timeout)
	for {
		line, found, grown := o.find(match)
		if found {
			return line
		}
		if grown == nil {
			p.tb.Fatalf("%s ended (%v) without %s", p.name, p.cmd.ProcessState, what)
		}
		select {
		case <-grown:
		case <-over:
			p.tb.Fatalf("%s had not written %s after %s", p.name, what, timeout)
		}
	}
}

// Result of a program that ran to its end.
type Result struct {
	Code           int // exit code, -1 if a signal ended it
	Stdout, Stderr string
}

// String shows all of it, for messages of failed tests.
func (r Result) String() string {
	return fmt.Sprintf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.Code, r.Stdout, r.Stderr)
}

// RunProcess runs a program to its end, as StartProcess and Wait do.
func RunProcess(tb testing.TB, name, path string, env []string, timeout time.Duration, args ...string) Result {
	tb.Helper()
	p := StartProcess(tb, name, path, env, args...)
	code := p.Wait(timeout)
	return Result{Code: code, Stdout: p.Stdout(), Stderr: p.Stderr()}
}

// tail of an output, for a log.
func tail(text string) string {
	const most = 16 << 10
	if len(text) <= most {
		return text
	}
	return "[...]" + text[len(text)-most:]
}
