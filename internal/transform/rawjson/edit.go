package rawjson

import (
	"fmt"
	"slices"
	"strings"
)

// Object is an object that can be changed. It shares the text it was made of;
// only the objects on the way to a change are taken apart.
type Object struct{ fields []field }

// field is a member: its value is sub where that is set, else text.
type field struct {
	name []byte // escaped, as Member
	text []byte
	sub  *Object
}

// Edit begins with the members of a document.
func Edit(members []Member) *Object {
	o := &Object{fields: make([]field, len(members))}
	for i, m := range members {
		o.fields[i] = field{name: m.Name, text: m.Value}
	}
	return o
}

// open takes the field's object apart; nil if it is none.
func (f *field) open() *Object {
	if f.sub == nil && len(f.text) > 0 && f.text[0] == '{' {
		f.sub = new(Object)
		eachMember(f.text, func(m Member) bool {
			f.sub.fields = append(f.sub.fields, field{name: m.Name, text: m.Value})
			return true
		})
	}
	return f.sub
}

func (f *field) value() []byte {
	if f.sub == nil {
		return f.text
	}
	return f.sub.Append(nil)
}

// at is the index of the field that begins path, as Doc.Find finds it.
func (o *Object) at(path string) (index int, rest string) {
	index, best := -1, -1
	for i := range o.fields {
		if n := matches(o.fields[i].name, path); n > best {
			index, best = i, n
		}
	}
	return index, after(path, best)
}

// Get gives the value at path, nil if there is none.
func (o *Object) Get(path string) []byte {
	for {
		i, rest := o.at(path)
		switch {
		case i < 0:
			return nil
		case rest == "":
			return o.fields[i].value()
		}
		if f := &o.fields[i]; f.sub == nil {
			d := Doc{Members: []Member{{f.name, f.text}}}
			return d.Find(path)
		}
		o, path = o.fields[i].sub, rest
	}
}

// Drop removes the value at path and says whether there was one.
func (o *Object) Drop(path string) bool {
	i, rest := o.at(path)
	switch {
	case i < 0:
		return false
	case rest == "":
		o.fields = slices.Delete(o.fields, i, i+1)
		return true
	}
	sub := o.fields[i].open()
	return sub != nil && sub.Drop(rest)
}

// Set gives the value at path, which must be JSON without white space. What is
// missing on the way becomes objects. It fails where something else than an
// object is in the way.
func (o *Object) Set(path string, value []byte) error {
	for rest := path; ; {
		i, after := o.at(rest)
		if i < 0 {
			o.add(rest, value)
			return nil
		}
		f := &o.fields[i]
		if after == "" {
			f.text, f.sub = value, nil
			return nil
		}
		if o = f.open(); o == nil {
			return fmt.Errorf("field %q cannot be set: %q is %s, not an object: %s", path, Unescape(nil, f.name), Kind(f.text), Show(f.text))
		}
		rest = after
	}
}

// add appends a field, within new objects where the path has dots.
func (o *Object) add(path string, value []byte) {
	for {
		first, rest, more := strings.Cut(path, ".")
		quoted := Quote(nil, first)
		f := field{name: quoted[1 : len(quoted)-1]}
		if !more {
			f.text = value
			o.fields = append(o.fields, f)
			return
		}
		f.sub = new(Object)
		o.fields = append(o.fields, f)
		o, path = f.sub, rest
	}
}

// Append writes the object without white space.
func (o *Object) Append(dst []byte) []byte {
	dst = append(dst, '{')
	for i := range o.fields {
		f := &o.fields[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, f.name...)
		dst = append(dst, '"', ':')
		if f.sub != nil {
			dst = f.sub.Append(dst)
		} else {
			dst = append(dst, f.text...)
		}
	}
	return append(dst, '}')
}

// Size is the length of what Append writes.
func (o *Object) Size() int {
	n := 1 + max(1, len(o.fields))
	for i := range o.fields {
		f := &o.fields[i]
		n += len(f.name) + 3
		if f.sub != nil {
			n += f.sub.Size()
		} else {
			n += len(f.text)
		}
	}
	return n
}
