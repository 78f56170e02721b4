package batch

import (
	"strings"
	"time"

	"trawl/internal/fetch"
	"trawl/internal/spec"
	"trawl/internal/weburl"
)

// Plan is a spec, compiled once for all Fetches of a worker that use it. It is
// safe for concurrent use.
type Plan struct {
	spec   *spec.Spec
	scope  *weburl.Scope
	client *fetch.Client
	agent  string // product token for robots.txt
	delay  time.Duration
	limit  int // of depth; -1: none
}

// NewPlan compiles s. Of o it sets the user agent, the address policy and the
// page size; the rest is the caller's. Errors name the key and the value.
func NewPlan(s *spec.Spec, o fetch.Options) (*Plan, error) {
	policy, err := fetch.NewPolicy(s.AllowNetworks)
	if err != nil {
		return nil, err
	}
	scope, err := weburl.NewScope(s.Scope, append(append([]string(nil), s.Seeds.URLs...), s.Seeds.Sitemaps...))
	if err != nil {
		return nil, err
	}
	o.Policy, o.PageSize = policy, s.Limits.PageSize
	o.UserAgent = userAgent(s.Politeness)
	return &Plan{
		spec: s, scope: scope, client: fetch.New(o), agent: product(s.Politeness.UserAgent),
		delay: time.Duration(s.Politeness.Delay), limit: s.Scope.Depth,
	}, nil
}

// Client is the plan's client.
func (p *Plan) Client() *fetch.Client { return p.client }

// Close closes the plan's idle connections.
func (p *Plan) Close() { p.client.Close() }

// userAgent is what sites see: the agent, and where to complain.
func userAgent(p spec.Politeness) string {
	agent := p.UserAgent
	if agent == "" {
		agent = "trawl"
	}
	if p.Contact != "" && !strings.Contains(agent, p.Contact) {
		agent += " (+" + p.Contact + ")"
	}
	return agent
}

// product is the part of the user agent that robots.txt groups name.
func product(agent string) string {
	if agent == "" {
		agent = "trawl"
	}
	if i := strings.IndexAny(agent, "/ ("); i > 0 {
		agent = agent[:i]
	}
	return agent
}
