package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// maxDecoded bounds what Decode reads, in bytes.
const maxDecoded = 4 << 20

// Encode gives the canonical JSON of a finished spec: the same spec gives the
// same bytes, in every version that has the same keys.
func (s *Spec) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("encode spec %s: %w", s.Name, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Decode reads what Encode wrote. A key that it does not know is an error: a
// newer version meant something by it, and to ignore it could mean to request
// what must not be requested.
func Decode(data []byte) (*Spec, error) {
	if len(data) > maxDecoded {
		return nil, fmt.Errorf("decode spec: %d bytes, at most %d are read", len(data), maxDecoded)
	}
	s := New()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("decode spec: %w; it may be of a newer version of trawl", err)
	}
	return s, nil
}

// Copy is a spec of its own with the same values, none of them stated: what
// is stated afterwards is told apart from what was there.
func (s *Spec) Copy() *Spec {
	out := New()
	for _, k := range keys {
		switch from := k.at(s).(type) {
		case *string:
			*k.at(out).(*string) = *from
		case *[]string:
			*k.at(out).(*[]string) = slices.Clone(*from)
		case *bool:
			*k.at(out).(*bool) = *from
		case *Duration:
			*k.at(out).(*Duration) = *from
		case *int:
			*k.at(out).(*int) = *from
		case *int64:
			*k.at(out).(*int64) = *from
		}
	}
	return out
}
