package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Encode gives the canonical JSON of a load spec.
func (s *LoadSpec) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("encode load %s: %w", s.Name, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// DecodeLoad reads what Encode wrote. A key that it does not know is an error:
// a newer version meant something by it.
func DecodeLoad(data []byte) (*LoadSpec, error) {
	if len(data) > MaxLoadEncoded {
		return nil, fmt.Errorf("decode load: %d bytes, at most %d are read", len(data), MaxLoadEncoded)
	}
	s := &LoadSpec{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("decode load: %w; it may be of a newer version of trawl", err)
	}
	if s.Name == "" || len(s.Sources) == 0 {
		return nil, fmt.Errorf("decode load: a name and a source are needed")
	}
	return s, nil
}

// Effective prints the load as YAML that ParseLoad reads, with a comment at
// every value that is a default, and the notes above it.
func (s *LoadSpec) Effective(w io.Writer) error {
	for _, n := range s.Notes() {
		if _, err := fmt.Fprintf(w, "# note: %s\n", n); err != nil {
			return err
		}
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(s.node("", reflect.ValueOf(s).Elem())); err != nil {
		return err
	}
	return enc.Close()
}

// node makes YAML of a value; what is empty and was not stated is left out.
func (s *LoadSpec) node(path string, v reflect.Value) *yaml.Node {
	switch {
	case v.Type() == typeStart:
		return s.start(path, v.Interface().(LoadStart))
	case v.Type() == typeRaw:
		var n yaml.Node
		if err := yaml.Unmarshal(v.Bytes(), &n); err == nil && len(n.Content) == 1 {
			return n.Content[0]
		}
		return text(string(v.Bytes()))
	case v.Kind() == reflect.Pointer:
		return s.node(path, v.Elem())
	case v.Kind() == reflect.Struct && v.Type() != typeTime:
		return s.keys(path, v)
	case v.Kind() == reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, s.node(fmt.Sprintf("%s[%d]", path, i), v.Index(i)))
		}
		if v.Type().Elem().Kind() != reflect.Struct {
			n.Style = yaml.FlowStyle
		}
		return n
	}
	return leaf(v)
}

func (s *LoadSpec) keys(path string, v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("yaml")
		if tag == "" || tag == "-" {
			continue
		}
		at, field := join(path, tag), v.Field(i)
		stated := s.from.has(at)
		if empty(field) && !stated || field.Kind() == reflect.Struct && field.IsZero() {
			continue
		}
		value := s.node(at, field)
		if !stated && value.Kind == yaml.ScalarNode {
			value.LineComment = "default"
		}
		n.Content = append(n.Content, text(tag), value)
	}
	return n
}

func empty(v reflect.Value) bool {
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

func (s *LoadSpec) start(path string, l LoadStart) *yaml.Node {
	switch l.At {
	case StartOffset:
		return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{text("offset"), plainNode(fmt.Sprint(l.Offset))}}
	case StartTime:
		return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{text("time"), plainNode(l.Time.Format(time.RFC3339Nano))}}
	}
	n := text(l.At)
	if !s.from.has(path) {
		n.LineComment = "default"
	}
	return n
}

func text(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: styleOf(s)}
}

func plainNode(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

func leaf(v reflect.Value) *yaml.Node {
	switch x := v.Interface().(type) {
	case string:
		return text(x)
	case Size:
		return plainNode(FormatSize(int64(x)))
	case Duration:
		return plainNode(x.String())
	case time.Time:
		return plainNode(x.Format(time.RFC3339Nano))
	}
	return plainNode(fmt.Sprint(v.Interface()))
}

// Notes are what somebody should know before the load starts.
func (s *LoadSpec) Notes() []string {
	var notes []string
	endless, ends := 0, 0
	for i := range s.Sources {
		if s.Sources[i].Until == "" {
			endless++
		} else {
			ends++
		}
	}
	if endless > 0 && ends > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d sources have no until: the load does not end when the others are done", endless, endless+ends))
	}
	for i := range s.Sources {
		if c := &s.Sources[i]; c.Format == FormatRiver && s.Sink.Kind == SinkSQLite {
			notes = append(notes, fmt.Sprintf("sources[%d]: a river names an index in each record; those other than %s go to the errors topic, SQLite has one index", i, s.Sink.Index))
		}
	}
	if s.Read == ReadUncommitted {
		notes = append(notes, "read uncommitted: records of transactions that are aborted become documents")
	}
	return notes
}

// DiffLoad lists the keys in which two loads differ, with both values.
func DiffLoad(a, b *LoadSpec) []string {
	x, y := map[string]string{}, map[string]string{}
	flatten(a, x)
	flatten(b, y)
	keys := map[string]bool{}
	for k := range x {
		keys[k] = true
	}
	for k := range y {
		keys[k] = true
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if x[k] != y[k] {
			out = append(out, fmt.Sprintf("%s: %s, now %s", k, orNone(x[k]), orNone(y[k])))
		}
	}
	return out
}

// flatten names every value of a load by its path.
func flatten(s *LoadSpec, out map[string]string) {
	raw, err := s.Encode()
	if err != nil {
		return // what cannot be encoded was never valid
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) == nil {
		flattenValue("", v, out)
	}
}

func flattenValue(path string, v any, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			flattenValue(join(path, k), e, out)
		}
	case []any:
		for i, e := range v {
			flattenValue(fmt.Sprintf("%s[%d]", path, i), e, out)
		}
	default:
		out[path] = strings.TrimSpace(fmt.Sprint(v))
	}
}
