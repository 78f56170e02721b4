package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"trawl/internal/sink"
)

// TestDiskFull: nothing of a write that failed is left in the file once it is
// kept, and one that fails at its end is no file.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	a := New(dir)
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(a.PrepareTarget(ctx, sink.Target{Name: "x"}))
	w, err := a.OpenTarget(ctx, sink.Target{Name: "x"})
	ok(err)
	p := sink.Partition{Reader: "r", Topic: "t"}
	first := func() *span {
		t.Helper()
		_, s, err := w.(sink.Spans).Begin(ctx, p, 0)
		ok(err)
		_, err = s.Write(ctx, []sink.Op{{ID: "a", Version: 1, Doc: []byte(`{"n":1}`)}})
		ok(err)
		return s.(*span)
	}
	// A span removes its file by name: the device must not go by its own.
	full := func() *os.File {
		fd, err := syscall.Open("/dev/full", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		ok(err)
		return os.NewFile(uintptr(fd), filepath.Join(dir, "full"))
	}

	s := first()
	disk := s.file
	s.file = full()
	var away *sink.UnavailableError
	more := []sink.Op{{ID: "b", Version: 2, Doc: []byte(`{"n":2}`)}}
	if _, err := s.Write(ctx, more); !errors.As(err, &away) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write to a full disk: %v", err)
	}
	ok(s.file.Close())
	s.file = disk
	_, err = disk.WriteAt([]byte(strings.Repeat("x", 10_000)), s.size) // what a failed write leaves
	ok(err)
	_, err = s.Write(ctx, more)
	ok(err)
	s.file = full() // and the last line does not fit
	if won, err := s.Keep(ctx, 9, []byte("{}")); won || !errors.As(err, &away) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("keep on a full disk: %v, %v", won, err)
	}
	ok(disk.Close())

	s = first()
	_, err = s.file.WriteAt([]byte(strings.Repeat("x", 10_000)), s.size)
	ok(err)
	if won, err := s.Keep(ctx, 9, []byte("{}")); !won || err != nil {
		t.Fatalf("keep: %v, %v", won, err)
	}
	found, err := a.Audit(ctx, "x")
	if err != nil || found.Files != 1 || found.Lines != 1 || len(found.Faults) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestOneAtATime: nobody names a file while another process may be doing so.
func TestOneAtATime(t *testing.T) {
	ctx := t.Context()
	a := New(t.TempDir())
	p := sink.Partition{Reader: "r", Topic: "t"}
	if err := a.PrepareTarget(ctx, sink.Target{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	w, err := a.OpenTarget(ctx, sink.Target{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, s, err := w.(sink.Spans).Begin(ctx, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(ctx)
	cancel()
	err = locked(ctx, s.(*span).p.lock, func() error {
		won, err := s.Keep(late, 1, []byte("{}"))
		if won {
			t.Error("kept beside another one")
		}
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
