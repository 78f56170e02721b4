package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// target is what a request asks for.
type target uint8

const (
	nothing target = iota
	robotsFile
	plainPage
	privatePage
)

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 32<<10); return &b }}

// modified is the Last-Modified of every page: the web does not change.
const modified = "Wed, 01 Jan 2025 00:00:00 GMT"

// Handler serves all hosts; the Host header says which. A host that is none of
// this web is answered with 421 and not logged.
func (w *Web) Handler() http.Handler { return http.HandlerFunc(w.serve) }

func (w *Web) serve(rw http.ResponseWriter, req *http.Request) {
	host, ok := w.hostIndex(req.Host)
	if !ok {
		http.Error(rw, "no host of this web", http.StatusMisdirectedRequest)
		return
	}
	p, what := w.classify(host, req)
	start, before := w.log.begin(host, p, what)
	status := w.answer(rw, req, p, what, before)
	w.log.end(host, req.URL.Path, start, status)
}

func (w *Web) classify(host int, req *http.Request) (Ref, target) {
	if req.URL.RawQuery != "" {
		return Ref{}, nothing
	}
	if req.URL.Path == "/robots.txt" {
		return Ref{}, robotsFile
	}
	p, ok := w.locatePath(host, req.URL.Path)
	switch {
	case !ok:
		return Ref{}, nothing
	case w.Kind(p) == Disallowed:
		return p, privatePage
	default:
		return p, plainPage
	}
}

func (w *Web) answer(rw http.ResponseWriter, req *http.Request, p Ref, what target, before uint32) (status int) {
	switch {
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		return say(rw, http.StatusMethodNotAllowed)
	case what == robotsFile:
		rw.Header()["Content-Type"] = plainText
		_, _ = rw.Write(w.robots)
		return http.StatusOK
	case what == nothing:
		return say(rw, http.StatusNotFound)
	}
	if w.cfg.Latency != nil && !wait(req.Context(), w.cfg.Latency(p.Host, p.Page)) {
		return statusGone
	}
	switch k := w.Kind(p); {
	case k == Redirect:
		rw.Header().Set("Location", w.path(w.Target(p)))
		return say(rw, http.StatusMovedPermanently)
	case k == Flaky && before == 0:
		return say(rw, http.StatusInternalServerError)
	case k.Status() != http.StatusOK:
		return say(rw, k.Status())
	}
	return w.page(rw, req, p)
}

// statusGone stands in the log for a client that left before its answer.
const statusGone = 499

var (
	plainText = []string{"text/plain; charset=utf-8"}
	htmlText  = []string{"text/html; charset=utf-8"}
	lastMod   = []string{modified}
)

func (w *Web) page(rw http.ResponseWriter, req *http.Request, p Ref) int {
	etag := `"` + strconv.FormatUint(w.hash(p, forBody), 36) + `"`
	h := rw.Header()
	h["Etag"] = []string{etag}
	h["Last-Modified"] = lastMod
	if req.Header.Get("If-None-Match") == etag {
		rw.WriteHeader(http.StatusNotModified)
		return http.StatusNotModified
	}
	buf := bodies.Get().(*[]byte)
	defer bodies.Put(buf)
	*buf = w.AppendBody((*buf)[:0], p)
	h["Content-Type"] = htmlText
	h["Content-Length"] = []string{strconv.Itoa(len(*buf))}
	if req.Method == http.MethodGet {
		_, _ = rw.Write(*buf)
	}
	return http.StatusOK
}

func say(rw http.ResponseWriter, status int) int {
	rw.Header()["Content-Type"] = plainText
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, http.StatusText(status)+"\n")
	return status
}

func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Server is a web that listens.
type Server struct {
	*Web
	http *http.Server
	done sync.WaitGroup
}

// portTries bounds the search for a port that is free on every host.
const portTries = 20

// Start listens on every host of the web, each on its own loopback address
// and all on one port, and serves until Close. An error names the address
// that could not be had; nothing listens then.
func (w *Web) Start() (*Server, error) {
	lns, err := w.listen()
	if err != nil {
		return nil, err
	}
	s := &Server{Web: w, http: &http.Server{
		Handler: w.Handler(), ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	for _, ln := range lns {
		s.done.Go(func() { _ = s.http.Serve(ln) })
	}
	return s, nil
}

func (w *Web) listen() (lns []net.Listener, err error) {
	fixed := w.cfg.Port != 0
	for range portTries {
		if lns, err = listenAll(w.cfg.Hosts, w.cfg.Port); err == nil {
			w.setPort(lns[0].Addr().(*net.TCPAddr).Port)
			return lns, nil
		}
		if fixed {
			break
		}
	}
	return nil, err
}

func listenAll(hosts, port int) (lns []net.Listener, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, ln := range lns {
			err = errors.Join(err, ln.Close())
		}
	}()
	for i := range hosts {
		ln, err := net.Listen("tcp4", net.JoinHostPort(Addr(i).String(), strconv.Itoa(port)))
		if err != nil {
			return lns, fmt.Errorf("web: listen on host %d of %d (another port, fewer hosts or a higher limit of open files helps): %w", i, hosts, err)
		}
		lns = append(lns, ln)
		port = ln.Addr().(*net.TCPAddr).Port
	}
	return lns, nil
}

// Close stops listening and cuts the connections. It may be called twice.
func (s *Server) Close() error {
	err := s.http.Close()
	s.done.Wait()
	return err
}
