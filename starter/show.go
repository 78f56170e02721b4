package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trawl/internal/frontier"
	"trawl/internal/robots"
	"trawl/internal/spec"
	"trawl/internal/weburl"
)

// maxShown bounds how many facts of one locator are kept.
const maxShown = 1000

// answer is what show says about a URL in one crawl.
type answer struct {
	Crawl      string      `json:"crawl"`
	Generation string      `json:"generation"`
	URL        string      `json:"url"`
	Known      bool        `json:"known"`
	Verdict    string      `json:"verdict"` // in a sentence
	Refused    string      `json:"refused,omitempty"`
	Shard      int         `json:"shard"`
	Facts      []shownFact `json:"facts,omitempty"`
}

// shownFact is one fact in words, with its place in the log.
type shownFact struct {
	Offset int64  `json:"offset"`
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Fact   any    `json:"fact"`
}

func (a *app) showCmd() *cobra.Command {
	var crawl string
	cmd := &cobra.Command{
		Use:   "show URL",
		Short: "Tell everything that is known about a URL, or which rule refused it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := weburl.Parse(args[0])
			if err != nil {
				return fail(exitUsage, "%w; write it as in a browser, for example https://docs.example.org/", err)
			}
			return a.show(cmd.Context(), u, crawl)
		},
	}
	cmd.Flags().StringVar(&crawl, "name", "", "the crawl; without it every crawl whose scope holds the URL")
	return cmd
}

func (a *app) show(ctx context.Context, u weburl.URL, crawl string) error {
	st, err := a.world.store(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	all, err := st.Generations(ctx, crawl)
	if err != nil {
		return err
	}
	gens := latest(all)
	if len(gens) == 0 && crawl != "" {
		return fail(exitNotFound, "there is no crawl %s; starter list shows those that exist", crawl)
	}
	answers := []answer{}
	for _, g := range gens {
		ans, err := ask(ctx, st, g, u)
		if err != nil {
			return err
		}
		answers = append(answers, ans)
	}
	return a.answers(u, answers)
}

// latest keeps the current generation of each crawl.
func latest(all []generation) []generation {
	var out []generation
	for i, g := range all {
		if g.Shards == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Crawl == g.Crawl {
			out[n-1] = all[i]
			continue
		}
		out = append(out, g)
	}
	return out
}

// ask looks in one crawl. A URL that the scope refuses can still be known: as a
// seed, or from before.
func ask(ctx context.Context, st store, g generation, u weburl.URL) (answer, error) {
	ans := answer{Crawl: g.Crawl, Generation: g.Generation, URL: u.String(), Shard: frontier.ShardOf(u.Host(), g.Shards)}
	s, err := st.AnySpec(ctx, g)
	if err != nil {
		return ans, err
	}
	if s == nil {
		ans.Verdict = "the crawl has not been seeded yet"
		return ans, nil
	}
	if ans.Refused, err = refusal(s, u); err != nil {
		return ans, err
	}
	l := locator{url: u.String(), host: u.Host(), target: u.Path(), tries: s.Limits.Tries}
	if err := st.Facts(ctx, g, ans.Shard, 0, l.record); err != nil {
		return ans, err
	}
	ans.Known = l.found != nil || l.fetched != nil || l.tried != nil
	ans.Facts = l.facts()
	ans.Verdict = l.verdict()
	if !ans.Known {
		ans.Facts = nil
		ans.Verdict = "unknown: no page that was fetched links to it"
		if ans.Refused != "" {
			ans.Verdict = "refused by the spec: " + ans.Refused
		}
	}
	return ans, nil
}

func refusal(s *spec.Spec, u weburl.URL) (string, error) {
	sc, err := weburl.NewScope(s.Scope, s.Seeds.URLs)
	if err != nil {
		return "", err
	}
	return sc.Explain(u.String()), nil
}

// answers prints; where some crawl knows the URL, the others are left out.
func (a *app) answers(u weburl.URL, list []answer) error {
	if a.json {
		if err := a.printJSON(list); err != nil {
			return err
		}
	}
	known := 0
	for _, ans := range list {
		if ans.Known {
			known++
		}
	}
	for _, ans := range list {
		if !a.json && (ans.Known || known == 0) {
			a.print("%s", ans.text())
		}
	}
	switch {
	case known > 0:
		return nil
	case len(list) == 0:
		return fail(exitNotFound, "there is no crawl, so nothing is known about %s", u)
	}
	return exit(exitNotFound)
}

func (ans answer) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %-10s %s, generation %s, shard %d\n  %-10s %s\n", ans.URL, "crawl", ans.Crawl, ans.Generation, ans.Shard, "verdict", clean(ans.Verdict))
	for _, f := range ans.Facts {
		fmt.Fprintf(&b, "  %-10s %s\n", f.Kind, clean(f.Text))
	}
	return b.String()
}

