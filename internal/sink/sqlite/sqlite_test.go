package sqlite_test

import (
	"errors"
	"testing"

	"trawl/internal/sink"
	"trawl/internal/sink/sinktest"
	"trawl/internal/sink/sqlite"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		dir := t.TempDir()
		return sinktest.Harness{
			Process: func(*testing.T) sink.Admin { return sqlite.New(dir) },
		}
	})
}

func TestDropTarget(t *testing.T) {
	admin, target := sqlite.New(t.TempDir()), sink.Target{Name: "shop"}
	open := func() sink.Sink {
		t.Helper()
		if err := admin.PrepareTarget(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		s, err := admin.OpenTarget(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	open()        // a worker keeps it open
	for range 2 { // it is idempotent
		if dropped, err := admin.DropTarget(t.Context(), target); !dropped || err != nil {
			t.Errorf("%v %v", dropped, err)
		}
	}
	if _, err := admin.OpenTarget(t.Context(), target); !errors.Is(err, sink.ErrNoIndex) {
		t.Errorf("it is still there: %v", err)
	}
	s := open()
	r, err := s.Write(t.Context(), []sink.Op{sinktest.Op("a", 1, "t", "x")})
	if err != nil || r[0].Outcome != sink.Loaded {
		t.Fatalf("%+v %v", r, err)
	}
	if n, err := admin.Count(t.Context(), "shop"); n != 1 || err != nil {
		t.Errorf("what was written went to the file that was dropped: %d %v", n, err)
	}
}
