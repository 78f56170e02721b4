// Package estest is a stand-in for Elasticsearch and OpenSearch in hermetic
// tests: it answers the requests of our sink as the real servers were seen to
// answer, including what they refuse whole and what per item. It refuses to be
// a search engine: matching is by plain words.
package estest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Server is one node. The fields may be changed between requests, under Lock.
type Server struct {
	sync.Mutex
	// Before may answer a request in place of the server: it returns whether it
	// did. It runs without the lock.
	Before func(w http.ResponseWriter, r *http.Request) bool
	// MaxContent is the limit of a request's body: above it 413. 0: 100 MB.
	MaxContent int
	// Pressure is the size from which a bulk gets 429 for ever. 0: none.
	Pressure int
	// Item may refuse an item: status and error type; 0 lets it pass.
	Item func(index, id string) (status int, kind string)
	// NoAutoCreate refuses items of an index that is not there.
	NoAutoCreate bool

	// Bulks counts requests to _bulk.
	Bulks int

	http      *httptest.Server
	indexes   map[string]*index
	streams   map[string]bool // indexes that are data streams
	pipelines map[string]bool
	aliases   map[string]map[string]bool // alias -> indexes; true: all take writes
	templates map[string]template
}

type template struct {
	Patterns []string        `json:"index_patterns"`
	Template json.RawMessage `json:"template"`
	Stream   *struct{}       `json:"data_stream"`
}

type index struct {
	docs    map[string]doc
	visible map[string]doc
}

type doc struct {
	version int64
	deleted bool
	source  json.RawMessage
	routing string
}

// New starts a server; it has to be closed.
func New() *Server { return start(httptest.NewServer) }

// On starts a server on a listener.
func On(l net.Listener) *Server {
	return start(func(h http.Handler) *httptest.Server {
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}}
		s.Start()
		return s
	})
}

func start(listen func(http.Handler) *httptest.Server) *Server {
	s := &Server{
		indexes: map[string]*index{}, aliases: map[string]map[string]bool{}, templates: map[string]template{},
		streams: map[string]bool{}, pipelines: map[string]bool{},
	}
	s.http = listen(s)
	return s
}

// URL of the server.
func (s *Server) URL() string { return s.http.URL }

// Close ends the server; requests after it are refused by the network.
func (s *Server) Close() { s.http.Close() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	before := s.Before
	limit := s.MaxContent
	s.Unlock()
	if before != nil && before(w, r) {
		return
	}
	if limit == 0 {
		limit = 100 << 20
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	if err != nil {
		return
	}
	if len(body) > limit {
		w.WriteHeader(http.StatusRequestEntityTooLarge) // with an empty body
		return
	}
	s.Lock()
	defer s.Unlock()
	s.route(w, r, body)
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, body []byte) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := parts[len(parts)-1]
	switch {
	case parts[0] == "_index_template" && len(parts) == 2:
		s.template(w, r, parts[1], body)
	case parts[0] == "_data_stream" && len(parts) == 2:
		s.stream(w, r, parts[1])
	case parts[0] == "_ingest" && len(parts) == 3:
		s.pipeline(w, r, parts[2])
	case parts[0] == "_aliases":
		s.moveAliases(w, body)
	case parts[0] == "_alias" && len(parts) == 2:
		s.showAlias(w, parts[1])
	case len(parts) == 1 && !strings.HasPrefix(parts[0], "_"):
		s.index(w, r, parts[0])
	case last == "_settings":
		s.found(w, parts[0], func(*index) any { return map[string]any{parts[0]: map[string]any{}} })
	case last == "_refresh":
		s.found(w, parts[0], func(x *index) any { x.visible = maps.Clone(x.docs); return map[string]any{} })
	case last == "_count":
		s.found(w, parts[0], func(x *index) any { return map[string]any{"count": x.live()} })
	case last == "_search":
		s.search(w, r, parts[0], body)
	case last == "_bulk":
		s.bulk(w, r, parts[0], body)
	case last == "_mget":
		s.mget(w, body)
	case len(parts) == 3 && parts[1] == "_doc":
		s.found(w, parts[0], func(x *index) any { return map[string]any{"_source": x.docs[parts[2]].source} })
	default:
		fail(w, 400, "illegal_argument_exception", "no handler found for "+r.URL.Path)
	}
}

