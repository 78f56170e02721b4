package web

import (
	"math"
	"time"
)

// Heavy-tailed latencies: most answers within tenths of a second, one in 25
// later than a second, and hosts that differ.
const (
	tailLeast = 0.03 // seconds
	tailMost  = 8 * time.Second
	tailHosts = 2.5 // exponents of the two Pareto distributions: of hosts,
	tailPages = 1.1 // and of the pages of a host
)

// HeavyTail is a Latency: the product of two Pareto distributions, one over
// hosts and one over the pages of a host, cut at eight seconds. It is a
// function of seed, host and page.
func HeavyTail(seed uint64) func(host, page int) time.Duration {
	w := Web{cfg: Config{Seed: seed}}
	return func(host, page int) time.Duration {
		s := tailLeast * pareto(w.hash(Ref{Host: host}, forLatency), tailHosts) * pareto(w.hash(Ref{host, page}, forLatency+1), tailPages)
		return min(time.Duration(s*float64(time.Second)), tailMost)
	}
}

// pareto maps a hash to a number of at least 1 that exceeds x with
// probability 1 / x^exponent.
func pareto(h uint64, exponent float64) float64 {
	return math.Pow((float64(h>>11)+1)/(1<<53), -1/exponent)
}
