package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/olivere/elastic/v7"

	"trawl/internal/sink"
)

// writer sends the ops of one index, alias or data stream.
type writer struct {
	admin  *Admin
	path   string
	params url.Values
	create bool // a data stream: every op is a create
}

// Close does nothing: connections belong to the Admin.
func (w *writer) Close() error { return nil }

// Write sends one _bulk. Ops that would spoil the whole request are refused
// here and do not leave. It waits for a place among the bulks that the cluster
// takes at a time from this process.
func (w *writer) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	results := make([]sink.Result, len(ops))
	b := newBody()
	defer b.recycle()
	sent := w.encode(b, ops, results)
	if err := ctx.Err(); err != nil || len(sent) == 0 {
		return results, err
	}
	place, err := w.admin.limit.enter(ctx, b.size)
	if err != nil {
		return nil, err
	}
	raw, err := w.admin.perform(withBody(ctx, b), elastic.PerformRequestOptions{
		Method: "POST", Path: w.path, Params: w.params, ContentType: "application/x-ndjson",
	})
	if err == nil {
		err = w.read(raw, ops, sent, results)
	}
	place.leave(verdict(err, results))
	if err != nil {
		return nil, err
	}
	return results, nil
}

// verdict is what the answer to a bulk says about the cluster's load.
func verdict(err error, results []sink.Result) load {
	if err == nil {
		for i := range results {
			if results[i].Status == http.StatusTooManyRequests {
				return tooMuch
			}
		}
		return fine
	}
	switch s := status(err); {
	case s == http.StatusTooManyRequests, s == http.StatusServiceUnavailable, errors.Is(err, context.DeadlineExceeded):
		return tooMuch
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return tooMuch
	}
	return unknown
}

// encode fills the body; sent are the indexes of the ops in it.
func (w *writer) encode(b *body, ops []sink.Op, results []sink.Result) (sent []int) {
	sent = make([]int, 0, len(ops))
	for i := range ops {
		line, err := w.line(&ops[i])
		if err != nil {
			results[i] = sink.Result{
				Outcome: sink.Rejected, Status: http.StatusBadRequest, Type: sink.TypeInvalid, Reason: sink.CutReason(err.Error()),
			}
			continue
		}
		b.add(&ops[i], w.creates(&ops[i]), line)
		sent = append(sent, i)
	}
	return sent
}

func (w *writer) creates(op *sink.Op) bool { return w.create || op.Create }

// line gives the one line that op's document is in the stream, nil for a
// delete.
func (w *writer) line(op *sink.Op) ([]byte, error) {
	if err := sink.CheckOp(*op); err != nil {
		return nil, err
	}
	if op.Delete {
		if w.create {
			return nil, fmt.Errorf("delete of %q in a data stream: it takes new documents only", op.ID)
		}
		return nil, nil
	}
	return oneLine(op.ID, op.Doc)
}

func appendAction(dst []byte, op *sink.Op, create bool) []byte {
	switch {
	case op.Delete:
		dst = append(dst, `{"delete":{"_id":`...)
	case create:
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
	if create { // the servers refuse a version from outside here
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
