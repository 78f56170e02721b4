package fields_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trawl/internal/spec"
	"trawl/internal/transform/fields"
	"trawl/internal/transform/rawjson"
)

// apply runs operations, given as the JSON that a spec has.
func apply(t testing.TB, ops, doc string) (string, error) {
	t.Helper()
	var list []spec.FieldOp
	if err := json.Unmarshal([]byte(ops), &list); err != nil {
		t.Fatalf("%s: %v", ops, err)
	}
	p, err := fields.New(list)
	if err != nil {
		t.Fatalf("%s: %v", ops, err)
	}
	s := rawjson.Get()
	defer rawjson.Put(s)
	d, err := s.Scan([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	out, err := p.Apply(d)
	return string(out), err
}

func TestOperations(t *testing.T) {
	for _, c := range []struct{ ops, doc, want string }{
		{`[]`, `{"b":1,"a":2}`, `{"b":1,"a":2}`},
		{`[{"rename":{"from":"a","to":"c"}}]`, `{"a":12345678901234567890,"b":1.10}`, `{"b":1.10,"c":12345678901234567890}`},
		{`[{"rename":{"from":"a.b","to":"c.d"}}]`, `{"a":{"b":1,"x":2}}`, `{"a":{"x":2},"c":{"d":1}}`},
		{`[{"rename":{"from":"a","to":"a.b"}}]`, `{"a":1}`, `{"a":{"b":1}}`},
		{`[{"rename":{"from":"a.b","to":"a"}}]`, `{"a":{"b":1,"c":2}}`, `{"a":1}`},
		{`[{"rename":{"from":"a","to":"a"}},{"rename":{"from":"x","to":"y"}}]`, `{"a":1,"b":2}`, `{"a":1,"b":2}`},
		{`[{"drop":["a","b.c","nope","b.nope.x"]}]`, `{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3}}`},
		{`[{"set":{"field":"a.b","value":{"x" : [1, 2]}}}]`, `{}`, `{"a":{"b":{"x":[1,2]}}}`},
		{`[{"set":{"field":"a","value":null}}]`, `{"a":1}`, `{"a":null}`},
		{`[{"copy":{"from":"a","to":"b"}},{"set":{"field":"b.c","value":2}}]`, `{"a":{"c":1}}`, `{"a":{"c":1},"b":{"c":2}}`},
		{`[{"set":{"field":"a.c","value":2}},{"copy":{"from":"a","to":"b"}},{"set":{"field":"a.c","value":3}}]`, `{"a":{"c":1}}`, `{"a":{"c":3},"b":{"c":2}}`},
		{`[{"date":{"field":"t"}}]`, `{"t":"2015-08-25 14:03:17+02:00"}`, `{"t":"2015-08-25T12:03:17Z"}`},
		{`[{"date":{"field":"t","format":"millis","to":"@timestamp"}}]`, `{"t":1440511397267}`, `{"t":1440511397267,"@timestamp":"2015-08-25T14:03:17.267Z"}`},
		{`[{"date":{"field":"t"}},{"date":{"field":"u"}},{"cast":{"field":"t","type":"int"}},{"cast":{"field":"u","type":"int"}}]`, `{"t":null}`, `{"t":null}`},
		{`[{"cast":{"field":"a","type":"string"}}]`, `{"a":1.10}`, `{"a":"1.10"}`},
		{`[{"cast":{"field":"a","type":"string"}}]`, `{"a":true}`, `{"a":"true"}`},
		{`[{"cast":{"field":"a","type":"string"}}]`, `{"a":"x\u00e4"}`, `{"a":"x\u00e4"}`},
		{`[{"cast":{"field":"a","type":"int"}}]`, `{"a":"123456789012345678901234567890"}`, `{"a":123456789012345678901234567890}`},
		{`[{"cast":{"field":"a","type":"int"}}]`, `{"a":-1.50e3}`, `{"a":-1500}`},
		{`[{"cast":{"field":"a","type":"int"}}]`, `{"a":-0.0}`, `{"a":0}`},
		{`[{"cast":{"field":"a","type":"float"}}]`, `{"a":"0.1000000000000000055"}`, `{"a":0.1000000000000000055}`},
		{`[{"cast":{"field":"a","type":"bool"}},{"cast":{"field":"b","type":"bool"}}]`, `{"a":"true","b":0}`, `{"a":true,"b":false}`},
		{`[{"expr":{"field":"c","expression":"a + b * 2"}}]`, `{"a":1,"b":2}`, `{"a":1,"b":2,"c":5}`},
		{`[{"expr":{"field":"a","expression":"a"}}]`, `{"a":12345678901234567890.10}`, `{"a":12345678901234567890.10}`},
		{`[{"rename":{"from":"log.level","to":"level"}},{"expr":{"field":"level","expression":"upper(level)"}},{"drop":["x"]}]`, `{"log.level":"warn","x":1}`, `{"level":"WARN"}`},
	} {
		got, err := apply(t, c.ops, c.doc)
		if err != nil || got != c.want {
			t.Errorf("%s\n of %s\n gave %s, %v\n want %s", c.ops, c.doc, got, err, c.want)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct{ ops, doc, want string }{
		{`[{"set":{"field":"a.b","value":1}}]`, `{"a":"x"}`, `fields[0] set: field "a.b" cannot be set: "a" is a string, not an object: "x"`},
		{`[{"drop":["x"]},{"date":{"field":"t"}}]`, `{"t":"soon"}`, `fields[1] date: field "t": "soon" is no time in ISO 8601`},
		{`[{"date":{"field":"t"}}]`, `{"t":1}`, `1 is a number, not a string`},
		{`[{"cast":{"field":"a","type":"int"}}]`, `{"a":5.7}`, `field "a": 5.7 is a number and cannot become int: it is not whole`},
		{`[{"cast":{"field":"a","type":"int"}}]`, `{"a":1e400000}`, `out of all bounds`},
		{`[{"cast":{"field":"a","type":"int"}}]`, `{"a":1e99999999999999999999}`, `out of all bounds`},
		{`[{"cast":{"field":"a","type":"int"}}]`, `{"a":"0x10"}`, `not the text of a number`},
		{`[{"cast":{"field":"a","type":"int"}}]`, `{"a":true}`, `only numbers and strings`},
		{`[{"cast":{"field":"a","type":"float"}}]`, `{"a":1e400}`, `out of the range of a float64`},
		{`[{"cast":{"field":"a","type":"bool"}}]`, `{"a":"yes"}`, `"yes" is a string and cannot become bool`},
		{`[{"cast":{"field":"a","type":"string"}}]`, `{"a":[1]}`, `only scalars`},
		{`[{"expr":{"field":"c","expression":"a + 1"}}]`, `{"a":"x"}`, `fields[0] expr: field "c": expression "a + 1": + takes numbers, or + two strings; it got a string and a number`},
		{`[{"expr":{"field":"c","expression":"a + 1"}}]`, `{"a":"x"}`, `with a="x"`},
		{`[{"expr":{"field":"c","expression":"a + 1"}}]`, `{}`, `with a=nothing`},
		{`[{"expr":{"field":"c","expression":"a / 0"}}]`, `{"a":1}`, `division by zero`},
		{`[{"expr":{"field":"c","expression":"a % 0"}}]`, `{"a":1}`, `divide by zero`},
		{`[{"expr":{"field":"c","expression":"a.b.c"}}]`, `{"a":{}}`, `cannot fetch c`},
	} {
		got, err := apply(t, c.ops, c.doc)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n of %s\n gave %s, %v\n want %s", c.ops, c.doc, got, err, c.want)
		}
	}
	long := `{"a":"` + strings.Repeat("x", 100000) + `"}`
	if _, err := apply(t, `[{"cast":{"field":"a","type":"int"}}]`, long); err == nil || len(err.Error()) > 400 {
		t.Errorf("a long value: %.500v", err)
	}
}

// What operations add is bounded, also where each copies the one before.
func TestGrowthIsBounded(t *testing.T) {
	doubling := strings.Repeat(`{"copy":{"from":"a","to":"b.c"}},{"copy":{"from":"b","to":"a"}},{"copy":{"from":"b","to":"a.d"}},`, 60)
	_, err := apply(t, "["+strings.TrimSuffix(doubling, ",")+"]", `{"a":{"x":"`+strings.Repeat("y", 1000)+`"}}`)
	if err == nil || !strings.Contains(err.Error(), "add more than") && !strings.Contains(err.Error(), "deep") {
		t.Errorf("doubling copies: %v", err)
	}
	wrapping := strings.Repeat(`{"expr":{"field":"a","expression":"[[[[[[[[[[a]]]]]]]]]]"}},`, 25)
	_, err = apply(t, "["+strings.TrimSuffix(wrapping, ",")+"]", `{"a":1}`)
	if err == nil || !strings.Contains(err.Error(), "251 deep") {
		t.Errorf("wrapping expressions: %v", err)
	}
	nesting := strings.Repeat(`{"rename":{"from":"a","to":"b.b.b.b.b.b.b.b"}},{"rename":{"from":"b","to":"a"}},`, 40)
	_, err = apply(t, "["+strings.TrimSuffix(nesting, ",")+"]", `{"a":1}`)
	if err == nil || !strings.Contains(err.Error(), "deep, more than 200") {
		t.Errorf("nesting renames: %v", err)
	}
}

func TestBadOperations(t *testing.T) {
	for ops, want := range map[string]string{
		`[{}]`:                                        "fields[0]: no operation",
		`[{"drop":[]},{"drop":["a",""]}]`:             `fields[1]: drop "" is empty`,
		`[{"rename":{"from":"a","to":"b."}}]`:         `to "b." has an empty part`,
		`[{"set":{"field":"a","value":tru}}]`:         "",
		`[{"set":{"field":"a"}}]`:                     `value of field "a": not JSON`,
		`[{"cast":{"field":"a","type":"x"}}]`:         `type "x" of field "a" is none of`,
		`[{"date":{"field":"a","format":"x"}}]`:       `time format "x"`,
		`[{"expr":{"field":"a","expression":"b +"}}]`: `expression "b +"`,
		`[{"expr":{"field":"","expression":"b"}}]`:    `field "" is empty`,
	} {
		var list []spec.FieldOp
		if err := json.Unmarshal([]byte(ops), &list); err != nil {
			continue // the spec refuses it before
		}
		if _, err := fields.New(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", ops, err, want)
		}
	}
}

func eval(t testing.TB, text, doc string) (string, error) {
	t.Helper()
	return apply(t, fmt.Sprintf(`[{"expr":{"field":"out","expression":%q}},{"drop":["a","b","c","type","len","a-b"]}]`, text), doc)
}

func TestExpressions(t *testing.T) {
	const doc = `{"a":5,"b":"Text","c":{"d":[1,2.5,"x"],"e":null},"type":"t","a-b":9007199254740993,"len":3}`
	for text, want := range map[string]string{
		`a * 2 - 1`:                              `9`,
		`-a`:                                     `-5`,
		`a / 2`:                                  `2.5`,
		`a ** 2`:                                 `25`,
		`a > 4 and b == "Text"`:                  `true`,
		`type == "t" ? "yes" : "no"`:             `"yes"`,
		`if a > 9 { 1 } else { 2 }`:              `2`,
		`$env["a-b"] + 1`:                        `9007199254740994`,
		`len + 1`:                                `4`,
		`c.d`:                                    `[1,2.5,"x"]`,
		`c.d[1] + a`:                             `7.5`,
		`c.d[-1]`:                                `"x"`,
		`len_ ?? "none"`:                         `"none"`,
		`c?.q?.z`:                                `null`,
		`b | lower() | split("e")`:               `["t","xt"]`,
		`join(split(b, ""), "-")`:                `"T-e-x-t"`,
		`replace(b, "T", "\n")`:                  `"\next"`,
		`trim("  x ") + string(a) + string(2.5)`: `"x52.5"`,
		`int("42") + int(4.9) + float("1e1")`:    `56`,
		`2.5 in c.d`:                             `true`,
		`"x" not in c.d`:                         `false`,
		`b matches "^T.*t$"`:                     `true`,
		`b startsWith "T" and not (b contains "z")`: `true`,
		`{"k": [a, nil, true], "i": c}`:             `{"i":{"d":[1,2.5,"x"],"e":null},"k":[5,null,true]}`,
		`b[0:2]`:                                    `"Te"`,
		`min(a, 3) + max([1, 2]) + abs(-2)`:         `7`,
		`1e21 + 0.5`:                                `1e+21`,
		`first(c.d) == 1`:                           `true`,
		`keys({"z": 1})`:                            `["z"]`,
	} {
		got, err := eval(t, text, doc)
		if err != nil || got != `{"out":`+want+`}` {
			t.Errorf("%s gave %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestForbiddenExpressions(t *testing.T) {
	for text, want := range map[string]string{
		`now()`:                                "there is no function now",
		`date("2020-01-01")`:                   "there is no function date",
		`repeat("x", 1000000)`:                 "there is no function repeat",
		`a + f(b)`:                             "there is no function f",
		`b.String()`:                           "no methods",
		`map(a, # + 1)`:                        "there is no function map",
		`reduce(a, #acc + #acc)`:               "there is no function reduce",
		`filter(1..9, # > 1)`:                  "there is no function filter",
		`1..1000000`:                           "no bound",
		`let x = a + a; x + x`:                 "no bound",
		`a; b`:                                 "no bound",
		`b matches a`:                          "has to be a text",
		`b matches "("`:                        "error parsing regexp",
		`$env`:                                 `write $env["name"]`,
		`$env[a]`:                              `write $env["name"]`,
		`len(b) + len`:                         "len is a function here",
		`a +`:                                  "column",
		`a ==`:                                 "column",
		``:                                     "expression",
		strings.Repeat("a+", 2100):             "more than 4096",
		strings.Repeat("-", 600) + "1":         "exceeds",
		strings.Repeat("(", 1500) + "1":        "expression",
		`"` + strings.Repeat(`\u00`, 10) + `"`: "expression",
	} {
		_, err := fields.Compile(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

func TestArithmeticDoesNotWrap(t *testing.T) {
	const most, least = "9223372036854775807", "-9223372036854775808"
	ops := map[string]func(z, a, b *big.Int) *big.Int{"+": (*big.Int).Add, "-": (*big.Int).Sub, "*": (*big.Int).Mul}
	values := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, -1, 1<<63 - 1, -1 << 63, 1 << 31, -1 << 32}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		for op, exact := range ops {
			e, err := fields.Compile("a " + op + " b")
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Eval(func(name string) []byte {
				return fmt.Append(nil, map[string]int64{"a": a, "b": b}[name])
			})
			want := exact(new(big.Int), big.NewInt(a), big.NewInt(b))
			if want.IsInt64() != (err == nil) || err == nil && int64(got.(int)) != want.Int64() {
				t.Fatalf("%d %s %d gave %v, %v; want %s", a, op, b, got, err, want)
			}
		}
	})
	if _, err := eval(t, "-a", `{"a":`+least+`}`); err == nil {
		t.Error("the negative of the least number is no number of 64 bits")
	}
	if got, err := eval(t, "a", `{"a":`+most+`}`); err != nil || got != `{"out":`+most+`}` {
		t.Errorf("%s, %v", got, err)
	}
}

// A number passes through an expression with all its digits, or with others of
// the same value.
func TestDigitsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "number")
		e, err := fields.New([]spec.FieldOp{
			{Rename: &spec.MoveOp{From: "n", To: "o.p"}},
			{Copy: &spec.MoveOp{From: "o.p", To: "q"}},
			{Expr: &spec.ExprOp{Field: "r", Expression: "q"}},
			{Expr: &spec.ExprOp{Field: "s", Expression: "[q][0]"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := rawjson.Get()
		defer rawjson.Put(s)
		d, err := s.Scan([]byte(`{"n":` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		out, err := e.Apply(d)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			O       struct{ P json.RawMessage }
			Q, R, S json.RawMessage
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		if string(got.O.P) != text || string(got.Q) != text {
			t.Fatalf("%s moved is %s and %s", text, got.O.P, got.Q)
		}
		want, _ := new(big.Rat).SetString(text)
		for _, raw := range []json.RawMessage{got.R, got.S} {
			if n, ok := new(big.Rat).SetString(string(raw)); !ok || n.Cmp(want) != 0 {
				t.Fatalf("%s became %s", text, raw)
			}
		}
	})
}

// The worst that we know of: time and memory stay a constant times the input.
func TestExpressionsAreBounded(t *testing.T) {
	list := `["` + strings.Repeat(`x","`, 1<<19) + `x"]`
	text := `"` + strings.Repeat("x", 1<<20) + `"`
	doc := `{"l":` + list + `,"t":` + text + `}`
	for _, e := range []string{
		`join(l, t)`, `replace(t, "", t)`, `replace(t, "x", t)`, `join(split(t, ""), t)`,
		strings.Repeat("t + ", 60) + `"y"`, `[` + strings.Repeat("t,", 60) + `t]`, `t in l`, `t matches "(x*)*y"`, `indexOf(t, t + "y")`,
	} {
		began := time.Now()
		out, err := apply(t, fmt.Sprintf(`[{"expr":{"field":"out","expression":%q}}]`, e), doc)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%.40s took %s", e, took)
		}
		if len(out) > 40<<20 {
			t.Errorf("%.40s made %d bytes, %v", e, len(out), err)
		}
	}
	huge := `{"t":"` + strings.Repeat("x", 9<<20) + `"}`
	if _, err := apply(t, `[{"expr":{"field":"out","expression":"len(t)"}}]`, huge); err == nil || !strings.Contains(err.Error(), "reads more than") {
		t.Errorf("a huge field: %v", err)
	}
}

func TestWhereHasToBeBoolean(t *testing.T) {
	e, err := fields.Compile("a")
	if err != nil {
		t.Fatal(err)
	}
	get := func(raw string) func(string) []byte { return func(string) []byte { return []byte(raw) } }
	if ok, err := e.Test(get("true")); !ok || err != nil {
		t.Errorf("true: %t, %v", ok, err)
	}
	if _, err := e.Test(get("1")); err == nil || err.Error() != `expression "a" gives a number, not true or false, with a=1` {
		t.Errorf("1: %v", err)
	}
}

func TestPlansAreShared(t *testing.T) {
	const ops = `[{"expr":{"field":"b","expression":"a * 2 + len(s)"}},{"copy":{"from":"o","to":"p"}},{"set":{"field":"p.q","value":1}}]`
	var list []spec.FieldOp
	if err := json.Unmarshal([]byte(ops), &list); err != nil {
		t.Fatal(err)
	}
	p, err := fields.New(list)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				s := rawjson.Get()
				d, err := s.Scan(fmt.Appendf(nil, `{"a":%d,"s":"xy","o":{}}`, i))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := p.Apply(d)
				if want := fmt.Sprintf(`{"a":%d,"s":"xy","o":{},"b":%d,"p":{"q":1}}`, i, 2*i+2); err != nil || string(got) != want {
					t.Errorf("%s, %v, want %s", got, err, want)
					return
				}
				rawjson.Put(s)
			}
		})
	}
	all.Wait()
}

func FuzzExpression(f *testing.F) {
	for _, seed := range []string{`a + 1`, `upper(b) matches "x"`, `c.d[0] ?? $env["a"]`, `{"k": [a, b]}`, `let x = 1; x`, `-a * 2 in [1, 2]`, `b[1:] | split("x")`} {
		f.Add(seed, `{"a":1,"b":"text","c":{"d":[1.5,null]}}`)
	}
	f.Fuzz(func(t *testing.T, text, doc string) {
		s := rawjson.Get()
		defer rawjson.Put(s)
		d, err := s.Scan([]byte(doc))
		if err != nil || !d.Object() || len(text) > 200 {
			return
		}
		p, err := fields.New([]spec.FieldOp{{Expr: &spec.ExprOp{Field: "out", Expression: text}}})
		if err != nil {
			return
		}
		out, err := p.Apply(d)
		if err == nil && !json.Valid(out) {
			t.Fatalf("%s of %s gave %s", text, doc, out)
		}
	})
}
