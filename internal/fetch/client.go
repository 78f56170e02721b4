package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gocolly/colly/v2"
)

// Options of a Client. Zero values take the defaults named at each field.
type Options struct {
	UserAgent string
	Policy    Policy
	PageSize  int64         // bytes of a body that are read, raw and decoded; 8 MiB
	Total     time.Duration // of one request, from its start to its last byte; 60 s
	Dial      time.Duration // of one connection, name resolution included; 10 s
	Handshake time.Duration // of TLS; 10 s
	Headers   time.Duration // from the request written to the last header; 20 s
	Window    time.Duration // in which a body must make progress; 10 s
	MinRate   int64         // bytes per second over a Window; 512
	IdleConns int           // idle connections kept, over all hosts; a quarter of the files that may be open, at most 4,096
	HostConns int           // idle connections kept per host; 16
	IdleTime  time.Duration // after which an idle connection is closed; 30 s

	// Resolver looks names up; nil: the system's. Seam for tests.
	Resolver *net.Resolver
	// Dialed, if set, is told every dial's address and outcome. It may be
	// called from several goroutines.
	Dialed func(address string, err error)
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&o.Total, 60*time.Second)
	set(&o.Dial, 10*time.Second)
	set(&o.Handshake, 10*time.Second)
	set(&o.Headers, 20*time.Second)
	set(&o.Window, 10*time.Second)
	set(&o.IdleTime, 30*time.Second)
	if o.PageSize <= 0 {
		o.PageSize = 8 << 20
	}
	if o.MinRate <= 0 {
		o.MinRate = 512
	}
	if o.IdleConns <= 0 {
		o.IdleConns = idleConns()
	}
	if o.HostConns <= 0 {
		o.HostConns = 16
	}
	if o.UserAgent == "" {
		o.UserAgent = "trawl"
	}
	return o
}

// idleConns is what this process can afford to keep open. A polite crawl of
// many hosts comes back to each within a second or two: with fewer connections
// than hosts nearly every request would dial again.
func idleConns() int {
	const least, most = 64, 4096
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return least
	}
	return int(min(max(files.Cur/4, least), most))
}

// maxHeaders bounds the headers of an answer, in bytes.
const maxHeaders = 256 << 10

// Request is one GET.
type Request struct {
	URL          string // canonical
	ETag         string // validators of a recrawl
	LastModified string
	// Gate, if set, is asked once more when a connection was got, right before
	// the request is written: an error aborts it.
	Gate func() error
	// Sent, if set, is called right before the request is written to its
	// connection. It is not called for a request that got none.
	Sent func()
	// Want, if set, says by status and headers whether the body is wanted;
	// otherwise Result.Unwanted is set and the body is not read.
	Want func(status int, h http.Header) bool
	// Limit of the body in bytes if less than the client's PageSize; 0: that.
	Limit int64
}

// Client makes requests. It is safe for concurrent use, and shares nothing
// with other clients: a connection opened under one address policy is never
// used under another.
type Client struct {
	opts      Options
	transport *http.Transport
	collector *colly.Collector
	requests  atomic.Int64
}

// New makes a client.
func New(o Options) *Client {
	o = o.withDefaults()
	c := &Client{opts: o}
	dialer := &net.Dialer{Timeout: o.Dial, KeepAlive: -1, Control: o.Policy.control, Resolver: o.Resolver}
	c.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if o.Dialed != nil {
				o.Dialed(address, err)
			}
			return conn, err
		},
		TLSHandshakeTimeout:    o.Handshake,
		ResponseHeaderTimeout:  o.Headers,
		MaxResponseHeaderBytes: maxHeaders,
		MaxIdleConns:           o.IdleConns,
		MaxIdleConnsPerHost:    o.HostConns,
		IdleConnTimeout:        o.IdleTime,
		DisableCompression:     true, // the body is kept as it came
		ReadBufferSize:         16 << 10,
	}
	c.collector = collector(o, &wire{c})
	return c
}

// collector is made with nothing of the environment left in it: SetClient
// replaces whatever COLLY_* variables set up.
func collector(o Options, rt http.RoundTripper) *colly.Collector {
	c := colly.NewCollector()
	c.AllowURLRevisit = true
	c.IgnoreRobotsTxt = true
	c.ParseHTTPErrorResponse = true
	c.MaxBodySize, c.MaxDepth, c.MaxRequests = 0, 0, 0
	c.CacheDir, c.Async, c.DetectCharset, c.TraceHTTP = "", false, false, false
	c.AllowedDomains, c.DisallowedDomains = nil, nil
	c.URLFilters, c.DisallowedURLFilters = nil, nil
	c.UserAgent, c.Headers = o.UserAgent, nil
	c.SetClient(&http.Client{
		Transport: rt,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	})
	return c
}

