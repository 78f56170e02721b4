package contender

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/gocolly/colly/v2"
)

// Colly crawls as colly's own examples do: asynchronous, one limit rule, a
// callback for links that visits them, everything else as it comes. It takes two
// fragments of a page for two pages, and requests it again for each.
func Colly(ctx context.Context, o Options) (Result, error) {
	return crawlByColly(ctx, o, func(link string) string { return link })
}

// CollyCut is Colly by somebody who knows that: fragments are cut off before it
// sees a link.
func CollyCut(ctx context.Context, o Options) (Result, error) {
	return crawlByColly(ctx, o, func(link string) string {
		page, _, _ := strings.Cut(link, "#")
		return page
	})
}

func crawlByColly(ctx context.Context, o Options, page func(link string) string) (Result, error) {
	root, err := url.Parse(o.Root)
	if err != nil {
		return Result{}, err
	}
	c := colly.NewCollector(colly.Async(true), colly.StdlibContext(ctx))
	if o.Net.IsValid() {
		c.OnRequest(func(r *colly.Request) {
			if !o.crawls(root, r.URL) {
				r.Abort()
			}
		})
	} else {
		c.AllowedDomains = []string{root.Hostname()}
	}
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: Parallel}); err != nil {
		return Result{}, err
	}
	var pages, failed atomic.Int64
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		_ = e.Request.Visit(page(e.Attr("href"))) // already visited, mostly; failures come to OnError
	})
	c.OnResponse(func(r *colly.Response) {
		pages.Add(1)
		if o.store(r.Request.URL, r.Body) != nil {
			failed.Add(1)
		}
	})
	c.OnError(func(*colly.Response, error) { failed.Add(1) })
	if err := c.Visit(o.Root); err != nil {
		return Result{}, err
	}
	c.Wait()
	return Result{Pages: pages.Load(), Errors: failed.Load()}, ctx.Err()
}
