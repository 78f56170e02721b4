package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"trawl/internal/spec"
)

// Exit codes. The help of the root command prints this table.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPages       = 3
	exitUnreachable = 4
	exitTaken       = 5
	exitCancelled   = 6
	exitNoWorker    = 7
	exitNotFound    = 8
	exitDetached    = 130
)

var exitCodes = []struct {
	code int
	doc  string
}{
	{exitOK, "done; for crawl and load: it ended, and nothing failed"},
	{exitFailed, "failed; the message says why"},
	{exitUsage, "wrong usage, environment, spec or order; nothing was done"},
	{exitPages, "it ended, but pages or documents failed, or there was no page; verify: gaps"},
	{exitUnreachable, "Temporal, Kafka or the search server cannot be reached"},
	{exitTaken, "the name is taken by another spec, or the crawl or load is running"},
	{exitCancelled, "the crawl, load or redrive was cancelled"},
	{exitNoWorker, "no worker answered"},
	{exitNotFound, "there is no such crawl, load, generation, failure or index, or it is not running"},
	{exitDetached, "detached by Ctrl-C; what was followed goes on"},
}

// exitError is an error that knows its exit code. Silent ones were shown
// already.
type exitError struct {
	code   int
	err    error
	silent bool
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// fail makes an error with an exit code; format as in fmt.Errorf.
func fail(code int, format string, args ...any) error {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

// exit ends with a code and without a message.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code, silent: true}
}

// exitCode is the only map from errors to exit codes.
func exitCode(err error, ran bool) int {
	var ee *exitError
	var ps spec.Problems
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ee):
		return ee.code
	case errors.As(err, &ps), !ran:
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitDetached
	}
	return exitFailed
}

func exitTable() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "  %-4d %s\n", c.code, c.doc)
	}
	return b.String()
}
