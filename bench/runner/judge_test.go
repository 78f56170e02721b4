package runner

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// good is the log of a crawl that fetched each of ten pages once.
func good() SiteLog {
	return SiteLog{Pages: 10, Distinct: 10, Reachable: 10, Status: map[int]int64{200: 11}}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*SiteLog)
		kept  int64
		want  string // part of the only complaint; empty: none
	}{
		"right":           {func(*SiteLog) {}, 10, ""},
		"keeps nothing":   {func(*SiteLog) {}, -1, ""},
		"skipped":         {func(l *SiteLog) { l.Distinct, l.Pages, l.Missing = 9, 9, []string{"http://x/p/7"} }, -1, "skipped 1 of 10 pages, such as http://x/p/7"},
		"twice":           {func(l *SiteLog) { l.Pages, l.Duplicates = 11, 1 }, 10, "fetched 1 pages again (10.0 %)"},
		"not linked":      {func(l *SiteLog) { l.Extra = []string{"http://x/p/8"} }, 10, "no link leads to"},
		"one for another": {func(l *SiteLog) { l.Missing = []string{"http://x/p/7"} }, 10, "skipped 1 of 10"},
		"no page":         {func(l *SiteLog) { l.Unknown, l.Status[404] = 2, 2 }, 10, "asked 2 times"},
		"refused":         {func(l *SiteLog) { l.Status[500] = 3 }, 10, "3 requests were not answered"},
		"left early":      {func(l *SiteLog) { l.Active = 4 }, 10, "4 requests under way"},
		"kept too few":    {func(*SiteLog) {}, 9, "kept 9 of 10"},
		"kept too many":   {func(*SiteLog) {}, 11, "kept 11 of 10"},
		"no site":         {func(l *SiteLog) { *l = SiteLog{} }, -1, "nothing was measured"},
	} {
		t.Run(name, func(t *testing.T) {
			l := good()
			c.spoil(&l)
			got := Judge(l, c.kept)
			if c.want == "" && len(got) == 0 {
				return
			}
			if c.want == "" || len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("judged %q, want one sentence with %q", got, c.want)
			}
		})
	}
}

// fakeSite is a control endpoint with a log of our making.
func fakeSite(t *testing.T, l SiteLog) site {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /__log/reset", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /__log", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(l)
	})
	mux.HandleFunc("GET /__reach", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"requested": l.Reachable, "missing": l.Missing, "extra": l.Extra})
	})
	s := httptest.NewServer(mux)
	client := s.Client()
	t.Cleanup(s.Close)
	return site{Root: "http://site.invalid/", Control: s.URL, client: client}
}

// report of one contender on a site that saw what l says.
func report(t *testing.T, l SiteLog, x Contender) *Report {
	t.Helper()
	b := &bench{Config: Config{Dir: t.TempDir(), Log: io.Discard}, web: Web{limit: time.Minute}, sites: map[string]site{"": fakeSite(t, l)}}
	run, err := b.one(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Contenders: []Contender{x}, Runs: []Run{run}, Rounds: 1}
	r.Finish()
	return r
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrongContendersAreReported(t *testing.T) {
	skips, repeats := good(), good()
	skips.Distinct, skips.Pages, skips.Missing = 9, 9, []string{"http://x/p/7"}
	repeats.Pages, repeats.Duplicates = 11, 1
	for name, c := range map[string]struct {
		log     SiteLog
		command []string
		want    string
	}{
		"right":   {good(), []string{"/bin/sh", "-c", "true"}, ""},
		"skips":   {skips, []string{"/bin/sh", "-c", "true"}, "skipped 1 of 10"},
		"repeats": {repeats, []string{"/bin/sh", "-c", "true"}, "fetched 1 pages again"},
		"fails":   {good(), []string{"/bin/sh", "-c", "echo no luck >&2; exit 3"}, "no luck"},
		"absent":  {good(), []string{"/nonexistent/program"}, "make build"},
	} {
		t.Run(name, func(t *testing.T) {
			r := report(t, c.log, Contender{Name: "fake", Command: c.command})
			got := text(t, r)
			if wrong := c.want != ""; wrong != strings.Contains(got, "WRONG: fake, round") || wrong != (len(r.Medians[0].Wrong) > 0) || !strings.Contains(got, c.want) {
				t.Errorf("want %q in the report:\n%s", c.want, got)
			}
		})
	}
}

// TestEveryContenderIsJudged: whatever a contender is called, a page that it
// skips or fetches twice makes it wrong.
func TestEveryContenderIsJudged(t *testing.T) {
	skips, repeats := good(), good()
	skips.Distinct, skips.Pages, skips.Missing = 9, 9, []string{"http://x/p/7"}
	repeats.Pages, repeats.Duplicates = 11, 1
	for _, w := range webs() {
		for _, x := range Contenders("/bin", "/peers", w) {
			for want, log := range map[string]SiteLog{"skipped 1 of 10": skips, "fetched 1 pages again": repeats} {
				r := summarize(x, measured{kept: -1}, log, nil)
				if !strings.Contains(strings.Join(r.Wrong, "; "), want) {
					t.Errorf("%s on %s: wrong is %q, want %q", x.Name, w.Name, r.Wrong, want)
				}
			}
			if r := summarize(x, measured{kept: -1}, good(), nil); len(r.Wrong) > 0 {
				t.Errorf("%s on %s: wrong is %q, want nothing", x.Name, w.Name, r.Wrong)
			}
		}
	}
}

func TestARunThatDoesNotEndIsWrong(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Contender{Name: "slow", Command: []string{"/bin/sh", "-c", "exec cat /dev/zero >/dev/null"}}.runAlone(ctx, site{}, "")
	if err == nil || !strings.Contains(err.Error(), "did not end in time") {
		t.Errorf("error is %v", err)
	}
}

func TestASiteThatDoesNotAnswerIsAnError(t *testing.T) {
	s := fakeSite(t, good())
	s.Control += "/elsewhere"
	b := &bench{Config: Config{Dir: t.TempDir()}, web: Web{limit: time.Minute}, sites: map[string]site{"": s}}
	if _, err := b.one(t.Context(), Contender{Command: []string{"/bin/true"}}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error is %v", err)
	}
}
