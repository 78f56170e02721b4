package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trawl/internal/ingest"
	"trawl/internal/redrive"
)

const (
	maxListed   = 100_000 // lines of a list
	maxGroups   = 10_000  // groups of a histogram
	reasonWidth = 100     // of a line for people
)

// listOptions say which failures are listed or counted.
type listOptions struct {
	classes []string
	since   string
	limit   int
	all     bool
	skipped bool
}

func (o *listOptions) flags(cmd *cobra.Command) {
	o.filters(cmd)
	cmd.Flags().IntVarP(&o.limit, "limit", "n", 100, fmt.Sprintf("print at most so many, 1 to %d", maxListed))
}

func (o *listOptions) filters(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.classes, "class", nil, "only this error class, by name or number; repeatable")
	f.StringVar(&o.since, "since", "", "only failures since a time in RFC 3339, or of so long ago: 24h")
	f.BoolVar(&o.all, "all", false, "also those that are done with: redriven, superseded, discarded, skipped")
	f.BoolVar(&o.skipped, "skipped", false, "only what starter load skip left out")
}

// filter decides which entries are meant.
func (o *listOptions) filter(now time.Time) (func(e *redrive.Entry) bool, error) {
	if o.all && o.skipped {
		return nil, fail(exitUsage, "--all has what --skipped has: give one of them")
	}
	classes, err := parseClasses(o.classes)
	if err != nil {
		return nil, err
	}
	since, err := parseSince(o.since, now)
	if err != nil {
		return nil, err
	}
	wanted := redrive.Open
	if o.skipped {
		wanted = redrive.Skipped
	}
	return func(e *redrive.Entry) bool {
		return (o.all || e.Status == wanted) && !e.Time.Before(since) &&
			(len(classes) == 0 || slices.Contains(classes, int(e.Class)))
	}, nil
}

// listedError is one line of a list with --json.
type listedError struct {
	ID        string        `json:"id"`
	State     string        `json:"state"` // open, or what became of it
	Class     string        `json:"class"`
	Code      int           `json:"code"`
	Where     string        `json:"where"` // extract, transform, load
	Status    int           `json:"status,omitempty"`
	Type      string        `json:"type,omitempty"`
	Reason    string        `json:"reason"`
	Time      time.Time     `json:"time"`
	Attempts  int           `json:"attempts"`
	Redrives  int           `json:"redrives,omitempty"`
	Pointer   bool          `json:"pointer,omitempty"`
	Topic     string        `json:"topic"`
	Partition int           `json:"partition"`
	Offset    int64         `json:"offset"`
	Target    string        `json:"target,omitempty"`
	By        string        `json:"by,omitempty"` // of what an operator ordered
	At        redrive.Place `json:"at"`           // in the errors topic
}

func listedOf(e *redrive.Entry) listedError {
	return listedError{
		ID: e.ID, State: e.Status.String(), Class: e.Class.String(), Code: int(e.Class), Where: e.State,
		Status: e.Failure.Status, Type: e.Type, Reason: e.Reason, Time: e.Time, Attempts: e.Attempts, Redrives: e.Redrives,
		Pointer: e.Pointer, Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Target: e.Target, By: e.By, At: e.At,
	}
}

