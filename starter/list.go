package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// maxList bounds how many crawls are listed.
const maxList = 1000

// listed is one row of list.
type listed struct {
	execution
	Generations []string `json:"generations,omitempty"`
}

func (a *app) listCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all crawls and loads that Temporal or Kafka know",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.connected(cmd.Context(), func(t temporalServer, st store) error {
				return a.list(cmd.Context(), t, st)
			})
		},
	}
}

func (a *app) list(ctx context.Context, t temporalServer, st store) error {
	rows, err := a.crawls(ctx, t, st)
	if err != nil {
		return err
	}
	loads, err := a.loadRows(ctx)
	if err != nil {
		return err
	}
	rows = append(rows, loads...)
	if a.json {
		return a.printJSON(rows)
	}
	if len(rows) == 0 {
		a.say("there is no crawl and no load yet; starter crawl URL begins one")
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tSTARTED\tENDED\tGENERATION")
	for _, r := range rows {
		gen := "-"
		if n := len(r.Generations); n > 0 {
			gen = r.Generations[n-1]
			if n > 1 {
				gen += fmt.Sprintf(" (and %d before)", n-1)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.State, stamp(r.Started), stamp(r.Closed), gen)
	}
	return w.Flush()
}

// crawls joins what the two servers know, by name.
func (a *app) crawls(ctx context.Context, t temporalServer, st store) ([]listed, error) {
	execs, err := t.List(ctx, maxList)
	if err != nil {
		return nil, err
	}
	gens, err := st.Generations(ctx, "")
	if err != nil {
		return nil, err
	}
	byName := map[string]*listed{}
	for _, e := range execs {
		byName[e.Name] = &listed{execution: e}
	}
	for _, g := range gens {
		if byName[g.Crawl] == nil {
			byName[g.Crawl] = &listed{execution: execution{Name: g.Crawl, State: "ended"}}
		}
		r := byName[g.Crawl]
		r.Generations = append(r.Generations, g.Generation)
	}
	rows := make([]listed, 0, len(byName))
	for _, r := range byName {
		if r.State != stateRunning && len(r.Generations) == 0 {
			r.State += ", deleted"
		}
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(x, y listed) int { return strings.Compare(x.Name, y.Name) })
	return rows, nil
}
