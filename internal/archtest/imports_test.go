package archtest

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers is the table of allowed imports within the project: a directory, and
// the directories that its files (not its tests) may import. A directory that
// is not in the table is an error, so a new package gets a place before it
// gets users. Programs come first, then workflows and activities, then the
// packages of internal, those that import nothing last.
var layers = map[string][]string{
	"worker":  {"activities", "workflows", "internal/..."},
	"starter": {"workflows", "internal/..."},

	"activities": {"workflows", "internal/..."},
	"workflows":  {"internal/contract"},

	"internal/ingest":              {"internal/contract", "internal/extract", "internal/frontier", "internal/kafkalog", "internal/page", "internal/sink", "internal/spec", "internal/weburl"},
	"internal/redrive":             {"internal/contract", "internal/ingest", "internal/kafkalog", "internal/sink"},
	"internal/extract":             {"internal/links", "internal/markup", "internal/page", "internal/spec", "internal/weburl"},
	"internal/fetch":               {"internal/contract", "internal/links", "internal/page", "internal/robots", "internal/spec", "internal/weburl"},
	"internal/fetch/batch":         {"internal/contract", "internal/fetch", "internal/frontier", "internal/kafkalog", "internal/links", "internal/page", "internal/robots", "internal/spec", "internal/weburl"},
	"internal/frontier":            {"internal/contract", "internal/kafkalog", "internal/robots", "internal/spec", "internal/weburl"},
	"internal/links":               {"internal/markup", "internal/page", "internal/weburl"},
	"internal/sink/elastic":        {"internal/sink"},
	"internal/sink/elastic/estest": {},
	"internal/sink/sqlite":         {"internal/sink"},
	"internal/sink/files":          {"internal/sink"},
	"internal/sink/sinktest":       {"internal/sink"},
	"internal/transform":           {"internal/extract", "internal/ingest", "internal/kafkalog", "internal/page", "internal/sink", "internal/spec", "internal/transform/..."},
	"internal/transform/fields":    {"internal/sink", "internal/spec", "internal/transform/rawjson", "internal/transform/when"},
	"internal/transform/rawjson":   {},
	"internal/transform/when":      {"internal/spec", "internal/transform/rawjson"},
	"internal/weburl":              {"internal/spec"},

	"internal/archtest":         {},
	"internal/contract":         {},
	"internal/kafkalog":         {},
	"internal/kafkalog/logtest": {"internal/kafkalog"},
	"internal/markup":           {},
	"internal/page":             {},
	"internal/robots":           {},
	"internal/settings":         {},
	"internal/sink":             {},
	"internal/spec":             {},
	"bench/web":                 {},
	"bench/cmd/webserver":       {"bench/web"},
	"bench/contender":           {},
	"bench/cmd/contender":       {"bench/contender"},
	"bench/load":                {"internal/contract", "internal/ingest", "internal/kafkalog", "internal/sink", "internal/sink/elastic", "internal/sink/sqlite", "internal/spec", "internal/transform"},
	"bench/cmd/benchload":       {"bench/load"},
	"bench/runner":              {"internal/contract"},
	"bench/cmd/bench":           {"bench/runner"},
	"deploy":                    {},
	"dev":                       {"dev/stack"},
	"dev/stack":                 {},
	"dev/samplesite":            {},
	"dev/cmd/demo":              {"dev/samplesite"},
}

// never holds for tests, too: the base must not know what stands on it.
var never = map[string][]string{
	"internal/":  {"activities", "workflows", "worker", "starter", "dev"},
	"workflows":  {"activities", "worker", "starter", "dev"},
	"activities": {"worker", "starter", "dev"},
	"worker":     {"dev"},
	"starter":    {"dev"},
	"bench/":     {"dev"},
}

func under(dir, prefix string) bool {
	return dir == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(dir, strings.TrimSuffix(prefix, "/")+"/")
}

