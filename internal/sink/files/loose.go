package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"trawl/internal/sink"
)

// loose are the files of documents that do not come in spans: a redrive states
// what became of each failure at once, so each write is a file. What an earlier
// one holds is not written again.
type loose struct {
	dir string

	mu    sync.Mutex
	tally *tally
}

// Write makes a file of the ops that are new, under the version rule among
// redriven documents. It does not read the others: there the reader's rule
// counts, the highest version.
func (w *writer) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := w.there(); err != nil {
		return nil, err
	}
	l := &w.loose
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := makeFolder(l.dir); err != nil {
		return nil, failed(err)
	}
	var results []sink.Result
	err := locked(ctx, filepath.Join(w.dir, "."+redriven[1:]+".lock"), func() (err error) {
		results, err = l.write(ctx, w.index, ops)
		return err
	})
	if err != nil {
		return nil, failed(fmt.Errorf("write to index %q: %w", w.index, err))
	}
	return results, nil
}

func (l *loose) write(ctx context.Context, index string, ops []sink.Op) ([]sink.Result, error) {
	names, err := list(l.dir)
	if err != nil {
		return nil, err
	}
	if err := l.tally.read(ctx, names); err != nil {
		return nil, err
	}
	results := make([]sink.Result, len(ops))
	news := map[uint64]held{}
	var b []byte
	lines := int64(0)
	for i := range ops {
		if err := check(ops[i]); err != nil {
			results[i] = reject(err)
			continue
		}
		key, now := l.tally.key(ops[i].Index, ops[i].ID), heldOf(ops[i].Version, ops[i].Delete, oneLine(ops[i].Doc))
		old, ok := news[key]
		if !ok {
			old, ok = l.tally.docs[key]
		}
		switch {
		case ok && old.version > now.version:
			results[i].Outcome = sink.Superseded
			continue
		case ok && old == now:
			continue
		}
		news[key] = now
		b = appendLine(b, index, ops[i])
		lines++
	}
	if lines == 0 { // who wrote them may have died before the folder was synced
		return results, syncFolder(l.dir)
	}
	end, err := lastLine(slice{Lines: lines})
	if err != nil {
		return nil, err
	}
	return results, l.put(append(b, end...), len(names))
}

// put makes the file of the next number durable, under the lock.
func (l *loose) put(b []byte, number int) (err error) {
	f, err := temporary(l.dir, redriven[1:])
	if err != nil {
		return err
	}
	defer func() {
		_ = os.Remove(f.Name())
		_ = f.Close()
	}()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	for ; ; number++ {
		err := os.Link(f.Name(), filepath.Join(l.dir, fmt.Sprintf("%s-%020d%s", redriven[1:], number, suffix)))
		if err == nil {
			return syncFolder(l.dir)
		}
		if !os.IsExist(err) {
			return err
		}
	}
}
