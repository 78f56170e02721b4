package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"trawl/internal/frontier"
)

type factsOptions struct {
	shard      int
	from       int64
	limit      int64
	generation string
}

func (a *app) factsCmd() *cobra.Command {
	var o factsOptions
	cmd := named("facts", "Print the facts of a shard, decoded, in the order of the log", func(cmd *cobra.Command, name string) error {
		return a.facts(cmd.Context(), name, o)
	})
	cmd.Long = "Print the facts of a shard, one to a line: offset, kind, subject and text; with\n--json one JSON object to a line. A record that is no fact is printed as such."
	f := cmd.Flags()
	f.IntVar(&o.shard, "shard", 0, "the shard")
	f.Int64Var(&o.from, "from", 0, "first offset")
	f.Int64Var(&o.limit, "limit", 0, "print at most so many; 0 prints all")
	f.StringVar(&o.generation, "generation", "", "the generation (default the current one)")
	return cmd
}

func (a *app) facts(ctx context.Context, name string, o factsOptions) error {
	st, err := a.world.store(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	g, err := pick(ctx, st, name, o.generation)
	if err != nil {
		return err
	}
	if o.shard < 0 || o.shard >= g.Shards {
		return fail(exitUsage, "--shard %d: crawl %s has the shards 0 to %d", o.shard, name, g.Shards-1)
	}
	printed := int64(0)
	return st.Facts(ctx, g, o.shard, o.from, func(offset int64, key, value []byte) error {
		if o.limit > 0 && printed >= o.limit {
			return errStop
		}
		printed++
		return a.printFact(offset, key, value)
	})
}

// pick finds a generation of a crawl, the current one for "".
func pick(ctx context.Context, st store, name, id string) (generation, error) {
	gens, err := st.Generations(ctx, name)
	if err != nil {
		return generation{}, err
	}
	if id == "" {
		g, ok := current(gens)
		if !ok {
			return g, fail(exitNotFound, "there is no crawl %s; starter list shows those that exist", name)
		}
		return g, nil
	}
	var ids []string
	for _, g := range gens {
		if g.Generation == id && g.Shards > 0 {
			return g, nil
		}
		ids = append(ids, g.Generation)
	}
	return generation{}, fail(exitNotFound, "crawl %s has no generation %s; it has %s", name, id, strings.Join(ids, ", "))
}

func (a *app) printFact(offset int64, key, value []byte) error {
	kind, subject, text := "", "", ""
	f, err := frontier.Decode(key, value)
	switch {
	case value == nil:
		kind, text = "deleted", "tombstone"
	case err != nil:
		kind, text = "unreadable", err.Error()
	default:
		kind, subject, text = kindOf(f), subjectOf(f), factText(f)
	}
	if !a.json {
		a.print("%d\t%s\t%s\t%s\n", offset, kind, clean(subject), clean(text))
		return nil
	}
	line, err := json.Marshal(shownFact{Offset: offset, Kind: kind, Text: text, Fact: jsonFact(f)})
	if err != nil {
		return err
	}
	a.print("%s\n", line)
	return nil
}

// jsonFact opens the JSON that two kinds of facts hold.
func jsonFact(f frontier.Fact) any {
	switch f := f.(type) {
	case frontier.Spec:
		return json.RawMessage(f.JSON)
	case frontier.Summary:
		return json.RawMessage(f.JSON)
	}
	return f
}

func kindOf(f frontier.Fact) string {
	switch f.(type) {
	case frontier.Discovered:
		return "discovered"
	case frontier.Fetched:
		return "fetched"
	case frontier.Tried:
		return "tried"
	case frontier.Streak:
		return "streak"
	case frontier.Blocked:
		return "blocked"
	case frontier.Parked:
		return "parked"
	case frontier.Robots:
		return "robots"
	case frontier.Spec:
		return "spec"
	case frontier.Summary:
		return "summary"
	}
	return "other"
}

func subjectOf(f frontier.Fact) string {
	switch f := f.(type) {
	case frontier.Discovered:
		return f.URL
	case frontier.Fetched:
		return f.URL
	case frontier.Tried:
		return f.URL
	}
	return f.HostKey()
}
