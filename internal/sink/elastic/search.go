package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"trawl/internal/sink"
)

// searched are the fields of a search with their weights.
var searched = []string{"title^8", "description^3", "headings^2", "text"}

// Search finds documents that hold every word and phrase of query. A query
// without a word finds nothing.
func (a *Admin) Search(ctx context.Context, alias, query string, limit int) (hits []sink.Hit, total int64, err error) {
	if err := checkNames(alias); err != nil {
		return nil, 0, err
	}
	body, err := json.Marshal(searchBody(sink.ParseQuery(query), min(max(limit, 0), maxHits)))
	if err != nil {
		return nil, 0, fmt.Errorf("search %q: %w", alias, err)
	}
	raw, err := a.do(ctx, "POST", "/"+alias+"/_search", string(body))
	if err != nil {
		return nil, 0, fmt.Errorf("search %q: %w", alias, noIndex(err))
	}
	var answer struct {
		Hits struct {
			Total struct{ Value int64 }
			Hits  []hit
		}
	}
	if err := decode(raw, &answer); err != nil {
		return nil, 0, fmt.Errorf("search %q: %w", alias, err)
	}
	for _, h := range answer.Hits.Hits {
		hits = append(hits, h.hit())
	}
	return hits, answer.Hits.Total.Value, nil
}

type hit struct {
	ID        string              `json:"_id"`
	Score     float64             `json:"_score"`
	Source    map[string]any      `json:"_source"`
	Highlight map[string][]string `json:"highlight"`
}

func (h hit) hit() sink.Hit {
	out := sink.Hit{ID: h.ID, Score: h.Score}
	out.Title, _ = h.Source["title"].(string)
	for _, field := range []string{"text", "description"} {
		if f := h.Highlight[field]; len(f) > 0 {
			out.Snippet = strings.Join(strings.Fields(f[0]), " ")
			break
		}
	}
	return out
}

// searchBody asks for all terms, each in any field. Terms are values, never
// query syntax.
func searchBody(terms []sink.Term, limit int) any {
	type m map[string]any
	must := make([]m, 0, len(terms))
	for _, t := range terms {
		// Without a type of its own a word may be several for the analyser:
		// all of them, in one field.
		match := m{"query": t.Text, "fields": searched, "operator": "and"}
		if t.Phrase {
			match["type"] = "phrase"
			delete(match, "operator")
		}
		must = append(must, m{"multi_match": match})
	}
	query := m{"bool": m{"must": must}}
	if len(must) == 0 {
		query = m{"match_none": m{}}
	}
	field := m{"number_of_fragments": 1, "fragment_size": 200, "no_match_size": 200}
	return m{
		"size": limit, "track_total_hits": true, "query": query, "_source": []string{"title"},
		"highlight": m{"pre_tags": []string{""}, "post_tags": []string{""}, "fields": m{"text": field, "description": field}},
	}
}
