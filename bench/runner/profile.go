package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// ownCode keeps, of every stack, the functions of this module only, so
	// that what they call is counted as theirs.
	ownCode   = "^trawl/"
	topCosts  = 25
	topLimit  = time.Minute // for go tool pprof
	slackTime = time.Minute // for a profile to be answered after its seconds
)

// kind of profile of a worker.
type kind struct {
	name   string
	path   string // below /debug/pprof/
	during bool   // over some seconds of the crawl; else at its end, since the worker began
	sample string // of those that the profile has
}

// kinds in the order of their crawls: those that are taken during one slow it,
// so each has a crawl of its own.
func kinds() []kind {
	return []kind{
		{"cpu", "profile", true, "cpu"},
		{"allocs", "allocs", false, "alloc_space"},
		{"block", "block", true, "delay"},
	}
}

// Profile lets trawl crawl the web once for each kind of profile of its worker,
// writes the profiles into a directory, and for each the top costs of our own
// functions to out. Seconds say how long a profile lasts, from the beginning of
// the crawl on; the rest of it the worker is idle if the crawl is shorter.
func Profile(ctx context.Context, c Config, seconds int, dir string, out io.Writer) (err error) {
	if seconds < 1 {
		return fmt.Errorf("a profile of %d seconds: want at least 1", seconds)
	}
	w, err := c.web()
	if err != nil {
		return err
	}
	x, err := choose(Contenders(c.Bin, "", w), []string{trawl1})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b := &bench{Config: c, web: w, sites: map[string]site{}}
	defer func() { err = errors.Join(err, b.stop()) }()
	if _, err := b.start(ctx, x); err != nil {
		return err
	}
	for _, k := range kinds() {
		file := filepath.Join(dir, k.name+".pprof")
		if err := b.profile(ctx, x[0], k, seconds, file); err != nil {
			return fmt.Errorf("profile %s: %w", k.name, err)
		}
		if err := top(ctx, k, file, out); err != nil {
			return fmt.Errorf("profile %s: %w", k.name, err)
		}
	}
	return nil
}

// profile one crawl.
func (b *bench) profile(ctx context.Context, x Contender, k kind, seconds int, file string) (err error) {
	dir, err := os.MkdirTemp(b.Dir, "trawl-profile-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, b.web.limit)
	defer cancel()
	at := b.sites[x.Web]
	query := "?seconds=" + strconv.Itoa(seconds)
	if !k.during {
		query = ""
	}
	m, err := x.runOnStack(ctx, stackOptions{bin: b.Bin, dir: dir}, at, func(ctx context.Context, s *stack, ended <-chan struct{}) error {
		if !k.during {
			<-ended
		}
		client := &http.Client{Timeout: time.Duration(seconds)*time.Second + slackTime}
		return download(ctx, client, s.workers[0]+"/debug/pprof/"+k.path+query, file)
	})
	if err == nil {
		fmt.Fprintf(b.Log, "%s: crawl of %d pages in %.1f s, %s\n", k.name, m.kept, m.took.Seconds(), file)
	}
	return err
}

func download(ctx context.Context, client *http.Client, url, file string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, res.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, res.Body)
	return err
}

// top prints what a profile holds of our own functions, the dearest first,
// with all that they call.
func top(ctx context.Context, k kind, file string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, topLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-show="+ownCode,
		"-sample_index="+k.sample, "-nodecount="+strconv.Itoa(topCosts), file)
	cmd.Stdout, cmd.Stderr = out, io.Discard
	fmt.Fprintf(out, "\n== %s\n", k.name)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go tool pprof %s: %w", file, err)
	}
	return nil
}
