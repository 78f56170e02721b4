package sqlite

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"trawl/internal/sink"
)

func TestSnippet(t *testing.T) {
	long := strings.Repeat("filler ", 100)
	for name, c := range map[string]struct{ query, text, description, want string }{
		"beginning":      {"first", "first of all", "", "first of all"},
		"folded":         {"zurich", "in ZÜRICH today", "", "in ZÜRICH today"},
		"whole words":    {"art", "start party art", "", "start party art"},
		"description":    {"other", "text", "the other one", "the other one"},
		"nowhere":        {"absent", "text as it is", "", "text as it is"},
		"nothing at all": {"absent", "", "", ""},
		"middle":         {"needle", long + "needle " + long, "", "…" + strings.Repeat("filler ", 8) + "needle " + strings.TrimSpace(strings.Repeat("filler ", 19)) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFinder(sink.ParseQuery(c.query))
			if got := f.snippet([]byte(c.text), []byte(c.description)); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		if rapid.Bool().Draw(t, "words") {
			text = []byte(rapid.String().Draw(t, "string"))
		}
		f := newFinder(sink.ParseQuery(rapid.String().Draw(t, "query")))
		if s := f.snippet(text, nil); !utf8.ValidString(s) || len(s) > snippetBefore+snippetAfter+2*len("…")+utf8.UTFMax {
			t.Fatalf("%q", s)
		}
	})
}
