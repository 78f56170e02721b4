package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"trawl/internal/sink"
	"trawl/internal/sink/sqlite"
)

// Any sequence of writes leaves what the version rule says, and a full text
// index that agrees with the documents word by word.
func TestModel(t *testing.T) {
	docs := []string{
		`{"title":"one","text":"apple pear"}`, `{"title":"two","headings":["a","b"],"text":"Äpfel \u0000 x"}`, `{}`,
		`{"title":{"odd":1},"text":7,"description":null}`, `{"title":"t","title":"again","text":["x",{"y":"z"}]}`, ` {"other":"no text"} `,
	}
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		must(t, err)
		a := sqlite.New(dir)
		must(t, a.Prepare(t.Context(), "crawl", index, true))
		s, err := a.Open(t.Context(), index)
		must(t, err)
		model := map[string]sink.Op{}
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sink.Op {
				op := sink.Op{ID: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "id")), Version: rapid.Int64Range(0, 4).Draw(t, "version")}
				if op.Delete = rapid.Bool().Draw(t, "delete"); !op.Delete {
					op.Doc = []byte(rapid.SampledFrom(docs).Draw(t, "doc"))
				}
				return op
			}), 0, 8).Draw(t, "ops")
			results, err := s.Write(t.Context(), ops)
			must(t, err)
			for i, op := range ops {
				want := sink.Loaded
				if old, ok := model[op.ID]; ok && old.Version > op.Version {
					want = sink.Superseded
				} else {
					model[op.ID] = op
				}
				if results[i].Outcome != want {
					t.Fatalf("op %+v: %+v, want %d", op, results[i], want)
				}
			}
		}
		must(t, s.Close())
		compare(t, filepath.Join(dir, "index", index+".db"), model)
	})
}

func compare(t *rapid.T, path string, model map[string]sink.Op) {
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	_, err = db.Exec(`INSERT INTO words (words, rank) VALUES ('integrity-check', 1)`)
	must(t, err)
	rows, err := db.Query(`SELECT id, version, deleted, coalesce(doc, '') FROM documents`)
	must(t, err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		var got sink.Op
		var doc string
		must(t, rows.Scan(&got.ID, &got.Version, &got.Delete, &doc))
		want := model[got.ID]
		if n++; got.Version != want.Version || got.Delete != want.Delete || doc != string(want.Doc) {
			t.Fatalf("%+v %q, want %+v", got, doc, want)
		}
	}
	if n != len(model) {
		t.Fatalf("%d rows, want %d", n, len(model))
	}
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
