// Package sqlite is the embedded sink: one SQLite file per index with an FTS5
// table, in <data dir>/index/<index>.db, and an alias as a one-line file
// <alias>.alias beside it. It refuses to know crawls, and to decide what an
// error means.
//
// Durability: WAL with synchronous=FULL, so that a Write that returned survives
// kill -9 and the loss of power. Several goroutines and processes may write at
// once: each Write is one BEGIN IMMEDIATE transaction; within a process writers
// of one file queue, between processes they wait up to the busy timeout.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"trawl/internal/sink"
)

// busyTimeoutMS is how long a Write waits for another process.
const busyTimeoutMS = 20_000

var indexName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

// Admin owns the indexes of one data directory. It implements sink.Admin and
// is safe for concurrent use.
type Admin struct {
	dir string

	mu   sync.Mutex
	open map[string]*index // by index name; shared by the sinks of this process
}

var (
	_ sink.Admin   = (*Admin)(nil)
	_ sink.Targets = (*Admin)(nil)
	_ sink.Holder  = (*Admin)(nil)
)

// New returns the Admin of dataDir. It touches no file.
func New(dataDir string) *Admin {
	return &Admin{dir: filepath.Join(dataDir, "index"), open: map[string]*index{}}
}

// Prepare creates the index file if it is absent and, if point is set, points
// the alias at it.
func (a *Admin) Prepare(ctx context.Context, alias, index string, point bool) error {
	if err := checkNames(alias, index); err != nil {
		return err
	}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return fmt.Errorf("create index directory: %w", err)
	}
	if err := a.create(ctx, index); err != nil {
		return fmt.Errorf("prepare index %q: %w", index, classify(err))
	}
	if point {
		return a.pointAlias(alias, index)
	}
	return nil
}

// create makes the schema in one transaction, so that two of them at once make
// it once and a crash leaves either nothing or all.
func (a *Admin) create(ctx context.Context, index string) error {
	db, err := a.database(index, "rwc")
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return transact(ctx, conn, func() error {
		version, err := userVersion(ctx, conn)
		if err != nil || version == schemaVersion {
			return err
		}
		if version != 0 {
			return errVersion(index, version)
		}
		_, err = conn.ExecContext(ctx, schema)
		return err
	})
}

// Open gives a writer of an index that Prepare made; ErrNoIndex if there is
// none.
func (a *Admin) Open(ctx context.Context, index string) (sink.Sink, error) {
	if err := checkNames(index); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	x, ok := a.open[index]
	if !ok || !x.there(a.path(index)) { // else it was dropped, and perhaps made again
		var err error
		if x, err = a.openIndex(ctx, index); err != nil {
			return nil, err
		}
		a.open[index] = x
	}
	x.users++
	return &writer{admin: a, index: x}, nil
}

// PrepareTarget makes the one index that a load has, under the target's name.
// What only a search server has is refused.
func (a *Admin) PrepareTarget(ctx context.Context, t sink.Target) error {
	if t.DataStream || t.Pipeline != "" || len(t.Template) > 0 {
		return &sink.TargetError{Name: t.Name, Reason: "SQLite has no data streams, pipelines and templates: leave them out, or use the sink elastic"}
	}
	return a.Prepare(ctx, t.Name, t.Name, true)
}

// OpenTarget is Open.
func (a *Admin) OpenTarget(ctx context.Context, t sink.Target) (sink.Sink, error) {
	return a.Open(ctx, t.Name)
}

// Holds looks up ids. Nothing is found in another index than this one.
func (a *Admin) Holds(ctx context.Context, index string, ids []sink.HeldID) ([]sink.Holding, error) {
	if err := checkNames(index); err != nil {
		return nil, err
	}
	if len(ids) > sink.MaxHeld {
		return nil, fmt.Errorf("%d ids at once: ask for at most %d", len(ids), sink.MaxHeld)
	}
	out := make([]sink.Holding, len(ids))
	db, err := a.readOnly(ctx, index)
	if errors.Is(err, sink.ErrNoIndex) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer db.Close()
	for i, id := range ids {
		if id.Index != "" && id.Index != index {
			continue
		}
		var h sink.Holding
		err := db.QueryRowContext(ctx, sqlHolds, id.ID).Scan(&h.Version)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up in index %q: %w", index, classify(err))
		}
		h.Found = true
		out[i] = h
	}
	return out, nil
}

