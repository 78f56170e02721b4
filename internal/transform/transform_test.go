package transform_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trawl/internal/extract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/page"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform"
)

var at = time.Date(2026, 3, 31, 23, 59, 59, 999e6, time.FixedZone("", -7200)) // April in UTC

// rec is a record at offset 7 with a timestamp.
func rec(key, value string) *kafkalog.Record {
	r := &kafkalog.Record{Offset: 7, Value: []byte(value), Time: at}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

func tombstone(key string) *kafkalog.Record {
	r := rec(key, "")
	r.Value = nil
	return r
}

func source(t testing.TB, text string) spec.LoadSource {
	t.Helper()
	var s spec.LoadSource
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func newFunc(t testing.TB, text string) transform.Func {
	t.Helper()
	f, err := transform.New(source(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

func run(t testing.TB, src string, r *kafkalog.Record) (sink.Op, bool, error) {
	t.Helper()
	op, ok, err := newFunc(t, src)(r, "events", 3)
	if (err != nil || !ok) && !reflect.DeepEqual(op, sink.Op{}) {
		t.Errorf("%s: op %+v beside ok %t, error %v", src, op, ok, err)
	}
	if ok {
		if err := sink.CheckOp(op); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
	return op, ok, err
}

func TestOps(t *testing.T) {
	const milli = 1775008799999
	doc := func(s string) []byte { return []byte(s) }
	for _, c := range []struct {
		src  string
		rec  *kafkalog.Record
		want sink.Op
	}{
		{`{}`, rec("", ` { "a" : 1.10 } `), sink.Op{ID: "events-3-7", Version: 7, Doc: doc(`{"a":1.10}`)}},
		{`{"format":"json"}`, rec("", "{\"a\":\r\n[1,\n2e400]}"), sink.Op{ID: "events-3-7", Version: 7, Doc: doc(`{"a":[1,2e400]}`)}},
		{`{"id":"key","version":"timestamp"}`, rec("k/ä", `{}`), sink.Op{ID: "k/ä", Version: milli, Doc: doc(`{}`)}},
		{`{"id":"key"}`, tombstone("k"), sink.Op{ID: "k", Version: 7, Delete: true}},
		{`{"id":"key","version":"timestamp","where":"a > 1"}`, tombstone("k"), sink.Op{ID: "k", Version: milli, Delete: true}},
		{`{"id":"a.b"}`, rec("", `{"a":{"b":"x\u00e4"}}`), sink.Op{ID: "xä", Version: 7, Doc: doc(`{"a":{"b":"x\u00e4"}}`)}},
		{`{"id":"a.b"}`, rec("", `{"a.b":12345678901234567890}`), sink.Op{ID: "12345678901234567890", Version: 7, Doc: doc(`{"a.b":12345678901234567890}`)}},
		{`{"routing_field":"u"}`, rec("", `{"u":5}`), sink.Op{ID: "events-3-7", Version: 7, Routing: "5", Doc: doc(`{"u":5}`)}},
		{`{"where":"a == 1 and not (b ?? false)"}`, rec("", `{"a":1}`), sink.Op{ID: "events-3-7", Version: 7, Doc: doc(`{"a":1}`)}},
		{
			`{"id":"i","routing_field":"r","where":"i == 9","fields":[{"drop":["i","r"]},{"set":{"field":"x","value":true}}]}`, rec("", `{"i":9,"r":"q","n":0.10}`),
			sink.Op{ID: "9", Version: 7, Routing: "q", Doc: doc(`{"n":0.10,"x":true}`)},
		},

		{`{"format":"plain","plain":{"index":"logs","by":"none"}}`, rec("", `{"a":1}`), sink.Op{ID: "events-3-7", Index: "logs", Version: 7, Doc: doc(`{"a":1}`)}},
		{`{"format":"plain"}`, rec("", `{"a":1}`), sink.Op{ID: "events-3-7", Version: 7, Doc: doc(`{"a":1}`)}},
		{`{"format":"plain","plain":{"index":"logs","by":"day"}}`, rec("", `{}`), sink.Op{ID: "events-3-7", Index: "logs-2026-04-01", Version: 7, Doc: doc(`{}`)}},
		{`{"format":"plain","plain":{"index":"logs","by":"month","time_field":"t","time_format":"iso8601","id_field":"i"}}`, rec("", `{"t":"2015-12-31T23:30:00-01:00","i":1}`), sink.Op{ID: "1", Index: "logs-2016-01", Version: 7, Doc: doc(`{"t":"2015-12-31T23:30:00-01:00","i":1}`)}},
		{`{"format":"plain","plain":{"index":"logs","by":"year","time_field":"t.u","time_format":"millis","id_field":"key"}}`, rec("k", `{"t":{"u":1440511397267}}`), sink.Op{ID: "k", Index: "logs-2015", Version: 7, Doc: doc(`{"t":{"u":1440511397267}}`)}},
		{`{"format":"plain","plain":{"index":"logs","by":"day","time_field":"t","time_format":"2006/01/02"}}`, rec("", `{"t":"2015/08/25"}`), sink.Op{ID: "events-3-7", Index: "logs-2015-08-25", Version: 7, Doc: doc(`{"t":"2015/08/25"}`)}},
		{`{"format":"plain","plain":{"index":"logs","id_field":"key"}}`, tombstone("k"), sink.Op{ID: "k", Index: "logs", Version: 7, Delete: true}},

		{`{"format":"river"}`, rec("", `{"index":"a-index","type":"t","id":"x","source":{"a": 1}}`), sink.Op{ID: "x", Index: "a-index", Version: 7, Doc: doc(`{"a":1}`)}},
		{`{"format":"river"}`, rec("", `{"source":{},"id":null,"index":"i","type":{"ignored":[]},"more":1}`), sink.Op{ID: "events-3-7", Index: "i", Version: 7, Doc: doc(`{}`)}},
		{`{"format":"river","fields":[{"rename":{"from":"a","to":"b"}}],"where":"a == 1","routing_field":"a"}`, rec("", `{"index":"i","id":5,"source":{"a":1}}`), sink.Op{ID: "5", Index: "i", Version: 7, Routing: "1", Doc: doc(`{"b":1}`)}},
	} {
		got, ok, err := run(t, c.src, c.rec)
		if err != nil || !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s of %s\n gave %+v (%s), %t, %v\n want %+v (%s)", c.src, c.rec.Value, got, got.Doc, ok, err, c.want, c.want.Doc)
		}
	}
}

func TestNoDocuments(t *testing.T) {
	for src, r := range map[string]*kafkalog.Record{
		`{}`:                 tombstone("k"),
		`{"id":"a"}`:         tombstone("k"),
		`{"format":"river"}`: tombstone("k"),
		`{"format":"plain","plain":{"index":"i","by":"day"}}`: tombstone("k"),
		`{"where":"a == 1","id":"missing"}`:                   rec("", `{"a":2}`),
		`{"where":"a == 1"}`:                                  rec("", `{}`),
		`{"format":"river","where":"false"}`:                  rec("", `{"index":"i","source":{}}`),
	} {
		if op, ok, err := run(t, src, r); ok || err != nil {
			t.Errorf("%s of %s gave %+v, %v", src, r.Value, op, err)
		}
	}
}

func TestClasses(t *testing.T) {
	const (
		day   = `{"format":"plain","plain":{"index":"logs","by":"day","time_field":"t"}}`
		river = `{"format":"river"}`
	)
	deep := strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000)
	big := strings.Repeat("x", 30<<20)
	noTime, before := rec("", `{}`), rec("", `{}`)
	noTime.Time, before.Time = time.Time{}, time.UnixMilli(-1)
	for _, c := range []struct {
		src   string
		rec   *kafkalog.Record
		class ingest.Class
		want  string
	}{
		{`{}`, rec("", ``), ingest.InvalidFormat, "the value is empty: not JSON"},
		{`{}`, rec("", ` `), ingest.InvalidFormat, "the text ends where a value is wanted"},
		{`{}`, rec("", `<html>no</html>`), ingest.InvalidFormat, `value <html>no</html>: not JSON: "<html>no</ht" where a value is wanted at byte 0`},
		{`{}`, rec("", `{"a":1}{"a":2}`), ingest.InvalidFormat, "where the end is wanted at byte 7"},
		{`{}`, rec("", "{\"a\":\"\xff\"}"), ingest.InvalidFormat, "not UTF-8: bytes ff 22 7d at byte 6"},
		{`{}`, rec("", `{"a":"\ud800"}`), ingest.InvalidFormat, `\ud800 is half of a surrogate pair at byte 6`},
		{`{}`, rec("", deep), ingest.InvalidFormat, "nested deeper than 200 at byte 1000"},
		{`{}`, rec("", "\ufeff{}"), ingest.InvalidFormat, "not JSON"},
		{`{}`, rec("", `{"a":"`+big), ingest.InvalidFormat, "the text ends where the end of a string is wanted"},
		{`{}`, rec("", `{"a":1,"a":2}`), ingest.InvalidEvent, "an object has two members a at byte 12"},
		{`{}`, rec("", `[{"a":1}]`), ingest.InvalidEvent, `the value is an array, a document has to be an object: [{"a":1}]`},
		{`{}`, rec("", `"`+big+`"`), ingest.InvalidEvent, "the value is a string, a document has to be an object"},
		{`{}`, rec("", `null`), ingest.InvalidEvent, "the value is null"},
		{`{"id":"key"}`, rec("", `{}`), ingest.InvalidEvent, "the record has no key"},
		{`{"id":"key"}`, tombstone(""), ingest.InvalidEvent, "the record has no key"},
		{`{"id":"key"}`, rec("\x00\x01", `{}`), ingest.InvalidEvent, `key holds a NUL character`},
		{`{"id":"key"}`, rec("\xff", `{}`), ingest.InvalidEvent, `key is not UTF-8, which an id has to be: "\xff"`},
		{`{"id":"key"}`, rec(strings.Repeat("k", 513), `{}`), ingest.InvalidEvent, "key has 513 bytes, an id at most 512: kkk"},
		{`{"id":"a.b"}`, rec("", `{"a":{}}`), ingest.InvalidEvent, `id field "a.b" is missing`},
		{`{"id":"a"}`, rec("", `{"a":""}`), ingest.InvalidEvent, `id field "a" is empty`},
		{`{"id":"a"}`, rec("", `{"a":"x\u0000"}`), ingest.InvalidEvent, "NUL"},
		{`{"id":"a"}`, rec("", `{"a":null}`), ingest.InvalidEvent, `id field "a" is null: it has to be a string or a whole number`},
		{`{"id":"a"}`, rec("", `{"a":1.5}`), ingest.InvalidEvent, `id field "a" is a number: it has to be a string or a whole number: 1.5`},
		{`{"id":"a"}`, rec("", `{"a":1e400}`), ingest.InvalidEvent, "1e400"},
		{`{"id":"a"}`, rec("", `{"a":{"b":1}}`), ingest.InvalidEvent, "an object"},
		{`{"routing_field":"u"}`, rec("", `{}`), ingest.InvalidEvent, `routing_field "u" is missing`},
		{`{"routing_field":"u"}`, rec("", `{"u":""}`), ingest.InvalidEvent, `routing_field "u" is empty`},
		{`{"routing_field":"u","id":"key"}`, tombstone("k"), ingest.InvalidEvent, "names no routing"},
		{`{"version":"timestamp"}`, noTime, ingest.InvalidEvent, "no timestamp"},
		{`{"version":"timestamp"}`, before, ingest.InvalidEvent, "no timestamp"},
		{`{"format":"plain","plain":{"index":"logs","by":"day"}}`, noTime, ingest.InvalidEvent, "no timestamp"},
		{`{"format":"plain","plain":{"index":"logs","by":"day","id_field":"key"}}`, tombstone("k"), ingest.InvalidEvent, "the index of its document is not known"},
		{day, rec("", `{}`), ingest.InvalidEvent, `time field "t" is missing`},
		{day, rec("", `{"t":"2015-02-30"}`), ingest.InvalidEvent, `time field "t": "2015-02-30" is no time in ISO 8601: no such day`},
		{day, rec("", `{"t":1e400}`), ingest.InvalidEvent, `time field "t": 1e400 is a number, not a string`},
		{day, rec("", `{"t":"`+big+`"}`), ingest.InvalidEvent, "is no time in ISO 8601"},
		{river, rec("", `[]`), ingest.InvalidEvent, "a river's message has to be an object"},
		{river, rec("", `{"index":"i"}`), ingest.InvalidEvent, `the message has no "source"`},
		{river, rec("", `{"index":"i","source":"{}"}`), ingest.InvalidEvent, `"source" is a string`},
		{river, rec("", `{"source":{}}`), ingest.InvalidEvent, `the message has no "index"`},
		{river, rec("", `{"index":5,"source":{}}`), ingest.InvalidEvent, `"index" is a number, not a string: 5`},
		{river, rec("", `{"index":"Big","source":{}}`), ingest.InvalidEvent, "use lower case"},
		{river, rec("", `{"index":"a,b","source":{}}`), ingest.InvalidEvent, `"index" "a,b"`},
		{river, rec("", `{"index":"-a","source":{}}`), ingest.InvalidEvent, "does not begin with -, _ or +"},
		{river, rec("", `{"index":"","source":{}}`), ingest.InvalidEvent, "index name of 0 bytes"},
		{river, rec("", `{"index":"`+strings.Repeat("i", 256)+`","source":{}}`), ingest.InvalidEvent, "index name of 256 bytes"},
		{river, rec("", `{"index":".kibana","source":{}}`), ingest.InvalidEvent, "belongs to the servers"},
		{river, rec("", `{"index":"i","id":"","source":{}}`), ingest.InvalidEvent, `"id" is empty`},
		{river, rec("", `{"index":"i","id":[],"source":{}}`), ingest.InvalidEvent, `"id" is an array`},
		{`{"where":"a > 1"}`, rec("", `{"a":"x"}`), ingest.TransformFailed, `where: expression "a > 1"`},
		{`{"where":"a"}`, rec("", `{"a":1}`), ingest.TransformFailed, `gives a number, not true or false, with a=1`},
		{`{"fields":[{"cast":{"field":"a","type":"int"}}]}`, rec("", `{"a":"x"}`), ingest.TransformFailed, `fields[0] cast: field "a": "x" is a string and cannot become int`},
		{`{"fields":[{"expr":{"field":"a","expression":"1 / a"}}]}`, rec("", `{"a":0}`), ingest.TransformFailed, "division by zero"},
		{`{"format":"pages"}`, rec("", `{}`), ingest.InvalidFormat, ""},
		{`{"format":"pages"}`, tombstone("k"), ingest.InvalidFormat, ""},
	} {
		_, ok, err := run(t, c.src, c.rec)
		e, is := errors.AsType[*ingest.RecordError](err)
		if ok || !is || e.Class != c.class || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %.60q gave %t, %.300v; want %s: %s", c.src, c.rec.Value, ok, err, c.class, c.want)
			continue
		}
		if class, _ := ingest.Classify(ingest.Transform, err); class != c.class || len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%s of %.60q: class %s, reason %.1200q", c.src, c.rec.Value, class, err)
		}
	}
}

func TestLargeValuesPass(t *testing.T) {
	value := `{"a": "` + strings.Repeat("x", 30<<20) + `"}`
	op, ok, err := run(t, `{"id":"key"}`, rec("k", value))
	if err != nil || !ok || len(op.Doc) != len(value)-1 {
		t.Errorf("%d bytes, %t, %v", len(op.Doc), ok, err)
	}
}

func TestBadSources(t *testing.T) {
	for src, want := range map[string]string{
		`{"format":"xml"}`:                            `format "xml" is none of`,
		`{"id":"a..b"}`:                               `id "a..b" has an empty part`,
		`{"routing_field":"."}`:                       `routing_field "." has an empty part`,
		`{"where":"now() > 1"}`:                       "where: expression",
		`{"fields":[{}]}`:                             "fields[0]",
		`{"format":"plain","plain":{"by":"hour"}}`:    `plain.by "hour" is none of`,
		`{"format":"plain","plain":{"by":"day"}}`:     "plain.index",
		`{"format":"plain","plain":{"index":"Logs"}}`: "plain.index: index name",
		`{"format":"plain","plain":{"id_field":"."}}`: "plain.id_field",
		`{"format":"plain","plain":{"index":"i","by":"day","time_field":"a."}}`:                     "plain.time_field",
		`{"format":"plain","plain":{"index":"i","by":"day","time_field":"a","time_format":"YYYY"}}`: `plain.time_format: time format "YYYY"`,
		`{"format":"pages","where":"a +"}`:                                                          "where",
	} {
		if _, err := transform.New(source(t, src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
	}
}

// What docs/formats.md shows is what it says.
func TestManual(t *testing.T) {
	const src = `{"where":"status < 500 and not (path startsWith \"/health\")","fields":[{"rename":{"from":"user.id","to":"user_id"}},` +
		`{"drop":["password","user"]},{"set":{"field":"source","value":"web"}},{"copy":{"from":"message","to":"original"}},` +
		`{"date":{"field":"time","format":"iso8601","to":"@timestamp"}},{"cast":{"field":"status","type":"int"}},{"expr":{"field":"slow","expression":"took_ms > 500"}}]}`
	const value = `{"status":200,"path":"/a","user":{"id":1},"message":"m","time":"2015-08-25T14:03:17.5+02:00","took_ms":501}`
	const want = `{"status":200,"path":"/a","message":"m","time":"2015-08-25T14:03:17.5+02:00","took_ms":501,"user_id":1,"source":"web","original":"m","@timestamp":"2015-08-25T12:03:17.5Z","slow":true}`
	if op, ok, err := run(t, src, rec("", value)); err != nil || !ok || string(op.Doc) != want {
		t.Errorf("%s, %t, %v", op.Doc, ok, err)
	}
	if _, ok, err := run(t, src, rec("", `{"status":200,"path":"/health/x"}`)); err != nil || ok {
		t.Errorf("/health: %t, %v", ok, err)
	}
	if op, ok, err := run(t, `{"where":"(price ?? 0) > 10"}`, rec("", `{}`)); err != nil || ok {
		t.Errorf("no price: %s, %t, %v", op.Doc, ok, err)
	}
}

func TestDataStream(t *testing.T) {
	f := transform.DataStream(newFunc(t, `{"id":"key"}`))
	if op, ok, err := f(rec("k", `{}`), "events", 3); !ok || err != nil || !op.Create || op.ID != "k" {
		t.Errorf("%+v, %t, %v", op, ok, err)
	}
	if _, ok, err := f(rec("k", `x`), "events", 3); ok || err == nil {
		t.Errorf("a bad record: %t, %v", ok, err)
	}
	_, ok, err := f(tombstone("k"), "events", 3)
	if e, is := errors.AsType[*ingest.RecordError](err); ok || !is || e.Class != ingest.InvalidEvent {
		t.Errorf("a delete: %t, %v", ok, err)
	}
}

func pageRecord(status int, body string) *kafkalog.Record {
	p := page.Page{URL: "https://example.org/a", Status: status, ContentType: "text/html", Body: []byte(body), When: at}
	return &kafkalog.Record{Key: []byte(p.URL), Value: p.Append(nil)}
}

func TestPages(t *testing.T) {
	good, gone, away := pageRecord(200, "<title>Hi</title>some text"), pageRecord(404, ""), pageRecord(301, "")
	op, ok, err := run(t, `{"format":"pages"}`, good)
	var doc map[string]any
	if err != nil || !ok || json.Unmarshal(op.Doc, &doc) != nil || doc["title"] != "Hi" || op.ID != "https://example.org/a" || op.Version != at.UnixMilli() {
		t.Errorf("%+v (%s), %t, %v", op, op.Doc, ok, err)
	}
	if op, ok, err := run(t, `{"format":"pages"}`, gone); err != nil || !ok || !op.Delete {
		t.Errorf("gone: %+v, %t, %v", op, ok, err)
	}
	if op, ok, err := run(t, `{"format":"pages"}`, away); err != nil || ok {
		t.Errorf("redirect: %+v, %t, %v", op, ok, err)
	}
	const changed = `{"format":"pages","where":"status == 200","routing_field":"title","fields":[{"drop":["text","fetched_at"]},{"rename":{"from":"title","to":"head"}}]}`
	op, ok, err = run(t, changed, good)
	if err != nil || !ok || op.Routing != "Hi" || strings.Contains(string(op.Doc), `"text":`) || !strings.Contains(string(op.Doc), `"head":"Hi"`) {
		t.Errorf("changed: %+v (%s), %t, %v", op, op.Doc, ok, err)
	}
	if _, ok, err := run(t, changed, gone); ok || err == nil {
		t.Errorf("a delete without routing: %t, %v", ok, err)
	}
	if op, ok, err := run(t, `{"format":"pages","where":"false"}`, gone); err != nil || !ok || !op.Delete {
		t.Errorf("a delete is not asked where: %+v, %t, %v", op, ok, err)
	}
	if _, ok, err := run(t, `{"format":"pages","where":"status != 200"}`, good); err != nil || ok {
		t.Errorf("where: %t, %v", ok, err)
	}
}

func TestPagesWithFields(t *testing.T) {
	f, err := transform.Pages([]string{extract.Title})
	if err != nil {
		t.Fatal(err)
	}
	op, ok, err := f(pageRecord(200, "<title>Hi</title>some text"), "", 0)
	if err != nil || !ok || string(op.Doc) != `{"url":"https://example.org/a","title":"Hi"}` {
		t.Errorf("%s, %t, %v", op.Doc, ok, err)
	}
	if _, err := transform.Pages([]string{"nope"}); err == nil {
		t.Error("an unknown field is taken")
	}
}

// The reader takes a record's memory back: nothing of it may stay in the op.
func TestOpsShareNoMemory(t *testing.T) {
	for _, src := range []string{`{"id":"key"}`, `{"id":"i","routing_field":"i"}`, `{"fields":[{"rename":{"from":"i","to":"j"}}]}`, `{"format":"river"}`, `{"format":"plain","plain":{"index":"x","by":"day"}}`} {
		r := rec("key", `{"i":"value","index":"idx","source":{"a":"b"},"t":"x"}`)
		f := newFunc(t, src)
		op, _, err := f(r, "events", 3)
		if err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprintf("%+v %s", op, op.Doc)
		clear(r.Value)
		clear(r.Key)
		for range 3 { // and nothing of a scanner that others use by then
			_, _, _ = f(rec("other", `{"i":"other","index":"other","source":{"o":"o"}}`), "events", 3)
		}
		if after := fmt.Sprintf("%+v %s", op, op.Doc); after != before {
			t.Errorf("%s: %s became %s", src, before, after)
		}
	}
}

func TestFuncsAreShared(t *testing.T) {
	f := newFunc(t, `{"id":"i","where":"i >= 0","fields":[{"expr":{"field":"j","expression":"i * 2"}}]}`)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				op, ok, err := f(rec("", fmt.Sprintf(`{"i":%d}`, i)), "events", i)
				if want := fmt.Sprintf(`{"i":%d,"j":%d}`, i, 2*i); err != nil || !ok || string(op.Doc) != want || op.ID != fmt.Sprint(i) {
					t.Errorf("%+v (%s), %t, %v", op, op.Doc, ok, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A replay changes nothing, whatever else was transformed in between.
func TestReplay(t *testing.T) {
	sources := []string{
		`{"id":"i","version":"timestamp"}`, `{"format":"river"}`, `{"where":"(n ?? 0) > 5","fields":[{"copy":{"from":"n","to":"m.o"}}]}`,
		`{"format":"plain","plain":{"index":"l","by":"month","time_field":"t","id_field":"key"}}`,
	}
	funcs := make([]transform.Func, len(sources))
	for i, s := range sources {
		funcs[i] = newFunc(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := funcs[rapid.IntRange(0, len(funcs)-1).Draw(t, "source")]
		draw := func() *kafkalog.Record {
			value := rapid.OneOf(
				rapid.StringMatching(`\{"i":("x{0,3}"|[0-9]{1,3}|null),"n":-?[0-9]{1,30}(\.[0-9]{1,9})?,"t":"20[0-9]{2}-1?[0-2]-[0-3][0-9]"\}`),
				rapid.StringMatching(`\{"index":"[a-zA-Z.]{1,3}","id":("a"|null|7),"source":(\{"n":[0-9]\}|\[\])\}`),
				rapid.String(),
			).Draw(t, "value")
			return rec("k", value)
		}
		r := draw()
		op, ok, err := f(r, "events", 1)
		_, _, _ = f(draw(), "events", 1)
		again, ok2, err2 := f(r, "events", 1)
		if !reflect.DeepEqual(op, again) || ok != ok2 || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%s gave %+v, %t, %v, then %+v, %t, %v", r.Value, op, ok, err, again, ok2, err2)
		}
		if ok && (!json.Valid(op.Doc) || op.Doc[0] != '{' || sink.CheckOp(op) != nil) {
			t.Fatalf("%s gave %+v (%s)", r.Value, op, op.Doc)
		}
	})
}

func FuzzTransform(f *testing.F) {
	sources := []string{
		`{"id":"i","routing_field":"r"}`, `{"format":"river"}`, `{"where":"a == 1","fields":[{"date":{"field":"t","to":"u.v"}},{"cast":{"field":"n","type":"int"}}]}`,
		`{"format":"plain","plain":{"index":"l","by":"day","time_field":"t","time_format":"millis"}}`,
	}
	funcs := make([]transform.Func, len(sources))
	for i, s := range sources {
		funcs[i] = newFunc(f, s)
		f.Add(i, []byte("k"), []byte(`{"i":1,"r":"x","a":1,"t":"2015-08-25","n":1e3,"index":"i","source":{"b":[null]}}`))
		f.Add(i, []byte{}, []byte(`{"t":1440511397267,"n":"\ud83d\ude00"}`))
	}
	f.Fuzz(func(t *testing.T, which int, key, value []byte) {
		r := &kafkalog.Record{Offset: 1, Key: key, Value: value, Time: at}
		op, ok, err := funcs[uint(which)%uint(len(funcs))](r, "events", 0)
		if err != nil {
			e, is := errors.AsType[*ingest.RecordError](err)
			if !is || e.Class < ingest.InvalidFormat || e.Class > ingest.TransformFailed || len(err.Error()) > 2000 {
				t.Fatalf("%q: %v", value, err)
			}
			return
		}
		if ok && (!json.Valid(op.Doc) || strings.ContainsAny(string(op.Doc), "\n\r") || sink.CheckOp(op) != nil) {
			t.Fatalf("%q gave %+v (%s)", value, op, op.Doc)
		}
	})
}
