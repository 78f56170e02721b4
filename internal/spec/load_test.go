package spec

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const fullLoad = `name: orders
sources:
  - topic: events
    partitions: [0, 3]
    start: {time: 2026-01-31T00:00:00Z}
    until: 2026-02-28T00:00:00Z
    id: order.id
    version: timestamp
    routing_field: customer
    where: 'type == "order"'
    fields:
      - rename: {from: a, to: b}
      - drop: [password, session.token]
      - set: {field: source, value: {shop: 7, tags: [x, null]}}
      - copy: {from: b, to: c}
      - date: {field: at, format: millis, to: created}
      - cast: {field: price, type: float}
      - expr: {field: total, expression: price * amount}
  - topic: audit.log
    start: {offset: 12}
    until: end
    format: plain
    plain: {index: logs, by: day, time_field: at}
  - topic: river
    format: river
    start: latest
sink: {kind: elastic, index: orders, pipeline: geoip, template: t.json}
limits: {record: 4MiB, batch_bytes: 10MiB, batch_count: 100, batch_age: 200ms, rate: 12.5}
read: uncommitted
`

func parseLoad(t *testing.T, text string) (*LoadSpec, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "t.json"), []byte("{\n \"template\": {}\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return ParseLoad(filepath.Join(dir, "load.yaml"), []byte(text))
}

func TestLoadHoldsWhatIsWritten(t *testing.T) {
	s, err := parseLoad(t, fullLoad)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := s.Sources[0], s.Sources[1], s.Sources[2]
	want := LoadSource{
		Topic: "events", Partitions: []int{0, 3}, Until: "2026-02-28T00:00:00Z", Format: FormatJSON, ID: "order.id",
		Start:   LoadStart{At: StartTime, Time: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)},
		Version: VersionTimestamp, RoutingField: "customer", Where: `type == "order"`, Fields: a.Fields,
	}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("%+v\nwant %+v", a, want)
	}
	if len(a.Fields) != 7 || string(a.Fields[2].Set.Value) != `{"shop":7,"tags":["x",null]}` || a.Fields[4].Date.To != "created" || a.Fields[1].Drop[1] != "session.token" {
		t.Errorf("operations %+v", a.Fields)
	}
	if b.Start != (LoadStart{At: StartOffset, Offset: 12}) || b.Plain != (LoadPlain{Index: "logs", By: ByDay, TimeField: "at", TimeFormat: TimeISO8601}) {
		t.Errorf("%+v", b)
	}
	if c.Start.At != StartLatest || c.Version != VersionOffset {
		t.Errorf("%+v", c)
	}
	if string(s.Sink.Template) != `{"template":{}}` {
		t.Errorf("template %s", s.Sink.Template)
	}
	if s.Limits != (LoadLimits{Record: 4 << 20, BatchBytes: 10 << 20, BatchCount: 100, BatchAge: Duration(200 * time.Millisecond), Rate: 12.5}) {
		t.Errorf("%+v", s.Limits)
	}
}

func TestLoadDefaults(t *testing.T) {
	s, err := ParseLoad("load.yaml", []byte("name: x\nsources: [{topic: t}]"))
	if err != nil {
		t.Fatal(err)
	}
	want := &LoadSpec{
		Name: "x", Sources: []LoadSource{{Topic: "t", Start: LoadStart{At: StartEarliest}, Format: FormatJSON, Version: VersionOffset}},
		Sink:   LoadSink{Kind: SinkSQLite, Index: "x"},
		Limits: LoadLimits{Record: 1 << 20, BatchBytes: 5 << 20, BatchCount: 5000, BatchAge: Duration(time.Second)}, Read: ReadCommitted,
	}
	s.from = nil
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v\nwant %+v", s, want)
	}
}

