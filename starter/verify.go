package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform"
	"trawl/workflows"
)

func (a *app) verifyCmd() *cobra.Command {
	cmd := named("verify", "Count a load again in its sink and errors topic, and name gaps", func(cmd *cobra.Command, name string) error {
		return a.verify(cmd.Context(), name)
	})
	cmd.Long = `Read again what a load has read, and look for every record: in the sink, with its
version or a newer one, or by its id in the errors topic. Then compare the counts
with the ledger. NAME is that of a load; crawl/NAME are the pages of a crawl.

Records that the topic does not keep any more cannot be looked for: that is said,
and the ledger speaks for them. The exit code is 3 if something is missing. Of the
sink files all lines are read: each file has to be whole, and no two of a partition
may share an offset; a line that repeats an id and version is named.`
	return cmd
}

// verified is a load as verify needs it.
type verified struct {
	id        string
	parts     []contract.LoadReport
	topic     func(contract.LoadReport) string
	transform func(contract.LoadReport) (transform.Func, error)
	index     string
	kind      string // of the sink
	create    bool   // documents are never replaced
	errors    string // topic
}

func (a *app) verify(ctx context.Context, name string) error {
	t, err := a.world.loads(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	id := loadID(name)
	var v *verified
	if crawl, ok := workflows.CrawlName(name); ok {
		v, err = a.verifiedCrawl(ctx, crawl)
	} else {
		v, err = a.verifiedLoad(ctx, t, verbName(id))
	}
	if err != nil {
		return err
	}
	if v.parts, err = partsOf(ctx, t, id); err != nil {
		return err
	}
	v.id = id
	admin, err := a.world.sink(v.kind)
	if err != nil {
		return err
	}
	holder, ok := admin.(sink.Holder)
	if !ok {
		return fail(exitFailed, "%s: a sink of kind %s cannot be asked what it holds", id, v.kind)
	}
	log, err := a.world.errors(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	c := &counter{v: v, log: log, holder: holder}
	c.auditor, _ = admin.(sink.Auditor)
	if err := c.count(ctx); err != nil {
		return err
	}
	return a.verdict(c)
}

// partsOf are the loaders as they are now, or as the last run left them.
func partsOf(ctx context.Context, t loadServer, id string) ([]contract.LoadReport, error) {
	e, err := t.DescribeLoad(ctx, id)
	if err != nil {
		return nil, err
	}
	_, root := workflows.LoadRootName(id)
	switch {
	case e.State == stateNone:
		return nil, fail(exitNotFound, "there is no %s; starter list shows what exists", id)
	case root && e.State != stateRunning:
		if _, sum, err := t.WaitLoad(ctx, id, e.RunID); err == nil && sum != nil {
			return sum.Partitions, nil
		}
	}
	st, err := t.LoadStatus(ctx, id)
	return st.Partitions, err
}

func (a *app) verifiedLoad(ctx context.Context, t loadServer, name string) (*verified, error) {
	id := workflows.LoadRootID(name)
	if e, err := t.DescribeLoad(ctx, id); err != nil || e.State == stateNone {
		return nil, cmp.Or(err, fail(exitNotFound, "there is no %s; of a crawl: starter verify crawl/%s; starter list shows what exists", id, name))
	}
	raw, err := t.LoadSpec(ctx, name)
	if err != nil {
		return nil, err
	}
	s, err := spec.DecodeLoad(raw)
	if err != nil {
		return nil, err
	}
	return &verified{
		errors: contract.LoadRun(name).Topic(a.set.TopicPrefix, contract.TopicErrors),
		index:  s.Sink.Index, kind: s.Sink.Kind, create: s.Sink.DataStream,
		topic: func(p contract.LoadReport) string { return p.Topic },
		transform: func(p contract.LoadReport) (transform.Func, error) {
			for _, c := range s.Sources {
				if c.Topic == p.Topic && (len(c.Partitions) == 0 || contains(c.Partitions, p.Partition)) {
					return transform.New(c)
				}
			}
			return nil, fmt.Errorf("%s is no source of the load", partitionText(p))
		},
	}, nil
}

func contains(list []int, n int) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

func (a *app) verifiedCrawl(ctx context.Context, name string) (*verified, error) {
	st, err := a.world.store(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	gens, err := st.Generations(ctx, name)
	if err != nil {
		return nil, err
	}
	g, ok := current(gens)
	if !ok {
		return nil, fail(exitNotFound, "there is no crawl %s; starter list shows those that exist", name)
	}
	s, err := st.AnySpec(ctx, g)
	if err != nil {
		return nil, err
	}
	if s == nil || s.Sink.Kind == spec.SinkNone {
		return nil, fail(exitNotFound, "crawl %s has no sink: there is nothing to count", name)
	}
	f, err := transform.Pages(s.Document.Fields)
	if err != nil {
		return nil, err
	}
	return &verified{
		index: g.Index(s.Sink.Index), kind: s.Sink.Kind, errors: g.Topic(a.set.TopicPrefix, contract.TopicErrors),
		topic:     func(contract.LoadReport) string { return g.Topic(a.set.TopicPrefix, contract.TopicPages) },
		transform: func(contract.LoadReport) (transform.Func, error) { return f, nil },
	}, nil
}

// verdict prints what was counted, and gives the exit code.
func (a *app) verdict(c *counter) error {
	balanced := c.found.Balanced
	if a.json {
		if err := a.printJSON(c.found); err != nil {
			return err
		}
	} else {
		a.print("%s", verdictText(c.v.id, c.found))
	}
	if !balanced {
		return exit(exitPages)
	}
	return nil
}

func verdictText(id string, f findings) string {
	var b strings.Builder
	word := "balances"
	if !f.Balanced {
		word = "DOES NOT BALANCE"
	}
	fmt.Fprintf(&b, "%s: %s\n", id, word)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("ledger", "%s", conservation(f.Ledger))
	row("counted", "%s records: %s documents in the sink, %s deleted or replaced by newer, %s no document, %s in errors, %s skipped",
		thousands(f.Records), thousands(f.Documents), thousands(f.Deleted), thousands(f.NoDocument), thousands(f.Errors), thousands(f.Skipped))
	if f.Gone > 0 {
		row("gone", "%s offsets are not in the topics any more: the ledger alone speaks for them", thousands(f.Gone))
	}
	if x := f.Audit; x != nil {
		row("files", "%s files, %s lines: %s documents at their highest version, %s lines repeat an id and version", thousands(x.Files), thousands(x.Lines), thousands(x.Documents), thousands(x.Repeats))
		for _, r := range x.Repeated {
			row("repeated", "%s", clean(r))
		}
		if more := x.Repeats - int64(len(x.Repeated)); more > 0 {
			row("repeated", "and %s more", thousands(more))
		}
	}
	for _, g := range f.Gaps {
		row("gap", "%s", clean(g))
	}
	if more := f.Missing - int64(len(f.Gaps)); more > 0 {
		row("gap", "and %s more", thousands(more))
	}
	return b.String()
}
