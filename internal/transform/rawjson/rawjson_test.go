package rawjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"trawl/internal/transform/rawjson"
)

func scan(src string) (string, error) {
	s := rawjson.Get()
	defer rawjson.Put(s)
	d, err := s.Scan([]byte(src))
	if err != nil {
		return "", err
	}
	return string(d.Text), nil
}

func TestGood(t *testing.T) {
	for src, want := range map[string]string{
		`{}`:      `{}`,
		` [ ] `:   `[]`,
		"\t1\r\n": `1`,
		`{"a" : [ 1 , {"b":null} , [] , {} ] , "c":"x y\n\"" }`: `{"a":[1,{"b":null},[],{}],"c":"x y\n\""}`,
		`[-0, 0.10, 1e400, 1E+5, 12345678901234567890.10]`:      `[-0,0.10,1e400,1E+5,12345678901234567890.10]`,
		`"\ud83d\ude00 😀 \u2028` + "\u2028\"":                   `"\ud83d\ude00 😀 \u2028` + "\u2028\"",
		`[true,false,null]`:                                     `[true,false,null]`,
		`{"":{"":1},"a":{"":2}}`:                                `{"":{"":1},"a":{"":2}}`,
		`[{"a":1},{"a":2}]`:                                     `[{"a":1},{"a":2}]`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200):     strings.Repeat("[", 200) + strings.Repeat("]", 200),
	} {
		if got, err := scan(src); err != nil || got != want {
			t.Errorf("%.80q gave %.80q, %v", src, got, err)
		}
	}
}

