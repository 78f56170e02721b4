//go:build e2edocs

package docs

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

// contentTypes of the files of the manual. The machine's own table is not
// asked: the test has to be the same everywhere.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
	".py":   "text/x-python; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".xml":  "text/xml; charset=utf-8",
	".json": "application/json",
	".png":  "image/png",
	".svg":  "image/svg+xml",
}

// answer is one request and what the site said.
type answer struct {
	uri         string // path and query as they came
	status      int
	contentType string // without parameters
}

// page: an answer 200 text/html.
func (a answer) page() bool { return a.status == http.StatusOK && a.contentType == "text/html" }

// site serves a directory: files as they are, with a type by extension, and
// index.html for a directory. It notes every request.
type site struct {
	base string // URL without a slash at the end
	root *os.Root

	mu  sync.Mutex
	log []answer
}

func serve(t *testing.T, dir string) *site {
	t.Helper()
	// The package has symbolic links to scripts of other packages. A root does
	// not follow them, so they are 404 whether those packages are there or not.
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	s := &site{root: root}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.base = server.URL
	return s
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, contentType, body := s.find(r.URL.Path)
	s.note(answer{r.URL.RequestURI(), status, contentType})
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func (s *site) find(urlPath string) (status int, contentType string, body []byte) {
	name := strings.TrimPrefix(urlPath, "/")
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	body, err := fs.ReadFile(s.root.FS(), name)
	if err != nil {
		return http.StatusNotFound, "text/plain", fmt.Appendf(nil, "there is no %s\n", urlPath)
	}
	contentType, known := contentTypes[path.Ext(name)]
	if !known {
		contentType = "application/octet-stream"
	}
	return http.StatusOK, contentType, body
}

func (s *site) note(a answer) {
	a.contentType, _, _ = strings.Cut(a.contentType, ";")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, a)
}

// visit is what one visitor asked for: every URI with the times that it was
// asked, and its answer.
type visit struct {
	times   map[string]int
	answers map[string]answer
	took    time.Duration
}

// watch runs a visitor and gives what was asked meanwhile.
func (s *site) watch(visitor func()) visit {
	s.take()
	began := time.Now()
	visitor()
	v := visit{times: map[string]int{}, answers: map[string]answer{}, took: time.Since(began)}
	for _, a := range s.take() {
		v.times[a.uri]++
		v.answers[a.uri] = a
	}
	return v
}

func (s *site) take() []answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

// pages are the URIs answered 200 text/html.
func (v visit) pages() map[string]bool {
	pages := map[string]bool{}
	for uri, a := range v.answers {
		if a.page() {
			pages[uri] = true
		}
	}
	return pages
}
