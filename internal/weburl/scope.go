package weburl

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"trawl/internal/spec"
)

// Why a scope refuses a locator: a closed list, empty means allowed.
const (
	RefusedHost    = "host"
	RefusedPath    = "path"
	RefusedInclude = "include"
	RefusedExclude = "exclude"
)

// Bounds of a scope: it is checked for every link.
const (
	maxScopeHosts    = 10_000
	maxScopePatterns = 100
	maxPatternLen    = 1000
)

// ErrEmptyScope says that no host is in the scope.
var ErrEmptyScope = errors.New("scope.hosts is empty and no seed has a host: name a seed URL or a host")

// Scope is a compiled spec.Scope. It is immutable and safe for concurrent use.
type Scope struct {
	hosts      map[string]struct{}
	subdomains bool
	prefixes   []string
	include    []*regexp.Regexp
	exclude    []*regexp.Regexp
	defaulted  bool // hosts are the seeds'
}

// NewScope compiles a scope. Without hosts the seeds' hosts are its hosts.
// Errors name the key and the value.
func NewScope(sc spec.Scope, seeds []string) (*Scope, error) {
	s := &Scope{hosts: map[string]struct{}{}, subdomains: sc.Subdomains}
	if err := s.addHosts(sc.Hosts, seeds); err != nil {
		return nil, err
	}
	var err error
	if s.prefixes, err = compilePrefixes(sc.PathPrefixes); err != nil {
		return nil, err
	}
	if s.include, err = compilePatterns("scope.include", sc.Include); err != nil {
		return nil, err
	}
	if s.exclude, err = compilePatterns("scope.exclude", sc.Exclude); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Scope) addHosts(hosts, seeds []string) error {
	if len(hosts) > maxScopeHosts {
		return fmt.Errorf("scope.hosts has %d entries: at most %d", len(hosts), maxScopeHosts)
	}
	for _, h := range hosts {
		key, err := HostKey(h)
		if err != nil {
			return fmt.Errorf("scope.hosts: %w", err)
		}
		s.hosts[key] = struct{}{}
	}
	if len(hosts) > 0 {
		return nil
	}
	s.defaulted = true
	for _, seed := range seeds {
		u, err := Parse(seed)
		if err != nil {
			return fmt.Errorf("seeds: %w", err)
		}
		s.hosts[u.Host()] = struct{}{}
	}
	if len(s.hosts) == 0 {
		return ErrEmptyScope
	}
	return nil
}

// HostKey reads host[:port] as people write it and gives the politeness key.
// The default ports of http and https are dropped.
func HostKey(h string) (string, error) {
	h = strings.TrimSpace(h)
	if i := strings.IndexAny(h, "/?#@\\*"); i >= 0 {
		return "", fmt.Errorf("host %q: %q does not belong in host[:port] (for all hosts below one set scope.subdomains)", h, h[i])
	}
	u, err := Parse("https://" + h + "/")
	if err != nil {
		return "", fmt.Errorf("host %q: want host or host:port: %w", h, err)
	}
	return strings.TrimSuffix(u.Host(), ":80"), nil
}

func compilePrefixes(prefixes []string) ([]string, error) {
	if len(prefixes) > maxScopePatterns {
		return nil, fmt.Errorf("scope.path_prefixes has %d entries: at most %d", len(prefixes), maxScopePatterns)
	}
	var out []string
	for _, p := range prefixes {
		if !strings.HasPrefix(p, "/") {
			return nil, fmt.Errorf("scope.path_prefixes: %q must begin with /", p)
		}
		u, err := Parse("http://x" + p)
		if err != nil {
			return nil, fmt.Errorf("scope.path_prefixes: %q: %w", p, err)
		}
		out = append(out, u.Path())
	}
	return out, nil
}

