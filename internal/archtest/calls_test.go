package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// uses finds every pkg.Name in a file, where pkg is the local name of an
// import that pred accepts. kind says how it is used: "call", "literal" or "".
func uses(f file, pred func(imp string) bool, visit func(n ast.Node, name, kind string)) {
	local := map[string]bool{}
	for imp, name := range f.imports() {
		if pred(imp) {
			local[name] = true
		}
	}
	if len(local) == 0 {
		return
	}
	selector := func(e ast.Expr) (string, bool) {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return "", false
		}
		x, ok := s.X.(*ast.Ident)
		return s.Sel.Name, ok && local[x.Name]
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name, ok := selector(n.Fun); ok {
				visit(n, name, "call")
			}
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" && len(n.Args) == 1 {
				if name, ok := selector(n.Args[0]); ok {
					visit(n, name, "literal")
				}
			}
		case *ast.CompositeLit:
			if name, ok := selector(n.Type); ok {
				visit(n, name, "literal")
			}
		case *ast.SelectorExpr:
			if name, ok := selector(n); ok {
				visit(n, name, "")
			}
		}
		return true
	})
}

// kafkaClients are the types of kafka-go that reach a broker.
var kafkaClients = []string{"Client", "Transport", "Writer", "Reader", "Dialer", "ConsumerGroup", "Conn"}

func kafkaRule(files []file) (bad []string) {
	for _, f := range files {
		if under(f.dir, "internal/kafkalog") || f.dir == "bench/load" { // has the program that the loader is measured against
			continue
		}
		uses(f, func(imp string) bool { return under(imp, "github.com/segmentio/kafka-go") }, func(n ast.Node, name, kind string) {
			made := kind == "literal" && slices.Contains(kafkaClients, name)
			called := kind == "call" && (strings.HasPrefix(name, "New") || strings.HasPrefix(name, "Dial"))
			if made || called {
				bad = append(bad, fmt.Sprintf("%s: kafka.%s is constructed outside internal/kafkalog", f.at(n), name))
			}
		})
	}
	return bad
}

func TestOnlyKafkalogConstructsClients(t *testing.T) { holds(t, kafkaRule) }

func TestForeignKafkaClientsAreCaught(t *testing.T) {
	for expr, want := range map[string]string{
		"kafka.Client{}":          "kafka.Client",
		"&kafka.Transport{}":      "kafka.Transport",
		"new(kafka.Writer)":       "kafka.Writer",
		"kafka.NewReader(nil)":    "kafka.NewReader",
		"kafka.DialLeader(nil)":   "kafka.DialLeader",
		"kafka.Message{}":         "",
		"kafka.UnknownTopicError": "",
	} {
		src := "package x\nimport \"github.com/segmentio/kafka-go\"\nvar v = " + expr + "\n"
		catches(t, kafkaRule, want, map[string]string{"internal/ingest/x_test.go": src})
		catches(t, kafkaRule, "", map[string]string{"internal/kafkalog/x.go": src})
	}
	renamed := "package x\nimport k \"github.com/segmentio/kafka-go\"\nvar v = k.Client{}\n"
	catches(t, kafkaRule, "kafka.Client", map[string]string{"activities/x.go": renamed})
}

// httpClients may make HTTP requests. A page request made anywhere else would
// escape the address policy, robots.txt and the delay.
var httpClients = []string{"internal/fetch/...", "internal/sink/elastic", "dev/...", "bench/..."}

func httpRule(files []file) (bad []string) {
	for _, f := range files {
		if f.test || slices.ContainsFunc(httpClients, func(d string) bool { return matches(f.dir, d) }) {
			continue
		}
		uses(f, func(imp string) bool { return imp == "net/http" }, func(n ast.Node, name, kind string) {
			made := kind == "literal" && (name == "Client" || name == "Transport")
			called := kind == "call" && slices.Contains([]string{"Get", "Head", "Post", "PostForm"}, name)
			if made || called || name == "DefaultClient" || name == "DefaultTransport" {
				bad = append(bad, fmt.Sprintf("%s: http.%s is used in %s, which may make no HTTP request", f.at(n), name, f.dir))
			}
		})
	}
	return bad
}

