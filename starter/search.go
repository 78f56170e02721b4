package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trawl/internal/sink"
	"trawl/internal/sink/files"
	"trawl/internal/spec"
	"trawl/workflows"
)

// found documents of one search, for --json.
type searchResult struct {
	Total int64 `json:"total"`
	Hits  []hit `json:"hits"`
}

type hit struct {
	URL     string  `json:"url"`
	Title   string  `json:"title,omitempty"`
	Snippet string  `json:"snippet,omitempty"`
	Score   float64 `json:"score"`
}

func (a *app) searchCmd() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "search NAME QUERY...",
		Short:   "Search the documents of a crawl or load",
		Long:    "Search the documents of a crawl, or of the index of a load (load/NAME, where a\ncrawl has the name, too), best first. All words must be there; \"quoted words\"\nmust stand together.",
		Example: `  starter search docs-example-org '"context manager" with'`,
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return fail(exitUsage, "--limit %d is not between 1 and 1000", limit)
			}
			return a.search(cmd.Context(), args[0], strings.Join(args[1:], " "), limit)
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 10, "hits to print, 1 to 1000")
	return cmd
}

func (a *app) search(ctx context.Context, name, query string, limit int) error {
	if len(sink.ParseQuery(query)) == 0 {
		return fail(exitUsage, "the query %q holds no word: give at least one", query)
	}
	s, err := a.sinkOf(ctx, name)
	if err != nil {
		return err
	}
	if s.Kind == spec.SinkNone {
		return fail(exitNotFound, "crawl %s has the sink none: its pages were kept, but not indexed", name)
	}
	if s.Kind == spec.SinkFiles {
		return fail(exitNotFound, "the documents of %s are in files, which have no index to search; look for a word: grep -rhi --include='*.jsonl' WORD %s/", name, files.New(a.set.DataDir).Place(s.Index))
	}
	admin, err := a.world.sink(s.Kind)
	if err != nil {
		return err
	}
	hits, total, err := admin.Search(ctx, s.Index, query, limit)
	if err != nil {
		return a.sinkError(s, name, err)
	}
	return a.printHits(hits, total)
}

// sinkOf finds where a crawl's documents are. Without Kafka the embedded index
// of that name is the best guess, and nothing but a guess.
func (a *app) sinkOf(ctx context.Context, name string) (spec.Sink, error) {
	guess := spec.Sink{Kind: spec.SinkSQLite, Index: name}
	st, err := a.world.store(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return guess, ctx.Err()
		}
		a.say("note: %v; searching the embedded index %s", err, name)
		return guess, nil
	}
	defer st.Close()
	gens, err := st.Generations(ctx, name)
	if err != nil {
		return guess, err
	}
	g, ok := current(gens)
	if load, is := workflows.LoadRootName(name); is || !ok {
		return a.sinkOfLoad(ctx, cmp.Or(load, name))
	}
	s, err := st.AnySpec(ctx, g)
	if err != nil {
		return guess, err
	}
	if s == nil {
		return guess, fail(exitNotFound, "crawl %s has not been seeded yet: there is nothing to search", name)
	}
	return s.Sink, nil
}

// sinkOfLoad is the sink of the latest run of a load.
func (a *app) sinkOfLoad(ctx context.Context, name string) (spec.Sink, error) {
	t, err := a.world.loads(ctx)
	if err != nil {
		return spec.Sink{}, err
	}
	defer t.Close()
	raw, err := t.LoadSpec(ctx, name)
	var ee *exitError
	if errors.As(err, &ee) && ee.code == exitNotFound {
		return spec.Sink{}, fail(exitNotFound, "there is no crawl and no load %s; starter list shows those that exist", name)
	}
	if err != nil {
		return spec.Sink{}, err
	}
	s, err := spec.DecodeLoad(raw)
	if err != nil {
		return spec.Sink{}, err
	}
	return spec.Sink{Kind: s.Sink.Kind, Index: s.Sink.Index}, nil
}

func (a *app) sinkError(s spec.Sink, name string, err error) error {
	var away *sink.UnavailableError
	switch {
	case errors.Is(err, sink.ErrNoIndex) && s.Kind == spec.SinkSQLite:
		return fail(exitNotFound, "%s has no index in %s: TRAWL_DATA_DIR must be that of the worker", name, a.set.DataDir)
	case errors.Is(err, sink.ErrNoIndex):
		return fail(exitNotFound, "%s has no index %s yet", name, s.Index)
	case errors.As(err, &away):
		return fail(exitUnreachable, "the index of %s cannot be searched: %w", name, err)
	}
	return fmt.Errorf("search %s: %w", name, err)
}

func (a *app) printHits(hits []sink.Hit, total int64) error {
	if a.json {
		res := searchResult{Total: total, Hits: []hit{}}
		for _, h := range hits {
			res.Hits = append(res.Hits, hit{URL: h.ID, Title: h.Title, Snippet: h.Snippet, Score: h.Score})
		}
		return a.printJSON(res)
	}
	for i, h := range hits {
		title := strings.TrimSpace(clean(h.Title))
		if title == "" {
			title = "(no title)"
		}
		a.print("%d. %s\n   %s\n", i+1, title, clean(h.ID))
		if s := strings.TrimSpace(clean(h.Snippet)); s != "" {
			a.print("   %s\n", s)
		}
	}
	a.say("%s of %s document(s)", thousands(int64(len(hits))), thousands(total))
	return nil
}