// locator folds the facts about one URL and its host.
type locator struct {
	url, host, target string
	tries             int // the limit

	found   []shownDiscovery // in the order of the log, one per depth
	fetched *frontier.Fetched
	tried   []frontier.Tried
	streak  *frontier.Streak
	blocked map[int]frontier.Blocked
	parked  *frontier.Parked
	robots  *frontier.Robots
	at      map[string]int64 // offset by key
}

type shownDiscovery struct {
	frontier.Discovered
	offset int64
}

// record takes one record of the shard.
func (l *locator) record(offset int64, key, value []byte) error {
	if !l.concerns(key) {
		return nil
	}
	f, err := frontier.Decode(key, value)
	if err != nil {
		return fmt.Errorf("frontier offset %d: %w", offset, err)
	}
	l.fold(offset, f)
	return nil
}

// concerns is a cheap look at the key: most records are about other URLs.
func (l *locator) concerns(key []byte) bool {
	k := string(key)
	return strings.Contains(k, l.url) || strings.Contains(k, l.host) && len(k) < len(l.host)+32
}

func (l *locator) note(kind string, offset int64) {
	if l.at == nil {
		l.at = map[string]int64{}
	}
	l.at[kind] = offset
}

func (l *locator) fold(offset int64, f frontier.Fact) {
	switch f := f.(type) {
	case frontier.Discovered:
		if f.URL == l.url && len(l.found) < maxShown {
			l.discover(offset, f)
		}
	case frontier.Fetched:
		if f.URL == l.url {
			l.fetched = &f
			l.note("fetched", offset)
		}
	case frontier.Tried:
		if f.URL == l.url && len(l.tried) < maxShown {
			l.tried = append(l.tried, f)
			l.note(fmt.Sprint("tried", f.Round, f.Number), offset)
		}
	default:
		if f.HostKey() == l.host {
			l.foldHost(offset, f)
		}
	}
}

// discover: the last fact of each depth counts.
func (l *locator) discover(offset int64, f frontier.Discovered) {
	for i := range l.found {
		if l.found[i].Depth == f.Depth {
			l.found[i] = shownDiscovery{f, offset}
			return
		}
	}
	l.found = append(l.found, shownDiscovery{f, offset})
}

func (l *locator) foldHost(offset int64, f frontier.Fact) {
	switch f := f.(type) {
	case frontier.Streak:
		l.streak = &f
		l.note("streak", offset)
	case frontier.Parked:
		l.parked = &f
		l.note("parked", offset)
	case frontier.Robots:
		l.robots = &f
		l.note("robots", offset)
	case frontier.Blocked:
		if l.blocked == nil {
			l.blocked = map[int]frontier.Blocked{}
		}
		l.blocked[f.Part] = f
		l.note(fmt.Sprint("blocked", f.Part), offset)
	}
}

// lastTry is the failed try with the highest number of the last round.
func (l *locator) lastTry() *frontier.Tried {
	var last *frontier.Tried
	for i := range l.tried {
		t := &l.tried[i]
		if last == nil || t.Round > last.Round || t.Round == last.Round && t.Number > last.Number {
			last = t
		}
	}
	return last
}

func (l *locator) verdict() string {
	t := l.lastTry()
	switch {
	case l.fetched != nil && l.fetched.Refusal != "":
		return "refused: " + l.fetched.Refusal + l.robotsLine()
	case l.fetched != nil:
		return fmt.Sprintf("fetched with status %d", l.fetched.Status)
	case t != nil && t.Number >= l.tries:
		return fmt.Sprintf("given up after %d tries: %s", t.Number, t.Class)
	case l.parked != nil:
		return "given up: its host is parked: " + l.parked.Reason
	case t != nil:
		return fmt.Sprintf("pending: %d failed tries, the last by %s, due again %s", t.Number, t.Class, stamp(t.NextDue))
	}
	return "pending: known, and not fetched yet"
}