func TestOnlyFetchAndSinksMakeRequests(t *testing.T) { holds(t, httpRule) }

func TestForeignRequestsAreCaught(t *testing.T) {
	for expr, want := range map[string]string{
		"http.Client{}":         "http.Client",
		"&http.Transport{}":     "http.Transport",
		"http.DefaultClient.Do": "http.DefaultClient",
		"http.Server{}":         "",
		"http.StatusOK":         "",
	} {
		src := "package x\nimport \"net/http\"\nvar v = " + expr + "\n"
		catches(t, httpRule, want, map[string]string{"activities/x.go": src})
		catches(t, httpRule, "", map[string]string{"internal/fetch/x.go": src})
	}
	catches(t, httpRule, "http.Get", map[string]string{"internal/ingest/x.go": "package x\nimport \"net/http\"\nvar v, _ = http.Get(\"\")\n"})
}

// bannedTime reads or waits by the clock of the machine.
var bannedTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func workflowCallRule(files []file) (bad []string) {
	for _, f := range files {
		if f.dir != "workflows" || f.test {
			continue
		}
		uses(f, func(imp string) bool { return imp == "time" }, func(n ast.Node, name, _ string) {
			if slices.Contains(bannedTime, name) {
				bad = append(bad, fmt.Sprintf("%s: workflow code uses time.%s; use the workflow package's", f.at(n), name))
			}
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				bad = append(bad, fmt.Sprintf("%s: workflow code uses Go's own concurrency; use the workflow package's", f.at(n)))
			}
			return true
		})
	}
	return bad
}

func TestWorkflowCalls(t *testing.T) { holds(t, workflowCallRule) }

func TestWorkflowCallsAreCaught(t *testing.T) {
	for body, want := range map[string]string{
		"_ = time.Now()":              "time.Now",
		"f := time.Sleep; f(0)":       "time.Sleep",
		"go func() {}()":              "concurrency",
		"select {}":                   "concurrency",
		"_ = make(chan int)":          "concurrency",
		"_ = 3 * time.Second":         "",
		"_ = time.Time{}.Add(1 << 3)": "",
	} {
		src := "package workflows\nimport \"time\"\nfunc f() { " + body + " }\n"
		catches(t, workflowCallRule, want, map[string]string{"workflows/x.go": src})
		catches(t, workflowCallRule, "", map[string]string{"activities/x.go": src})
	}
}

// commentRule wants every package to say what it is.
func commentRule(files []file) (bad []string) {
	said, dirs := map[string]bool{}, map[string]file{}
	for _, f := range files {
		if f.test {
			continue
		}
		dirs[f.dir] = f
		if f.ast.Doc != nil && len(strings.Fields(f.ast.Doc.Text())) >= 8 {
			said[f.dir] = true
		}
	}
	for dir, f := range dirs {
		if !said[dir] {
			bad = append(bad, fmt.Sprintf("%s: package %s has no comment that says what it owns and what it refuses", f.at(f.ast.Name), dir))
		}
	}
	return bad
}

func TestEveryPackageHasAComment(t *testing.T) { holds(t, commentRule) }

func TestMissingCommentsAreCaught(t *testing.T) {
	catches(t, commentRule, "internal/x", map[string]string{"internal/x/x.go": "package x\n"})
	catches(t, commentRule, "internal/x", map[string]string{"internal/x/x.go": "// Package x.\npackage x\n"})
	catches(t, commentRule, "", map[string]string{
		"internal/x/x.go": "package x\n",
		"internal/x/y.go": "// Package x owns the x of all y. It refuses z.\npackage x\n",
	})
}
