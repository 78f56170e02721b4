package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// BinEnv names a directory with programs that are built already, as "make
// build" leaves them in bin/. A program that is not in it is built.
const BinEnv = "HARNESS_BIN"

// program that can be built, with the module it belongs to.
type program struct {
	name   string // of the binary
	module string // directory of the module, from the repository's root
	pkg    string // package in the module
}

// The programs of the repository.
var (
	devProgram     = program{"trawl-dev", "dev", "."}
	workerProgram  = program{"worker", ".", "./worker"}
	starterProgram = program{"starter", ".", "./starter"}
)

// builds remembers what this test binary has built.
var builds struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

// Run the tests of a package and remove what was built for them. A package
// that uses this one calls it from TestMain: os.Exit(harness.Run(m)).
func Run(m *testing.M) int {
	code := m.Run()
	builds.Lock()
	defer builds.Unlock()
	if builds.dir != "" {
		if err := os.RemoveAll(builds.dir); err != nil {
			fmt.Fprintln(os.Stderr, "harness: remove builds:", err)
		}
	}
	return code
}

// DevBinary is the path of trawl-dev. Building it for the first time on a
// machine takes minutes.
func DevBinary(tb testing.TB) string { return binary(tb, devProgram) }

// WorkerBinary is the path of worker.
func WorkerBinary(tb testing.TB) string { return binary(tb, workerProgram) }

// StarterBinary is the path of starter.
func StarterBinary(tb testing.TB) string { return binary(tb, starterProgram) }

func binary(tb testing.TB, p program) string {
	tb.Helper()
	path, err := locate(p)
	if err != nil {
		tb.Fatalf("program %s: %v", p.name, err)
	}
	return path
}

func locate(p program) (string, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		path, err := filepath.Abs(filepath.Join(dir, p.name))
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	builds.Lock()
	defer builds.Unlock()
	if path, ok := builds.paths[p.name]; ok {
		return path, nil
	}
	path, err := build(p)
	if err != nil {
		return "", err
	}
	builds.paths[p.name] = path
	return path, nil
}

// build under the lock.
func build(p program) (string, error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	if builds.dir == "" {
		if builds.dir, err = os.MkdirTemp("", "trawl-bin-"); err != nil {
			return "", err
		}
		builds.paths = make(map[string]string)
	}
	path := filepath.Join(builds.dir, p.name)
	cmd := exec.Command("go", "build", "-o", path, p.pkg)
	cmd.Dir = filepath.Join(root, p.module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", p.pkg, err, out)
	}
	return path, nil
}

// repositoryRoot is the nearest directory above that holds the module dev.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "dev", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not inside the repository")
		}
		dir = parent
	}
}
