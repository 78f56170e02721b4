package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"trawl/internal/sink"
)

var (
	_ sink.Targets = (*Admin)(nil)
	_ sink.Holder  = (*Admin)(nil)
)

// kind of thing that has a name on the server.
type kind int

const (
	nothing kind = iota
	anIndex
	anAlias
	aStream
)

// PrepareTarget makes template, index or data stream; see sink.Targets.
func (a *Admin) PrepareTarget(ctx context.Context, t sink.Target) error {
	if err := t.Check(); err != nil {
		return &sink.TargetError{Name: t.Name, Reason: err.Error()}
	}
	if err := a.prepareTarget(ctx, t); err != nil {
		if _, told := errors.AsType[*sink.TargetError](err); told {
			return err
		}
		return fmt.Errorf("prepare target %q: %w", t.Name, err)
	}
	return nil
}

// OpenTarget gives a writer; see sink.Targets.
func (a *Admin) OpenTarget(ctx context.Context, t sink.Target) (sink.Sink, error) {
	if err := t.Check(); err != nil {
		return nil, &sink.TargetError{Name: t.Name, Reason: err.Error()}
	}
	is, err := a.kindOf(ctx, t.Name)
	if err == nil {
		if is == nothing {
			err = sink.ErrNoIndex
		} else {
			err = checkKind(t, is)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open target %q: %w", t.Name, err)
	}
	return a.writer(t), nil
}

func (a *Admin) prepareTarget(ctx context.Context, t sink.Target) error {
	if err := a.checkPipeline(ctx, t); err != nil {
		return err
	}
	if len(t.Template) > 0 {
		if err := a.putTemplate(ctx, t, t.Template); err != nil {
			return err
		}
	}
	switch is, err := a.kindOf(ctx, t.Name); {
	case err != nil:
		return err
	case is != nothing:
		return checkKind(t, is)
	case t.DataStream:
		return a.createStream(ctx, t)
	}
	return a.createIndex(ctx, t)
}

func (a *Admin) checkPipeline(ctx context.Context, t sink.Target) error {
	if t.Pipeline == "" {
		return nil
	}
	_, err := a.do(ctx, "GET", "/_ingest/pipeline/"+url.PathEscape(t.Pipeline), "")
	if status(err) == http.StatusNotFound {
		return &sink.TargetError{Name: t.Name, Reason: fmt.Sprintf("there is no ingest pipeline %q: make it, or correct sink.pipeline", t.Pipeline)}
	}
	return err
}

// putTemplate writes the load's index template. Without patterns of its own it
// holds for the target and for what is named after it, as daily indexes are.
func (a *Admin) putTemplate(ctx context.Context, t sink.Target, raw json.RawMessage) error {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	var err error
	if body["index_patterns"] == nil {
		if body["index_patterns"], err = json.Marshal([]string{t.Name, t.Name + "-*"}); err != nil {
			return err
		}
	}
	if t.DataStream && body["data_stream"] == nil {
		body["data_stream"] = json.RawMessage("{}")
	}
	out, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = a.do(ctx, "PUT", "/_index_template/"+url.PathEscape(templateName(t.Name)), string(out))
	if e, ok := errors.AsType[*sink.RequestError](err); ok && e.Status == http.StatusBadRequest {
		return &sink.TargetError{Name: t.Name, Reason: "the server refuses the template: correct the file of sink.template: " + e.Reason}
	}
	return err
}

// kindOf asks what has the name.
func (a *Admin) kindOf(ctx context.Context, name string) (kind, error) {
	escaped := url.PathEscape(name)
	raw, err := a.do(ctx, "GET", "/_data_stream/"+escaped, "")
	var streams struct {
		Streams []json.RawMessage `json:"data_streams"`
	}
	switch {
	case err == nil:
		if err := decode(raw, &streams); err != nil || len(streams.Streams) > 0 {
			return aStream, err
		}
	case status(err) != http.StatusNotFound && !withoutStreams(err):
		return nothing, err
	}
	holders, err := a.writable(ctx, name)
	if err != nil || holders {
		return anAlias, err
	}
	_, err = a.do(ctx, "GET", "/"+escaped+"/_settings", "")
	if status(err) == http.StatusNotFound {
		return nothing, nil
	}
	return anIndex, err
}

// withoutStreams: the server does not know the path.
func withoutStreams(err error) bool {
	return status(err) == http.StatusBadRequest || status(err) == http.StatusMethodNotAllowed
}

// writable says whether the name is an alias; one that no write can go to is a
// *TargetError.
func (a *Admin) writable(ctx context.Context, name string) (bool, error) {
	raw, err := a.do(ctx, "GET", "/_alias/"+url.PathEscape(name), "")
	if status(err) == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var found map[string]struct {
		Aliases map[string]struct {
			Writes *bool `json:"is_write_index"`
		} `json:"aliases"`
	}
	if err := decode(raw, &found); err != nil {
		return false, err
	}
	if len(found) == 0 {
		return false, nil
	}
	for _, index := range found {
		w := index.Aliases[name].Writes
		if w != nil && *w || len(found) == 1 && w == nil {
			return true, nil
		}
	}
	return true, &sink.TargetError{
		Name:   name,
		Reason: fmt.Sprintf("it is an alias of %d indexes of which none is the write index: set is_write_index on one of them", len(found)),
	}
}

func checkKind(t sink.Target, is kind) error {
	switch {
	case t.DataStream && is != aStream:
		return &sink.TargetError{Name: t.Name, Reason: "it is an index or alias, not a data stream: choose another name, or set sink.data_stream to false"}
	case !t.DataStream && is == aStream:
		return &sink.TargetError{Name: t.Name, Reason: "it is a data stream: set sink.data_stream to true"}
	}
	return nil
}

// createStream makes a data stream; where no template says that the name is
// one, it makes such a template.
func (a *Admin) createStream(ctx context.Context, t sink.Target) error {
	create := func() error {
		_, err := a.do(ctx, "PUT", "/_data_stream/"+url.PathEscape(t.Name), "")
		if e, ok := errors.AsType[*sink.RequestError](err); ok && e.Type == "resource_already_exists_exception" {
			return nil
		}
		return err
	}
	err := create()
	if status(err) == http.StatusMethodNotAllowed {
		return &sink.TargetError{Name: t.Name, Reason: "this server has no data streams: set sink.data_stream to false"}
	}
	if status(err) != http.StatusBadRequest || len(t.Template) > 0 {
		return err
	}
	body := fmt.Sprintf(`{"index_patterns":[%q],"priority":200,"data_stream":{}}`, t.Name)
	if err := a.putTemplate(ctx, t, json.RawMessage(body)); err != nil {
		return err
	}
	return create()
}

// createIndex makes an index by the server's templates. Deletes are remembered
// for a day, so that a late write cannot bring a document back.
func (a *Admin) createIndex(ctx context.Context, t sink.Target) error {
	_, err := a.do(ctx, "PUT", "/"+url.PathEscape(t.Name), `{"settings":{"index":{"gc_deletes":"1d"}}}`)
	if e, ok := errors.AsType[*sink.RequestError](err); ok && e.Type == "resource_already_exists_exception" {
		return nil
	}
	return err
}

func (a *Admin) writer(t sink.Target) *writer {
	w := &writer{admin: a, path: "/" + url.PathEscape(t.Name) + "/_bulk", params: a.bulkParams(), create: t.DataStream}
	if t.Pipeline != "" {
		w.params.Set("pipeline", t.Pipeline)
	}
	return w
}

// DropTarget removes an index; see sink.Targets.
func (a *Admin) DropTarget(ctx context.Context, t sink.Target) (bool, error) {
	if err := t.Check(); err != nil {
		return false, &sink.TargetError{Name: t.Name, Reason: err.Error()}
	}
	is, err := a.kindOf(ctx, t.Name)
	if _, alias := errors.AsType[*sink.TargetError](err); alias {
		return false, nil // one without a write index
	}
	if err != nil {
		return false, fmt.Errorf("drop target %q: %w", t.Name, err)
	}
	if is == anAlias || is == aStream {
		return false, nil
	}
	return true, a.Drop(ctx, t.Name, t.Name)
}
