package spec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Bounds on seeds.
const (
	MaxSeeds     = 20_000  // URLs, with those of files
	MaxSeedBytes = 1 << 20 // of all seed files together
	maxSeedLine  = 8 << 10
)

// Version of the program, as the user agent and `starter version` say it. The
// Makefile sets it when linking.
var Version = "0.1.0"

const (
	defaultPageSize   = 8 << 20
	defaultTries      = 3
	defaultHostErrors = 10
	defaultDelay      = Duration(time.Second)

	// fastParallelism is the default of hosts without a delay.
	fastParallelism = 16

	manyShards = 8      // of a crawl that may grow
	smallPages = 10_000 // page limit up to which one shard does
	smallHosts = 4      // and so it does for so many hosts
)

// Finish reads the seed files into Seeds.URLs, fills in every default that
// follows from other keys, and validates. The error is Problems.
func (s *Spec) Finish() error {
	if ps := s.readSeedFiles(); len(ps) > 0 {
		return ps
	}
	s.Seeds.URLs = unique(s.Seeds.URLs)
	s.Seeds.Sitemaps = unique(s.Seeds.Sitemaps)
	s.fill()
	return Problems(s.Validate()).err()
}

func (s *Spec) fill() {
	fillZero(s, "limits.page_size", &s.Limits.PageSize, defaultPageSize)
	fillZero(s, "limits.tries", &s.Limits.Tries, defaultTries)
	fillZero(s, "limits.host_errors", &s.Limits.HostErrors, defaultHostErrors)
	fillZero(s, "politeness.parallelism", &s.Politeness.Parallelism, s.defaultParallelism())
	if s.from.has("politeness.contact") && !s.from.has("politeness.user_agent") {
		s.Politeness.UserAgent = "" // that of a stored spec names the old contact
	}
	fillZero(s, "politeness.user_agent", &s.Politeness.UserAgent, UserAgent(s.Politeness.Contact))
	if s.Scope.Hosts == nil && !s.from.has("scope.hosts") {
		s.Scope.Hosts = s.seedHosts()
	}
	for i, h := range s.Scope.Hosts {
		s.Scope.Hosts[i] = strings.ToLower(strings.TrimSpace(h))
	}
	fillZero(s, "name", &s.Name, s.defaultName())
	fillZero(s, "sink.kind", &s.Sink.Kind, SinkSQLite)
	fillZero(s, "sink.index", &s.Sink.Index, s.Name)
	if len(s.Document.Fields) == 0 && !s.from.has("document.fields") {
		s.Document.Fields = slices.Clone(Fields)
	}
	fillZero(s, "shards", &s.Shards, s.defaultShards())
}

// fillZero sets a key that nobody stated. A stated zero stays, for Validate to
// refuse: it must not turn into something that nobody asked for.
func fillZero[T comparable](s *Spec, key string, at *T, def T) {
	var zero T
	if *at == zero && !s.from.has(key) {
		*at = def
	}
}

// UserAgent is the default User-Agent header.
func UserAgent(contact string) string {
	if contact == "" {
		return "trawl/" + Version
	}
	return "trawl/" + Version + " (+" + contact + ")"
}

func (s *Spec) defaultParallelism() int {
	if s.Politeness.Delay == 0 {
		return fastParallelism
	}
	return 1
}

// defaultShards: a crawl that is known to stay small folds in one place.
func (s *Spec) defaultShards() int {
	small := s.Limits.Pages > 0 && s.Limits.Pages <= smallPages
	few := len(s.Scope.Hosts) <= smallHosts && !s.Scope.Subdomains
	if small || few {
		return 1
	}
	return manyShards
}

// seedHosts are the hosts of seeds and sitemaps, in their order.
func (s *Spec) seedHosts() []string {
	var hosts []string
	seen := map[string]bool{}
	for _, raw := range slices.Concat(s.Seeds.URLs, s.Seeds.Sitemaps) {
		u, err := parseURL(raw)
		if err != nil || seen[u.host] {
			continue
		}
		seen[u.host] = true
		hosts = append(hosts, u.host)
	}
	return hosts
}

