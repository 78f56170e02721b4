package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/redrive"
)

const (
	maxStatements = 1000     // of one id
	maxValue      = 16 << 10 // of an original, without --full
)

// shownError is the answer of errors show.
type shownError struct {
	ID         string      `json:"id"`
	Topic      string      `json:"topic"` // of the source, and so on
	Partition  int         `json:"partition"`
	Offset     int64       `json:"offset"`
	RecordTime time.Time   `json:"record_time,omitzero"`
	Target     string      `json:"target,omitempty"`
	State      string      `json:"state"`
	Statements []statement `json:"statements"` // oldest first
	Cut        bool        `json:"cut,omitempty"`

	Pointer    bool           `json:"pointer,omitempty"`
	Key        string         `json:"key"`
	Headers    []shownHeader  `json:"headers,omitempty"`
	HeadersCut int            `json:"headers_cut,omitempty"`
	Tombstone  bool           `json:"tombstone,omitempty"`
	Size       int            `json:"size"`
	Value      string         `json:"value"` // pretty JSON, text, or hex
	Form       string         `json:"form"`  // of value: json, text, hex
	original   ingest.Failure // the last failure
}

type shownHeader struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// statement is one record of the errors topic about the id.
type statement struct {
	At         redrive.Place `json:"at"`
	Time       time.Time     `json:"time"`
	Resolution string        `json:"resolution,omitempty"`
	Class      string        `json:"class,omitempty"`
	Where      string        `json:"where,omitempty"`
	Status     int           `json:"status,omitempty"`
	Type       string        `json:"type,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	Attempts   int           `json:"attempts,omitempty"`
	Redrives   int           `json:"redrives,omitempty"`
	Redrive    string        `json:"redrive,omitempty"`
	By         string        `json:"by,omitempty"`
}

func (a *app) showErrorCmd() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use: "show NAME ID", Short: "Tell everything about one failure, with the record as it was", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withErrors(cmd, args[0], func(log errorTopics, at failed) error {
				return a.showError(cmd, log, at, args[1], full)
			})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "print the whole value, however large")
	return cmd
}

func (a *app) showError(cmd *cobra.Command, log errorTopics, at failed, id string, full bool) error {
	s := shownError{ID: id}
	err := eachStatement(cmd.Context(), log, at, id, func(f *ingest.Failure, p redrive.Place) { s.take(f, p) })
	if err != nil {
		return err
	}
	if len(s.Statements) == 0 {
		return at.unknown(id)
	}
	s.open(full)
	if a.json {
		return a.printJSON(s)
	}
	a.printError(&s)
	return nil
}

// eachStatement reads what the errors topic says about one failure.
func eachStatement(ctx context.Context, log errorTopics, at failed, id string, fn func(*ingest.Failure, redrive.Place)) error {
	for p := range at.partitions {
		first, end, err := log.Bounds(ctx, at.topic, p)
		if err != nil {
			return err
		}
		_, err = log.ReadRange(ctx, at.topic, p, first, end, func(r kafkalog.Record) error {
			if f, ok := ingest.ParseFailure(&r); ok && f.ID == id {
				fn(&f, redrive.Place{Partition: p, Offset: r.Offset})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (at failed) unknown(id string) error {
	return fail(exitNotFound, "%s %s has no failure %s; starter errors %s lists them", at.kind, at.name, id, at.name)
}

// knownID refuses an id that was never stated. An empty one is none.
func knownID(ctx context.Context, log errorTopics, at failed, id string) error {
	if id == "" {
		return nil
	}
	known := false
	err := eachStatement(ctx, log, at, id, func(*ingest.Failure, redrive.Place) { known = true })
	if err == nil && !known {
		return at.unknown(id)
	}
	return err
}

// take adds a statement; the last failure's original is kept, in own memory.
func (s *shownError) take(f *ingest.Failure, at redrive.Place) {
	if len(s.Statements) == maxStatements {
		s.Statements, s.Cut = slices.Delete(s.Statements, 1, 2), true
	}
	st := statement{At: at, Time: f.Time, Resolution: f.Resolution, Type: f.Type, Reason: f.Reason, Redrive: f.Redrive, By: f.By}
	s.Topic, s.Partition, s.Offset, s.Target, s.State = f.Topic, f.Partition, f.Offset, f.Target, "open"
	if f.Resolution != "" {
		s.State = f.Resolution
	} else {
		st.Class, st.Where, st.Status, st.Attempts, st.Redrives = f.Class.String(), f.State, f.Status, f.Attempts, f.Redrives
	}
	s.Statements = append(s.Statements, st)
	if !f.Opens() {
		return
	}
	s.original = *f
	s.original.Original.Key, s.original.Original.Value = bytes.Clone(f.Original.Key), bytes.Clone(f.Original.Value)
	s.original.Original.Headers = nil
	for _, h := range f.Original.Headers {
		s.original.Original.Headers = append(s.original.Original.Headers, kafkalog.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
}

// open makes the original readable.
func (s *shownError) open(full bool) {
	o := s.original.Original
	s.Pointer, s.HeadersCut, s.RecordTime = s.original.Pointer, s.original.Cut, o.Time
	s.Key, s.Tombstone, s.Size = readable(o.Key), o.Value == nil, len(o.Value)
	for _, h := range o.Headers {
		s.Headers = append(s.Headers, shownHeader{h.Key, readable(h.Value)})
	}
	value := o.Value
	var pretty bytes.Buffer
	switch {
	case json.Valid(value) && json.Indent(&pretty, value, "", "  ") == nil:
		s.Value, s.Form = cutText(pretty.String(), full), "json"
	case printable(value):
		s.Value, s.Form = cutText(string(value), full), "text"
	default:
		if !full && len(value) > maxValue/4 {
			value = value[:maxValue/4]
		}
		s.Value, s.Form = hex.Dump(value), "hex"
	}
}

// readable gives text as it is, and anything else in hexadecimal digits.
func readable(b []byte) string {
	if printable(b) {
		return string(b)
	}
	return "0x" + hex.EncodeToString(b[:min(len(b), 1024)])
}

func printable(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f })
}

func cutText(s string, full bool) string {
	if full || len(s) <= maxValue {
		return s
	}
	return strings.ToValidUTF8(s[:maxValue], "")
}

func (a *app) printError(s *shownError) {
	row := func(name, format string, args ...any) { a.print("%-10s "+format+"\n", append([]any{name}, args...)...) }
	row("id", "%s", clean(s.ID))
	row("state", "%s", s.State)
	row("source", "%s partition %d offset %d, record of %s", clean(s.Topic), s.Partition, s.Offset, stamp(s.RecordTime))
	row("target", "%s", clean(s.Target))
	for i, st := range s.Statements {
		if i == 1 && s.Cut {
			row("", "(some are left out)")
		}
		if st.Resolution != "" {
			row("done", "%s %s %s%s%s", stamp(st.Time), st.Resolution, clean(st.Type), prefixed(" ", clean(st.By)), prefixed(": ", clean(st.Reason)))
			continue
		}
		row("failed", "%s in %s: %s, status %s, attempts %d, redrives %d\n%11s%s", stamp(st.Time), clean(st.Where), st.Class,
			statusText(st.Status), st.Attempts, st.Redrives, "", clean(strings.TrimSpace(st.Type+prefixed(" ", st.By)+" "+st.Reason)))
	}
	row("key", "%s", clean(s.Key))
	for _, h := range s.Headers {
		row("header", "%s: %s", clean(h.Key), clean(h.Value))
	}
	if s.HeadersCut > 0 {
		row("header", "(%d stayed in the source)", s.HeadersCut)
	}
	switch {
	case s.Pointer:
		row("value", "stayed in the source: it was skipped, too large, or could not be read")
	case s.Tombstone:
		row("value", "none: a tombstone")
	default:
		row("value", "%s, %s", bytesText(int64(s.Size)), s.Form)
		for line := range strings.Lines(s.Value) {
			a.print("  %s\n", clean(strings.TrimRight(line, "\r\n")))
		}
	}
}

func prefixed(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}