func TestBad(t *testing.T) {
	many := "{"
	for i := range 40 {
		many += fmt.Sprintf(`"k%d":%d,`, i, i)
	}
	for src, want := range map[string]struct {
		problem rawjson.Problem
		at      int
	}{
		``:                        {rawjson.Syntax, 0},
		` `:                       {rawjson.Syntax, 1},
		`{`:                       {rawjson.Syntax, 1},
		`{"a"`:                    {rawjson.Syntax, 4},
		`{"a":`:                   {rawjson.Syntax, 5},
		`{"a":1`:                  {rawjson.Syntax, 6},
		`{"a":1,}`:                {rawjson.Syntax, 7},
		`{a:1}`:                   {rawjson.Syntax, 1},
		`{"a" 1}`:                 {rawjson.Syntax, 5},
		`[1,]`:                    {rawjson.Syntax, 3},
		`[1 2]`:                   {rawjson.Syntax, 3},
		`[1}`:                     {rawjson.Syntax, 2},
		`{"a":1]`:                 {rawjson.Syntax, 6},
		`{} {}`:                   {rawjson.Syntax, 3},
		`nul`:                     {rawjson.Syntax, 0},
		`nullx`:                   {rawjson.Syntax, 4},
		`01`:                      {rawjson.Syntax, 1},
		`-`:                       {rawjson.Syntax, 1},
		`1.`:                      {rawjson.Syntax, 2},
		`1e`:                      {rawjson.Syntax, 2},
		`.5`:                      {rawjson.Syntax, 0},
		`+1`:                      {rawjson.Syntax, 0},
		`NaN`:                     {rawjson.Syntax, 0},
		`'a'`:                     {rawjson.Syntax, 0},
		`"a`:                      {rawjson.Syntax, 2},
		`"abcdefghijklmnopqrst`:   {rawjson.Syntax, 21},
		`"\x"`:                    {rawjson.Syntax, 1},
		`"\`:                      {rawjson.Syntax, 2},
		`"\u12"`:                  {rawjson.Syntax, 1},
		"\"a\nb\"":                {rawjson.Syntax, 2},
		"\"\x00\"":                {rawjson.Syntax, 1},
		"\ufeff{}":                {rawjson.Syntax, 0},
		"<html>":                  {rawjson.Syntax, 0},
		"\"a\xff\"":               {rawjson.Encoding, 2},
		"\"\xed\xa0\x80\"":        {rawjson.Encoding, 1},
		`["\ud800"]`:              {rawjson.Encoding, 2},
		`"\ude00\ud83d"`:          {rawjson.Encoding, 1},
		`"\ud83d\u0041"`:          {rawjson.Encoding, 1},
		`"\ude00\ude01"`:          {rawjson.Encoding, 1},
		`{"a":1,"a":2}`:           {rawjson.Duplicate, 12},
		`{"a":1,"\u0061":2}`:      {rawjson.Duplicate, 17},
		`{"x":[{"b":{},"b":[]}]}`: {rawjson.Duplicate, 20},
		many + `"k7":1}`:          {rawjson.Duplicate, len(many) + 6},
		strings.Repeat("[", 201) + strings.Repeat("]", 201):        {rawjson.Deep, 200},
		strings.Repeat(`{"a":`, 10000) + strings.Repeat("}", 9999): {rawjson.Deep, 1000},
	} {
		_, err := scan(src)
		e, ok := errors.AsType[*rawjson.Error](err)
		if !ok || e.Problem != want.problem || e.At != want.at {
			t.Errorf("%.60q: %v (problem %+v), want %+v", src, err, e, want)
			continue
		}
		if len(err.Error()) > 250 || strings.ContainsAny(err.Error(), "\n\x00") || !utf8.ValidString(err.Error()) {
			t.Errorf("%.60q: reason %q", src, err)
		}
	}
}

// A hostile text must not cost more than a good one.
func TestLargeTexts(t *testing.T) {
	const size = 4 << 20
	var members strings.Builder
	for i := 0; members.Len() < size; i++ {
		fmt.Fprintf(&members, `"%d":0,`, i)
	}
	for name, src := range map[string]string{
		"string":       `{"a":"` + strings.Repeat("x", size) + `"}`,
		"escapes":      `{"a":"` + strings.Repeat(`\\`, size/2) + `"}`,
		"escaped name": `{"` + strings.Repeat(`\"`, size/2) + `":1}`,
		"members":      `{` + members.String() + `"x":0}`,
		"brackets":     `[` + strings.Repeat("[],", size/3) + `0]`,
		"spaces":       `[` + strings.Repeat(" ", size) + `0]`,
		"spaced":       `[` + strings.Repeat("0 , ", size/4) + `0]`,
		"number":       `[` + strings.Repeat("1", size) + `]`,
		"emptyObjects": `[` + strings.Repeat(`{"a":{}},`, size/9) + `0]`,
	} {
		began := time.Now()
		if _, err := scan(src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}

// oneOf draws JSON of some depth, with white space and awkward texts.
func oneOf(t *rapid.T, depth int) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "}).Draw(t, "space") }
	n := 5
	if depth == 0 {
		n = 3
	}
	switch rapid.IntRange(0, n).Draw(t, "kind") {
	case 0:
		return space() + rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word") + space()
	case 1:
		return space() + rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?`).Draw(t, "number") + space()
	case 2, 3:
		return space() + text(t) + space()
	case 4:
		parts := make([]string, rapid.IntRange(0, 4).Draw(t, "n"))
		for i := range parts {
			parts[i] = oneOf(t, depth-1)
		}
		return "[" + strings.Join(parts, ",") + space() + "]"
	}
	names := rapid.SliceOfNDistinct(rapid.StringN(0, 12, 40), 0, 20, rapid.ID[string]).Draw(t, "names")
	parts := make([]string, len(names))
	for i := range parts {
		parts[i] = space() + string(rawjson.Quote(nil, strings.ToValidUTF8(names[i], fmt.Sprint(i)))) + space() + ":" + oneOf(t, depth-1)
	}
	return "{" + strings.Join(parts, ",") + space() + "}"
}

func text(t *rapid.T) string {
	return `"` + rapid.StringMatching(`([ -!#-Z^-~äß日😀]|\\n|\\"|\\\\|\\/|\\u00e4|\\ud83d\\ude00|\\u2028){0,40}`).Draw(t, "text") + `"`
}

func TestCompactsAsTheStandardLibraryDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := oneOf(t, 3)
		got, err := scan(src)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(src)); err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		if got != want.String() {
			t.Fatalf("got  %s\nwant %s", got, &want)
		}
		if again, err := scan(got); err != nil || again != got {
			t.Fatalf("a second time: %s, %v", again, err)
		}
	})
}

// members gives what the standard library finds in an object.
func members(t *rapid.T, doc []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(doc, &m); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return m
}

func TestMembersAndFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := `{"x":` + oneOf(t, 2) + `, "y":{"z":` + oneOf(t, 2) + `,"w" : 5},"` + rapid.StringMatching(`[a-w]{1,9}`).Draw(t, "name") + `":` + oneOf(t, 1) + `}`
		s := rawjson.Get()
		defer rawjson.Put(s)
		d, err := s.Scan([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		want := members(t, d.Text)
		if len(want) != len(d.Members) {
			t.Fatalf("%d members of %s", len(d.Members), d.Text)
		}
		for _, m := range d.Members {
			if string(want[string(m.Name)]) != string(m.Value) {
				t.Fatalf("%s is %s, want %s", m.Name, m.Value, want[string(m.Name)])
			}
		}
		within := members(t, want["y"])
		if got := d.Find("y.z"); string(got) != string(within["z"]) {
			t.Fatalf("y.z is %s, want %s", got, within["z"])
		}
		if got := d.Find("y.w"); string(got) != "5" {
			t.Fatalf("y.w is %s", got)
		}
		edited := rawjson.Edit(d.Members)
		if got := edited.Append(nil); string(got) != string(d.Text) {
			t.Fatalf("written again: %s, want %s", got, d.Text)
		}
		if edited.Size() != len(d.Text) {
			t.Fatalf("size is %d of %d", edited.Size(), len(d.Text))
		}
	})
}

func TestPaths(t *testing.T) {
	const src = `{"a":{"b":1,"c.d":2,"e":{"f":3}},"a.x":4,"a.e":{"f":5},"n":"s","l":[{"b":6}],"\u0071\"":{"b":7},"o":{}}`
	s := rawjson.Get()
	defer rawjson.Put(s)
	d, err := s.Scan([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"a.b": "1", "a.c.d": "2", "a.x": "4", "a.e.f": "5", "a.e": `{"f":5}`, "n": `"s"`, `q".b`: "7", "o": "{}",
		"": "", "a.y": "", "n.b": "", "l.b": "", "l.0": "", "b": "", "a.b.c": "", "o.x": "", "a.e.f.g": "",
	} {
		if got := d.Find(path); string(got) != want {
			t.Errorf("find %s: %q, want %q", path, got, want)
		}
		edited := rawjson.Edit(d.Members)
		if got := edited.Get(path); string(got) != want {
			t.Errorf("get %s: %q, want %q", path, got, want)
		}
		if found := edited.Drop(path); found != (want != "") || edited.Get(path) != nil && path != "a.e" {
			t.Errorf("drop %s: %t, then %q", path, found, edited.Get(path))
		}
	}
}

func TestEdits(t *testing.T) {
	s := rawjson.Get()
	defer rawjson.Put(s)
	d, err := s.Scan([]byte(`{"a":{"b":1.10,"c":{"d":[1]}},"s":"x","n":12345678901234567890}`))
	if err != nil {
		t.Fatal(err)
	}
	o := rawjson.Edit(d.Members)
	for _, c := range []struct{ path, value, fails string }{
		{"a.b", `2`, ""},
		{"a.c.e.f", `"new"`, ""},
		{"p.q.r", `null`, ""},
		{`w"x`, `{}`, ""},
		{"s.t", `1`, `field "s.t" cannot be set: "s" is a string, not an object: "x"`},
		{"a.c.d.x", `1`, `field "a.c.d.x" cannot be set: "d" is an array, not an object: [1]`},
	} {
		err := o.Set(c.path, []byte(c.value))
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || err.Error() != c.fails) {
			t.Errorf("set %s: %v, want %q", c.path, err, c.fails)
		}
	}
	o.Drop("a.c.d")
	const want = `{"a":{"b":2,"c":{"e":{"f":"new"}}},"s":"x","n":12345678901234567890,"p":{"q":{"r":null}},"w\"x":{}}`
	if got := o.Append(nil); string(got) != want || o.Size() != len(want) {
		t.Errorf("got  %s (%d)\nwant %s", got, o.Size(), want)
	}
	if got := o.Get("a.c"); string(got) != `{"e":{"f":"new"}}` {
		t.Errorf("a.c is %s", got)
	}
}

func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		quoted := rawjson.Quote(nil, want)
		if bytes.ContainsAny(quoted, "\n\r") {
			t.Fatalf("%q holds a line break", quoted)
		}
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil {
			t.Fatalf("%q: %v", quoted, err)
		}
		if got, ok := rawjson.String(quoted); !ok || got != back || strings.ToValidUTF8(want, "") == want && got != want {
			t.Fatalf("%q became %q, and Go reads %q", want, got, back)
		}
	})
}

