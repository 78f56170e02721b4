package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trawl/internal/contract"
	"trawl/internal/frontier"
	"trawl/internal/sink"
	"trawl/internal/spec"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const me = "--contact=https://me.example/"

func TestCrawlToTheEnd(t *testing.T) {
	f := newFakes()
	f.workers = []bool{false, false, true}
	f.queries = 12
	f.ends = ending{state: stateCompleted, summary: summary(contract.OutcomeCompleted)}
	f.status = contract.CrawlStatus{
		Phase: "crawling", Started: epoch, Rate: 12.3, Totals: contract.Totals{Fetched: 1000, Pending: 234},
		Trouble: []string{"Kafka is away"}, Ledger: contract.Ledger{Loaded: 900},
	}
	got := f.run("crawl", "https://docs.example.org/", me)
	golden(t, "crawl", got.String())
	if len(f.inputs) != 1 || f.inputs[0].Resume || f.inputs[0].Run != (contract.Run{Crawl: "docs-example-org", Shards: 1, Partitions: 1}) {
		t.Errorf("started with %+v", f.inputs)
	}
	s, err := spec.Decode(f.inputs[0].Spec)
	if err != nil || s.Seeds.URLs[0] != "https://docs.example.org/" {
		t.Errorf("%v %v", s, err)
	}
}

func TestCrawlJSONAndQuiet(t *testing.T) {
	f := newFakes()
	f.ends = ending{state: stateCompleted, summary: summary(contract.OutcomeBudget)}
	got := f.run("crawl", "--json", "-q", "https://docs.example.org/")
	var sum contract.Summary
	if err := json.Unmarshal([]byte(got.out), &sum); err != nil || sum.Totals.Fetched != 1234 || got.err != "" || got.code != exitOK {
		t.Errorf("%v %s", err, got)
	}
}

func TestExitCodesOfEndings(t *testing.T) {
	failed := summary(contract.OutcomeCompleted)
	failed.Totals.GivenUp = map[string]int64{"timeout": 2, "dns": 1}
	errs := summary(contract.OutcomeCompleted)
	errs.Ledger.Errors = 1
	empty := summary(contract.OutcomeCompleted)
	empty.Totals = contract.Totals{Locators: 1, Refused: map[string]int64{"robots": 1}}
	down := summary(contract.OutcomeCompleted)
	down.Totals = contract.Totals{Locators: 1, GivenUp: map[string]int64{"dns": 1}}
	inFiles := summary(contract.OutcomeCompleted)
	inFiles.Sink = spec.SinkFiles
	address := summary(contract.OutcomeCompleted)
	address.Totals = contract.Totals{Locators: 2, Refused: map[string]int64{"address": 1, "robots": 1}}
	for _, tt := range []struct {
		name string
		end  ending
		code int
		want string
	}{
		{"completed", ending{state: stateCompleted, summary: summary("completed")}, exitOK, "completed in 2m13s"},
		{"files", ending{state: stateCompleted, summary: inFiles}, exitOK, "its documents are JSONL files; where: starter search docs-example-org WORDS"},
		{"time", ending{state: stateCompleted, summary: summary("time")}, exitOK, "ended at its time limit"},
		{"failed pages", ending{state: stateCompleted, summary: failed}, exitPages, "failed     3 (timeout 2, dns 1)"},
		{"failed documents", ending{state: stateCompleted, summary: errs}, exitPages, "1 failed"},
		{"robots forbids all", ending{state: stateCompleted, summary: empty}, exitPages, "robots.txt forbids every URL"},
		{"no host answers", ending{state: stateCompleted, summary: down}, exitPages, "no host answered"},
		{"addresses", ending{state: stateCompleted, summary: address}, exitPages, "--allow-network names networks"},
		{"cancelled", ending{state: stateCancelled, summary: summary("cancelled")}, exitCancelled, "starter crawl --name docs-example-org lets it go on"},
		{"cancelled without summary", ending{state: stateCancelled}, exitCancelled, "was cancelled"},
		{"terminated", ending{state: stateTerminated}, exitFailed, "was terminated"},
		{"failed", ending{err: errors.New("crawl x failed: topics differ")}, exitFailed, "topics differ"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakes()
			f.ends = tt.end
			got := f.run("crawl", "https://docs.example.org/", me)
			if got.code != tt.code || !strings.Contains(got.out+got.err, tt.want) {
				t.Errorf("want %d %q, got %s", tt.code, tt.want, got)
			}
		})
	}
}

