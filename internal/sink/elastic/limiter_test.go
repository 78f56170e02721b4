package elastic

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"trawl/internal/sink"
)

// cluster answers in base as long as at most cores bulks are in flight, and
// proportionally later beyond; from refuse on it refuses.
type cluster struct {
	base          time.Duration
	cores, refuse int
}

func (c cluster) answer(running int) (time.Duration, load) {
	if c.refuse > 0 && running >= c.refuse {
		return c.base / 10, tooMuch
	}
	return c.base * time.Duration(max(running, c.cores)) / time.Duration(c.cores), fine
}

// settle runs loaders for a while and gives the bound and how many bulks were
// ever in flight at once.
func settle(t *testing.T, l *limiter, c cluster, loaders int, long time.Duration) (bound, most int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	for range loaders {
		go func() {
			for ctx.Err() == nil {
				p, err := l.enter(ctx, 5<<20)
				if err != nil {
					return
				}
				l.mu.Lock()
				running := l.running
				most = max(most, running)
				l.mu.Unlock()
				took, how := c.answer(running)
				time.Sleep(took) // of the bubble's clock
				p.leave(how)
			}
		}()
	}
	<-ctx.Done()
	synctest.Wait()
	time.Sleep(time.Minute) // the last bulks end
	synctest.Wait()
	if l.running != 0 || len(l.waiting) != 0 {
		t.Errorf("%d running, %d waiting after the end", l.running, len(l.waiting))
	}
	return int(l.bound), most
}

func TestLimiterAdapts(t *testing.T) {
	for name, c := range map[string]struct {
		cluster
		loaders  int
		from, to int // the bound
	}{
		"fast cluster: as far as allowed":      {cluster{200 * time.Millisecond, 100, 0}, 40, 16, 16},
		"two cores: some twice of them":        {cluster{200 * time.Millisecond, 2, 0}, 40, 3, 8},
		"one core":                             {cluster{200 * time.Millisecond, 1, 0}, 40, 2, 4},
		"few loaders: not beyond what is used": {cluster{200 * time.Millisecond, 100, 0}, 3, 3, 5},
		"full queue: below where it refuses":   {cluster{200 * time.Millisecond, 100, 8}, 40, 4, 8},
		"refuses all":                          {cluster{200 * time.Millisecond, 1, 1}, 40, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(16, time.Now)
				bound, most := settle(t, l, c.cluster, c.loaders, 2*time.Minute)
				if bound < c.from || bound > c.to || most > 16 {
					t.Errorf("bound %d (at most %d at once), want %d to %d", bound, most, c.from, c.to)
				}
			})
		})
	}
}

// One round of refusals halves once; a bound never falls below one.
func TestLimiterHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(16, time.Now)
		l.bound, l.probed = 16, time.Now()
		for want := 8; want > 0; want /= 2 {
			time.Sleep(time.Second) // of the bubble: a new round
			var places []*place
			for range int(l.bound) {
				p, err := l.enter(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				places = append(places, p)
			}
			for _, p := range places {
				p.leave(tooMuch)
			}
			if int(l.bound) != want {
				t.Fatalf("bound %v, want %d", l.bound, want)
			}
		}
		p, err := l.enter(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		p.leave(unknown)
		if l.bound != 1 {
			t.Errorf("bound %v after an answer that says nothing", l.bound)
		}
	})
}

// Who gives up waiting leaves no hole, and is told why.
func TestLimiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, time.Now)
		first, err := l.enter(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.enter(ctx, 1)
		if _, ok := errors.AsType[*sink.UnavailableError](err); !ok {
			t.Errorf("timed out: %v (%T)", err, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := l.enter(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		first.leave(fine)
		second, err := l.enter(t.Context(), 1)
		if err != nil || l.running != 1 {
			t.Fatalf("%v, %d running", err, l.running)
		}
		second.leave(fine)
	})
}
