// Command webserver serves a computable web as a process of its own, so that
// the one who measures does not share a heap with the one who is measured. A
// control address answers what was requested:
//
//	GET  /__log                 counters, as JSON
//	GET  /__log/entries?from=N  the kept requests from number N on, one JSON object a line
//	GET  /__hosts               the hosts as they stand in URLs
//	GET  /__ideal?delay=D       requests beside those that politeness would have allowed;
//	                            seeded=true: the first page of every host was a seed
//	GET  /__progress?points=N   how many pages were known when so many were done
//	GET  /__reach?depth=N       what an obedient crawl from the root requests, and how the log differs
//	POST /__log/reset           forgets counters and requests
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"trawl/bench/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "webserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var cfg web.Config
	fs := flag.NewFlagSet("webserver", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Uint64Var(&cfg.Seed, "seed", 1, "seed of the web")
	fs.IntVar(&cfg.Hosts, "hosts", 1, "number of hosts")
	fs.IntVar(&cfg.PagesPerHost, "pages", 1000, "pages per host")
	fs.IntVar(&cfg.Links, "links", 10, "links per page")
	fs.IntVar(&cfg.Size, "size", 8192, "mean bytes of a page")
	fs.IntVar(&cfg.OffHost, "off-host", 50, "links to other hosts, per mille")
	fs.IntVar(&cfg.Redirects, "redirects", 0, "redirecting pages, per mille")
	fs.IntVar(&cfg.Missing, "missing", 0, "pages answered 404, per mille")
	fs.IntVar(&cfg.Gone, "gone", 0, "pages answered 410, per mille")
	fs.IntVar(&cfg.Errors, "errors", 0, "pages answered 500, per mille")
	fs.IntVar(&cfg.Flaky, "flaky", 0, "pages that fail once, per mille")
	fs.IntVar(&cfg.Disallowed, "disallowed", 0, "pages that robots.txt forbids, per mille")
	fs.IntVar(&cfg.Copies, "copies", 0, "pages with the body of another one, per mille")
	fs.IntVar(&cfg.Spellings, "spellings", 0, "links written in an unusual way, per mille")
	fs.IntVar(&cfg.LogCapacity, "entries", 1<<16, "newest requests that the log keeps one by one")
	fs.DurationVar(&cfg.CrawlDelay, "crawl-delay", 0, "Crawl-delay in robots.txt")
	fs.IntVar(&cfg.Port, "port", 0, "port of every host; 0 picks a free one")
	latency := fs.Duration("latency", 0, "wait before each page")
	tail := fs.Bool("heavy-tail", false, "heavy-tailed latencies instead: most within tenths of a second, some of seconds")
	control := fs.String("control", "127.0.0.1:0", "loopback address of the control endpoint")
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch {
	case *tail && *latency > 0:
		return errors.New("-latency and -heavy-tail: want one of them")
	case *tail:
		cfg.Latency = web.HeavyTail(cfg.Seed)
	case *latency > 0:
		cfg.Latency = func(int, int) time.Duration { return *latency }
	}
	return serve(ctx, cfg, *control, stdout)
}

func serve(ctx context.Context, cfg web.Config, control string, stdout io.Writer) error {
	w, err := web.New(cfg)
	if err != nil {
		return err
	}
	s, err := w.Start()
	if err != nil {
		return err
	}
	defer s.Close()
	ln, err := net.Listen("tcp", control)
	if err != nil {
		return fmt.Errorf("control address %s: %w", control, err)
	}
	if !ln.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return errors.Join(fmt.Errorf("control address %s: only a loopback address is served", control), ln.Close())
	}
	srv := &http.Server{Handler: controlHandler(w), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = srv.Close()
	}()
	line := map[string]any{"root": w.Root(), "control": "http://" + ln.Addr().String(), "hosts": cfg.Hosts, "pages_per_host": cfg.PagesPerHost}
	if err := json.NewEncoder(stdout).Encode(line); err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func controlHandler(w *web.Web) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /__log", answering(func(*http.Request) (any, error) { return w.Log().Stats(), nil }))
	mux.HandleFunc("GET /__log/entries", func(rw http.ResponseWriter, r *http.Request) {
		from, _ := strconv.ParseInt(r.FormValue("from"), 10, 64) // 0: from the oldest
		enc := json.NewEncoder(rw)
		for _, e := range w.Log().Entries(from) {
			if enc.Encode(e) != nil {
				return
			}
		}
	})
	mux.HandleFunc("POST /__log/reset", func(rw http.ResponseWriter, _ *http.Request) {
		w.Log().Reset()
		rw.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /__hosts", answering(func(*http.Request) (any, error) { return hosts(w), nil }))
	mux.HandleFunc("GET /__ideal", answering(func(r *http.Request) (any, error) {
		delay, err := time.ParseDuration(r.FormValue("delay"))
		if err != nil {
			return nil, fmt.Errorf("delay is %q: want a duration such as 1s", r.FormValue("delay"))
		}
		return w.Ideal(delay, r.FormValue("seeded") == "true")
	}))
	mux.HandleFunc("GET /__progress", answering(func(r *http.Request) (any, error) {
		points, err := strconv.Atoi(r.FormValue("points"))
		if err != nil || points < 1 || points > maxPoints {
			return nil, fmt.Errorf("points is %q: want 1 to %d", r.FormValue("points"), maxPoints)
		}
		return w.Progress(points)
	}))
	mux.HandleFunc("GET /__reach", answering(func(r *http.Request) (any, error) {
		depth := -1
		if v := r.FormValue("depth"); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil {
				return nil, fmt.Errorf("depth is %q: want a number", v)
			}
			depth = n
		}
		return reached(w, depth), nil
	}))
	return mux
}

// answering answers what f does, as JSON; its error is one of the request.
func answering(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(v)
	}
}

func hosts(w *web.Web) []string {
	all := make([]string, w.Config().Hosts)
	for i := range all {
		all[i] = w.Host(i)
	}
	return all
}

// maxPoints of the progress of a crawl.
const maxPoints = 1 << 20

// reachAnswer is the answer of /__reach; the URLs are the first hundred.
type reachAnswer struct {
	Requested int      `json:"requested"`
	Documents int      `json:"documents"`
	Missing   []string `json:"missing"`
	Extra     []string `json:"extra"`
}

func reached(w *web.Web, depth int) reachAnswer {
	r := w.Reach(depth)
	missing, extra := w.Log().Diff(r, 100)
	out := reachAnswer{Requested: r.Requested(), Documents: r.Documents(), Missing: []string{}, Extra: []string{}}
	for _, p := range missing {
		out.Missing = append(out.Missing, w.URL(p))
	}
	for _, p := range extra {
		out.Extra = append(out.Extra, w.URL(p))
	}
	return out
}
