package load

import (
	"encoding/json"
	"testing"
	"time"
)

// Documents are objects of about the size, and no two are the same.
func TestDocument(t *testing.T) {
	seen := map[string]bool{}
	for _, size := range []int{1 << 10, 5 << 10} {
		for n := range 300 {
			d := document(n, size)
			if !json.Valid(d) || len(d) > size+20 || len(d) < size-20 || seen[string(d)] {
				t.Fatalf("document %d of %d bytes has %d, valid %v, seen %v", n, size, len(d), json.Valid(d), seen[string(d)])
			}
			seen[string(d)] = true
		}
	}
}

func TestMedian(t *testing.T) {
	u := func(n int) usage { return usage{docs: n, took: time.Second} }
	if m := median([]usage{u(9), u(1), u(5)}, usage.rate); m != 5 {
		t.Error(m)
	}
	if m := median([]usage{u(9), u(1)}, usage.rate); m != 5 {
		t.Error(m)
	}
	if m := median(nil, usage.rate); m != 0 {
		t.Error(m)
	}
}

// The bulks of the ceiling have as many documents as a loader's.
func TestKeep(t *testing.T) {
	b := &bench{cfg: Config{BatchBytes: 5 << 20, BatchCount: 5000}, size: Size{5 << 10, 3000}, topic: "t"}
	free := b.keep()
	if len(b.kept) != 3 || b.perBulk() != 1025 {
		t.Errorf("%d bulks of %d", len(b.kept), b.perBulk())
	}
	if free(); b.kept != nil {
		t.Error("the bulks stay")
	}
}
