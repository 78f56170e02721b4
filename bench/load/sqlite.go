package load

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/segmentio/kafka-go"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"trawl/internal/sink"
	"trawl/internal/sink/sqlite"
)

func (b *bench) sqliteLegs() []leg {
	return []leg{
		{"trawl", b.trawlSQLite, nil},
		{simpleLeg, b.bareSQLite, nil},
	}
}

func (b *bench) trawlSQLite(ctx context.Context) (int, error) {
	dir, err := os.MkdirTemp(b.cfg.Dir, "trawl-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	admin, target := sqlite.New(dir), sink.Target{Name: "bench"}
	if err := admin.PrepareTarget(ctx, target); err != nil {
		return 0, err
	}
	to, err := admin.OpenTarget(ctx, target)
	if err != nil {
		return 0, err
	}
	n, err := b.machines(ctx, to)
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// bareSQLite reads the same topic and inserts each batch in one transaction,
// into a table and a full text index, without versions, deletes or replays.
func (b *bench) bareSQLite(ctx context.Context) (int, error) {
	dir, err := os.MkdirTemp(b.cfg.Dir, "bare-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bare.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(2)&_pragma=cache_size(-32768)&_pragma=wal_autocheckpoint(4000)")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range []string{
		`CREATE TABLE documents (docid INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, doc TEXT)`,
		`CREATE VIRTUAL TABLE words USING fts5(title, text, content='', tokenize="unicode61 remove_diacritics 2")`,
	} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return 0, err
		}
	}
	var one sync.Mutex
	return b.parallel(func(p int) (int, error) {
		conn, err := kafka.DialLeader(ctx, "tcp", b.cfg.Brokers[0], b.topic, p)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close() }()
		done := 0
		err = b.rows(conn, p, func(rows []kafka.Message) error {
			one.Lock()
			defer one.Unlock()
			done += len(rows)
			return insert(ctx, db, b.topic, p, rows)
		})
		return done, err
	})
}

// rows gives the batches of a partition.
func (b *bench) rows(conn *kafka.Conn, p int, batch func([]kafka.Message) error) error {
	var rows []kafka.Message
	size := 0
	for at := int64(0); at < b.ends[p]; {
		if _, err := conn.Seek(at, kafka.SeekAbsolute); err != nil {
			return err
		}
		fetched := conn.ReadBatch(1, 4<<20)
		for {
			m, err := fetched.ReadMessage()
			if err != nil {
				break
			}
			at = m.Offset + 1
			rows, size = append(rows, m), size+len(m.Value)
			if len(rows) == b.cfg.BatchCount || size >= b.cfg.BatchBytes || at == b.ends[p] {
				if err := batch(rows); err != nil {
					return err
				}
				rows, size = rows[:0], 0
			}
		}
		_ = fetched.Close() // says again what ended the loop
	}
	return nil
}

func insert(ctx context.Context, db *sql.DB, topic string, p int, rows []kafka.Message) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	row, err := tx.PrepareContext(ctx, `INSERT INTO documents (id, doc) VALUES (?, ?)`)
	if err != nil {
		return err
	}
	text, err := tx.PrepareContext(ctx, `INSERT INTO words (rowid, title, text) VALUES (?1, json_extract(?2, '$.title'), json_extract(?2, '$.text'))`)
	if err != nil {
		return err
	}
	for _, m := range rows {
		r, err := row.ExecContext(ctx, fmt.Sprintf("%s-%d-%d", topic, p, m.Offset), string(m.Value))
		if err != nil {
			return err
		}
		id, err := r.LastInsertId()
		if err != nil {
			return err
		}
		if _, err := text.ExecContext(ctx, id, string(m.Value)); err != nil {
			return err
		}
	}
	return tx.Commit()
}
