package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Kinds are the first byte of every key.
const (
	kindDiscovered = 'd'
	kindFetched    = 'f'
	kindTried      = 't'
	kindStreak     = 'h'
	kindBlocked    = 'b'
	kindParked     = 'p'
	kindRobots     = 'r'
	kindSpec       = 's'
	kindSummary    = 'z'
)

// version is the first byte of every value. Fields may be added to version 1
// for ever; a second version is for a change that old readers must refuse.
const version = 1

// Bounds of what a fact may hold. Decode refuses more; Record drops or cuts
// what is optional so that it never writes a fact that Decode refuses, except
// for a URL or host that is too long or not canonical, rules beyond MaxRules
// and a spec or summary beyond MaxJSON: their owners keep these bounds.
const (
	MaxURL   = 16 << 10 // bytes of a URL
	MaxRules = 32 << 10 // bytes of encoded robots rules
	MaxJSON  = 8 << 20  // bytes of a spec or summary
	MaxDepth = math.MaxUint16
	MaxRound = math.MaxInt32
	MaxTries = math.MaxUint16

	maxHost    = 300
	maxReason  = 200
	maxETag    = 1024
	maxDate    = 128
	maxWord    = 32
	maxHop     = 255
	maxBytes   = 1 << 50
	maxErrors  = math.MaxInt32
	maxPart    = math.MaxUint16
	maxDelayMS = 1 << 40
	maxMillis  = 253402300799999 // the end of the year 9999
	maxField   = 11
)

// ErrFact is wrapped by every error of Decode.
var ErrFact = errors.New("no valid fact")

// field describes one field of a value: its wire type and the greatest value
// or length.
type field struct {
	typ protowire.Type
	max uint64
}

type schema [maxField + 1]field

// absent marks numbers of a schema that are not in use.
const absent = protowire.Type(-1)

func newSchema(fields map[int]field) *schema {
	var s schema
	for i := range s {
		s[i].typ = absent
	}
	for number, f := range fields {
		s[number] = f
	}
	return &s
}

func number(limit uint64) field { return field{protowire.VarintType, limit} }
func text(limit uint64) field   { return field{protowire.BytesType, limit} }

// schemas are documented in docs/facts.md. Numbers are never used again.
var (
	discoveredSchema = newSchema(map[int]field{1: text(MaxURL), 2: number(maxMillis), 3: text(maxWord), 4: number(maxHop)})
	fetchedSchema    = newSchema(map[int]field{
		1: number(999), 2: text(maxReason), 3: number(maxMillis), 4: text(maxETag), 5: text(maxDate),
		6: {protowire.Fixed64Type, math.MaxUint64}, 7: number(maxBytes), 8: number(MaxDepth), 9: number(1),
		10: number(maxMillis), 11: number(MaxRound),
	})
	triedSchema   = newSchema(map[int]field{1: text(maxReason), 2: number(maxMillis), 3: number(maxMillis)})
	streakSchema  = newSchema(map[int]field{1: number(maxErrors), 2: number(maxMillis)})
	blockedSchema = newSchema(map[int]field{1: number(maxMillis), 2: text(maxReason), 3: number(maxMillis)})
	parkedSchema  = newSchema(map[int]field{1: text(maxReason), 2: number(maxMillis)})
	robotsSchema  = newSchema(map[int]field{
		1: text(maxWord), 2: text(MaxRules), 3: number(maxDelayMS), 4: number(maxMillis), 5: number(maxMillis),
	})
	jsonSchema = newSchema(map[int]field{1: text(MaxJSON)})
)

// raw is a fact whose texts are still those of the record: what Fold reads.
type raw struct {
	kind    byte
	subject []byte // URL or host
	host    []byte // politeness key
	target  []byte // of the URL
	a, b    uint32 // numbers of the key: depth; round and number; part
	has     uint16 // bit per field that is present
	n       [maxField + 1]uint64
	t       [maxField + 1][]byte
}

// Decode reads a fact of the frontier topic. Unknown fields are skipped.
// Errors wrap ErrFact; nothing of the record is kept by the fact.
func Decode(key, value []byte) (Fact, error) {
	var r raw
	if err := r.decode(key, value); err != nil {
		return nil, err
	}
	return r.fact(), nil
}

