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
	if err := admin.PrepareTarget(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it is idempotent
		if dropped, err := admin.DropTarget(t.Context(), target); !dropped || err != nil {
			t.Errorf("%v %v", dropped, err)
		}
	}
	if _, err := admin.OpenTarget(t.Context(), target); !errors.Is(err, sink.ErrNoIndex) {
		t.Errorf("it is still there: %v", err)
	}
}
