package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"trawl/internal/contract"
)

func report(state string, g contract.GrantState, spent int64) contract.ShardReport {
	return contract.ShardReport{State: state, Grant: g.Grant.Number, Totals: contract.Totals{Spent: spent}}
}

func TestBudgetMovesFromIdleToStarvedOnlyOnceAcknowledged(t *testing.T) {
	b := newBudget(10, 2, false)
	require.Equal(t, int64(5), b.grants[0].Grant.Total)
	reports := []contract.ShardReport{
		report(contract.ShardStarved, b.grants[0], 5), report(contract.ShardIdle, b.grants[1], 1),
	}
	changed, exhausted := b.balance(reports)
	require.Equal(t, []int{1}, changed, "first the surplus is taken back")
	require.False(t, exhausted)
	require.Equal(t, int64(1), b.grants[1].Grant.Total)
	changed, _ = b.balance(reports)
	require.Empty(t, changed, "not acknowledged: it may still be spent")
	reports[1] = report(contract.ShardIdle, b.grants[1], 1)
	changed, exhausted = b.balance(reports)
	require.Equal(t, []int{0}, changed)
	require.False(t, exhausted)
	require.Equal(t, int64(9), b.grants[0].Grant.Total)
}

// A model of shards that obey their grants: whatever they need, the sum of what
// they spend never exceeds the limit, and all of it is spent if it is needed.
func TestBudgetIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "shards")
		limit := rapid.Int64Range(1, 40).Draw(t, "limit")
		need := make([]int64, n)
		var total int64
		for i := range need {
			need[i] = rapid.Int64Range(0, 30).Draw(t, "need")
			total += need[i]
		}
		resume := rapid.Bool().Draw(t, "resume")
		b := newBudget(limit, n, resume)
		spent := make([]int64, n)
		if resume { // what an earlier run spent, of a limit that may have been higher
			for i := range spent {
				spent[i] = rapid.Int64Range(0, need[i]).Draw(t, "spent before")
			}
		}
		var before int64
		for _, s := range spent {
			before += s
		}
		reports := make([]contract.ShardReport, n)
		for i := range reports {
			reports[i].State = contract.ShardBusy
		}
		ended := false
		for round := 0; round < 400 && !ended; round++ {
			i := rapid.IntRange(0, n-1).Draw(t, "shard")
			spent[i] = max(spent[i], min(need[i], b.grants[i].Grant.Total))
			state := contract.ShardIdle
			if spent[i] < need[i] {
				state = contract.ShardStarved
			}
			reports[i] = report(state, b.grants[i], spent[i])
			_, ended = b.balance(reports)
			var sum int64
			for _, s := range spent {
				sum += s
			}
			require.LessOrEqual(t, sum, max(limit, before))
			if ended {
				require.Equal(t, max(min(limit, total), before), sum)
			}
		}
	})
}
