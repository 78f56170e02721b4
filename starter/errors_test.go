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
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/settings"
	"trawl/internal/spec"
	"trawl/workflows"
)

// fakeErrors is topics in memory, by "topic/partition".
type fakeErrors struct {
	partitions map[string]int
	recs       map[string][]kafkalog.Record
	appendErr  error
	broken     *kafkalog.BatchError // of the topic orders
}

func (f *fakeErrors) key(topic string, p int) string { return fmt.Sprintf("%s/%d", topic, p) }

func (f *fakeErrors) Topics(_ context.Context, prefix string) (map[string]int, error) {
	out := map[string]int{}
	for name, n := range f.partitions {
		if strings.HasPrefix(name, prefix) {
			out[name] = n
		}
	}
	return out, nil
}

func (f *fakeErrors) Bounds(_ context.Context, topic string, p int) (int64, int64, error) {
	return 0, int64(len(f.recs[f.key(topic, p)])), nil
}

func (f *fakeErrors) ReadRange(_ context.Context, topic string, p int, from, end int64, fn func(kafkalog.Record) error) (int64, error) {
	for _, r := range f.recs[f.key(topic, p)] {
		if b := f.broken; b != nil && topic == "orders" && r.Offset >= from && r.Offset < end && r.Offset >= b.Base && r.Offset <= b.Last {
			return b.Base, b
		}
		if r.Offset >= from && r.Offset < end {
			if err := fn(r); err != nil {
				return r.Offset, err
			}
		}
	}
	return end, nil
}

func (f *fakeErrors) Append(_ context.Context, topic string, p int, recs []kafkalog.Record) error {
	if f.appendErr != nil {
		return f.appendErr
	}
	k := f.key(topic, p)
	for _, r := range recs {
		r.Offset = int64(len(f.recs[k]))
		f.recs[k] = append(f.recs[k], r)
	}
	return nil
}

func (f *fakeErrors) Close() {}

func (f *fakeErrors) state(topic string, p int, fs ...ingest.Failure) {
	for _, x := range fs {
		_ = f.Append(context.Background(), topic, p, []kafkalog.Record{x.Record(-1)})
	}
}

// fakeRedrives is redrives that end as they are told.
type fakeRedrives struct {
	latest  int
	running bool
	taken   bool // somebody takes the next number meanwhile
	inputs  []contract.RedriveInput
	calls   []string
	status  contract.RedriveStatus
	state   string
	load    json.RawMessage
}

func (f *fakeRedrives) LatestRedrive(context.Context, string) (int, string, error) {
	if f.running {
		return f.latest, stateRunning, nil
	}
	return f.latest, stateCompleted, nil
}

func (f *fakeRedrives) StartRedrive(_ context.Context, name string, n int, in contract.RedriveInput) error {
	if f.taken {
		return errRunning
	}
	f.calls = append(f.calls, "start "+workflows.RedriveID(name, n))
	f.inputs = append(f.inputs, in)
	return nil
}

func (f *fakeRedrives) RedriveStatus(context.Context, string, int) (contract.RedriveStatus, error) {
	return f.status, nil
}

func (f *fakeRedrives) WaitRedrive(context.Context, string, int) (string, *contract.RedriveStatus, error) {
	if f.state == stateTerminated {
		return f.state, nil, nil
	}
	return f.state, &f.status, nil
}

func (f *fakeRedrives) UpdateRedrive(_ context.Context, name string, n int, update string) error {
	f.calls = append(f.calls, update+" "+workflows.RedriveID(name, n))
	return nil
}

func (f *fakeRedrives) CancelRedrive(_ context.Context, name string, n int) error {
	f.calls = append(f.calls, "cancel "+workflows.RedriveID(name, n))
	return nil
}

func (f *fakeRedrives) LoadSpec(context.Context, string) (json.RawMessage, error) {
	return f.load, nil
}
func (f *fakeRedrives) Close() {}