func TestDetach(t *testing.T) {
	f := newFakes()
	f.queries = -1
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for range 3 {
			<-f.asked
		}
		cancel()
	}()
	got := f.runCtx(ctx, "", "crawl", "https://docs.example.org/", me)
	if got.code != exitDetached || !strings.Contains(got.err, "starter crawl --name docs-example-org") || got.out != "" {
		t.Error(got)
	}
}

func TestNoWait(t *testing.T) {
	f := newFakes()
	f.workers = []bool{false}
	got := f.run("crawl", "https://docs.example.org/", "--wait=false", me)
	if got.code != exitOK || got.out != "crawl/docs-example-org\n" || !strings.Contains(got.err, "no worker is polling queue trawl; start one with bin/worker") {
		t.Error(got)
	}
}

func TestDryRun(t *testing.T) {
	f := newFakes()
	golden(t, "dry-run", f.run("crawl", "https://docs.example.org/", "--dry-run", "--pages", "20000", "--exclude", "print=", "--exclude", `\.pdf$`).String())
	f.noTemporal = true
	got := f.run("crawl", "https://docs.example.org/", "--dry-run")
	if got.code != exitOK || !strings.Contains(got.err, "is not known: no Temporal server") || len(f.inputs) > 0 {
		t.Error(got)
	}
}

// TestSameNameAgain is the table of DESIGN section 4.
func TestSameNameAgain(t *testing.T) {
	pages := func(n int64) func(*spec.Spec) { return func(s *spec.Spec) { s.Limits.Pages = n } }
	host := func(s *spec.Spec) {
		s.Scope.Hosts = []string{"docs.example.org", "other.example.org"}
	}
	seed := func(s *spec.Spec) { s.Seeds.URLs = append(s.Seeds.URLs, "https://docs.example.org/x") }
	depth := func(n int) func(*spec.Spec) { return func(s *spec.Spec) { s.Scope.Depth = n } }
	cut := summary("completed")
	cut.Totals.CutDepth = 3
	tests := []struct {
		name     string
		state    string
		sum      *contract.Summary
		old, now []func(*spec.Spec)
		again    bool
		want     action
		code     int // of a refusal
	}{
		{name: "running", state: stateRunning, want: attach},
		{name: "running, other limit", state: stateRunning, now: []func(*spec.Spec){pages(5)}, want: attach},
		{name: "running, other scope", state: stateRunning, now: []func(*spec.Spec){host}, code: exitTaken},
		{name: "running, again", state: stateRunning, again: true, code: exitTaken},
		{name: "cancelled", state: stateCancelled, sum: summary("cancelled"), want: goOn},
		{name: "terminated", state: stateTerminated, want: goOn},
		{name: "terminated after a complete run", state: stateTerminated, sum: summary("completed"), want: goOn},
		{name: "failed", state: stateFailed, want: goOn},
		{name: "timed out", state: stateTimedOut, want: goOn},
		{name: "completed", state: stateCompleted, sum: summary("completed"), want: show},
		{name: "completed, forgotten by Temporal", sum: summary("completed"), want: show},
		{name: "cancelled, forgotten by Temporal", sum: summary("cancelled"), want: goOn},
		{name: "no summary, forgotten by Temporal", want: goOn},
		{name: "budget", state: stateCompleted, sum: summary("budget"), old: []func(*spec.Spec){pages(5)}, now: []func(*spec.Spec){pages(5)}, want: show},
		{name: "budget raised", state: stateCompleted, sum: summary("budget"), old: []func(*spec.Spec){pages(5)}, now: []func(*spec.Spec){pages(6)}, want: goOn},
		{name: "budget lifted", state: stateCompleted, sum: summary("budget"), old: []func(*spec.Spec){pages(5)}, want: goOn},
		{name: "budget lowered", state: stateCompleted, sum: summary("budget"), old: []func(*spec.Spec){pages(5)}, now: []func(*spec.Spec){pages(4)}, want: show},
		{name: "limit raised that did not end it", state: stateCompleted, sum: summary("completed"), old: []func(*spec.Spec){pages(5000)}, now: []func(*spec.Spec){pages(6000)}, want: show},
		{name: "more seeds", state: stateCompleted, sum: summary("completed"), now: []func(*spec.Spec){seed}, want: goOn},
		{name: "fewer seeds", state: stateCompleted, sum: summary("completed"), old: []func(*spec.Spec){seed}, code: exitTaken},
		{name: "deeper", state: stateCompleted, sum: cut, old: []func(*spec.Spec){depth(2)}, now: []func(*spec.Spec){depth(3)}, want: goOn},
		{name: "other scope", state: stateCompleted, sum: summary("completed"), now: []func(*spec.Spec){host}, code: exitTaken},
		{name: "other scope, again", state: stateCompleted, sum: summary("completed"), now: []func(*spec.Spec){host}, again: true, want: begin},
		{name: "again", state: stateCompleted, sum: summary("completed"), again: true, want: begin},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, now := docs(t, tt.old...), docs(t, tt.now...)
			f := found{exec: execution{State: tt.state}, has: true, stored: stored{Spec: old, Summary: tt.sum}}
			f.gen = generation{Run: contract.Run{Crawl: old.Name, Generation: gen1, Shards: 1, Partitions: 2}}
			d, err := decide(now, f, tt.again)
			if tt.code != 0 {
				if exitCode(err, true) != tt.code {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || d.do != tt.want || d.reason == "" {
				t.Fatalf("%+v %v", d, err)
			}
			in, err := input(now, f, d)
			if err != nil {
				t.Fatal(err)
			}
			if on := d.do == goOn; in.Resume != on || (in.Run.Generation == gen1) != on || on && in.Run.Partitions != 2 {
				t.Errorf("input %+v", in)
			}
		})
	}
	if d, err := decide(docs(t), found{}, false); err != nil || d.do != begin {
		t.Errorf("a new name: %+v %v", d, err)
	}
	// After a delete Temporal may still know the last run.
	if d, err := decide(docs(t), found{exec: execution{State: stateCompleted}}, false); err != nil || d.do != begin {
		t.Errorf("a deleted name: %+v %v", d, err)
	}
}

