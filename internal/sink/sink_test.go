package sink_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"trawl/internal/sink"
)

func TestParseQuery(t *testing.T) {
	word := func(s string) sink.Term { return sink.Term{Text: s} }
	phrase := func(s string) sink.Term { return sink.Term{Text: s, Phrase: true} }
	for q, want := range map[string][]sink.Term{
		"":                      nil,
		"  \t":                  nil,
		"one two":               {word("one"), word("two")},
		`one "two  three" four`: {word("one"), phrase("two three"), word("four")},
		`"never closed`:         {phrase("never closed")},
		`"" * - "()"`:           nil,
		"a-b c:d OR":            {word("a-b"), word("c:d"), word("OR")},
		"日本語 42":                {word("日本語"), word("42")},
	} {
		if got := sink.ParseQuery(q); !reflect.DeepEqual(got, want) {
			t.Errorf("%q gave %v, want %v", q, got, want)
		}
	}
	if n := len(sink.ParseQuery(strings.Repeat("x ", 5000))); n != 64 {
		t.Errorf("%d terms", n)
	}
}

func TestCheckOp(t *testing.T) {
	doc := []byte("{}")
	for _, good := range []sink.Op{
		{ID: "a", Doc: doc},
		{ID: strings.Repeat("x", 512), Version: 1 << 62, Doc: doc},
		{ID: "d", Delete: true},
		{ID: "a", Doc: doc, Index: "logs-2026.01.02", Routing: "x y"},
		{ID: "a", Doc: doc, Create: true},
	} {
		if err := sink.CheckOp(good); err != nil {
			t.Errorf("%.20q: %v", good.ID, err)
		}
	}
	for _, bad := range []sink.Op{
		{Doc: doc},
		{ID: strings.Repeat("x", 513), Doc: doc},
		{ID: "\xff", Doc: doc},
		{ID: "a", Version: -1, Doc: doc},
		{ID: "a"},
		{ID: "a", Delete: true, Doc: doc},
		{ID: "a", Delete: true, Create: true},
		{ID: "a", Doc: doc, Routing: strings.Repeat("x", 513)},
		{ID: "a", Doc: doc, Routing: "\xff"},
		{ID: "a", Doc: doc, Index: "Upper"},
	} {
		if sink.CheckOp(bad) == nil {
			t.Errorf("%.20q v%d was accepted", bad.ID, bad.Version)
		}
	}
}

func TestCheckIndex(t *testing.T) {
	for _, good := range []string{"a", "logs-2026.01.02", ".hidden", "größe", strings.Repeat("x", 255)} {
		if err := sink.CheckIndex(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "A", "a b", "a/b", "a,b", "*", "a:b", "-a", "_a", "+a", ".", "..", "a\n", "\xff", strings.Repeat("x", 256)} {
		if sink.CheckIndex(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestCutReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 3*sink.MaxReason).Draw(t, "reason"))
		if got := sink.CutReason(s); len(got) > sink.MaxReason || !utf8.ValidString(got) || utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Fatalf("%d bytes", len(got))
		}
	})
}

func TestDepth(t *testing.T) {
	for doc, want := range map[string]int{
		"": 0, "{}": 1, `{"a":[{}]}`: 3, `{"[[[":"\"[["}`: 1, "[][]": 1, "]]][": 0,
	} {
		if got := sink.Depth([]byte(doc)); got != want {
			t.Errorf("%q is %d deep, want %d", doc, got, want)
		}
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	err := &sink.RequestError{Status: 429, Type: "rejected", Reason: "full"}
	if got := err.Error(); got != "sink refused the request with status 429 rejected: full" {
		t.Error(got)
	}
}
