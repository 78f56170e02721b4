package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trawl/bench/runner"
)

func TestWrongUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"nobody":     {"-only", "nobody"},
		"unexpected": {"raw"},
		"above 0":    {"-pages", "-1"},
		"polite":     {"-web", "nowhere"},
		"for this":   {"-web", "polite", "-only", "colly-store,trawl-kafka-1w-hosts"},
		"twice":      {"-only", "raw,raw"},
		"at least 1": {"-profile", t.TempDir(), "-seconds", "0"},
		"make build": {"-bin", "/nonexistent"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("arguments %q: %v, want %q", args, err, want)
		}
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "bench.json")
	if err := write(path, &runner.Report{Rounds: 7}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), `"rounds": 7`) {
		t.Errorf("wrote %s, %v", text, err)
	}
}