func (s *Server) template(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	switch r.Method {
	case http.MethodPut:
		var t template
		if json.Unmarshal(body, &t) != nil || len(t.Patterns) == 0 || len(t.Template) > 0 && t.Template[0] != '{' {
			fail(w, 400, "x_content_parse_exception", "bad template")
			return
		}
		s.templates[name] = t
	case http.MethodGet:
		t, ok := s.templates[name]
		if !ok {
			fail(w, 404, "resource_not_found_exception", name)
			return
		}
		answer(w, 200, map[string]any{"index_templates": []any{map[string]any{"name": name, "index_template": t}}})
		return
	case http.MethodDelete:
		if _, ok := s.templates[name]; !ok {
			fail(w, 404, "index_template_missing_exception", name)
			return
		}
		delete(s.templates, name)
	}
	answer(w, 200, map[string]any{"acknowledged": true})
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, name string) {
	if r.Method != http.MethodPut {
		if !s.streams[name] {
			fail(w, 404, "index_not_found_exception", "no such index ["+name+"]")
			return
		}
		answer(w, 200, map[string]any{"data_streams": []any{map[string]any{"name": name}}})
		return
	}
	for _, t := range s.templates {
		if t.Stream != nil && slices.ContainsFunc(t.Patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
			s.streams[name] = true
			s.indexes[name] = &index{docs: map[string]doc{}}
			answer(w, 200, map[string]any{"acknowledged": true})
			return
		}
	}
	fail(w, 400, "illegal_argument_exception", "no matching index template found for data stream ["+name+"]")
}

func (s *Server) pipeline(w http.ResponseWriter, r *http.Request, name string) {
	switch r.Method {
	case http.MethodPut:
		s.pipelines[name] = true
	case http.MethodDelete:
		delete(s.pipelines, name)
		answer(w, 200, map[string]any{"acknowledged": true})
		return
	}
	if !s.pipelines[name] {
		answer(w, 404, map[string]any{}) // without an error, as the real one
		return
	}
	answer(w, 200, map[string]any{name: map[string]any{}})
}

func (s *Server) index(w http.ResponseWriter, r *http.Request, name string) {
	_, there := s.indexes[name]
	switch {
	case r.Method == http.MethodPut && there:
		fail(w, 400, "resource_already_exists_exception", "index ["+name+"] already exists")
		return
	case r.Method == http.MethodPut:
		s.indexes[name] = &index{docs: map[string]doc{}}
	case r.Method == http.MethodDelete && !there:
		fail(w, 404, "index_not_found_exception", "no such index ["+name+"]")
		return
	case r.Method == http.MethodDelete:
		delete(s.indexes, name)
		for alias, holders := range s.aliases {
			if delete(holders, name); len(holders) == 0 {
				delete(s.aliases, alias)
			}
		}
	}
	answer(w, 200, map[string]any{"acknowledged": true})
}

func (s *Server) moveAliases(w http.ResponseWriter, body []byte) {
	var in struct {
		Actions []map[string]struct{ Index, Alias string }
	}
	if json.Unmarshal(body, &in) != nil {
		fail(w, 400, "x_content_parse_exception", "bad actions")
		return
	}
	for _, a := range in.Actions {
		for verb, v := range a {
			if s.indexes[v.Index] == nil {
				fail(w, 404, "index_not_found_exception", v.Index)
				return
			}
			if s.aliases[v.Alias] == nil {
				s.aliases[v.Alias] = map[string]bool{}
			}
			if verb == "add" {
				s.aliases[v.Alias][v.Index] = true
			} else {
				delete(s.aliases[v.Alias], v.Index)
			}
		}
	}
	answer(w, 200, map[string]any{"acknowledged": true})
}

func (s *Server) showAlias(w http.ResponseWriter, alias string) {
	if len(s.aliases[alias]) == 0 {
		answer(w, 404, map[string]any{"error": "alias [" + alias + "] missing", "status": 404})
		return
	}
	out := map[string]any{}
	for name := range s.aliases[alias] {
		out[name] = map[string]any{"aliases": map[string]any{alias: map[string]any{}}} // none is the write index
	}
	answer(w, 200, out)
}

// find resolves an index or an alias of one.
func (s *Server) find(name string) *index {
	for holder := range s.aliases[name] {
		return s.indexes[holder]
	}
	return s.indexes[name]
}

func (s *Server) found(w http.ResponseWriter, name string, f func(*index) any) {
	x := s.find(name)
	if x == nil {
		fail(w, 404, "index_not_found_exception", "no such index ["+name+"]")
		return
	}
	answer(w, 200, f(x))
}

func (x *index) live() (n int) {
	for _, d := range x.visible {
		if !d.deleted {
			n++
		}
	}
	return n
}

// action of one bulk item.
type action struct {
	verb    string
	ID      *string `json:"_id"`
	Index   string  `json:"_index"`
	Routing string  `json:"routing"`
	Type    *string `json:"_type"`
	Version *int64  `json:"version"`
	Kind    string  `json:"version_type"`
	source  []byte
}

