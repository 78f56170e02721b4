package rawjson

import (
	"bytes"
	"strings"
)

// Find gives the value at a path of names with dots, nil if there is none. A
// name that itself holds dots is found as well: of several that begin the path
// the longest counts. Paths do not lead into arrays.
func (d *Doc) Find(path string) []byte {
	value, rest := longest(d.Members, path)
	for rest != "" && value != nil {
		value, rest = longestIn(value, rest)
	}
	return value
}

// longest finds the member whose name is path or begins it, and what is left of
// the path.
func longest(members []Member, path string) (value []byte, rest string) {
	best := -1
	for i := range members {
		if n := matches(members[i].Name, path); n > best {
			best, value = n, members[i].Value
		}
	}
	return value, after(path, best)
}

func longestIn(object []byte, path string) (value []byte, rest string) {
	best := -1
	eachMember(object, func(m Member) bool {
		if n := matches(m.Name, path); n > best {
			best, value = n, m.Value
		}
		return best < len(path)
	})
	return value, after(path, best)
}

func after(path string, n int) string {
	if n < 0 || n == len(path) {
		return ""
	}
	return path[n+1:]
}

// matches is how much of path a name is, -1 if it is not its beginning.
func matches(name []byte, path string) int {
	if len(name) > 0 && path != "" && name[0] != '\\' && name[0] != path[0] {
		return -1 // most names, at once
	}
	if bytes.IndexByte(name, '\\') >= 0 {
		name = Unescape(nil, name)
	}
	n := len(name)
	if n > len(path) || string(name) != path[:n] || n < len(path) && path[n] != '.' {
		return -1
	}
	return n
}

// eachMember gives the members of a checked object without white space until fn
// says false. Any other value has none.
func eachMember(object []byte, fn func(Member) bool) {
	if len(object) == 0 || object[0] != '{' {
		return
	}
	for i := 1; i < len(object) && object[i] == '"'; {
		end := i + stringEnd(object[i:])
		from, to := end+1, end+1+valueEnd(object[end+1:])
		if !fn(Member{object[i+1 : end-1], object[from:to]}) {
			return
		}
		i = to + 1 // behind a comma, or the bracket
	}
}

// stringEnd is the length of the string that b begins with.
func stringEnd(b []byte) int {
	for i := 1; ; {
		n := bytes.IndexByte(b[i:], '"')
		slashes := 0
		for b[i+n-1-slashes] == '\\' && i+n-1-slashes > 0 {
			slashes++
		}
		i += n + 1
		if slashes&1 == 0 {
			return i
		}
	}
}

// valueEnd is the length of the value that b begins with.
func valueEnd(b []byte) int {
	switch b[0] {
	case '"':
		return stringEnd(b)
	case '{', '[':
		return bracketEnd(b)
	}
	i := 0
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' {
		i++
	}
	return i
}

func bracketEnd(b []byte) int {
	depth := 0
	for i := 0; ; {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:])
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// BadPath says why a path names no field; "" if it does.
func BadPath(path string) string {
	switch {
	case path == "":
		return "is empty: name a field"
	case len(path) > maxPath:
		return "is longer than 512 bytes"
	case strings.Count(path, ".") >= maxSegments:
		return "has more than 32 parts"
	case strings.HasPrefix(path, "."), strings.HasSuffix(path, "."), strings.Contains(path, ".."):
		return "has an empty part between dots"
	case strings.ToValidUTF8(path, "") != path:
		return "is not UTF-8"
	}
	return ""
}

const (
	maxPath     = 512
	maxSegments = 32
)

// Part is a Doc of an object within a checked text without white space. It
// shares the text.
func Part(object []byte) *Doc {
	d := &Doc{Text: object}
	eachMember(object, func(m Member) bool {
		d.Members = append(d.Members, m)
		return true
	})
	return d
}
