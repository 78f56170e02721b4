package runner

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Contender is one way to crawl a site.
type Contender struct {
	Name string `json:"name"`
	Web  string `json:"web"` // name of the site
	// Command with {URL} for the root of the site, {DIR} for a fresh directory
	// and {SPEC} for a spec file that names the hosts of the site.
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"` // with the same words
	// Differs are the settings of the command that are not the program's
	// defaults, for a person to judge whether the comparison is fair.
	Differs []string `json:"differs"`
	Workers int      `json:"workers,omitempty"`    // of trawl; 0: not trawl
	Real    bool     `json:"real_kafka,omitempty"` // trawl on the broker of the Maven jars
	Stores  bool     `json:"stores"`               // keeps every page
}

// Names that webs and goals refer to.
const (
	RawStores    = "raw-store"
	CollyStores  = "colly-store"
	collyCut     = "colly-cut-store"
	trawl1       = "trawl-kafka-1w"
	trawlSQLite  = "trawl-kafka+sqlite-1w"
	trawlHosts   = "trawl-kafka-1w-hosts"
	trawlFifty   = "trawl-kafka-1w-fifty"
	trawlReal    = "trawl-kafka-real-1w"
	scrapyDir    = "scrapy-jobdir"
	spiderMemory = "spider-memory"
	spiderDisk   = "spider"
)

const (
	keeps  = "-store: every page becomes a file"
	within = "127.1.0.0/16" // the addresses of all hosts of the site
)

// Contenders that there are for a web; bin is the directory of the programs,
// peers that of the peers.
func Contenders(bin, peers string, w Web) []Contender {
	var list []Contender
	if w.polite == 0 { // the others know no politeness
		list = append(list, alone(bin, w, RawStores, "raw", true), alone(bin, w, "raw", "raw", false),
			alone(bin, w, CollyStores, "colly", true), alone(bin, w, "colly", "colly", false), alone(bin, w, collyCut, "colly-cut", true))
	}
	for _, n := range []int{1, 2, 4} {
		list = append(list, trawl(bin, w, "trawl-kafka-"+strconv.Itoa(n)+"w", n, "none"))
	}
	real := trawl(bin, w, trawlReal, 1, "none")
	real.Real = true
	list = append(list, trawl(bin, w, trawlSQLite, 1, "sqlite"), real)
	if w.Name == busy {
		// The same on two other webs, because goals compare the two.
		for _, on := range [][2]string{{trawlHosts, hosts}, {trawlFifty, fifty}} {
			other, _ := findWeb(on[1]) // it is in the table
			list = append(list, trawl(bin, other, on[0], 1, "none"))
		}
	}
	return append(list, peerList(peers, w)...)
}

// alone is a contender of this repository that is one process.
func alone(bin string, w Web, name, how string, stores bool) Contender {
	c := Contender{Name: name, Web: w.Name, Command: []string{filepath.Join(bin, "contender")}, Stores: stores}
	if stores {
		c.Command = append(c.Command, "-store", "{DIR}")
		c.Differs = append(c.Differs, keeps)
	}
	if w.Hosts > 1 {
		c.Command = append(c.Command, "-net", within)
		c.Differs = append(c.Differs, "-net: all hosts of the site")
	}
	c.Command = append(c.Command, how, "{URL}")
	return c
}

// crawlName of trawl's crawl; the stack is fresh, so it is always the same.
const crawlName = "bench"

func trawl(bin string, w Web, name string, workers int, sink string) Contender {
	c := Contender{Name: name, Web: w.Name, Workers: workers, Stores: true}
	c.Command = []string{filepath.Join(bin, "starter"), "crawl"}
	if !w.seeded { // a URL on the command line takes the place of the seeds of the spec
		c.Command = append(c.Command, "{URL}")
	}
	c.Command = append(c.Command, "--name", crawlName, "--json", "--allow-network", "127.0.0.0/8")
	c.Differs = []string{"--name and --json (for the measurement)", "--allow-network 127.0.0.0/8 (the site is on this machine)"}
	flag := func(why string, words ...string) {
		c.Command = append(c.Command, words...)
		c.Differs = append(c.Differs, strings.Join(words, " ")+why)
	}
	if w.polite == 0 {
		flag("", "--delay", "0")
	}
	switch {
	case w.seeded:
		flag(" (names all hosts of the site, and their first pages as seeds)", "-f", "{SPEC}")
	case w.Hosts > 1:
		flag(" (names all hosts of the site)", "-f", "{SPEC}")
	}
	if sink == "none" {
		flag(" (pages go to Kafka only)", "--sink", "none")
	}
	return c
}

// names of contenders, for a person.
func names(list []Contender) string {
	all := make([]string, len(list))
	for i, x := range list {
		all[i] = x.Name
	}
	return strings.Join(all, ", ")
}

// choose the contenders with these names, in this order.
func choose(list []Contender, wanted []string) ([]Contender, error) {
	var out []Contender
	for _, name := range wanted {
		i := slices.IndexFunc(list, func(x Contender) bool { return x.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no contender %q for this web: want some of %s", name, names(list))
		}
		if slices.ContainsFunc(out, func(x Contender) bool { return x.Name == name }) {
			return nil, fmt.Errorf("contender %q is named twice", name)
		}
		out = append(out, list[i])
	}
	return out, nil
}

// place is what stands for the words of a command.
type place struct{ root, dir, spec string }

func (p place) fill(words []string) []string {
	r := strings.NewReplacer("{URL}", p.root, "{DIR}", p.dir, "{SPEC}", p.spec)
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = r.Replace(w)
	}
	return out
}