func TestShow(t *testing.T) {
	for raw, want := range map[string]string{
		`"x"`: `"x"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`,
		strings.Repeat("ä", 60): strings.Repeat("ä", 40) + "... (120 bytes)",
	} {
		if got := rawjson.Show([]byte(raw)); got != want {
			t.Errorf("%q is shown as %s", raw, got)
		}
	}
}

func TestBadPath(t *testing.T) {
	for path, bad := range map[string]bool{
		"a": false, "a.b-c. d": false, "": true, ".": true, "a.": true, ".a": true, "a..b": true, "\xff": true,
		strings.Repeat("a.", 31) + "a": false, strings.Repeat("a.", 32) + "a": true, strings.Repeat("a", 513): true,
	} {
		if got := rawjson.BadPath(path); (got != "") != bad {
			t.Errorf("%.40q: %q", path, got)
		}
	}
}

// unique says whether every object of a text has each name once, as the
// standard library reads names.
func unique(d *json.Decoder) bool {
	tok, err := d.Token()
	if err != nil {
		return true
	}
	ok := true
	switch tok {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			name, _ := d.Token()
			text, _ := name.(string)
			ok = ok && !seen[text]
			seen[text] = true
			ok = unique(d) && ok
		}
		_, _ = d.Token()
	case json.Delim('['):
		for d.More() {
			ok = unique(d) && ok
		}
		_, _ = d.Token()
	}
	return ok
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.50,{"b":"c\u00e4\ud83d\ude00"}],"a b":null}`, `[[[]]]`, `"\ud800"`, ` { "a" : 1e400 } `, `{"a":1,"\u0061":2}`, "{\"a\":\"\xff\"}", `-0.0e-0`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s := rawjson.Get()
		defer rawjson.Put(s)
		d, err := s.Scan(bytes.Clone(src))
		if err != nil {
			e, ok := errors.AsType[*rawjson.Error](err)
			if !ok || e.At < 0 || e.At > len(src) {
				t.Fatalf("error %#v", err)
			}
			if json.Valid(src) && e.Problem == rawjson.Syntax {
				t.Fatalf("refused %q: %v", src, err)
			}
			if e.Problem == rawjson.Duplicate && json.Valid(src) && unique(json.NewDecoder(bytes.NewReader(src))) {
				t.Fatalf("no duplicate in %q: %v", src, err)
			}
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, src); err != nil || !bytes.Equal(want.Bytes(), d.Text) {
			t.Fatalf("%q gave %q, Go %q, %v", src, d.Text, &want, err)
		}
		if !unique(json.NewDecoder(bytes.NewReader(src))) {
			t.Fatalf("did not see the duplicate in %q", src)
		}
		if d.Object() {
			o := rawjson.Edit(d.Members)
			if got := o.Append(nil); !bytes.Equal(got, d.Text) {
				t.Fatalf("members make %q of %q", got, d.Text)
			}
			for _, m := range d.Members {
				o.Drop(string(rawjson.Unescape(nil, m.Name)))
			}
			if got := o.Append(nil); string(got) != `{}` {
				t.Fatalf("dropping all leaves %q", got)
			}
		}
	})
}

func TestKinds(t *testing.T) {
	s := rawjson.Get()
	defer rawjson.Put(s)
	for src, want := range map[string]struct {
		object bool
		kind   string
	}{
		`{}`: {true, "an object"}, `{"a":[{}]}`: {true, "an object"}, `[[1]]`: {false, "an array"},
		`"{"`: {false, "a string"}, `-1`: {false, "a number"}, `true`: {false, "a boolean"}, `null`: {false, "null"},
	} {
		d, err := s.Scan([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		if d.Object() != want.object || rawjson.Kind(d.Text) != want.kind {
			t.Errorf("%s: object %t, kind %s, want %v", src, d.Object(), rawjson.Kind(d.Text), want)
		}
	}
}

func TestValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, err := scan(oneOf(t, 3))
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		got := rawjson.Value([]byte(text), func(raw []byte) any { return json.Number(raw) })
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s gave %#v, want %#v", text, got, want)
		}
	})
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]bool{"0": true, "-1.5e+10": true, "": false, "-": false, "01": false, "1 ": false, "+1": false, "0x1": false, "NaN": false, "1.": false} {
		if got := rawjson.Number(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