func (r *raw) decode(key, value []byte) error {
	s, err := r.decodeKey(key)
	if err != nil {
		return err
	}
	if len(value) == 0 || value[0] != version {
		return fmt.Errorf("%w: %q fact of another version than %d", ErrFact, r.kind, version)
	}
	for b := value[1:]; len(b) > 0; {
		n, err := r.decodeField(s, b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	if r.kind == kindFetched && r.n[1] == 0 && len(r.t[2]) == 0 {
		return fmt.Errorf("%w: neither status nor refusal", ErrFact)
	}
	return nil
}

func (r *raw) decodeKey(key []byte) (s *schema, err error) {
	if len(key) == 0 {
		return nil, fmt.Errorf("%w: empty key", ErrFact)
	}
	r.kind = key[0]
	rest := key[1:]
	fixed, isURL := 0, false
	switch r.kind {
	case kindDiscovered:
		s, fixed, isURL = discoveredSchema, 2, true
	case kindFetched:
		s, isURL = fetchedSchema, true
	case kindTried:
		s, fixed, isURL = triedSchema, 6, true
	case kindStreak:
		s = streakSchema
	case kindBlocked:
		s, fixed = blockedSchema, 2
	case kindParked:
		s = parkedSchema
	case kindRobots:
		s = robotsSchema
	case kindSpec, kindSummary:
		if len(rest) > 0 {
			return nil, fmt.Errorf("%w: %q key with a subject", ErrFact, r.kind)
		}
		return jsonSchema, nil
	default:
		return nil, fmt.Errorf("%w: unknown kind %q", ErrFact, r.kind)
	}
	if len(rest) < fixed {
		return nil, fmt.Errorf("%w: %q key of %d bytes", ErrFact, r.kind, len(key))
	}
	switch fixed {
	case 2:
		r.a = uint32(binary.BigEndian.Uint16(rest))
	case 6:
		r.a, r.b = binary.BigEndian.Uint32(rest), uint32(binary.BigEndian.Uint16(rest[4:]))
		if r.a == 0 || r.a > MaxRound || r.b == 0 {
			return nil, fmt.Errorf("%w: try %d of round %d", ErrFact, r.b, r.a)
		}
	}
	r.subject = rest[fixed:]
	if !isURL {
		r.host = r.subject
		if len(r.host) > maxHost || !validHost(r.host) {
			return nil, fmt.Errorf("%w: no host: %.100q", ErrFact, r.host)
		}
		return s, nil
	}
	ok := len(r.subject) <= MaxURL
	if ok {
		r.host, r.target, ok = cutCanonical(r.subject)
	}
	if !ok {
		return nil, fmt.Errorf("%w: no canonical URL of at most %d bytes: %.100q", ErrFact, MaxURL, r.subject)
	}
	return s, nil
}

// decodeField reads one field and answers with its length.
func (r *raw) decodeField(s *schema, b []byte) (int, error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, fmt.Errorf("%w: %w", ErrFact, protowire.ParseError(n))
	}
	if num > maxField || s[num].typ == absent {
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return 0, fmt.Errorf("%w: %w", ErrFact, protowire.ParseError(m))
		}
		return n + m, nil
	}
	if typ != s[num].typ {
		return 0, fmt.Errorf("%w: field %d of a %q fact has wire type %d", ErrFact, num, r.kind, typ)
	}
	var m int
	var size uint64
	switch typ {
	case protowire.VarintType:
		r.n[num], m = protowire.ConsumeVarint(b[n:])
		size = r.n[num]
	case protowire.Fixed64Type:
		r.n[num], m = protowire.ConsumeFixed64(b[n:])
	default:
		r.t[num], m = protowire.ConsumeBytes(b[n:])
		size = uint64(len(r.t[num]))
	}
	if m < 0 {
		return 0, fmt.Errorf("%w: %w", ErrFact, protowire.ParseError(m))
	}
	if size > s[num].max {
		return 0, fmt.Errorf("%w: field %d of a %q fact: %d is more than %d", ErrFact, num, r.kind, size, s[num].max)
	}
	r.has |= 1 << num
	return n + m, nil
}

// time of field i; zero if it is absent.
func (r *raw) time(i int) time.Time {
	if r.has&(1<<i) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(r.n[i])).UTC()
}

func (r *raw) round() uint32 { return uint32(max(r.n[11], 1)) }

func (r *raw) fact() Fact {
	subject := string(r.subject)
	switch r.kind {
	case kindDiscovered:
		return Discovered{
			URL: subject, Depth: int(r.a), Parent: string(r.t[1]), When: r.time(2), How: string(r.t[3]), Hop: int(r.n[4]),
		}
	case kindFetched:
		return Fetched{
			URL: subject, Status: int(r.n[1]), Refusal: string(r.t[2]), When: r.time(3), ETag: string(r.t[4]),
			LastModified: string(r.t[5]), Digest: r.n[6], Bytes: int64(r.n[7]), Depth: int(r.n[8]), CutDepth: r.n[9] == 1,
			NextDue: r.time(10), Round: int(r.round()),
		}
	case kindTried:
		return Tried{
			URL: subject, Round: int(r.a), Number: int(r.b), Class: string(r.t[1]), NextDue: r.time(2), When: r.time(3),
		}
	case kindStreak:
		return Streak{Host: subject, Errors: int(r.n[1]), When: r.time(2)}
	case kindBlocked:
		return Blocked{Host: subject, Part: int(r.a), Until: r.time(1), Reason: string(r.t[2]), When: r.time(3)}
	case kindParked:
		return Parked{Host: subject, Reason: string(r.t[1]), When: r.time(2)}
	case kindRobots:
		f := Robots{
			Host: subject, Scheme: string(r.t[1]), CrawlDelay: time.Duration(r.n[3]) * time.Millisecond,
			Expiry: r.time(4), When: r.time(5),
		}
		if len(r.t[2]) > 0 {
			f.Rules = append([]byte(nil), r.t[2]...)
		}
		return f
	case kindSpec:
		return Spec{JSON: append([]byte(nil), r.t[1]...)}
	default:
		return Summary{JSON: append([]byte(nil), r.t[1]...)}
	}
}