// defaultName makes a name of the first seed's host.
func (s *Spec) defaultName() string {
	for _, raw := range slices.Concat(s.Seeds.URLs, s.Seeds.Sitemaps) {
		if u, err := parseURL(raw); err == nil {
			return NameOf(u.host)
		}
	}
	return ""
}

// maxName is the greatest length of a crawl's name.
const maxName = 63

// NameOf is the default name for a host: docs.example.org:8080 gives
// docs-example-org-8080.
func NameOf(host string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(host) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := b.String()
	return strings.TrimRight(name[:min(len(name), maxName)], "-")
}

// unique drops repeated and blank entries and keeps the order.
func unique(in []string) []string {
	seen := make(map[string]bool, len(in))
	var out []string
	for _, v := range in {
		v = strings.TrimSpace(v)
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// readSeedFiles moves the URLs of all seed files into Seeds.URLs.
func (s *Spec) readSeedFiles() Problems {
	var ps Problems
	left := int64(MaxSeedBytes)
	for i, name := range s.Seeds.Files {
		data, err := readBounded(name, left, "name a file with one URL per line",
			"makes the seed files larger than "+FormatSize(MaxSeedBytes)+"; use a sitemap, or starter add-seeds")
		if err != nil {
			ps = append(ps, s.problem("seeds.files", i, name, err.Error(), ""))
			continue
		}
		left -= int64(len(data))
		ps = append(ps, s.seedLines(name, data)...)
	}
	s.Seeds.Files = nil
	return ps
}

// readBounded reads a regular file of at most so many bytes; remedy and large
// say what to do about one that is not there or larger.
func readBounded(name string, most int64, remedy, large string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read (%s); %s", plainCause(err), remedy)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("is not a regular file; %s", remedy)
	case info.Size() > most:
		return nil, errors.New(large)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read (%s)", plainCause(err))
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("grew while it was read; try again")
	}
	return data, nil
}

// seedLines adds the URLs of one file and remembers the line of each.
func (s *Spec) seedLines(name string, data []byte) Problems {
	sc := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	sc.Buffer(nil, maxSeedLine)
	line := 0
	for sc.Scan() {
		line++
		url := strings.TrimSpace(sc.Text())
		if url == "" || strings.HasPrefix(url, "#") {
			continue
		}
		if _, err := parseURL(url); err != nil {
			return Problems{{File: name, Line: line, Key: "seeds.files", Value: url, What: err.Error(), Remedy: urlRemedy(url)}}
		}
		s.Seeds.URLs = append(s.Seeds.URLs, url)
		if len(s.Seeds.URLs) > MaxSeeds {
			return Problems{{File: name, Line: line, Key: "seeds.files", What: fmt.Sprintf("is seed number %d", MaxSeeds+1), Remedy: fmt.Sprintf("at most %d seeds start a crawl; use a sitemap, or starter add-seeds", MaxSeeds)}}
		}
	}
	if sc.Err() != nil {
		return Problems{{File: name, Line: line + 1, Key: "seeds.files", What: fmt.Sprintf("the line is longer than %d bytes", maxSeedLine), Remedy: "write one URL per line"}}
	}
	return nil
}

// SeedURLs reads the seed files and checks every seed URL, and nothing else:
// for seeds that come after the start. The error is Problems.
func (s *Spec) SeedURLs() ([]string, error) {
	if ps := s.readSeedFiles(); len(ps) > 0 {
		return nil, ps
	}
	s.Seeds.URLs = unique(s.Seeds.URLs)
	v := &validator{s: s}
	if len(s.Seeds.URLs) == 0 {
		v.refuse("seeds", -1, "", "there is no seed", "name at least one URL, for example https://docs.example.org/")
	}
	for i, raw := range s.Seeds.URLs {
		if _, err := parseURL(raw); err != nil {
			v.refuse("seeds.urls", i, raw, err.Error(), urlRemedy(raw))
		}
	}
	return s.Seeds.URLs, Problems(v.ps).err()
}
