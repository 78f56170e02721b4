package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"trawl/internal/sink"
)

const (
	// fullAt is the size from which a file is large enough.
	fullAt = 256 << 20
	// syncEvery keeps the last sync of a file short.
	syncEvery = 32 << 20
)

// writer is one user of an index. Spans are files of their own, so it needs no
// state but that of redriven documents.
type writer struct {
	index string
	dir   string
	loose loose
}

// there says whether the index is there. One that is deleted stays deleted: a
// loader that was given up must not leave files for the next one to find.
func (w *writer) there() error { return exists(filepath.Dir(w.dir), w.index) }

// Close has nothing to do: whoever began a span ends it.
func (w *writer) Close() error { return nil }

// Begin finds the file that covers an offset, or begins a new one.
func (w *writer) Begin(ctx context.Context, sp sink.Partition, from int64) (sink.Kept, sink.Span, error) {
	var kept sink.Kept
	p, err := w.folder(sp)
	if err != nil {
		return kept, nil, err
	}
	s := &span{p: p, index: w.index, from: from, limit: -1}
	err = locked(ctx, p.lock, func() error {
		sweep(p.dir, time.Now())
		kept, s.limit, err = p.covering(from)
		if err == nil && kept.Note != nil {
			// whoever linked it may have died before it synced the folder
			err = syncFolder(p.dir)
		}
		return err
	})
	switch {
	case err != nil:
		return kept, nil, failed(fmt.Errorf("files of %s partition %d: %w", p.Topic, p.Partition.Partition, err))
	case kept.Note != nil:
		return kept, nil, nil
	}
	return kept, s, nil
}

// folder makes the folder of a partition.
func (w *writer) folder(sp sink.Partition) (partition, error) {
	p, err := partitionOf(w.dir, sp)
	if err != nil {
		return p, err
	}
	if err := w.there(); err != nil {
		return p, err
	}
	if err := makeFolder(p.dir, filepath.Dir(p.dir)); err != nil {
		return p, failed(err)
	}
	return p, nil
}

// covering gives the file that holds an offset, if there is one, and where the
// next one begins.
func (p *partition) covering(offset int64) (kept sink.Kept, limit int64, err error) {
	before, after, err := p.around(offset)
	if err != nil || before < 0 {
		return kept, after, err
	}
	s, err := sliceOf(p.file(before))
	switch {
	case err != nil:
		return kept, after, err
	case s.First != before || s.Topic != p.Topic || s.Partition != p.Partition.Partition || s.End <= s.First || len(s.Ledger) == 0:
		return kept, after, fmt.Errorf("%s: it says that it is %s partition %d, offsets %d to %d: %w", p.file(before), s.Topic, s.Partition, s.First, s.End, errNoEnd)
	case s.Reader != p.Reader:
		return kept, after, &sink.RequestError{
			Status: http.StatusConflict, Type: "files_of_another", Reason: fmt.Sprintf("%s holds the files that %q made of this topic: give %q a sink.index of its own", p.dir, s.Reader, p.Reader),
		}
	case s.End > offset:
		kept = sink.Kept{From: s.First, To: s.End, Note: s.Ledger}
	}
	return kept, after, nil
}

// Renew renames the folder of a partition whose files reach beyond end.
func (w *writer) Renew(ctx context.Context, sp sink.Partition, end int64) error {
	p, err := w.folder(sp)
	if err != nil {
		return err
	}
	err = locked(ctx, p.lock, func() error {
		list, err := p.firsts()
		if err != nil || len(list) == 0 {
			return err
		}
		s, err := sliceOf(p.file(list[len(list)-1]))
		if err != nil || s.End <= end {
			return err
		}
		for n := 1; ; n++ {
			aside := fmt.Sprintf("%s+%d", p.dir, n)
			if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
				return errors.Join(os.Rename(p.dir, aside), syncFolder(filepath.Dir(p.dir)))
			} else if err != nil {
				return err
			}
		}
	})
	return failed(err)
}

