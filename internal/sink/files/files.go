// Package files is the sink of JSONL files: one JSON object per line, in folders
// of the data directory. It refuses to know what a document means, to search,
// and to change a file once it is there.
//
//	<data dir>/files/<index>/<topic>/<partition>/<partition>-<first offset>.jsonl
//	<data dir>/files/<index>/<topic>/<partition>+<n>/...   of a topic that was made again since
//	<data dir>/files/<index>/+redriven/redriven-<n>.jsonl
//	<data dir>/current/<alias>                             a symbolic link to files/<index>
//
// A line is {"id":...,"version":...,"doc":{...}}, or {"id":...,"version":...,
// "deleted":true}; "index" stands behind the version where a record names one of
// its own. Of several lines with an id the one with the highest version counts.
// The last line of a file is no document, it says what the file is:
// {"slice":{"reader":...,"topic":...,"partition":...,"first":...,"end":...,
// "lines":...,"ledger":{...}}}. A file without it was cut.
//
// Once only: a loader writes the documents of its slice to a temporary file,
// syncs it, and links it under the name of its first offset, which fails if the
// name is taken; then the folder is synced. So a file is there as a whole or
// not at all, whoever finds it goes on at its end with its ledger, and the
// position is only a copy of what the folder says. That no two files share an
// offset, even if somebody seeks while a loader that was given up still writes,
// is checked under a lock of the partition (flock) before the link. A temporary
// file is locked by its writer: one that nobody locks belongs to nobody, and the
// next loader removes it.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"trawl/internal/sink"
)

var indexName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

// Admin owns the files of one data directory. It implements sink.Admin and is
// safe for concurrent use.
type Admin struct {
	dir     string // of the indexes
	current string // of the aliases

	mu      sync.Mutex
	tallies map[string]*tally // by index
}

var (
	_ sink.Admin   = (*Admin)(nil)
	_ sink.Targets = (*Admin)(nil)
	_ sink.Holder  = (*Admin)(nil)
	_ sink.Auditor = (*Admin)(nil)
	_ sink.Spans   = (*writer)(nil)
)

// New returns the Admin of dataDir. It touches no file.
func New(dataDir string) *Admin {
	return &Admin{
		dir: filepath.Join(dataDir, "files"), current: filepath.Join(dataDir, "current"), tallies: map[string]*tally{},
	}
}

func (a *Admin) folder(index string) string { return filepath.Join(a.dir, index) }

// Prepare makes the folder of the index and, if point is set, points the alias
// at it. An index that is its own alias needs no link.
func (a *Admin) Prepare(_ context.Context, alias, index string, point bool) error {
	if err := checkNames(alias, index); err != nil {
		return err
	}
	if err := makeFolder(a.folder(index), a.dir, filepath.Dir(a.dir)); err != nil {
		return unavailable(fmt.Errorf("make the folder of index %q: %w", index, err))
	}
	if !point || alias == index {
		return nil
	}
	if err := a.point(alias, index); err != nil {
		return unavailable(fmt.Errorf("point %q at index %q: %w", alias, index, err))
	}
	return nil
}

// point replaces the link in one step.
func (a *Admin) point(alias, index string) error {
	if err := makeFolder(a.current, filepath.Dir(a.current)); err != nil {
		return err
	}
	link, to := filepath.Join(a.current, alias), filepath.Join("..", filepath.Base(a.dir), index)
	if old, err := os.Readlink(link); err == nil && old == to {
		return nil
	}
	tmp := filepath.Join(a.current, "."+alias+"."+unique())
	if err := os.Symlink(to, tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, link); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncFolder(a.current)
}

// Open gives a writer of an index that Prepare made; ErrNoIndex if there is
// none.
func (a *Admin) Open(_ context.Context, index string) (sink.Sink, error) {
	if err := a.there(index); err != nil {
		return nil, err
	}
	return &writer{
		index: index, dir: a.folder(index),
		loose: loose{dir: filepath.Join(a.folder(index), redriven), tally: newTally(index)},
	}, nil
}

// PrepareTarget makes the folder that a load has, under the target's name. What
// only a search server has is refused.
func (a *Admin) PrepareTarget(ctx context.Context, t sink.Target) error {
	if t.DataStream || t.Pipeline != "" || len(t.Template) > 0 {
		return &sink.TargetError{Name: t.Name, Reason: "files have no data streams, pipelines and templates: leave them out, or use the sink elastic"}
	}
	return a.Prepare(ctx, t.Name, t.Name, false)
}

// OpenTarget is Open.
func (a *Admin) OpenTarget(ctx context.Context, t sink.Target) (sink.Sink, error) {
	return a.Open(ctx, t.Name)
}

// DropTarget removes the folder of a load; see sink.Targets.
func (a *Admin) DropTarget(ctx context.Context, t sink.Target) (bool, error) {
	return true, a.Drop(ctx, t.Name, t.Name)
}

// Search refuses: there is no index of words.
func (a *Admin) Search(_ context.Context, alias, _ string, _ int) ([]sink.Hit, int64, error) {
	if err := checkNames(alias); err != nil {
		return nil, 0, err
	}
	dir := a.Place(alias)
	if _, err := os.Stat(dir); err != nil {
		return nil, 0, fmt.Errorf("%q in %s: %w", alias, a.current, sink.ErrNoIndex)
	}
	return nil, 0, fmt.Errorf("files cannot be searched: look into %s/ with grep -r", dir)
}

// Place is where people find the files of an alias, or of an index without one.
func (a *Admin) Place(alias string) string {
	link := filepath.Join(a.current, alias)
	if _, err := os.Lstat(link); err == nil {
		return link
	}
	return a.folder(alias)
}

// Drop removes the folder of the index, and the alias if it pointed there. No
// loader may be writing: it would make a folder while it goes.
func (a *Admin) Drop(_ context.Context, alias, index string) error {
	if err := checkNames(alias, index); err != nil {
		return err
	}
	link := filepath.Join(a.current, alias)
	if to, err := os.Readlink(link); err == nil && filepath.Base(to) == index {
		if err := os.Remove(link); err != nil {
			return unavailable(fmt.Errorf("drop index %q: %w", index, err))
		}
	}
	if err := os.RemoveAll(a.folder(index)); err != nil {
		return unavailable(fmt.Errorf("drop index %q: %w", index, err))
	}
	a.mu.Lock()
	delete(a.tallies, index)
	a.mu.Unlock()
	return nil
}

// there says whether an index was prepared.
func (a *Admin) there(index string) error {
	if err := checkNames(index); err != nil {
		return err
	}
	return exists(a.dir, index)
}

func exists(dir, index string) error {
	s, err := os.Stat(filepath.Join(dir, index))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("index %q in %s: %w", index, dir, sink.ErrNoIndex)
	case err != nil:
		return unavailable(err)
	case !s.IsDir():
		return fmt.Errorf("index %q: %s is no folder: %w", index, filepath.Join(dir, index), sink.ErrNoIndex)
	}
	return nil
}

func checkNames(names ...string) error {
	for _, n := range names {
		if !indexName.MatchString(n) {
			return fmt.Errorf("index name %q: use 1 to 128 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit", n)
		}
	}
	return nil
}

// unavailable is what waiting or an operator can cure: a disk that is full, a
// folder that may not be written, a lock that somebody holds.
func unavailable(err error) error { return &sink.UnavailableError{Err: err} }
