package loader

import (
	"database/sql"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/ingest"
	"trawl/internal/kafkalog/logtest"
	_ "trawl/internal/sink/sqlite" // the driver "sqlite"
)

// sqliteCells are the instants at which a loader that writes to SQLite dies. The
// faults of Kafka are the same as with a search server: one of each state is here.
var sqliteCells = []cell{
	{"sqlite-extract-06-network", pair{ingest.Extract, ingest.Network}, fault{kafka: always(logtest.HangUp(kmsg.Fetch)), sqlite: unharmed}},
	{"sqlite-transform-07-invalid-format", pair{ingest.Transform, ingest.InvalidFormat}, fault{poison: `{"n":`, sqlite: unharmed}},
	{"sqlite-load-commit", pair{ingest.Load, ingest.SinkUnavailable}, fault{sqlite: onCommit, short: true}},
	{"sqlite-load-10-sink-unavailable", pair{ingest.Load, ingest.SinkUnavailable}, fault{sqlite: locked, named: true}},
	{"sqlite-position", pair{ingest.Extract, ingest.Network}, fault{last: positions, sqlite: unharmed}},
	{"sqlite-errors-06-network", pair{ingest.Errors, ingest.Network}, fault{kafka: always(logtest.HangUp(kmsg.Produce)), sqlite: unharmed}},
}

func unharmed(*plant) func() { return func() {} }

// positions are copied to the group at the end of a slice.
func positions(r kmsg.Request) bool { return r.Key() == kmsg.OffsetCommit.Int16() }

// onCommit kills the worker as soon as its next transaction reaches the disk: it
// is in the log of the database, whole or not, and nobody has heard of it.
func onCommit(l *plant) func() {
	size := func() int64 {
		info, err := os.Stat(l.database() + "-wal")
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := size()
	stop := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for size() == before {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
		l.killWorker()
	}()
	return func() { close(stop) }
}

// locked is another program that holds the write lock.
func locked(l *plant) func() {
	db := l.open("rw")
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(l.t.Context(), `BEGIN IMMEDIATE`); err != nil {
		l.t.Fatal(err)
	}
	return func() { must(l.t, db.Close()) }
}

// database is the file of the index.
func (l *plant) database() string { return filepath.Join(l.data, "index", indexName+".db") }

func (l *plant) open(mode string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+l.database()+"?mode="+mode)
	must(l.t, err)
	return db
}

// rows are the ids and versions in SQLite.
func (l *plant) rows() map[string]int64 {
	l.t.Helper()
	found := map[string]int64{}
	if _, err := os.Stat(l.database()); err != nil {
		return found // no worker has made it yet
	}
	db := l.open("ro")
	defer db.Close()
	rows, err := db.QueryContext(l.t.Context(), `SELECT id, version FROM documents WHERE NOT deleted`)
	if err != nil {
		return found // it has no tables yet, or is locked: asked again
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var version int64
		must(l.t, rows.Scan(&id, &version))
		found[id] = version
	}
	must(l.t, rows.Err())
	return found
}