func (s *Server) bulk(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	s.Bulks++
	if t := r.Header.Get("Content-Type"); t != "application/x-ndjson" && t != "application/json" {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	if s.Pressure > 0 && len(body) > s.Pressure {
		fail(w, 429, "rejected_execution_exception", "rejected execution of coordinating operation")
		return
	}
	actions, err := parse(body)
	if err != nil {
		fail(w, 400, "illegal_argument_exception", err.Error())
		return
	}
	for _, a := range actions {
		if a.verb == "create" && a.Kind != "" {
			fail(w, 400, "action_request_validation_exception", "Validation Failed: 1: create operations only support internal versioning. use index instead;")
			return
		}
		if a.ID != nil && len(*a.ID) > 512 || a.Version != nil && *a.Version < 0 {
			fail(w, 400, "action_request_validation_exception", "Validation Failed: 1: id is too long or version is illegal;")
			return
		}
	}
	items, failed := make([]any, 0, len(actions)), false
	for _, a := range actions {
		target := name
		if a.Index != "" {
			target = a.Index
		}
		item := s.apply(target, r.URL.Query().Get("pipeline"), a)
		failed = failed || item["error"] != nil
		items = append(items, map[string]any{a.verb: item})
	}
	answer(w, 200, map[string]any{"took": 1, "errors": failed, "items": items})
}

func parse(body []byte) (actions []action, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, fmt.Errorf("request body is required")
	}
	if body[len(body)-1] != '\n' {
		return nil, fmt.Errorf("The bulk request must be terminated by a newline [\\n]") //nolint:staticcheck // the words of the real server
	}
	lines := bytes.Split(body[:len(body)-1], []byte("\n"))
	for i := 0; i < len(lines); i++ {
		var in map[string]action
		if json.Unmarshal(lines[i], &in) != nil || len(in) != 1 {
			return nil, fmt.Errorf("Malformed action/metadata line [%d]", i+1) //nolint:staticcheck // the words of the real server
		}
		for verb, a := range in {
			a.verb = verb
			if a.Type != nil {
				return nil, fmt.Errorf("Action/metadata line [%d] contains an unknown parameter [_type]", i+1) //nolint:staticcheck // the words of the real server
			}
			if verb != "delete" {
				if i++; i == len(lines) {
					return nil, fmt.Errorf("no document after line [%d]", i)
				}
				a.source = lines[i]
			}
			actions = append(actions, a)
		}
	}
	return actions, nil
}

func refusal(status int, kind, reason string) map[string]any {
	return map[string]any{"status": status, "error": map[string]any{"type": kind, "reason": reason}}
}

func (s *Server) apply(name, pipeline string, a action) map[string]any {
	if a.ID == nil || *a.ID == "" {
		return refusal(400, "illegal_argument_exception", "if _id is specified it must not be empty")
	}
	if s.Item != nil {
		if status, kind := s.Item(name, *a.ID); status != 0 {
			return refusal(status, kind, "refused by the test")
		}
	}
	if pipeline != "" && !s.pipelines[pipeline] {
		return refusal(400, "illegal_argument_exception", "pipeline with id ["+pipeline+"] does not exist")
	}
	if len(s.aliases[name]) > 1 {
		return refusal(400, "illegal_argument_exception", "no write index is defined for alias ["+name+"]")
	}
	if s.streams[name] && a.verb != "create" {
		return refusal(400, "illegal_argument_exception", "only write ops with an op_type of create are allowed in data streams")
	}
	x := s.find(name)
	if x == nil {
		if s.NoAutoCreate {
			return refusal(404, "index_not_found_exception", "no such index ["+name+"]")
		}
		x = &index{docs: map[string]doc{}}
		s.indexes[name] = x
	}
	if a.verb != "delete" {
		if reason := unmappable(a.source); reason != "" {
			return refusal(400, "mapper_parsing_exception", reason)
		}
	}
	version := int64(1)
	if a.Version != nil {
		version = *a.Version
	}
	old, there := x.docs[*a.ID]
	if a.verb == "create" && there && !old.deleted {
		return refusal(409, "version_conflict_engine_exception", "document already exists")
	}
	if there && a.Kind == "external_gte" && version < old.version || a.Kind == "external" && there && version <= old.version {
		return refusal(409, "version_conflict_engine_exception", fmt.Sprintf("current version [%d] is higher", old.version))
	}
	if pipeline != "" {
		a.source = append([]byte(`{"stamp":"piped",`), a.source[1:]...) // as the tests' pipeline does
	}
	x.docs[*a.ID] = doc{version: version, deleted: a.verb == "delete", routing: a.Routing, source: bytes.Clone(a.source)}
	switch {
	case a.verb == "delete" && (!there || old.deleted):
		return map[string]any{"status": 404} // and errors stays false
	case there && !old.deleted:
		return map[string]any{"status": 200}
	}
	return map[string]any{"status": 201}
}

