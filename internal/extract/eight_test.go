package extract

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEight(t *testing.T) {
	part := rapid.SampledFrom([]string{
		"a", "words", "sixteen bytes of", " ", " ", "  ", "\n", "\x1f", "\x7f", "\"", "\\", "é", "\x80", "\xff", "!", "~", "\x00", "#", "[", "]", "\x21",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOf(part).Draw(t, "text"), ""))
		words, plain := 0, 0
		for words < len(text) && text[words] < 0x80 && (text[words] > ' ' || text[words] == ' ' && words > 0 && text[words-1] != ' ') {
			words++
		}
		for plain < len(text) && plainByte[text[plain]] {
			plain++
		}
		if got := wordsLen(text); got != words {
			t.Fatalf("%q: %d bytes of words, want %d", text, got, words)
		}
		if got := plainLen(text); got != plain {
			t.Fatalf("%q: %d plain bytes, want %d", text, got, plain)
		}
	})
}
