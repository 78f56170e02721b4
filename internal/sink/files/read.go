package files

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"trawl/internal/sink"
)

// held is what counts of a document: its newest line.
type held struct {
	version int64
	deleted bool
	digest  uint64
}

func heldOf(version int64, deleted bool, doc []byte) held {
	return held{version, deleted, xxhash.Sum64(doc)}
}

// tally knows the newest version of each document in some files: about 60 bytes
// each. A document is known by 64 bits of a hash: among ten million, two are the
// same with a probability of 3 in a million. Files never change, so only new ones
// are read.
type tally struct {
	index string
	mu    sync.Mutex
	files map[string]bool
	docs  map[uint64]held
	live  int64
}

func newTally(index string) *tally {
	return &tally{index: index, files: map[string]bool{}, docs: map[uint64]held{}}
}

func (t *tally) key(index, id string) uint64 {
	if index == "" {
		index = t.index
	}
	return xxhash.Sum64String(index + "\x00" + id)
}

// read takes the files that are not known yet. If one is gone all are read
// again.
func (t *tally) read(ctx context.Context, names []string) error {
	known := 0
	for _, name := range names {
		if t.files[name] {
			known++
		}
	}
	if known < len(t.files) {
		t.forget()
	}
	for _, name := range names {
		if t.files[name] {
			continue
		}
		_, err := each(ctx, name, t.take)
		if err != nil && !errors.Is(err, errNoEnd) { // Audit names such a file
			t.forget() // a part of the file was taken
			return err
		}
		t.files[name] = true
	}
	return nil
}

func (t *tally) forget() { t.files, t.docs, t.live = map[string]bool{}, map[uint64]held{}, 0 }

func (t *tally) take(l *line) {
	key, now := t.key(l.Index, l.ID), heldOf(l.Version, l.Deleted, l.Doc)
	old, ok := t.docs[key]
	if ok && old.version > now.version {
		return
	}
	if ok && !old.deleted {
		t.live--
	}
	if !now.deleted {
		t.live++
	}
	t.docs[key] = now
}

// list gives the files below a folder, in the order of their names. What
// disappears meanwhile was not there.
func list(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != dir:
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular() && strings.HasSuffix(name, suffix):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// each gives the documents of a file and its last line.
func each(ctx context.Context, name string, visit func(*line)) (*slice, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 64<<10), maxLine)
	in.Split(whole)
	for n := 1; in.Scan(); n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var l line
		switch err := json.Unmarshal(in.Bytes(), &l); {
		case err != nil:
			return nil, fmt.Errorf("%s line %d: %w: %w", name, n, err, errNoEnd)
		case l.Slice != nil && in.Scan():
			return nil, fmt.Errorf("%s line %d: more lines follow the last one: %w", name, n, errNoEnd)
		case l.Slice != nil:
			return l.Slice, in.Err()
		}
		visit(&l)
	}
	switch err := in.Err(); {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, bufio.ErrTooLong):
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return nil, fmt.Errorf("%s: %w", name, errNoEnd)
}

// whole splits at line ends; what follows the last one is no line.
func whole(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// tallied gives the tally of an index as its files are now, locked until done is
// called.
func (a *Admin) tallied(ctx context.Context, index string) (t *tally, done func(), err error) {
	if err := a.there(index); err != nil {
		return nil, nil, err
	}
	a.mu.Lock()
	t = a.tallies[index]
	if t == nil {
		t = newTally(index)
		a.tallies[index] = t
	}
	a.mu.Unlock()
	t.mu.Lock()
	names, err := list(a.folder(index))
	if err == nil {
		err = t.read(ctx, names)
	}
	if err != nil {
		t.mu.Unlock()
		return nil, nil, fmt.Errorf("read index %q: %w", index, failed(err))
	}
	return t, t.mu.Unlock, nil
}

// Holds looks up ids. The first question reads all files.
func (a *Admin) Holds(ctx context.Context, index string, ids []sink.HeldID) ([]sink.Holding, error) {
	if len(ids) > sink.MaxHeld {
		return nil, fmt.Errorf("%d ids at once: ask for at most %d", len(ids), sink.MaxHeld)
	}
	out := make([]sink.Holding, len(ids))
	t, done, err := a.tallied(ctx, index)
	if errors.Is(err, sink.ErrNoIndex) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer done()
	for i, id := range ids {
		if h, ok := t.docs[t.key(id.Index, id.ID)]; ok && !h.deleted {
			out[i] = sink.Holding{Found: true, Version: h.version}
		}
	}
	return out, nil
}

// Count gives the number of documents that are not deleted.
func (a *Admin) Count(ctx context.Context, index string) (int64, error) {
	t, done, err := a.tallied(ctx, index)
	if err != nil {
		return 0, err
	}
	defer done()
	return t.live, nil
}

const maxNamed = 50

// Audit reads all files: that each is whole, and no two of a partition share an
// offset. A line that has the id and version of another one is named, and no
// fault: a topic can hold a record twice.
func (a *Admin) Audit(ctx context.Context, index string) (sink.Audit, error) {
	var found sink.Audit
	if err := a.there(index); err != nil {
		return found, err
	}
	names, err := list(a.folder(index))
	if err != nil {
		return found, failed(err)
	}
	t := newTally(index)
	seen := map[uint64]bool{}
	ends := map[string]*slice{} // the last file of each folder
	for _, name := range names {
		short, lines := strings.TrimPrefix(name, a.folder(index)+"/"), int64(0)
		s, err := each(ctx, name, func(l *line) {
			lines++
			t.take(l)
			key := xxhash.Sum64String(fmt.Sprintf("%x %d", t.key(l.Index, l.ID), l.Version))
			if seen[key] {
				found.Repeats++
				if len(found.Repeated) < maxNamed {
					found.Repeated = append(found.Repeated, fmt.Sprintf("%s line %d: %q version %d", short, lines, l.ID, l.Version))
				}
			}
			seen[key] = true
		})
		found.Files++
		found.Lines += lines
		if ctx.Err() != nil {
			return found, ctx.Err()
		}
		if err != nil {
			found.Faults = append(found.Faults, strings.TrimPrefix(err.Error(), a.folder(index)+"/"))
			continue
		}
		found.Faults = append(found.Faults, s.faults(short, lines, ends[filepath.Dir(name)])...)
		ends[filepath.Dir(name)] = s
	}
	found.Documents = t.live
	found.Faults = slices.Clip(found.Faults)
	return found, nil
}

// faults compares what a file says with what it is, and with the one before it.
func (s *slice) faults(name string, lines int64, before *slice) (bad []string) {
	if s.Lines != lines {
		bad = append(bad, fmt.Sprintf("%s has %d documents and says that it has %d", name, lines, s.Lines))
	}
	if s.Topic == "" {
		return bad // redriven: no offsets
	}
	if want := fmt.Sprintf("%05d-%020d%s", s.Partition, s.First, suffix); filepath.Base(name) != want {
		bad = append(bad, fmt.Sprintf("%s says that it is %s", name, want))
	}
	if before != nil && before.End > s.First {
		bad = append(bad, fmt.Sprintf("%s begins at offset %d, but the file before it ends at %d", name, s.First, before.End))
	}
	return bad
}