// TestLoadEffective: what is printed reads as the same load, and travels as the
// same load.
func TestLoadEffective(t *testing.T) {
	s, err := parseLoad(t, fullLoad)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Effective(&b); err != nil {
		t.Fatal(err)
	}
	again, err := parseLoad(t, b.String())
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if d := DiffLoad(s, again); len(d) > 0 {
		t.Errorf("%v in\n%s", d, b.String())
	}
	raw, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeLoad(raw)
	if err != nil || len(DiffLoad(s, back)) > 0 || !reflect.DeepEqual(s.Sources, back.Sources) {
		t.Errorf("%v %v\n%+v\n%+v", err, DiffLoad(s, back), s.Sources, back.Sources)
	}
	if _, err := DecodeLoad([]byte(`{"name":"x","sources":[{"topic":"t"}],"colour":1}`)); err == nil {
		t.Error("an unknown key was read")
	}
}

func TestLoadEffectiveMarksDefaults(t *testing.T) {
	s, err := ParseLoad("load.yaml", []byte("name: x\nsources: [{topic: t, version: offset}]"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Effective(&b); err != nil {
		t.Fatal(err)
	}
	const want = `name: x
sources:
  - topic: t
    start: earliest # default
    format: json # default
    version: offset
sink:
  kind: sqlite # default
  index: x # default
limits:
  record: 1MiB # default
  batch_bytes: 5MiB # default
  batch_count: 5000 # default
  batch_age: 1s # default
read: committed # default
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// TestLoadProblems: each is named with its line, key, value and a remedy.
func TestLoadProblems(t *testing.T) {
	source := func(s string) string { return "name: x\nsources:\n  - topic: t\n    " + s }
	elastic := func(s string) string { return "sink: {kind: elastic}\n" + source(s) }
	op := func(s string) string { return source("fields: [" + s + "]") }
	for _, c := range []struct{ yaml, want string }{
		{"", "name: is missing"},
		{"name: X\nsources: [{topic: t}]", `load.yaml:1: name: "X": is no name`},
		{"name: 20260101t000000\nsources: [{topic: t}]", "looks like the generation"},
		{"name: x", "there are 0 sources"},
		{"name: x\nsorces: []", "load.yaml:2: sorces: is no key of a load; did you mean sources?"},
		{"name: x\nname: y\nsources: [{topic: t}]", "load.yaml:2: name: is there twice, first in line 1"},
		{source("topics: u"), "load.yaml:4: sources[0].topics: is no key of a load; did you mean topic?"},
		{source("batch_age: 1s"), "sources[0].batch_age: is no key of a load; did you mean limits.batch_age?"},
		{"name: x\nsources: {topic: t}", "sources: wants a list, but is a set of keys"},
		{"name: 7\nsources: [{topic: t}]", `name: "7": wants text, but is a number; put it in quotes`},
		{"name: x\nsources: [{topic: a/b}]", "is no name of a topic"},
		{"name: x\nsources: [{format: json}]", "load.yaml:2: sources[0].topic: is missing"},
		{"name: x\nsources: [{topic: t}, {topic: t}]", "is read by sources[0], too"},
		{"name: x\nsources: [{topic: t, partitions: [0]}, {topic: t, partitions: [1, 0]}]", "is read by sources[0], too"},
		{source("partitions: [1, 1]"), "is there twice"},
		{source("partitions: [-1]"), `"-1": is no partition`},
		{source("partitions: 1"), "wants a list"},
		{source("partitions: [x]"), `sources[0].partitions[0]: "x": wants list of numbers, but is text`},
		{source("start: begin"), `"begin": is no start; write earliest`},
		{source("start: offset"), "is no start"},
		{source("start: {offset: -2}"), "is no offset"},
		{source("start: {offset: 1, time: 2026-01-01T00:00:00Z}"), "has an offset and a time"},
		{source("start: {time: tomorrow}"), `load.yaml:4: sources[0].start.time: "tomorrow": is no time of RFC 3339`},
		{source("until: tomorrow"), "is neither end nor a time"},
		{source("format: xml"), `"xml": is none of its values; choose json or river or plain or pages`},
		{source("version: 7x"), "choose offset or timestamp"},
		{source("format: plain\n    id: a"), "belongs to format json, not plain; use plain.id_field"},
		{source("plain: {by: day}"), "belongs to format plain, not json"},
		{source("id: a..b"), "is no path of a field"},
		{source("routing_field: a"), "means nothing to SQLite"},
		{source("format: plain\n    plain: {by: day}"), "makes several indexes, SQLite has one"},
		{elastic("format: plain\n    plain: {by: week}"), "choose none or day or month or year"},
		{elastic("format: plain\n    plain: {index: A/B}"), "is no index name"},
		{elastic("format: plain\n    plain: {time_field: at}"), "is not needed"},
		{elastic("format: plain\n    plain: {by: day, time_format: millis}"), "has no field to read"},
		{elastic("format: plain\n    plain: {by: day, time_field: at, time_format: '15:04'}"), "is no form of a time with its day"},
		{elastic("format: plain\n    plain: {by: day, time_field: at, time_format: dd.mm.yyyy}"), "is no form of a time with its day"},
		{op("{}"), "holds 0 operations"},
		{op("{drop: [a], set: {field: b, value: 1}}"), "holds 2 operations"},
		{op("{drop: []}"), "is empty"},
		{op("{rename: {from: a}}"), "sources[0].fields[0].rename.to: is missing"},
		{op("{copy: {from: a, too: b}}"), "did you mean to?"},
		{op("{set: {field: a}}"), "set.value: is missing"},
		{op("{cast: {field: a, type: date}}"), "choose string or int or float or bool"},
		{op("{date: {field: a, format: yesterday}}"), "is no form of a time"},
		{op("{expr: {field: a}}"), "expression: is missing"},
		{op("{expr: 7}"), "wants keys with values, but is a number; it may hold field, expression"},
		{source("where: " + strings.Repeat("x", 5000)), "has 5000 bytes; at most 4096"},
		{source("x: 1") + "\nsink: {kind: postgres}", "is no key"},
		{source("id: a") + "\nsink: {kind: postgres}", "choose sqlite or elastic or files"},
		{source("id: a") + "\nsink: {index: A}", "is no name of an index"},
		{source("id: a") + "\nsink: {data_stream: true}", "means nothing to SQLite"},
		{source("id: a") + "\nsink: {kind: files, data_stream: true}", "means nothing to files"},
		{source("routing_field: a") + "\nsink: {kind: files}", "means nothing to files"},
		{source("id: a") + "\nsink: {kind: elastic, template: missing.json}", "cannot be read (no such file or directory)"},
		{source("id: a") + "\nlimits: {record: 1}", `limits.record: "1": is not between 1KiB and 64MiB`},
		{source("id: a") + "\nlimits: {record: big}", "is no size"},
		{source("id: a") + "\nlimits: {batch_count: 0}", "is not between 1 and 100000"},
		{source("id: a") + "\nlimits: {batch_age: 2m}", "is not between 0s and 1m"},
		{source("id: a") + "\nlimits: {rate: -1}", "is not between 0.01 and"},
		{source("id: a") + "\nread: dirty", "choose committed or uncommitted"},
		{"name: x\nsources: &a [{topic: t}]\nsink: *a", "is an alias"},
		{"- x", "wants keys with values, but is a list"},
		{"name: [", "is not YAML"},
	} {
		_, err := ParseLoad("load.yaml", []byte(c.yaml))
		var ps Problems
		if !errors.As(err, &ps) {
			t.Errorf("%q: %v", c.yaml, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q gave\n%v\nwant %s", c.yaml, err, c.want)
		}
		for _, p := range ps {
			if p.Remedy == "" && p.Key != "sink.template" && !strings.Contains(p.What, "YAML") {
				t.Errorf("%.60q: no remedy in %v", c.yaml, p)
			}
		}
	}
}

func TestLoadIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: x\nsources:\n")
	for i := range 60 {
		b.WriteString("  - {topic: t" + strings.Repeat("x", i) + ", where: '" + strings.Repeat("y", 1000) + "'}\n")
	}
	if _, err := ParseLoad("l", []byte(b.String())); err == nil || !strings.Contains(err.Error(), "at most 32768") {
		t.Errorf("%v", err)
	}
	if _, err := ParseLoad("l", make([]byte, MaxFile+1)); err == nil {
		t.Error("a huge file was read")
	}
}

// TestLoadKeysAreTheStructs: each key of the structs has a line in the table,
// and the other way round.
func TestLoadKeysAreTheStructs(t *testing.T) {
	have := map[string]bool{}
	var visit func(path string, t reflect.Type)
	visit = func(path string, t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t != typeRaw {
			t = t.Elem()
		}
		if path != "" {
			have[path] = true
		}
		if t.Kind() != reflect.Struct || t == typeTime {
			return
		}
		for i := range t.NumField() {
			if tag := t.Field(i).Tag.Get("yaml"); tag != "" && tag != "-" {
				visit(join(path, tag), t.Field(i).Type)
			}
		}
	}
	visit("", reflect.TypeFor[LoadSpec]())
	for _, k := range LoadKeys() {
		if !have[k.Path] {
			t.Errorf("%s is in the table and in no struct", k.Path)
		}
		delete(have, k.Path)
		if k.Kind == "" || k.Default == "" || k.Doc == "" || k.Example == "" {
			t.Errorf("%s: incomplete", k.Path)
		}
	}
	if len(have) > 0 {
		t.Errorf("not in the table: %v", have)
	}
}

func TestDiffLoad(t *testing.T) {
	a, _ := ParseLoad("l", []byte("name: x\nsources: [{topic: t}]"))
	b, _ := ParseLoad("l", []byte("name: x\nsources: [{topic: t, partitions: [1]}]\nlimits: {rate: 5}"))
	got := strings.Join(DiffLoad(a, b), "; ")
	if got != "limits.rate: empty, now 5; sources[0].partitions[0]: empty, now 1" {
		t.Error(got)
	}
}

// TestLoadReference compares docs/load.md with the table; -update writes it.
func TestLoadReference(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "load.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "Do not edit below. -->\n\n"
	head, keys, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no place for the keys", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+mark+LoadReference()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if keys != LoadReference() {
		t.Errorf("%s is not what the table says: go test ./internal/spec -run TestLoadReference -update", file)
	}
}

// TestLoadExamples: the files that the documentation shows are loads.
func TestLoadExamples(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "load-qanal.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := ParseLoad(file, data); err != nil || len(s.Sources) != 2 || s.Sources[1].Plain.By != ByDay {
		t.Errorf("%v %+v", err, s)
	}
}

// TestFileOfTheOtherCommand: one hint, and not a list of unknown keys.
func TestFileOfTheOtherCommand(t *testing.T) {
	const crawl, load = "# mine\nseeds: {urls: [https://a.example/]}\nlimits: {pages: 7}\n", "name: x\nsources: [{topic: a}]\nread: committed\n"
	_, err := ParseLoad("c.yaml", []byte(crawl))
	if want := "c.yaml:2: seeds: is a key of a crawl; for the file of a crawl type: starter crawl -f c.yaml"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = Parse("l.yaml", []byte(load))
	if want := "l.yaml:2: sources: is a key of a load; for the file of a load type: starter load -f l.yaml"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for _, both := range []string{"seeds: {}\nsources: []\n", "sources: []\nseeds: {}\n"} {
		if _, err := Parse("b.yaml", []byte(both)); err == nil || !strings.Contains(err.Error(), "is no key of a spec") {
			t.Errorf("both: %v", err)
		}
	}
}
