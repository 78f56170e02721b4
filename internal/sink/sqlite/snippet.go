package sqlite

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"trawl/internal/sink"
)

// A snippet shows this many bytes, at most, before and after the first match.
const (
	snippetBefore = 60
	snippetAfter  = 140
	maxWord       = 256 // bytes; longer words are not compared
)

// finder looks for the words of a query in a text, in one pass.
type finder struct{ words map[string]bool }

func newFinder(terms []sink.Term) finder {
	f := finder{map[string]bool{}}
	for _, t := range terms {
		for text := []byte(t.Text); ; {
			from, to := nextWord(text)
			if from == to {
				break
			}
			f.words[fold(text[from:to])] = true
			text = text[to:]
		}
	}
	return f
}

// snippet shows the surroundings of the first match in the first candidate that
// has one, else the beginning of the first candidate.
func (f finder) snippet(candidates ...[]byte) string {
	for _, c := range candidates {
		for at := 0; ; {
			from, to := nextWord(c[at:])
			if from == to {
				break
			}
			if to-from <= maxWord && f.words[fold(c[at+from:at+to])] {
				return cut(c, at+from)
			}
			at += to
		}
	}
	return cut(candidates[0], 0)
}

// nextWord gives the first run of letters, digits and marks; empty if none.
func nextWord(text []byte) (from, to int) {
	from = -1
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		}
		switch word := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r); {
		case word && from < 0:
			from = i
		case !word && from >= 0:
			return from, i
		}
		i += n
	}
	if from < 0 {
		return 0, 0
	}
	return from, len(text)
}

// fold makes a word as the index's tokenizer compares it: in lower case, without
// marks.
func fold(word []byte) string {
	var b strings.Builder
	b.Grow(len(word))
	ascii := true
	for _, c := range word {
		ascii = ascii && c < utf8.RuneSelf
	}
	if !ascii {
		word = norm.NFD.Bytes(word)
	}
	for _, r := range string(word) {
		if !unicode.IsMark(r) {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// cut takes whole words around text[at] and shows where it left something out.
func cut(text []byte, at int) string {
	from, to := max(0, at-snippetBefore), min(len(text), at+snippetAfter)
	for from > 0 && from < at && !isSpace(text[from-1]) {
		from++
	}
	word := to
	for word < len(text) && word > at && !isSpace(text[word]) {
		word--
	}
	if word > at { // else one endless word, cut anywhere
		to = word
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	part := strings.Join(strings.Fields(strings.ToValidUTF8(string(text[from:to]), "")), " ")
	if from > 0 {
		part = "…" + part
	}
	if to < len(text) {
		part += "…"
	}
	return part
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }
