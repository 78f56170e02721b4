package batch

import (
	"sync"

	"trawl/internal/contract"
	"trawl/internal/fetch"
	"trawl/internal/frontier"
	"trawl/internal/links"
	"trawl/internal/weburl"
)

// lists holds the slices that links are collected in.
var lists = sync.Pool{New: func() any { return new([]links.Found) }}

// extract collects the links of a page, its Link headers included. A nofollow
// of the headers speaks for the whole page, as one in the page does.
func (x *run) extract(f *finds, base weburl.URL, item *contract.Item, res *fetch.Result, plain []byte) {
	list := lists.Get().(*[]links.Found)
	defer func() {
		clear(*list) // lets go of the strings
		*list = (*list)[:0]
		lists.Put(list)
	}()
	opt := links.Options{Embedded: x.plan.spec.Scope.Embedded, Limit: x.plan.client.PageSize()}
	if depth := item.Depth + 1; x.plan.limit < 0 || depth <= x.plan.limit {
		// What was stated recently is in scope; without a string made for it.
		opt.Known = func(hash uint64, kind links.Kind) bool {
			return kind != links.KindSitemap && kind != links.KindRedirect && x.runner.recent.has(hash^x.gen, int32(depth))
		}
	}
	found, meta := links.Headers(*list, base, res.Header, opt)
	if !meta.Nofollow {
		found, _, _ = links.Find(found, base, plain, res.Header.Get("Content-Type"), isPacked(item.Path), opt)
	}
	*list = found
	for i := range found {
		switch l := &found[i]; l.Kind {
		case links.KindRedirect: // not an answer that moves
		case links.KindSitemap:
			x.nested(f, l.URL, item)
		default:
			x.consider(f, l.URL, l.How, item.Depth+1, 0)
		}
	}
}

// nested takes a sitemap that a sitemap index names: at the index's depth, so
// that its entries are as deep as those of a plain sitemap. It counts hops, so
// that indexes of indexes end.
func (x *run) nested(f *finds, url string, item *contract.Item) {
	if item.Hop+1 >= maxHops {
		f.refuse("hops")
		return
	}
	x.consider(f, url, frontier.HowSitemap, item.Depth, item.Hop+1)
}
