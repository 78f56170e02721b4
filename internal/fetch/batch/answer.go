package batch

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"trawl/internal/contract"
	"trawl/internal/fetch"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/page"
	"trawl/internal/weburl"
)

// maxHops is the number of redirects at which a locator is refused.
const maxHops = 10

// kept are the headers that a page record carries.
var kept = []string{
	"Content-Type", "Content-Language", "Content-Disposition", "Date", "Etag", "Last-Modified",
	"Cache-Control", "Expires", "Link", "Location", "X-Robots-Tag", "Server",
}

// wants says whether the body of an answer is read. What is no page has no
// body in the topic, unless the spec asks for embedded things, too.
func (p *Plan) wants(path string, status int, head http.Header) bool {
	if status < 200 || status > 299 || p.spec.Scope.Embedded {
		return true
	}
	return isPage(path, head.Get("Content-Type"))
}

func isPage(path, contentType string) bool {
	kind := mediaType(contentType)
	switch {
	case kind == "", strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "/xml"), strings.HasSuffix(kind, "+xml"),
		strings.HasSuffix(kind, "/json"), strings.HasSuffix(kind, "+json"):
		return kind != "image/svg+xml"
	case kind == "application/gzip", kind == "application/x-gzip", kind == "application/octet-stream":
		return isPacked(path)
	}
	return false
}

// isPacked knows a sitemap that is a gzip file, as sitemaps often are.
func isPacked(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return strings.HasSuffix(path, ".xml.gz") || strings.HasSuffix(path, ".txt.gz")
}

// mediaType is the type without parameters, in lower case.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// answered turns an answer that ends its locator into a page record, the
// discovered facts of its links, and the fetched fact.
func (x *run) answered(url string, item *contract.Item, res *fetch.Result) {
	fact := frontier.Fetched{
		URL: url, Round: max(item.Round, 1), Status: res.Status, When: x.job.Now().Add(-res.Duration),
		ETag: res.Header.Get("Etag"), LastModified: res.Header.Get("Last-Modified"), Depth: item.Depth,
		Bytes: int64(len(res.Body)),
	}
	if res.Status == http.StatusNotModified {
		if fact.ETag == "" {
			fact.ETag = item.ETag
		}
		if fact.LastModified == "" {
			fact.LastModified = item.LastModified
		}
		x.state(fact)
		x.count("304", true)
		return
	}
	plain := decoded(res, x.plan.client.PageSize())
	fact.Digest = xxhash.Sum64(plain)
	found := x.links(url, item, res, plain)
	fact.CutDepth = found.cut
	if found.tooFar {
		fact.Status, fact.Refusal = 0, "hops"
	}
	record := x.pageRecord(url, item, res, plain, &fact, found.redirect)
	k, v := fact.Record()
	x.out.put(func(p *parcel) {
		p.addPage(x.pagePlace(url), record)
		x.stateLinks(p, url, found.links, fact.When)
		p.addThen(kafkalog.Record{Key: k, Value: v})
	})
	x.tally(res, fact, found)
}

// tally counts an answer.
func (x *run) tally(res *fetch.Result, fact frontier.Fetched, found *finds) {
	x.tallyLinks(found)
	x.mu.Lock()
	x.result.Bytes += int64(len(res.Body))
	x.mu.Unlock()
	if fact.Refusal != "" {
		x.count("refused:"+fact.Refusal, true)
		return
	}
	x.count(strconv.Itoa(res.Status), true)
}

// tallyLinks counts the links that were not stated, by reason.
func (x *run) tallyLinks(f *finds) {
	x.mu.Lock()
	for reason, n := range f.refused {
		x.result.Outcomes["link:"+reason] += n
	}
	x.mu.Unlock()
}

// decoded is the body without its coding; nil if that cannot be had.
func decoded(res *fetch.Result, limit int64) []byte {
	if res.Plain != nil || res.Encoding == "" || res.Cut {
		return res.Plain
	}
	plain, err := page.Decompress(res.Body, res.Encoding, limit)
	if errors.Is(err, page.ErrCutShort) {
		res.Cut, err = true, nil
	}
	if err != nil {
		return nil
	}
	return plain
}

func (x *run) pagePlace(url string) place {
	return place{x.job.Pages, int(weburl.Hash(url) % uint64(max(x.job.Run.Partitions, 1)))}
}

