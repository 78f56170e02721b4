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
	s.take(contract.Batch{Slots: []int{3, 4}}, now)
	require.True(t, has(s.busy(now.Add(time.Hour)), 3), "open, however long")
	s.answered([]int{3, 4}, now, time.Minute)
	soon := now.Add(time.Minute - holdMost)
	require.True(t, has(s.busy(soon.Add(-1)), 3))
	require.Empty(t, s.holds(soon.Add(-1)))
	next, any := s.cools(now)
	require.True(t, any)
	require.Equal(t, now.Add(time.Minute), next)
	next, any = s.dealable(now)
	require.True(t, any)
	require.Equal(t, soon, next)
	require.Nil(t, s.busy(soon), "a Fetch may wait for what is left")
	require.Equal(t, []contract.Hold{{MS: holdMost.Milliseconds(), Slots: []int{3, 4}}}, s.holds(soon))
	_, any = s.dealable(soon)
	require.False(t, any)
	s.take(contract.Batch{Slots: []int{4}}, now)
	require.Equal(t, []contract.Hold{{MS: 1, Slots: []int{3}}}, s.holds(now.Add(time.Minute-1)), "4 is open; what is left is rounded up")
	s.answered([]int{4}, soon, time.Second)
	require.Len(t, s.holds(soon.Add(2 * time.Second))[0].Slots, 2, "a batch that asked nobody does not end the cooling")
	require.Nil(t, s.busy(now.Add(time.Minute)))
	require.Empty(t, s.holds(now.Add(time.Minute)))
	_, any = s.cools(now.Add(time.Minute))
	require.False(t, any)
	s.take(contract.Batch{Slots: []int{3}}, now)
	s.answered([]int{3}, now, 0)
	require.Nil(t, s.busy(now), "no delay, no cooling")
}

func TestSlotsCountLossesInARowOnly(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSlots()
	for range 2 {
		s.take(contract.Batch{Slots: []int{7}}, now)
		s.silent([]int{7}, now, true)
	}
	require.Equal(t, 2, s.lost[7])
	require.True(t, has(s.careful, 7))
	s.take(contract.Batch{Slots: []int{7}}, now)
	require.False(t, has(s.careful, 7), "the hosts of the batch carry the care")
	s.silent([]int{7}, now, false)
	require.Equal(t, 2, s.lost[7], "an error is no loss")
	require.True(t, has(s.careful, 7))
	s.take(contract.Batch{Slots: []int{7}}, now)
	s.answered([]int{7}, now, 0)
	require.Zero(t, s.lost[7])
}

// A slot is one of parts until they have closed and cooled, whoever takes it.
func TestWholeSlots(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSlots()
	s.take(contract.Batch{Slots: []int{3, 4}, Whole: []int{4}}, now)
	require.False(t, has(s.whole, 3))
	require.True(t, has(s.whole, 4))
	s.answered([]int{3, 4}, now, time.Second)
	require.True(t, has(s.whole, 4), "it cools for a whole host")
	s.take(contract.Batch{Slots: []int{3, 4}, Whole: []int{3, 4}}, now.Add(time.Second-1))
	require.False(t, has(s.whole, 3), "it still cooled for a part")
	require.True(t, has(s.whole, 4))
	s.answered([]int{3, 4}, now, 0)
	s.take(contract.Batch{Slots: []int{3, 4}, Whole: []int{3}}, now.Add(time.Second))
	require.True(t, has(s.whole, 3))
	require.False(t, has(s.whole, 4))
}

func TestSlotsOfABatchThatNobodyBeganAreFreeButCareful(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSlots()
	s.take(contract.Batch{Slots: []int{7}}, now)
	s.unused([]int{7})
	require.Nil(t, s.busy(now))
	require.True(t, has(s.careful, 7), "they may have been, and nobody has waited since")
	require.Empty(t, s.lost)
}

func TestCarefulSlotsAreNotHeld(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSlots()
	s.take(contract.Batch{Slots: []int{7}}, now)
	s.silent([]int{7}, now, true)
	require.LessOrEqual(t, CarefulCooling, holdMost, "or this test shows nothing")
	require.True(t, has(s.busy(now.Add(CarefulCooling-1)), 7))
	require.Empty(t, s.holds(now))
	next, any := s.dealable(now)
	require.True(t, any)
	require.Equal(t, now.Add(CarefulCooling), next)
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
