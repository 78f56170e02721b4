// Package samplesite is a small web site of our own words, bundled for the
// demonstration and the end-to-end tests: some dozens of pages of a harbour
// handbook, and on purpose one of each trouble that real sites have. It owns
// the pages and the table of what a crawl must make of them. It refuses to
// listen (give Handler to a server) and to know anything of the crawler.
package samplesite

import (
	_ "embed"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/encoding/charmap"
)

//go:embed pages.txt
var pagesText string

// SlowFor is how long the slow page takes.
const SlowFor = 1500 * time.Millisecond

// page is one answer of the site.
type page struct {
	status      int
	contentType string
	location    string
	body        []byte
	wait        time.Duration
}

// Site is the sample site with a count of what was requested. It is safe for
// concurrent use.
type Site struct {
	pages map[string]page

	mu   sync.Mutex
	hits map[string]int
}

// New builds the site. offSite is an absolute URL on another host that one
// page links to, and that a crawl of this site must not request.
func New(offSite string) *Site {
	s := &Site{pages: map[string]page{}, hits: map[string]int{}}
	for part := range strings.SplitSeq(pagesText, "\n= ") {
		path, text, _ := strings.Cut(strings.TrimPrefix(part, "= "), "\n")
		s.pages[path] = htmlPage(render(path, text, ""))
	}
	s.addTroubles(offSite)
	return s
}

func htmlPage(body string) page {
	return page{status: http.StatusOK, contentType: "text/html; charset=utf-8", body: []byte(body)}
}

// addTroubles adds what a handbook does not need and a crawler must survive.
func (s *Site) addTroubles(offSite string) {
	s.pages["/harbour-office/private/ledger"] = htmlPage(render("/harbour-office/private/ledger", "# The ledger\nWho owes what. Nobody should read this.", ""))

	s.pages["/front-door"] = redirect(http.StatusMovedPermanently, "/")
	s.pages["/moved/ferry-times"] = redirect(http.StatusFound, "/moved/again/ferry-times")
	s.pages["/moved/again/ferry-times"] = redirect(http.StatusMovedPermanently, "/boats/ferry-times")
	s.pages["/boats/ferry-times"] = htmlPage(render("/boats/ferry-times", "# Ferry times\nOne hour before each high tide, and back when the hold is empty.\n> /boats/ferry", ""))
	s.pages["/harbour/closed-gate"] = htmlPage(render("/harbour/closed-gate", "# The gate has moved\nThe way to the gate now leads over the new quay.",
		`<meta http-equiv="refresh" content="5; url=/harbour/new-quay">`))
	s.pages["/harbour/new-quay"] = htmlPage(render("/harbour/new-quay", "# The new quay\nGranite, a ladder each ten metres, and water at every tide.\n> /harbour/", ""))

	s.pages["/notices/of-1987"] = page{status: http.StatusGone, contentType: "text/plain", body: []byte("The notices of 1987 were taken down.\n")}

	springs := s.pages["/tides/springs"]
	s.pages["/tides/springs-again"] = springs
	slow := s.pages["/weather/slow-front"]
	slow.wait = SlowFor
	s.pages["/weather/slow-front"] = slow

	s.pages["/people/visitor-from-the-north"] = latin1Page()
	s.pages["/people/letter-from-the-east"] = cyrillicPage()
	s.pages["/library/shelf/"] = shelfPage(offSite)
}

func redirect(status int, to string) page { return page{status: status, location: to} }

// latin1Page names its charset in the header alone.
func latin1Page() page {
	body := render("/people/visitor-from-the-north", "# A visitor from the north\nBjørn from Ærøskøbing came for one tide and stayed for the smørrebrød. His café is open à la carte, from Pâques to the first gale.\n> /people/", "")
	return page{status: 200, contentType: "text/html; charset=ISO-8859-1", body: encode(charmap.ISO8859_1, body)}
}

// cyrillicPage names its charset in a meta element alone.
func cyrillicPage() page {
	body := render("/people/letter-from-the-east", "# Письмо с востока\nДорогие друзья, прилив у вас выше нашего, а лодки меньше. Мы вернёмся к весенней регате.\n> /people/",
		`<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">`)
	body = strings.Replace(body, `<html lang="en">`, `<html lang="ru">`, 1)
	return page{status: 200, contentType: "text/html", body: encode(charmap.Windows1251, body)}
}

