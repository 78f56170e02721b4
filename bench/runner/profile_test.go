package runner

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
)

func TestDownload(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/pprof/allocs" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "profile")
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "p")
	if err := download(t.Context(), s.Client(), s.URL+"/debug/pprof/allocs", file); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "profile" {
		t.Errorf("file holds %q, %v", text, err)
	}
	if err := download(t.Context(), s.Client(), s.URL+"/elsewhere", file); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error is %v", err)
	}
}

func TestTop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "allocs.pprof")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := top(t.Context(), kinds()[1], file, &out); err != nil || !strings.Contains(out.String(), "show=^trawl/") || !strings.Contains(out.String(), "alloc_space") {
		t.Errorf("said %q, %v", out.String(), err)
	}
	if err := top(t.Context(), kinds()[0], file+"x", &out); err == nil {
		t.Error("a profile that is not there is no error")
	}
}
