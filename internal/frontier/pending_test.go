package frontier

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Every pending is a queue whose visits may drop any record: both kinds, with
// windows from tiny to ample.
func TestPendingConformance(t *testing.T) {
	dir := t.TempDir()
	for _, limit := range []int{-1, 1, 2, 7, 300, 1 << 20} {
		t.Run(fmt.Sprint("window ", limit), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { testPending(t, dir, limit) })
		})
	}
}

func testPending(t *rapid.T, dir string, limit int) {
	p := &pool{limit: limit, scratch: scratch{dir: dir}}
	defer p.scratch.close()
	queues := make([]pending, 3)
	for i := range queues {
		queues[i] = &spilling{pool: p}
		if limit < 0 {
			queues[i] = &memoryPending{}
		}
	}
	want := make([][]record, len(queues))
	next := uint64(0)
	for range rapid.IntRange(0, 25).Draw(t, "steps") {
		i := rapid.IntRange(0, len(queues)-1).Draw(t, "queue")
		q := queues[i]
		if rapid.Bool().Draw(t, "push") {
			for range rapid.SampledFrom([]int{1, 2, 200}).Draw(t, "times") {
				next++
				r := record{hash: next * 0x9e3779b97f4a7c15, due: int64(next % 3), blob: fmt.Sprint("h/", next)}
				if err := q.push(r); err != nil {
					t.Fatal(err)
				}
				want[i] = append(want[i], r)
			}
			if limit > 0 && p.records > limit {
				t.Fatalf("%d records in memory, limit %d", p.records, limit)
			}
			continue
		}
		n := rapid.IntRange(0, 300).Draw(t, "visits")
		dropEach := rapid.IntRange(1, 4).Draw(t, "drop each")
		var got, rest []record
		if err := q.visit(func(r record) step {
			if len(got) == n {
				return stop
			}
			got = append(got, r)
			if len(got)%dropEach == 0 {
				return drop
			}
			rest = append(rest, r)
			return keep
		}); err != nil {
			t.Fatal(err)
		}
		seen := min(n, len(want[i]))
		if !slices.Equal(got, want[i][:seen]) {
			t.Fatalf("visited %v, want %v", got, want[i][:seen])
		}
		want[i] = append(rest, want[i][seen:]...)
		if q.empty() != (len(want[i]) == 0) {
			t.Fatalf("empty = %v with %d records", q.empty(), len(want[i]))
		}
		if err := p.trim(); err != nil {
			t.Fatal(err)
		}
		if limit > 0 && p.records > limit {
			t.Fatalf("%d records in memory, limit %d", p.records, limit)
		}
	}
	for i, q := range queues {
		var got []record
		if err := q.visit(func(r record) step { got = append(got, r); return drop }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want[i]) {
			t.Fatalf("queue %d holds %v, want %v", i, got, want[i])
		}
		if !q.empty() {
			t.Fatalf("queue %d is not empty", i)
		}
	}
	if p.records != 0 || p.scratch.live != 0 || p.scratch.flushed != 0 {
		t.Fatalf("left: %d records, %d chunks, %d bytes", p.records, p.scratch.live, p.scratch.flushed)
	}
}

// Chains reach into the file as well as into the buffer before it.
func TestScratchBeyondItsBuffer(t *testing.T) {
	dir := t.TempDir()
	s := scratch{dir: dir}
	var chains [3]chain
	payload := func(i int) []byte { return []byte(fmt.Sprintf("%0*d", i%5000, i)) }
	for i := range 3000 {
		if err := s.pushBack(&chains[i%3], payload(i)); err != nil {
			t.Fatal(err)
		}
	}
	if s.flushed == 0 {
		t.Fatal("nothing was written")
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Fatalf("%v outlives the process", files)
	}
	for i := range 3000 {
		got, err := s.popFront(&chains[i%3])
		if err != nil || string(got) != string(payload(i)) {
			t.Fatalf("chunk %d: %d bytes, %v", i, len(got), err)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// An unusable directory is an error once, then the state begins anew.
func TestScratchFailureIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	s := New(Options{Depth: -1, WindowURLs: 1, ScratchDir: dir})
	var failed error
	n := 0
	for ; failed == nil && n < 100_000; n++ {
		failed = fold(s, int64(n), Discovered{URL: fmt.Sprintf("http://a.example/%0900d", n)})
	}
	if !errors.Is(failed, os.ErrNotExist) {
		t.Fatalf("after %d facts: %v", n, failed)
	}
	if s.Position() != 0 || s.Totals().Locators != 0 {
		t.Fatalf("position %d, totals %+v; want a new state", s.Position(), s.Totals())
	}
}

func fold(s *State, offset int64, f Fact) error {
	key, value := f.Record()
	return s.Fold(offset, key, value)
}
