package fields

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// vetter allows the parts of the library's language that are bounded, and notes
// the fields and functions that are used. What it does not know it refuses.
type vetter struct{ names, calls map[string]bool }

var errLoops = errors.New("variables, ranges and functions with a body are not part of it: they have no bound")

func (v *vetter) vet(n ast.Node) error {
	switch n := n.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		return nil
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			return errors.New(`$env stands for no field alone: write $env["name"]`)
		}
		v.names[n.Value] = true
		return nil
	case *ast.MemberNode:
		return v.member(n)
	case *ast.UnaryNode:
		return v.vet(n.Node)
	case *ast.BinaryNode:
		return v.binary(n)
	case *ast.ChainNode:
		return v.vet(n.Node)
	case *ast.SliceNode:
		return v.all(n.Node, n.From, n.To)
	case *ast.ConditionalNode:
		return v.all(n.Cond, n.Exp1, n.Exp2)
	case *ast.ArrayNode:
		return v.all(n.Nodes...)
	case *ast.MapNode:
		return v.all(n.Pairs...)
	case *ast.PairNode:
		return v.all(n.Key, n.Value)
	case *ast.BuiltinNode:
		return v.call(n.Name, n.Arguments)
	case *ast.CallNode:
		name, ok := n.Callee.(*ast.IdentifierNode)
		if !ok {
			return errors.New("values have no methods")
		}
		return v.call(name.Value, n.Arguments)
	}
	return errLoops
}

func (v *vetter) all(nodes ...ast.Node) error {
	for _, n := range nodes {
		if n == nil {
			continue
		}
		if err := v.vet(n); err != nil {
			return err
		}
	}
	return nil
}

func (v *vetter) member(n *ast.MemberNode) error {
	if env, ok := n.Node.(*ast.IdentifierNode); ok && env.Value == "$env" {
		name, ok := n.Property.(*ast.StringNode)
		if !ok {
			return errors.New(`a field is named by a text: write $env["name"]`)
		}
		v.names[name.Value] = true
		return nil
	}
	return v.all(n.Node, n.Property)
}

func (v *vetter) binary(n *ast.BinaryNode) error {
	switch n.Operator {
	case "..":
		return errLoops
	case "matches":
		if _, ok := n.Right.(*ast.StringNode); !ok {
			return errors.New("the pattern of matches has to be a text, not computed")
		}
	}
	return v.all(n.Left, n.Right)
}

func (v *vetter) call(name string, args []ast.Node) error {
	if own[name] == nil && !slices.Contains(builtins, name) {
		known := append(slices.Collect(maps.Keys(own)), builtins...)
		slices.Sort(known)
		return fmt.Errorf("there is no function %s here, but %s", name, strings.Join(known, ", "))
	}
	v.calls[name] = true
	return v.all(args...)
}
