package sink

import (
	"strings"
	"unicode"
)

// Bounds of a parsed query.
const (
	maxQueryBytes = 4096
	maxQueryTerms = 64
)

// ParseQuery splits what a person typed into plain words and "quoted phrases".
// All of them have to match. There are no operators: every other character is
// part of a word, and a quote that is never closed ends with the query.
// Words without a letter or digit are dropped; at most 64 terms count.
func ParseQuery(q string) (terms []Term) {
	if len(q) > maxQueryBytes {
		q = q[:maxQueryBytes]
	}
	q = strings.ToValidUTF8(q, " ")
	for i, part := range strings.Split(q, `"`) {
		quoted := i%2 == 1
		candidates := strings.Fields(part)
		if quoted {
			candidates = []string{strings.Join(candidates, " ")}
		}
		for _, c := range candidates {
			if len(terms) < maxQueryTerms && strings.ContainsFunc(c, isWord) {
				terms = append(terms, Term{Text: c, Phrase: quoted})
			}
		}
	}
	return terms
}

// Term is one word or one phrase of a query.
type Term struct {
	Text   string
	Phrase bool
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