func encode(c *charmap.Charmap, s string) []byte {
	b, err := c.NewEncoder().Bytes([]byte(s))
	if err != nil {
		panic(fmt.Sprintf("samplesite: a bundled page does not fit %v: %v", c, err)) // our own constant text
	}
	return b
}

// shelfPage has a base element, so that its relative links lead elsewhere than
// its own address suggests, and links that are no locators or twice the same.
func shelfPage(offSite string) page {
	return htmlPage(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>The shelf</title><base href="/library/"></head><body>
<h1>The shelf</h1>
<p>What the island has read, in the order of the damp.</p>
<ul>
<li><a href="reading-room">The reading room</a></li>
<li><a href="./shelf/../reading-room#window">The reading room, by the window</a></li>
<li><a href="%61lmanac">The almanac</a></li>
<li><a href="mailto:books@skarrow.invalid">Write to the librarian</a></li>
<li><a href="javascript:void(0)">Nothing</a></li>
<li><a href="` + html.EscapeString(offSite) + `">The library of another island</a></li>
</ul>
</body></html>
`)
}

// render makes HTML of the small markup of pages.txt: "# title", "> links",
// "@iframe" and "@area" with a path, and paragraphs.
func render(path, text, head string) string {
	var b, body strings.Builder
	title := "Skarrow"
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case "":
		case "#":
			title = rest
			fmt.Fprintf(&body, "<h1>%s</h1>\n", html.EscapeString(rest))
		case ">":
			body.WriteString("<ul>\n")
			for to := range strings.FieldsSeq(rest) {
				fmt.Fprintf(&body, "<li><a href=\"%s\">%s</a></li>\n", html.EscapeString(to), html.EscapeString(name(to)))
			}
			body.WriteString("</ul>\n")
		case "@iframe":
			fmt.Fprintf(&body, "<iframe src=\"%s\" title=\"table\"></iframe>\n", html.EscapeString(rest))
		case "@area":
			fmt.Fprintf(&body, "<map name=\"plan\"><area shape=\"rect\" coords=\"0,0,90,60\" href=\"%s\" alt=\"basin\"></map>\n", html.EscapeString(rest))
		default:
			fmt.Fprintf(&body, "<p>%s</p>\n", html.EscapeString(line))
		}
	}
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head>")
	if !strings.Contains(head, "charset") && path != "/people/visitor-from-the-north" {
		b.WriteString(`<meta charset="utf-8">`)
	}
	fmt.Fprintf(&b, "%s<title>%s</title></head>\n<body>\n%s</body></html>\n", head, html.EscapeString(title), body.String())
	return b.String()
}

// name is the text of a link to a path.
func name(path string) string {
	path = strings.Trim(path, "/")
	path = path[strings.LastIndexByte(path, '/')+1:]
	if path == "" {
		return "start"
	}
	return strings.ReplaceAll(path, "-", " ")
}

// Handler serves the site on whatever host it is asked for.
func (s *Site) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.hits[r.URL.Path]++
	s.mu.Unlock()
	switch r.URL.Path { // both must name the host that they are asked of
	case "/robots.txt":
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, robots, r.Host)
		return
	case "/sitemap.xml":
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, sitemap("http://"+r.Host))
		return
	}
	p, ok := s.pages[r.URL.Path]
	if !ok || r.URL.RawQuery != "" {
		http.NotFound(w, r)
		return
	}
	if p.wait > 0 {
		t := time.NewTimer(p.wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			return
		}
	}
	if p.location != "" {
		w.Header().Set("Location", p.location)
	} else {
		w.Header().Set("Content-Type", p.contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
	}
	w.WriteHeader(p.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.body)
	}
}

const robots = "# Visitors are welcome, but for the books of the office.\nUser-agent: *\nDisallow: /harbour-office/private/\nSitemap: http://%s/sitemap.xml\n"

// sitemap names three pages, one of which no page links to.
func sitemap(base string) string {
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n")
	for _, path := range []string{"/", "/tides/", "/lighthouses/old-tower"} {
		fmt.Fprintf(&b, "<url><loc>%s</loc></url>\n", html.EscapeString(base+path))
	}
	b.WriteString("</urlset>\n")
	return b.String()
}

// Hits is how often a path was requested.
func (s *Site) Hits(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}
