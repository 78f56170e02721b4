package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"trawl/internal/contract"
	"trawl/internal/sink"
	"trawl/internal/sink/files"
	"trawl/internal/spec"
)

// TestFilesOfACrawl: a crawl into files, loaded by two workers of which each
// answer of one is lost; its loaders run where the data directory is.
func TestFilesOfACrawl(t *testing.T) {
	s := newSite(t, map[string]string{
		"/":  `<title>home</title><a href="/a">a</a> <a href="/b">b</a> <a href="/gone">gone</a>`,
		"/a": `<title>walrus</title><p>the walrus</p><a href="/b">b</a>`,
		"/b": `<title>carpenter</title><a href="/">home</a>`,
	})
	b := newBench(t, s.URL+"/", func(s *spec.Spec) { s.Sink.Kind = spec.SinkFiles })
	b.acts.Sink = func(kind string) (sink.Admin, error) {
		require.Equal(t, spec.SinkFiles, kind)
		return files.New(b.dir), nil
	}
	totals, _ := b.crawl(contract.Grant{})
	seeded := do[contract.SeedResult](b, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec})
	require.Equal(t, "data", seeded.LoadQueue)
	b.run.SpecAt = seeded.SpecAt

	ends := do[contract.LogEndsResult](b, "LogEnds", contract.LogEndsInput{Run: b.run})
	var ledger contract.Ledger
	for p, end := range ends.Ends {
		require.Positive(t, end)
		in := contract.LoadInput{Run: b.run, Partition: p, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: 1}
		lost := do[contract.LoadResult](b, "Load", in)
		b.acts.sinks.close() // another worker
		in.Until = end
		r := do[contract.LoadResult](b, "Load", in)
		require.Equal(t, end, r.Position)
		require.Equal(t, lost.Ledger.Offsets+end-1, r.Ledger.Offsets)
		require.Zero(t, r.Ledger.Missing())
		ledger = ledger.Add(r.Ledger)
	}
	require.Equal(t, int64(3), ledger.Loaded)
	require.Equal(t, int64(1), ledger.Deleted)

	summary := do[contract.Summary](b, "Finalize", contract.FinalizeInput{Run: b.run, Outcome: contract.OutcomeCompleted, Totals: totals, Ledger: ledger})
	require.Equal(t, spec.SinkFiles, summary.Sink)
	admin := files.New(b.dir)
	found, err := admin.Audit(t.Context(), b.run.Index("x"))
	require.NoError(t, err)
	require.Empty(t, found.Faults)
	require.Equal(t, sink.Audit{Files: found.Files, Lines: 4, Documents: 3}, found)
	require.Equal(t, int64(2*len(ends.Ends)), found.Files)
	held, err := admin.Holds(t.Context(), b.run.Index("x"), []sink.HeldID{{ID: s.URL + "/a"}, {ID: s.URL + "/gone"}})
	require.NoError(t, err)
	require.True(t, held[0].Found)
	require.False(t, held[1].Found)
}
