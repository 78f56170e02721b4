package spec

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a spec, where it stands, and what to
// do about it.
type Problem struct {
	File   string `json:"file,omitempty"` // empty: a flag or a default
	Line   int    `json:"line,omitempty"` // from 1; 0: unknown
	Key    string `json:"key,omitempty"`  // "limits.pages"
	Value  string `json:"value,omitempty"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// String is the sentence for people.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	b.WriteString(p.subject())
	b.WriteString(p.What)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

func (p Problem) subject() string {
	var parts []string
	if p.Key != "" {
		parts = append(parts, p.Key)
	}
	if p.Value != "" {
		parts = append(parts, fmt.Sprintf("%q", clip(p.Value)))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ": ") + ": "
}

// Problems is every problem that was found, in the order of the file. It is
// the error of Parse and Finish.
type Problems []Problem

// maxListed bounds how many problems Error prints.
const maxListed = 20

// Error lists the problems, one to a line.
func (ps Problems) Error() string {
	lines := make([]string, 0, len(ps))
	for i, p := range ps {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// err is nil for no problems, so that a nil error stays nil.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// origin is where a key was stated.
type origin struct {
	file string
	line int
	flag string // its flag, if it was stated on the command line
}

// origins maps a key, or "key[3]" for an item of a list, to its place.
type origins map[string]origin

func (o origins) has(key string) bool {
	_, ok := o[key]
	return ok
}

// problem places a problem where the key was stated.
func (s *Spec) problem(key string, item int, value, what, remedy string) Problem {
	p := Problem{Key: key, Value: value, What: what, Remedy: remedy}
	at, ok := s.from[fmt.Sprintf("%s[%d]", key, item)]
	if !ok || item < 0 {
		at = s.from[key]
	}
	if at.flag != "" {
		p.Key = "--" + at.flag
	}
	p.File, p.Line = at.file, at.line
	return p
}
