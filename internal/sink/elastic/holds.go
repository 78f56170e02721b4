package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"trawl/internal/sink"
)

// held names a document as _mget takes and answers it.
type held struct {
	Index   string          `json:"_index"`
	ID      string          `json:"_id"`
	Routing string          `json:"routing,omitempty"`
	Source  bool            `json:"_source"`
	Found   bool            `json:"found,omitempty"`
	Version int64           `json:"_version,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Holds asks for documents by id, as the last acknowledged write left them. In
// a data stream, or an alias of several indexes, they are searched: what was
// written after the last refresh may be missing there.
func (a *Admin) Holds(ctx context.Context, index string, ids []sink.HeldID) ([]sink.Holding, error) {
	if err := sink.CheckIndex(index); err != nil {
		return nil, err
	}
	if len(ids) > sink.MaxHeld {
		return nil, fmt.Errorf("%d ids at once: ask for at most %d", len(ids), sink.MaxHeld)
	}
	out := make([]sink.Holding, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	asked := make([]held, len(ids))
	for i, id := range ids {
		asked[i] = held{Index: id.Index, ID: id.ID, Routing: id.Routing}
		if id.Index == "" {
			asked[i].Index = index
		}
	}
	docs, err := a.mget(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("look up in index %q: %w", index, err)
	}
	search := map[string][]int{}
	for i, d := range docs {
		out[i] = sink.Holding{Found: d.Found, Version: d.Version}
		if len(d.Error) > 0 {
			search[asked[i].Index] = append(search[asked[i].Index], i)
		}
	}
	for name, at := range search {
		if err := a.searchHeld(ctx, name, ids, at, out); err != nil {
			return nil, fmt.Errorf("look up in %q: %w", name, err)
		}
	}
	return out, nil
}

func (a *Admin) mget(ctx context.Context, asked []held) ([]held, error) {
	body, err := json.Marshal(map[string]any{"docs": asked})
	if err != nil {
		return nil, err
	}
	raw, err := a.do(ctx, "POST", "/_mget", string(body))
	if err != nil {
		return nil, err
	}
	var answer struct{ Docs []held }
	if err := decode(raw, &answer); err != nil {
		return nil, err
	}
	if len(answer.Docs) != len(asked) {
		return nil, &sink.AnswerError{Reason: fmt.Sprintf("%d documents for %d ids", len(answer.Docs), len(asked))}
	}
	return answer.Docs, nil
}

// searchHeld finds what cannot be asked for by id; an index that is not there
// holds nothing.
func (a *Admin) searchHeld(ctx context.Context, index string, ids []sink.HeldID, at []int, out []sink.Holding) error {
	values := make([]string, len(at))
	place := make(map[string][]int, len(at))
	for i, n := range at {
		values[i] = ids[n].ID
		place[values[i]] = append(place[values[i]], n)
	}
	body, err := json.Marshal(map[string]any{
		"size": sink.MaxHeld, "version": true, "_source": false,
		"query": map[string]any{"ids": map[string]any{"values": values}},
	})
	if err != nil {
		return err
	}
	raw, err := a.do(ctx, "POST", "/"+url.PathEscape(index)+"/_search?ignore_unavailable=true", string(body))
	if err != nil {
		return err
	}
	var answer struct{ Hits struct{ Hits []held } }
	if err := decode(raw, &answer); err != nil {
		return err
	}
	for _, h := range answer.Hits.Hits {
		for _, n := range place[h.ID] {
			out[n] = sink.Holding{Found: true, Version: h.Version}
		}
	}
	return nil
}
