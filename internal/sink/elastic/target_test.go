package elastic_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"trawl/internal/sink"
	"trawl/internal/sink/elastic"
	"trawl/internal/sink/elastic/estest"
	"trawl/internal/sink/sinktest"
)

// node is a server under test, asked without our client.
type node struct {
	*testing.T
	url   string
	admin *elastic.Admin
	name  string // prefix of all that the test makes
}

func newNode(t *testing.T, url string) *node {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	n := &node{T: t, url: url, admin: admin(t, url, nil), name: "target-" + strings.ToLower(rand.Text()[:10])}
	t.Cleanup(func() {
		for _, path := range []string{"/_data_stream/" + n.name + "*", "/" + n.name + "*", "/_index_template/trawl-" + n.name + "*", "/_ingest/pipeline/" + n.name + "*"} {
			_, _ = n.ask("DELETE", path, "") // of what the test did not make: 404
		}
	})
	return n
}

func (n *node) ask(method, path, body string) (int, string) {
	n.Helper()
	req, err := http.NewRequest(method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		n.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		n.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func (n *node) must(method, path, body string) string {
	n.Helper()
	code, answer := n.ask(method, path, body)
	if code > 299 {
		n.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return answer
}

func (n *node) open(t sink.Target) sink.Sink {
	n.Helper()
	for range 2 { // it is idempotent
		if err := n.admin.PrepareTarget(n.Context(), t); err != nil {
			n.Fatal(err)
		}
	}
	s, err := n.admin.OpenTarget(n.Context(), t)
	if err != nil {
		n.Fatal(err)
	}
	return s
}

func (n *node) write(s sink.Sink, op sink.Op, want sink.Outcome) {
	n.Helper()
	r, err := s.Write(n.Context(), []sink.Op{op})
	if err != nil || r[0].Outcome != want {
		n.Fatalf("%+v: %+v %v, want outcome %d", op, r, err, want)
	}
}

// refused wants a TargetError that says so.
func (n *node) refused(t sink.Target, reason string) {
	n.Helper()
	err := n.admin.PrepareTarget(n.Context(), t)
	if e, ok := errors.AsType[*sink.TargetError](err); !ok || !strings.Contains(e.Reason, reason) {
		n.Errorf("%+v: %v, want %q", t, err, reason)
	}
}

func (n *node) holds(index string, want map[string]int64) {
	n.Helper()
	var ids []sink.HeldID
	for id := range want {
		ids = append(ids, sink.HeldID{ID: id})
	}
	ids = append(ids, sink.HeldID{ID: "missing"})
	held, err := n.admin.Holds(n.Context(), index, ids)
	if err != nil {
		n.Fatal(err)
	}
	for i, h := range held {
		if version, there := want[ids[i].ID]; h.Found != there || there && version != 0 && h.Version != version {
			n.Errorf("%s holds %q: %+v, want version %d", index, ids[i].ID, h, version)
		}
	}
}

func (n *node) drop(t sink.Target, want bool) {
	n.Helper()
	for range 2 { // it is idempotent
		if dropped, err := n.admin.DropTarget(n.Context(), t); err != nil || dropped != want {
			n.Errorf("drop %+v: %v %v, want %v", t, dropped, err, want)
		}
	}
}

func doc(id string, version int64) sink.Op {
	return sink.Op{ID: id, Version: version, Doc: []byte(`{"@timestamp":"2026-01-02T03:04:05Z","title":"t"}`)}
}

// The cases run on the stand-in and, by TestRealTargets, on real servers.
var targetCases = map[string]func(n *node){
	"index": func(n *node) {
		s := n.open(sink.Target{Name: n.name})
		n.write(s, doc("a", 5), sink.Loaded)
		n.write(s, doc("a", 4), sink.Superseded)
		n.holds(n.name, map[string]int64{"a": 5})
		n.refused(sink.Target{Name: n.name, DataStream: true}, "not a data stream")
	},
	"index of the op": func(n *node) {
		s := n.open(sink.Target{Name: n.name})
		op := doc("a", 5)
		op.Index = n.name + "-2026.01.02"
		n.write(s, op, sink.Loaded)
		n.write(s, op, sink.Loaded)
		n.holds(n.name, nil)
		n.holds(op.Index, map[string]int64{"a": 5})
		n.holds(n.name+"-absent", nil)
	},
	"routing": func(n *node) {
		n.must("PUT", "/"+n.name, `{"settings":{"index":{"number_of_shards":5,"number_of_replicas":0}}}`)
		s := n.open(sink.Target{Name: n.name})
		for i := range 20 {
			op := doc(fmt.Sprint(i), 1)
			op.Routing = "same \"shard\""
			n.write(s, op, sink.Loaded)
		}
		held, err := n.admin.Holds(n.Context(), n.name, []sink.HeldID{{ID: "7", Routing: "same \"shard\""}})
		if err != nil || !held[0].Found {
			n.Errorf("%+v %v", held, err)
		}
	},
	"data stream": func(n *node) {
		s := n.open(sink.Target{Name: n.name, DataStream: true})
		n.write(s, doc("a", 5), sink.Loaded)
		n.write(s, doc("a", 5), sink.Superseded)
		n.write(s, sink.Op{ID: "a", Delete: true}, sink.Rejected)
		refresh(n.url)(n.T, n.name)
		n.holds(n.name, map[string]int64{"a": 0})
		n.refused(sink.Target{Name: n.name}, "set sink.data_stream to true")
	},
	"create in an index": func(n *node) {
		s := n.open(sink.Target{Name: n.name})
		op := doc("a", 5)
		op.Create = true
		n.write(s, op, sink.Loaded)
		op.Version = 9
		n.write(s, op, sink.Superseded)
	},
	"template": func(n *node) {
		n.open(sink.Target{Name: n.name, Template: json.RawMessage(`{"template":{"settings":{"index":{"number_of_replicas":0}}}}`)})
		if got := n.must("GET", "/_index_template/trawl-"+n.name, ""); !strings.Contains(got, n.name+"-*") {
			n.Errorf("the template has no patterns of ours: %s", got)
		}
		n.refused(sink.Target{Name: n.name, Template: json.RawMessage(`{"template":7}`)}, "correct the file")
		n.refused(sink.Target{Name: n.name, Template: json.RawMessage(`{`)}, "template")
	},
	"template of a data stream": func(n *node) {
		s := n.open(sink.Target{Name: n.name, DataStream: true, Template: json.RawMessage(`{"priority":300,"template":{}}`)})
		n.write(s, doc("a", 5), sink.Loaded)
	},
	"alias": func(n *node) {
		n.must("PUT", "/"+n.name+"-1", "")
		n.must("POST", "/_aliases", `{"actions":[{"add":{"index":"`+n.name+`-1","alias":"`+n.name+`"}}]}`)
		n.write(n.open(sink.Target{Name: n.name}), doc("a", 5), sink.Loaded)
		n.holds(n.name, map[string]int64{"a": 5})
		n.must("PUT", "/"+n.name+"-2", "")
		n.must("POST", "/_aliases", `{"actions":[{"add":{"index":"`+n.name+`-2","alias":"`+n.name+`"}}]}`)
		n.refused(sink.Target{Name: n.name}, "set is_write_index")
		n.refused(sink.Target{Name: n.name + "-1", DataStream: true}, "not a data stream")
	},
	"pipeline": func(n *node) {
		n.refused(sink.Target{Name: n.name, Pipeline: n.name}, "no ingest pipeline")
		code, _ := n.ask("PUT", "/_ingest/pipeline/"+n.name, `{"processors":[{"set":{"field":"stamp","value":"piped"}}]}`)
		if code > 299 { // a server without the usual processors
			n.must("PUT", "/_ingest/pipeline/"+n.name, `{"processors":[]}`)
		}
		s := n.open(sink.Target{Name: n.name, Pipeline: n.name})
		n.write(s, doc("a", 5), sink.Loaded)
		if got := n.must("GET", "/"+n.name+"/_doc/a", ""); code <= 299 && !strings.Contains(got, "piped") {
			n.Errorf("the document did not pass the pipeline: %s", got)
		}
		n.must("DELETE", "/_ingest/pipeline/"+n.name, "")
		n.write(s, doc("b", 5), sink.Rejected)
	},
	"drop of an index": func(n *node) {
		t := sink.Target{Name: n.name, Template: json.RawMessage(`{"template":{"settings":{"index":{"number_of_replicas":0}}}}`)}
		op := doc("a", 5)
		op.Index = n.name + "-elsewhere"
		n.write(n.open(t), op, sink.Loaded)
		n.drop(t, true)
		if _, err := n.admin.OpenTarget(n.Context(), t); !errors.Is(err, sink.ErrNoIndex) {
			n.Errorf("it is still there: %v", err)
		}
		if code, _ := n.ask("GET", "/_index_template/trawl-"+n.name, ""); code != 404 {
			n.Errorf("the template is still there: %d", code)
		}
		n.holds(op.Index, map[string]int64{"a": 5})
	},
	"drop of what others share": func(n *node) {
		n.must("PUT", "/"+n.name+"-1", "")
		n.must("POST", "/_aliases", `{"actions":[{"add":{"index":"`+n.name+`-1","alias":"`+n.name+`"}}]}`)
		n.write(n.open(sink.Target{Name: n.name}), doc("a", 5), sink.Loaded)
		n.drop(sink.Target{Name: n.name}, false)
		n.must("PUT", "/"+n.name+"-2", "")
		n.must("POST", "/_aliases", `{"actions":[{"add":{"index":"`+n.name+`-2","alias":"`+n.name+`"}}]}`)
		n.drop(sink.Target{Name: n.name}, false)
		n.holds(n.name+"-1", map[string]int64{"a": 5})
	},
	"drop of a data stream": func(n *node) {
		n.write(n.open(sink.Target{Name: n.name, DataStream: true}), doc("a", 5), sink.Loaded)
		n.drop(sink.Target{Name: n.name, DataStream: true}, false)
		n.write(n.open(sink.Target{Name: n.name, DataStream: true}), doc("a", 5), sink.Superseded)
	},
	"not there": func(n *node) {
		if _, err := n.admin.OpenTarget(n.Context(), sink.Target{Name: n.name}); !errors.Is(err, sink.ErrNoIndex) {
			n.Errorf("open: %v, want ErrNoIndex", err)
		}
	},
}

func runTargets(t *testing.T, url func(t *testing.T) string) {
	for name, run := range targetCases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, url(t))
			// A server made of the plain jars of Elasticsearch lacks them.
			if code, _ := n.ask("GET", "/_data_stream/none", ""); code != 404 && strings.Contains(name, "data stream") {
				n.refused(sink.Target{Name: n.name, DataStream: true}, "no data streams")
				return
			}
			run(n)
		})
	}
}

func TestTargets(t *testing.T) {
	runTargets(t, func(t *testing.T) string {
		s := estest.New()
		t.Cleanup(s.Close)
		return s.URL()
	})
}

// An index that the server must not make is an outcome of the item.
func TestForbiddenIndex(t *testing.T) {
	s, w := server(t)
	s.NoAutoCreate = true
	op := sinktest.Op("a", 1, "t", "x")
	op.Index = "elsewhere"
	r, err := w.Write(t.Context(), []sink.Op{op, sinktest.Op("b", 1, "t", "x")})
	if err != nil || r[0].Outcome != sink.Rejected || r[0].Type != "index_not_found_exception" || r[1].Outcome != sink.Loaded {
		t.Fatalf("%+v %v", r, err)
	}
}
