package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"trawl/bench/web"
)

func TestServesAndReports(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"-hosts", "2", "-pages", "5"}, pw, io.Discard) }()
	line, err := bufio.NewReader(pr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var at struct{ Root, Control string }
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	fetch(t, at.Root)
	var stats web.Stats
	if err := json.Unmarshal(fetch(t, at.Control+"/__log"), &stats); err != nil || stats.Requests != 1 || stats.Status[200] != 1 {
		t.Errorf("stats are %+v, %v", stats, err)
	}
	if lines := strings.Count(string(fetch(t, at.Control+"/__log/entries")), "\n"); lines != 1 {
		t.Errorf("%d entries, want 1", lines)
	}
	var r reachAnswer
	if err := json.Unmarshal(fetch(t, at.Control+"/__reach"), &r); err != nil || r.Requested != 10 || len(r.Missing) != 9 || len(r.Extra) != 0 {
		t.Errorf("reach is %+v, %v", r, err)
	}
	var hosts []string
	if err := json.Unmarshal(fetch(t, at.Control+"/__hosts"), &hosts); err != nil || len(hosts) != 2 || !strings.Contains(at.Root, hosts[0]) {
		t.Errorf("hosts are %v, %v", hosts, err)
	}
	var progress []web.Progress
	if err := json.Unmarshal(fetch(t, at.Control+"/__progress?points=9"), &progress); err != nil || len(progress) != 1 || progress[0].Pages != 1 || progress[0].Known < 2 {
		t.Errorf("progress is %+v, %v", progress, err)
	}
	var ideal web.Ideal
	if err := json.Unmarshal(fetch(t, at.Control+"/__ideal?delay=1s"), &ideal); err != nil || ideal.Requests != 1 || ideal.Possible < 1 {
		t.Errorf("ideal is %+v, %v", ideal, err)
	}
	for _, wrong := range []string{"/__progress?points=0", "/__ideal?delay=soon", "/__reach?depth=x"} {
		if text := fetch(t, at.Control+wrong); !strings.Contains(string(text), "want") {
			t.Errorf("%s answers %q", wrong, text)
		}
	}
	res, err := http.Post(at.Control+"/__log/reset", "", nil)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Errorf("reset: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func fetch(t *testing.T, url string) []byte {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRefusesTwoLatencies(t *testing.T) {
	err := run(t.Context(), []string{"-latency", "1s", "-heavy-tail"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "one of them") {
		t.Errorf("run = %v", err)
	}
}

func TestRefusesControlOffLoopback(t *testing.T) {
	err := run(t.Context(), []string{"-control", "0.0.0.0:0"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("run = %v", err)
	}
}
