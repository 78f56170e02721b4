package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"trawl/internal/sink"
	"trawl/internal/sink/sinktest"
	"trawl/internal/sink/sqlite"
)

const index = "crawl-20260102t030405"

// childDir makes this test binary a writer process.
const childDir = "TRAWL_TEST_SQLITE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

// child writes batches for ever and says so after each acknowledgement.
func child(dir string) {
	s, err := sqlite.New(dir).Open(context.Background(), index)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for n := 0; ; n++ {
		if _, err := s.Write(context.Background(), childBatch(n)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("acknowledged", n)
	}
}

func childBatch(n int) []sink.Op {
	ops := make([]sink.Op, 20)
	for i := range ops {
		ops[i] = sinktest.Op(fmt.Sprintf("child-%d-%d", n, i), 1, "t", "apple")
	}
	return ops
}

func prepared(t testing.TB) (dir string, a *sqlite.Admin, s sink.Sink) {
	t.Helper()
	dir = t.TempDir()
	a = sqlite.New(dir)
	if err := a.Prepare(t.Context(), "crawl", index, true); err != nil {
		t.Fatal(err)
	}
	s, err := a.Open(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return dir, a, s
}

// Two processes write at once; one is killed with -9 in the middle. All that
// either was told is there, and the survivor goes on.
func TestKilledWriter(t *testing.T) {
	dir, a, s := prepared(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := -1
	lines := bufio.NewScanner(out)
	for own := 0; lines.Scan(); own++ {
		if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &acknowledged); err != nil {
			t.Fatalf("child says %q", lines.Text())
		}
		if _, err := s.Write(t.Context(), []sink.Op{sinktest.Op(fmt.Sprintf("own-%d", own), 1, "t", "pear")}); err != nil {
			t.Fatal(err)
		}
		if own == 15 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	for n := range acknowledged + 1 {
		r, err := s.Write(t.Context(), []sink.Op{{ID: fmt.Sprintf("child-%d-19", n), Version: 0, Delete: true}})
		if err != nil {
			t.Fatal(err)
		}
		if r[0].Outcome != sink.Superseded {
			t.Fatalf("batch %d of %d was acknowledged and is lost", n, acknowledged)
		}
	}
	if n, err := a.Count(t.Context(), index); err != nil || n < int64(20*(acknowledged+1)) || (n-own(t, a))%20 != 0 {
		t.Fatalf("%d documents, %v: a batch is there in part", n, err)
	}
}

// own counts what this process wrote: there may be more than a search lists.
func own(t *testing.T, a *sqlite.Admin) int64 {
	t.Helper()
	_, total, err := a.Search(t.Context(), "crawl", "pear", 1)
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// Searches beside a writer see whole batches and never wait for it.
func TestSearchWhileWriting(t *testing.T) {
	dir, _, s := prepared(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		for n := range 60 {
			if _, err := s.Write(t.Context(), childBatch(n)); err != nil {
				t.Error(err)
			}
		}
	})
	reader := sqlite.New(dir)
	for ctx.Err() == nil {
		_, total, err := reader.Search(t.Context(), "crawl", "apple", 1)
		if err != nil || total%20 != 0 {
			t.Fatalf("%d hits, %v", total, err)
		}
	}
	wg.Wait()
}

func TestOtherSchema(t *testing.T) {
	dir, a, s := prepared(t)
	_ = s.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "index", index+".db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	for name, f := range map[string]func() error{
		"Prepare": func() error { return a.Prepare(t.Context(), "crawl", index, false) },
		"Open":    func() error { _, err := a.Open(t.Context(), index); return err },
		"Count":   func() error { _, err := a.Count(t.Context(), index); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "version 99") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	dir, a, s := prepared(t)
	_ = s.Close()
	alias := filepath.Join(dir, "index", "crawl.alias")
	if err := os.WriteFile(alias, []byte("../../etc/passwd\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Search(t.Context(), "crawl", "x", 1); err == nil {
		t.Error("an alias that leaves the directory was followed")
	}
	if err := os.WriteFile(filepath.Join(dir, "index", index+".db"), []byte(strings.Repeat("no database ", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Open(t.Context(), index); err == nil {
		t.Error("a file that is no database was opened")
	}
}

// A lock that another process holds for too long is "unavailable", and the
// write passes once it is gone.
func TestLockedByAnother(t *testing.T) {
	dir, _, s := prepared(t)
	db, err := sql.Open("sqlite", filepath.Join(dir, "index", index+".db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Write(ctx, childBatch(0))
		done <- err
	}()
	cancel()
	if err := <-done; err == nil {
		t.Fatal("a write passed another's lock")
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), childBatch(0)); err != nil {
		t.Fatal(err)
	}
}

func TestClosedWriter(t *testing.T) {
	_, a, s := prepared(t)
	other, err := a.Open(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), childBatch(0)); err == nil {
		t.Error("a closed writer writes")
	}
	if _, err := other.Write(t.Context(), childBatch(0)); err != nil {
		t.Error(err)
	}
	_ = other.Close()
}

// Every page repeats one word a hundred thousand times: a search must not take
// time by the square of that.
func TestHostileRepetition(t *testing.T) {
	_, a, s := prepared(t)
	if _, err := s.Write(t.Context(), []sink.Op{sinktest.Op("big", 1, "t", strings.Repeat("word ", 200_000))}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20e9)
	defer cancel()
	hits, _, err := a.Search(ctx, "crawl", "word", 10)
	if err != nil || len(hits) != 1 || len(hits[0].Snippet) > 300 || !strings.HasPrefix(hits[0].Snippet, "word word") {
		t.Fatalf("got %v, %v", hits, err)
	}
}

func benchOps(n int) []sink.Op {
	ops := make([]sink.Op, n)
	var b strings.Builder
	for i := range ops {
		b.Reset()
		for w := 0; b.Len() < 5000; w++ {
			fmt.Fprintf(&b, "word%d ", (i*31+w*17)%9973)
		}
		ops[i] = sinktest.Op(fmt.Sprintf("https://example.org/%d", i), 1, "title", b.String())
	}
	return ops
}

// BenchmarkWrite writes batches of 1000 documents of 5 KB; BenchmarkBare is the
// floor: the same rows and index without versions, in the same transactions.
func BenchmarkWrite(b *testing.B) {
	ops := benchOps(1000)
	_, _, s := prepared(b)
	n := 0
	for b.Loop() {
		for i := range ops {
			ops[i].ID = fmt.Sprintf("https://example.org/%d/%d", n, i)
		}
		n++
		if _, err := s.Write(b.Context(), ops); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n*len(ops))/b.Elapsed().Seconds(), "docs/s")
}

func BenchmarkBare(b *testing.B) {
	ops := benchOps(1000)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(2)&_pragma=cache_size(-32768)&_pragma=wal_autocheckpoint(4000)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range []string{
		`CREATE TABLE documents (docid INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, doc TEXT)`,
		`CREATE VIRTUAL TABLE words USING fts5(title, text, content='', tokenize="unicode61 remove_diacritics 2")`,
	} {
		if _, err := db.Exec(s); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		row, _ := tx.Prepare(`INSERT INTO documents (id, doc) VALUES (?, ?)`)
		words, _ := tx.Prepare(`INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)`)
		for i := range ops {
			r, err := row.Exec(fmt.Sprintf("https://example.org/%d/%d", n, i), string(ops[i].Doc))
			if err != nil {
				b.Fatal(err)
			}
			id, _ := r.LastInsertId()
			if _, err := words.Exec(id, "title", string(ops[i].Doc[40:len(ops[i].Doc)-50])); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(n*len(ops))/b.Elapsed().Seconds(), "docs/s")
}
