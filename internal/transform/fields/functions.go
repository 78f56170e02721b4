package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
)

// builtins are the functions of the library that expressions may call. Each
// takes time linear in its arguments and makes no more than it was given. None
// asks for the time or for this machine's zones, so a replay gives the same.
var builtins = []string{
	"len", "upper", "lower", "trimPrefix", "trimSuffix", "split", "indexOf", "lastIndexOf", "hasPrefix", "hasSuffix",
	"abs", "ceil", "floor", "round", "min", "max", "first", "last", "keys", "values",
}

// own are the functions that the library lacks, or that it would do without our
// bounds.
var own = map[string]func(...any) (any, error){
	"int": toInt, "float": toFloat, "string": toText, "trim": trim, "replace": replace, "join": join,
}

// operators are functions with the names of the operators that they stand for.
var operators = map[string]func(...any) (any, error){"+": plus, "-": minus, "*": times}

func options() (all []expr.Option) {
	all = append(all, expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes))
	for _, name := range builtins {
		all = append(all, expr.EnableBuiltin(name))
	}
	for _, table := range []map[string]func(...any) (any, error){own, operators} {
		for name, f := range table {
			all = append(all, expr.Function(name, f))
		}
	}
	return append(all, expr.Patch(arithmetic{}))
}

// maxText bounds a text that an expression makes, in bytes.
const maxText = 16 << 20

var (
	errOverflow = errors.New("the result does not fit into 64 bits: use float() on a number")
	errTooLong  = fmt.Errorf("the result is longer than %d bytes", maxText)
)

func plus(args ...any) (any, error) {
	if a, b, ok := pair[string](args); ok {
		if len(a)+len(b) > maxText {
			return nil, errTooLong
		}
		return a + b, nil
	}
	if a, b, ok := pair[int](args); ok {
		if sum := a + b; (sum > a) == (b > 0) {
			return sum, nil
		}
		return nil, errOverflow
	}
	a, b, err := floats("+", args)
	return a + b, err
}

func minus(args ...any) (any, error) {
	if len(args) == 1 {
		args = []any{0, args[0]}
	}
	if a, b, ok := pair[int](args); ok {
		if difference := a - b; (difference < a) == (b > 0) {
			return difference, nil
		}
		return nil, errOverflow
	}
	a, b, err := floats("-", args)
	return a - b, err
}

func times(args ...any) (any, error) {
	if a, b, ok := pair[int](args); ok {
		if a == 0 || b == 0 {
			return 0, nil
		}
		product := a * b
		if product/b != a || a == -1 && b == math.MinInt || b == -1 && a == math.MinInt {
			return nil, errOverflow
		}
		return product, nil
	}
	a, b, err := floats("*", args)
	return a * b, err
}

func pair[T any](args []any) (a, b T, ok bool) {
	if len(args) != 2 {
		return a, b, false
	}
	a, first := args[0].(T)
	b, second := args[1].(T)
	return a, b, first && second
}

func floats(operator string, args []any) (a, b float64, err error) {
	if len(args) == 2 {
		var first, second bool
		a, first = float(args[0])
		b, second = float(args[1])
		if first && second {
			return a, b, nil
		}
		return 0, 0, fmt.Errorf("%s takes numbers, or + two strings; it got %s and %s", operator, kind(args[0]), kind(args[1]))
	}
	return 0, 0, fmt.Errorf("%s takes two numbers", operator)
}

func float(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// kind names a value for people.
func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case int, float64:
		return "a number"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number with more digits than a float64 holds (float() rounds it)"
	case []any, []string:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprintf("%T", v)
	}
}

func single(name string, args []any) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%s() takes one value, not %d", name, len(args))
	}
	return args[0], nil
}

// toInt drops a fraction.
func toInt(args ...any) (any, error) {
	v, err := single("int", args)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case int:
		return v, nil
	case float64:
		if v >= -1<<63 && v < 1<<63 {
			return int(v), nil
		}
		return nil, errOverflow
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("int() cannot read %s", shown(v))
		}
		return int(n), nil
	}
	return nil, fmt.Errorf("int() takes a number or a string, not %s", kind(v))
}

func toFloat(args ...any) (any, error) {
	v, err := single("float", args)
	if err != nil {
		return nil, err
	}
	if f, ok := float(v); ok {
		return f, nil
	}
	text, ok := v.(string)
	if n, exact := v.(json.Number); exact {
		text, ok = string(n), true
	}
	if !ok {
		return nil, fmt.Errorf("float() takes a number or a string, not %s", kind(v))
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, fmt.Errorf("float() cannot read %s", shown(text))
	}
	return f, nil
}

func toText(args ...any) (any, error) {
	v, err := single("string", args)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return string(v), nil
	case int, float64, bool:
		text, err := appendValue(nil, v)
		return string(text), err
	}
	return nil, fmt.Errorf("string() takes a string, number or boolean, not %s", kind(v))
}

func trim(args ...any) (any, error) {
	v, err := single("trim", args)
	if err != nil {
		return nil, err
	}
	text, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("trim() takes a string, not %s", kind(v))
	}
	return strings.TrimSpace(text), nil
}

func replace(args ...any) (any, error) {
	texts, ok := allTexts(args)
	if !ok || len(texts) != 3 {
		return nil, errors.New("replace() takes three strings: text, old, new")
	}
	text, before, after := texts[0], texts[1], texts[2]
	if n := strings.Count(text, before); n > 0 && len(text)+n*(len(after)-len(before)) > maxText {
		return nil, errTooLong
	}
	return strings.ReplaceAll(text, before, after), nil
}

func join(args ...any) (any, error) {
	if len(args) != 2 {
		return nil, errors.New("join() takes an array of strings and a string")
	}
	texts, ok := args[0].([]string)
	if list, any := args[0].([]any); any {
		texts, ok = allTexts(list)
	}
	separator, isText := args[1].(string)
	if !ok || !isText {
		return nil, fmt.Errorf("join() takes an array of strings and a string, not %s and %s", kind(args[0]), kind(args[1]))
	}
	size := len(separator) * len(texts)
	for _, t := range texts {
		size += len(t)
	}
	if size > maxText {
		return nil, errTooLong
	}
	return strings.Join(texts, separator), nil
}

func allTexts(list []any) (texts []string, ok bool) {
	texts = make([]string, len(list))
	for i, v := range list {
		if texts[i], ok = v.(string); !ok {
			return nil, false
		}
	}
	return texts, true
}
