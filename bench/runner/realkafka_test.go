package runner

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scripts is a directory of scripts that start and stop nothing.
func scripts(t *testing.T, start string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"kafka.sh": start, "stop.sh": `echo stopped >"$1/stopped"`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRealKafka(t *testing.T) {
	dir := t.TempDir()
	k, err := startKafka(t.Context(), scripts(t, `echo "$1 $2 $3 $CONTROLLER_PORT" >"$2/args"; echo 4711`), dir)
	if err != nil {
		t.Fatal(err)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	f := strings.Fields(string(args))
	if err != nil || len(f) != 4 || k.address != "127.0.0.1:"+f[0] || f[1] != dir || f[2] != deletesSoon || f[3] == f[0] || k.pid != 4711 {
		t.Errorf("started with %q, %v; broker is %+v", args, err, k)
	}
	if a, b := k.nextPrefix(), k.nextPrefix(); a == b {
		t.Errorf("two runs share the prefix %s", a)
	}
	if err := k.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "stopped")); err != nil {
		t.Errorf("the broker is not stopped: %v", err)
	}
}

func TestRealKafkaThatDoesNotStart(t *testing.T) {
	for want, script := range map[string]string{"no java": "echo no java >&2; exit 1", "id of its process": "echo ready"} {
		if _, err := startKafka(t.Context(), scripts(t, script), t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// TestBytesOfOneCrawl: topics of other runs and the sparse indexes of segments
// do not count.
func TestBytesOfOneCrawl(t *testing.T) {
	k := &realKafka{dir: t.TempDir()}
	for file, size := range map[string]int{
		"bench1.a.pages-0/0.log": 100, "bench1.a.frontier-1/0.log": 20, "bench1.a.pages-0/0.index": 7000,
		"bench12.a.pages-0/0.log": 9000, "__consumer_offsets-0/0.log": 9000,
	} {
		path := filepath.Join(k.dir, "data", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := k.bytes("bench1"); err != nil || n != 120 {
		t.Errorf("%d bytes, %v; want 120", n, err)
	}
}

// TestWarmUpNeedsSuccess: a contender that fails would warm up for ever.
func TestWarmUpNeedsSuccess(t *testing.T) {
	b := &bench{Config: Config{Dir: t.TempDir(), Log: io.Discard}, web: Web{limit: time.Minute}, sites: map[string]site{"": fakeSite(t, good())}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.warm(ctx, Contender{Name: "x", Command: []string{"/bin/false"}}); err == nil || !strings.Contains(err.Error(), "does not warm up") {
		t.Errorf("error is %v", err)
	}
}
