package sink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The errors of Sink and Admin are a closed list, so that internal/ingest can
// name their class: a *RequestError (the sink answered "no" to everything), an
// *UnavailableError (the sink was not reached, or cannot write now), an
// *AnswerError (the sink said something that is no answer), ErrNoIndex, or the
// error of the network or of ctx as the client gave it.

// ErrNoIndex says that the index or alias does not exist.
var ErrNoIndex = errors.New("no such index")

// RequestError is an answer of the sink that refuses a whole request.
type RequestError struct {
	Status     int           // HTTP status, 400..599
	RetryAfter time.Duration // what the sink asked for; 0: nothing
	Type       string        // the sink's name for the error; may be empty
	Reason     string        // at most MaxReason bytes; may be empty
}

func (e *RequestError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sink refused the request with status %d", e.Status)
	if e.Type != "" {
		b.WriteString(" " + e.Type)
	}
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	return b.String()
}

// UnavailableError says that no request reached the sink: nobody listens, the
// name does not resolve, the file is locked for too long, the disk is full.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return "sink unavailable: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// AnswerError is a success that cannot be one: HTML in a 200 from a load
// balancer, fewer items than requests. Nothing is known about any Op.
type AnswerError struct{ Reason string }

func (e *AnswerError) Error() string { return "sink gave no usable answer: " + e.Reason }

// Limits that every sink shares.
const (
	MaxID      = 512  // bytes of Op.ID
	MaxIndex   = 255  // bytes of Op.Index
	MaxRouting = 512  // bytes of Op.Routing
	MaxReason  = 4096 // bytes of Result.Reason and RequestError.Reason
)

// CheckOp says why a sink would refuse op whatever it holds: an id or version
// out of range, or no document. It does not parse the document. A server
// refuses the whole request for such an op, so it has to be found before.
func CheckOp(op Op) error {
	switch {
	case op.ID == "":
		return errors.New("document id is empty: give every document an id of 1 to 512 bytes")
	case len(op.ID) > MaxID:
		return fmt.Errorf("document id has %d bytes, more than %d: hash it", len(op.ID), MaxID)
	case !utf8.ValidString(op.ID):
		return fmt.Errorf("document id %q is not UTF-8: hash it", op.ID)
	case op.Version < 0:
		return fmt.Errorf("version %d of document %q is negative: versions start at 0", op.Version, op.ID)
	case op.Delete && op.Doc != nil:
		return fmt.Errorf("delete of %q carries a document: leave it out", op.ID)
	case !op.Delete && len(op.Doc) == 0:
		return fmt.Errorf("document %q is empty: it has to be a JSON object", op.ID)
	case op.Delete && op.Create:
		return fmt.Errorf("delete of %q is a create, too: a data stream takes no deletes", op.ID)
	case len(op.Routing) > MaxRouting || !utf8.ValidString(op.Routing):
		return fmt.Errorf("routing of document %q has %d bytes: give it at most %d of UTF-8", op.ID, len(op.Routing), MaxRouting)
	case op.Index != "":
		return CheckIndex(op.Index)
	}
	return nil
}

// Bounds of a document for the sinks that look into it themselves. SQLite's own
// JSON parser stops at a depth of 1000.
const (
	MaxDoc   = 64 << 20 // bytes
	maxDepth = 500
)

// CheckDocument is CheckOp and says what a search server would refuse about the
// document, so that a document goes the same way on every sink.
func CheckDocument(op Op) error {
	if err := CheckOp(op); err != nil || op.Delete {
		return err
	}
	switch trimmed := bytes.TrimLeft(op.Doc, " \t\r\n"); {
	case len(op.Doc) > MaxDoc:
		return fmt.Errorf("document %q has %d bytes, more than %d", op.ID, len(op.Doc), MaxDoc)
	case len(trimmed) == 0 || trimmed[0] != '{':
		return fmt.Errorf("document %q is not a JSON object", op.ID)
	case Depth(op.Doc) > maxDepth:
		return fmt.Errorf("document %q is nested deeper than %d", op.ID, maxDepth)
	case !utf8.Valid(op.Doc):
		return fmt.Errorf("document %q is not UTF-8", op.ID)
	case !json.Valid(op.Doc):
		return fmt.Errorf("document %q is not valid JSON", op.ID)
	}
	return nil
}

// CheckIndex says why no server would take name as that of an index, an alias
// or a data stream.
func CheckIndex(name string) error {
	switch {
	case name == "" || len(name) > MaxIndex:
		return fmt.Errorf("index name of %d bytes: give it 1 to %d", len(name), MaxIndex)
	case strings.ContainsAny(name, `\/*?"<>| ,#:`) || strings.ToLower(name) != name || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("index name %q: use lower case, without spaces and without any of \\ / * ? \" < > | , # : in it", name)
	case strings.ContainsRune("-_+", rune(name[0])) || name == "." || name == "..":
		return fmt.Errorf("index name %q: choose one that is not . or .. and does not begin with -, _ or +", name)
	}
	return nil
}

// CutReason bounds s to MaxReason bytes of valid UTF-8.
func CutReason(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= MaxReason {
		return s
	}
	n := MaxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Depth is the deepest nesting of brackets outside of strings.
func Depth(doc []byte) int {
	deepest, now, inString := 0, 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}