func TestNameTaken(t *testing.T) {
	f := newFakes()
	f.add(t, gen1, docs(t), summary("completed"))
	got := f.run("crawl", "https://docs.example.org/", "--sink", "none", "--pages", "7", me)
	golden(t, "name-taken", got.String())
	if len(f.inputs) > 0 {
		t.Error("it was started")
	}
}

func TestShowOfCompleteCrawlAndByName(t *testing.T) {
	f := newFakes()
	f.add(t, gen1, docs(t, func(s *spec.Spec) { s.Limits.Pages = 5 }), summary("budget"))
	if got := f.run("crawl", "--name", "docs-example-org"); got.code != exitOK || !strings.Contains(got.out, "ended at its page limit") || len(f.inputs) > 0 {
		t.Error(got)
	}
	f.ends = ending{state: stateCompleted, summary: summary("completed")}
	got := f.run("crawl", "--name", "docs-example-org", "--pages", "50")
	if got.code != exitOK || len(f.inputs) != 1 || f.inputs[0].Run.Generation != gen1 || !strings.Contains(got.err, "limits.pages was raised from 5 to 50") {
		t.Errorf("%s %+v", got, f.inputs)
	}
	if got := f.run("crawl", "--name", "nobody"); got.code != exitNotFound {
		t.Error(got)
	}
	if got := f.run("crawl"); got.code != exitUsage || !strings.Contains(got.err, "there is no seed") {
		t.Error(got)
	}
}

