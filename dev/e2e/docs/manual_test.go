//go:build e2edocs

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// manualPackage holds the HTML manual of Python; manualRoot is where.
const (
	manualPackage = "python3.11-doc"
	manualRoot    = "usr/share/doc/python3.11/html"
)

// manual is the directory of the manual. It is fetched once per machine; the
// test is skipped where there is no apt-get, and fails where apt-get does.
func manual(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skipf("the manual is Debian's package %s, and there is no apt-get here to fetch it", manualPackage)
	}
	cache, err := os.UserCacheDir() // $XDG_CACHE_HOME, else ~/.cache
	if err != nil {
		t.Fatalf("cache directory: %v; set XDG_CACHE_HOME", err)
	}
	dir := filepath.Join(cache, "trawl", "pydoc")
	if _, err := os.Stat(filepath.Join(dir, manualRoot)); err != nil {
		unpack(t, dir)
	}
	return filepath.Join(dir, manualRoot)
}

// unpack fetches the package beside dir and renames it there when it is whole.
func unpack(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".pydoc-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	t.Logf("fetching %s into %s", manualPackage, dir)
	command(t, tmp, "apt-get", "download", manualPackage)
	debs, err := filepath.Glob(filepath.Join(tmp, manualPackage+"_*.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("apt-get download left %d packages (%v), want 1", len(debs), err)
	}
	whole := filepath.Join(tmp, "whole")
	command(t, tmp, "dpkg-deb", "-x", debs[0], whole)
	if _, err := os.Stat(filepath.Join(whole, manualRoot)); err != nil {
		t.Fatalf("package %s does not hold the manual: %v", manualPackage, err)
	}
	if err := os.Chmod(whole, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(whole, dir); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s\nan old package list is mended by \"apt-get update\"", name, args, err, out)
	}
}
