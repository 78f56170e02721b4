package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"trawl/dev/stack"
)

func TestParse(t *testing.T) {
	t.Setenv("TRAWL_DATA_DIR", filepath.Join("some", "where"))
	tests := []struct {
		name string
		args []string
		want command
		err  error
	}{
		{
			name: "defaults",
			want: command{stack: stack.Options{
				DataDir:      filepath.Join("some", "where", "dev"),
				TemporalPort: 7233, UIPort: 8233, KafkaPort: 9092,
			}},
		},
		{
			name: "all given",
			args: []string{"--data", "d", "--temporal-port", "1", "--ui-port", "2", "--kafka-port=0", "--json-endpoints", "e.json"},
			want: command{stack: stack.Options{DataDir: "d", TemporalPort: 1, UIPort: 2}, endpoints: "e.json"},
		},
		{name: "not a number", args: []string{"--ui-port", "http"}, err: errUsage},
		{name: "unknown flag", args: []string{"--port", "1"}, err: errUsage},
		{name: "argument", args: []string{"--data", "d", "up"}, err: errUsage},
		{name: "help", args: []string{"--help"}, err: errUsage},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			got, err := parse(test.args, &stderr)
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if test.err == nil && got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if test.err != nil && stderr.Len() == 0 {
				t.Error("nothing on stderr says what is wrong")
			}
		})
	}
}

func TestDefaultDataDir(t *testing.T) {
	t.Setenv("TRAWL_DATA_DIR", "")
	t.Setenv("HOME", "/home/somebody")
	if got, want := defaultDataDir(), "/home/somebody/.local/share/trawl/dev"; got != want {
		t.Errorf("with a home: %s, want %s", got, want)
	}
	t.Setenv("HOME", "")
	if got, want := defaultDataDir(), filepath.Join(".trawl", "dev"); got != want {
		t.Errorf("without a home: %s, want %s", got, want)
	}
}

func TestVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), stack.TemporalVersion) || !strings.Contains(stdout.String(), stack.BrokerVersion) {
		t.Errorf("printed %q", stdout.String())
	}
}
