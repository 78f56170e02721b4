package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trawl/internal/contract"
	"trawl/internal/settings"
	"trawl/internal/spec"
	"trawl/workflows"
)

// inDir gives the starter a data directory with an id; empty: no worker has used it.
func (f *fakes) inDir(t *testing.T, id string) {
	t.Helper()
	f.dataDir = t.TempDir()
	if id == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(f.dataDir, settings.DataDirFile), []byte(id), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDeleteOfACrawlInAnotherDataDirectory: its index is not here, so nothing goes.
func TestDeleteOfACrawlInAnotherDataDirectory(t *testing.T) {
	const name = "docs-example-org"
	for title, tt := range map[string]struct {
		kind, queue, mine string
		args              string
		code              int
		want              string
		dropped           int
	}{
		"elsewhere":          {"sqlite", "d1", "d2", "", exitUsage, "nothing was deleted: the index (sqlite) of crawl " + name + ", generation " + gen1 + ", is in the data directory whose file id says d1", 0},
		"the remedy":         {"files", "d1", "d2", "", exitUsage, "has the id d2; run this where that directory is, with TRAWL_DATA_DIR set to it, or leave the index as it is with --keep-index", 0},
		"a fresh directory":  {"sqlite", "d1", "", "", exitUsage, "has none: no worker has used it", 0},
		"the index may stay": {"sqlite", "d1", "d2", "--keep-index", exitOK, "its index stays", 0},
		"here":               {"sqlite", "d1", "d1", "", exitOK, "deleted, 1 generation(s)", 1},
		"never decided":      {"sqlite", "", "d2", "", exitOK, "deleted, 1 generation(s)", 1},
		"not in a directory": {"elastic", "d1", "d2", "", exitOK, "deleted, 1 generation(s)", 1},
	} {
		t.Run(title, func(t *testing.T) {
			f := newFakes()
			f.inDir(t, tt.mine)
			g := f.add(t, gen1, docs(t, func(s *spec.Spec) { s.Sink.Kind = tt.kind }), nil)
			if tt.queue != "" {
				f.queues = map[string]string{g.Topic("trawl", contract.TopicPages): workflows.DataQueue(tt.queue)}
			}
			got := f.run(strings.Fields("delete " + name + " --yes " + tt.args)...)
			if got.code != tt.code || !strings.Contains(got.err, tt.want) || len(f.dropped) != tt.dropped || (len(f.deleted) > 0) != (tt.code == exitOK) {
				t.Errorf("%s deleted %v, dropped %v", got, f.deleted, f.dropped)
			}
		})
	}
}

// TestDeleteTakesTheGenerationsThatAreHere: where each directory has one, each can
// delete its own.
func TestDeleteTakesTheGenerationsThatAreHere(t *testing.T) {
	const name, gen2 = "docs-example-org", "20260203t000000"
	f := newFakes()
	f.queues = map[string]string{}
	for gen, id := range map[string]string{gen1: "d1", gen2: "d2"} {
		g := f.add(t, gen, docs(t), nil)
		f.queues[g.Topic("trawl", contract.TopicPages)] = workflows.DataQueue(id)
	}
	f.inDir(t, "d2")
	got := f.run("delete", name, "--yes")
	if got.code != exitUsage || !strings.Contains(got.err, "deleted, 1 generation(s), others are not: the index (sqlite) of crawl "+name+", generation "+gen1+",") ||
		strings.Join(f.dropped, ",") != name+" "+name+"-"+gen2 || len(f.deleted) != 1 {
		t.Errorf("%s deleted %v, dropped %v", got, f.deleted, f.dropped)
	}
	f.inDir(t, "d1")
	if got := f.run("delete", name, "--yes"); got.code != exitOK || len(f.deleted) != 2 || len(f.dropped) != 2 {
		t.Errorf("%s deleted %v, dropped %v", got, f.deleted, f.dropped)
	}
}

// TestDeleteOfALoadInAnotherDataDirectory: its positions stay, too.
func TestDeleteOfALoadInAnotherDataDirectory(t *testing.T) {
	const topic = "trawl.load.shop.errors"
	f := newFakes()
	f.load.specs = map[string]json.RawMessage{"shop": encoded(t, small)}
	f.topics.partitions = map[string]int{topic: 4}
	f.queues = map[string]string{topic: workflows.DataQueue("d1")}
	f.inDir(t, "d2")
	got := f.run("delete", "load/shop", "--yes")
	if got.code != exitUsage || !strings.Contains(got.err, "nothing was deleted: the index (sqlite) of load/shop is in the data directory whose file id says d1") ||
		len(f.dropped)+len(f.unplaced)+len(f.deleted) > 0 {
		t.Errorf("%s dropped %v, %v, %v", got, f.dropped, f.unplaced, f.deleted)
	}
	if got := f.run("delete", "load/shop", "--yes", "--keep-index"); got.code != exitOK || len(f.dropped) > 0 || len(f.deleted) != 1 {
		t.Errorf("%s dropped %v", got, f.dropped)
	}
	f.topics.partitions = map[string]int{topic: 4}
	f.inDir(t, "d1")
	if got := f.run("delete", "load/shop", "--yes"); got.code != exitOK || len(f.dropped) != 1 {
		t.Errorf("%s dropped %v", got, f.dropped)
	}
}

// TestDeleteOfALoadThatSharesItsIndex: what load/more writes does not go with
// load/shop.
func TestDeleteOfALoadThatSharesItsIndex(t *testing.T) {
	const sink = "sink: {kind: sqlite, index: goods}\n"
	topic := func(name string) string { return contract.LoadRun(name).Topic("trawl", contract.TopicErrors) }
	more := func(text string) json.RawMessage {
		return encoded(t, strings.Replace(small, "shop", "more", 1)+text)
	}
	shared := "nothing was deleted: load/more loads into the index goods (sqlite), too; starter delete load/shop --keep-index deletes the rest and leaves the index to load/more"
	for title, tt := range map[string]struct {
		state   string // of load/more
		spec    json.RawMessage
		topics  bool   // it was not deleted
		dir     string // that holds its index
		args    string
		code    int
		want    string
		dropped int
	}{
		"it has ended":      {stateCompleted, more(sink), true, "d1", "", exitTaken, shared, 0},
		"it has just begun": {stateRunning, more(sink), false, "", "", exitTaken, shared, 0},
		"the remedy":        {stateRunning, more(sink), true, "d1", "--keep-index", exitOK, "load/shop: deleted", 0},
		"it was deleted":    {stateCompleted, more(sink), false, "", "", exitOK, "deleted with its index goods", 1},
		"another index":     {stateRunning, more("sink: {kind: sqlite, index: others}\n"), true, "d1", "", exitOK, "deleted with its index goods", 1},
		"another kind":      {stateRunning, more("sink: {kind: files, index: goods}\n"), true, "d1", "", exitOK, "deleted with its index goods", 1},
		"another directory": {stateRunning, more(sink), true, "d2", "", exitOK, "deleted with its index goods", 1},
		"forgotten":         {stateCompleted, nil, true, "d1", "", exitOK, "deleted with its index goods", 1},
		"not readable":      {stateCompleted, json.RawMessage("{}"), true, "d1", "", exitFailed, "whether load/more loads into goods, too, is not known", 0},
		"deleted, and odd":  {stateCompleted, json.RawMessage("{}"), false, "", "", exitOK, "deleted with its index goods", 1},
	} {
		t.Run(title, func(t *testing.T) {
			f := newFakes()
			f.inDir(t, "d1")
			f.load.execs = map[string]execution{"load/shop": {State: stateCompleted}, "load/more": {State: tt.state}}
			f.load.specs = map[string]json.RawMessage{"shop": encoded(t, small+sink)}
			if tt.spec != nil {
				f.load.specs["more"] = tt.spec
			}
			f.topics.partitions = map[string]int{topic("shop"): 4}
			if tt.topics {
				f.topics.partitions[topic("more")] = 4
			}
			f.queues = map[string]string{topic("shop"): workflows.DataQueue("d1"), topic("more"): workflows.DataQueue(tt.dir)}
			if tt.dir == "" {
				delete(f.queues, topic("more"))
			}
			got := f.run(strings.Fields("delete load/shop --yes " + tt.args)...)
			if got.code != tt.code || !strings.Contains(got.err, tt.want) || len(f.dropped) != tt.dropped || (len(f.unplaced)+len(f.deleted) > 0) != (tt.code == exitOK) {
				t.Errorf("%s dropped %v, deleted %v", got, f.dropped, f.deleted)
			}
		})
	}
}
