package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"trawl/internal/contract"
)

func TestSlotsAreBusyWhileOpenAndCooling(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSlots()
	s.take([]int{3, 4})
	require.True(t, has(s.busy(now.Add(time.Hour)), 3), "open, however long")
	s.answered([]int{3, 4}, now, 5*time.Second)
	require.True(t, has(s.busy(now.Add(5*time.Second-1)), 3))
	next, any := s.cools(now)
	require.True(t, any)
	require.Equal(t, now.Add(5*time.Second), next)
	require.Nil(t, s.busy(now.Add(5*time.Second)))
	_, any = s.cools(now.Add(5 * time.Second))
	require.False(t, any)
	s.take([]int{3})
	s.answered([]int{3}, now, 0)
	require.Nil(t, s.busy(now), "no delay, no cooling")
}

func TestSlotsCountLossesInARowOnly(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSlots()
	for range 2 {
		s.take([]int{7})
		s.silent([]int{7}, now, true)
	}
	require.Equal(t, 2, s.lost[7])
	require.True(t, has(s.careful, 7))
	s.take([]int{7})
	require.False(t, has(s.careful, 7), "the hosts of the batch carry the care")
	s.silent([]int{7}, now, false)
	require.Equal(t, 2, s.lost[7], "an error is no loss")
	require.True(t, has(s.careful, 7))
	s.take([]int{7})
	s.answered([]int{7}, now, 0)
	require.Zero(t, s.lost[7])
}

func TestSlotsOfABatchThatNobodyBeganAreFreeButCareful(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSlots()
	s.take([]int{7})
	s.unused([]int{7})
	require.Nil(t, s.busy(now))
	require.True(t, has(s.careful, 7), "they may have been, and nobody has waited since")
	require.Empty(t, s.lost)
}

func TestCarefulBeginningCoolsEverySlotOnce(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSlots()
	s.beginCareful(now)
	for _, slot := range []int{0, 1234, contract.Slots - 1} {
		require.True(t, has(s.busy(now), slot))
		require.True(t, has(s.careful, slot))
	}
	next, any := s.cools(now)
	require.True(t, any)
	require.Equal(t, now.Add(CarefulCooling), next)
	require.Nil(t, s.busy(next))
}