// values holds the buffers of page records that were acknowledged.
var values = sync.Pool{New: func() any { return new([]byte) }}

func (x *run) pageRecord(url string, item *contract.Item, res *fetch.Result, plain []byte, fact *frontier.Fetched, redirect string) kafkalog.Record {
	p := page.Page{
		URL: url, Round: fact.Round, Status: res.Status, Header: keptHeaders(res.Header), Body: res.Body, ContentEncoding: res.Encoding,
		ContentType: res.Header.Get("Content-Type"), When: fact.When, Duration: res.Duration, Redirect: redirect, Cut: res.Cut,
		Depth: item.Depth, Size: int64(len(plain)), Digest: fact.Digest,
	}
	if res.Remote != nil {
		p.Remote = res.Remote.String()
	}
	buf := *values.Get().(*[]byte)
	if need := len(res.Body) + 2048; cap(buf) < need {
		buf = make([]byte, 0, need+need/8)
	}
	return kafkalog.Record{Key: []byte(url), Value: p.Append(buf[:0])}
}

func keptHeaders(h http.Header) []page.Header {
	out := make([]page.Header, 0, len(kept))
	for _, name := range kept {
		for _, v := range h[name] {
			out = append(out, page.Header{Name: name, Value: v})
		}
	}
	return out
}

// finds is what an answer leads to.
type finds struct {
	links    []link
	refused  map[string]int64 // links outside of the scope, by reason
	cut      bool             // depth cut at least one link
	redirect string           // canonical target
	tooFar   bool             // one redirect too many
}

// link is a locator in scope that was not stated recently.
type link struct {
	url   string
	host  string
	how   string
	mark  mark
	depth int
	hop   int
}

// links collects what the answer leads to.
func (x *run) links(from string, item *contract.Item, res *fetch.Result, plain []byte) *finds {
	f := &finds{}
	base, err := weburl.Parse(from)
	if err != nil {
		return f
	}
	if isRedirect(res.Status) {
		x.redirect(f, base, item, res.Header.Get("Location"))
		return f
	}
	if res.Status < 200 || res.Status > 299 {
		return f
	}
	x.extract(f, base, item, res, plain)
	return f
}

// redirect follows one hop at the same depth.
func (x *run) redirect(f *finds, base weburl.URL, item *contract.Item, location string) {
	if location == "" {
		return
	}
	to, err := base.Resolve(location)
	if err != nil {
		f.refuse("url")
		return
	}
	f.redirect = to.String()
	if item.Hop+1 >= maxHops {
		f.tooFar = true
		return
	}
	x.consider(f, f.redirect, frontier.HowRedirect, item.Depth, item.Hop+1)
}

// consider takes u if it is in scope, not too deep and not stated recently.
func (x *run) consider(f *finds, u, how string, depth, hop int) {
	_, host, _, ok := weburl.Split(u)
	if !ok {
		f.refuse("url")
		return
	}
	if reason := x.plan.scope.CheckString(u, depth); reason != "" {
		f.refuse(reason)
		return
	}
	if x.plan.limit >= 0 && depth > x.plan.limit {
		f.cut = true
		return
	}
	m := mark{weburl.Hash(u) ^ x.gen, int32(depth)}
	if x.runner.recent.has(m.key, m.depth) {
		return
	}
	f.links = append(f.links, link{u, host, how, m, depth, hop})
}

func (f *finds) refuse(reason string) {
	if f.refused == nil {
		f.refused = map[string]int64{}
	}
	f.refused[reason]++
}

// stateLinks adds the discovered facts of the links to the first part of the
// parcel; only inside of outbox.put.
func (x *run) stateLinks(p *parcel, parent string, links []link, when time.Time) {
	for _, l := range links {
		if !x.out.fresh(p, l.mark) {
			continue
		}
		x.stated.Add(1)
		p.addFirst(place{x.job.Frontier, frontier.ShardOf(l.host, x.job.Run.Shards)}, record(frontier.Discovered{
			URL: l.url, Depth: l.depth, Hop: l.hop, Parent: parent, How: l.how, When: when,
		}))
	}
}

// discover states one locator that was not found on a page.
func (x *run) discover(d frontier.Discovered) {
	f := &finds{}
	x.consider(f, d.URL, d.How, d.Depth, d.Hop)
	x.out.put(func(p *parcel) { x.stateLinks(p, d.Parent, f.links, d.When) })
	x.tallyLinks(f)
}
