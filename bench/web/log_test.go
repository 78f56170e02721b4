package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func contextDone(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithCancel(r.Context())
}

func TestLogCounts(t *testing.T) {
	w := mustNew(t, Config{Seed: 5, Hosts: 2, PagesPerHost: 300, Disallowed: 100, Port: 80})
	h := w.Handler()
	var private Ref
	for p, k := range w.Reach(-1).Each {
		if k == Disallowed {
			private = p
			break
		}
	}
	for _, u := range []string{w.Root(), w.Root(), w.URL(private), "http://127.1.0.2/robots.txt", "http://127.1.0.1/nothing"} {
		get(h, u)
	}
	got := w.Log().Stats()
	want := Stats{Requests: 5, Pages: 3, Distinct: 2, Duplicates: 1, Disallowed: 1, Robots: 1, Unknown: 1, Hosts: 2, MaxParallel: 1, MaxHostParallel: 1}
	if got.Status[200] != 4 || got.Status[404] != 1 || got.MinSpacing <= 0 || got.LastStart <= 0 {
		t.Errorf("stats are %+v", got)
	}
	got.Status, got.MinSpacing, got.MinSpacingHost, got.LastStart = nil, 0, 0, 0
	if got.Requests != want.Requests || got.Pages != want.Pages || got.Distinct != want.Distinct || got.Duplicates != want.Duplicates ||
		got.Disallowed != want.Disallowed || got.Robots != want.Robots || got.Unknown != want.Unknown || got.Hosts != want.Hosts ||
		got.MaxParallel != want.MaxParallel || got.MaxHostParallel != want.MaxHostParallel || got.Active != 0 {
		t.Errorf("stats are %+v, want %+v", got, want)
	}
	if missing, extra := w.Log().Diff(w.Reach(0), 10); len(missing) != 0 || len(extra) != 1 || extra[0] != private {
		t.Errorf("Diff = %v, %v, want none missing and %v extra", missing, extra, private)
	}
	w.Log().Reset()
	if s := w.Log().Stats(); s.Requests != 0 || s.Hosts != 0 || len(w.Log().Entries(0)) != 0 || w.Log().Count(Ref{}) != 0 {
		t.Errorf("after Reset: %+v", s)
	}
}

// TestLogTimes runs on a fake clock, so spacing and parallelism are exact.
func TestLogTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustNew(t, Config{Hosts: 2, Port: 80, Latency: func(int, int) time.Duration { return 30 * time.Millisecond }})
		var wg sync.WaitGroup
		ask := func(u string) {
			wg.Go(func() {
				w.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, u, nil))
			})
			synctest.Wait()
		}
		ask(w.URL(Ref{0, 1})) // at 0
		time.Sleep(20 * time.Millisecond)
		ask(w.URL(Ref{0, 2})) // at 20: two at once on host 0
		ask(w.URL(Ref{1, 1})) // at 20: three at once
		if s := w.Log().Stats(); s.Active != 3 {
			t.Errorf("%d under way, want 3", s.Active)
		}
		wg.Wait()
		time.Sleep(50 * time.Millisecond)
		ask(w.URL(Ref{1, 2})) // at 100
		wg.Wait()
		s := w.Log().Stats()
		if s.MinSpacing != 20*time.Millisecond || s.MinSpacingHost != 0 || s.MaxParallel != 3 || s.MaxHostParallel != 2 {
			t.Errorf("stats are %+v", s)
		}
		if h := w.Log().HostStats(1); h.MinSpacing != 80*time.Millisecond || h.MaxParallel != 1 || h.Requests != 2 {
			t.Errorf("host 1 is %+v", h)
		}
		es := w.Log().Entries(0)
		if len(es) != 4 || es[0].Start != 0 || es[0].End != 30*time.Millisecond || es[3].Start != 100*time.Millisecond || es[3].Path != "/p/2" {
			t.Errorf("entries are %+v", es)
		}
	})
}

func TestLogKeepsTheNewest(t *testing.T) {
	w := mustNew(t, Config{LogCapacity: 4, Port: 80})
	for i := range 10 {
		get(w.Handler(), w.URL(Ref{Page: i}))
	}
	es := w.Log().Entries(0)
	if len(es) != 4 || es[0].Seq != 6 || es[3].Seq != 9 || es[3].Path != "/p/9" {
		t.Errorf("entries are %+v", es)
	}
	if es := w.Log().Entries(8); len(es) != 2 || es[0].Seq != 8 {
		t.Errorf("entries from 8 are %+v", es)
	}
	if es := w.Log().Entries(99); len(es) != 0 {
		t.Errorf("entries from 99 are %+v", es)
	}
}
