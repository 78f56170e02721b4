package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"trawl/dev/samplesite"
)

const (
	crawlName = "demo"
	offSite   = "http://elsewhere.invalid/islands"
	crawlTime = 5 * time.Minute
)

// demo crawls the sample site and compares. What it started is stopped, and
// its directory removed, unless something was not as expected.
func (o options) demo(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "trawl-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			fmt.Fprintf(o.stderr, "The logs are kept in %s\n", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	stack, e, err := o.startStack(ctx, dir, "-temporal-port", "0", "-ui-port", "0", "-kafka-port", "0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.stop()) }()
	env := environment(e, filepath.Join(dir, "data"))
	worker, err := o.startWorker(ctx, dir, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worker.stop()) }()

	site := samplesite.New(offSite)
	base, closeSite, err := serve(site.Handler())
	if err != nil {
		return err
	}
	defer closeSite()
	fmt.Fprintf(o.stdout, "Temporal %s, Kafka %s, Web UI %s, sample site %s\n\n", e.Temporal, e.Kafka, e.UI, base)
	return o.crawl(ctx, env, e, site, base)
}

// crawl runs the programs as a user would, and checks what they answer.
func (o options) crawl(ctx context.Context, env []string, e endpoints, site *samplesite.Site, base string) error {
	ctx, cancel := context.WithTimeout(ctx, crawlTime)
	defer cancel()
	fmt.Fprintf(o.stdout, "$ starter crawl %s/ --name %s --delay 0.1s --allow-network 127.0.0.0/8\n", base, crawlName)
	cmd := o.starter(ctx, env, "crawl", base+"/", "--name", crawlName, "--delay", "0.1s", "--allow-network", "127.0.0.0/8")
	cmd.Stdout, cmd.Stderr = o.stdout, o.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("starter crawl: %w", err)
	}
	if err := o.compare(ctx, env, site, base); err != nil {
		return err
	}
	fmt.Fprintf(o.stdout, "\n$ starter search %s tide\n", crawlName)
	var found bytes.Buffer
	cmd = o.starter(ctx, env, "search", crawlName, "tide")
	cmd.Stdout, cmd.Stderr = &found, o.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("starter search: %w", err)
	}
	fmt.Fprint(o.stdout, found.String())
	if !strings.Contains(found.String(), base+"/tides/") {
		return errors.New("the search for \"tide\" does not find the pages about the tide")
	}
	fmt.Fprintf(o.stdout, "\nThe Web UI was at %s; all of this is stopped now. \"make up\" leaves a stack running.\n", e.UI)
	return nil
}

func (o options) starter(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "starter"), args...)
	cmd.Env = env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// compare asks for every URL of the table what became of it.
func (o options) compare(ctx context.Context, env []string, site *samplesite.Site, base string) error {
	var differences []error
	table := site.Expected(base, offSite)
	for _, want := range table {
		var out bytes.Buffer
		cmd := o.starter(ctx, env, "show", "--json", "--name", crawlName, want.URL)
		cmd.Stdout, cmd.Stderr = &out, o.stderr
		runErr := cmd.Run() // not known is an exit code, and the answer is on stdout
		var got []shown
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 1 {
			return fmt.Errorf("starter show %s: %d answers, want 1: %w", want.URL, len(got), errors.Join(runErr, err))
		}
		if d := got[0].differs(want); d != "" {
			differences = append(differences, fmt.Errorf("%s: %s", want.URL, d))
		}
		path, ours := strings.CutPrefix(want.URL, base)
		if n := site.Hits(path); ours && n != want.Requests {
			differences = append(differences, fmt.Errorf("%s was requested %d times, want %d", want.URL, n, want.Requests))
		}
	}
	if len(differences) > 0 {
		return fmt.Errorf("%d differences in %d URLs:\n%w", len(differences), len(table), errors.Join(differences...))
	}
	fmt.Fprintf(o.stdout, "\nAll %d URLs of the sample site ended as expected, and no page was requested twice.\n", len(table))
	return nil
}

// shown is the part of an answer of "starter show --json" that is compared.
type shown struct {
	Known bool `json:"known"`
	Facts []struct {
		Kind string `json:"kind"`
		Fact struct {
			Status  int
			Refusal string
		} `json:"fact"`
	} `json:"facts"`
}

// end is how the locator ended: by its fetched fact, an answer or a refusal.
func (s shown) end() samplesite.Expectation {
	if !s.Known {
		return samplesite.Expectation{Kind: samplesite.Unknown}
	}
	for _, f := range s.Facts {
		switch {
		case f.Kind != "fetched":
		case f.Fact.Refusal != "":
			return samplesite.Expectation{Kind: samplesite.Refused, Reason: f.Fact.Refusal}
		default:
			return samplesite.Expectation{Kind: samplesite.Fetched, Status: f.Fact.Status}
		}
	}
	return samplesite.Expectation{Kind: "not ended"}
}

func (s shown) differs(want samplesite.Expectation) string {
	got := s.end()
	if got.Kind == want.Kind && got.Status == want.Status && got.Reason == want.Reason {
		return ""
	}
	return fmt.Sprintf("%s, want %s", describe(got), describe(want))
}

func describe(e samplesite.Expectation) string {
	switch e.Kind {
	case samplesite.Fetched:
		return fmt.Sprintf("fetched with status %d", e.Status)
	case samplesite.Refused:
		return "refused by " + e.Reason
	default:
		return string(e.Kind)
	}
}

// serve the site on a free loopback port.
func serve(h http.Handler) (base string, closeSite func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	return "http://" + ln.Addr().String(), func() { _ = srv.Close(); <-done }, nil
}
