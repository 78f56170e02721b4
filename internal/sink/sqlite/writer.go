package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"trawl/internal/sink"
)

// index is an open file with its prepared statements, shared by the writers of
// this process. gate admits one of them at a time, in turn.
type index struct {
	name  string
	file  os.FileInfo
	users int // guarded by Admin.mu
	gate  chan struct{}
	db    *sql.DB
	conn  *sql.Conn

	find, insert, update, version, addWords, dropWords *sql.Stmt
}

func (a *Admin) openIndex(ctx context.Context, name string) (*index, error) {
	db, err := a.existing(ctx, name, "rw")
	if err != nil {
		return nil, err
	}
	x := &index{name: name, gate: make(chan struct{}, 1), db: db}
	if err = x.prepare(ctx); err == nil {
		x.file, err = os.Stat(a.path(name))
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("open index %q: %w", name, classify(err))
	}
	return x, nil
}

// there tells whether the file of the name is still the one that is open: what
// is written to another one is lost.
func (x *index) there(path string) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, x.file)
}

func (x *index) prepare(ctx context.Context) (err error) {
	if x.conn, err = x.db.Conn(ctx); err != nil {
		return err
	}
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&x.find, sqlFind},
		{&x.insert, sqlInsert},
		{&x.update, sqlUpdate},
		{&x.version, sqlVersion},
		{&x.addWords, sqlIndex},
		{&x.dropWords, sqlUnindex},
	} {
		if *s.stmt, err = x.conn.PrepareContext(ctx, s.text); err != nil {
			return err
		}
	}
	return nil
}

func (x *index) close() error {
	return errors.Join(x.conn.Close(), x.db.Close())
}

// writer is one user of an index.
type writer struct {
	admin *Admin
	index *index
}

// Close gives the index back; the last user closes the file.
func (w *writer) Close() error {
	w.admin.mu.Lock()
	defer w.admin.mu.Unlock()
	x := w.index
	if x == nil {
		return nil
	}
	w.index = nil
	if x.users--; x.users > 0 {
		return nil
	}
	if w.admin.open[x.name] == x {
		delete(w.admin.open, x.name)
	}
	return x.close()
}

// Write applies ops in their order, in one transaction.
func (w *writer) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	x := w.index
	if x == nil {
		return nil, errors.New("write to a closed index")
	}
	results := make([]sink.Result, len(ops))
	for i := range ops {
		if err := checkDoc(x.name, ops[i]); err != nil {
			results[i] = reject(sink.TypeInvalid, err)
		}
	}
	select {
	case x.gate <- struct{}{}:
		defer func() { <-x.gate }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := x.write(ctx, ops, results); err != nil {
		return nil, err
	}
	return results, nil
}

// write tries the transaction again without the op that SQLite itself refused,
// as often as there are ops: a refused statement has no savepoint to return to,
// because a savepoint would flush the full text index for every op.
func (x *index) write(ctx context.Context, ops []sink.Op, results []sink.Result) error {
	for range len(ops) + 1 {
		at := -1
		err := transact(ctx, x.conn, func() error {
			for i := range ops {
				if results[i].Outcome == sink.Rejected {
					continue
				}
				at = i
				outcome, err := x.apply(ctx, ops[i])
				if err != nil {
					return err
				}
				results[i] = sink.Result{Outcome: outcome}
			}
			at = -1
			return nil
		})
		if err == nil {
			return nil
		}
		if at < 0 || !poisonous(err) {
			return fmt.Errorf("write index %q: %w", x.name, classify(err))
		}
		results[at] = reject("sqlite_error", err)
	}
	return nil
}

// apply writes one op under the version rule: a lower version never replaces a
// higher one, the same one does.
func (x *index) apply(ctx context.Context, op sink.Op) (sink.Outcome, error) {
	var (
		docid, version int64
		deleted        bool
		raw            sql.RawBytes
		old            string
	)
	rows, err := x.find.QueryContext(ctx, op.ID)
	if err != nil {
		return 0, err
	}
	found, same := rows.Next(), false
	if found {
		if err := rows.Scan(&docid, &version, &deleted, &raw); err != nil {
			return 0, errors.Join(err, rows.Close())
		}
		same = deleted == op.Delete && bytes.Equal(raw, op.Doc)
		if !same {
			old = string(raw)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	switch {
	case !found:
		return sink.Loaded, x.create(ctx, op)
	case op.Version < version:
		return sink.Superseded, nil
	case same && op.Version == version:
		return sink.Loaded, nil
	case same:
		_, err := x.version.ExecContext(ctx, docid, op.Version)
		return sink.Loaded, err
	}
	return sink.Loaded, x.replace(ctx, docid, old, op)
}

func (x *index) create(ctx context.Context, op sink.Op) error {
	res, err := x.insert.ExecContext(ctx, op.ID, op.Version, op.Delete, text(op))
	if err != nil || op.Delete {
		return err
	}
	docid, err := res.LastInsertId()
	if err != nil {
		return err
	}
	_, err = x.addWords.ExecContext(ctx, docid, text(op))
	return err
}

// replace takes the words of the old document out, if it was not deleted, and
// puts those of the new one in.
func (x *index) replace(ctx context.Context, docid int64, old string, op sink.Op) error {
	if old != "" {
		if _, err := x.dropWords.ExecContext(ctx, docid, old); err != nil {
			return err
		}
	}
	if _, err := x.update.ExecContext(ctx, docid, op.Version, op.Delete, text(op)); err != nil || op.Delete {
		return err
	}
	_, err := x.addWords.ExecContext(ctx, docid, text(op))
	return err
}

// text is the document as SQLite stores it: TEXT, not BLOB, or NULL.
func text(op sink.Op) any {
	if op.Delete {
		return nil
	}
	return string(op.Doc)
}

// transact runs f between BEGIN IMMEDIATE and COMMIT: the write lock is taken
// first, so that no reader has to become a writer in the middle.
func transact(ctx context.Context, conn *sql.Conn, f func() error) error {
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	err := f()
	if err == nil {
		_, err = conn.ExecContext(ctx, `COMMIT`)
	}
	if err != nil {
		// Not under ctx: a cancelled one must still let go of the lock. The
		// error is dropped: SQLite has rolled back already, if it fails.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
	}
	return err
}

// checkDoc refuses what Elasticsearch refuses per item, so that a document goes
// the same way on both sinks.
func checkDoc(index string, op sink.Op) error {
	if err := sink.CheckDocument(op); err != nil {
		return err
	}
	if op.Index != "" && op.Index != index || op.Routing != "" || op.Create {
		return fmt.Errorf("document %q asks for index %q, routing %q or a data stream: SQLite has the one index %q; use the sink elastic, or leave them out", op.ID, op.Index, op.Routing, index)
	}
	return nil
}

func reject(kind string, err error) sink.Result {
	return sink.Result{Outcome: sink.Rejected, Status: 400, Type: kind, Reason: sink.CutReason(err.Error())}
}

// poisonous says that SQLite refused this statement for its values; nothing
// else in the transaction is in doubt.
func poisonous(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}

// classify turns what waiting or an operator can cure into UnavailableError.
func classify(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM:
		return &sink.UnavailableError{Err: err}
	}
	return err
}
