package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trawl/internal/contract"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/spec"
)

// fakeLoads is Temporal's side of loads, by workflow id.
type fakeLoads struct {
	execs   map[string]execution
	specs   map[string]json.RawMessage
	status  contract.LoadsStatus
	ends    loadEnding
	started []contract.LoadsInput
	updates []string
	endless bool
	refuse  error
}

func (f *fakeLoads) DescribeLoad(_ context.Context, id string) (execution, error) {
	e := f.execs[id]
	e.Name = id
	return e, nil
}

func (f *fakeLoads) LoadSpec(_ context.Context, name string) (json.RawMessage, error) {
	if raw := f.specs[name]; raw != nil {
		return raw, nil
	}
	return nil, fail(exitNotFound, "Temporal has forgotten load %s", name)
}

func (f *fakeLoads) StartLoad(_ context.Context, in contract.LoadsInput) (string, error) {
	f.started = append(f.started, in)
	return "run", nil
}

func (f *fakeLoads) WaitLoad(ctx context.Context, _, _ string) (string, *contract.LoadsSummary, error) {
	if f.endless {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
	return f.ends.state, f.ends.summary, f.ends.err
}

func (f *fakeLoads) LoadStatus(context.Context, string) (contract.LoadsStatus, error) {
	return f.status, nil
}

func (f *fakeLoads) UpdateLoad(_ context.Context, id, update string, arg any) error {
	b, err := json.Marshal(arg)
	f.updates = append(f.updates, fmt.Sprintf("%s %s %s", id, update, b))
	return errors.Join(err, f.refuse)
}

func (f *fakeLoads) CancelLoad(_ context.Context, id string) error {
	f.updates = append(f.updates, id+" cancel")
	return nil
}

func (f *fakeLoads) ListLoads(context.Context, int) (out []execution, err error) {
	for id, e := range f.execs {
		e.Name = id
		out = append(out, e)
	}
	return out, nil
}

func (f *fakeLoads) Worker(context.Context) (bool, error) { return true, nil }

func (f *fakeLoads) Close() {}

const small = "name: shop\nsources: [{topic: orders, until: end}]\n"

func loadFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "load.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func encoded(t *testing.T, text string) json.RawMessage {
	t.Helper()
	s, err := spec.ParseLoad("load.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func shopSummary(l contract.Ledger) *contract.LoadsSummary {
	return &contract.LoadsSummary{
		Name: "shop", Outcome: contract.OutcomeCompleted, Started: epoch, Ended: epoch.Add(7 * time.Second), Ledger: l,
		Partitions: []contract.LoadReport{{Topic: "orders", Position: l.Offsets, End: l.Offsets, Ledger: l, State: "extract", Closed: true}},
	}
}

func TestLoadToTheEnd(t *testing.T) {
	f := newFakes()
	f.load.ends = loadEnding{state: stateCompleted, summary: shopSummary(contract.Ledger{Offsets: 12345, Loaded: 12000, Superseded: 345})}
	golden(t, "load", f.run("load", "-q", "-f", loadFile(t, small+"limits: {rate: 7}")).String())
	if len(f.load.started) != 1 || f.load.started[0].Run != (contract.Run{Crawl: "shop"}) || f.load.started[0].Rate != 7 {
		t.Fatalf("started with %+v", f.load.started)
	}
	if s, err := spec.DecodeLoad(f.load.started[0].Load); err != nil || s.Sources[0].Topic != "orders" {
		t.Errorf("%v %v", s, err)
	}
}

func TestExitCodesOfLoads(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  loadEnding
		code int
		want string
	}{
		{"failed documents", loadEnding{state: stateCompleted, summary: shopSummary(contract.Ledger{Offsets: 3, Loaded: 2, Errors: 1})}, exitPages, "starter errors shop"},
		{"lost", loadEnding{state: stateCompleted, summary: shopSummary(contract.Ledger{Offsets: 3, Loaded: 2, Lost: 1})}, exitPages, "lost to retention"},
		{"no balance", loadEnding{state: stateCompleted, summary: shopSummary(contract.Ledger{Offsets: 3, Loaded: 2})}, exitPages, "1 NOT ACCOUNTED FOR"},
		{"cancelled", loadEnding{state: stateCancelled, summary: shopSummary(contract.Ledger{})}, exitCancelled, "nothing yet"},
		{"terminated", loadEnding{state: stateTerminated}, exitFailed, "starter load --name shop lets it go on"},
		{"failed", loadEnding{err: errors.New("load/shop failed: topics differ")}, exitFailed, "topics differ"},
	} {
		f := newFakes()
		f.load.ends = tt.end
		if got := f.run("load", "-f", loadFile(t, small)); got.code != tt.code || !strings.Contains(got.out+got.err, tt.want) {
			t.Errorf("%s: want %d %q, got %s", tt.name, tt.code, tt.want, got)
		}
	}
}

