package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// site is the site server, by its control address.
type site struct {
	Root    string `json:"root"`
	Control string `json:"control"`
	client  *http.Client
}

// SiteLog is what the site saw during a run, and what it should have seen.
type SiteLog struct {
	Pages      int64         `json:"pages"`      // requests of pages
	Distinct   int64         `json:"distinct"`   // different pages requested
	Duplicates int64         `json:"duplicates"` // requests beyond the first of each page
	Unknown    int64         `json:"unknown"`    // requests of what is no page
	Status     map[int]int64 `json:"status"`     // requests by status
	Active     int64         `json:"active"`     // requests still under way

	Reachable int64    // pages that a crawl from the root requests
	Missing   []string // of those, not requested; the first hundred
	Extra     []string // requested, but not to be reached; the first hundred
}

// startSite starts the site server and answers when it listens.
func startSite(ctx context.Context, argv []string) (*process, site, error) {
	p, err := program{name: "webserver", argv: argv}.start(ctx)
	if err != nil {
		return nil, site{}, err
	}
	s := site{client: &http.Client{Timeout: time.Minute}}
	line, err := p.waitLine(ctx, `"control"`)
	if err == nil {
		err = json.Unmarshal([]byte(line), &s)
	}
	if err != nil {
		_ = p.stop() // the first error says more
		return nil, site{}, err
	}
	return p, s, nil
}

func (s site) call(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.Control+path, nil)
	if err != nil {
		return err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: the site answered %s", method, path, res.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(into)
}

func (s site) reset(ctx context.Context) error {
	return s.call(ctx, http.MethodPost, "/__log/reset", nil)
}

// log of the run since the last reset.
func (s site) log(ctx context.Context) (SiteLog, error) {
	var l SiteLog
	if err := s.call(ctx, http.MethodGet, "/__log", &l); err != nil {
		return l, err
	}
	var r struct {
		Requested      int64
		Missing, Extra []string
	}
	if err := s.call(ctx, http.MethodGet, "/__reach", &r); err != nil {
		return l, err
	}
	l.Reachable, l.Missing, l.Extra = r.Requested, r.Missing, r.Extra
	return l, nil
}
