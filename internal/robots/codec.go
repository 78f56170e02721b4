package robots

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxEncoded is the greatest length of the encoded form in bytes.
const MaxEncoded = 32 << 10

// The encoded form: a version byte, then protobuf wire fields.
const (
	version = 1

	fieldDelay    = 1 // varint, milliseconds
	fieldCut      = 2 // varint, 1: cut
	fieldDisallow = 3 // bytes, repeated
	fieldAllow    = 4 // bytes, repeated
)

// ErrCorrupt says that bytes are no encoded rules.
var ErrCorrupt = errors.New("no encoded robots rules")

// Encode gives the rules, without sitemaps, in at most MaxEncoded bytes. Rules
// that do not fit are cut so that nothing forbidden becomes allowed: first
// allows go; if the disallows alone are too many, they are shortened until
// they fit, and no allow stays.
func (r Rules) Encode() []byte {
	disallows, allows := r.byKind()
	if size(disallows)+size(allows) <= MaxEncoded-headroom {
		return r.encode(disallows, allows, r.Cut)
	}
	if size(disallows) <= MaxEncoded-headroom {
		return r.encode(disallows, fitting(allows, MaxEncoded-headroom-size(disallows)), true)
	}
	for n := maxPattern / 2; n > 1; n /= 2 {
		if d := shortened(disallows, n); size(d) <= MaxEncoded-headroom {
			return r.encode(d, nil, true)
		}
	}
	return r.encode([]string{"/"}, nil, true)
}

// headroom holds the version, the delay and the mark.
const headroom = 32

func (r Rules) byKind() (disallows, allows []string) {
	for _, x := range r.rules {
		if x.allow {
			allows = append(allows, x.pattern)
		} else {
			disallows = append(disallows, x.pattern)
		}
	}
	return disallows, allows
}

func size(patterns []string) int {
	n := 0
	for _, p := range patterns {
		n += protowire.SizeTag(fieldAllow) + protowire.SizeBytes(len(p))
	}
	return n
}

// fitting keeps the shortest patterns, which are last, within n bytes.
func fitting(patterns []string, n int) []string {
	for i := len(patterns) - 1; i >= 0; i-- {
		if n -= size(patterns[i : i+1]); n < 0 {
			return patterns[i+1:]
		}
	}
	return patterns
}

func shortened(patterns []string, n int) []string {
	out := make([]string, 0, len(patterns))
	for _, p := range patterns {
		out = append(out, cutPattern(p, n))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r Rules) encode(disallows, allows []string, cut bool) []byte {
	b := make([]byte, 1, headroom+size(disallows)+size(allows))
	b[0] = version
	if r.CrawlDelay > 0 {
		b = protowire.AppendTag(b, fieldDelay, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(r.CrawlDelay.Milliseconds()))
	}
	if cut {
		b = protowire.AppendTag(b, fieldCut, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	for _, p := range disallows {
		b = protowire.AppendTag(b, fieldDisallow, protowire.BytesType)
		b = protowire.AppendString(b, p)
	}
	for _, p := range allows {
		b = protowire.AppendTag(b, fieldAllow, protowire.BytesType)
		b = protowire.AppendString(b, p)
	}
	return b
}

// Decode reads what Encode wrote; fields that it does not know are skipped.
// Its error wraps ErrCorrupt.
func Decode(b []byte) (Rules, error) {
	if len(b) == 0 || len(b) > MaxEncoded {
		return Rules{}, fmt.Errorf("%w: %d bytes, want 1 to %d", ErrCorrupt, len(b), MaxEncoded)
	}
	if b[0] != version {
		return Rules{}, fmt.Errorf("%w: version %d, want %d", ErrCorrupt, b[0], version)
	}
	var r Rules
	for b = b[1:]; len(b) > 0; {
		n, err := r.field(b)
		if err != nil {
			return Rules{}, err
		}
		b = b[n:]
	}
	r.rules = ordered(r.rules)
	return r, nil
}

// field reads one field and gives its length.
func (r *Rules) field(b []byte) (int, error) {
	num, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, protowire.ParseError(tag))
	}
	n := 0
	switch {
	case (num == fieldDelay || num == fieldCut) && typ == protowire.VarintType:
		var v uint64
		if v, n = protowire.ConsumeVarint(b[tag:]); n >= 0 {
			r.number(num, v)
		}
	case (num == fieldDisallow || num == fieldAllow) && typ == protowire.BytesType:
		var v []byte
		if v, n = protowire.ConsumeBytes(b[tag:]); n >= 0 {
			if len(v) == 0 || len(v) > maxPattern {
				return 0, fmt.Errorf("%w: pattern of %d bytes, want 1 to %d", ErrCorrupt, len(v), maxPattern)
			}
			r.rules = append(r.rules, rule{allow: num == fieldAllow, pattern: string(v)})
		}
	default:
		n = protowire.ConsumeFieldValue(num, typ, b[tag:])
	}
	if n < 0 {
		return 0, fmt.Errorf("%w: field %d: %w", ErrCorrupt, num, protowire.ParseError(n))
	}
	return tag + n, nil
}

func (r *Rules) number(num protowire.Number, v uint64) {
	if num == fieldCut {
		r.Cut = v != 0
		return
	}
	r.CrawlDelay = time.Duration(min(v, uint64(MaxCrawlDelay.Milliseconds()))) * time.Millisecond
}
