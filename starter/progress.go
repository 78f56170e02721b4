package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"trawl/internal/contract"
)

const (
	askEvery  = time.Second     // the crawl is asked for its status
	lineEvery = 5 * time.Second // a line is printed when stderr is no terminal
)

// display shows progress on stderr: one line that is rewritten on a terminal,
// a line every few seconds elsewhere, nothing if people want quiet.
type display struct {
	a       *app
	drawn   bool
	printed time.Time
	last    string
}

func (d *display) update(line string) {
	switch {
	case d.a.quiet:
	case d.a.tty:
		if utf8.RuneCountInString(line) > d.a.width-1 {
			line = string([]rune(line)[:d.a.width-1])
		}
		fmt.Fprintf(d.a.err, "\r\x1b[K%s", line)
		d.drawn = true
	case d.a.world.now().Sub(d.printed) >= lineEvery && line != d.last:
		fmt.Fprintln(d.a.err, line)
		d.printed, d.last = d.a.world.now(), line
	}
}

// say prints a line that stays.
func (d *display) say(format string, args ...any) {
	d.clear()
	d.a.say(format, args...)
}

func (d *display) clear() {
	if d.drawn {
		fmt.Fprint(d.a.err, "\r\x1b[K")
		d.drawn = false
	}
}

// ending is how a run ended.
type ending struct {
	state   string
	summary *contract.Summary
	err     error
}

// follow shows progress until the run has ended or ctx is done.
func (a *app) follow(ctx context.Context, t temporalServer, name, runID string) ending {
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan ending, 1)
	go func() {
		state, sum, err := t.Wait(wctx, name, runID)
		done <- ending{state, sum, err}
	}()
	d := &display{a: a}
	defer d.clear()
	told := map[string]bool{}
	for {
		select {
		case e := <-done:
			return e
		case <-ctx.Done():
			// Wait ends with its context; the goroutine must not outlive us.
			<-done
			return ending{err: ctx.Err()}
		case <-a.world.after(askEvery):
			a.tick(wctx, t, name, d, told)
		}
	}
}

// tick asks once and shows the answer. A query that fails is no error of the
// crawl: workers restart, servers move.
func (a *app) tick(ctx context.Context, t temporalServer, name string, d *display, told map[string]bool) {
	if a.quiet {
		return
	}
	st, err := t.Status(ctx, name)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.update(name + ": " + waiting(err))
		return
	}
	for _, trouble := range st.Trouble {
		if !told[trouble] && len(told) < 100 {
			told[trouble] = true
			d.say("%s: waits: %s", name, clean(trouble))
		}
	}
	d.update(statusLine(name, st, a.world.now()))
}

func waiting(err error) string {
	var ee *exitError
	if errors.As(err, &ee) && ee.code == exitNoWorker {
		return "waits for a worker: start one with bin/worker"
	}
	return "waits: " + strings.ReplaceAll(clean(err.Error()), "\n", " ")
}

// awaitWorker waits, visibly, until a worker polls. What was started stays
// started, so whoever gives up here loses nothing.
func (a *app) awaitWorker(ctx context.Context, t temporalServer, queue string) error {
	d := &display{a: a}
	defer d.clear()
	from := a.world.now()
	for first := true; ; first = false {
		ok, err := t.Worker(ctx)
		if err != nil || ok {
			return err
		}
		if first {
			d.say("no worker is polling queue %s; start one with bin/worker", queue)
		} else {
			d.update(fmt.Sprintf("waiting for a worker for %s", lapse(a.world.now().Sub(from).Truncate(time.Second))))
		}
		if err := a.hold(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}
