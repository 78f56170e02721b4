package elastic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"trawl/internal/sink"
)

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

// read maps the items to the ops by position.
func (w *writer) read(raw []byte, ops []sink.Op, sent []int, results []sink.Result) error {
	if w.readFine(raw, ops, sent, results) {
		return nil
	}
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
		case w.creates(&ops[at]):
			it = answer.Items[i].Create
		}
		if it == nil || it.Status == 0 {
			return &sink.AnswerError{Reason: fmt.Sprintf("item %d answers something else than op %q", i, ops[at].ID)}
		}
		results[at] = it.result(ops[at])
	}
	return nil
}

// readFine reads the usual answer, without errors and as the servers write it,
// without a JSON decoder. It answers false for any other; what it has put into
// results until then is put there again.
func (w *writer) readFine(raw []byte, ops []sink.Op, sent []int, results []sink.Result) bool {
	head, rest, found := bytes.Cut(raw, []byte(`"errors":false,"items":[`))
	if !found || len(head) > 64 || !json.Valid(append(bytes.Clone(head), `"errors":false}`...)) {
		return false
	}
	for i, at := range sent {
		if i > 0 {
			if len(rest) == 0 || rest[0] != ',' {
				return false
			}
			rest = rest[1:]
		}
		key := `{"index":{"status":`
		switch {
		case ops[at].Delete:
			key = `{"delete":{"status":`
		case w.creates(&ops[at]):
			key = `{"create":{"status":`
		}
		if len(rest) < len(key)+5 || string(rest[:len(key)]) != key || string(rest[len(key)+3:len(key)+5]) != "}}" {
			return false
		}
		status, err := strconv.Atoi(string(rest[len(key) : len(key)+3]))
		if err != nil || status < 100 {
			return false
		}
		it := item{Status: status}
		results[at] = it.result(ops[at])
		rest = rest[len(key)+5:]
	}
	return string(bytes.TrimSpace(rest)) == "]}"
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