// Count gives the number of documents that are not deleted.
func (a *Admin) Count(ctx context.Context, index string) (int64, error) {
	if err := checkNames(index); err != nil {
		return 0, err
	}
	db, err := a.readOnly(ctx, index)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var n int64
	if err := db.QueryRowContext(ctx, sqlCount).Scan(&n); err != nil {
		return 0, fmt.Errorf("count index %q: %w", index, classify(err))
	}
	return n, nil
}

// Drop removes the index file, and the alias if it points there. No loader may
// be writing: a file that is removed under a writer takes its writes along.
func (a *Admin) Drop(_ context.Context, alias, index string) error {
	if err := checkNames(alias, index); err != nil {
		return err
	}
	if target, err := a.resolve(alias); err == nil && target == index {
		if err := remove(a.aliasPath(alias)); err != nil {
			return err
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := remove(a.path(index) + suffix); err != nil {
			return err
		}
	}
	return nil
}

// DropTarget removes the index of a load; see sink.Targets.
func (a *Admin) DropTarget(ctx context.Context, t sink.Target) (bool, error) {
	return true, a.Drop(ctx, t.Name, t.Name)
}

// pointAlias replaces the alias file atomically.
func (a *Admin) pointAlias(alias, index string) (err error) {
	tmp, err := os.CreateTemp(a.dir, "."+alias+".*.tmp")
	if err != nil {
		return fmt.Errorf("point alias %q: %w", alias, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("point alias %q at %q: %w", alias, index, err)
		}
	}()
	_, err = tmp.WriteString(index + "\n")
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), a.aliasPath(alias)); err != nil {
		return err
	}
	return syncDir(a.dir)
}

// resolve reads the index behind an alias.
func (a *Admin) resolve(alias string) (string, error) {
	raw, err := os.ReadFile(a.aliasPath(alias))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("alias %q in %s: %w", alias, a.dir, sink.ErrNoIndex)
	}
	if err != nil {
		return "", fmt.Errorf("read alias %q: %w", alias, err)
	}
	index := strings.TrimSpace(string(raw))
	if err := checkNames(index); err != nil {
		return "", fmt.Errorf("alias %q: %w", alias, err)
	}
	return index, nil
}

func (a *Admin) path(index string) string      { return filepath.Join(a.dir, index+".db") }
func (a *Admin) aliasPath(alias string) string { return filepath.Join(a.dir, alias+".alias") }

// readOnly opens an index for queries; it changes nothing in the file and never
// waits for a writer.
func (a *Admin) readOnly(ctx context.Context, index string) (*sql.DB, error) {
	return a.existing(ctx, index, "ro")
}

// existing opens an index that has to be there, in our version.
func (a *Admin) existing(ctx context.Context, index, mode string) (*sql.DB, error) {
	if _, err := os.Stat(a.path(index)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("index %q in %s: %w", index, a.dir, sink.ErrNoIndex)
	}
	db, err := a.database(index, mode)
	if err != nil {
		return nil, err
	}
	version, err := userVersion(ctx, db)
	switch {
	case err != nil:
		err = fmt.Errorf("open index %q: %w", index, classify(err))
	case version == 0:
		err = fmt.Errorf("index %q in %s is not prepared: %w", index, a.dir, sink.ErrNoIndex)
	case version != schemaVersion:
		err = errVersion(index, version)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// database describes the connection: read LIBRARIES before changing a pragma.
// synchronous(2) is FULL: a commit is on disk before it is acknowledged.
func (a *Admin) database(index, mode string) (*sql.DB, error) {
	path, err := filepath.Abs(a.path(index))
	if err != nil {
		return nil, err
	}
	q := url.Values{"mode": {mode}}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeoutMS))
	if mode == "ro" {
		q.Add("_pragma", "query_only(1)")
	} else {
		q.Add("_pragma", "journal_mode(WAL)")
		q.Add("_pragma", "synchronous(2)")
		q.Add("_pragma", "cache_size(-32768)")
		q.Add("_pragma", "wal_autocheckpoint(4000)")
		q.Add("_pragma", "journal_size_limit(67108864)")
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func userVersion(ctx context.Context, q queryer) (version int, err error) {
	err = q.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version)
	return version, err
}

func errVersion(index string, version int) error {
	return fmt.Errorf("index %q has schema version %d, this program writes %d: load the crawl again into a new generation",
		index, version, schemaVersion)
}

func checkNames(names ...string) error {
	for _, n := range names {
		if !indexName.MatchString(n) {
			return fmt.Errorf("index name %q: use 1 to 128 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit", n)
		}
	}
	return nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop index: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
