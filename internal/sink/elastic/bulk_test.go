package elastic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"

	"trawl/internal/sink"
)

// Every object that JSON allows goes as it is or compacted; nothing that goes
// has a line break or more than one value.
func TestOneLine(t *testing.T) {
	texts := []string{`{}`, `{"a":1}`, "{\n\"a\" : [ 1,\r\n2 ]}", `{"a":"}"}`, `{"a":"\\"}`, `{"a":"\\\"}"}`, `{"a":"x\ny"}`, `{"a":[{"b":"]"}]}`}
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(rapid.SampledFrom(texts).Draw(t, "doc"))
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			at := rapid.IntRange(0, len(doc)).Draw(t, "at")
			doc = append(doc[:at:at], append([]byte(rapid.SampledFrom([]string{"", "\"", "\\", "}", "{", "\n", "[", " ", "\xff", "1"}).Draw(t, "text")), doc[at:]...)...)
		}
		line, err := oneLine("id", doc)
		if err != nil && json.Valid(doc) && utf8.Valid(doc) && bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) {
			t.Fatalf("%q: %v", doc, err)
		}
		if err != nil {
			return
		}
		if bytes.ContainsAny(line, "\r\n") || line[0] != '{' {
			t.Fatalf("%q became %q", doc, line)
		}
		if d := json.NewDecoder(bytes.NewReader(line)); json.Valid(doc) {
			var whole json.RawMessage
			if err := d.Decode(&whole); err != nil || len(whole) != len(line) {
				t.Fatalf("%q is not one value: %v", line, err)
			}
		}
	})
	for doc, want := range map[string]string{
		strings.Repeat(`{"a":`, 501) + "1" + strings.Repeat("}", 501): "deeper",
		`{"a":1}{"b":2}`: "not valid", `{"a":"`: "not valid", `["a"]`: "not a JSON object", "": "not a JSON object", "{\"a\":\"x\ny\"}": "invalid character",
	} {
		if _, err := oneLine("id", []byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", doc, err, want)
		}
	}
}

func ops(verbs string) (ops []sink.Op) {
	for i, v := range verbs {
		op := sink.Op{ID: fmt.Sprint(i), Version: int64(i)}
		switch v {
		case 'd':
			op.Delete = true
		case 'c':
			op.Create = true
			op.Doc = []byte(`{"c":1}`)
		default:
			op.Doc = []byte(`{"i":1}`)
		}
		ops = append(ops, op)
	}
	return ops
}

// A stream is the same however it is read, from its start each time, and over
// when its request is.
func TestBody(t *testing.T) {
	w := &writer{}
	b := newBody()
	w.encode(b, ops("didci"), make([]sink.Result, 5))
	want := `{"delete":{"_id":"0","version":0,"version_type":"external_gte"}}
{"index":{"_id":"1","version":1,"version_type":"external_gte"}}
{"i":1}
{"delete":{"_id":"2","version":2,"version_type":"external_gte"}}
{"create":{"_id":"3"}}
{"c":1}
{"index":{"_id":"4","version":4,"version_type":"external_gte"}}
{"i":1}
`
	if b.size != int64(len(want)) {
		t.Errorf("%d bytes announced, %d sent", b.size, len(want))
	}
	var readers []io.ReadCloser
	for _, chunks := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, func(r io.Reader) io.Reader { return r }} {
		r, err := b.open()
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
		if got, err := io.ReadAll(chunks(r)); err != nil || string(got) != want {
			t.Errorf("%q %v", got, err)
		}
	}
	r, _ := b.open()
	b.recycle()
	for _, r := range append(readers, r) {
		if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, errOver) {
			t.Errorf("after the end: %d bytes, %v", n, err)
		}
	}
}

// The short way of reading an answer agrees with the JSON decoder.
func TestReadFine(t *testing.T) {
	batch := ops("dici")
	w := &writer{}
	good := `{"took":30,"errors":false,"items":[{"delete":{"status":404}},{"index":{"status":201}},{"create":{"status":201}},{"index":{"status":200}}]}`
	results := make([]sink.Result, 4)
	if !w.readFine([]byte(good), batch, []int{0, 1, 2, 3}, results) {
		t.Fatal("the usual answer is not taken")
	}
	if want := []sink.Result{{Status: 404}, {Status: 201}, {Status: 201}, {Status: 200}}; fmt.Sprint(results) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", results, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(good)
		at := rapid.IntRange(0, len(raw)-1).Draw(t, "at")
		raw[at] = rapid.SampledFrom([]byte(`0149{}[]",:x `)).Draw(t, "byte")
		raw = raw[:rapid.IntRange(at, len(raw)).Draw(t, "cut")]
		short, long := make([]sink.Result, 4), make([]sink.Result, 4)
		if !w.readFine(raw, batch, []int{0, 1, 2, 3}, short) {
			return
		}
		spaced := append([]byte(" "), raw...) // the long way
		if err := w.read(spaced, batch, []int{0, 1, 2, 3}, long); err != nil || fmt.Sprint(short) != fmt.Sprint(long) {
			t.Fatalf("%s: %v, by the decoder %v %v", raw, short, long, err)
		}
	})
}
