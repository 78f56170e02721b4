package main

import (
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"
)

// blockEvery samples one blocking event per so much time spent blocked, while
// somebody asks for a block profile.
const blockEvery = 10 * time.Microsecond

// profiles serves Go's profiles under /debug/pprof/, on loopback addresses
// only: a profile tells much, and costs time. A block profile is of the seconds
// that are asked for; nothing is sampled before.
func profiles(mux *http.ServeMux, at net.Addr) {
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/block", func(w http.ResponseWriter, r *http.Request) {
		runtime.SetBlockProfileRate(int(blockEvery))
		defer runtime.SetBlockProfileRate(0)
		pprof.Handler("block").ServeHTTP(w, r)
	})
}
