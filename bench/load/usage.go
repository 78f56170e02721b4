package load

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"syscall"
	"time"
)

// usage is what a leg took.
type usage struct {
	docs      int
	took, cpu time.Duration // cpu of this process
	live      [4]float64    // MB of live heap: the median of each quarter of the time
}

func (u usage) rate() float64   { return float64(u.docs) / u.took.Seconds() }
func (u usage) perDoc() float64 { return float64(u.cpu.Microseconds()) / float64(u.docs) }

const sampleEvery = 100 * time.Millisecond

// watch runs a leg and samples the heap beside it.
func watch(run func() (int, error)) (usage, error) {
	debug.FreeOSMemory()
	stop, sampled := make(chan struct{}), make(chan []float64)
	go func() {
		var heap []float64
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				heap = append(heap, heapMB())
			case <-stop:
				sampled <- heap
				return
			}
		}
	}()
	began, cpu := time.Now(), cpuTime()
	n, err := run()
	u := usage{docs: n, took: time.Since(began), cpu: cpuTime() - cpu}
	close(stop)
	heap := <-sampled
	for q := range u.live {
		u.live[q] = middle(heap[len(heap)*q/len(u.live) : len(heap)*(q+1)/len(u.live)])
	}
	runtime.KeepAlive(heap)
	return u, err
}

func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// heapMB is what the last collection of garbage has left.
func heapMB() float64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64()) / (1 << 20)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
