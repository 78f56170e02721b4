package frontier

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab table
		want := map[uint64]uint64{}
		// few segments and hashes close together, so that runs are long
		hash := rapid.Custom(func(t *rapid.T) uint64 {
			base := rapid.SampledFrom([]uint64{0, 1, 1 << 56, 1<<56 - 40, 1<<64 - 300}).Draw(t, "base")
			return base + rapid.Uint64Range(0, 290).Draw(t, "plus")
		})
		for range rapid.IntRange(0, 400).Draw(t, "puts") {
			h, w := hash.Draw(t, "hash"), rapid.Uint64Range(1, wordMask).Draw(t, "word")
			if h&hashMask == 0 {
				h++ // the hash 0 is taken for 1
			}
			tab.put(h, w)
			want[h] = w
		}
		if tab.len != len(want) {
			t.Fatalf("len = %d, want %d", tab.len, len(want))
		}
		for h, w := range want {
			if got := tab.get(h); got != w {
				t.Fatalf("get(%x) = %x, want %x", h, got, w)
			}
		}
		for range 50 {
			if h := hash.Draw(t, "other"); h&hashMask != 0 && tab.get(h) != want[h] {
				t.Fatalf("get(%x) = %x, want %x", h, tab.get(h), want[h])
			}
		}
	})
}

// Invariant 9: at most 16 bytes per locator, at any size.
func TestTableMemory(t *testing.T) {
	var tab table
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 1_000_000; n++ {
		tab.put(rnd.Uint64(), uint64(n))
		if n >= 200_000 && n%50_000 == 0 {
			if per := float64(tab.bytes()) / float64(n); per > 16 {
				t.Errorf("%d entries: %.2f bytes each", n, per)
			}
		}
	}
	rnd = rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 1_000_000; n++ {
		if got := tab.get(rnd.Uint64()); got != uint64(n) {
			t.Fatalf("entry %d = %d", n, got)
		}
	}
	t.Logf("%.2f bytes per entry", float64(tab.bytes())/float64(tab.len))
}

func BenchmarkTablePut(b *testing.B) {
	var tab table
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := 0; b.Loop(); n++ {
		if n == 4_000_000 {
			tab, n = table{}, 0
		}
		tab.put(rnd.Uint64(), 1)
	}
}
