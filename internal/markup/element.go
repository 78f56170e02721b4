package markup

import "bytes"

// content is how a stretch of text is read.
type content uint8

const (
	data      content = iota // markup; as text, with references
	attrValue                // of an attribute: with references, by the attributes' rule
	rcdata                   // no markup but the end tag, with references
	rawText                  // no markup but the end tag
	script                   // like rawText, with its own idea of comments
	plaintext                // nothing ends it
)

// contentOf gives the content of an element by its name in lower case.
func contentOf(name []byte) content {
	switch string(name) {
	case "title", "textarea":
		return rcdata
	case "style", "xmp", "iframe", "noembed", "noframes", "noscript":
		return rawText
	case "script":
		return script
	case "plaintext":
		return plaintext
	}
	return data
}

// element reads the text of the element whose start tag was the last token, up
// to its end tag. It is false if there is no text.
func (s *Scanner) element() bool {
	kind := s.next
	s.next = data
	var end int
	switch kind {
	case plaintext:
		end = len(s.src)
	case script:
		end = scriptEnd(s.src, s.pos)
	default:
		end = s.endTag(s.Name())
	}
	s.from, s.to, s.text = s.pos, end, kind
	s.pos = end
	return s.to > s.from
}

// endTag finds the end tag of an element that holds nothing else.
func (s *Scanner) endTag(name []byte) int {
	for i := s.pos; ; {
		n := bytes.IndexByte(s.src[i:], '<')
		if n < 0 {
			return len(s.src)
		}
		i += n
		if closes(s.src[i:], name) {
			return i
		}
		i++
	}
}

// closes tells whether b begins with the end tag of name.
func closes(b, name []byte) bool {
	return len(b) > 1 && b[1] == '/' && named(b[2:], name)
}

// named tells whether b begins with the name, of lower-case letters, and a byte
// that ends it.
func named(b, name []byte) bool {
	if len(b) <= len(name) || class[b[len(name)]]&endName == 0 {
		return false
	}
	for i, c := range name {
		if b[i]|0x20 != c {
			return false
		}
	}
	return true
}

// scriptEnd finds the end tag of the script whose text begins at i. Between <!--
// and -->, <script> counts as opened once more, so that its end tag does not end
// the script.
func scriptEnd(src []byte, i int) int {
	name := []byte("script")
	for {
		n := bytes.IndexByte(src[i:], '<')
		if n < 0 {
			return len(src)
		}
		i += n
		if closes(src[i:], name) {
			return i
		}
		i++
		if !bytes.HasPrefix(src[i:], []byte("!--")) {
			continue
		}
		var ended bool
		if i, ended = escapedScript(src, i+len("!--")); ended {
			return i
		}
	}
}

// escapedScript reads on behind <!-- and gives where the comment ends, or the
// script, or both.
func escapedScript(src []byte, i int) (at int, ended bool) {
	name := []byte("script")
	nested := false
	for dashes := 2; i < len(src); i++ {
		switch c := src[i]; {
		case c == '-':
			dashes++
			continue
		case c == '>' && dashes >= 2:
			return i + 1, false
		case c != '<':
		case closes(src[i:], name):
			if !nested {
				return i, true
			}
			nested = false
			i += len("/script")
		case !nested && named(src[i+1:], name):
			nested = true
			i += len("script")
		}
		dashes = 0
	}
	return len(src), true
}