func layerRule(files []file) (bad []string) {
	for _, f := range files {
		if f.dir == "." || under(f.dir, "dev/e2e") || under(f.dir, "dev/internal") {
			continue
		}
		allowed, known := layers[f.dir]
		if !known && !f.test {
			bad = append(bad, fmt.Sprintf("%s: package %s is not in the table of layers: give it a line", f.at(f.ast.Name), f.dir))
			continue
		}
		for imp := range maps.Keys(f.imports()) {
			to, ours := strings.CutPrefix(imp, "trawl/")
			if !ours {
				continue
			}
			if !f.test && !slices.ContainsFunc(allowed, func(a string) bool { return matches(to, a) }) {
				bad = append(bad, fmt.Sprintf("%s: %s imports %s, which its line in the table of layers does not allow", f.at(f.ast.Name), f.dir, to))
			}
			for from, banned := range never {
				if under(f.dir, from) && slices.ContainsFunc(banned, func(b string) bool { return under(to, b) }) {
					bad = append(bad, fmt.Sprintf("%s: %s imports %s, which stands above it", f.at(f.ast.Name), f.dir, to))
				}
			}
		}
	}
	return bad
}

func matches(dir, pattern string) bool {
	if base, all := strings.CutSuffix(pattern, "/..."); all {
		return under(dir, base)
	}
	return dir == pattern
}

func TestLayers(t *testing.T) { holds(t, layerRule) }

func TestLayersAreCaught(t *testing.T) {
	for _, c := range []struct{ path, imp, want string }{
		{"internal/page/x.go", "trawl/internal/spec", "does not allow"},
		{"internal/page/x_test.go", "trawl/internal/spec", ""},
		{"internal/page/x_test.go", "trawl/workflows", "stands above"},
		{"internal/ingest/x.go", "trawl/activities", "stands above"},
		{"internal/sink/sqlite/x.go", "trawl/internal/sink/elastic", "does not allow"},
		{"workflows/x.go", "trawl/internal/spec", "does not allow"},
		{"workflows/x.go", "trawl/internal/contract", ""},
		{"worker/x.go", "trawl/dev/stack", "stands above"},
		{"worker/x.go", "trawl/internal/settings", ""},
		{"internal/newcomer/x.go", "fmt", "not in the table"},
		{"dev/samplesite/x.go", "trawl/dev/stack", "does not allow"},
	} {
		catches(t, layerRule, c.want, map[string]string{c.path: "package x\nimport _ \"" + c.imp + "\"\n"})
	}
}

// workflowImports is all that workflow code may import. What is not here (os,
// net, sync, math/rand, a uuid) would make a replay differ from its history.
var workflowImports = []string{
	"bytes", "cmp", "encoding/base64", "encoding/binary", "encoding/json", "errors", "fmt", "iter", "maps", "math", "math/bits",
	"slices", "sort", "strconv", "strings", "time",
	"trawl/internal/contract",
	"go.temporal.io/api/enums/v1", "go.temporal.io/sdk/log", "go.temporal.io/sdk/temporal", "go.temporal.io/sdk/workflow",
}

func workflowImportRule(files []file) (bad []string) {
	for _, f := range files {
		if f.dir != "workflows" || f.test {
			continue
		}
		for imp := range maps.Keys(f.imports()) {
			if !slices.Contains(workflowImports, imp) {
				bad = append(bad, fmt.Sprintf("%s: workflow code imports %s; only the SDK, contract and pure packages are allowed", f.at(f.ast.Name), imp))
			}
		}
	}
	return bad
}

func TestWorkflowImports(t *testing.T) { holds(t, workflowImportRule) }

func TestWorkflowImportsAreCaught(t *testing.T) {
	for imp, want := range map[string]string{
		"os": "imports os", "sync": "imports sync", "math/rand/v2": "math/rand", "net/http": "net/http",
		"github.com/google/uuid": "uuid", "go.temporal.io/sdk/client": "sdk/client", "time": "", "go.temporal.io/sdk/workflow": "",
	} {
		catches(t, workflowImportRule, want, map[string]string{"workflows/x.go": "package workflows\nimport _ \"" + imp + "\"\n"})
	}
}

