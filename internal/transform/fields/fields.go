// Package fields changes documents: it renames, drops, sets, copies, parses
// dates, casts and computes, in the order that a spec says. What no operation
// names keeps its bytes. It refuses I/O, clocks and anything without a bound.
package fields

import (
	"errors"
	"fmt"
	"strings"

	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform/rawjson"
	"trawl/internal/transform/when"
)

// Plan is a list of operations, checked. It is safe for concurrent use.
type Plan struct{ steps []step }

type step struct {
	name string
	run  func(*work) error
}

// work is a document on its way through the steps.
type work struct {
	*rawjson.Object
	grown  int  // bytes that operations have set
	deeper bool // they may have nested it deeper
}

// maxGrown bounds what operations add to a document: copies of copies double it.
const maxGrown = 64 << 20

func (w *work) set(path string, value []byte) error {
	if w.grown += len(path) + len(value); w.grown > maxGrown {
		return fmt.Errorf("the operations add more than %d bytes", maxGrown)
	}
	w.deeper = w.deeper || strings.Contains(path, ".")
	return w.Set(path, value)
}

// put is set for a value that does not come from the document.
func (w *work) put(path string, value []byte) error {
	w.deeper = w.deeper || value[0] == '{' || value[0] == '['
	return w.set(path, value)
}

// New checks operations.
func New(ops []spec.FieldOp) (*Plan, error) {
	p := &Plan{steps: make([]step, len(ops))}
	for i, op := range ops {
		name, run, err := compile(op)
		if err != nil {
			return nil, fmt.Errorf("fields[%d]: %w", i, err)
		}
		p.steps[i] = step{fmt.Sprintf("fields[%d] %s", i, name), run}
	}
	return p, nil
}

// Empty says that there is nothing to do.
func (p *Plan) Empty() bool { return len(p.steps) == 0 }

// Apply gives the document after all operations, in memory of its own. The
// error names the operation, the field and its value.
func (p *Plan) Apply(d *rawjson.Doc) ([]byte, error) {
	w := &work{Object: rawjson.Edit(d.Members)}
	for i := range p.steps {
		if err := p.steps[i].run(w); err != nil {
			return nil, fmt.Errorf("%s: %w", p.steps[i].name, err)
		}
	}
	doc := w.Append(make([]byte, 0, w.Size()))
	if w.deeper {
		if depth := sink.Depth(doc); depth > rawjson.MaxDepth {
			return nil, fmt.Errorf("the operations nest the document %d deep, more than %d", depth, rawjson.MaxDepth)
		}
	}
	return doc, nil
}

// compile makes a function of one operation.
func compile(op spec.FieldOp) (name string, run func(*work) error, err error) {
	switch {
	case op.Rename != nil:
		name, run = "rename", rename(*op.Rename)
		err = paths("from", op.Rename.From, "to", op.Rename.To)
	case op.Drop != nil:
		name, run = "drop", drop(op.Drop)
		for _, path := range op.Drop {
			err = errors.Join(err, paths("drop", path))
		}
	case op.Set != nil:
		return set(*op.Set)
	case op.Copy != nil:
		name, run = "copy", duplicate(*op.Copy)
		err = paths("from", op.Copy.From, "to", op.Copy.To)
	case op.Date != nil:
		return date(*op.Date)
	case op.Cast != nil:
		return cast(*op.Cast)
	case op.Expr != nil:
		return compute(*op.Expr)
	default:
		err = errors.New("no operation: write one of rename, drop, set, copy, date, cast, expr")
	}
	return name, run, err
}

// paths checks pairs of a key and its path.
func paths(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if bad := rawjson.BadPath(pairs[i+1]); bad != "" {
			return fmt.Errorf("%s %q %s", pairs[i], pairs[i+1], bad)
		}
	}
	return nil
}

func rename(op spec.MoveOp) func(*work) error {
	return func(w *work) error {
		value := w.Get(op.From)
		if value == nil || op.From == op.To {
			return nil
		}
		w.Drop(op.From)
		return w.set(op.To, value)
	}
}

func duplicate(op spec.MoveOp) func(*work) error {
	return func(w *work) error {
		value := w.Get(op.From)
		if value == nil {
			return nil
		}
		return w.set(op.To, value)
	}
}

func drop(all []string) func(*work) error {
	return func(w *work) error {
		for _, path := range all {
			w.Drop(path)
		}
		return nil
	}
}

func set(op spec.SetOp) (name string, run func(*work) error, err error) {
	if err := paths("field", op.Field); err != nil {
		return "", nil, err
	}
	s := rawjson.Get()
	defer rawjson.Put(s)
	d, err := s.Scan(op.Value)
	if err != nil {
		return "", nil, fmt.Errorf("value of field %q: %w", op.Field, err)
	}
	value := d.Text
	return "set", func(w *work) error { return w.put(op.Field, value) }, nil
}

func date(op spec.DateOp) (name string, run func(*work) error, err error) {
	to := op.To
	if to == "" {
		to = op.Field
	}
	if err := paths("field", op.Field, "to", to); err != nil {
		return "", nil, err
	}
	parse, err := when.New(op.Format)
	if err != nil {
		return "", nil, err
	}
	return "date", func(w *work) error {
		raw := w.Get(op.Field)
		if absent(raw) {
			return nil
		}
		t, err := parse(raw)
		if err != nil {
			return fmt.Errorf("field %q: %w", op.Field, err)
		}
		return w.set(to, t.AppendFormat(nil, `"2006-01-02T15:04:05.999999999Z07:00"`))
	}, nil
}

func cast(op spec.CastOp) (name string, run func(*work) error, err error) {
	if err := paths("field", op.Field); err != nil {
		return "", nil, err
	}
	to, known := casts[op.Type]
	if !known {
		return "", nil, fmt.Errorf("type %q of field %q is none of string, int, float, bool", op.Type, op.Field)
	}
	return "cast", func(w *work) error {
		raw := w.Get(op.Field)
		if absent(raw) {
			return nil
		}
		value, err := to(raw)
		if err != nil {
			return fmt.Errorf("field %q: %s is %s and cannot become %s: %w", op.Field, rawjson.Show(raw), rawjson.Kind(raw), op.Type, err)
		}
		return w.set(op.Field, value)
	}, nil
}

func compute(op spec.ExprOp) (name string, run func(*work) error, err error) {
	if err := paths("field", op.Field); err != nil {
		return "", nil, err
	}
	e, err := Compile(op.Expression)
	if err != nil {
		return "", nil, err
	}
	return "expr", func(w *work) error {
		out, err := e.Eval(w.Get)
		if err != nil {
			return fmt.Errorf("field %q: %w", op.Field, err)
		}
		value, err := appendValue(nil, out)
		if err != nil {
			return fmt.Errorf("field %q: expression %q: %w", op.Field, op.Expression, err)
		}
		return w.put(op.Field, value)
	}, nil
}

// absent: null and what is not there have no date and no type.
func absent(raw []byte) bool { return raw == nil || raw[0] == 'n' }
