package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"trawl/internal/sink"
)

// maxHits bounds one search.
const maxHits = 1000

// Search finds documents that hold every word and phrase of query, best first
// by bm25. It opens the file read-only, so it may run beside a loader. A query
// without a word finds nothing.
func (a *Admin) Search(ctx context.Context, alias, query string, limit int) (hits []sink.Hit, total int64, err error) {
	if err := checkNames(alias); err != nil {
		return nil, 0, err
	}
	index, err := a.resolve(alias)
	if err != nil {
		return nil, 0, err
	}
	terms := sink.ParseQuery(query)
	match := matchExpression(terms)
	if match == "" {
		return nil, 0, nil
	}
	db, err := a.readOnly(ctx, index)
	if err != nil {
		return nil, 0, err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, sqlTotal, match).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("search index %q: %w", index, classify(err))
	}
	rows, err := db.QueryContext(ctx, sqlSearch, match, min(max(limit, 0), maxHits))
	if err != nil {
		return nil, 0, fmt.Errorf("search index %q: %w", index, classify(err))
	}
	defer rows.Close()
	f := newFinder(terms)
	for rows.Next() {
		var (
			h                 sink.Hit
			text, description sql.RawBytes
		)
		if err := rows.Scan(&h.ID, &h.Score, &h.Title, &text, &description); err != nil {
			return nil, 0, fmt.Errorf("search index %q: %w", index, err)
		}
		h.Snippet = f.snippet(text, description)
		hits = append(hits, h)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("search index %q: %w", index, classify(err))
	}
	return hits, total, nil
}

// matchExpression quotes every term, so that FTS5 sees strings and no operator
// of its own; strings beside each other are AND.
func matchExpression(terms []sink.Term) string {
	quoted := make([]string, len(terms))
	for i, t := range terms {
		quoted[i] = `"` + strings.ReplaceAll(strings.ReplaceAll(t.Text, `"`, `""`), "\x00", " ") + `"`
	}
	return strings.Join(quoted, " ")
}