// robotsLine names the rule of robots.txt, if it was robots.txt and is known.
func (l *locator) robotsLine() string {
	if l.fetched.Refusal != "robots" || l.robots == nil {
		return ""
	}
	rules, err := robots.Decode(l.robots.Rules)
	if err != nil {
		return ""
	}
	if allowed, line := rules.Decide(l.target); !allowed && line != "" {
		return " (" + line + ")"
	}
	return ""
}

// facts puts everything in the order of a locator's life.
func (l *locator) facts() []shownFact {
	var out []shownFact
	for _, d := range l.found {
		out = append(out, shownFact{d.offset, "found", factText(d.Discovered), d.Discovered})
	}
	if l.robots != nil {
		out = append(out, shownFact{l.at["robots"], "robots", factText(*l.robots), *l.robots})
	}
	for _, t := range l.tried {
		out = append(out, shownFact{l.at[fmt.Sprint("tried", t.Round, t.Number)], "failed", factText(t), t})
	}
	if l.fetched != nil {
		out = append(out, shownFact{l.at["fetched"], "fetched", factText(*l.fetched), *l.fetched})
	}
	for _, part := range slices.Sorted(maps.Keys(l.blocked)) {
		b := l.blocked[part]
		out = append(out, shownFact{l.at[fmt.Sprint("blocked", part)], "blocked", factText(b), b})
	}
	if l.streak != nil && l.streak.Errors > 0 {
		out = append(out, shownFact{l.at["streak"], "errors", factText(*l.streak), *l.streak})
	}
	if l.parked != nil {
		out = append(out, shownFact{l.at["parked"], "parked", factText(*l.parked), *l.parked})
	}
	return out
}

// factText is a fact in words.
func factText(f frontier.Fact) string {
	switch f := f.(type) {
	case frontier.Discovered:
		return discoveredText(f)
	case frontier.Fetched:
		return fetchedText(f)
	case frontier.Tried:
		return fmt.Sprintf("round %d, try %d: %s at %s, due again %s", f.Round, f.Number, f.Class, stamp(f.When), stamp(f.NextDue))
	case frontier.Streak:
		return fmt.Sprintf("host %s: %d errors in a row at %s", f.Host, f.Errors, stamp(f.When))
	case frontier.Blocked:
		return fmt.Sprintf("host %s, part %d: until %s, %s, stated %s", f.Host, f.Part, stamp(f.Until), f.Reason, stamp(f.When))
	case frontier.Parked:
		return fmt.Sprintf("host %s: %s at %s", f.Host, f.Reason, stamp(f.When))
	case frontier.Robots:
		delay := "no Crawl-delay"
		if f.CrawlDelay > 0 {
			delay = "Crawl-delay " + f.CrawlDelay.String()
		}
		return fmt.Sprintf("host %s: %d bytes of rules, %s, read %s, valid until %s", f.Host, len(f.Rules), delay, stamp(f.When), stamp(f.Expiry))
	case frontier.Spec:
		return fmt.Sprintf("spec of %d bytes", len(f.JSON))
	case frontier.Summary:
		return summaryFact(f)
	}
	return ""
}

func discoveredText(f frontier.Discovered) string {
	text := fmt.Sprintf("as a %s at depth %d", f.How, f.Depth)
	if f.Parent != "" {
		text += " from " + f.Parent
	}
	if f.Hop > 0 {
		text += fmt.Sprintf(", %d redirect hop(s)", f.Hop)
	}
	return text + ", " + stamp(f.When)
}

func fetchedText(f frontier.Fetched) string {
	if f.Refusal != "" {
		return fmt.Sprintf("round %d: refused: %s at %s", f.Round, f.Refusal, stamp(f.When))
	}
	text := fmt.Sprintf("round %d: status %d, %s at %s, depth %d", f.Round, f.Status, bytesText(f.Bytes), stamp(f.When), f.Depth)
	if f.CutDepth {
		text += ", its links are beyond the depth limit"
	}
	if !f.NextDue.IsZero() {
		text += ", due again " + stamp(f.NextDue)
	}
	return text
}

func summaryFact(f frontier.Summary) string {
	var s struct {
		Outcome string `json:"outcome"`
	}
	if err := json.Unmarshal(f.JSON, &s); err != nil {
		return errors.Join(errors.New("summary that is not readable"), err).Error()
	}
	return fmt.Sprintf("summary of %d bytes, outcome %s", len(f.JSON), s.Outcome)
}
