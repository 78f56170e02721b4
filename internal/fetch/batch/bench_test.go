package batch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"trawl/internal/contract"
)

// BenchmarkRun asks one loopback host without delay for 20 KB pages with 60
// links each, the site in the same process, the log discarding. It reports
// pages per second.
func BenchmarkRun(b *testing.B) {
	for _, par := range []int{8, 16} {
		b.Run(fmt.Sprintf("parallelism=%d", par), func(b *testing.B) {
			var body strings.Builder
			for i := range 60 {
				fmt.Fprintf(&body, "<p>%s <a href=\"/page/%d.html\">link</a>\n", strings.Repeat("some words of text ", 16), i)
			}
			page := []byte("<!doctype html><title>t</title>" + body.String())
			s := newSite(b, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = w.Write(page)
			})
			u := newSetup(b, s)
			u.spec.Politeness.Parallelism = par
			u.host().Parallelism = par
			u.log.discard = true
			u.job.Run.Shards, u.job.Run.Partitions = 8, 8
			b.ReportAllocs()
			b.SetBytes(int64(len(page)))
			u.prepare()
			b.ResetTimer()
			for done := 0; done < b.N; done += 500 {
				u.host().Items = nil
				for i := range 500 {
					u.host().Items = append(u.host().Items, contract.Item{Path: fmt.Sprintf("/p/%d/%d", done, i)})
				}
				u.job.HardEnd = time.Now().Add(time.Minute)
				if _, err := u.runner.Run(b.Context(), u.job); err != nil {
					b.Fatal(err)
				}
				s.hits = nil
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}
