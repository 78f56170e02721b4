package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// file is one parsed Go file of the repository.
type file struct {
	dir  string // slash-separated, relative to the repository; "." is its root
	name string
	test bool
	ast  *ast.File
	fset *token.FileSet
}

func (f file) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", path.Join(f.dir, f.name), f.fset.Position(n.Pos()).Line)
}

// imports of the file: path to local name.
func (f file) imports() map[string]string {
	m := map[string]string{}
	for _, s := range f.ast.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			continue
		}
		m[p] = localName(p)
		if s.Name != nil {
			m[p] = s.Name.Name
		}
	}
	return m
}

// localName guesses the package name as Go's conventions have it.
func localName(p string) string {
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(p))
	}
	return strings.TrimSuffix(strings.TrimPrefix(base, "go-"), "-go")
}

// parse reads every Go file of a tree but for hidden, vendored and testdata
// directories and what builds leave behind.
func parse(t *testing.T, tree fs.FS) []file {
	t.Helper()
	var files []file
	fset := token.NewFileSet()
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if p != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "vendor", "bin", "dist"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, p, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file{path.Dir(p), path.Base(p), strings.HasSuffix(p, "_test.go"), parsed, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// repository parses the checkout that the test runs in.
func repository(t *testing.T) []file {
	t.Helper()
	files := parse(t, os.DirFS("../.."))
	if len(files) < 20 {
		t.Fatalf("found %d Go files, want the whole repository: these rules would hold of nothing", len(files))
	}
	return files
}

// fixture parses sources given as path and content.
func fixture(t *testing.T, sources map[string]string) []file {
	t.Helper()
	tree := fstest.MapFS{}
	for p, src := range sources {
		tree[p] = &fstest.MapFile{Data: []byte(src)}
	}
	return parse(t, tree)
}

// rule answers one sentence for each place that breaks it.
type rule func([]file) []string

// holds runs a rule on the repository.
func holds(t *testing.T, r rule) {
	t.Helper()
	for _, v := range r(repository(t)) {
		t.Error(v)
	}
}

// catches runs a rule on fixtures: each must be caught, by a sentence that
// contains want; with an empty want, none may be.
func catches(t *testing.T, r rule, want string, sources map[string]string) {
	t.Helper()
	got := r(fixture(t, sources))
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("rule complains of good source: %q", got)
	case want != "" && !slices.ContainsFunc(got, func(v string) bool { return strings.Contains(v, want) }):
		t.Errorf("rule says %q, want a sentence with %q", got, want)
	}
}
