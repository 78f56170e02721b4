package files_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trawl/internal/sink"
	"trawl/internal/sink/files"
	"trawl/internal/sink/sinktest"
)

// TestConformance: case Search does not apply, files have no index of words. All
// other cases find their documents by reading the lines, as people would.
func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		dir := t.TempDir()
		return sinktest.Harness{
			Process: func(*testing.T) sink.Admin { return files.New(dir) },
			Find: func(t *testing.T, alias, query string, limit int) ([]sink.Hit, int64, error) {
				folder := filepath.Join(dir, "current", alias)
				if _, err := os.Stat(folder); err != nil {
					_, _, err := files.New(dir).Search(t.Context(), alias, query, limit)
					return nil, 0, err
				}
				hits := find(newest(t, folder), query)
				return hits, int64(len(hits)), nil
			},
		}
	})
}

// row is a line as somebody else would read it.
type row struct {
	ID      string         `json:"id"`
	Version int64          `json:"version"`
	Index   string         `json:"index"`
	Deleted bool           `json:"deleted"`
	Doc     map[string]any `json:"doc"`
	Slice   map[string]any `json:"slice"`
}

// rows reads every line below a folder, but the last of each file.
func rows(t *testing.T, folder string) (all []row) {
	t.Helper()
	for _, name := range names(t, folder) {
		all = append(all, rowsOf(t, name)...)
	}
	return all
}

// names lists the files below a folder, which may be a symbolic link.
func names(t *testing.T, folder string) (list []string) {
	t.Helper()
	folder, err := filepath.EvalSymlinks(folder)
	must(t, err)
	must(t, filepath.WalkDir(folder, func(name string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".jsonl") {
			list = append(list, name)
		}
		return err
	}))
	return list
}

func rowsOf(t *testing.T, name string) (all []row) {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	lines := bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
	for i, l := range lines {
		var r row
		if err := json.Unmarshal(l, &r); err != nil {
			t.Fatalf("%s line %d: %v: %.100s", name, i+1, err, l)
		}
		last := i == len(lines)-1
		if last != (r.Slice != nil) {
			t.Fatalf("%s line %d of %d: %.100s", name, i+1, len(lines), l)
		}
		if !last {
			all = append(all, r)
		}
	}
	return all
}

// newest is what counts: of each id the highest version, and the last line of it.
func newest(t *testing.T, folder string) map[string]row {
	t.Helper()
	docs := map[string]row{}
	for _, r := range rows(t, folder) {
		if old, ok := docs[r.ID]; !ok || r.Version >= old.Version {
			docs[r.ID] = r
		}
	}
	return docs
}

// find gives the documents that hold all words and phrases.
func find(docs map[string]row, query string) (hits []sink.Hit) {
	for id, r := range docs {
		text := strings.ToLower(fmt.Sprint(r.Doc["title"], " ", r.Doc["text"]))
		missing := slices.ContainsFunc(sink.ParseQuery(query), func(w sink.Term) bool { return !strings.Contains(text, strings.ToLower(w.Text)) })
		if title, ok := r.Doc["title"].(string); ok && !r.Deleted && !missing {
			hits = append(hits, sink.Hit{ID: id, Title: title})
		}
	}
	return hits
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