// errorsBench is a crawl "docs-example-org" and a load "orders" with failures.
type errorsBench struct {
	*fakes
	log      *fakeErrors
	redrives *fakeRedrives
}

const (
	crawlErrorsTopic = "trawl.docs-example-org." + gen1 + ".errors"
	loadErrorsTopic  = "trawl.load.orders.errors"
)

func aFailure(topic string, offset int64, class ingest.Class, reason string) ingest.Failure {
	return ingest.Failure{
		ID: ingest.RecordID(topic, 0, offset), Topic: topic, Offset: offset, Class: class, State: "load", Status: 400,
		Type: "mapper_parsing_exception", Reason: reason, Time: epoch.Add(time.Duration(offset) * time.Hour), Attempts: 1,
		Name: "orders", Target: "orders-1",
		Original: kafkalog.Record{
			Key: []byte("k"), Value: fmt.Appendf(nil, `{"n":%d,"s":"a"}`, offset), Time: epoch,
			Headers: []kafkalog.Header{{Key: "trace", Value: []byte("x1")}, {Key: "bin", Value: []byte{0, 255}}},
		},
	}
}

func newErrorsBench(t *testing.T) *errorsBench {
	t.Helper()
	b := &errorsBench{
		fakes:    newFakes(),
		log:      &fakeErrors{partitions: map[string]int{loadErrorsTopic: 2}, recs: map[string][]kafkalog.Record{}},
		redrives: &fakeRedrives{state: stateCompleted, load: json.RawMessage(`{"name":"orders"}`)},
	}
	g := b.add(t, gen1, docs(t), nil)
	for _, topic := range g.Topics {
		b.log.partitions[topic] = 1
	}
	done := aFailure("events", 3, ingest.ItemsFailed, "failed to parse field [price] in document with id 'a-3'")
	again := aFailure("events", 1, ingest.InvalidFormat, "unexpected end of JSON input at 17")
	again.State, again.Status, again.Type, again.Attempts, again.Redrives, again.Redrive = "transform", 0, "", 4, 3, "run"
	b.log.state(loadErrorsTopic, 0,
		aFailure("events", 1, ingest.InvalidFormat, "unexpected end of JSON input at 9"),
		aFailure("events", 2, ingest.ItemsFailed, "failed to parse field [price] in document with id 'a-2'"),
		done,
		aFailure("events", 2, ingest.ItemsFailed, "failed to parse field [price] in document with id 'a-2'"),
		again,
	)
	b.log.state(loadErrorsTopic, 1, aFailure("events", 4, ingest.ItemsFailed, "failed to parse field [price] in document with id 'a-4'\x1b[31m"))
	_ = b.log.Append(t.Context(), loadErrorsTopic, 0, []kafkalog.Record{resolution(&done, ingest.Discarded, "not wanted", epoch)})
	return b
}

func (b *errorsBench) run(args ...string) outcome {
	var out, errs bytes.Buffer
	w := b.world()
	w.errors = func(context.Context) (errorTopics, error) { return b.log, nil }
	w.redrives = func(context.Context) (redriveServer, error) { return b.redrives, nil }
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, width: 80, address: "fake", world: w}
	a.set, _ = settings.Load(func(string) string { return "" })
	code := a.execute(context.Background(), append([]string{"errors"}, args...))
	return outcome{code, out.String(), errs.String()}
}

func TestErrorsAreListed(t *testing.T) {
	b := newErrorsBench(t)
	var text strings.Builder
	for _, args := range [][]string{
		{"orders"},
		{"list", "orders", "--all"},
		{"orders", "--class", "invalid-format", "--json"},
		{"orders", "--class", "12", "--limit", "1"},
		{"orders", "--since", "2026-01-02T06:30:00Z"},
		{"docs-example-org"},
		{"histogram", "orders"},
		{"histogram", "orders", "--all", "--json"},
		{"show", "orders", "events-0-1"},
		{"show", "orders", "events-0-3", "--json"},
		{"redrive", "orders", "--all", "--dry-run"},
		{"redrive", "orders", "--class", "12", "--dry-run", "--json"},
	} {
		fmt.Fprintf(&text, "$ starter errors %s\n%s\n", strings.Join(args, " "), b.run(args...))
	}
	golden(t, "errors", text.String())
	if len(b.redrives.inputs) != 0 {
		t.Error("a dry run began a redrive")
	}
}

