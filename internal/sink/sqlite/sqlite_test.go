package sqlite_test

import (
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
