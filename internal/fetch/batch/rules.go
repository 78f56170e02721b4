package batch

import (
	"context"
	"net/http"
	"sync"
	"time"

	"trawl/internal/fetch"
	"trawl/internal/frontier"
	"trawl/internal/robots"
	"trawl/internal/weburl"
)

// Bounds around robots.txt.
const (
	robotsExpiry     = 24 * time.Hour
	robotsRedirects  = 5
	crawlDelayMost   = time.Minute
	robotsSitemaps   = 100 // Sitemap lines that are stated
	robotsPath       = "/robots.txt"
	robotsReason     = "robots.txt not to be had"
	sideGateFallback = time.Second // between robots.txt requests to a foreign host, at least
)

// rules gives the robots rules for a group, from the fact that the batch names
// or from the site itself; false: the host is blocked or no request may start.
func (h *host) rules(g *group) (robots.Rules, bool) {
	if !h.x.plan.spec.Politeness.Robots {
		return robots.AllowAll(), true
	}
	if rules, ok := h.known(g); ok {
		h.widen(min(rules.CrawlDelay, crawlDelayMost))
		return rules, true
	}
	return h.ask(g)
}

// widen keeps the crawl-delay also towards the next batch, if this one ends
// before the first page.
func (h *host) widen(delay time.Duration) {
	h.pace.widen(delay)
	h.x.used(h.pace.Delay())
}

// known reads the fact at the offset that the batch carries. Anything else
// there, and anything unreadable, means that the host is asked.
func (h *host) known(g *group) (robots.Rules, bool) {
	x := h.x
	if g.RobotsAt < 0 {
		return robots.Rules{}, false
	}
	key := rulesKey{x.job.Frontier, x.job.Shard, g.RobotsAt}
	if e, ok := x.runner.rules.get(key); ok {
		return e.rules, e.host == g.Host && e.scheme == g.Scheme && x.job.Now().Before(e.expiry)
	}
	rec, ok, err := x.runner.log.ReadAt(x.soft, x.job.Frontier, x.job.Shard, g.RobotsAt)
	if err != nil || !ok {
		return robots.Rules{}, false
	}
	fact, err := frontier.Decode(rec.Key, rec.Value)
	if err != nil {
		return robots.Rules{}, false
	}
	r, ok := fact.(frontier.Robots)
	if !ok || r.Host != g.Host || r.Scheme != g.Scheme || !x.job.Now().Before(r.Expiry) {
		return robots.Rules{}, false
	}
	rules, err := robots.Decode(r.Rules)
	if err != nil {
		return robots.Rules{}, false
	}
	rules.CrawlDelay = max(rules.CrawlDelay, r.CrawlDelay)
	x.runner.rules.put(key, rulesEntry{r.Host, r.Scheme, r.Expiry, rules})
	return rules, true
}

// ask requests robots.txt. RFC 9309: no such file allows all; a site that
// cannot answer forbids all, which here means that the host is blocked.
func (h *host) ask(g *group) (robots.Rules, bool) {
	target := g.Scheme + "://" + g.Host + robotsPath
	for hop := 0; ; {
		res, ok := h.askOnce(target)
		if !ok {
			return robots.Rules{}, false
		}
		if res.Resend && hop < robotsRedirects {
			hop++
			res.Release()
			continue
		}
		if next := redirectTarget(target, res); next != "" && hop < robotsRedirects {
			target = next
			hop++
			res.Release()
			continue
		}
		rules, ok := h.judge(g, res)
		res.Release()
		return rules, ok
	}
}

// judge turns the last answer into rules and states them.
func (h *host) judge(g *group, res *fetch.Result) (robots.Rules, bool) {
	x := h.x
	rules := robots.AllowAll()
	switch {
	case res.Err != nil && x.requests.Err() != nil, res.Class == fetch.ClassAborted:
		return rules, false
	case res.Class == fetch.ClassAddress:
		return rules, true // no request will leave: each locator is refused by its own dial
	case res.Err != nil && !x.blames(res.Class):
		return rules, false
	case res.Err != nil:
		h.blockForRules(robotsReason+": "+string(res.Class), nil)
		return rules, false
	case res.Status == http.StatusTooManyRequests, res.Status >= 500:
		h.blockForRules(robotsReason, res.Header)
		return rules, false
	case res.Status >= 200 && res.Status < 300:
		rules = robots.Parse(res.Plain, x.plan.agent)
	}
	h.succeed()
	x.count("robots", false)
	return rules, h.stateRules(g, rules)
}

