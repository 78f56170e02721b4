package samplesite

import (
	"maps"
	"net/http"
	"slices"
)

// Kind is how a locator must end.
type Kind string

// The kinds of end.
const (
	Fetched Kind = "fetched" // the site answered
	Refused Kind = "refused" // known, and refused with a reason
	Unknown Kind = "unknown" // out of scope: never stated as a locator, and not requested
)

// Expectation is what a crawl from "/" with default limits must make of one
// URL of the site.
type Expectation struct {
	URL    string
	Kind   Kind
	Status int    // of a fetched one
	Reason string // of a refused one
	// Document says that it is loaded as a document.
	Document bool
	// Requests the site must have counted after one undisturbed crawl.
	Requests int
}

// Expected is the table of all URLs of the site, in order, for a site served
// at base ("http://host:port", without a slash at its end). robots.txt is not
// among them: it is no locator.
func (s *Site) Expected(base, offSite string) []Expectation {
	var out []Expectation
	for _, path := range slices.Sorted(maps.Keys(s.pages)) {
		e := Expectation{URL: base + path, Kind: Fetched, Status: s.pages[path].status, Requests: 1}
		e.Document = e.Status == http.StatusOK
		if path == "/harbour-office/private/ledger" {
			e = Expectation{URL: base + path, Kind: Refused, Reason: "robots"}
		}
		out = append(out, e)
	}
	return append(out,
		Expectation{URL: base + "/notices/never-written", Kind: Fetched, Status: http.StatusNotFound, Requests: 1},
		Expectation{URL: base + "/sitemap.xml", Kind: Fetched, Status: http.StatusOK, Requests: 1},
		Expectation{URL: offSite, Kind: Unknown},
	)
}
