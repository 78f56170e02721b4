package transform

import (
	"fmt"
	"strings"
	"time"

	"trawl/internal/ingest"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform/rawjson"
	"trawl/internal/transform/when"
)

func newFormat(source spec.LoadSource) (format, error) {
	switch source.Format {
	case "", spec.FormatJSON:
		id, err := newID("id", source.ID)
		return plainText{id}, err
	case spec.FormatPlain:
		return newPlain(source.Plain)
	case spec.FormatRiver:
		return river{changed: source.Where != "" || source.RoutingField != "" || len(source.Fields) > 0}, nil
	}
	return nil, fmt.Errorf("format %q is none of json, plain, river, pages", source.Format)
}

// naming says where an id comes from: the record's key, a field, or topic,
// partition and offset.
type naming struct {
	key  bool
	path string
	what string
}

func newID(key, from string) (naming, error) {
	switch from {
	case "":
		return naming{}, nil
	case spec.IDKey:
		return naming{key: true}, nil
	}
	return naming{path: from, what: fmt.Sprintf("id field %q", from)}, checkPath(key, from)
}

func (n naming) id(r record, doc *rawjson.Doc) (string, error) {
	switch {
	case n.key:
		return r.keyID()
	case n.path == "":
		return r.ownID(), nil
	}
	id, err := scalar(n.what, doc.Find(n.path))
	if err != nil {
		return "", err
	}
	return checkID(n.what, id)
}

// plainText is a value that is the document itself.
type plainText struct{ naming naming }

func (f plainText) document(d *rawjson.Doc) (*rawjson.Doc, error) {
	if !d.Object() {
		return nil, fail(ingest.InvalidEvent, "the value is %s, a document has to be an object: %s", rawjson.Kind(d.Text), rawjson.Show(d.Text))
	}
	return d, nil
}

func (f plainText) place(r record, d *rawjson.Doc) (id, index string, err error) {
	id, err = f.naming.id(r, d)
	return id, "", err
}

func (f plainText) removed(r record) (id, index string, ok bool, err error) {
	if !f.naming.key {
		return "", "", false, nil
	}
	id, err = r.keyID()
	return id, "", err == nil, err
}

// plain is a plainText whose index follows from a time.
type plain struct {
	plainText
	index  string
	suffix string // a layout; "" is none
	field  string // of the time; "" is Kafka's
	what   string
	parse  when.Parser
}

var suffixes = map[string]string{"": "", spec.ByNone: "", spec.ByDay: "-2006-01-02", spec.ByMonth: "-2006-01", spec.ByYear: "-2006"}

func newPlain(p spec.LoadPlain) (format, error) {
	id, err := newID("plain.id_field", p.IDField)
	if err != nil {
		return nil, err
	}
	suffix, known := suffixes[p.By]
	if !known {
		return nil, fmt.Errorf("plain.by %q is none of none, day, month, year", p.By)
	}
	f := plain{plainText: plainText{id}, index: p.Index, suffix: suffix, field: p.TimeField}
	if p.Index != "" || suffix != "" {
		if err := sink.CheckIndex(p.Index + suffix); err != nil {
			return nil, fmt.Errorf("plain.index: %w", err)
		}
	}
	if f.field == "" || suffix == "" {
		return f, nil
	}
	if err := checkPath("plain.time_field", f.field); err != nil {
		return nil, err
	}
	f.what = fmt.Sprintf("time field %q", f.field)
	if f.parse, err = when.New(p.TimeFormat); err != nil {
		return nil, fmt.Errorf("plain.time_format: %w", err)
	}
	return f, nil
}

func (f plain) place(r record, d *rawjson.Doc) (id, index string, err error) {
	if id, err = f.naming.id(r, d); err != nil || f.suffix == "" {
		return id, f.index, err
	}
	t, err := f.time(r, d)
	if err != nil {
		return "", "", err
	}
	var room [sink.MaxIndex]byte
	return id, string(t.AppendFormat(append(room[:0], f.index...), f.suffix)), nil
}

// time is the one that the index is named by, in UTC.
func (f plain) time(r record, d *rawjson.Doc) (time.Time, error) {
	if f.field == "" {
		t, err := r.timestamp()
		if err != nil {
			return t, err
		}
		if t, err = when.Bounded(t); err != nil {
			return t, fail(ingest.InvalidEvent, "Kafka's timestamp of the record: %w", err)
		}
		return t, nil
	}
	raw := d.Find(f.field)
	if raw == nil {
		return time.Time{}, fail(ingest.InvalidEvent, "%s is missing, so the document has no index", f.what)
	}
	t, err := f.parse(raw)
	if err != nil {
		return t, fail(ingest.InvalidEvent, "%s: %w", f.what, err)
	}
	return t, nil
}

func (f plain) removed(r record) (id, index string, ok bool, err error) {
	id, _, ok, err = f.plainText.removed(r)
	if ok && f.suffix != "" {
		return "", "", false, fail(ingest.InvalidEvent, "a delete of %q: without a value the record names no time, so the index of its document is not known", id)
	}
	return id, f.index, ok, err
}

// river is Qanal's envelope: {"index": ..., "type": ..., "id": ..., "source":
// {...}}. The type is ignored, the id may be missing or null.
type river struct {
	changed bool // something asks for the members of its documents
}

func (f river) document(d *rawjson.Doc) (*rawjson.Doc, error) {
	if !d.Object() {
		return nil, fail(ingest.InvalidEvent, "the value is %s, a river's message has to be an object: %s", rawjson.Kind(d.Text), rawjson.Show(d.Text))
	}
	source := d.Find("source")
	switch {
	case source == nil:
		return nil, fail(ingest.InvalidEvent, `the message has no "source": %s`, rawjson.Show(d.Text))
	case source[0] != '{':
		return nil, fail(ingest.InvalidEvent, `"source" is %s, a document has to be an object: %s`, rawjson.Kind(source), rawjson.Show(source))
	}
	if !f.changed {
		return &rawjson.Doc{Text: source}, nil
	}
	return rawjson.Part(source), nil
}

func (river) place(r record, d *rawjson.Doc) (id, index string, err error) {
	raw := d.Find("index")
	if raw == nil {
		return "", "", fail(ingest.InvalidEvent, `the message has no "index": %s`, rawjson.Show(d.Text))
	}
	index, ok := rawjson.String(raw)
	if !ok {
		return "", "", fail(ingest.InvalidEvent, `"index" is %s, not a string: %s`, rawjson.Kind(raw), rawjson.Show(raw))
	}
	if err := sink.CheckIndex(index); err != nil {
		return "", "", fail(ingest.InvalidEvent, `"index" %s: %w`, rawjson.Show(raw), err)
	}
	if strings.HasPrefix(index, ".") {
		return "", "", fail(ingest.InvalidEvent, `"index" %s: a name with a dot in front belongs to the servers, no message writes there`, rawjson.Show(raw))
	}
	raw = d.Find("id")
	if raw == nil || raw[0] == 'n' {
		return r.ownID(), index, nil
	}
	if id, err = scalar(`"id"`, raw); err == nil {
		id, err = checkID(`"id"`, id)
	}
	return id, index, err
}

func (river) removed(record) (id, index string, ok bool, err error) { return "", "", false, nil }
