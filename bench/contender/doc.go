// Package contender holds the crawlers that trawl is measured beside: the raw
// floor (net/http and a tokenizer, nothing else) and plain colly. Each crawls
// one host, or the hosts of a network, from one URL, with its visited set in
// memory, and each can write every page to a file. It refuses to measure, and
// to be polite: it reads no robots.txt and waits for nobody, so it must see
// servers of our own only.
package contender

import (
	"encoding/hex"
	"hash/fnv"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
)

// Parallel is the number of requests at once of every contender.
const Parallel = 16

// Options of a crawl.
type Options struct {
	Root string       // URL that the crawl begins with; only its host is crawled,
	Net  netip.Prefix // or, if it is valid, all hosts that are addresses of this network
	Dir  string       // where each page becomes a file; empty: pages are dropped
}

// Result of a crawl.
type Result struct {
	Pages  int64 `json:"pages"`  // answers received
	Errors int64 `json:"errors"` // requests without a usable answer
}

// fileName of a page: a hash of its URL without the fragment, so that the same
// page fetched again is the same file.
func (o Options) fileName(u *url.URL) string {
	plain := *u
	plain.Fragment, plain.RawFragment = "", ""
	h := fnv.New128a()
	_, _ = h.Write([]byte(plain.String())) // cannot fail
	return filepath.Join(o.Dir, hex.EncodeToString(h.Sum(nil))+".html")
}

// crawls says whether a link of a page at base belongs to the crawl.
func (o Options) crawls(base, link *url.URL) bool {
	if link.Scheme != base.Scheme {
		return false
	}
	if !o.Net.IsValid() {
		return link.Host == base.Host
	}
	addr, err := netip.ParseAddr(link.Hostname())
	return err == nil && o.Net.Contains(addr)
}

func (o Options) store(u *url.URL, body []byte) error {
	if o.Dir == "" {
		return nil
	}
	return os.WriteFile(o.fileName(u), body, 0o600)
}