func (a *app) listErrors(cmd *cobra.Command, name string, o listOptions) error {
	if o.limit < 1 || o.limit > maxListed {
		return fail(exitUsage, "--limit %d is not between 1 and %d", o.limit, maxListed)
	}
	wanted, err := o.filter(a.world.now())
	if err != nil {
		return err
	}
	return a.withErrors(cmd, name, func(log errorTopics, at failed) error {
		w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
		shown, more := 0, false
		err := redrive.Each(cmd.Context(), log, at.topic, at.partitions, func(e redrive.Entry) error {
			if !wanted(&e) {
				return nil
			}
			if shown == o.limit {
				more = true
				return errStop
			}
			shown++
			if a.json {
				return a.jsonLine(listedOf(&e))
			}
			if shown == 1 {
				fmt.Fprintln(w, "ID\tSTATE\tCLASS\tSTATUS\tTIME\tREASON")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", clean(e.ID), e.Status, e.Class, statusText(e.Failure.Status), stamp(e.Time), short(e.Reason))
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		switch {
		case more:
			a.say("the first %s; there are more: --limit shows them, starter errors histogram %s counts them", thousands(int64(shown)), name)
		case shown == 0:
			a.say("%s %s: no such failures", at.kind, name)
		}
		return nil
	})
}

// jsonLine prints one JSON object to a line.
func (a *app) jsonLine(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		a.print("%s\n", line)
	}
	return err
}

// statusText is an HTTP status, "-" without one.
func statusText(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// short cuts a reason for a line.
func short(s string) string {
	r := []rune(clean(s))
	if len(r) > reasonWidth {
		return string(r[:reasonWidth-1]) + "…"
	}
	return string(r)
}

// group of failures with the same class and, but for numbers and what is in
// quotes, the same reason.
type group struct {
	Class  string `json:"class"`
	Code   int    `json:"code"`
	Type   string `json:"type,omitempty"`
	Reason string `json:"reason"`
}

type countedGroup struct {
	group
	Count   int64  `json:"count"`
	Example string `json:"example,omitempty"` // an id
}

// counted is the answer of histogram.
type counted struct {
	Name   string         `json:"name"`
	States redrive.Count  `json:"states"` // of all ids
	Groups []countedGroup `json:"groups"` // of those asked for
	Cut    bool           `json:"cut,omitempty"`
}

func (a *app) histogramCmd() *cobra.Command {
	var o listOptions
	cmd := named("histogram", "Count failures by class and reason", func(cmd *cobra.Command, name string) error {
		wanted, err := o.filter(a.world.now())
		if err != nil {
			return err
		}
		return a.withErrors(cmd, name, func(log errorTopics, at failed) error {
			return a.histogram(cmd, log, at, wanted)
		})
	})
	o.filters(cmd)
	return cmd
}

func (a *app) histogram(cmd *cobra.Command, log errorTopics, at failed, wanted func(e *redrive.Entry) bool) error {
	groups := map[group]*countedGroup{}
	res := counted{Name: at.name, Groups: []countedGroup{}}
	err := redrive.Each(cmd.Context(), log, at.topic, at.partitions, func(e redrive.Entry) error {
		res.States.Add(e.Status)
		if !wanted(&e) {
			return nil
		}
		g := group{Class: e.Class.String(), Code: int(e.Class), Type: e.Type, Reason: redrive.Pattern(e.Reason)}
		if groups[g] == nil && len(groups) >= maxGroups {
			g.Type, g.Reason, res.Cut = "", "(other reasons)", true
		}
		c := groups[g]
		if c == nil {
			c = &countedGroup{group: g, Example: e.ID}
			groups[g] = c
		}
		c.Count++
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range groups {
		res.Groups = append(res.Groups, *c)
	}
	slices.SortFunc(res.Groups, func(x, y countedGroup) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Code, y.Code), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Reason, y.Reason))
	})
	return a.printHistogram(res, at)
}

func (a *app) printHistogram(res counted, at failed) error {
	if a.json {
		return a.printJSON(res)
	}
	if len(res.Groups) > 0 {
		w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
		fmt.Fprintln(w, "COUNT\tCLASS\tTYPE\tREASON\tEXAMPLE")
		for _, g := range res.Groups {
			kind := clean(g.Type)
			if kind == "" {
				kind = "-"
			}
			fmt.Fprintf(w, "%s\t%d %s\t%s\t%s\t%s\n", thousands(g.Count), g.Code, g.Class, kind, short(g.Reason), clean(g.Example))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	s := res.States
	a.say("%s %s: %s open; done with: %s redriven, %s no document any more, %s superseded, %s discarded; %s skipped", at.kind, at.name,
		thousands(s.Open), thousands(s.Redriven), thousands(s.NoDocument), thousands(s.Superseded), thousands(s.Discarded), thousands(s.Skipped))
	if res.Cut {
		a.say("more than %s different reasons: the rest is counted together", thousands(maxGroups))
	}
	return nil
}

// classOf tells a class by its number, for messages.
func classOf(code int) string { return ingest.Class(code).String() }