func TestErrorsUsage(t *testing.T) {
	b := newErrorsBench(t)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitNotFound, "no crawl or load nobody", []string{"nobody"}},
		{exitNotFound, "load docs-example-org has no errors topic", []string{"docs-example-org", "--kind", "load"}},
		{exitUsage, "--kind page", []string{"orders", "--kind", "page"}},
		{exitUsage, "--limit 0", []string{"orders", "--limit", "0"}},
		{exitUsage, "--class 14", []string{"orders", "--class", "14"}},
		{exitUsage, "--class no-such", []string{"orders", "--class", "no-such"}},
		{exitUsage, "--since yesterday", []string{"orders", "--since", "yesterday"}},
		{exitNotFound, "no failure events-0-9", []string{"show", "orders", "events-0-9"}},
		{exitUsage, "exactly one of", []string{"redrive", "orders"}},
		{exitUsage, "exactly one of", []string{"redrive", "orders", "--all", "--id", "x"}},
		{exitUsage, "--rate fast", []string{"redrive", "orders", "--all", "--rate", "fast"}},
		{exitUsage, "--most 0", []string{"redrive", "orders", "--all", "--most", "0"}},
		{exitUsage, "keeps its spec itself", []string{"redrive", "docs-example-org", "--all", "-f", "x.yaml"}},
		{exitUsage, "--reason", []string{"discard", "orders", "--id", "x"}},
		{exitUsage, "exactly one of", []string{"discard", "orders", "--reason", "x"}},
		{exitNotFound, "never redriven", []string{"status", "orders"}},
	} {
		if got := b.run(c.args...); got.code != c.code || !strings.Contains(got.err, c.want) {
			t.Errorf("%v: want exit %d and %q, got %s", c.args, c.code, c.want, got)
		}
	}
}

func TestErrorsOfANameThatIsBoth(t *testing.T) {
	b := newErrorsBench(t)
	b.log.partitions["trawl.load.docs-example-org.errors"] = 1
	if got := b.run("docs-example-org"); got.code != exitUsage || !strings.Contains(got.err, "--kind crawl or --kind load") {
		t.Error(got)
	}
	for _, kind := range []string{"crawl", "load"} {
		if got := b.run("docs-example-org", "--kind", kind); got.code != exitOK || !strings.Contains(got.err, kind+" docs-example-org") {
			t.Error(got)
		}
	}
}

func TestRedriveIsStarted(t *testing.T) {
	b := newErrorsBench(t)
	b.redrives.latest = 4
	b.redrives.status = contract.RedriveStatus{
		Name: "orders", State: contract.RedriveCompleted, Started: epoch, Ended: epoch.Add(90 * time.Second), Select: contract.RedriveSelect{Most: 3},
		Counts: contract.RedriveCounts{Taken: 12, Loaded: 9, Superseded: 1, Failed: 2, Refused: 1},
	}
	got := b.run("redrive", "orders", "--class", "12", "--class", "invalid-format", "--rate", "30/m", "--most", "5", "--force", "--quiet")
	if got.code != exitPages {
		t.Error(got)
	}
	golden(t, "errors-redrive", got.String())
	in := b.redrives.inputs[0]
	want := contract.RedriveSelect{Classes: []int{7, 12}, Most: 5, Force: true}
	if fmt.Sprint(in.Select) != fmt.Sprint(want) || in.Rate != 0.5 || string(in.Load) != `{"name":"orders"}` || in.Name != "orders" || in.Run != (contract.Run{}) {
		t.Errorf("%+v", in)
	}
	if b.redrives.calls[0] != "start redrive/orders/5" {
		t.Error(b.redrives.calls)
	}

	b.redrives.status.Counts = contract.RedriveCounts{Taken: 1, Loaded: 1}
	if got := b.run("redrive", "docs-example-org", "--id", "x"); got.code != exitNotFound || len(b.redrives.inputs) > 1 {
		t.Errorf("an id that was never stated: %s", got)
	}
	x := aFailure("pages", 1, ingest.ItemsFailed, "no")
	b.log.state(crawlErrorsTopic, 0, x)
	if got := b.run("redrive", "docs-example-org", "--id", x.ID); got.code != exitOK {
		t.Error(got)
	}
	if in := b.redrives.inputs[1]; in.Load != nil || in.Run.Generation != gen1 || in.Run.Partitions == 0 || in.Select.ID != x.ID {
		t.Errorf("%+v", in)
	}
	if got := b.run("redrive", "orders", "--all", "--detach"); got.code != exitOK || got.out != "" || !strings.Contains(got.err, "redrive/orders/5 is running") {
		t.Error(got)
	}
}

