package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	lockPoll = 10 * time.Millisecond
	// lockWait bounds the wait for a lock, which is held for milliseconds: who
	// holds it for longer is stopped or its disk hangs.
	lockWait = 20 * time.Second
	// leftover is the age from which a temporary file may be one that nobody
	// writes: its writer locks it right after making it.
	leftover = time.Minute
	tmpEnd   = ".tmp"
)

// locked runs f while no other process or goroutine holds the lock of a file.
func locked(ctx context.Context, name string, f func() error) error {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close() // lets go of the lock
	over := time.Now().Add(lockWait)
	for {
		ok, err := take(file)
		if err != nil {
			return err
		}
		if ok {
			return f()
		}
		if time.Now().After(over) {
			return fmt.Errorf("another process has held the lock %s for %s", name, lockWait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// take locks a file until it is closed, also by the end of the process.
func take(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// temporary makes a file in dir that only its maker writes.
func temporary(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "."+name+"."+unique()+tmpEnd), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	if _, err := take(f); err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// sweep removes the temporary files of a folder that nobody writes any more. It
// may fail: the next one tries again.
func sweep(dir string, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), tmpEnd) {
			continue
		}
		if info, err := e.Info(); err != nil || now.Sub(info.ModTime()) < leftover {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if ok, err := take(f); ok && err == nil {
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	}
}