// PageSize is the limit of a body in bytes.
func (c *Client) PageSize() int64 { return c.opts.PageSize }

// Requests counts the requests that went through the collector to the
// transport.
func (c *Client) Requests() int64 { return c.requests.Load() }

// Close closes idle connections. Running requests go on.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// call is one running request; it travels in the context to the transport.
type call struct {
	req    *Request
	res    *Result
	limit  int64
	cancel context.CancelCauseFunc
	ctx    context.Context
	conns  int
	read   atomic.Int64 // body bytes so far
	wired  bool         // the collector handed it to the transport
	done   bool         // the answer is complete in res
	err    error
}

type callKey struct{}

// Do makes the request and reads the answer. It never returns nil; a failure
// is in Result.Err and Result.Class. Cancelling ctx aborts the request. The
// caller gives the result's buffers back by Release.
func (c *Client) Do(ctx context.Context, req *Request) *Result {
	res := &Result{}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := &call{req: req, res: res, limit: c.opts.PageSize, cancel: cancel}
	if req.Limit > 0 && req.Limit < k.limit {
		k.limit = req.Limit
	}
	k.ctx = httptrace.WithClientTrace(context.WithValue(ctx, callKey{}, k), &httptrace.ClientTrace{GotConn: k.gotConn})
	start := time.Now()
	stop := c.watch(k, start)
	one := c.collector.Clone()
	one.Context = k.ctx
	err := one.Request(http.MethodGet, req.URL, nil, nil, headers(c.opts.UserAgent, req))
	stop()
	res.Duration = time.Since(start)
	k.finish(ctx, err)
	return res
}

// finish decides between an answer and a failure. What the collector thinks
// of a complete answer (a redirect without a usable target) does not count.
func (k *call) finish(ctx context.Context, err error) {
	if k.done {
		return
	}
	if k.err != nil {
		err = k.err
	}
	if err == nil {
		err = errors.New("no answer")
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	class := classify(err)
	if !k.wired && class != ClassAborted {
		class = ClassURL // the collector could not make a request of it
	}
	k.res.Err, k.res.Class = err, class
	k.res.Resend = errors.Is(err, errResend)
}

func headers(agent string, req *Request) http.Header {
	h := http.Header{
		"User-Agent":      {agent},
		"Accept":          {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		"Accept-Encoding": {"gzip"},
	}
	if req.ETag != "" {
		h["If-None-Match"] = []string{req.ETag}
	}
	if req.LastModified != "" {
		h["If-Modified-Since"] = []string{req.LastModified}
	}
	return h
}

// gotConn runs right before the request is written. A second connection means
// that net/http is about to send the request again after a reused connection
// broke: the site may have seen it, so that is the caller's to decide, with
// its delay and its gate.
func (k *call) gotConn(info httptrace.GotConnInfo) {
	k.conns++
	if k.conns > 1 {
		k.cancel(errResend)
		_ = info.Conn.Close()
		return
	}
	if k.req.Gate != nil {
		if err := k.req.Gate(); err != nil {
			k.cancel(fmt.Errorf("%w: %w", errAborted, err))
			_ = info.Conn.Close()
			return
		}
	}
	k.res.Remote = info.Conn.RemoteAddr()
	k.res.Sent = true
	if k.req.Sent != nil {
		k.req.Sent()
	}
}

// watch enforces the total deadline and the least rate with one timer: while
// the body is read, every Window must bring MinRate x Window bytes.
func (c *Client) watch(k *call, start time.Time) (stop func()) {
	var (
		timer *time.Timer
		last  int64
		ready = make(chan struct{})
	)
	tick := func() {
		<-ready
		if k.ctx.Err() != nil {
			return // over: do not arm the timer again
		}
		left := c.opts.Total - time.Since(start)
		if left <= 0 {
			k.cancel(errTotal)
			return
		}
		// read is 0 until the body begins.
		read := k.read.Load()
		if last > 0 && read-last < c.opts.MinRate*int64(c.opts.Window/time.Millisecond)/1000 {
			k.cancel(errSlow)
			return
		}
		last = read
		timer.Reset(min(left, c.opts.Window))
	}
	timer = time.AfterFunc(min(c.opts.Total, c.opts.Window), tick)
	close(ready)
	return func() { timer.Stop() }
}
