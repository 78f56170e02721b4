package stack

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDataDirRefuses(t *testing.T) {
	tests := []struct {
		name  string
		setup func(t *testing.T, dir string)
		want  []string // all in the error
	}{
		{
			name: "another version",
			setup: func(t *testing.T, dir string) {
				writeFile(t, filepath.Join(dir, versionName), "temporal 1.31.0, kfake v0.0.0-20250101000000-000000000000\n")
			},
			want: []string{"temporal 1.31.0", TemporalVersion, "--data", "move this one away"},
		},
		{
			name:  "an empty version",
			setup: func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, versionName), "") },
			want:  []string{`written by ""`, "--data"},
		},
		{
			name: "an endless version",
			setup: func(t *testing.T, dir string) {
				writeFile(t, filepath.Join(dir, versionName), Version()+strings.Repeat("x", 1<<20))
			},
			want: []string{"written by", "--data"},
		},
		{
			name:  "somebody's directory",
			setup: func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "thesis.tex"), "x") },
			want:  []string{"thesis.tex", "--data"},
		},
		{
			name: "data whose version was removed",
			setup: func(t *testing.T, dir string) {
				if err := os.Mkdir(filepath.Join(dir, "kafka"), 0o700); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{`"kafka"`, "--data"},
		},
		{
			name: "in use",
			setup: func(t *testing.T, dir string) {
				d, err := openDataDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = d.close() })
			},
			want: []string{"in use by another trawl-dev (process ", "--data"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			test.setup(t, dir)
			d, err := openDataDir(dir)
			if err == nil {
				_ = d.close()
				t.Fatal("no error")
			}
			for _, want := range append(test.want, dir) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %q", err, want)
				}
			}
		})
	}
}

func TestDataDirRefusesNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	for _, path := range []string{"", file, filepath.Join(file, "below")} {
		if d, err := openDataDir(path); err == nil {
			_ = d.close()
			t.Errorf("openDataDir(%q): no error", path)
		} else if !strings.Contains(err.Error(), "--data") {
			t.Errorf("openDataDir(%q): %q does not name --data", path, err)
		}
	}
}

// A setup that a kill cut short leaves a database without a VERSION: it starts
// from nothing. One that was committed is never cleared.
func TestDataDirSetupCutShort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*?") // a glob's characters
	d, err := openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !d.fresh {
		t.Error("a new directory is not fresh")
	}
	writeFile(t, d.database(), "half a schema")
	writeFile(t, d.database()+"-wal", "half a schema")
	if err := d.close(); err != nil {
		t.Fatal(err)
	}

	d, err = openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.clear(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{d.database(), d.database() + "-wal"} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	if err := d.commit(); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}

	d, err = openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if d.fresh {
		t.Error("a committed directory is fresh again")
	}
}

func TestWriteFileAtomicReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"a long first content", "second"} {
		if err := WriteFileAtomic(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("read %q, %v; want %q", got, err, text)
		}
	}
	if err := WriteFileAtomic(filepath.Join(path, "below"), nil); err == nil {
		t.Error("writing below a file: no error")
	}
}

func TestOldLogIsPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), kafkaLogName)
	writeFile(t, path, strings.Repeat("x", maxLogBytes+1))
	f, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("new")); err != nil {
		t.Error(err)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Write([]byte("late")); err != nil {
		t.Errorf("a write after close: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("the new log is %q, %v", got, err)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Error(err)
	}
}

// The kfake module has no constant for its version, so ours is checked against
// what is built.
func TestBrokerVersionIsWhatIsBuilt(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/twmb/franz-go/pkg/kfake " + BrokerVersion + "\n"; !bytes.Contains(mod, []byte(want)) {
		t.Errorf("go.mod does not require %q: correct BrokerVersion; data directories of the version before are then refused", want)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
