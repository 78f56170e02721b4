package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"testing"
)

// errorClasses are the classes of internal/ingest. To compare with one, or to
// ask what kind of error somebody gave, is to decide what an error means: that
// is for classify.go and table.go alone. A transform may state one, in a
// RecordError.
var errorClasses = []string{
	"Uncategorised", "KafkaUnavailable", "TopicNotFound", "PartitionNotFound", "MessageTooBig", "OffsetNotFound", "Network",
	"InvalidFormat", "InvalidEvent", "TransformFailed", "SinkUnavailable", "SinkFailed", "ItemsFailed", "SinkRefused",
}

// errorKinds of the clients: what tells their errors apart.
var errorKinds = map[string][]string{
	"sink": {"RequestError", "UnavailableError", "AnswerError", "ErrNoIndex"},
	"kafkalog": {
		"KindOf", "KindOther", "KindUnavailable", "KindTopic", "KindPartition", "KindTooLarge", "KindOffset", "KindNetwork", "ErrTooLarge",
	},
}

var deciders = []string{"internal/ingest/class.go", "internal/ingest/classify.go", "internal/ingest/table.go"}

func classRule(files []file) (bad []string) {
	for _, f := range files {
		if f.test || slices.Contains(deciders, path.Join(f.dir, f.name)) {
			continue
		}
		_, uses := f.imports()["trawl/internal/ingest"]
		inside := under(f.dir, "internal/ingest")
		if !uses && !inside {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			for _, e := range compared(n) {
				if name := className(e, inside); name != "" {
					bad = append(bad, fmt.Sprintf("%s: compares with class %s: what an error means is decided in classify.go", f.at(n), name))
				}
				if inside && clientKind(e) {
					bad = append(bad, fmt.Sprintf("%s: asks what a client's error is: that is decided in classify.go", f.at(n)))
				}
			}
			if e, ok := n.(*ast.IndexExpr); ok && inside { // errors.AsType[*sink.RequestError]
				if star, ok := e.Index.(*ast.StarExpr); ok && clientKind(star.X) {
					bad = append(bad, fmt.Sprintf("%s: asks what a client's error is: that is decided in classify.go", f.at(n)))
				}
			}
			return true
		})
	}
	return bad
}

// compared gives what a node compares.
func compared(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			return []ast.Expr{n.X, n.Y}
		}
	case *ast.CaseClause:
		return n.List
	case *ast.CallExpr: // errors.Is and slices.Contains compare, too
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Is" || s.Sel.Name == "Contains" || s.Sel.Name == "KindOf") {
			return append(slices.Clone(n.Args), s)
		}
	}
	return nil
}

// className is the class that an expression names, as ingest.Network or, in the
// package itself, Network.
func className(e ast.Expr, inside bool) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "ingest" && slices.Contains(errorClasses, e.Sel.Name) {
			return e.Sel.Name
		}
	case *ast.Ident:
		if inside && slices.Contains(errorClasses, e.Name) {
			return e.Name
		}
	}
	return ""
}

func clientKind(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && slices.Contains(errorKinds[x.Name], s.Sel.Name)
}

func TestOnlyOnePlaceDecidesWhatAnErrorMeans(t *testing.T) { holds(t, classRule) }

func TestForeignDecisionsAreCaught(t *testing.T) {
	const head = "package x\nimport (\n\"errors\"\n\"trawl/internal/ingest\"\n\"trawl/internal/kafkalog\"\n\"trawl/internal/sink\"\n)\n"
	for body, want := range map[string]string{
		"_ = class == ingest.Network":                              "class Network",
		"if class != ingest.ItemsFailed { return }":                "class ItemsFailed",
		"switch class { case 1, ingest.SinkRefused: }":             "class SinkRefused",
		"err = &ingest.RecordError{Class: ingest.InvalidEvent}":    "",
		"if kafkalog.KindOf(err) == kafkalog.KindTopic { return }": "",
	} {
		src := head + "func f() { " + body + " }\n"
		catches(t, classRule, want, map[string]string{"activities/x.go": src})
		catches(t, classRule, "", map[string]string{"internal/ingest/classify.go": src})
	}
	for body, want := range map[string]string{
		"_ = class == Network":                            "class Network",
		"_ = kafkalog.KindOf(err) == kafkalog.KindTopic":  "client's error",
		"_, _ = errors.AsType[*sink.RequestError](err)":   "client's error",
		"_ = errors.Is(err, sink.ErrNoIndex)":             "client's error",
		"_, _ = errors.AsType[*kafkalog.BatchError](err)": "",
		"return &sink.AnswerError{}":                      "",
	} {
		catches(t, classRule, want, map[string]string{"internal/ingest/x.go": head + "func f() { " + body + " }\n"})
	}
}
