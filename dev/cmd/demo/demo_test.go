package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"trawl/dev/samplesite"
)

func TestDiffers(t *testing.T) {
	fetched := samplesite.Expectation{Kind: samplesite.Fetched, Status: 200}
	refused := samplesite.Expectation{Kind: samplesite.Refused, Reason: "robots"}
	unknown := samplesite.Expectation{Kind: samplesite.Unknown}
	for _, c := range []struct {
		answer string
		want   samplesite.Expectation
		same   bool
	}{
		{`{"known":true,"facts":[{"kind":"found","fact":{"Depth":1}},{"kind":"fetched","fact":{"Status":200}}]}`, fetched, true},
		{`{"known":true,"facts":[{"kind":"fetched","fact":{"Status":404}}]}`, fetched, false},
		{`{"known":true,"facts":[{"kind":"found","fact":{}}]}`, fetched, false},
		{`{"known":false}`, fetched, false},
		{`{"known":true,"facts":[{"kind":"fetched","fact":{"Refusal":"robots"}}]}`, refused, true},
		{`{"known":true,"facts":[{"kind":"fetched","fact":{"Refusal":"type"}}]}`, refused, false},
		{`{"known":false}`, unknown, true},
		{`{"known":true,"facts":[{"kind":"fetched","fact":{"Status":200}}]}`, unknown, false},
	} {
		var got shown
		if err := json.Unmarshal([]byte(c.answer), &got); err != nil {
			t.Fatal(err)
		}
		if d := got.differs(c.want); (d == "") != c.same {
			t.Errorf("%s against %+v: %q, want same %v", c.answer, c.want, d, c.same)
		}
	}
}

func TestUsage(t *testing.T) {
	var stderr bytes.Buffer
	if err := run(t.Context(), []string{"sideways"}, &stderr, &stderr); !errors.Is(err, errUsage) || !strings.Contains(stderr.String(), "sideways") {
		t.Errorf("run = %v, %q", err, stderr.String())
	}
}

func TestMissingProgramNamesTheRemedy(t *testing.T) {
	err := run(t.Context(), []string{"-bin", t.TempDir(), "-data", t.TempDir(), "up"}, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("run = %v", err)
	}
}

// TestDownStopsOnlyItsOwn: a pid file that names a process of another program
// must not stop that.
func TestDownStopsOnlyItsOwn(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	worker := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(worker, b, 0o700); err != nil {
		t.Fatal(err)
	}
	o := options{data: t.TempDir(), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	ours, err := start("worker", worker, filepath.Join(o.data, "log"), nil, "100")
	if err != nil {
		t.Fatal(err)
	}
	other, err := start("sleep", sleep, filepath.Join(o.data, "log"), nil, "100")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.stop() }()
	if err := o.leave("worker", ours); err != nil {
		t.Fatal(err)
	}
	if err := o.leave("trawl-dev", other); err != nil {
		t.Fatal(err)
	}
	if pid, ok := o.running("worker"); !ok || strconv.Itoa(pid) == "" {
		t.Errorf("running = %d, %v", pid, ok)
	}
	if err := o.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ours.done
	select {
	case <-other.done:
		t.Error("a process of another program was stopped")
	default:
	}
	if left, _ := filepath.Glob(filepath.Join(o.data, "*.pid")); len(left) != 0 {
		t.Errorf("pid files are left: %v", left)
	}
}
