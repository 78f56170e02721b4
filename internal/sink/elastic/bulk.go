package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/olivere/elastic/v7"

	"trawl/internal/sink"
)

// maxDepth of a document: deeper ones overflow the stack of older servers'
// parsers, and count as poison everywhere.
const maxDepth = 500

// writer sends the ops of one index.
type writer struct {
	admin *Admin
	path  string
}

// Close does nothing: connections belong to the Admin.
func (w *writer) Close() error { return nil }

// Write sends one _bulk. Ops that would spoil the whole request are refused
// here and do not leave.
func (w *writer) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	results := make([]sink.Result, len(ops))
	body, sent := w.encode(ops, results)
	if err := ctx.Err(); err != nil || len(sent) == 0 {
		return results, err
	}
	// The body is a string of its own, never a pooled buffer: after an early
	// answer the transport may still be reading it.
	raw, err := w.admin.perform(ctx, elastic.PerformRequestOptions{
		Method: "POST", Path: w.path, Params: w.admin.bulkParams(), Body: body, ContentType: "application/x-ndjson",
	})
	if err != nil {
		return nil, err
	}
	if err := readItems(raw, ops, sent, results); err != nil {
		return nil, err
	}
	return results, nil
}

// encode builds the NDJSON; sent are the indexes of the ops in it.
func (w *writer) encode(ops []sink.Op, results []sink.Result) (body string, sent []int) {
	size := 0
	for i := range ops {
		size += len(ops[i].Doc) + len(ops[i].ID) + 96
	}
	var b strings.Builder
	b.Grow(size)
	sent = make([]int, 0, len(ops))
	var scratch []byte
	for i, op := range ops {
		doc, err := document(op)
		if err != nil {
			results[i] = sink.Result{
				Outcome: sink.Rejected, Status: http.StatusBadRequest, Type: "invalid_document", Reason: sink.CutReason(err.Error()),
			}
			continue
		}
		scratch = appendAction(scratch[:0], op)
		b.Write(scratch)
		if !op.Delete {
			b.Write(doc)
			b.WriteByte('\n')
		}
		sent = append(sent, i)
	}
	return b.String(), sent
}

func appendAction(dst []byte, op sink.Op) []byte {
	switch {
	case op.Delete:
		dst = append(dst, `{"delete":{"_id":`...)
	case op.Create:
		dst = append(dst, `{"create":{"_id":`...)
	default:
		dst = append(dst, `{"index":{"_id":`...)
	}
	dst = appendString(dst, op.ID)
	if op.Index != "" {
		dst = append(dst, `,"_index":`...)
		dst = appendString(dst, op.Index)
	}
	if op.Routing != "" {
		dst = append(dst, `,"routing":`...)
		dst = appendString(dst, op.Routing)
	}
	if op.Create { // the servers refuse versions from outside here
		return append(dst, "}}\n"...)
	}
	dst = append(dst, `,"version":`...)
	dst = strconv.AppendInt(dst, op.Version, 10)
	return append(dst, `,"version_type":"external_gte"}}`+"\n"...)
}

// appendString takes the short way for what needs no escapes, as most URLs.
func appendString(dst []byte, id string) []byte {
	for i := 0; i < len(id); i++ {
		if c := id[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(id)
			if err != nil {
				quoted = []byte(`""`) // strings always marshal
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, id...)
	return append(dst, '"')
}

// document gives the one line that op's document is in the stream. A line break
// inside, or a second value, would make the server read it as actions.
func document(op sink.Op) ([]byte, error) {
	if err := sink.CheckOp(op); err != nil || op.Delete {
		return nil, err
	}
	doc := bytes.Trim(op.Doc, " \t\r\n")
	switch {
	case len(doc) == 0 || doc[0] != '{':
		return nil, fmt.Errorf("document %q is not a JSON object", op.ID)
	case sink.Depth(doc) > maxDepth:
		return nil, fmt.Errorf("document %q is nested deeper than %d", op.ID, maxDepth)
	case !utf8.Valid(doc):
		return nil, fmt.Errorf("document %q is not UTF-8", op.ID)
	case !json.Valid(doc):
		return nil, fmt.Errorf("document %q is not valid JSON", op.ID)
	}
	if !bytes.ContainsAny(doc, "\r\n") {
		return doc, nil
	}
	var compact bytes.Buffer
	compact.Grow(len(doc))
	if err := json.Compact(&compact, doc); err != nil {
		return nil, fmt.Errorf("document %q: %w", op.ID, err)
	}
	return compact.Bytes(), nil
}

// item is what filter_path leaves of one bulk item.
type item struct {
	Status int `json:"status"`
	Error  *struct {
		Type     string `json:"type"`
		Reason   string `json:"reason"`
		CausedBy struct {
			Reason string `json:"reason"`
		} `json:"caused_by"`
	} `json:"error"`
}

// readItems maps the items to the ops by position.
func readItems(raw []byte, ops []sink.Op, sent []int, results []sink.Result) error {
	var answer struct {
		Errors *bool `json:"errors"`
		Items  []struct {
			Index  *item `json:"index"`
			Create *item `json:"create"`
			Delete *item `json:"delete"`
		} `json:"items"`
	}
	if err := decode(raw, &answer); err != nil {
		return err
	}
	if answer.Errors == nil || len(answer.Items) != len(sent) {
		return &sink.AnswerError{Reason: fmt.Sprintf("%d items for %d ops", len(answer.Items), len(sent))}
	}
	for i, at := range sent {
		it := answer.Items[i].Index
		switch {
		case ops[at].Delete:
			it = answer.Items[i].Delete
		case ops[at].Create:
			it = answer.Items[i].Create
		}
		if it == nil || it.Status == 0 {
			return &sink.AnswerError{Reason: fmt.Sprintf("item %d answers something else than op %q", i, ops[at].ID)}
		}
		results[at] = it.result(ops[at])
	}
	return nil
}

// result goes by status, not by the exception's name: that differs between the
// servers. What a missing right, a block or an overload refuses is busy: it
// concerns the index, not this document.
func (it *item) result(op sink.Op) sink.Result {
	r := sink.Result{Status: it.Status}
	if it.Error != nil {
		r.Type = it.Error.Type
		r.Reason = it.Error.Reason
		if c := it.Error.CausedBy.Reason; c != "" {
			r.Reason += ": " + c
		}
		r.Reason = sink.CutReason(r.Reason)
	}
	switch s := it.Status; {
	case s >= 200 && s <= 299:
		r.Outcome = sink.Loaded
	case s == http.StatusNotFound && op.Delete && it.Error == nil:
		r.Outcome = sink.Loaded // nothing was there; the version is remembered
	case s == http.StatusConflict:
		r.Outcome = sink.Superseded
	case s >= 500, s == http.StatusTooManyRequests, s == http.StatusUnauthorized, s == http.StatusForbidden, s == http.StatusRequestTimeout:
		r.Outcome = sink.Busy
	default:
		r.Outcome = sink.Rejected
	}
	if r.Outcome == sink.Rejected && r.Reason == "" {
		r.Reason = "refused with status " + strconv.Itoa(it.Status)
	}
	return r
}
