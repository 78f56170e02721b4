package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trawl/internal/settings"
	"trawl/internal/sink"
	"trawl/internal/spec"
)

// app is what the commands share: streams, settings and the outside world.
type app struct {
	in       io.Reader
	out, err io.Writer
	json     bool
	quiet    bool
	tty      bool // err is a terminal that may be rewritten
	width    int  // of that terminal
	color    bool
	set      settings.Settings
	address  string // of Temporal, for messages
	world    world
	started  bool // a command has begun: later errors are not of usage
}

// world is the seam to servers, files of indexes, and time.
type world struct {
	temporal func(ctx context.Context) (temporalServer, error)
	loads    func(ctx context.Context) (loadServer, error)
	store    func(ctx context.Context) (store, error)
	sink     func(kind string) (sink.Admin, error)
	errors   func(ctx context.Context) (errorTopics, error)
	redrives func(ctx context.Context) (redriveServer, error)
	operator func() string // who gives orders
	now      func() time.Time
	// after is time.After.
	after func(time.Duration) <-chan time.Time
}

// run is the program: arguments without its name, an environment in the form
// of os.Environ, and the exit code as the result.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := settings.Env(env)
	a := &app{in: stdin, out: stdout, err: stderr}
	a.terminal(e)
	err := a.configure(e)
	if err == nil {
		return a.execute(ctx, args)
	}
	if asksNothing(args) {
		return a.execute(ctx, args)
	}
	fmt.Fprintln(stderr, "starter:", err)
	return exitUsage
}

// asksNothing: help, version and completion work in any environment.
func asksNothing(args []string) bool {
	if len(args) == 0 {
		return true
	}
	switch args[0] {
	case "help", "version", "completion", "--help", "-h":
		return true
	}
	return false
}

func (a *app) terminal(e settings.Env) {
	a.width = 80
	f, ok := a.err.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || e.Get("TERM") == "dumb" {
		return
	}
	a.tty, a.color = true, e.Get("NO_COLOR") == ""
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
		a.width = w
	}
}

func (a *app) configure(e settings.Env) error {
	if unknown := settings.Unknown(e); len(unknown) > 0 {
		return fmt.Errorf("unknown variable %s; docs/settings.md lists those that exist", strings.Join(unknown, ", "))
	}
	set, err := settings.Load(e.Get)
	if err != nil {
		return err
	}
	opts, err := settings.Temporal(e)
	if err != nil {
		return err
	}
	a.set, a.address = set, opts.HostPort
	a.world = a.realWorld(opts)
	return nil
}

// execute runs the command line and turns its error into a message and a code.
func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(err, a.started)
	var ee *exitError
	if err != nil && (!errors.As(err, &ee) || !ee.silent) {
		a.complain(err, code, cmd.CommandPath())
	}
	return code
}

func (a *app) complain(err error, code int, command string) {
	msg := err.Error()
	if errors.Is(err, context.Canceled) {
		msg = "interrupted"
	}
	var ps spec.Problems
	if errors.As(err, &ps) && len(ps) > 1 {
		msg = "the spec has problems:\n" + msg
	}
	msg = strings.ReplaceAll(msg, "\n", "\n  ")
	if code == exitUsage && !a.started {
		msg += "; see " + command + " --help"
	}
	fmt.Fprintln(a.err, "starter: "+msg)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "starter",
		Short:         "Start, watch and steer crawls and loads",
		Long:          "starter starts, watches and steers crawls and loads, and searches what they found.\nWhere the servers are is said by the environment: docs/settings.md.\n\n" + exitTable(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print data as JSON")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "print results and errors only")
	root.AddCommand(
		a.crawlCmd(), a.statusCmd(), a.listCmd(),
		a.pauseCmd(), a.resumeCmd(), a.cancelCmd(), a.setRateCmd(), a.addSeedsCmd(),
		a.searchCmd(), a.showCmd(), a.factsCmd(), a.errorsCmd(),
		a.loadCmd(), a.verifyCmd(),
		a.deleteCmd(), a.validateCmd(), a.versionCmd(),
	)
	for _, cmd := range root.Commands() {
		a.marked(cmd)
	}
	return root
}

// marked notes when a command begins: cobra checks flags and arguments before
// that, and what it finds is wrong usage.
func (a *app) marked(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.started = true
		return run(cmd, args)
	}
}

// say prints a line for people to stderr, unless they want quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// print writes to stdout.
func (a *app) print(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// printJSON writes one indented JSON document to stdout.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// hold waits for d, or for ctx.
func (a *app) hold(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.world.after(d):
		return nil
	}
}
