package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// Kinds of sinks.
const (
	SinkSQLite  = "sqlite"
	SinkElastic = "elastic"
	SinkFiles   = "files"
	SinkNone    = "none"
)

// LocalSink: what a sink of the kind holds lies in the data directory of a worker.
func LocalSink(kind string) bool { return kind == SinkSQLite || kind == SinkFiles }

// Bounds on values.
const (
	maxURL         = 2048
	maxEncoded     = 800_000 // bytes of canonical JSON: one record of the frontier topic
	maxHosts       = 10_000  // of the scope
	maxList        = 100     // entries of a list other than seeds and hosts
	maxShards      = 1024
	maxParallelism = 64
	maxTries       = 100
	maxHostErrors  = 10_000
	maxDepth       = 10_000
	minPageSize    = 1 << 10
	maxPageSize    = 64 << 20
	maxPattern     = 1000
	maxUserAgent   = 256
)

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	indexForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,99}$`)
)

// Validate answers everything that is impossible about the values of a
// finished spec; nil means that it can start.
func (s *Spec) Validate() []Problem {
	v := &validator{s: s}
	v.name()
	v.seeds()
	v.scope()
	v.limits()
	v.politeness()
	v.networks()
	v.sink()
	if len(v.ps) == 0 {
		v.whole()
	}
	return v.ps
}

type validator struct {
	s  *Spec
	ps []Problem
}

func (v *validator) refuse(key string, item int, value, what, remedy string) {
	v.ps = append(v.ps, v.s.problem(key, item, value, what, remedy))
}

func (v *validator) number(key string, value, least, most int64, remedy string) {
	if value < least || value > most {
		v.refuse(key, -1, fmt.Sprint(value), fmt.Sprintf("is not between %d and %d", least, most), remedy)
	}
}

func (v *validator) name() {
	switch {
	case v.s.Name == "" && len(v.s.Seeds.URLs)+len(v.s.Seeds.Sitemaps) == 0:
		// The missing seeds are reported.
	case !nameForm.MatchString(v.s.Name):
		v.refuse("name", -1, v.s.Name, "is no name", "use a-z, 0-9 and dashes, at most 63, beginning with a letter or digit")
	}
}

func (v *validator) seeds() {
	all := len(v.s.Seeds.URLs) + len(v.s.Seeds.Sitemaps)
	switch {
	case all == 0:
		v.refuse("seeds", -1, "", "there is no seed", "name at least one URL, for example https://docs.example.org/")
		return
	case all > MaxSeeds:
		v.refuse("seeds.urls", -1, "", fmt.Sprintf("there are %d seeds", all), fmt.Sprintf("at most %d start a crawl; use a sitemap, or starter add-seeds", MaxSeeds))
		return
	}
	for i, raw := range v.s.Seeds.URLs {
		v.url("seeds.urls", i, raw)
	}
	for i, raw := range v.s.Seeds.Sitemaps {
		v.url("seeds.sitemaps", i, raw)
	}
}

func (v *validator) url(key string, i int, raw string) {
	u, err := parseURL(raw)
	if err != nil {
		v.refuse(key, i, raw, err.Error(), urlRemedy(raw))
		return
	}
	if net, ok := privateLiteral(u.hostname); ok && !v.allowed(u.hostname) {
		v.refuse(key, i, raw, "is on a private or reserved address, which crawls do not reach",
			fmt.Sprintf("if it is meant, add --allow-network %s (allow_networks: [%s])", net, net))
	}
}

// allowed: a named network holds the literal; localhost is 127.0.0.1.
func (v *validator) allowed(hostname string) bool {
	addr := literal(hostname)
	return slices.ContainsFunc(v.s.AllowNetworks, func(n string) bool {
		p, err := netip.ParsePrefix(n)
		return err == nil && p.Contains(addr)
	})
}

func (v *validator) scope() {
	sc := &v.s.Scope
	v.number("scope.depth", int64(sc.Depth), -1, maxDepth, "-1 means no limit, 0 the seeds alone")
	if len(sc.Hosts) == 0 && len(v.s.Seeds.URLs)+len(v.s.Seeds.Sitemaps) > 0 {
		v.refuse("scope.hosts", -1, "", "is empty: no page belongs to the crawl", "leave it out for the hosts of the seeds")
	}
	if len(sc.Hosts) > maxHosts {
		v.refuse("scope.hosts", -1, "", fmt.Sprintf("has %d entries", len(sc.Hosts)), fmt.Sprintf("at most %d; split the crawl", maxHosts))
		return
	}
	for i, h := range sc.Hosts {
		v.host(i, h)
	}
	v.listed("scope.path_prefixes", sc.PathPrefixes, checkPrefix)
	v.listed("scope.include", sc.Include, checkPattern)
	v.listed("scope.exclude", sc.Exclude, checkPattern)
	if len(v.ps) == 0 {
		v.notEmpty()
	}
}

func (v *validator) listed(key string, list []string, check func(string) (what, remedy string)) {
	if len(list) > maxList {
		v.refuse(key, -1, "", fmt.Sprintf("has %d entries", len(list)), fmt.Sprintf("at most %d; join some in one pattern", maxList))
		return
	}
	for i, e := range list {
		if what, remedy := check(e); what != "" {
			v.refuse(key, i, e, what, remedy)
		}
	}
}

func (v *validator) host(i int, h string) {
	u, err := parseURL("http://" + h + "/")
	tls, terr := parseURL("https://" + h + "/")
	if err == nil && terr == nil && (u.host == h || tls.host == h) {
		return
	}
	remedy := "write host or host:port, for example docs.example.org"
	if err == nil && u.host != h && !strings.ContainsAny(h, "/@?#") {
		remedy = "write " + u.host
	}
	v.refuse("scope.hosts", i, h, "is no host", remedy)
}

func checkPrefix(p string) (what, remedy string) {
	switch {
	case !strings.HasPrefix(p, "/"):
		return "does not begin with a slash", "write the path as in a URL, for example /manual/"
	case len(p) > maxURL || strings.ContainsAny(p, " \t\r\n?#"):
		return "is no path", "write a path without blanks, query or fragment"
	}
	return "", ""
}

func checkPattern(p string) (what, remedy string) {
	if p == "" || len(p) > maxPattern {
		return fmt.Sprintf("is not between 1 and %d bytes long", maxPattern), "remove or shorten it"
	}
	if _, err := regexp.Compile(p); err != nil {
		return "is no regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "), "RE2 syntax: no lookaround, no backreferences"
	}
	return "", ""
}

// notEmpty refuses seeds outside the scope: such a crawl would end without a
// page of them, and nobody would know why. Sitemaps are no pages.
func (v *validator) notEmpty() {
	m := newMatcher(&v.s.Scope)
	outside, first, why := 0, 0, ""
	for i, raw := range v.s.Seeds.URLs {
		if reason := m.refuses(raw); reason != "" {
			if outside == 0 {
				first, why = i, reason
			}
			outside++
		}
	}
	if outside == 0 {
		return
	}
	what := "is outside the scope: " + why
	if outside > 1 {
		what += fmt.Sprintf(" (and %d more seeds)", outside-1)
	}
	v.refuse("seeds.urls", first, v.s.Seeds.URLs[first], what, "widen the scope or remove the seed")
}

func (v *validator) limits() {
	l := &v.s.Limits
	v.number("limits.pages", l.Pages, 0, 1e12, "0 means no limit")
	v.number("limits.pages_per_host", l.PagesPerHost, 0, 1e12, "0 means no limit")
	if l.PageSize < minPageSize || l.PageSize > maxPageSize {
		v.refuse("limits.page_size", -1, FormatSize(l.PageSize), "is not between 1KiB and 64MiB", "the default is 8MiB")
	}
	v.number("limits.tries", int64(l.Tries), 1, maxTries, "1 means no second try")
	v.number("limits.host_errors", int64(l.HostErrors), 1, maxHostErrors, "the default is 10")
	v.number("shards", int64(v.s.Shards), 1, maxShards, "leave it out to have it chosen")
	v.duration("limits.time", l.Time)
}

func (v *validator) duration(key string, d Duration) {
	if d < 0 || d.Std() > maxDuration {
		v.refuse(key, -1, d.String(), "is out of range", "write a duration such as 500ms, 1s or 2h")
	}
}

func (v *validator) politeness() {
	p := &v.s.Politeness
	v.duration("politeness.delay", p.Delay)
	v.number("politeness.parallelism", int64(p.Parallelism), 1, maxParallelism, "1 asks for one page of a host at a time")
	v.header("politeness.user_agent", p.UserAgent)
	if strings.TrimSpace(p.UserAgent) == "" {
		v.refuse("politeness.user_agent", -1, p.UserAgent, "is empty", "leave it out for the default, trawl/<version>")
	}
	v.header("politeness.contact", p.Contact)
}

// header: the value goes into a request header.
func (v *validator) header(key, value string) {
	bad := strings.ContainsFunc(value, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) })
	if bad || len(value) > maxUserAgent {
		v.refuse(key, -1, value, "cannot be a request header", fmt.Sprintf("use printable ASCII, at most %d bytes", maxUserAgent))
	}
}

func (v *validator) networks() {
	v.listed("allow_networks", v.s.AllowNetworks, func(n string) (what, remedy string) {
		p, err := netip.ParsePrefix(n)
		switch {
		case err != nil:
			return "is no network", "write it as CIDR, for example 127.0.0.0/8"
		case p.Bits() == 0:
			return "is the whole address space", "name the networks that are meant, for example 10.0.0.0/8"
		case p != p.Masked():
			return "has bits behind its mask", "write " + p.Masked().String()
		}
		return "", ""
	})
}

func (v *validator) sink() {
	k := &v.s.Sink
	if !slices.Contains([]string{SinkSQLite, SinkElastic, SinkFiles, SinkNone}, k.Kind) {
		v.refuse("sink.kind", -1, k.Kind, "is no sink", "choose sqlite, elastic, files or none")
	}
	if (k.Index != "" || v.s.from.has("sink.index")) && !indexForm.MatchString(k.Index) {
		v.refuse("sink.index", -1, k.Index, "is no index name", "use a-z, 0-9, dashes and underscores, at most 100")
	}
	if len(v.s.Document.Fields) == 0 {
		v.refuse("document.fields", -1, "", "is empty", "leave it out for all fields, or choose sink.kind none")
	}
	v.listed("document.fields", v.s.Document.Fields, func(f string) (what, remedy string) {
		if !slices.Contains(Fields, f) {
			return "is no field", "choose from " + strings.Join(Fields, ", ")
		}
		return "", ""
	})
}

// whole bounds the spec as the record that it becomes.
func (v *validator) whole() {
	b, err := v.s.Encode()
	if err != nil {
		v.refuse("", -1, "", "the spec cannot be encoded: "+err.Error(), "")
		return
	}
	if len(b) > maxEncoded {
		v.refuse("seeds", -1, "", fmt.Sprintf("the spec has %d bytes with its seeds", len(b)), fmt.Sprintf("at most %d; use a sitemap, or starter add-seeds", maxEncoded))
	}
}

// webURL is what validation needs to know of a URL.
type webURL struct {
	canonical string // without fragment
	host      string // host, with the port if it is not the scheme's
	hostname  string
}

// parseURL reads an absolute http or https URL as browsers do.
func parseURL(raw string) (webURL, error) {
	if len(raw) > maxURL {
		return webURL{}, fmt.Errorf("is longer than %d bytes", maxURL)
	}
	u, err := whatwg.Parse(raw)
	if err != nil {
		return webURL{}, errors.New("is no URL")
	}
	if s := u.Scheme(); s != "http" && s != "https" {
		return webURL{}, fmt.Errorf("has the scheme %s, not http or https", clip(s))
	}
	if u.Hostname() == "" {
		return webURL{}, errors.New("has no host")
	}
	if u.Username() != "" || u.Password() != "" {
		return webURL{}, errors.New("holds a user name or password")
	}
	return webURL{canonical: u.Href(true), host: u.Host(), hostname: u.Hostname()}, nil
}

func urlRemedy(raw string) string {
	if u, err := parseURL("https://" + raw); err == nil && !strings.Contains(raw, "://") && strings.Contains(u.hostname, ".") {
		return "write https://" + clip(raw)
	}
	return "write an absolute URL, for example https://docs.example.org/"
}

// literal is the address that a host name spells, if it spells one.
func literal(hostname string) netip.Addr {
	if hostname == "localhost" || strings.HasSuffix(hostname, ".localhost") {
		hostname = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(strings.Trim(hostname, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

var privateNetworks = []string{
	"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
	"0.0.0.0/8", "192.0.0.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
	"::1/128", "::/128", "fc00::/7", "fe80::/10", "ff00::/8", "64:ff9b::/96",
}

// privateLiteral names the network of an address that the policy refuses. It
// is a courtesy, so that such a seed is refused at once; the policy itself
// stands where connections are made.
func privateLiteral(hostname string) (network string, ok bool) {
	addr := literal(hostname)
	for _, n := range privateNetworks {
		if netip.MustParsePrefix(n).Contains(addr) {
			return n, true
		}
	}
	return "", false
}

// matcher answers which rule of a scope refuses a seed. Path prefixes and
// include patterns are for links: a crawl may begin at a front page outside.
type matcher struct {
	scope   *Scope
	hosts   map[string]bool
	exclude []*regexp.Regexp
}

func newMatcher(sc *Scope) *matcher {
	m := &matcher{scope: sc, hosts: make(map[string]bool, len(sc.Hosts))}
	for _, h := range sc.Hosts {
		m.hosts[h] = true
	}
	for _, p := range sc.Exclude {
		m.exclude = append(m.exclude, regexp.MustCompile(p))
	}
	return m
}

// refuses names the rule, or answers "" for a seed in scope.
func (m *matcher) refuses(raw string) string {
	u, err := parseURL(raw)
	if err != nil {
		return err.Error()
	}
	if !m.host(u.host) {
		return "its host " + u.host + " is not in scope.hosts"
	}
	matches := func(re *regexp.Regexp) bool { return re.MatchString(u.canonical) }
	if i := slices.IndexFunc(m.exclude, matches); i >= 0 {
		return fmt.Sprintf("scope.exclude %q matches", clip(m.scope.Exclude[i]))
	}
	return ""
}

func (m *matcher) host(h string) bool {
	if m.hosts[h] {
		return true
	}
	for m.scope.Subdomains {
		_, rest, ok := strings.Cut(h, ".")
		if !ok {
			return false
		}
		if m.hosts[rest] {
			return true
		}
		h = rest
	}
	return false
}

// plainCause is the reason without the path, which the problem names already.
func plainCause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
