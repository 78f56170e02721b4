package elastic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/olivere/elastic/v7"

	"trawl/internal/sink"
)

// do sends a JSON request; a success that is no JSON object (a load balancer's
// welcome) is an AnswerError, whatever the caller wants of it.
func (a *Admin) do(ctx context.Context, method, path, body string) (json.RawMessage, error) {
	o := elastic.PerformRequestOptions{Method: method, Path: path}
	if body != "" {
		o.Body, o.ContentType = body, "application/json"
	}
	raw, err := a.perform(ctx, o)
	if err == nil && (len(raw) == 0 || raw[0] != '{') {
		return nil, &sink.AnswerError{Reason: fmt.Sprintf("%.80q to %s %s is not what we asked for", raw, method, path)}
	}
	return raw, err
}

// perform sends one request, once, and gives the errors of package sink.
func (a *Admin) perform(ctx context.Context, o elastic.PerformRequestOptions) (json.RawMessage, error) {
	o.MaxResponseSize = maxAnswer
	res, err := a.client.PerformRequest(ctx, o)
	if elastic.IsConnErr(err) {
		// Nothing was sent: after a failure olivere takes every connection for
		// dead, says so once, and believes in them again.
		res, err = a.client.PerformRequest(ctx, o)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Method, o.Path, ctx.Err())
		}
		return nil, translate(res, err)
	}
	return res.Body, nil
}

// translate names what went wrong. Where the server's answer is no JSON (a load
// balancer's HTML) only its status counts.
func translate(res *elastic.Response, err error) error {
	if e, ok := errors.AsType[*elastic.Error](err); ok {
		out := &sink.RequestError{Status: e.Status}
		if e.Details != nil {
			out.Type, out.Reason = e.Details.Type, sink.CutReason(e.Details.Reason)
		}
		switch e.Status {
		case http.StatusUnauthorized:
			out.Reason = sink.CutReason(join(out.Reason, "check TRAWL_ELASTIC_USERNAME and its password, or TRAWL_ELASTIC_API_KEY"))
		case http.StatusForbidden:
			out.Reason = sink.CutReason(join(out.Reason, "check the rights of the user of TRAWL_ELASTIC_USERNAME or TRAWL_ELASTIC_API_KEY, and blocks of the index"))
		}
		if res != nil {
			out.RetryAfter = retryAfter(res.Header)
		}
		return out
	}
	if errors.Is(err, elastic.ErrResponseSize) {
		return &sink.AnswerError{Reason: fmt.Sprintf("more than %d bytes", maxAnswer)}
	}
	if unreachable(err) {
		return &sink.UnavailableError{Err: fmt.Errorf("%w: check that TRAWL_ELASTIC_URL is right and that its server runs", withoutQuery(err))}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("we do not trust the server's certificate: check TRAWL_ELASTIC_TLS_CA_FILE, and that it bears the names in TRAWL_ELASTIC_URL: %w", err)
	}
	return err
}

// withoutQuery leaves the parameters out of the URL that an error names: they
// are ours and tell a person nothing.
func withoutQuery(err error) error {
	e, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	address, _, _ := strings.Cut(e.URL, "?")
	return &url.Error{Op: e.Op, URL: address, Err: e.Err}
}

func join(reason, check string) string {
	if reason == "" {
		return check
	}
	return reason + ": " + check
}

// unreachable: nothing of the request arrived.
func unreachable(err error) bool {
	if elastic.IsConnErr(err) {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	_, ok := errors.AsType[*net.DNSError](err)
	return ok
}

// retryAfter reads seconds or a date.
func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseInt(v, 10, 32); err == nil {
		return max(time.Duration(s)*time.Second, 0)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}

func decode(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return &sink.AnswerError{Reason: fmt.Sprintf("%.80q is not what we asked for", raw)}
	}
	return nil
}

func status(err error) int {
	if e, ok := errors.AsType[*sink.RequestError](err); ok {
		return e.Status
	}
	return 0
}

// noIndex makes the server's 404 ErrNoIndex.
func noIndex(err error) error {
	if status(err) == http.StatusNotFound {
		return sink.ErrNoIndex
	}
	return err
}

// bulkParams of every _bulk: only what we read comes back, and the server gives
// up waiting for a shard before our client does.
func (a *Admin) bulkParams() url.Values {
	return url.Values{
		"filter_path": {"took,errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"},
		"timeout":     {strconv.FormatInt(max(a.cfg.Timeout.Milliseconds()/2, 1), 10) + "ms"},
	}
}
