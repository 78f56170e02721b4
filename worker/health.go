package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"trawl/internal/settings"
)

// portTries is how many ports after the default one are tried.
const portTries = 64

// health serves /healthz, /readyz, /metrics and, on loopback, profiles.
type health struct {
	ready atomic.Bool
	ln    net.Listener
	srv   *http.Server
}

// listen takes the address; if it was not given explicitly and is taken, the
// next free port.
func listen(addr string, given bool) (*health, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %q: %w", settings.HTTPAddr, addr, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("%s: %q: the port must be a number", settings.HTTPAddr, addr)
	}
	for i := range portTries {
		ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port+i)))
		if err == nil {
			return newHealth(ln), nil
		}
		if given || port == 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("%s: cannot listen on %s: %w; give another address or leave it out", settings.HTTPAddr, addr, err)
		}
	}
	return nil, fmt.Errorf("%s: ports %d to %d are taken; give a free address", settings.HTTPAddr, port, port+portTries-1)
}

func newHealth(ln net.Listener) *health {
	h := &health{ln: ln}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.ready.Load() {
			http.Error(w, "not ready: starting or draining", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	profiles(mux, ln.Addr())
	h.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = h.srv.Serve(ln) }()
	return h
}

func (h *health) url() string { return "http://" + h.ln.Addr().String() }

func (h *health) close() { _ = h.srv.Close() }
