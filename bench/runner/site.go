package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// site is the site server, by its control address.
type site struct {
	Root    string `json:"root"`
	Control string `json:"control"`
	Web     Web    `json:"-"`
	client  *http.Client
	process *process
}

// siteTime bounds an answer of the control address, which may have to count
// the links of a million pages.
const siteTime = 2 * time.Minute

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

// startSite starts the site server of a web and answers when it listens.
func startSite(ctx context.Context, bin string, w Web) (site, error) {
	s := site{Web: w, client: &http.Client{Timeout: siteTime}}
	p, err := program{name: "webserver", argv: w.argv(filepath.Join(bin, "webserver"))}.start(ctx)
	if err != nil {
		return s, err
	}
	s.process = p
	line, err := p.waitLine(ctx, `"control"`)
	if err == nil {
		err = json.Unmarshal([]byte(line), &s)
	}
	if err != nil {
		_ = p.stop() // the first error says more
	}
	return s, err
}

func (s site) stop() error { return s.process.stop() }

// pids of the site server.
func (s site) pids() []int {
	if s.process == nil {
		return nil
	}
	return []int{s.process.pid()}
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

// spec names the hosts of the site, which are too many for a command line.
type spec struct {
	Scope struct {
		Hosts []string `yaml:"hosts"`
	} `yaml:"scope"`
	Seeds struct {
		URLs []string `yaml:"urls,omitempty"`
	} `yaml:"seeds,omitempty"`
}

// writeSpec writes the spec file of the site; one host needs none.
func (s site) writeSpec(ctx context.Context, path string) error {
	if s.Web.Hosts < 2 {
		return nil
	}
	var f spec
	if err := s.call(ctx, http.MethodGet, "/__hosts", &f.Scope.Hosts); err != nil {
		return err
	}
	if s.Web.seeded {
		for _, host := range f.Scope.Hosts {
			f.Seeds.URLs = append(f.Seeds.URLs, "http://"+host+"/")
		}
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// Ideal is how close a crawl came to what politeness allows: requests made,
// and requests that were possible while hosts had work.
type Ideal struct {
	Requests int     `json:"requests"`
	Possible float64 `json:"possible"`
	Seconds  float64 `json:"seconds"` // from the first request to the last
	Share    float64 `json:"share"`
}

func (s site) ideal(ctx context.Context) (*Ideal, error) {
	var i Ideal
	err := s.call(ctx, http.MethodGet, "/__ideal?delay="+s.Web.polite.String()+"&seeded="+strconv.FormatBool(s.Web.seeded), &i)
	return &i, err
}

// known answers how many pages were known to a crawler when so many were done.
func (s site) known(ctx context.Context) ([]knownPages, error) {
	var all []knownPages
	err := s.call(ctx, http.MethodGet, "/__progress?points="+strconv.Itoa(knownPoints), &all)
	return all, err
}

// knownPoints of a crawl are enough to look up samples of it.
const knownPoints = 10_000

type knownPages struct{ Pages, Known int64 }
