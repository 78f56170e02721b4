package spec

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxTemplate bounds the file of an index template, in bytes.
const maxTemplate = 24 << 10

// ParseLoad reads a load spec and fills in its defaults. The error is Problems:
// all that is wrong with keys, types and values, each with its line.
func ParseLoad(file string, data []byte) (*LoadSpec, error) {
	s := &LoadSpec{from: origins{}}
	if len(data) > MaxFile {
		return nil, Problems{{File: file, What: fmt.Sprintf("the file has %d bytes", len(data)), Remedy: fmt.Sprintf("at most %d are read", MaxFile)}}
	}
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	if err := ofOther(file, root, seedsKey, loadKey, "crawl"); err != nil {
		return nil, err
	}
	p := &loadParser{file: file, from: s.from}
	if root != nil {
		p.walk("", root, reflect.ValueOf(s).Elem())
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	if ps := s.readTemplate(filepath.Dir(file)); len(ps) > 0 {
		return nil, ps
	}
	s.fill()
	return s, Problems(s.validate()).err()
}

// loadParser reads YAML into the structs by their tags: every key of the file
// has to be a tag, and every value of the tag's type.
type loadParser struct {
	file     string
	from     origins
	problems Problems
}

func (p *loadParser) refuse(n *yaml.Node, key, value, what, remedy string) {
	p.problems = append(p.problems, Problem{File: p.file, Line: n.Line, Key: key, Value: value, What: what, Remedy: remedy})
}

var (
	typeTime  = reflect.TypeFor[time.Time]()
	typeRaw   = reflect.TypeFor[json.RawMessage]()
	typeSize  = reflect.TypeFor[Size]()
	typeDur   = reflect.TypeFor[Duration]()
	typeStart = reflect.TypeFor[LoadStart]()
)

// walk reads one value of any type.
func (p *loadParser) walk(path string, n *yaml.Node, to reflect.Value) {
	before := len(p.problems)
	switch {
	case n.Kind == yaml.AliasNode:
		p.refuse(n, path, "", "is an alias", "write the value itself")
	case to.Type() == typeStart && n.Kind == yaml.ScalarNode:
		p.scalar(path, n, to.FieldByName("At"))
	case to.Type() == typeRaw:
		p.raw(path, n, to)
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		p.walk(path, n, to.Elem())
	case to.Kind() == reflect.Struct && to.Type() != typeTime:
		p.mapping(path, n, to)
	case to.Kind() == reflect.Slice:
		p.list(path, n, to)
	default:
		p.scalar(path, n, to)
	}
	if path != "" && len(p.problems) == before {
		p.from[path] = origin{file: p.file, line: n.Line}
	}
}

func (p *loadParser) mapping(path string, n *yaml.Node, to reflect.Value) {
	if n.Kind != yaml.MappingNode {
		p.refuse(n, path, scalar(n), "wants keys with values, but is "+kindName(n), "it may hold "+strings.Join(tags(to.Type()), ", "))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at := join(path, name.Value)
		if line, ok := seen[name.Value]; ok {
			p.refuse(name, at, "", fmt.Sprintf("is there twice, first in line %d", line), "keep one of them")
			continue
		}
		seen[name.Value] = name.Line
		field, ok := fieldOf(to, name.Value)
		if !ok {
			p.refuse(name, at, "", "is no key of a load", suggestLoad(to.Type(), path, name.Value))
			continue
		}
		p.walk(at, value, field)
	}
}

func (p *loadParser) list(path string, n *yaml.Node, to reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		p.refuse(n, path, scalar(n), "wants a list, but is "+kindName(n), example(path))
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		p.walk(fmt.Sprintf("%s[%d]", path, i), item, to.Index(i))
	}
}

// raw takes any YAML value as JSON.
func (p *loadParser) raw(path string, n *yaml.Node, to reflect.Value) {
	var v any
	err := n.Decode(&v)
	if err == nil {
		var b []byte
		if b, err = json.Marshal(v); err == nil {
			to.SetBytes(b)
			return
		}
	}
	p.refuse(n, path, scalar(n), "is no JSON value: "+err.Error(), "keys have to be text")
}