// failed says what an error means to a loader: one of the operating system can
// be cured, a file that is not ours has to be moved away.
func failed(err error) error {
	var known *sink.RequestError
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errNoEnd):
		return &sink.RequestError{Status: http.StatusConflict, Type: "foreign_file", Reason: sink.CutReason(err.Error())}
	}
	return unavailable(err)
}

// span is a file that is being written.
type span struct {
	p     partition
	index string
	from  int64
	limit int64

	file     *os.File // nil: nothing was written
	size     int64    // that counts
	unsynced int64
	lines    int64
	buf      []byte

	markSize, markLines int64
}

// Limit is where the next file begins.
func (s *span) Limit() int64 { return s.limit }

// Mark notes where the settled lines end.
func (s *span) Mark() { s.markSize, s.markLines = s.size, s.lines }

// Undo goes back there; what stands behind is written over, or cut off.
func (s *span) Undo() { s.size, s.lines = s.markSize, s.markLines }

// Full says that the file is large enough.
func (s *span) Full() bool { return s.size >= fullAt }

// Write adds lines. After an error they are written again at the same place.
func (s *span) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results, n := make([]sink.Result, len(ops)), int64(0)
	s.buf = s.buf[:0]
	for i := range ops {
		if err := check(ops[i]); err != nil {
			results[i] = reject(err)
			continue
		}
		s.buf = appendLine(s.buf, s.index, ops[i])
		n++
	}
	if err := s.add(s.buf); err != nil {
		return nil, failed(err)
	}
	s.lines += n
	return results, nil
}

func (s *span) add(b []byte) (err error) {
	if len(b) == 0 {
		return nil
	}
	if s.file == nil {
		if s.file, err = temporary(s.p.dir, s.p.name); err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		return err
	}
	s.unsynced += int64(len(b))
	if s.unsynced >= syncEvery {
		if err := s.file.Sync(); err != nil {
			return err
		}
		s.unsynced = 0
	}
	s.size += int64(len(b))
	return nil
}

// Keep links the file under its name. A file is made of every span, also of one
// without a document: so the ledger of each offset lies in a file.
func (s *span) Keep(ctx context.Context, to int64, note []byte) (won bool, err error) {
	defer s.Discard()
	if to <= s.from || len(note) == 0 || len(note) > sink.MaxNote {
		return false, fmt.Errorf("keep offsets %d to %d with a note of %d bytes: no such span", s.from, to, len(note))
	}
	if err := s.finish(to, note); err != nil {
		return false, failed(fmt.Errorf("finish the file of %s partition %d from offset %d: %w", s.p.Topic, s.p.Partition.Partition, s.from, err))
	}
	err = locked(ctx, s.p.lock, func() error {
		won, err = s.link(to)
		return err
	})
	return won, failed(err)
}

// finish puts the last line and makes the content durable.
func (s *span) finish(to int64, note []byte) error {
	end, err := lastLine(slice{
		Reader: s.p.Reader, Topic: s.p.Topic, Partition: s.p.Partition.Partition, First: s.from, End: to, Lines: s.lines, Ledger: note,
	})
	if err != nil {
		return err
	}
	if err := s.add(end); err != nil {
		return err
	}
	if err := s.file.Truncate(s.size); err != nil { // a write that failed may have left more
		return err
	}
	return s.file.Sync()
}

// link names the file, unless another one holds one of its offsets. It is under
// the lock of the partition; the link alone decides between two that begin at
// the same offset.
func (s *span) link(to int64) (won bool, err error) {
	kept, after, err := s.p.covering(s.from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // the folder was renamed or removed
	case err != nil:
		return false, err
	case kept.Note != nil || after >= 0 && after < to:
		return false, nil
	}
	switch err := os.Link(s.file.Name(), s.p.file(s.from)); {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, syncFolder(s.p.dir)
}

// Discard removes the temporary file; once kept the file has its name besides.
func (s *span) Discard() {
	if s.file == nil {
		return
	}
	_ = os.Remove(s.file.Name())
	_ = s.file.Close()
	s.file = nil
}
