package contender

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Raw crawls with net/http and a tokenizer. The first error ends it.
func Raw(ctx context.Context, o Options) (Result, error) {
	root, err := url.Parse(o.Root)
	if err != nil {
		return Result{}, err
	}
	root.Fragment = ""
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	transport := &http.Transport{MaxIdleConnsPerHost: Parallel}
	defer transport.CloseIdleConnections()
	q := newQueue()
	q.add([]string{root.String()})
	var all sync.WaitGroup
	for range Parallel {
		all.Go(func() {
			f := rawFetcher{client: &http.Client{Transport: transport}, options: o}
			if err := f.run(ctx, q); err != nil {
				cancel(err)
				q.close()
			}
		})
	}
	all.Wait()
	return Result{Pages: q.done}, context.Cause(ctx)
}

// rawFetcher is one of the parallel loops; what it holds is its own.
type rawFetcher struct {
	client  *http.Client
	options Options
	body    bytes.Buffer
	links   []string
}

func (f *rawFetcher) run(ctx context.Context, q *queue) error {
	for {
		page, ok := q.next()
		if !ok {
			return nil
		}
		base, err := f.fetch(ctx, page)
		if err != nil {
			return err
		}
		f.collect(base)
		q.add(f.links)
		q.finish()
	}
}

// fetch a page into f.body, and into its file.
func (f *rawFetcher) fetch(ctx context.Context, page string) (*url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	res, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	f.body.Reset()
	if _, err := f.body.ReadFrom(res.Body); err != nil {
		return nil, fmt.Errorf("read %s: %w", page, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", page, res.Status)
	}
	return req.URL, f.options.store(req.URL, f.body.Bytes())
}

// collect the links of f.body into f.links.
func (f *rawFetcher) collect(base *url.URL) {
	f.links = f.links[:0]
	z := html.NewTokenizer(bytes.NewReader(f.body.Bytes()))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			if href, ok := anchor(z); ok {
				f.link(base, href)
			}
		}
	}
}

// anchor answers the href of the tag that z stands on, if it is a link.
func anchor(z *html.Tokenizer) (string, bool) {
	name, more := z.TagName()
	if atom.Lookup(name) != atom.A {
		return "", false
	}
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if string(key) == "href" {
			return string(value), true
		}
	}
	return "", false
}

func (f *rawFetcher) link(base *url.URL, href string) {
	u, err := base.Parse(strings.TrimSpace(href))
	if err != nil || !f.options.crawls(base, u) {
		return
	}
	u.Fragment, u.RawFragment = "", ""
	f.links = append(f.links, u.String())
}

// queue of pages to fetch, with the set of all that were ever in it.
type queue struct {
	mu     sync.Mutex
	ready  sync.Cond
	seen   map[string]struct{}
	todo   []string
	open   int // taken and not finished
	done   int64
	closed bool
}

func newQueue() *queue {
	q := &queue{seen: map[string]struct{}{}}
	q.ready.L = &q.mu
	return q
}

func (q *queue) add(pages []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, page := range pages {
		if _, known := q.seen[page]; known {
			continue
		}
		q.seen[page] = struct{}{}
		q.todo = append(q.todo, page)
		q.ready.Signal()
	}
}

// next waits for a page; false when there will be none any more.
func (q *queue) next() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.todo) == 0 && q.open > 0 && !q.closed {
		q.ready.Wait()
	}
	if q.closed || len(q.todo) == 0 {
		return "", false
	}
	page := q.todo[0]
	q.todo = q.todo[1:]
	q.open++
	return page, true
}

// finish says that a page is done and its links are added.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	q.done++
	if q.open == 0 && len(q.todo) == 0 {
		q.ready.Broadcast()
	}
}

// close lets every next return.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
}