func TestOneRedriveAtATime(t *testing.T) {
	b := newErrorsBench(t)
	b.redrives.latest, b.redrives.running = 2, true
	if got := b.run("redrive", "orders", "--all"); got.code != exitTaken || !strings.Contains(got.err, "redrive/orders/2 is running") {
		t.Error(got)
	}
	b.redrives.running, b.redrives.taken = false, true
	if got := b.run("redrive", "orders", "--all"); got.code != exitTaken || !strings.Contains(got.err, "redrive/orders/3 is running") {
		t.Error(got)
	}
	if len(b.redrives.inputs) != 0 {
		t.Error("it was started")
	}
}

func TestRedriveWithAnotherSpec(t *testing.T) {
	b := newErrorsBench(t)
	file := filepath.Join(t.TempDir(), "load.yaml")
	write := func(name string) {
		text := "name: " + name + "\nsources: [{topic: events}]\nsink: {kind: sqlite}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("other")
	if got := b.run("redrive", "orders", "--all", "-f", file); got.code != exitUsage || !strings.Contains(got.err, "load other, not orders") {
		t.Error(got)
	}
	write("orders")
	b.run("redrive", "orders", "--all", "-f", file)
	if s, err := spec.DecodeLoad(b.redrives.inputs[0].Load); err != nil || s.Sources[0].Topic != "events" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestRedriveIsSteered(t *testing.T) {
	b := newErrorsBench(t)
	b.redrives.latest, b.redrives.running = 2, true
	b.redrives.status = contract.RedriveStatus{
		Name: "orders", State: contract.RedriveWaiting, Left: 7, Counts: contract.RedriveCounts{Taken: 3, Loaded: 3},
		Retry: contract.RetryState{State: "load", Class: 10, Attempts: 5, Error: "nobody listens"},
	}
	for _, verb := range []string{"pause", "resume", "cancel"} {
		if got := b.run(verb, "orders"); got.code != exitOK || !strings.Contains(got.err, "redrive/orders/2") {
			t.Errorf("%s: %s", verb, got)
		}
	}
	if fmt.Sprint(b.redrives.calls) != "[pause redrive/orders/2 resume redrive/orders/2 cancel redrive/orders/2]" {
		t.Error(b.redrives.calls)
	}
	if got := b.run("status", "orders"); got.code != exitOK || !strings.Contains(got.out, "waits in load, class 10 sink-unavailable, attempt 5: nobody listens") {
		t.Error(got)
	}
	b.redrives.running, b.redrives.state = false, stateCancelled
	b.redrives.status.State = contract.RedriveCancelled
	if got := b.run("status", "orders"); got.code != exitCancelled || !strings.Contains(got.out, "left") {
		t.Error(got)
	}
	b.redrives.state = stateTerminated
	if got := b.run("status", "orders"); got.code != exitFailed || !strings.Contains(got.err, "without a summary") {
		t.Error(got)
	}
}

func TestDiscard(t *testing.T) {
	b := newErrorsBench(t)
	before := len(b.log.recs[loadErrorsTopic+"/0"])
	if got := b.run("discard", "orders", "--class", "items-failed", "--reason", "old shop"); got.code != exitOK || !strings.Contains(got.err, "2 discarded") {
		t.Error(got)
	}
	if n := len(b.log.recs[loadErrorsTopic+"/0"]) - before; n != 1 {
		t.Errorf("%d resolutions in partition 0", n)
	}
	last := b.log.recs[loadErrorsTopic+"/0"][before]
	f, ok := ingest.ParseFailure(&last)
	if !ok || f.ID != "events-0-2" || f.Resolution != ingest.Discarded || f.Reason != "old shop" || string(last.Key) != f.ID || last.Value == nil || len(last.Value) != 0 {
		t.Errorf("%+v", f)
	}
	if got := b.run("discard", "orders", "--class", "items-failed", "--reason", "old shop"); !strings.Contains(got.err, ": 0 discarded") {
		t.Errorf("again: %s", got)
	}
	if got := b.run("orders"); strings.Count(got.out, "\n") != 2 {
		t.Errorf("left: %s", got)
	}
	b.log.appendErr = fail(exitUnreachable, "Kafka is away")
	if got := b.run("discard", "orders", "--class", "7", "--reason", "x"); got.code != exitUnreachable || !strings.Contains(got.err, "repeat the command") {
		t.Error(got)
	}
}

func TestShowPrintsWhatItCan(t *testing.T) {
	b := newErrorsBench(t)
	put := func(offset int64, change func(f *ingest.Failure)) string {
		f := aFailure("raw", offset, ingest.InvalidFormat, "no")
		change(&f)
		b.log.state(loadErrorsTopic, 1, f)
		return f.ID
	}
	for _, c := range []struct {
		want   string
		change func(f *ingest.Failure)
	}{
		{"00000000  00 ff 0a", func(f *ingest.Failure) { f.Original.Value = []byte{0, 255, 10} }},
		{"10 B, text\n  plain text", func(f *ingest.Failure) { f.Original.Value = []byte("plain\ttext") }},
		{"00000000  1b 5b", func(f *ingest.Failure) { f.Original.Value = []byte("\x1b[31m") }},
		{"none: a tombstone", func(f *ingest.Failure) { f.Original.Value = nil }},
		{"stayed in the source", func(f *ingest.Failure) { f.Pointer = true }},
		{"(2 stayed in the source)", func(f *ingest.Failure) { f.Cut = 2 }},
		{"key        0x00ff", func(f *ingest.Failure) { f.Original.Key = []byte{0, 255} }},
	} {
		id := put(int64(len(b.log.recs[loadErrorsTopic+"/1"])), c.change)
		if got := b.run("show", "orders", id); got.code != exitOK || !strings.Contains(got.out, c.want) || strings.Contains(got.out, "\x1b") {
			t.Errorf("want %q: %s", c.want, got)
		}
	}
	long := put(99, func(f *ingest.Failure) { f.Original.Value = bytes.Repeat([]byte("x"), 3*maxValue) })
	if got, full := b.run("show", "orders", long), b.run("show", "orders", long, "--full"); len(got.out) > 2*maxValue || len(full.out) < 3*maxValue {
		t.Errorf("%d and %d bytes", len(got.out), len(full.out))
	}
}

func TestErrorsReadingFails(t *testing.T) {
	b := newErrorsBench(t)
	w := b.world()
	w.errors = func(context.Context) (errorTopics, error) { return nil, fail(exitUnreachable, "no broker") }
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}, world: w}
	var ee *exitError
	cmd := a.errorsCmd()
	cmd.SetArgs([]string{"orders"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); !errors.As(err, &ee) || ee.code != exitUnreachable {
		t.Error(err)
	}
}