func TestSameLoadAgain(t *testing.T) {
	f := newFakes()
	f.load.execs = map[string]execution{"load/shop": {State: stateRunning, RunID: "r"}}
	f.load.specs = map[string]json.RawMessage{"shop": encoded(t, small)}
	if got := f.run("load", "-f", loadFile(t, small), "--wait=false"); got.code != exitOK || !strings.Contains(got.err, "attached to load/shop") || len(f.load.started) > 0 {
		t.Errorf("%s", got)
	}
	got := f.run("load", "-f", loadFile(t, small+"read: uncommitted\n"))
	if got.code != exitTaken || !strings.Contains(got.err, "read: committed, now uncommitted") {
		t.Errorf("%s", got)
	}
	f.placed = true
	for _, state := range []string{stateCompleted, stateCancelled, stateTerminated, stateFailed} {
		f.load.execs["load/shop"] = execution{State: state}
		got := f.run("load", "--name", "shop", "--wait=false")
		if got.code != exitOK || got.out != "load/shop\n" || !strings.Contains(got.err, "going on from its positions with load/shop") {
			t.Errorf("%s: %s", state, got)
		}
	}
	if len(f.load.started) != 4 {
		t.Errorf("%d starts", len(f.load.started))
	}
	if got := f.run("load", "--name", "other"); got.code != exitNotFound {
		t.Errorf("%s", got)
	}
}

