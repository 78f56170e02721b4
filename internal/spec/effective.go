package spec

import (
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxShown bounds how many entries of a list Effective prints.
const maxShown = 20

// Effective prints the finished spec as YAML that Parse reads, with a comment
// at every value that is a default, and the notes above it.
func (s *Spec) Effective(w io.Writer) error {
	var b strings.Builder
	for _, n := range s.Notes() {
		fmt.Fprintf(&b, "# note: %s\n", n)
	}
	section := ""
	for _, k := range keys {
		if skipped(k, s) {
			continue
		}
		sec, name, nested := strings.Cut(k.Path, ".")
		indent := ""
		if nested {
			indent = "  "
			if sec != section {
				fmt.Fprintf(&b, "%s:\n", sec)
			}
		} else {
			name = sec
		}
		section = sec
		s.line(&b, indent, name, k)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// skipped: an empty list or text that means "none" is noise.
func skipped(k Key, s *Spec) bool {
	v := k.values(s)
	return k.Path == "seeds.files" || len(v) == 0 || v[0] == "" && k.Kind != KindList
}

func (s *Spec) line(b *strings.Builder, indent, name string, k Key) {
	note := ""
	if !s.from.has(k.Path) && !isSeeds(k.Path) {
		note = " # default"
	}
	values := k.values(s)
	if k.Kind != KindList {
		fmt.Fprintf(b, "%s%s: %s%s\n", indent, name, yamlScalar(k, values[0]), note)
		return
	}
	fmt.Fprintf(b, "%s%s:%s\n", indent, name, note)
	for i, v := range values {
		if i == maxShown {
			fmt.Fprintf(b, "%s  # and %d more\n", indent, len(values)-maxShown)
			return
		}
		fmt.Fprintf(b, "%s  - %s\n", indent, yamlScalar(k, v))
	}
}

// yamlScalar quotes text where YAML would read something else.
func yamlScalar(k Key, v string) string {
	if k.Kind != KindString && k.Kind != KindList {
		return v
	}
	out, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Style: styleOf(v)})
	if err != nil {
		return fmt.Sprintf("%q", v)
	}
	return strings.TrimRight(string(out), "\n")
}

// styleOf keeps a scalar on one line.
func styleOf(v string) yaml.Style {
	if strings.ContainsAny(v, "\n\r\t") {
		return yaml.DoubleQuotedStyle
	}
	return 0
}

// Notes are what somebody should know before the crawl starts, and need not
// change.
func (s *Spec) Notes() []string {
	var notes []string
	if s.Politeness.Contact == "" && !strings.Contains(s.Politeness.UserAgent, "+http") {
		notes = append(notes, "no contact: the owner of a site cannot reach you; add --contact https://... ")
	}
	if !s.Politeness.Robots {
		notes = append(notes, "robots.txt is ignored: do this on sites of your own only")
	}
	if s.Politeness.Delay == 0 {
		notes = append(notes, "no delay: up to "+fmt.Sprint(s.Politeness.Parallelism)+" requests to a host at once")
	}
	if s.Scope.Subdomains && s.Limits.Pages == 0 {
		notes = append(notes, "no page limit: the crawl follows every subdomain to its end; add --pages N to bound it")
	}
	if s.Sink.Kind == SinkNone {
		notes = append(notes, "no sink: pages are kept, but nothing becomes searchable")
	}
	for i := range notes {
		notes[i] = strings.TrimSpace(notes[i])
	}
	return notes
}
