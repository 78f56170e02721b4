package stack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	lockName     = "LOCK"
	versionName  = "VERSION"
	databaseGlob = "temporal-*.db*"
	// maxVersionBytes bounds what is read of a VERSION file.
	maxVersionBytes = 1 << 10
)

// dataDir is a data directory that this process has locked.
//
// VERSION is written last when a directory is set up and before any server
// accepts a request. So a directory without it holds nothing that anybody was
// told is safe, and setting it up starts from nothing.
type dataDir struct {
	path  string
	fresh bool // no VERSION yet
	lock  *os.File
}

// openDataDir creates, locks and checks the directory. The lock belongs to the
// open file: the kernel drops it when the process dies, however it dies.
func openDataDir(path string) (*dataDir, error) {
	if path == "" {
		return nil, errors.New("no data directory given: name one with --data")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory (--data): %w", err)
	}
	d := &dataDir{path: abs}
	if d.lock, err = lockDir(abs); err != nil {
		return nil, err
	}
	if err := d.checkVersion(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory (--data): %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another trawl-dev%s: stop that one, or name another directory with --data", path, lockHolder(f))
		}
		return nil, fmt.Errorf("lock data directory %s: %w: name a directory on a local disk with --data", path, err)
	}
	// The process id is for people only; the lock does not depend on it.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

func lockHolder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

func (d *dataDir) checkVersion() error {
	found, err := readVersion(filepath.Join(d.path, versionName))
	if errors.Is(err, os.ErrNotExist) {
		d.fresh = true
		return d.checkEmpty()
	}
	if err != nil {
		return fmt.Errorf("read the version of data directory %s: %w", d.path, err)
	}
	if found != Version() {
		return fmt.Errorf("data directory %s was written by %q and this program is %q, which cannot read it: name another directory with --data, or move this one away to begin anew, or run the trawl-dev that wrote it", d.path, found, Version())
	}
	return nil
}

func readVersion(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxVersionBytes))
	return strings.TrimSpace(string(text)), err
}

// checkEmpty refuses to move into a directory that holds anything but the
// remains of a setup that was cut short.
func (d *dataDir) checkEmpty() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("read data directory %s: %w", d.path, err)
	}
	for _, e := range entries {
		if !isSetupRemains(e.Name()) {
			return fmt.Errorf("directory %s has no %s file but holds %q, so it is no data directory of trawl-dev: name a new or empty directory with --data", d.path, versionName, e.Name())
		}
	}
	return nil
}

func isSetupRemains(name string) bool {
	switch name {
	case lockName, versionName + ".tmp", temporalLogName, kafkaLogName:
		return true
	}
	isDatabase, err := filepath.Match(databaseGlob, name)
	return err == nil && isDatabase
}

// clear removes the database of a setup that was cut short.
func (d *dataDir) clear() error {
	names, err := filepath.Glob(filepath.Join(globEscape(d.path), databaseGlob))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("clear an unfinished setup: %w", err)
		}
	}
	return nil
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// commit states durably what wrote this directory.
func (d *dataDir) commit() error {
	if err := WriteFileAtomic(filepath.Join(d.path, versionName), []byte(Version()+"\n")); err != nil {
		return fmt.Errorf("write the version of data directory %s: %w", d.path, err)
	}
	d.fresh = false
	return nil
}

func (d *dataDir) database() string {
	return filepath.Join(d.path, "temporal-"+TemporalVersion+".db")
}

func (d *dataDir) kafka() string { return filepath.Join(d.path, "kafka") }

func (d *dataDir) close() error { return d.lock.Close() }

// WriteFileAtomic replaces path with data: a reader sees the old content or all
// of the new one, also after a power failure.
func WriteFileAtomic(path string, data []byte) (err error) {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

// syncPath makes what was written to a file, or to a directory's list of names,
// safe against a power failure.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
