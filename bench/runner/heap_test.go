package runner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// heaps are samples of a crawl of a million pages, one every 50,000.
func heaps(bytes func(pages int64) int64) (all []HeapSample) {
	for pages := int64(50_000); pages <= 1_000_000; pages += 50_000 {
		all = append(all, HeapSample{Pages: pages, Bytes: bytes(pages)})
	}
	return all
}

func TestJudgeHeap(t *testing.T) {
	const mb = 1 << 20
	// Twice as many locators are known as pages are done, up to the million.
	var known []knownPages
	for pages := int64(1000); pages <= 1_000_000; pages += 1000 {
		known = append(known, knownPages{pages, min(2*pages, 1_000_000)})
	}
	seen := func(pages int64) int64 { return seenBytes * min(2*pages, 1_000_000) }
	for name, c := range map[string]struct {
		bytes func(pages int64) int64
		flat  bool
	}{
		"flat but for the seen-set": {func(p int64) int64 { return 60*mb + seen(p) }, true},
		"noise of 9 %":              {func(p int64) int64 { return 60*mb + seen(p) + 54*mb/10*(p/50_000%3-1) }, true},
		"one sample too high": {func(p int64) int64 {
			if p == 500_000 {
				return 67*mb + seen(p)
			}
			return 60*mb + seen(p)
		}, false},
		"grows by 24 bytes a page":       {func(p int64) int64 { return 60*mb + seen(p) + 24*p }, false},
		"a seen-set of twice the size":   {func(p int64) int64 { return 60*mb + 2*seen(p) }, false},
		"idle at the end":                {func(p int64) int64 { return 60*mb + seen(p) - 40*mb*(p/1_000_000) }, true},
		"larger only before the 100,000": {func(p int64) int64 { return 60*mb + seen(p) + 90*mb*(50_000/p) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := judgeHeap(heaps(c.bytes), known, 1_000_000)
			if h.Flat != c.flat || h.From != flatFrom || h.To != 950_000 {
				t.Errorf("judged %+v, want flat %v", h, c.flat)
			}
			if (h.Growth > 0.2) != strings.HasPrefix(name, "grows") {
				t.Errorf("it grows by %.2f", h.Growth)
			}
		})
	}
	if h := judgeHeap(heaps(seen)[:3], known, 1_000_000); h.Flat || h.Median != 0 {
		t.Errorf("two samples are judged %+v, want no judgement", h)
	}
	if h := judgeHeap(nil, nil, 5000); h.From != 500 || h.Flat {
		t.Errorf("a crawl of 5,000 pages without samples: %+v", h)
	}
}

func TestHeapGoal(t *testing.T) {
	for farthest, reached := range map[float64]bool{0.08: true, 0.12: false} {
		r := shown("small", map[string]float64{trawl1: 900}, func(_ string, x *Run) {
			x.Heap = &Heap{Median: 1 << 20, Farthest: farthest, Samples: []HeapSample{{Pages: 7}}}
		})
		if g := result(t, r, "live heap"); g == nil || g.Reached != reached {
			t.Errorf("a heap %g off its median is shown as %+v", farthest, g)
		}
		if s := text(t, r); !strings.Contains(s, "7 pages") {
			t.Errorf("the report has no samples:\n%s", s)
		}
	}
}

func TestLiveHeapIsTheMedianOfItsLooks(t *testing.T) {
	looks := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("gc") != "1" || r.URL.Path != "/debug/pprof/heap" {
			http.NotFound(w, r)
			return
		}
		sizes := []int{300, 100, 200}
		fmt.Fprintf(w, "heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 7\n# HeapAlloc = %d\n", sizes[looks%3])
		looks++
	}))
	defer s.Close()
	if n, err := liveHeap(t.Context(), s.Client(), s.URL); err != nil || n != 200 || looks != heapLooks {
		t.Errorf("%d bytes after %d looks, %v; want 200 after %d", n, looks, err, heapLooks)
	}
	if _, err := liveHeap(t.Context(), s.Client(), s.URL+"/elsewhere"); err == nil {
		t.Error("a worker without profiles is no error")
	}
	if _, err := parseHeap(strings.NewReader("nothing\n")); err == nil {
		t.Error("a profile without the heap is no error")
	}
}

func TestSamplingEndsWithTheCrawl(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	began := time.Now()
	if all, err := sampleHeaps(t.Context(), nil, site{}, ended); err != nil || len(all) != 0 || time.Since(began) > heapEvery {
		t.Errorf("%d samples, %v", len(all), err)
	}
}
