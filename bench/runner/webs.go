package runner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Web is a site to crawl.
type Web struct {
	Name  string `json:"name"`
	Hosts int    `json:"hosts"`
	Pages int    `json:"pages"` // of all hosts together
	Links int    `json:"links"`
	Size  int    `json:"size"` // bytes of a page, on average

	flags  []string      // more of the site server
	polite time.Duration // delay of its hosts; 0: none, and none is kept
	seeded bool          // the spec names the first page of every host as a seed
	heap   bool          // the heap of the workers is sampled
	rounds int
	limit  time.Duration // of one run
	runs   []string      // contenders, if none are named
}

// Names of webs that contenders or goals refer to.
const (
	busy  = "busy"
	hosts = "hosts"
	fifty = "fifty"
)

// webs that there are. The first is the one that is crawled if none is named.
func webs() []Web {
	const page = 20_000
	usual := []string{RawStores, trawl1}
	polite := Web{
		Name: "polite", Hosts: 2000, Pages: 80_000, Links: 40, Size: page, rounds: 1, limit: 10 * time.Minute,
		polite: time.Second, flags: []string{"-crawl-delay", "1s", "-heavy-tail"}, runs: []string{trawl1},
	}
	seeded := polite
	seeded.Name, seeded.seeded = "polite-seeds", true
	return []Web{
		{Name: busy, Hosts: 1, Pages: 20_000, Links: 40, Size: page, rounds: 3, limit: 5 * time.Minute, runs: []string{
			RawStores, "raw", CollyStores, "colly", collyCut, trawl1, "trawl-kafka-2w", "trawl-kafka-4w", trawlSQLite, trawlHosts, trawlFifty,
		}},
		{Name: hosts, Hosts: 1000, Pages: 20_000, Links: 40, Size: page, rounds: 3, limit: 5 * time.Minute, runs: usual},
		{Name: fifty, Hosts: 1, Pages: 50, Links: 40, Size: page, rounds: 3, limit: time.Minute, runs: []string{trawl1}},
		polite, seeded,
		{Name: "small", Hosts: 1, Pages: 200_000, Links: 40, Size: 2000, rounds: 1, limit: 30 * time.Minute, heap: true, runs: []string{trawl1}},
		{Name: "large", Hosts: 1, Pages: 3000, Links: 40, Size: 200_000, rounds: 3, limit: 5 * time.Minute, runs: usual},
		{
			Name: "duplicates", Hosts: 1, Pages: 20_000, Links: 200, Size: page, rounds: 3, limit: 5 * time.Minute,
			flags: []string{"-spellings", "500", "-copies", "500"}, runs: usual,
		},
	}
}

// WebNames lists the webs for a person.
func WebNames() string {
	var names []string
	for _, w := range webs() {
		names = append(names, w.Name)
	}
	return strings.Join(names, ", ")
}

func findWeb(name string) (Web, error) {
	all := webs()
	i := slices.IndexFunc(all, func(w Web) bool { return w.Name == name })
	if name == "" {
		i = 0
	}
	if i < 0 {
		return Web{}, fmt.Errorf("there is no web %q: want one of %s", name, WebNames())
	}
	return all[i], nil
}

// roomForOthers is how many requests the log of the site keeps beyond one for
// each page: robots.txt, and pages that are fetched again.
const roomForOthers = 1 << 14

// argv of the site server.
func (w Web) argv(program string) []string {
	hosts := max(min(w.Hosts, w.Pages), 1)
	perHost := (w.Pages + hosts - 1) / hosts
	argv := []string{
		program, "-hosts", strconv.Itoa(hosts), "-pages", strconv.Itoa(perHost),
		"-links", strconv.Itoa(w.Links), "-size", strconv.Itoa(w.Size),
	}
	if w.polite > 0 || w.heap { // the log is read one by one
		argv = append(argv, "-entries", strconv.Itoa(hosts*(perHost+1)+roomForOthers))
	}
	return append(argv, w.flags...)
}