// TestLoadSaysWhetherItHasPositions: one that was deleted has none, though Temporal
// remembers its runs.
func TestLoadSaysWhetherItHasPositions(t *testing.T) {
	const anew = "; it has no positions, so its sources begin at their start\n"
	for _, tt := range []struct {
		state           string
		placed, noKafka bool
		plan, done      string
	}{
		{stateCompleted, true, false, "would go on from its positions with load/shop\n", "going on from its positions with load/shop\n"},
		{stateCompleted, false, false, "would start load/shop again" + anew, "started load/shop again" + anew},
		{stateFailed, true, true, "would go on with load/shop\n", "going on with load/shop\n"},
		{stateRunning, true, false, "would attach to load/shop\n", "attached to load/shop\n"},
		{stateNone, false, false, "would start load/shop\n", "started load/shop\n"},
	} {
		f := newFakes()
		f.placed, f.noKafka = tt.placed, tt.noKafka
		f.load.execs = map[string]execution{"load/shop": {State: tt.state}}
		f.load.specs = map[string]json.RawMessage{"shop": encoded(t, small)}
		if got := f.run("load", "--name", "shop", "--dry-run"); got.code != exitOK || got.err != tt.plan {
			t.Errorf("%+v: %s", tt, got)
		}
		if got := f.run("load", "--name", "shop", "--wait=false"); got.code != exitOK || got.err != tt.done {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

func TestLoadDetaches(t *testing.T) {
	f := newFakes()
	f.load.endless = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got := f.runCtx(ctx, "", "load", "-f", loadFile(t, small))
	if got.code != exitDetached || !strings.Contains(got.err, "starter load --name shop") {
		t.Error(got)
	}
}

func TestLoadValidateAndDryRun(t *testing.T) {
	f := newFakes()
	if got := f.run("load", "validate", "-f", loadFile(t, small)); got.code != exitOK || !strings.Contains(got.out, "valid, load shop") {
		t.Error(got)
	}
	bad := loadFile(t, "name: shop\nsources: [{topic: orders, untli: end, where: 'a ==='}]\n")
	if got := f.run("load", "validate", "-f", bad); got.code != exitUsage || !strings.Contains(got.err, "load.yaml:2: sources[0].untli: is no key of a load; did you mean until?") {
		t.Error(got)
	}
	wrong := loadFile(t, "name: shop\nsources: [{topic: orders, where: 'a ==='}]\n")
	if got := f.run("load", "validate", "-f", wrong); got.code != exitUsage || !strings.Contains(got.err, "sources[0]") {
		t.Error(got)
	}
	if got := f.run("load", "-f", loadFile(t, small), "--dry-run"); got.code != exitOK || !strings.Contains(got.out, "start: earliest # default") || !strings.Contains(got.err, "would start load/shop") {
		t.Error(got)
	}
	f.noTemporal = true
	if got := f.run("load", "-f", loadFile(t, small), "--dry-run"); got.code != exitOK || !strings.Contains(got.err, "is not known") {
		t.Error(got)
	}
	if got := f.run("load"); got.code != exitUsage {
		t.Error(got)
	}
	if len(f.load.started) > 0 {
		t.Error("something was started")
	}
}

// sevenOrders is a topic of three partitions, the last one with seven records.
func sevenOrders() fakeErrors {
	return fakeErrors{partitions: map[string]int{"orders": 3}, recs: map[string][]kafkalog.Record{"orders/2": make([]kafkalog.Record, 7)}}
}

func TestOrderSaysThatItWaits(t *testing.T) {
	var errs bytes.Buffer
	a := &app{err: &errs, world: newFakes().world()}
	now := make(chan time.Time)
	a.world.after = func(time.Duration) <-chan time.Time { return now }
	a.tellLater(t.Context(), "early")()
	done := a.tellLater(t.Context(), "late")
	now <- epoch
	done()
	if errs.String() != "late\n" {
		t.Errorf("said %q", errs.String())
	}
}

func TestSearchOfALoad(t *testing.T) {
	f := newFakes()
	f.load.specs = map[string]json.RawMessage{"shop": encoded(t, small)}
	for _, name := range []string{"shop", "load/shop"} {
		if got := f.run("search", name, "word"); got.code != exitOK {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := f.run("search", "other", "word"); got.code != exitNotFound || !strings.Contains(got.err, "no crawl and no load other") {
		t.Error(got)
	}
}

func TestVerifyNamesTheCrawl(t *testing.T) {
	if got := newFakes().run("verify", "docs"); got.code != exitNotFound || !strings.Contains(got.err, "starter verify crawl/docs") {
		t.Error(got)
	}
}

func TestHelpNamesTheCommand(t *testing.T) {
	if got := newFakes().run("load", "skip", "shop"); got.code != exitUsage || !strings.Contains(got.err, "see starter load skip --help") {
		t.Error(got)
	}
}

func TestLoadVerbs(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"load pause shop", "load/shop pause null"},
		{"load resume crawl/docs", "crawl/docs/load resume null"},
		{"pause load/shop", "load/shop pause null"},
		{"resume load/shop", "load/shop resume null"},
		{"cancel load/shop", "load/shop cancel"},
		{"load seek shop --topic orders --partition 2 --offset 7 --reason r", `load/shop seek {"topic":"orders","partition":2,"offset":7,"reason":"r"}`},
		{"load seek shop --topic orders --partition 2 --time 2026-01-31T00:00:00Z --reason r", `"time":"2026-01-31T00:00:00Z"`},
		{"load skip shop --topic orders --partition 2 --offset 7 --through 9 --reason r", `load/shop skip {"topic":"orders","partition":2,"offset":7,"through":9,"reason":"r","by":"ann@here"}`},
		{"load to-errors crawl/docs --partition 0 --offset 7 --reason r", `crawl/docs/load to-errors {"partition":0,"offset":7,"reason":"r","by":"ann@here"}`},
		{"load set-batch shop --bytes 2MiB --count 100", `load/shop set-batch {"bytes":2097152,"count":100}`},
		{"load set-rate shop --rate 12.5", `load/shop set-rate {"records":12.5}`},
	} {
		f := newFakes()
		f.load.execs = map[string]execution{"load/shop": {State: stateRunning, RunID: "r"}}
		f.topics = sevenOrders()
		got := f.run(strings.Fields(tt.line)...)
		if got.code != exitOK || len(f.load.updates) != 1 || !strings.Contains(f.load.updates[0], tt.want) {
			t.Errorf("%s: %v, %s", tt.line, f.load.updates, got)
		}
	}
	for _, line := range []string{
		"load skip shop --topic orders --partition 2 --offset 7", "load seek shop --topic o --partition 1 --reason r",
		"load set-rate shop", "load set-batch shop --bytes lots", "set-rate load/shop --delay 1s", "load to-errors shop --partition 1 --reason r",
		"load seek shop --topic o --partition 1 --reason r --time soon",
		"load seek shop --topic orders --partition 2 --offset 8 --reason r", "load set-batch shop", "delete crawl/x/load --yes", "delete shop --file load.yaml",
	} {
		f := newFakes()
		f.topics = sevenOrders()
		if got := f.run(strings.Fields(line)...); got.code != exitUsage || len(f.load.updates) > 0 {
			t.Errorf("%s: %s", line, got)
		}
	}
}

func TestStatusOfALoad(t *testing.T) {
	f := newFakes()
	f.load.execs = map[string]execution{"load/shop": {State: stateRunning, RunID: "r", Started: epoch}}
	f.load.status = contract.LoadsStatus{
		Name: "shop", Phase: "loading", Started: epoch, Ledger: contract.Ledger{Offsets: 1000, Loaded: 990, Errors: 10}, Rate: 12.5, Lag: 250,
		Partitions: []contract.LoadReport{
			{Topic: "orders", Position: 600, End: 800, State: "load", Ledger: contract.Ledger{Offsets: 600}, Retry: contract.RetryState{
				State: "load", Class: 13, Attempts: 12, Error: "400", Alone: true, Offset: 605,
			}},
			{Topic: "orders", Partition: 1, Position: 400, End: 450, State: "extract", Ledger: contract.Ledger{Offsets: 400}, Rate: 12.5},
		},
		Trouble: []string{"orders[0]: in load, class 13, attempt 12: sink refused"},
	}
	want := f.run("status", "load/shop")
	golden(t, "load-status", want.String())
	if got := f.run("status", "shop"); got != want {
		t.Errorf("by its bare name: %s", got)
	}
	if got := f.run("status"); !strings.Contains(got.out, "load/shop: loading, 990 loaded (12.5/s), 250 to go") {
		t.Error(got)
	}
	if got := f.run("list"); !strings.Contains(got.out, "load/shop") {
		t.Error(got)
	}
	if got := f.run("status", "load/other"); got.code != exitNotFound {
		t.Error(got)
	}
	f.load.execs["load/shop"] = execution{State: stateCompleted, RunID: "r"}
	f.load.ends = loadEnding{state: stateCompleted, summary: shopSummary(contract.Ledger{Offsets: 5, Loaded: 5})}
	if got := f.run("status", "load/shop"); !strings.Contains(got.out, "load shop: completed in 7s") {
		t.Error(got)
	}
}

func TestDeleteOfALoad(t *testing.T) {
	f := newFakes()
	ctx := context.Background()
	if got := f.run("delete", "load/shop", "--yes"); got.code != exitNotFound {
		t.Error(got)
	}
	const topic = "trawl.load.shop.errors"
	begin := func() {
		f.topics.partitions = map[string]int{topic: 4, "orders": 1}
		f.deleted, f.dropped, f.unplaced, f.sinkErr, f.shared = nil, nil, nil, nil, false
	}
	begin()
	f.load.specs = map[string]json.RawMessage{"shop": encoded(t, small+"sink: {kind: elastic, index: goods}\n")}
	refused := func(code int, want, stdin string, args ...string) {
		t.Helper()
		got := f.runCtx(ctx, stdin, append([]string{"delete", "load/shop"}, args...)...)
		if got.code != code || !strings.Contains(got.err, want) || len(f.deleted) > 0 || f.topics.partitions[topic] == 0 {
			t.Errorf("%v: %v", args, got)
		}
	}
	refused(exitUsage, "its index goods (elastic) and these topics:\n  "+topic+"\n", "")
	refused(exitUsage, "is not the name", "goods\n")
	f.load.execs = map[string]execution{"load/shop": {State: stateRunning}}
	refused(exitTaken, "starter cancel load/shop --wait", "", "--yes")
	f.load.execs["load/shop"] = execution{State: stateCompleted}
	f.load.execs["load/shop/0"] = execution{State: stateCompleted}
	f.load.execs["load/shop/1"] = execution{State: stateRunning}
	refused(exitTaken, "load/shop/1, a loader of it, is still running", "", "--yes")
	f.load.execs["load/shop/1"] = execution{State: stateCompleted}
	if len(f.dropped) > 0 {
		t.Errorf("dropped %v", f.dropped)
	}
	f.sinkErr = &sink.UnavailableError{Err: errors.New("connection refused")}
	refused(exitUnreachable, "its positions are deleted, its index and topics are not", "", "--yes")
	if len(f.unplaced) != 1 {
		t.Errorf("its positions were deleted %d times before its index, want once", len(f.unplaced))
	}
	for _, tt := range []struct {
		args    string
		stdin   string
		shared  bool
		want    string
		dropped int
	}{
		{"", "shop\n", false, "type shop to go on: load/shop: deleted with its index goods", 1},
		{"--yes", "", true, "stays with what it holds", 1},
		{"--yes --keep-index", "", false, "deleted", 0},
	} {
		begin()
		f.shared = tt.shared
		got := f.runCtx(ctx, tt.stdin, append([]string{"delete", "load/shop"}, strings.Fields(tt.args)...)...)
		if got.code != exitOK || !strings.Contains(got.err, tt.want) || len(f.dropped) != tt.dropped ||
			len(f.deleted) != 1 || f.topics.partitions[topic] != 0 || f.topics.partitions["orders"] != 1 {
			t.Errorf("%+v: %v, dropped %v", tt, got, f.dropped)
		}
	}
	begin()
	f.load.specs = nil
	refused(exitNotFound, "--keep-index", "", "--yes")
	if got := f.run("delete", "load/shop", "--yes", "-f", loadFile(t, small)); got.code != exitOK || f.dropped[0] != "shop" {
		t.Error(got)
	}
}

// TestHeadLineSaysWhetherAnythingIsLoaded.
func TestHeadLineSaysWhetherAnythingIsLoaded(t *testing.T) {
	part := func(position, end int64, class int) contract.LoadReport {
		p := contract.LoadReport{Topic: "orders", Position: position, End: end}
		if class >= 0 {
			p.Retry = contract.RetryState{Class: class, Attempts: 3}
		}
		return p
	}
	done := contract.LoadReport{Topic: "orders", Position: 4, End: 9, Closed: true}
	type parts = []contract.LoadReport
	for name, tt := range map[string]struct {
		st   contract.LoadsStatus
		want string
	}{
		"loads":                {contract.LoadsStatus{Phase: "loading", Partitions: parts{part(5, 9, -1), part(9, 9, -1), part(3, 9, 10)}}, "loading"},
		"begins":               {contract.LoadsStatus{Phase: "loading", Partitions: parts{part(-1, -1, -1), part(0, -1, -1), done}}, "starting"},
		"paused":               {contract.LoadsStatus{Phase: "loading", Paused: true, Partitions: parts{part(5, 9, -1)}}, "paused"},
		"the sink is away":     {contract.LoadsStatus{Phase: "loading", Partitions: parts{part(5, 9, 10), part(9, 9, -1), done}}, "waiting"},
		"an empty topic":       {contract.LoadsStatus{Phase: "loading", Partitions: parts{part(0, 0, -1), done}}, "waiting for records"},
		"a draining sink":      {contract.LoadsStatus{Phase: "draining", Partitions: parts{part(5, 9, 10)}}, "waiting"},
		"drains":               {contract.LoadsStatus{Phase: "draining", Partitions: parts{part(5, 9, -1)}}, "draining"},
		"no topic":             {contract.LoadsStatus{Phase: "starting", Trouble: []string{"topic orders is not there"}}, "waiting"},
		"nothing known yet":    {contract.LoadsStatus{Phase: "starting"}, "starting"},
		"done":                 {contract.LoadsStatus{Phase: "done", Partitions: parts{done}}, "done"},
		"stops, in no hurry":   {contract.LoadsStatus{Phase: "stopping", Partitions: parts{part(5, 9, 10)}}, "stopping"},
		"closed, more to come": {contract.LoadsStatus{Phase: "loading", Partitions: parts{done}}, "loading"},
	} {
		if got := loadLine("load/shop", tt.st, epoch); !strings.HasPrefix(got, "load/shop: "+tt.want+", ") {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestPagesOfTheStatusLineAreNoFewerThanLoaded: their counters have other ages.
func TestPagesOfTheStatusLineAreNoFewerThanLoaded(t *testing.T) {
	st := contract.CrawlStatus{Phase: "crawl", Totals: contract.Totals{Fetched: 11}, Ledger: contract.Ledger{Offsets: 36, Loaded: 33, NoDocument: 2, Compacted: 1}}
	st.Totals.Pending = 5
	if got := statusLine("demo", st, epoch); !strings.Contains(got, "35 pages,") || !strings.Contains(got, "33 loaded") {
		t.Error(got)
	}
	st.Totals.Fetched, st.Totals.Pending = 40, 0
	if got := statusLine("demo", st, epoch); !strings.Contains(got, "40 pages,") { // nothing is to be fetched
		t.Error(got)
	}
	st.Totals.Pending = 5
	if got := statusLine("demo", st, epoch); !strings.Contains(got, "40 pages (0.0/s)") {
		t.Error(got)
	}
}

func TestSeekOfALoadThatHasEnded(t *testing.T) {
	f := newFakes()
	f.topics = sevenOrders()
	f.load.execs = map[string]execution{"load/shop": {State: stateCompleted, RunID: "r"}}
	seek := func(more string) outcome {
		return f.run(strings.Fields("load seek shop --reason r --topic orders " + more)...)
	}
	if got := seek("--partition 2 --offset 4"); got.code != exitOK || !strings.Contains(got.err, "starter load --name shop") {
		t.Error(got)
	}
	if len(f.load.updates) > 0 || strings.Join(f.updates, ",") != "shop begins at orders[2] 4" {
		t.Errorf("%v %v", f.load.updates, f.updates)
	}
	for _, bad := range []string{"--partition 2 --time 2026-01-31T00:00:00Z", "--partition 2 --offset 8", "--partition 2 --offset -1", "--partition 77 --offset 0"} {
		if got := seek(bad); got.code != exitUsage || len(f.updates) != 1 {
			t.Errorf("%s: %s", bad, got)
		}
	}
}