func compilePatterns(key string, patterns []string) ([]*regexp.Regexp, error) {
	if len(patterns) > maxScopePatterns {
		return nil, fmt.Errorf("%s has %d entries: at most %d", key, len(patterns), maxScopePatterns)
	}
	var out []*regexp.Regexp
	for _, p := range patterns {
		if p == "" || len(p) > maxPatternLen {
			return nil, fmt.Errorf("%s: %.60q has %d bytes: want 1 to %d", key, p, len(p), maxPatternLen)
		}
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no RE2 regular expression: %w", key, p, err)
		}
		out = append(out, re)
	}
	return out, nil
}

// Hosts is the number of hosts named, subdomains not counted.
func (s *Scope) Hosts() int { return len(s.hosts) }

// Check answers "" if u belongs to the crawl, else one of the refusals. depth
// is that of the locator: a seed (depth 0, also behind a redirect) is where the
// crawl enters, so path_prefixes and include, which choose links, do not bind
// it; hosts and exclude do.
func (s *Scope) Check(u URL, depth int) (refusal string) {
	refusal, _ = s.refuses(u.s, u.Host(), u.Path(), depth)
	return refusal
}

// CheckString is Check for a string that is canonical already; any other is
// refused as "host".
func (s *Scope) CheckString(canonical string, depth int) (refusal string) {
	_, host, path, ok := Split(canonical)
	if !ok {
		return RefusedHost
	}
	refusal, _ = s.refuses(canonical, host, path, depth)
	return refusal
}

// Explain names the rule of the spec that refuses the link u, "" if none does.
// u need not be canonical.
func (s *Scope) Explain(u string) string {
	c, err := Parse(u)
	if err != nil {
		return err.Error()
	}
	switch refusal, n := s.refuses(c.s, c.Host(), c.Path(), 1); refusal {
	case RefusedHost:
		return s.explainHost(c.Host())
	case RefusedPath:
		return fmt.Sprintf("scope.path_prefixes: %q begins with none of %q", c.Path(), s.prefixes)
	case RefusedInclude:
		return fmt.Sprintf("scope.include: none of its %d patterns matches", len(s.include))
	case RefusedExclude:
		return fmt.Sprintf("scope.exclude[%d]: %q matches", n, s.exclude[n])
	}
	return ""
}

func (s *Scope) explainHost(host string) string {
	key := "scope.hosts"
	if s.defaulted {
		key = "scope.hosts (by default the seeds' hosts)"
	}
	if s.subdomains {
		return fmt.Sprintf("%s: %q is none of them nor below one", key, host)
	}
	if s.below(host) {
		return fmt.Sprintf("%s: %q is below one of them, and scope.subdomains is off", key, host)
	}
	return fmt.Sprintf("%s: %q is none of them", key, host)
}

// refuses gives the refusal and, for exclude, the index of the pattern.
func (s *Scope) refuses(u, host, path string, depth int) (string, int) {
	if _, ok := s.hosts[host]; !ok && !(s.subdomains && s.below(host)) {
		return RefusedHost, 0
	}
	if depth > 0 && len(s.prefixes) > 0 && !hasAnyPrefix(path, s.prefixes) {
		return RefusedPath, 0
	}
	for i, re := range s.exclude {
		if re.MatchString(u) {
			return RefusedExclude, i
		}
	}
	if depth > 0 && len(s.include) > 0 && !matchAny(u, s.include) {
		return RefusedInclude, 0
	}
	return "", 0
}

// below tells whether host is a subdomain of a host in the scope, with the
// same port.
func (s *Scope) below(host string) bool {
	for {
		i := strings.IndexByte(host, '.')
		if i < 0 {
			return false
		}
		host = host[i+1:]
		if _, ok := s.hosts[host]; ok {
			return !isIPv4(hostname(host))
		}
	}
}

func hostname(key string) string {
	if i := strings.LastIndexByte(key, ':'); i >= 0 && !strings.HasSuffix(key, "]") {
		return key[:i]
	}
	return key
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func matchAny(s string, res []*regexp.Regexp) bool {
	for _, re := range res {
		if re.MatchString(s) {
			return true
		}
	}
	return false
}