// accepted YAML tags by kind of value.
func accepted(t reflect.Type) []string {
	switch {
	case t == typeTime:
		return []string{"!!timestamp", "!!str"}
	case t == typeSize:
		return []string{"!!int", "!!str"}
	case t == typeDur:
		return []string{"!!int", "!!float", "!!str"}
	case t.Kind() == reflect.String:
		return []string{"!!str", "!!timestamp"}
	case t.Kind() == reflect.Bool:
		return []string{"!!bool"}
	case t.Kind() == reflect.Float64:
		return []string{"!!int", "!!float"}
	}
	return []string{"!!int"}
}

func (p *loadParser) scalar(path string, n *yaml.Node, to reflect.Value) {
	want := "a value"
	if k, ok := loadKeyOf(withoutItems(path)); ok {
		want = k.Kind
	}
	if n.Kind != yaml.ScalarNode || !slices.Contains(accepted(to.Type()), n.ShortTag()) {
		remedy := example(path)
		switch {
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
			remedy = "leave the key out for its default"
		case n.Kind == yaml.ScalarNode && to.Kind() == reflect.String:
			remedy = "put it in quotes"
		}
		p.refuse(n, path, scalar(n), "wants "+want+", but is "+kindName(n), remedy)
		return
	}
	if err := assign(to, n.Value); err != nil {
		p.refuse(n, path, n.Value, err.Error(), example(path))
	}
}

func assign(to reflect.Value, text string) error {
	switch {
	case to.Type() == typeTime:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return fmt.Errorf("is no time of RFC 3339")
		}
		to.Set(reflect.ValueOf(t.UTC()))
	case to.Type() == typeSize:
		v, err := ParseSize(text)
		if err != nil {
			return fmt.Errorf("is no size")
		}
		to.SetInt(v)
	case to.Type() == typeDur:
		v, err := ParseDuration(text)
		if err != nil {
			return fmt.Errorf("is no duration up to %s", maxDuration)
		}
		to.SetInt(int64(v))
	case to.Kind() == reflect.String:
		to.SetString(text)
	case to.Kind() == reflect.Bool:
		v, err := strconv.ParseBool(text)
		to.SetBool(v)
		return err
	case to.Kind() == reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("is no number")
		}
		to.SetFloat(v)
	default:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("is no whole number")
		}
		to.SetInt(v)
	}
	return nil
}

// readTemplate reads the file that the sink's template names.
func (s *LoadSpec) readTemplate(dir string) Problems {
	name := s.Sink.TemplateFile
	if name == "" {
		return nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	data, err := readBounded(name, maxTemplate, "name a file with an index template in JSON",
		"is larger than "+FormatSize(maxTemplate)+"; put the template on the server yourself and leave sink.template out")
	var object map[string]json.RawMessage
	switch {
	case err != nil:
		return Problems{s.problem("sink.template", name, err.Error(), "")}
	case json.Unmarshal(data, &object) != nil:
		return Problems{s.problem("sink.template", name, "is no JSON object", "write an index template as the server's PUT /_index_template takes it")}
	}
	s.Sink.Template, err = json.Marshal(object)
	if err != nil {
		return Problems{s.problem("sink.template", name, err.Error(), "")}
	}
	return nil
}

// problem places a problem where the key, or the nearest one around it, was
// stated.
func (s *LoadSpec) problem(key, value, what, remedy string) Problem {
	p := Problem{Key: key, Value: value, What: what, Remedy: remedy}
	for at := key; ; {
		if o, ok := s.from[at]; ok {
			p.File, p.Line = o.file, o.line
			return p
		}
		cut := strings.LastIndexAny(at, ".[")
		if cut < 0 {
			return p
		}
		at = at[:cut]
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// tags are the keys that a struct has in YAML.
func tags(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "" && tag != "-" {
			names = append(names, tag)
		}
	}
	return names
}

func fieldOf(v reflect.Value, tag string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tag != "-" && tag != "" && v.Type().Field(i).Tag.Get("yaml") == tag {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func suggestLoad(t reflect.Type, path, name string) string {
	for _, n := range tags(t) {
		if near(n, name) {
			return "did you mean " + n + "?"
		}
	}
	for _, k := range loadKeys {
		if lastPart(k.Path) == name && k.Path != withoutItems(join(path, name)) {
			return "did you mean " + k.Path + "?"
		}
	}
	return "it may be " + strings.Join(tags(t), ", ")
}

func example(path string) string {
	k, ok := loadKeyOf(withoutItems(path))
	if !ok {
		return ""
	}
	if strings.HasSuffix(path, "]") {
		return "the list is for example " + k.Example
	}
	return "for example " + lastPart(k.Path) + ": " + k.Example
}
