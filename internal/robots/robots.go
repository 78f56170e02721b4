// Package robots owns what a robots.txt says to one agent, by RFC 9309: the
// parser, the matcher and the encoded form that a robots fact carries. It
// refuses to fetch anything, and to decide what a missing or broken robots.txt
// means: the caller says AllowAll or DisallowAll.
package robots

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what is read.
const (
	MaxBody       = 500 << 10 // bytes of a robots.txt that count
	MaxSitemaps   = 1000      // Sitemap lines that are kept
	MaxCrawlDelay = 24 * time.Hour
	maxPattern    = 2048 // bytes of a pattern, normalised
)

// Rules is what one robots.txt says to our agent. The zero value allows all.
// It is immutable after Parse or Decode and safe for concurrent use.
type Rules struct {
	// CrawlDelay is the wait between requests that the site asks for; 0: none.
	CrawlDelay time.Duration
	// Sitemaps are the values of the Sitemap lines, in their order, not checked
	// further. Encode leaves them out: each becomes a fact of its own.
	Sitemaps []string
	// Cut tells that not every rule fitted into the encoded form: what is left
	// forbids at least what the whole did.
	Cut bool

	rules []rule // the longest first, at equal length allow first, no duplicates
}

type rule struct {
	allow   bool
	pattern string // normalised; '*' is the wildcard, a final '$' the anchor
}

// AllowAll is the answer of a site without a robots.txt.
func AllowAll() Rules { return Rules{} }

// DisallowAll is the answer of a site whose robots.txt is not to be had.
func DisallowAll() Rules { return Rules{rules: []rule{{pattern: "/"}}} }

// Len is the number of rules.
func (r Rules) Len() int { return len(r.rules) }

// Parse reads the first MaxBody bytes of a robots.txt for the agent, a product
// token or a user agent that begins with one ("trawl", "trawl/1.0 (+...)").
// There is no malformed robots.txt: lines that say nothing are skipped.
func Parse(body []byte, agent string) Rules {
	if len(body) > MaxBody {
		// The line at the cut is not known whole.
		body = body[:MaxBody]
		body = body[:bytes.LastIndexAny(body, "\r\n")+1]
	}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	p := parser{token: productToken(agent)}
	for len(body) > 0 {
		var line []byte
		if i := bytes.IndexAny(body, "\r\n"); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			line, body = body, nil
		}
		if key, value, ok := splitLine(line); ok {
			p.line(key, value)
		}
	}
	return p.result()
}

// splitLine cuts a comment off and separates key and value. A blank instead of
// the colon is understood, because sites forget it.
func splitLine(line []byte) (key, value string, ok bool) {
	if i := bytes.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	line = bytes.Trim(line, " \t")
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		i = bytes.IndexAny(line, " \t")
		if i < 0 || bytes.ContainsAny(bytes.TrimLeft(line[i:], " \t"), " \t") {
			return "", "", false
		}
	}
	k := bytes.TrimRight(line[:i], " \t")
	if len(k) == 0 || len(k) > 20 {
		return "", "", false
	}
	return strings.ToLower(string(k)), string(bytes.Trim(line[i+1:], " \t")), true
}

// section gathers what is said to us, or to everybody.
type section struct {
	seen  bool
	rules []rule
	delay time.Duration
}

type parser struct {
	token    string
	ours     section
	all      section
	sitemaps []string

	toUs, toAll bool // the group being read
	inRules     bool // the group has rules: the next user-agent begins another
}

func (p *parser) line(key, value string) {
	switch key {
	case "user-agent", "useragent", "user agent":
		p.agent(value)
	case "allow":
		p.rule(true, value)
	case "disallow", "dissallow", "disalow", "disallaw":
		p.rule(false, value)
	case "crawl-delay", "crawldelay", "crawl delay":
		p.delay(value)
	case "sitemap", "site-map":
		if value != "" && len(value) <= maxPattern && len(p.sitemaps) < MaxSitemaps {
			p.sitemaps = append(p.sitemaps, value)
		}
	}
}

func (p *parser) agent(value string) {
	if p.inRules {
		p.toUs, p.toAll, p.inRules = false, false, false
	}
	if value == "*" || strings.HasPrefix(value, "* ") || strings.HasPrefix(value, "*\t") {
		p.toAll, p.all.seen = true, true
		return
	}
	if t := productToken(value); t != "" && t == p.token {
		p.toUs, p.ours.seen = true, true
	}
}

func (p *parser) rule(allow bool, value string) {
	p.inRules = true
	if !p.toUs && !p.toAll {
		return
	}
	pattern, ok := normalPattern(value, allow)
	if !ok {
		return
	}
	r := rule{allow: allow, pattern: pattern}
	if p.toUs {
		p.ours.rules = append(p.ours.rules, r)
	}
	if p.toAll {
		p.all.rules = append(p.all.rules, r)
	}
}

// delay takes the greatest of several. It does not end a line of user agents:
// only rules do.
func (p *parser) delay(value string) {
	s, err := strconv.ParseFloat(value, 64)
	if err != nil || !(s >= 0) {
		return
	}
	d := MaxCrawlDelay
	if s < MaxCrawlDelay.Seconds() {
		d = time.Duration(s * float64(time.Second))
	}
	if p.toUs {
		p.ours.delay = max(p.ours.delay, d)
	}
	if p.toAll {
		p.all.delay = max(p.all.delay, d)
	}
}

func (p *parser) result() Rules {
	s := p.all
	if p.ours.seen {
		s = p.ours
	}
	return Rules{CrawlDelay: s.delay, Sitemaps: p.sitemaps, rules: ordered(s.rules)}
}

// ordered sorts rules so that the first that matches decides.
func ordered(rules []rule) []rule {
	slices.SortFunc(rules, func(a, b rule) int {
		switch {
		case len(a.pattern) != len(b.pattern):
			return len(b.pattern) - len(a.pattern)
		case a.allow != b.allow:
			if a.allow {
				return -1
			}
			return 1
		}
		return strings.Compare(a.pattern, b.pattern)
	})
	return slices.Compact(rules)
}

// productToken is the product token that s begins with, in lower case.
func productToken(s string) string {
	i := 0
	for i < len(s) && (isLetter(s[i]) || s[i] == '-' || s[i] == '_') {
		i++
	}
	return strings.ToLower(s[:i])
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
