package web

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// enter makes the log of our own hand: requests of host and path, in seconds.
type asked struct {
	host       int
	path       string
	start, end float64
}

func enter(t *testing.T, w *Web, all ...asked) {
	t.Helper()
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for i, a := range all {
		w.log.ring = append(w.log.ring, Entry{Seq: int64(i), Host: a.host, Path: a.path, Start: at(a.start), End: at(a.end), Status: 200})
		w.log.seq++
	}
}

func TestIdeal(t *testing.T) {
	for name, c := range map[string]struct {
		log      []asked
		possible float64
	}{
		// Page 0 links to 1 and 2. A second between starts is all there can be.
		"perfect": {[]asked{{0, "/robots.txt", 0, 0}, {0, "/", 1, 1}, {0, "/p/1", 2, 2}, {0, "/p/2", 3, 3}}, 4},
		// Two seconds late: six seconds of work for four requests.
		"late": {[]asked{{0, "/robots.txt", 0, 0}, {0, "/", 1, 1}, {0, "/p/1", 4, 4}, {0, "/p/2", 5, 5}}, 6},
		// An answer of three seconds takes three of its host; its links are known after it.
		"slow": {[]asked{{0, "/", 0, 3}, {0, "/p/1", 3, 3}, {0, "/p/2", 4, 4}}, 3},
		// Page 2 was known from 0 on and never asked for: work until the last end.
		"missed": {[]asked{{0, "/", 0, 0}, {0, "/p/1", 1, 5}}, 5 / 2.5},
		"none":   {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := mustNew(t, Config{Seed: 1, PagesPerHost: 3, Links: 4, Port: 80})
			enter(t, w, c.log...)
			got, err := w.Ideal(time.Second, false)
			if err != nil || got.Requests != len(c.log) || math.Abs(got.Possible-c.possible) > 1e-6 {
				t.Errorf("ideal is %+v, %v; want %g requests possible", got, err, c.possible)
			}
		})
	}
}

// TestIdealOfTwoHosts: a host has no work before a page of it is known.
func TestIdealOfTwoHosts(t *testing.T) {
	w := mustNew(t, Config{Seed: 1, Hosts: 2, PagesPerHost: 1, Links: 2, Port: 80})
	enter(t, w, asked{0, "/", 10, 12}, asked{1, "/", 16, 16})
	got, err := w.Ideal(time.Second, false)
	// Host 0: one request of 2 s. Host 1: known at 12, asked at 16, 1 s delay.
	if err != nil || math.Abs(got.Possible-6) > 1e-6 || got.Seconds != 6 || math.Abs(got.Share-2.0/6) > 1e-6 {
		t.Errorf("ideal is %+v, %v; want 6 possible in 6 seconds", got, err)
	}
	got, err = w.Ideal(time.Second, true)
	// Seeded, host 1 was known at 10.
	if err != nil || math.Abs(got.Possible-8) > 1e-6 {
		t.Errorf("ideal of a crawl with both as seeds is %+v, %v; want 8 possible", got, err)
	}
}

func TestUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "spans")
		covered := map[int]bool{}
		spans := make([]span, n)
		for i := range spans {
			from := rapid.IntRange(0, 30).Draw(t, "from")
			to := rapid.IntRange(0, 30).Draw(t, "to") // a span that ends before it begins is empty
			spans[i] = span{time.Duration(from), time.Duration(to)}
			for k := from; k < to; k++ {
				covered[k] = true
			}
		}
		if got := union(spans); got != time.Duration(len(covered)) {
			t.Fatalf("union of %v is %d, want %d", spans, got, len(covered))
		}
	})
}

func TestProgress(t *testing.T) {
	w := mustNew(t, Config{Seed: 1, PagesPerHost: 50, Links: 6, Port: 80})
	h := w.Handler()
	known := map[Ref]bool{{}: true}
	for page := range 50 {
		get(h, w.URL(Ref{Page: page}))
	}
	got, err := w.Progress(1000)
	if err != nil || len(got) != 50 {
		t.Fatalf("%d points, %v; want one for each request", len(got), err)
	}
	for page := range 50 {
		known[Ref{Page: page}] = true
		for _, l := range w.Links(nil, Ref{Page: page}) {
			known[l] = true
		}
		if want := (Progress{Pages: page + 1, Known: len(known)}); got[page] != want {
			t.Fatalf("after page %d: %+v, want %+v", page, got[page], want)
		}
	}
	if got, err := w.Progress(5); err != nil || len(got) < 5 || len(got) > 7 {
		t.Errorf("%d points, %v; want about 5", len(got), err)
	}
}

func TestALogThatIsCutAnswersNothing(t *testing.T) {
	w := mustNew(t, Config{LogCapacity: 2, Port: 80})
	for page := range 3 {
		get(w.Handler(), w.URL(Ref{Page: page}))
	}
	if _, err := w.Progress(1); !errors.Is(err, errCut) {
		t.Errorf("progress: %v", err)
	}
	if _, err := w.Ideal(time.Second, false); !errors.Is(err, errCut) {
		t.Errorf("ideal: %v", err)
	}
}

func TestHeavyTail(t *testing.T) {
	lat := HeavyTail(1)
	var sum time.Duration
	late, n := 0, 0
	for host := range 2000 {
		for page := range 40 {
			d := lat(host, page)
			if d != lat(host, page) || d > tailMost || d.Seconds() < tailLeast-1e-9 {
				t.Fatalf("latency of page %d of host %d is %s", page, host, d)
			}
			sum += d
			n++
			if d > time.Second {
				late++
			}
		}
	}
	mean, share := sum/time.Duration(n), float64(late)/float64(n)
	if mean < 100*time.Millisecond || mean > 500*time.Millisecond || share < 0.02 || share > 0.06 {
		t.Errorf("mean %s, %.1f %% later than a second", mean, 100*share)
	}
}