// TestLostRace: somebody else starts the name between the look and the start.
func TestLostRace(t *testing.T) {
	for _, tt := range []struct {
		name   string
		theirs func(*spec.Spec)
		code   int
		want   string
	}{
		{"same spec", func(*spec.Spec) {}, exitOK, "attached to crawl/docs-example-org"},
		{"other spec", func(s *spec.Spec) { s.Sink.Kind = "none" }, exitTaken, "sink.kind: was none, is sqlite"},
	} {
		f := newFakes()
		f.ends = ending{state: stateCompleted, summary: summary("completed")}
		f.race = func() {
			f.execs["docs-example-org"] = execution{State: stateRunning, RunID: "theirs"}
			f.specs["docs-example-org"] = docs(t, tt.theirs)
		}
		if got := f.run("crawl", "https://docs.example.org/", me); got.code != tt.code || !strings.Contains(got.err, tt.want) {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "spec.yaml")
	if err := os.WriteFile(file, []byte("seeds:\n  urls: [nonsense]\nlimits:\n  pages: -1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"crwl"}, `unknown command "crwl"`},
		{[]string{"crawl", "--pags", "3"}, "unknown flag: --pags"},
		{[]string{"crawl", "x", "--pages", "many"}, `"many": is no whole number`},
		{[]string{"crawl", "x", "--delay", "soon"}, `is no duration`},
		{[]string{"crawl", "x", "--robots=maybe"}, `is neither true nor false`},
		{[]string{"crawl", "docs.example.org"}, "write https://docs.example.org"},
		{[]string{"crawl", "http://127.0.0.1/"}, "--allow-network 127.0.0.0/8"},
		{[]string{"crawl", "-f", file}, file + `:4: limits.pages: "-1"`},
		{[]string{"crawl", "-f", filepath.Join(dir, "none.yaml")}, "the spec cannot be read"},
		{[]string{"validate"}, `required flag(s) "file" not set`},
		{[]string{"validate", "-f", file}, file + `:2: seeds.urls: "nonsense"`},
		{[]string{"pause"}, "accepts 1 arg(s)"},
		{[]string{"set-rate", "x"}, `required flag(s) "delay"`},
		{[]string{"set-rate", "x", "--delay", "2h"}, "pause the crawl instead"},
		{[]string{"set-rate", "x", "--delay", "1s", "--parallelism", "65"}, "is not between 1 and 64"},
		{[]string{"add-seeds", "x"}, "there is no seed"},
		{[]string{"add-seeds", "x", "nonsense"}, "is no URL"},
		{[]string{"search", "x", "..."}, "holds no word"},
		{[]string{"search", "x", "y", "--limit", "0"}, "is not between 1 and 1000"},
		{[]string{"show", "nonsense"}, "not an absolute URL"},
	} {
		f := newFakes()
		if got := f.run(tt.args...); got.code != exitUsage || !strings.Contains(got.err, tt.want) || got.out != "" {
			t.Errorf("%v: want %q, got %s", tt.args, tt.want, got)
		}
	}
}

func TestValidate(t *testing.T) {
	f := newFakes()
	got := f.runCtx(context.Background(), spec.Sample, "validate", "-f", "-")
	if got.code != exitOK || got.out != "-: valid, crawl example-manual\n" {
		t.Error(got)
	}
	got = f.runCtx(context.Background(), "shards: x\nnaem: y\n", "validate", "-f", "-", "--json")
	var ps []spec.Problem
	if err := json.Unmarshal([]byte(got.out), &ps); err != nil || len(ps) != 2 || ps[0].Line != 1 || got.code != exitUsage || got.err != "" {
		t.Errorf("%v %s", err, got)
	}
}

func TestUnreachable(t *testing.T) {
	for _, args := range [][]string{
		{"crawl", "https://docs.example.org/"},
		{"status"},
		{"status", "x"},
		{"list"},
		{"pause", "x"},
		{"resume", "x"},
		{"cancel", "x"},
		{"add-seeds", "x", "https://a.example/"},
		{"set-rate", "x", "--delay", "1s"},
		{"delete", "x", "--yes"},
	} {
		f := newFakes()
		f.noTemporal = true
		if got := f.run(args...); got.code != exitUnreachable || !strings.Contains(got.err, "no Temporal server at fake") {
			t.Errorf("%v: %s", args, got)
		}
	}
	for _, args := range [][]string{{"crawl", "https://docs.example.org/"}, {"list"}, {"show", "https://a.example/"}, {"facts", "x"}, {"delete", "x", "--yes"}} {
		f := newFakes()
		f.noKafka = true
		if got := f.run(args...); got.code != exitUnreachable || !strings.Contains(got.err, "no Kafka broker at fake") || len(f.inputs) > 0 {
			t.Errorf("%v: %s", args, got)
		}
	}
}

func TestSteering(t *testing.T) {
	f := newFakes()
	f.execs["x"] = execution{State: stateRunning, RunID: "r"}
	for _, args := range [][]string{
		{"pause", "x"},
		{"resume", "x"},
		{"set-rate", "x", "--delay", "250ms", "--parallelism", "2"},
		{"set-rate", "x", "--delay", "0"},
		{"add-seeds", "x", "https://a.example/", "https://b.example/"},
		{"cancel", "x"},
	} {
		if got := f.run(args...); got.code != exitOK || got.err == "" {
			t.Errorf("%v: %s", args, got)
		}
	}
	want := `x pause null
x resume null
x set-rate {"delay_ms":250,"parallelism":2}
x set-rate {"delay_ms":0,"parallelism":0}
x add-seeds {"urls":["https://a.example/","https://b.example/"]}
x cancel`
	if got := strings.Join(f.updates, "\n"); got != want {
		t.Errorf("got\n%s", got)
	}
	f.ends = ending{state: stateCancelled, summary: summary("cancelled")}
	if got := f.run("cancel", "x", "--wait"); got.code != exitOK || !strings.Contains(got.out, "cancelled in") {
		t.Error(got)
	}
	if got := f.run("cancel", "y"); got.code != exitNotFound {
		t.Error(got)
	}
	f.noReply = true
	if got := f.run("pause", "x"); got.code != exitNoWorker || !strings.Contains(got.err, "bin/worker") {
		t.Error(got)
	}
}

func TestAddSeedsInPortions(t *testing.T) {
	f := newFakes()
	file := filepath.Join(t.TempDir(), "seeds.txt")
	var b strings.Builder
	for i := range 2500 {
		b.WriteString("https://a.example/" + strings.Repeat("x", i%7) + "?" + time.Duration(i).String() + "\n")
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := f.run("add-seeds", "x", "--seed-file", file); got.code != exitOK || len(f.updates) != 3 || !strings.Contains(got.err, "2500 seed(s) added") {
		t.Errorf("%d updates, %s", len(f.updates), got)
	}
}

func TestStatus(t *testing.T) {
	f := newFakes()
	f.execs["docs"] = execution{State: stateRunning, RunID: "r", Started: epoch}
	f.execs["old"] = execution{State: stateTerminated}
	f.clock = epoch.Add(90 * time.Second)
	f.status = contract.CrawlStatus{
		Run: contract.Run{Generation: gen1}, Phase: "crawling", Started: epoch, Rate: 7.5,
		Totals: contract.Totals{Locators: 500, Fetched: 300, Pending: 190, Hosts: 4, Parked: 1, GivenUp: map[string]int64{"timeout": 6, "dns": 4}},
		Ledger: contract.Ledger{Loaded: 280}, Owners: map[string]int{"trawl-worker-b": 1, "trawl-worker-a": 2},
		Shards:  []contract.ShardStatus{{State: "busy", Open: 2}, {State: "busy", Open: 1}, {State: "idle"}},
		Trouble: []string{"shard 2 waits for a worker"}, Notes: []string{"a note"},
	}
	golden(t, "status", f.run("status", "docs").String()+f.run("status").String()+f.run("status", "old").String())
	if got := f.run("status", "nobody"); got.code != exitNotFound {
		t.Error(got)
	}
	got := f.run("status", "docs", "--json")
	var r report
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || r.Status.Totals.Fetched != 300 {
		t.Errorf("%v %s", err, got)
	}
	f.noReply = true
	if got := f.run("status", "docs"); got.code != exitNoWorker || !strings.Contains(got.out, "running, but no worker answered") {
		t.Error(got)
	}
	if got := f.run("status"); got.code != exitNoWorker {
		t.Error(got)
	}
}

// TestStatusOfForgottenCrawl: the summary outlives Temporal's retention.
func TestStatusOfForgottenCrawl(t *testing.T) {
	f := newFakes()
	f.add(t, gen1, docs(t), summary("completed"))
	if got := f.run("status", "docs-example-org"); got.code != exitOK || !strings.Contains(got.out, "1,234 (2xx 1,200, 3xx 20, 404 14) fetched, 12.3 MiB") {
		t.Error(got)
	}
}

func TestList(t *testing.T) {
	f := newFakes()
	if got := f.run("list", "--json"); got.out != "[]\n" {
		t.Error(got)
	}
	f.execs["docs-example-org"] = execution{State: stateRunning, Started: epoch}
	f.execs["gone"] = execution{State: stateCompleted, Started: epoch, Closed: epoch.Add(time.Minute)}
	f.add(t, gen1, docs(t), nil)
	f.add(t, "20260203t000000", docs(t), nil)
	f.add(t, gen1, docs(t, func(s *spec.Spec) { s.Name = "forgotten" }), nil)
	golden(t, "list", f.run("list").String())
}

func TestSearch(t *testing.T) {
	f := newFakes()
	f.add(t, gen1, docs(t), nil)
	golden(t, "search", f.run("search", "docs-example-org", "with", "statement").String()+f.run("search", "--json", "-q", "-n", "1", "docs-example-org", "with").String())
	f.sinkErr = sink.ErrNoIndex
	if got := f.run("search", "docs-example-org", "with"); got.code != exitNotFound || !strings.Contains(got.err, "no index in /data: TRAWL_DATA_DIR") {
		t.Error(got)
	}
	f.sinkErr = &sink.UnavailableError{Err: errors.New("connection refused")}
	if got := f.run("search", "docs-example-org", "with"); got.code != exitUnreachable {
		t.Error(got)
	}
	f.sinkErr, f.noKafka = nil, true
	if got := f.run("search", "docs-example-org", "with"); got.code != exitOK || !strings.Contains(got.err, "searching the embedded index") {
		t.Error(got)
	}
	f.noKafka = false
	if got := f.run("search", "nobody", "with"); got.code != exitNotFound {
		t.Error(got)
	}
}

// Files cannot be searched: the answer says where they are and what to type.
func TestSearchOfFiles(t *testing.T) {
	f := newFakes()
	f.add(t, gen1, docs(t, func(s *spec.Spec) { s.Sink.Kind = spec.SinkFiles }), nil)
	f.load.specs = map[string]json.RawMessage{"shop": encoded(t, small+"sink: {kind: files, index: orders}\n")}
	for name, dir := range map[string]string{"docs-example-org": "/data/files/docs-example-org/", "load/shop": "/data/files/orders/"} {
		got := f.run("search", name, "word")
		if got.code != exitNotFound || !strings.Contains(got.err, "no index to search") || !strings.Contains(got.err, "WORD "+dir) {
			t.Error(got)
		}
	}
}

func TestShowURL(t *testing.T) {
	f := newFakes()
	at := epoch
	url := func(path string) string { return "https://docs.example.org" + path }
	s := docs(t, func(s *spec.Spec) { s.Scope.Exclude, s.Shards = []string{"print="}, 3 })
	f.add(t, gen1, s, nil,
		frontier.Discovered{URL: url("/"), How: frontier.HowSeed, When: at},
		frontier.Discovered{URL: url("/a"), Depth: 2, Parent: url("/x"), How: frontier.HowLink, When: at},
		frontier.Discovered{URL: url("/a"), Depth: 1, Parent: url("/"), How: frontier.HowLink, When: at},
		frontier.Discovered{URL: url("/ab"), Depth: 1, Parent: url("/"), How: frontier.HowLink, When: at},
		frontier.Tried{URL: url("/a"), Round: 1, Number: 1, Class: "timeout", When: at, NextDue: at.Add(time.Minute)},
		frontier.Fetched{URL: url("/a"), Round: 1, Status: 200, Bytes: 5000, Depth: 1, When: at.Add(time.Hour)},
		frontier.Discovered{URL: url("/b"), Depth: 1, How: frontier.HowRedirect, Hop: 2, Parent: url("/a"), When: at},
		frontier.Fetched{URL: url("/b"), Round: 1, Refusal: "robots", When: at},
		frontier.Discovered{URL: url("/c"), Depth: 1, How: frontier.HowLink, Parent: url("/a"), When: at},
		frontier.Tried{URL: url("/c"), Round: 1, Number: 3, Class: "reset", When: at},
		frontier.Robots{Host: "docs.example.org", Scheme: "https", CrawlDelay: 2 * time.Second, When: at, Expiry: at.Add(24 * time.Hour)},
		frontier.Blocked{Host: "docs.example.org", Until: at.Add(time.Minute), Reason: "429", When: at},
		frontier.Streak{Host: "docs.example.org", Errors: 4, When: at},
		frontier.Parked{Host: "other.example", Reason: "not ours", When: at},
	)
	var all strings.Builder
	for _, u := range []string{"/", "/a", "/b", "/c", "/nobody", "/d?print=1"} {
		all.WriteString(f.run("show", url(u)).String() + "\n")
	}
	all.WriteString(f.run("show", "https://elsewhere.example/").String() + "\n")
	golden(t, "show", all.String())
	got := f.run("show", url("/a"), "--json")
	var list []answer
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 1 || !list[0].Known || len(list[0].Facts) != 7 {
		t.Errorf("%v %s", err, got)
	}
	if got := f.run("show", url("/a"), "--name", "nobody"); got.code != exitNotFound {
		t.Error(got)
	}
}

func TestFacts(t *testing.T) {
	f := newFakes()
	at := epoch
	g := f.add(t, gen1, docs(t), summary("completed"),
		frontier.Discovered{URL: "https://docs.example.org/", How: frontier.HowSeed, When: at},
		frontier.Fetched{URL: "https://docs.example.org/", Round: 1, Status: 200, CutDepth: true, When: at, NextDue: at.Add(time.Hour)},
		frontier.Tried{URL: "https://docs.example.org/x", Round: 1, Number: 2, Class: "dns", When: at},
		frontier.Streak{Host: "docs.example.org", Errors: 1, When: at},
		frontier.Blocked{Host: "docs.example.org", Part: 3, Reason: "503", When: at},
		frontier.Parked{Host: "docs.example.org", Reason: "10 errors in a row", When: at},
		frontier.Robots{Host: "docs.example.org", Scheme: "https", When: at},
	)
	shard := f.facts[g.Key(0)]
	shard[0] = append(shard[0], fact{[]byte("?junk"), []byte{1}}, fact{[]byte("dgone"), nil})
	golden(t, "facts", f.run("facts", "docs-example-org").String())
	got := f.run("facts", "docs-example-org", "--json", "--from", "1", "--limit", "2")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	var one shownFact
	if err := json.Unmarshal([]byte(lines[0]), &one); err != nil || len(lines) != 2 || one.Offset != 1 || one.Kind != "discovered" {
		t.Errorf("%v %s", err, got)
	}
	for _, args := range [][]string{{"facts", "docs-example-org", "--shard", "1"}, {"facts", "docs-example-org", "--shard", "-1"}} {
		if got := f.run(args...); got.code != exitUsage {
			t.Error(got)
		}
	}
	if got := f.run("facts", "docs-example-org", "--generation", "x"); got.code != exitNotFound || !strings.Contains(got.err, gen1) {
		t.Error(got)
	}
}

func TestDelete(t *testing.T) {
	f := newFakes()
	f.add(t, gen1, docs(t), nil)
	f.add(t, "20260203t000000", docs(t), nil)
	f.gens = append(f.gens, generation{Run: contract.Run{Crawl: "docs-example-org", Generation: "half"}, Topics: []string{"x"}})
	ctx := context.Background()
	for _, in := range []string{"", "no\n"} {
		if got := f.runCtx(ctx, in, "delete", "docs-example-org"); got.code != exitUsage || len(f.deleted) > 0 || len(f.dropped) > 0 {
			t.Error(got)
		}
	}
	f.execs["docs-example-org"] = execution{State: stateRunning}
	if got := f.runCtx(ctx, "", "delete", "docs-example-org", "--yes"); got.code != exitTaken || len(f.deleted) > 0 {
		t.Error(got)
	}
	f.execs["docs-example-org"] = execution{State: stateCompleted}
	f.sinkErr = &sink.UnavailableError{Err: errors.New("connection refused")}
	if got := f.runCtx(ctx, "", "delete", "docs-example-org", "--yes"); got.code != exitUnreachable || len(f.deleted) > 0 || !strings.Contains(got.err, "its topics are kept") {
		t.Error(got)
	}
	f.sinkErr, f.dropped = nil, nil
	got := f.runCtx(ctx, "docs-example-org\n", "delete", "docs-example-org")
	golden(t, "delete", got.String())
	if len(f.deleted) != 3 || strings.Join(f.dropped, ",") != "docs-example-org docs-example-org-"+gen1+",docs-example-org docs-example-org-20260203t000000" {
		t.Errorf("%v %v", f.deleted, f.dropped)
	}
	if got := f.run("delete", "docs-example-org", "--yes"); got.code != exitNotFound {
		t.Error(got)
	}
}

func TestVersionAndHelp(t *testing.T) {
	f := newFakes()
	if got := f.run("version"); got.code != exitOK || !strings.HasPrefix(got.out, "trawl "+spec.Version) {
		t.Error(got)
	}
	for _, c := range exitCodes {
		if !strings.Contains(f.run("--help").out, c.doc) {
			t.Errorf("the help lacks exit code %d", c.code)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := f.run("completion", shell); got.code != exitOK || got.out == "" {
			t.Error(shell, got.code)
		}
	}
}

// TestRun goes through the real wiring, up to the servers.
func TestRun(t *testing.T) {
	var out, errs strings.Builder
	run := func(env []string, args ...string) int {
		out.Reset()
		errs.Reset()
		return run(context.Background(), args, append(env, "HOME="+t.TempDir()), strings.NewReader(""), &out, &errs)
	}
	if code := run([]string{"TRAWL_LGO=x"}, "list"); code != exitUsage || !strings.Contains(errs.String(), "unknown variable TRAWL_LGO") {
		t.Error(code, errs.String())
	}
	if code := run([]string{"TRAWL_LOG=x"}, "list"); code != exitUsage || !strings.Contains(errs.String(), "TRAWL_LOG") {
		t.Error(code, errs.String())
	}
	if code := run([]string{"TRAWL_LOG=x"}, "version"); code != exitOK {
		t.Error(code, errs.String())
	}
	// Port 1 refuses connections.
	if code := run([]string{"TEMPORAL_ADDRESS=127.0.0.1:1"}, "status"); code != exitUnreachable || errs.String() != "starter: no Temporal server at 127.0.0.1:1: start one with \"make up\", or set TEMPORAL_ADDRESS\n" {
		t.Error(code, errs.String())
	}
	if code := run([]string{"TRAWL_KAFKA_BROKERS=127.0.0.1:1"}, "facts", "x"); code != exitUnreachable || errs.String() != "starter: no Kafka broker at 127.0.0.1:1: start one with \"make up\", or set TRAWL_KAFKA_BROKERS\n" {
		t.Error(code, errs.String())
	}
}

// TestDisplay: a terminal gets one line that is rewritten and fits.
func TestDisplay(t *testing.T) {
	f := newFakes()
	var errs strings.Builder
	a := &app{err: &errs, tty: true, width: 20, world: f.world()}
	d := &display{a: a}
	d.update("short")
	d.update(strings.Repeat("é", 50))
	d.say("stays")
	if want := "\r\x1b[Kshort\r\x1b[K" + strings.Repeat("é", 19) + "\r\x1b[Kstays\n"; errs.String() != want {
		t.Errorf("%q", errs.String())
	}
}

func TestRender(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := thousands(n); got != want {
			t.Error(got)
		}
	}
	if got := parts(map[string]int64{"a": 1, "b": 9, "c": 0, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1}); got != "b 9, a 1, d 1, e 1, f 1, g 1, and 1 more" {
		t.Error(got)
	}
	if got := clean("a\x1b[2J\u202eb\n"); strings.ContainsAny(got, "\x1b\u202e\n") {
		t.Errorf("%q", got)
	}
}
