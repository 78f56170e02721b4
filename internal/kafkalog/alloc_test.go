//go:build !race

package kafkalog

import "testing"

// TestEncodeAllocates: nothing, however many records. The race detector empties
// pools, so it is left out here.
func TestEncodeAllocates(t *testing.T) {
	recs := make([]Record, 40)
	for i := range recs {
		recs[i] = Record{Key: text(60), Value: text(20_000), Time: noon, Headers: []Header{{"h", []byte("v")}}}
	}
	for _, with := range []codec{noCodec, snappyCodec} {
		buf := make([]byte, 0, batchBound(recs, with))
		plain := make([]byte, 0, sizeOf(recs))
		times := spanOf(recs, noon)
		got := testing.AllocsPerRun(20, func() {
			b := append(buf, make([]byte, batchHeader)...)
			if with == noCodec {
				b = appendRecords(b, recs, times.first, noon)
			} else {
				plain = appendRecords(plain[:0], recs, times.first, noon)
				b = appendSnappy(b, plain)
			}
			sealBatch(b, with, len(recs), times)
		})
		if got != 0 {
			t.Errorf("codec %d: %v allocations per batch", with, got)
		}
	}
}
