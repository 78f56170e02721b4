package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trawl/internal/sink/elastic/estest"
)

// The topics of the example of the documentation, and how many records each gets.
const (
	catalogueTopic = "catalogue"
	accessTopic    = "access-log"
	books, films   = 120, 80
	daily          = 100 // lines of a day's access log
	accessDays     = 3
)

var firstDay = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// qanalDoc is what has to be in an index.
type qanalDoc struct {
	index string
	count int
	id    string
	doc   string // of that id
}

// qanalDocs are all indexes that the example makes.
func qanalDocs() []qanalDoc {
	want := []qanalDoc{
		{"books", books, "b7", `{"title":"Book 7"}`},
		{"films", films, "f7", `{"title":"Film 7"}`},
	}
	for day := range accessDays {
		at := firstDay.AddDate(0, 0, day)
		want = append(want, qanalDoc{
			at.Format("access-2006-01-02"), daily, fmt.Sprintf("r%d-7", day),
			fmt.Sprintf(`{"at":%d,"bytes":1007,"request":{"id":"r%d-7"}}`, at.Add(7*time.Minute).UnixMilli(), day),
		})
	}
	return want
}

// TestQanal runs the example of the documentation: a river and a plain topic
// with daily indexes.
func TestQanal(t *testing.T) {
	t.Parallel()
	server := estest.New()
	t.Cleanup(server.Close)
	newLine(t, "TRAWL_ELASTIC_URL="+server.URL()).qanal(server.URL())
}

// qanal fills the topics, loads them, and compares every index of the search
// server with what was put in.
func (l *line) qanal(url string) {
	l.t.Helper()
	l.topic(catalogueTopic, 2)
	l.topic(accessTopic, 1)
	l.put(catalogueTopic, 0, river("books", "b", "Book", books)...)
	l.put(catalogueTopic, 1, river("films", "f", "Film", films)...)
	for day := range accessDays {
		l.put(accessTopic, 0, accessLog(day)...)
	}
	want := qanalDocs()
	total := 0
	for _, w := range want {
		total += w.count
	}
	s := summary(l.t, l.starter(0, "load", "--json", "-f", filepath.Join("..", "..", "..", "docs", "load-qanal.yaml")))
	if s.Ledger.Loaded != int64(total) || s.Ledger.Errors != 0 {
		l.t.Errorf("%+v", s.Ledger)
	}
	var b strings.Builder
	for _, w := range want {
		l.ask(http.MethodPost, url+"/"+w.index+"/_refresh", nil)
		var n struct{ Count int }
		l.ask(http.MethodGet, url+"/"+w.index+"/_count", &n)
		var found struct {
			Source map[string]any `json:"_source"`
		}
		l.ask(http.MethodGet, url+"/"+w.index+"/_doc/"+w.id, &found)
		doc, err := json.Marshal(found.Source) // keys in order
		if err != nil {
			l.t.Fatal(err)
		}
		if n.Count != w.count || string(doc) != w.doc {
			l.t.Errorf("index %s: %d documents, %s is %s; want %d, %s", w.index, n.Count, w.id, doc, w.count, w.doc)
		}
		fmt.Fprintf(&b, "%-18s %4d documents, %-5s %s\n", w.index, n.Count, w.id, doc)
	}
	l.starter(0, "verify", "qanal")
	l.t.Logf("%d records of 2 topics in %d indexes:\n%s", total, len(want), b.String())
}

// river are records that say themselves where they belong.
func river(index, prefix, name string, n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf(`{"index":%q,"type":"ignored","id":"%s%d","source":{"title":"%s %d"}}`, index, prefix, i, name, i)
	}
	return values
}

// accessLog is a day of plain objects, the latest first: the order is not that
// of the indexes.
func accessLog(day int) []string {
	values := make([]string, daily)
	for i := range values {
		at := firstDay.AddDate(0, 0, day).Add(time.Duration(i) * time.Minute)
		values[i] = fmt.Sprintf(`{"at":%d,"request":{"id":"r%d-%d"},"bytes":"%d","session":"s"}`, at.UnixMilli(), day, i, 1000+i)
	}
	slices.Reverse(values)
	return values
}

// ask requests something of the search server, and decodes the answer unless
// nobody wants it.
func (l *line) ask(method, url string, into any) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.ctx(), method, url, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err == nil && into != nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil || res.StatusCode >= http.StatusMultipleChoices {
		l.t.Errorf("%s %s: %s, %v: %s", method, url, res.Status, err, body)
	}
}
