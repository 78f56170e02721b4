package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Diff compares the stored spec of a crawl with a new one of the same name.
// allowed are the differences with which the crawl may go on: limits,
// politeness and more seeds. refused are all others. Both are sentences
// without a full stop, ready to be shown.
func Diff(old, new *Spec) (allowed, refused []string) {
	for _, k := range keys {
		was, is := k.values(old), k.values(new)
		if slices.Equal(was, is) || k.Path == "seeds.files" {
			continue
		}
		switch {
		case isSeeds(k.Path):
			more, less := missing(is, was), missing(was, is)
			if len(more) > 0 {
				allowed = append(allowed, fmt.Sprintf("%s: %d more: %s", k.Path, len(more), short(more)))
			}
			if len(less) > 0 {
				refused = append(refused, fmt.Sprintf("%s: %d missing: %s", k.Path, len(less), short(less)))
			}
		case k.Mutable:
			allowed = append(allowed, change(k, was, is))
		default:
			refused = append(refused, change(k, was, is))
		}
	}
	return allowed, refused
}

// Adopt takes from the stored spec what a generation fixes and the new spec
// left to be chosen, so that a raised limit does not read as another shape.
func (s *Spec) Adopt(old *Spec) {
	if !s.from.has("shards") && old.Shards > 0 {
		s.Shards = old.Shards
	}
}

// Stated tells whether the key was given by file or flag.
func (s *Spec) Stated(key string) bool { return s.from.has(key) }

func isSeeds(path string) bool { return strings.HasPrefix(path, "seeds.") }

func change(k Key, was, is []string) string {
	if k.Kind != KindList {
		return fmt.Sprintf("%s: was %s, is %s", k.Path, orNone(was[0]), orNone(is[0]))
	}
	return fmt.Sprintf("%s: was %s, is %s", k.Path, short(was), short(is))
}

func orNone(v string) string {
	if v == "" {
		return "empty"
	}
	return clip(v)
}

// missing are the entries of a that b lacks.
func missing(a, b []string) []string {
	in := make(map[string]bool, len(b))
	for _, v := range b {
		in[v] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(v string) bool { return in[v] })
}

// short prints the first entries of a list.
func short(list []string) string {
	const most = 3
	if len(list) == 0 {
		return "empty"
	}
	out := make([]string, 0, most+1)
	for i, v := range list {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		out = append(out, clip(v))
	}
	return strings.Join(out, ", ")
}
