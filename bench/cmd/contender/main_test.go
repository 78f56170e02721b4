package main

import (
	"io"
	"strings"
	"testing"

	"trawl/bench/web"
)

func TestRun(t *testing.T) {
	w, err := web.New(web.Config{Seed: 1, Hosts: 1, PagesPerHost: 20, Links: 4, Size: 1000})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	if err := run(t.Context(), []string{"-store", t.TempDir(), "raw", s.Root()}, &out, io.Discard); err != nil || !strings.Contains(out.String(), `"pages":20`) {
		t.Errorf("said %q, %v", out.String(), err)
	}
	for _, args := range [][]string{{}, {"raw"}, {"spider", s.Root()}, {"-nosuch"}} {
		if run(t.Context(), args, io.Discard, io.Discard) == nil {
			t.Errorf("arguments %q are no error", args)
		}
	}
}
