package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"unicode/utf8"

	"trawl/internal/sink"
)

// maxHits bounds one search.
const maxHits = 1000

// A snippet shows this many bytes, at most, before and after the first match.
const (
	snippetBefore = 60
	snippetAfter  = 140
)

// mark stands before every match in what FTS5 highlights.
const mark = 1

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
	match := matchExpression(sink.ParseQuery(query))
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
	for rows.Next() {
		var (
			h                 sink.Hit
			text, description sql.RawBytes
		)
		if err := rows.Scan(&h.ID, &h.Score, &h.Title, &text, &description); err != nil {
			return nil, 0, fmt.Errorf("search index %q: %w", index, err)
		}
		h.Snippet = snippet(text, description)
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

// snippet cuts the surroundings of the first match out of the first candidate
// that has one, else the beginning of the first.
func snippet(candidates ...[]byte) string {
	for _, c := range candidates {
		if at := bytes.IndexByte(c, mark); at >= 0 {
			return cut(c, at)
		}
	}
	return cut(candidates[0], 0)
}

// cut takes whole words around text[at] and shows where it left something out.
func cut(text []byte, at int) string {
	from, to := max(0, at-snippetBefore), min(len(text), at+snippetAfter)
	for from > 0 && from < at && !isSpace(text[from-1]) {
		from++
	}
	for to < len(text) && to > at+1 && !isSpace(text[to]) {
		to--
	}
	if to <= at+1 { // one endless word
		to = min(len(text), at+snippetAfter)
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	part := strings.ReplaceAll(string(text[from:to]), string(rune(mark)), "")
	part = strings.Join(strings.Fields(strings.ToValidUTF8(part, "")), " ")
	if from > 0 {
		part = "…" + part
	}
	if to < len(text) {
		part += "…"
	}
	return part
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }
