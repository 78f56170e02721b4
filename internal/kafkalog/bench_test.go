package kafkalog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
)

// words makes records that compress as text of a page does: 20 KB each.
func words(n int) []kafkalog.Record {
	rng := rand.New(rand.NewPCG(1, 2))
	vocabulary := make([]string, 5000)
	for i := range vocabulary {
		w := make([]byte, 3+rng.IntN(9))
		for j := range w {
			w[j] = byte('a' + rng.IntN(26))
		}
		vocabulary[i] = string(w)
	}
	recs := make([]kafkalog.Record, n)
	for i := range recs {
		v := make([]byte, 0, 20_100)
		for len(v) < 20_000 {
			v = append(append(v, vocabulary[rng.IntN(len(vocabulary))]...), ' ')
		}
		recs[i] = kafkalog.Record{Key: fmt.Appendf(nil, "https://example.org/%d", i), Value: v[:20_000]}
	}
	return recs
}

var codecs = []string{"none", "lz4", "zstd", "snappy"}

// One operation is 40 records of 20 KB, one batch.
const perOp = 40

func benchAppend(b *testing.B, brokers []string) {
	l := logtest.Open(b, brokers)
	recs := words(perOp)
	for _, codec := range codecs {
		b.Run(codec, func(b *testing.B) {
			topic := logtest.Topic(b, l, 1)
			b.SetBytes(perOp * 20_000)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.AppendWith(b.Context(), topic, 0, recs, codec); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*perOp/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func benchRead(b *testing.B, brokers []string) {
	const batches = 50
	l := logtest.Open(b, brokers)
	for _, codec := range codecs {
		b.Run(codec, func(b *testing.B) {
			topic := logtest.Topic(b, l, 1)
			recs := words(perOp)
			for range batches {
				if _, err := l.AppendWith(b.Context(), topic, 0, recs, codec); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(batches * perOp * 20_000)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				_, err := l.ReadRange(b.Context(), topic, 0, 0, batches*perOp, func(r kafkalog.Record) error { n++; return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	brokers, _ := cluster(b)
	benchAppend(b, brokers)
}

func BenchmarkRead(b *testing.B) {
	brokers, _ := cluster(b)
	benchRead(b, brokers)
}
