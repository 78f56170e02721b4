package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	readyTime = 60 * time.Second
	stopTime  = 30 * time.Second
	keptLines = 40 // of a process's output, for the message when it fails
	maxLine   = 1 << 20
)

// process is a program that runs beside the benchmark. Its methods may be
// called from any goroutine.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed at its end, all output read
	err  error         // of its end; read after done

	mu    sync.Mutex
	lines []string      // the newest, of both outputs
	grown chan struct{} // closed at the next line
}

// program to start. Its environment is env and the caller's, without the
// caller's own settings of Temporal and trawl.
type program struct {
	name   string
	argv   []string
	env    []string
	stdout io.Writer // nil: among the lines, as stderr is
}

// start a program; the end of ctx stops it.
func (g program) start(ctx context.Context) (*process, error) {
	p := &process{name: g.name, done: make(chan struct{}), grown: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, g.argv[0], g.argv[1:]...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopTime
	p.cmd.Env = append(inherited(os.Environ()), g.env...)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if g.stdout != nil {
		p.cmd.Stdout = g.stdout
	}
	err = p.cmd.Start()
	_ = in.Close() // the program has its own
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s (make build build-dev): %w", g.name, err), out.Close())
	}
	go p.follow(out)
	return p, nil
}

func inherited(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "TRAWL_") && !strings.HasPrefix(kv, "TEMPORAL_") {
			out = append(out, kv)
		}
	}
	return out
}

// follow reads the output to its end, which is the end of the program.
func (p *process) follow(out *os.File) {
	s := bufio.NewScanner(out)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		p.lines = p.lines[max(0, len(p.lines)-keptLines):]
		close(p.grown)
		p.grown = make(chan struct{})
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long
	_ = out.Close()
	p.err = p.cmd.Wait()
	close(p.done)
}

func (p *process) find(word string) (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if strings.Contains(l, word) {
			return l, nil
		}
	}
	return "", p.grown
}

// said is the end of what the process has written.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// waitLine answers the first line with a word.
func (p *process) waitLine(ctx context.Context, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for {
		line, grown := p.find(word)
		if grown == nil {
			return line, nil
		}
		select {
		case <-grown:
		case <-p.done:
			if line, grown := p.find(word); grown == nil {
				return line, nil
			}
			return "", errors.Join(fmt.Errorf("%s ended before it said %q:\n%s", p.name, word, p.said()), p.err)
		case <-ctx.Done():
			return "", fmt.Errorf("%s has not said %q: %w\n%s", p.name, word, ctx.Err(), p.said())
		}
	}
}

// wait for its end; the error is that of its exit, with what it said.
func (p *process) wait() error {
	<-p.done
	if p.err != nil {
		return fmt.Errorf("%s: %w:\n%s", p.name, p.err, p.said())
	}
	return nil
}

// stop asks it to end, and kills it if it does not.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	t := time.NewTimer(stopTime)
	defer t.Stop()
	select {
	case <-p.done:
		return nil
	case <-t.C:
		err := p.cmd.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("%s did not end in %s and was killed", p.name, stopTime), err)
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }
