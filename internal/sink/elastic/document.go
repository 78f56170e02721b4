package elastic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// maxDepth of a document: deeper ones overflow the stack of older servers'
// parsers, and count as poison everywhere.
const maxDepth = 500

// oneLine gives a document as it stands in the stream. A line break inside, or
// a second value, would make the server read it as actions; deep nesting kills
// a server's parser. All else that is wrong with a document the server says
// itself, of that one item: so the usual document is looked through, at some
// GB/s, and not parsed.
func oneLine(id string, doc []byte) ([]byte, error) {
	doc = bytes.Trim(doc, " \t\r\n")
	switch {
	case len(doc) == 0 || doc[0] != '{':
		return nil, fmt.Errorf("document %q is not a JSON object", id)
	case !utf8.Valid(doc):
		return nil, fmt.Errorf("document %q is not UTF-8", id)
	}
	switch depth, whole := shape(doc); {
	case depth > maxDepth:
		return nil, fmt.Errorf("document %q is nested deeper than %d", id, maxDepth)
	case !whole:
		return nil, fmt.Errorf("document %q is not valid JSON", id)
	}
	if bytes.IndexByte(doc, '\n') < 0 && bytes.IndexByte(doc, '\r') < 0 {
		return doc, nil
	}
	var compact bytes.Buffer
	compact.Grow(len(doc))
	if err := json.Compact(&compact, doc); err != nil { // refuses breaks in strings
		return nil, fmt.Errorf("document %q: %w", id, err)
	}
	return compact.Bytes(), nil
}

// shape gives the deepest nesting of a text that begins with a bracket, and
// whether that bracket closes at its very end.
func shape(doc []byte) (deepest int, whole bool) {
	now := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			end := stringEnd(doc[i+1:])
			if end < 0 {
				return deepest, false
			}
			i += end + 1
		case '{', '[':
			now++
			deepest = max(deepest, now)
		case '}', ']':
			if now--; now == 0 {
				return deepest, i == len(doc)-1
			}
		}
	}
	return deepest, false
}

// stringEnd finds the quote that ends a string: one behind an even number of
// backslashes.
func stringEnd(s []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(s[at:], '"')
		if n < 0 {
			return -1
		}
		n += at
		slashes := 0
		for n-slashes > 0 && s[n-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return n
		}
		at = n + 1
	}
}
