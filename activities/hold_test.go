package activities

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
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

// A Fetch waits for what is left of a hold, and for no more.
func TestFetchHolds(t *testing.T) {
	const hold = 700 * time.Millisecond
	for name, c := range map[string]struct {
		ms    int64
		asked time.Duration // before the Fetch
		least time.Duration
	}{
		"all of it is left": {hold.Milliseconds(), 0, hold},
		"it is over":        {time.Hour.Milliseconds(), 2 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var first atomic.Int64
			site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				first.CompareAndSwap(0, time.Now().UnixNano())
			}))
			defer site.Close()
			b := newBench(t, site.URL+"/", nil)
			b.run.SpecAt = do[contract.SeedResult](b, "Seed", contract.SeedInput{Run: b.run, Spec: b.spec}).SpecAt
			for shard := range b.run.Shards {
				r := do[contract.ExpandResult](b, "Expand", contract.ExpandInput{Run: b.run, Shard: shard, Number: 1})
				if r.Batch == nil {
					continue
				}
				r.Batch.Hosts[0].DelayMS, r.Batch.Hosts[0].HoldMS = 1, c.ms
				began := time.Now()
				got := do[contract.FetchResult](b, "Fetch", contract.FetchInput{Run: b.run, Shard: shard, Batch: *r.Batch, HoldsAt: began.Add(-c.asked)})
				require.Positive(t, got.Requests)
				require.GreaterOrEqual(t, time.Unix(0, first.Load()).Sub(began), c.least)
			}
			require.NotZero(t, first.Load())
		})
	}
}
