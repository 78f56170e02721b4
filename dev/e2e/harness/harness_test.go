package harness

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

const shell = "/bin/sh"

func TestRunProcessReportsCodeAndOutput(t *testing.T) {
	r := RunProcess(t, "sh", shell, []string{"WORD=hello"}, time.Minute, "-c", `echo "$WORD"; echo oops >&2; exit 3`)
	if r.Code != 3 || r.Stdout != "hello\n" || r.Stderr != "oops\n" {
		t.Errorf("got %v", r)
	}
}

func TestServersOfTheCallerAreNotInherited(t *testing.T) {
	t.Setenv("TRAWL_KAFKA_BROKERS", "192.0.2.1:9092")
	t.Setenv("TEMPORAL_ADDRESS", "192.0.2.1:7233")
	t.Setenv("OTHER", "kept")
	r := RunProcess(t, "sh", shell, []string{"TRAWL_LOG=debug"}, time.Minute,
		"-c", `echo "${TRAWL_KAFKA_BROKERS-none} ${TEMPORAL_ADDRESS-none} $OTHER $TRAWL_LOG"`)
	if want := "none none kept debug\n"; r.Stdout != want {
		t.Errorf("got %q, want %q", r.Stdout, want)
	}
}

func TestWaitStdoutSeesLinesAsTheyCome(t *testing.T) {
	p := StartProcess(t, "sh", shell, nil, "-c", `echo one; echo two words; exec cat`)
	if got := p.WaitStdout("words", time.Minute); got != "two words" {
		t.Errorf("line %q, want %q", got, "two words")
	}
	if got := p.WaitStdout("one", time.Minute); got != "one" {
		t.Errorf("an earlier line: got %q", got)
	}
}

func TestStopAndKill(t *testing.T) {
	trap := StartProcess(t, "sh", shell, nil, "-c", `trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done`)
	trap.WaitStdout("up", time.Minute)
	if code := trap.Stop(time.Minute); code != 7 {
		t.Errorf("exit code after SIGTERM: %d, want 7", code)
	}
	p := StartProcess(t, "sh", shell, nil, "-c", `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	p.WaitStdout("up", time.Minute)
	p.Kill()
	if code := p.Wait(time.Minute); code != -1 {
		t.Errorf("exit code after kill -9: %d, want -1", code)
	}
	p.Kill() // a process that has ended: no error, no wait
}

func TestOutputIsBounded(t *testing.T) {
	o := newOutput()
	line := strings.Repeat("x", 1<<16-1) + "\n"
	for range 2 * maxOutput / len(line) {
		if _, err := o.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.buf.Len(); got != maxOutput {
		t.Errorf("%d bytes kept, want %d", got, maxOutput)
	}
	if !strings.HasPrefix(o.String(), "[") {
		t.Error("the output does not say that something was dropped")
	}
}

func TestIncompleteLineCountsOnlyAtTheEnd(t *testing.T) {
	o := newOutput()
	_, _ = o.Write([]byte("rea"))
	isReady := func(line string) bool { return line == "ready" }
	_, found, grown := o.find(isReady)
	if found || grown == nil {
		t.Fatal("found a line that is not there yet")
	}
	_, _ = o.Write([]byte("dy"))
	if _, found, _ := o.find(isReady); found {
		t.Error("took an incomplete line for a complete one")
	}
	o.finish()
	if _, found, _ := o.find(isReady); !found {
		t.Error("did not find the last line of a process that ended without a newline")
	}
}
