package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"trawl/internal/sink"
)

// maxLine bounds a line that is read: a document at its limit, and its id.
const maxLine = sink.MaxDoc + 16<<10

// line is one line of a file. Slice is set in the last one only.
type line struct {
	ID      string          `json:"id"`
	Version int64           `json:"version"`
	Index   string          `json:"index"` // of its own; empty: that of the folder
	Deleted bool            `json:"deleted"`
	Doc     json.RawMessage `json:"doc"`
	Slice   *slice          `json:"slice"`
}

// slice is the last line of a file: what the file is. One of redriven documents
// has only lines.
type slice struct {
	Reader    string          `json:"reader,omitempty"`
	Topic     string          `json:"topic,omitempty"`
	Partition int             `json:"partition"`
	First     int64           `json:"first"`
	End       int64           `json:"end"`
	Lines     int64           `json:"lines"` // of documents
	Ledger    json.RawMessage `json:"ledger,omitempty"`
}

// appendLine encodes an op that check has accepted.
func appendLine(b []byte, index string, op sink.Op) []byte {
	b = append(b, `{"id":`...)
	b = appendText(b, op.ID)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, op.Version, 10)
	if op.Index != "" && op.Index != index {
		b = append(b, `,"index":`...)
		b = appendText(b, op.Index)
	}
	if op.Delete {
		return append(b, `,"deleted":true}`+"\n"...)
	}
	b = append(b, `,"doc":`...)
	return append(append(b, oneLine(op.Doc)...), "}\n"...)
}

// oneLine is a document without line ends: in JSON they only stand between
// tokens.
func oneLine(doc []byte) []byte {
	if !bytes.ContainsAny(doc, "\r\n") {
		return doc
	}
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return doc // check has seen to that
	}
	return b.Bytes()
}

// appendText encodes a string as JSON, with <, > and & as they are.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			var buf bytes.Buffer
			e := json.NewEncoder(&buf)
			e.SetEscapeHTML(false)
			_ = e.Encode(s) // strings always encode
			return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// check refuses what the other sinks refuse, and what a file has no place for.
func check(op sink.Op) error {
	if err := sink.CheckDocument(op); err != nil {
		return err
	}
	if op.Routing != "" || op.Create {
		return fmt.Errorf("document %q asks for routing %q or a data stream: files have neither; use the sink elastic, or leave them out", op.ID, op.Routing)
	}
	return nil
}

func reject(err error) sink.Result {
	return sink.Result{Outcome: sink.Rejected, Status: 400, Type: sink.TypeInvalid, Reason: sink.CutReason(err.Error())}
}

// lastLine encodes the line that says what the file is.
func lastLine(s slice) ([]byte, error) {
	b, err := json.Marshal(map[string]slice{"slice": s})
	return append(b, '\n'), err
}

// errNoEnd says that a file does not end as we end files.
var errNoEnd = errors.New("its last line does not say what it is: it was cut or changed; move it away, and its offsets are loaded again")

// sliceOf reads the last line of a file.
func sliceOf(name string) (*slice, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(info.Size(), sink.MaxNote+2048))
	if _, err := f.ReadAt(b, info.Size()-int64(len(b))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b, ok := bytes.CutSuffix(b, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, errNoEnd)
	}
	var l line
	if err := json.Unmarshal(b[bytes.LastIndexByte(b, '\n')+1:], &l); err != nil || l.Slice == nil {
		return nil, fmt.Errorf("%s: %w", name, errNoEnd)
	}
	return l.Slice, nil
}
