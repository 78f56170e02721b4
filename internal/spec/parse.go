package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFile bounds the spec file, in bytes.
const MaxFile = 1 << 20

// New is a spec with the defaults that depend on nothing else; Finish adds
// those that follow from other keys.
func New() *Spec {
	return &Spec{
		Scope:      Scope{Depth: -1},
		Limits:     Limits{PageSize: defaultPageSize, Tries: defaultTries, HostErrors: defaultHostErrors},
		Politeness: Politeness{Delay: defaultDelay, Robots: true},
	}
}

// Parse reads a spec over the defaults. The error is Problems: all that is
// wrong with keys and types, each with its line. Values are checked by Finish.
func Parse(file string, data []byte) (*Spec, error) {
	s := New()
	if len(data) > MaxFile {
		return nil, Problems{{File: file, What: fmt.Sprintf("the file has %d bytes", len(data)), Remedy: fmt.Sprintf("at most %d are read; put seeds into files of their own", MaxFile)}}
	}
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	if err := ofOther(file, root, loadKey, seedsKey, "load"); err != nil {
		return nil, err
	}
	p := &parser{file: file, spec: s}
	if root != nil {
		p.mapping("", root)
	}
	if err := p.problems.err(); err != nil {
		return nil, err
	}
	p.resolveFiles()
	return s, nil
}

// document is the only document of the file; nil if it is empty.
func document(file string, data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, Problems{yamlProblem(file, err)}
	}
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, Problems{{File: file, Line: max(next.Line, 1), What: "a second document begins here", Remedy: "write one spec per file"}}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	if n := doc.Content[0]; n.ShortTag() != "!!null" {
		return n, nil
	}
	return nil, nil
}

// What only the specs of one kind have.
const (
	seedsKey = "seeds"   // of a crawl
	loadKey  = "sources" // of a load
)

// ofOther refuses the file of the other command: it has that one's key and not
// its own.
func ofOther(file string, root *yaml.Node, others, own, command string) error {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil
	}
	line := 0
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch n := root.Content[i]; n.Value {
		case own:
			return nil
		case others:
			line = n.Line
		}
	}
	if line == 0 {
		return nil
	}
	return Problems{{
		File: file, Line: line, Key: others, What: "is a key of a " + command,
		Remedy: fmt.Sprintf("for the file of a %[1]s type: starter %[1]s -f %[2]s", command, file),
	}}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func yamlProblem(file string, err error) Problem {
	p := Problem{File: file, What: strings.TrimPrefix(err.Error(), "yaml: "), Remedy: "see docs/spec.md for an example"}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.What = err.Error()[len(m[0]):]
	}
	p.What = "is not YAML: " + p.What
	return p
}

type parser struct {
	file     string
	spec     *Spec
	problems Problems
}

func (p *parser) refuse(n *yaml.Node, key, value, what, remedy string) {
	p.problems = append(p.problems, Problem{File: p.file, Line: n.Line, Key: key, Value: value, What: what, Remedy: remedy})
}

// mapping reads one level; the table is two levels deep, so is the recursion.
func (p *parser) mapping(section string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.refuse(n, strings.TrimSuffix(section, "."), scalar(n), "wants keys with values, but is "+kindName(n), sectionRemedy(section))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		path := section + name.Value
		if line, ok := seen[name.Value]; ok {
			p.refuse(name, path, "", fmt.Sprintf("is there twice, first in line %d", line), "keep one of them")
			continue
		}
		seen[name.Value] = name.Line
		p.entry(section, path, name, value)
	}
}

func (p *parser) entry(section, path string, name, value *yaml.Node) {
	if k, ok := keyOf(path); ok {
		p.value(k, value)
		return
	}
	if section == "" && isSection(name.Value) {
		p.mapping(name.Value+".", value)
		return
	}
	p.refuse(name, path, "", "is no key of a spec", suggest(section, name.Value))
}

