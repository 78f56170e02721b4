package sqlite

// schemaVersion is kept in PRAGMA user_version; a file of another version is
// refused.
const schemaVersion = 1

// schema of one index. A row of documents stays when its document is deleted:
// the tombstone's version keeps late writes out. The full text index holds no
// copy of the text: it reads the view. So every change of documents has to take
// the old values out of the index while the view still shows them.
//
// The index gathers 16 MB of words in memory before it writes a segment, not 1,
// so that a batch is one segment, and merges eight of a level, not four: 5,500
// documents of 5 KB a second instead of 3,700 (bare inserts by FTS5's defaults:
// 4,200). The memory is given back at the end of each batch. Files made before
// keep the defaults and are as good.
const schema = `
CREATE TABLE documents (
	docid   INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE,
	version INTEGER NOT NULL,
	deleted INTEGER NOT NULL DEFAULT 0,
	title   TEXT,
	doc     TEXT
);
CREATE INDEX tombstones ON documents(docid) WHERE deleted = 1;
CREATE VIEW searchable AS
	SELECT docid, title,
		json_extract(doc, '$.description') AS description,
		json_extract(doc, '$.headings')    AS headings,
		coalesce(json_extract(doc, '$.text'), doc) AS text
	FROM documents WHERE deleted = 0;
CREATE VIRTUAL TABLE words USING fts5(
	title, description, headings, text,
	content='searchable', content_rowid='docid',
	tokenize="unicode61 remove_diacritics 2"
);
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
INSERT INTO words (words, rank) VALUES ('automerge', 8);
PRAGMA user_version = 1;
`

// The statements of a write, prepared once per connection.
const (
	sqlFind    = `SELECT docid, version, deleted, doc FROM documents WHERE id = ?`
	sqlInsert  = `INSERT INTO documents (id, version, deleted, title, doc) VALUES (?1, ?2, ?3, json_extract(?4, '$.title'), ?4)`
	sqlUpdate  = `UPDATE documents SET version = ?2, deleted = ?3, title = json_extract(?4, '$.title'), doc = ?4 WHERE docid = ?1`
	sqlHolds   = `SELECT version FROM documents WHERE id = ? AND deleted = 0`
	sqlVersion = `UPDATE documents SET version = ?2 WHERE docid = ?1`
	sqlIndex   = `INSERT INTO words (rowid, title, description, headings, text) VALUES (?1, ` + columns + `)`
	sqlUnindex = `INSERT INTO words (words, rowid, title, description, headings, text) VALUES ('delete', ?1, ` + columns + `)`

	// columns computes from ?2, a document, what the view shows of it. It is
	// VALUES and not SELECT FROM searchable: before a statement that may write
	// several rows SQLite opens a savepoint, for which FTS5 flushes its whole
	// memory, and a batch takes four times as long.
	columns = `json_extract(?2, '$.title'), json_extract(?2, '$.description'), json_extract(?2, '$.headings'),
		coalesce(json_extract(?2, '$.text'), ?2)`
)

// sqlSearch asks FTS5 for neither snippet nor highlight: both take time by the
// square of the matches, so that one page of a megabyte that repeats a word keeps
// them busy for minutes.
const (
	sqlSearch = `SELECT d.id, -bm25(words, 8.0, 3.0, 2.0, 1.0), coalesce(d.title, ''),
		coalesce(json_extract(d.doc, '$.text'), d.doc, ''), coalesce(json_extract(d.doc, '$.description'), '')
		FROM words JOIN documents d ON d.docid = words.rowid
		WHERE words MATCH ?1 ORDER BY bm25(words, 8.0, 3.0, 2.0, 1.0), d.id LIMIT ?2`
	sqlTotal = `SELECT count(*) FROM words WHERE words MATCH ?1`
	sqlCount = `SELECT (SELECT count(*) FROM documents) - (SELECT count(*) FROM documents WHERE deleted = 1)`
)
