package activities

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/contract"
)

// TestFirstSliceOfACrawlsNextRunObeys: a skip ordered ahead, in the run before,
// of a record that the first slice of the next run reads.
func TestFirstSliceOfACrawlsNextRunObeys(t *testing.T) {
	b := newRedriveBench(t, 9)
	b.mended.Store(true)
	in := contract.LoadInput{
		Run: b.run, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: 4,
		Skips: []contract.Skip{{From: 6, Through: 6, Reason: "bad"}},
	}
	first := do[contract.LoadResult](b.bench, "Load", in)
	require.Equal(t, int64(4), first.Position)
	require.True(t, first.Kept)
	next := b.load(-1, 9)
	require.Equal(t, int64(4), next.Start)
	require.Equal(t, contract.Ledger{Offsets: 5, Loaded: 4, Skipped: 1, Bytes: next.Ledger.Bytes}, next.Ledger)
	require.Equal(t, int64(8), b.documents())
	require.Equal(t, int64(1), b.counts().Skipped)
}

// TestOrdersAreKeptWithoutASlice: a loader that was paused until it ended.
func TestOrdersAreKeptWithoutASlice(t *testing.T) {
	b := newRedriveBench(t, 9)
	b.mended.Store(true)
	skip := func(offset int64) contract.Skip { return contract.Skip{From: offset, Through: offset, Reason: "bad"} }
	keep := func(in contract.LoadInput) {
		in.Run, in.Keep, in.TimeBox = b.run, true, time.Second
		require.True(t, do[contract.LoadResult](b.bench, "Load", in).Kept)
	}
	keep(contract.LoadInput{Position: -1, Skips: []contract.Skip{skip(1)}}) // in the first run: there is no position
	ran := b.load(-1, 3)
	require.Equal(t, int64(0), ran.Start)
	require.Equal(t, int64(1), ran.Ledger.Skipped)
	keep(contract.LoadInput{Position: 3, Ledger: ran.Ledger, Skips: []contract.Skip{skip(1), skip(4)}})
	keep(contract.LoadInput{Position: -1, Skips: []contract.Skip{skip(6), skip(4)}}) // the next run, before its first slice
	require.Equal(t, int64(2), b.documents(), "nothing is loaded")
	next := b.load(-1, 9)
	require.Equal(t, int64(3), next.Start)
	require.Equal(t, ran.Ledger, next.Prior)
	require.Equal(t, []contract.Skip{skip(4), skip(6)}, next.PriorSkips)
	require.Equal(t, int64(2), next.Ledger.Skipped)
	require.Equal(t, int64(6), b.documents())
}

// TestOrdersOfASliceWithoutAPositionAreKept beside those of the run before.
func TestOrdersOfASliceWithoutAPositionAreKept(t *testing.T) {
	b := newRedriveBench(t, 9)
	b.mended.Store(true)
	for _, at := range []int64{6, 7} {
		r := do[contract.LoadResult](b.bench, "Load", contract.LoadInput{
			Run: b.run, Position: -1, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: at - 4,
			Skips: []contract.Skip{{From: at, Through: at, Reason: "bad"}},
		})
		require.True(t, r.Kept)
	}
	require.Equal(t, int64(2), b.load(-1, 9).Ledger.Skipped)
}

// TestManyOrdersAreKept, with reasons cut short, as far as a broker takes a note.
func TestManyOrdersAreKept(t *testing.T) {
	b := newRedriveBench(t, 1)
	var given, most []contract.Skip
	for i := range int64(100) {
		k := contract.Skip{From: 1<<40 + i, Through: 1<<40 + i, By: "operator@host.example", Reason: strings.Repeat("why ", 100)}
		most = append(most, k)
		if i < 18 {
			given = append(given, k)
		}
	}
	for _, orders := range [][]contract.Skip{given, most} {
		in := contract.LoadInput{Run: b.run, Keep: true, TimeBox: time.Second, Position: 1, Skips: orders}
		require.True(t, do[contract.LoadResult](b.bench, "Load", in).Kept)
		next := b.load(-1, 1)
		require.GreaterOrEqual(t, len(next.PriorSkips), len(given))
		_, note, _, err := b.acts.Log.Committed(t.Context(), b.run.LoadGroup(b.acts.Prefix), b.run.Topic(b.acts.Prefix, contract.TopicPages), 0)
		require.NoError(t, err)
		require.LessOrEqual(t, len(note), 3100)
	}
}

// TestOrdersThatAreNotKeptSaySo: a slice is done without the copy, keeping is not.
func TestOrdersThatAreNotKeptSaySo(t *testing.T) {
	b := newRedriveBench(t, 9)
	b.mended.Store(true)
	b.cluster.ControlKey(kmsg.OffsetCommit.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		return nil, errors.New("injected"), true
	})
	in := contract.LoadInput{
		Run: b.run, TimeBox: 10 * time.Second, IdleWait: time.Second, Until: 4,
		Skips: []contract.Skip{{From: 6, Through: 6, Reason: "bad"}},
	}
	r := do[contract.LoadResult](b.bench, "Load", in)
	require.Equal(t, int64(4), r.Position)
	require.False(t, r.Kept)
	in.Keep, in.Position = true, 4
	_, err := b.env.ExecuteActivity("Load", in)
	require.Error(t, err)
}
