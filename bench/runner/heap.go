package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	heapEvery = 10 * time.Second
	// heapLooks at a heap make one sample, their median: from moment to moment a
	// tenth of it is under way or is not, and what a worker allocates while its
	// garbage is collected counts as live.
	heapLooks = 10
	heapTime  = 30 * time.Second // for one look

	seenBytes   = 16   // of the seen-set, for each locator known
	flatWithin  = 0.10 // of the median
	flatFrom    = 100_000
	fewestHeaps = 3 // samples, for a judgement
)

// HeapSample is the live heap of all workers together.
type HeapSample struct {
	Pages int64 `json:"pages"` // done at that time
	Bytes int64 `json:"bytes"`
	Known int64 `json:"known"` // locators; with Rest known only at the end of the run
	Rest  int64 `json:"rest"`  // bytes without the seen-set
}

// Heap of the workers over a run, and whether it is flat.
type Heap struct {
	From     int64        `json:"from_pages"` // what is judged
	To       int64        `json:"to_pages"`
	Median   int64        `json:"median_bytes"`
	Farthest float64      `json:"farthest"` // share of the median that a sample is off, at most
	Growth   float64      `json:"growth"`   // of the median of the last third over that of the first, less 1
	Flat     bool         `json:"flat"`
	Samples  []HeapSample `json:"samples"`
}

// sampleHeaps looks at the live heap of workers every ten seconds until ended
// is closed.
func sampleHeaps(ctx context.Context, workers []string, at site, ended <-chan struct{}) (all []HeapSample, err error) {
	every := time.NewTicker(heapEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ended:
			return all, nil
		case <-ctx.Done():
			return all, nil
		}
		var s HeapSample
		for _, w := range workers {
			n, err := liveHeap(ctx, at.client, w)
			if err != nil {
				return all, err
			}
			s.Bytes += n
		}
		// Afterwards: if the crawl ended meanwhile, the sample is of an idle worker.
		var log SiteLog
		if err := at.call(ctx, http.MethodGet, "/__log", &log); err != nil {
			return all, err
		}
		s.Pages = log.Distinct
		all = append(all, s)
	}
}

// liveHeap of one worker after a garbage collection, in bytes.
func liveHeap(ctx context.Context, client *http.Client, worker string) (int64, error) {
	var looks []int64
	for range heapLooks {
		n, err := heapOnce(ctx, client, worker)
		if err != nil {
			return 0, err
		}
		looks = append(looks, n)
	}
	return middle(looks), nil
}

func heapOnce(ctx context.Context, client *http.Client, worker string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, heapTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, worker+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("heap of the worker: it answered %s", res.Status)
	}
	return parseHeap(res.Body)
}

// parseHeap finds the bytes of the heap in a heap profile for people.
func parseHeap(text io.Reader) (int64, error) {
	s := bufio.NewScanner(text)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		if n, ok := strings.CutPrefix(s.Text(), "# HeapAlloc = "); ok {
			return strconv.ParseInt(n, 10, 64)
		}
	}
	return 0, errors.Join(errors.New("heap of the worker: no line HeapAlloc in its profile"), s.Err())
}

// judgeHeap takes the seen-set off each sample and says whether what is left
// is flat: from page 100,000 on, or in a shorter crawl from its tenth on, no
// sample is more than a tenth off the median. Samples after the last page do
// not count: a worker without work holds less.
func judgeHeap(samples []HeapSample, known []knownPages, pages int64) *Heap {
	h := &Heap{From: min(flatFrom, pages/10), Samples: slices.Clone(samples)}
	var rest []int64
	for i := range h.Samples {
		s := &h.Samples[i]
		s.Known = knownAt(known, s.Pages)
		s.Rest = s.Bytes - seenBytes*s.Known
		if s.Pages >= h.From && s.Pages < pages { // with all pages done it is idle
			rest = append(rest, s.Rest)
			h.To = s.Pages
		}
	}
	if len(rest) < fewestHeaps {
		return h
	}
	h.Median = middle(rest)
	for _, n := range rest {
		h.Farthest = max(h.Farthest, math.Abs(float64(n)/float64(h.Median)-1))
	}
	third := (len(rest) + 2) / 3
	h.Growth = float64(middle(rest[len(rest)-third:]))/float64(middle(rest[:third])) - 1
	h.Flat = h.Farthest <= flatWithin
	return h
}

func middle(v []int64) int64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[len(sorted)/2]
}

// knownAt so many pages done; points are in the order of the crawl.
func knownAt(points []knownPages, pages int64) (known int64) {
	for _, p := range points {
		if known = p.Known; p.Pages >= pages {
			break
		}
	}
	return known
}