// unmappable says why the mapping of our template refuses a document.
func unmappable(source []byte) string {
	var fields map[string]any
	if !utf8.Valid(source) || json.Unmarshal(source, &fields) != nil || fields == nil {
		return "failed to parse"
	}
	if v, ok := fields["fetched_at"].(string); ok {
		if _, err := time.Parse(time.RFC3339, v); err != nil {
			return "failed to parse field [fetched_at] of type [date]"
		}
	}
	for _, number := range []string{"status", "link_count"} {
		if v, ok := fields[number].(string); ok {
			return "failed to parse field [" + number + "] of type [integer]: " + v
		}
	}
	return ""
}

func (s *Server) mget(w http.ResponseWriter, body []byte) {
	type held struct {
		Index   string `json:"_index"`
		ID      string `json:"_id"`
		Routing string `json:"routing,omitempty"`
		Found   bool   `json:"found"`
		Version int64  `json:"_version,omitempty"`
		Error   any    `json:"error,omitempty"`
	}
	var in struct {
		Docs []held `json:"docs"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		fail(w, 400, "parsing_exception", err.Error())
		return
	}
	for i := range in.Docs {
		d := &in.Docs[i]
		x := s.find(d.Index)
		switch {
		case x == nil:
			d.Error = map[string]any{"type": "index_not_found_exception"}
		case s.streams[d.Index]:
			d.Error = map[string]any{"type": "illegal_argument_exception", "reason": "a data stream"}
		default:
			if found, ok := x.docs[d.ID]; ok && !found.deleted && found.routing == d.Routing {
				d.Found, d.Version = true, found.version
			}
		}
		d.Routing = ""
	}
	answer(w, 200, in)
}

func (s *Server) search(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	var in struct {
		Size  int
		Query struct {
			IDs  *struct{ Values []string } `json:"ids"`
			None *struct{}                  `json:"match_none"`
			Bool struct {
				Must []struct {
					Match struct{ Query, Type string } `json:"multi_match"`
				}
			}
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		fail(w, 400, "parsing_exception", err.Error())
		return
	}
	if s.find(name) == nil && r.URL.Query().Get("ignore_unavailable") == "true" {
		answer(w, 200, map[string]any{"hits": map[string]any{"hits": []any{}}})
		return
	}
	s.found(w, name, func(x *index) any {
		hits := []any{}
		if in.Query.IDs != nil {
			for _, id := range in.Query.IDs.Values {
				if d, ok := x.visible[id]; ok && !d.deleted {
					hits = append(hits, map[string]any{"_id": id, "_version": d.version})
				}
			}
			return map[string]any{"hits": map[string]any{"hits": hits}}
		}
		total := 0
		for _, id := range slices.Sorted(maps.Keys(x.visible)) {
			d := x.visible[id]
			if d.deleted || in.Query.None != nil {
				continue
			}
			var fields map[string]any
			_ = json.Unmarshal(d.source, &fields) // it was valid when it came
			all := true
			for _, m := range in.Query.Bool.Must {
				all = all && matches(fields, m.Match.Query)
			}
			if !all {
				continue
			}
			if total++; len(hits) < in.Size {
				hits = append(hits, map[string]any{
					"_id": id, "_score": 1.5, "_source": map[string]any{"title": fields["title"]},
					"highlight": map[string]any{"text": []any{fields["text"]}},
				})
			}
		}
		return map[string]any{"hits": map[string]any{"total": map[string]any{"value": total, "relation": "eq"}, "hits": hits}}
	})
}

// matches looks for the words of a query beside each other in one field.
func matches(fields map[string]any, query string) bool {
	want := " " + strings.Join(words(query), " ") + " "
	for _, f := range []string{"title", "description", "text"} {
		v, _ := fields[f].(string)
		if strings.Contains(" "+strings.Join(words(v), " ")+" ", want) {
			return true
		}
	}
	return false
}

func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !strings.ContainsRune("_", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && r < utf8.RuneSelf
	})
}

func fail(w http.ResponseWriter, status int, kind, reason string) {
	answer(w, status, map[string]any{"status": status, "error": map[string]any{"type": kind, "reason": reason}})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// Docs gives the ids and versions of an index that are not deleted, refreshed
// or not.
func (s *Server) Docs(name string) map[string]int64 {
	s.Lock()
	defer s.Unlock()
	out := map[string]int64{}
	if x := s.find(path.Base(name)); x != nil {
		for id, d := range x.docs {
			if !d.deleted {
				out[id] = d.version
			}
		}
	}
	return out
}

// Set changes fields under the lock.
func (s *Server) Set(edit func(*Server)) {
	s.Lock()
	defer s.Unlock()
	edit(s)
}
