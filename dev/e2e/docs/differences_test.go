//go:build e2edocs

package docs

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// difference is a set of URIs of which two lists differ, and why that is right.
type difference struct {
	match *regexp.Regexp // of the URI
	why   string
}

// wgetOnly is asked for by wget and not by trawl.
var wgetOnly = []difference{
	{
		regexp.MustCompile(`^/(_static/|_images/)?[^/?]+\.(css|js|png|svg)(\?.*)?$`),
		"wget -r takes what a page embeds (styles, scripts, images); trawl takes it with --embedded only",
	},
}

// trawlOnly is asked for by trawl and not by wget.
var trawlOnly []difference

// noDocuments are answered 200, and are in no index.
var noDocuments = []difference{
	{
		regexp.MustCompile(`^/_static/opensearch\.xml$`),
		"linked by rel=search, so it is a locator; it is XML for browsers, no text",
	},
}

// otherDocuments are in the index and no HTML.
var otherDocuments = []difference{
	{
		regexp.MustCompile(`^/_downloads/[0-9a-f]+/tzinfo_examples\.py$`),
		"an example linked by <a>; its type is text/x-python, and text is a document",
	},
}

// explain fails for every URI that no row explains, and for every row that
// explains nothing any more.
func explain(t *testing.T, what string, uris []string, rows []difference) {
	t.Helper()
	used := make([]int, len(rows))
	for _, uri := range uris {
		i := slices.IndexFunc(rows, func(d difference) bool { return d.match.MatchString(uri) })
		if i < 0 {
			t.Errorf("%s: %s, and nothing explains it", what, uri)
			continue
		}
		used[i]++
	}
	for i, d := range rows {
		if used[i] == 0 {
			t.Errorf("%s: no URI is like %s any more: remove the row", what, d.match)
			continue
		}
		t.Logf("%s: %d URIs like %s: %s", what, used[i], d.match, d.why)
	}
}

// missing are the keys of a that are not in b, sorted.
func missing[A, B any](a map[string]A, b map[string]B) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if _, there := b[key]; !there {
			out = append(out, key)
		}
	}
	return out
}