// owners are the only directories whose files (not tests) may import a module.
var owners = map[string][]string{
	"github.com/segmentio/kafka-go":   {"internal/kafkalog/...", "bench/load"},
	"github.com/twmb/franz-go":        {"internal/kafkalog/logtest", "dev/..."},
	"github.com/gocolly/colly":        {"internal/fetch/...", "bench/contender"},
	"github.com/expr-lang/expr":       {"internal/transform/fields"},
	"github.com/olivere/elastic":      {"internal/sink/elastic"},
	"modernc.org/sqlite":              {"internal/sink/sqlite", "dev/stack", "bench/load"},
	"github.com/nlnwa/whatwg-url":     {"internal/weburl", "internal/spec"},
	"github.com/spf13/cobra":          {"starter", "worker"},
	"go.temporal.io/sdk":              {"starter", "worker", "workflows", "activities", "internal/settings", "dev/...", "bench/runner"},
	"go.temporal.io/server":           {"dev", "dev/stack"},
	"github.com/temporalio/ui-server": {"dev", "dev/stack"},
}

func ownerRule(files []file) (bad []string) {
	for _, f := range files {
		if f.test {
			continue
		}
		for imp := range maps.Keys(f.imports()) {
			for module, dirs := range owners {
				if under(imp, module) && !slices.ContainsFunc(dirs, func(d string) bool { return matches(f.dir, d) }) {
					bad = append(bad, fmt.Sprintf("%s: %s imports %s, which only %s may", f.at(f.ast.Name), f.dir, imp, strings.Join(dirs, ", ")))
				}
			}
		}
	}
	return bad
}

func TestModulesHaveOwners(t *testing.T) { holds(t, ownerRule) }

func TestForeignModulesAreCaught(t *testing.T) {
	for p, want := range map[string]string{
		"internal/ingest/x.go":      "kafka-go",
		"internal/ingest/x_test.go": "",
		"internal/kafkalog/x.go":    "",
	} {
		catches(t, ownerRule, want, map[string]string{p: "package x\nimport _ \"github.com/segmentio/kafka-go/protocol\"\n"})
	}
	catches(t, ownerRule, "go.temporal.io/server", map[string]string{"worker/x.go": "package x\nimport _ \"go.temporal.io/server/temporal\"\n"})
}

// unlinked must not be in a production binary, by any way.
var unlinked = []string{"go.temporal.io/server", "github.com/temporalio/ui-server", "trawl/dev", "trawl/bench", "github.com/twmb/franz-go", "github.com/compose-spec"}

func linkedRule(program string, deps []string) (bad []string) {
	for _, d := range deps {
		if slices.ContainsFunc(unlinked, func(u string) bool { return under(d, u) }) {
			bad = append(bad, fmt.Sprintf("%s is linked with %s", program, d))
		}
	}
	return bad
}

func TestProgramsAreNotLinkedWithServers(t *testing.T) {
	for _, program := range []string{"worker", "starter"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "trawl/"+program).Output()
		if err != nil {
			t.Errorf("go list -deps trawl/%s: %v", program, err)
			continue
		}
		deps := strings.Fields(string(out))
		if len(deps) < 50 {
			t.Errorf("%s has %d dependencies: the rule would hold of nothing", program, len(deps))
		}
		for _, v := range linkedRule(program, deps) {
			t.Error(v)
		}
	}
}

func TestLinkedServersAreCaught(t *testing.T) {
	if got := linkedRule("worker", []string{"fmt", "go.temporal.io/server/common"}); len(got) != 1 {
		t.Errorf("rule says %q", got)
	}
	if got := linkedRule("worker", []string{"fmt", "go.temporal.io/sdk/worker", "go.temporal.io/serverless"}); len(got) != 0 {
		t.Errorf("rule says %q of good dependencies", got)
	}
}
