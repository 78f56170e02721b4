package stack

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
)

// Namespace that the stack registers and the product uses by default.
const Namespace = "default"

// Retention is how long Temporal keeps a closed workflow in that namespace.
const Retention = 7 * 24 * time.Hour

// SearchAttributes that the product sets on its workflows, by name. This table
// is the only list of them; whoever sets up another Temporal server registers
// the same, as docker-compose.yml does:
//
//	temporal operator search-attribute create --namespace default \
//	  --name TrawlCrawl      --type Keyword \
//	  --name TrawlState      --type Keyword \
//	  --name TrawlOutcome    --type Keyword \
//	  --name TrawlErrorClass --type Int \
//	  --name TrawlPages      --type Int
//
// An entry may be added at any time: a start registers what a data directory
// does not have yet. A type never changes.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		"TrawlCrawl":      enumspb.INDEXED_VALUE_TYPE_KEYWORD, // name of the crawl or load
		"TrawlState":      enumspb.INDEXED_VALUE_TYPE_KEYWORD, // what the workflow is doing
		"TrawlOutcome":    enumspb.INDEXED_VALUE_TYPE_KEYWORD, // how it ended
		"TrawlErrorClass": enumspb.INDEXED_VALUE_TYPE_INT,     // class of the last error of a loader
		"TrawlPages":      enumspb.INDEXED_VALUE_TYPE_INT,     // pages fetched so far
	}
}
