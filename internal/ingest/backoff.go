package ingest

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses between tries.
const (
	minBackoff    = 300 * time.Millisecond
	maxBackoff    = 90 * time.Second
	maxRetryAfter = 10 * time.Minute // more is not believed
)

// backoff is the pause after the given number of failed attempts (1 is the
// first): exponential from 300 ms to 90 s, +-50 %. What a server asked for
// wins.
func backoff(attempts int, asked time.Duration) time.Duration {
	if asked > 0 {
		return min(asked, maxRetryAfter)
	}
	d := minBackoff << min(max(attempts-1, 0), 20)
	d = min(d, maxBackoff)
	return d/2 + rand.N(d)
}

// sleep waits for d or the end of ctx; it reports whether d passed.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
