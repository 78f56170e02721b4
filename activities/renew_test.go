package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"trawl/internal/contract"
)

// TestWhatBrokersForgetIsCommittedAgain: a loader with nothing to do commits its
// position and where its index is, now and then.
func TestWhatBrokersForgetIsCommittedAgain(t *testing.T) {
	b := newRedriveBench(t, 3)
	b.mended.Store(true)
	read := b.load(-1, 3)
	position, queue := b.run.LoadGroup(b.acts.Prefix), b.run.QueueGroup(b.acts.Prefix)
	pages := b.run.Topic(b.acts.Prefix, contract.TopicPages)
	idle := func() (known []bool) {
		for _, group := range []string{position, queue} {
			require.NoError(t, b.acts.Log.DeleteGroup(t.Context(), group))
		}
		r := do[contract.LoadResult](b.bench, "Load", contract.LoadInput{
			Run: b.run, Position: 3, Ledger: read.Ledger, TimeBox: 10 * time.Second, IdleWait: 10 * time.Millisecond, Until: 3,
		})
		require.Zero(t, r.Ledger.Offsets)
		for _, group := range []string{position, queue} {
			_, _, ok, err := b.acts.Log.Committed(t.Context(), group, pages, 0)
			require.NoError(t, err)
			known = append(known, ok)
		}
		return known
	}
	require.Equal(t, []bool{false, false}, idle(), "just done")
	for key := range b.acts.renewals.m {
		b.acts.renewals.m[key] = time.Now().Add(-renewEvery)
	}
	require.Equal(t, []bool{true, true}, idle())
	offset, _, _, err := b.acts.Log.Committed(t.Context(), position, pages, 0)
	require.NoError(t, err)
	require.Equal(t, int64(3), offset)
	_, note, _, err := b.acts.Log.Committed(t.Context(), queue, pages, 0)
	require.NoError(t, err)
	require.Equal(t, b.acts.DataQueue, note)
}