func (p *parser) value(k Key, n *yaml.Node) {
	before := len(p.problems)
	switch at := k.at(p.spec).(type) {
	case *[]string:
		p.list(k, n, at)
	case *string:
		if p.wants(k, n, "!!str") {
			*at = n.Value
		}
	case *bool:
		if p.wants(k, n, "!!bool") {
			*at, _ = strconv.ParseBool(n.Value)
		}
	default:
		p.number(k, n)
	}
	if len(p.problems) == before {
		p.spec.state(k.Path, origin{file: p.file, line: n.Line})
	}
}

func (p *parser) number(k Key, n *yaml.Node) {
	tags := []string{"!!int"}
	if k.Kind == KindDuration {
		tags = append(tags, "!!float", "!!str")
	}
	if k.Kind == KindSize {
		tags = append(tags, "!!str")
	}
	if !p.wants(k, n, tags...) {
		return
	}
	if err := k.assign(p.spec, nil, n.Value); err != nil {
		p.refuse(n, k.Path, n.Value, strings.TrimPrefix(err.Error(), strconv.Quote(clip(n.Value))+" "), "for example "+k.Path+": "+k.Example)
	}
}

func (p *parser) list(k Key, n *yaml.Node, at *[]string) {
	if n.Kind != yaml.SequenceNode {
		p.refuse(n, k.Path, scalar(n), "wants a list, but is "+kindName(n), "for example "+k.Path+": "+k.Example)
		return
	}
	*at = make([]string, 0, len(n.Content))
	for i, item := range n.Content {
		if p.wants(k, item, "!!str") {
			*at = append(*at, item.Value)
			p.spec.state(fmt.Sprintf("%s[%d]", k.Path, i), origin{file: p.file, line: item.Line})
		}
	}
}

func (p *parser) wants(k Key, n *yaml.Node, tags ...string) bool {
	if n.Kind == yaml.ScalarNode && slices.Contains(tags, n.ShortTag()) {
		return true
	}
	kind := k.Kind
	if kind == KindList {
		kind = KindString
	}
	remedy := "for example " + k.Path + ": " + k.Example
	switch {
	case n.Kind == yaml.AliasNode:
		remedy = "write the value itself"
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		remedy = "leave the key out for its default, " + k.Default
	case n.Kind == yaml.ScalarNode && kind == KindString:
		remedy = "put it in quotes"
	}
	p.refuse(n, k.Path, scalar(n), fmt.Sprintf("wants %s, but is %s", article(kind), kindName(n)), remedy)
	return false
}

// resolveFiles makes seed files relative to the spec's directory.
func (p *parser) resolveFiles() {
	for i, f := range p.spec.Seeds.Files {
		if f != "" && !filepath.IsAbs(f) {
			p.spec.Seeds.Files[i] = filepath.Join(filepath.Dir(p.file), f)
		}
	}
}

func article(k Kind) string {
	switch k {
	case KindInt:
		return "a whole number"
	case KindDuration, KindSize:
		return "a " + string(k)
	}
	return string(k)
}

func scalar(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a set of keys"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "empty"
	case "!!timestamp":
		return "a date"
	}
	return "a value of kind " + clip(n.ShortTag())
}

func isSection(name string) bool {
	return slices.ContainsFunc(keys, func(k Key) bool { return strings.HasPrefix(k.Path, name+".") })
}

// names lists what may stand in a section.
func names(section string) []string {
	var out []string
	for _, k := range keys {
		rest, ok := strings.CutPrefix(k.Path, section)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func sectionRemedy(section string) string {
	return "it may hold " + strings.Join(names(section), ", ")
}

// suggest names the nearest key, also one of another section.
func suggest(section, name string) string {
	for _, n := range names(section) {
		if near(n, name) {
			return "did you mean " + section + n + "?"
		}
	}
	for _, k := range keys {
		if k.Path[strings.LastIndex(k.Path, ".")+1:] == name {
			return "did you mean " + k.Path + "?"
		}
	}
	return sectionRemedy(section)
}

// near: at most two edits apart, and half of the word.
func near(a, b string) bool {
	if len(b) > 40 {
		return false
	}
	d := distance(strings.ReplaceAll(a, "-", "_"), strings.ReplaceAll(strings.ToLower(b), "-", "_"))
	return d <= 2 && d*2 <= len(a)
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost = 1 + min(diag, row[j], row[j-1])
			}
			diag, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
