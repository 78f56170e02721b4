package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"trawl/internal/transform/rawjson"
)

// Bounds of an expression. Together with what vet refuses (loops, variables,
// ranges, patterns out of documents) they make time and memory a constant times
// the fields that it reads.
const (
	maxExpression = 4096
	maxNodes      = 500
	maxRead       = 8 << 20 // bytes of the fields that one evaluation reads
)

// Expression computes a value from the fields of a document. It is safe for
// concurrent use.
type Expression struct {
	text    string
	program *vm.Program
	names   []string
	vms     sync.Pool
}

// Compile checks an expression.
func Compile(text string) (*Expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("expression has %d bytes, more than %d", len(text), maxExpression)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %s", text, message(err))
	}
	v := vetter{names: map[string]bool{}, calls: map[string]bool{}}
	if err := v.vet(tree.Node); err != nil {
		return nil, fmt.Errorf("expression %q: %w", text, err)
	}
	env := types.Map{}
	for name := range v.names {
		if v.calls[name] {
			return nil, fmt.Errorf("expression %q: %s is a function here: copy the field to another name first", text, name)
		}
		env[name] = types.Any
	}
	program, err := expr.Compile(text, append(options(), expr.Env(env))...)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %s", text, message(err))
	}
	e := &Expression{text: text, program: program, names: slices.Sorted(maps.Keys(v.names))}
	e.vms.New = func() any { return new(vm.VM) }
	return e, nil
}

// message is an error of the library in one line.
func message(err error) string {
	if e, ok := errors.AsType[*file.Error](err); ok {
		return fmt.Sprintf("%s (column %d)", strings.ReplaceAll(e.Message, "\n", " "), e.Column+1)
	}
	return err.Error()
}

// Eval computes the value. get gives a field's value, nil if it is absent.
func (e *Expression) Eval(get func(name string) []byte) (any, error) {
	env := make(map[string]any, len(e.names))
	read := 0
	for _, name := range e.names {
		raw := get(name)
		if raw == nil {
			continue
		}
		if read += len(raw); read > maxRead {
			return nil, fmt.Errorf("expression %q reads more than %d bytes of fields", e.text, maxRead)
		}
		env[name] = rawjson.Value(raw, number)
	}
	m := e.vms.Get().(*vm.VM)
	out, err := m.Run(e.program, env)
	clear(m.Stack[:cap(m.Stack)])
	e.vms.Put(m)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %s%s", e.text, message(err), e.with(get))
	}
	return out, nil
}

// with shows the values that an expression failed on.
func (e *Expression) with(get func(string) []byte) string {
	var b strings.Builder
	for i, name := range e.names[:min(3, len(e.names))] {
		if i == 0 {
			b.WriteString(", with ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(name + "=")
		if raw := get(name); raw == nil {
			b.WriteString("nothing")
		} else {
			b.WriteString(rawjson.Show(raw))
		}
	}
	return b.String()
}

// Test is Eval for an expression that has to be true or false.
func (e *Expression) Test(get func(string) []byte) (bool, error) {
	out, err := e.Eval(get)
	if err != nil {
		return false, err
	}
	ok, isBool := out.(bool)
	if !isBool {
		return false, fmt.Errorf("expression %q gives %s, not true or false%s", e.text, kind(out), e.with(get))
	}
	return ok, nil
}

// arithmetic puts our functions in the place of the operators that would wrap
// around without a word.
type arithmetic struct{}

// Visit is called by the library for every node, leaves first.
func (arithmetic) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		if operators[n.Operator] != nil {
			ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: n.Operator}, Arguments: []ast.Node{n.Left, n.Right}})
		}
	case *ast.UnaryNode:
		if n.Operator == "-" {
			ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: "-"}, Arguments: []ast.Node{n.Node}})
		}
	}
}

// appendValue writes a value that an expression gave.
func appendValue(dst []byte, v any) (out []byte, err error) {
	if len(dst) > maxText {
		return nil, errTooLong
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case float64:
		return appendFloat(dst, v)
	case json.Number:
		return append(dst, v...), nil
	case string:
		return rawjson.Quote(dst, v), nil
	case []string:
		return appendList(dst, v)
	case []any:
		return appendList(dst, v)
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(rawjson.Quote(dst, name), ':')
			if dst, err = appendValue(dst, v[name]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return nil, fmt.Errorf("the result is %s, which is no JSON value", kind(v))
}

func appendList[T any](dst []byte, list []T) (out []byte, err error) {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, v); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func shown(text string) string { return rawjson.Show([]byte(strconv.Quote(text))) }
