package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"trawl/internal/contract"
)

// What went by since the shard asked is taken from the waits of a batch, but
// never more: not if the clocks of two servers differ, and not if it is unknown.
func TestHoldRunsFromTheQuestion(t *testing.T) {
	asked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		asked time.Time
		after time.Duration
		want  []int64
	}{
		"some went by":     {asked, 300*time.Millisecond + clockSlack, []int64{0, 0, 700}},
		"all went by":      {asked, time.Minute, []int64{0, 0, 0}},
		"less than slack":  {asked, clockSlack / 2, []int64{0, 200, 1000}},
		"a clock is ahead": {asked, -time.Second, []int64{0, 200, 1000}},
		"not known":        {time.Time{}, time.Minute, []int64{0, 200, 1000}},
	} {
		in := contract.FetchInput{HoldsAt: c.asked}
		for _, ms := range []int64{0, 200, 1000} {
			in.Batch.Hosts = append(in.Batch.Hosts, contract.BatchHost{HoldMS: ms})
		}
		hold(in, asked.Add(c.after))
		for i, h := range in.Batch.Hosts {
			require.Equal(t, c.want[i], h.HoldMS, name)
		}
	}
}