func (h *host) blockForRules(reason string, head http.Header) {
	h.x.count("blocked:"+reason, false)
	h.block(reason, head)
}

// stateRules states the sitemaps, then the rules: whoever knows the rules
// knows the sitemaps. A crawl-delay is acknowledged before the first page.
func (h *host) stateRules(g *group, rules robots.Rules) bool {
	x := h.x
	now := x.job.Now()
	delay := min(rules.CrawlDelay, crawlDelayMost)
	x.stateSitemaps(g, rules.Sitemaps, now)
	x.state(frontier.Robots{
		Host: g.Host, Scheme: g.Scheme, Rules: rules.Encode(), CrawlDelay: delay, Expiry: now.Add(robotsExpiry), When: now,
	})
	if delay <= 0 {
		return true
	}
	h.widen(delay)
	return x.out.flush(x.soft) == nil
}

func (x *run) stateSitemaps(g *group, sitemaps []string, now time.Time) {
	parent := g.Scheme + "://" + g.Host + robotsPath
	base, err := weburl.Parse(parent)
	if err != nil {
		return
	}
	for _, s := range sitemaps[:min(len(sitemaps), robotsSitemaps)] {
		if u, err := base.Resolve(s); err == nil {
			x.discover(frontier.Discovered{URL: u.String(), Parent: parent, How: frontier.HowSitemap, When: now})
		}
	}
}

// askOnce requests one robots.txt, under this host's turn or, for another
// host, under the worker's side gate.
func (h *host) askOnce(target string) (*fetch.Result, bool) {
	req := &fetch.Request{URL: target, Limit: robots.MaxBody}
	if _, at, _, ok := weburl.Split(target); ok && at != h.key {
		return h.askAside(at, req)
	}
	t := h.turn()
	if t == nil {
		return nil, false
	}
	return h.request(t, req), true
}

func (h *host) askAside(at string, req *fetch.Request) (*fetch.Result, bool) {
	x := h.x
	if !x.runner.side.wait(x.soft, at, max(h.pace.Delay(), sideGateFallback)) || !x.runner.net.pass(x.soft) || !x.out.ready(x.soft) || !x.maySend() {
		return nil, false
	}
	req.Gate = x.job.Gate.MaySend
	x.sent.Add(1)
	return x.do(req), true
}

// redirectTarget is the canonical target of a redirect, "" if res is none.
func redirectTarget(from string, res *fetch.Result) string {
	if res.Err != nil || !isRedirect(res.Status) {
		return ""
	}
	base, err := weburl.Parse(from)
	if err != nil {
		return ""
	}
	to, err := base.Resolve(res.Header.Get("Location"))
	if err != nil || res.Header.Get("Location") == "" {
		return ""
	}
	return to.String()
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// rulesCache remembers decoded robots facts. A record of the log never changes
// at its offset, so entries do not go stale; the topic names the generation.
type rulesCache struct {
	mu   sync.Mutex
	most int
	m    map[rulesKey]rulesEntry
}

type rulesKey struct {
	topic  string
	shard  int
	offset int64
}

type rulesEntry struct {
	host, scheme string
	expiry       time.Time
	rules        robots.Rules
}

func newRulesCache(most int) *rulesCache {
	return &rulesCache{most: most, m: map[rulesKey]rulesEntry{}}
}

func (c *rulesCache) get(k rulesKey) (rulesEntry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[k]
	return e, ok
}

// put drops an arbitrary entry when full.
func (c *rulesCache) put(k rulesKey, e rulesEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m) >= c.most {
		for old := range c.m {
			delete(c.m, old)
			break
		}
	}
	c.m[k] = e
}

// sideGate spaces this worker's requests for the robots.txt of hosts that are
// not its to ask: targets of redirects.
type sideGate struct {
	mu   sync.Mutex
	most int
	next map[string]time.Time
}

func newSideGate(most int) *sideGate {
	return &sideGate{most: most, next: map[string]time.Time{}}
}

// wait reserves the next start for host and waits for it.
func (s *sideGate) wait(ctx context.Context, host string, delay time.Duration) bool {
	s.mu.Lock()
	now := time.Now()
	if len(s.next) >= s.most {
		for h, at := range s.next {
			if at.Before(now) {
				delete(s.next, h)
			}
		}
	}
	at := s.next[host]
	if at.Before(now) {
		at = now
	}
	s.next[host] = at.Add(delay)
	s.mu.Unlock()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
