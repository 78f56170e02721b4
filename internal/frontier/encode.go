package frontier

import (
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// value builds the value of a record; fields that are zero are left out.
type value []byte

func newValue() value { return value{version} }

func (v value) number(i protowire.Number, n, limit int64) value {
	if n <= 0 {
		return v
	}
	return protowire.AppendVarint(protowire.AppendTag(v, i, protowire.VarintType), uint64(min(n, limit)))
}

func (v value) time(i protowire.Number, t time.Time) value {
	if t.IsZero() {
		return v
	}
	ms := min(max(t.UnixMilli(), 0), maxMillis)
	return protowire.AppendVarint(protowire.AppendTag(v, i, protowire.VarintType), uint64(ms))
}

func (v value) fixed(i protowire.Number, n uint64) value {
	if n == 0 {
		return v
	}
	return protowire.AppendFixed64(protowire.AppendTag(v, i, protowire.Fixed64Type), n)
}

func (v value) bytes(i protowire.Number, b []byte) value {
	if len(b) == 0 {
		return v
	}
	return protowire.AppendBytes(protowire.AppendTag(v, i, protowire.BytesType), b)
}

// text leaves out what is longer than limit: half of it would be wrong.
func (v value) text(i protowire.Number, s string, limit int) value {
	if s == "" || len(s) > limit {
		return v
	}
	return protowire.AppendString(protowire.AppendTag(v, i, protowire.BytesType), s)
}

// words cuts a reason for people at limit.
func (v value) words(i protowire.Number, s string, limit int) value {
	return v.text(i, s[:min(len(s), limit)], limit)
}

// key is the kind, numbers of fixed width, then the subject.
func key16(kind byte, n int, subject string) []byte {
	k := binary.BigEndian.AppendUint16([]byte{kind}, uint16(min(max(n, 0), MaxDepth)))
	return append(k, subject...)
}

func keyOf(kind byte, subject string) []byte { return append([]byte{kind}, subject...) }

// Record gives the key and value for the frontier topic.
func (f Discovered) Record() (key, value []byte) {
	v := newValue().text(1, f.Parent, MaxURL).time(2, f.When).text(3, f.How, maxWord).number(4, int64(f.Hop), maxHop)
	return key16(kindDiscovered, f.Depth, f.URL), v
}

// HostKey is the politeness key of the locator.
func (f Discovered) HostKey() string { return HostOf(f.URL) }

// Record gives the key and value for the frontier topic. A round below 1 is
// written as 1; an answer without status and refusal as the refusal "unknown".
func (f Fetched) Record() (key, value []byte) {
	if f.Status <= 0 && f.Refusal == "" {
		f.Refusal = "unknown"
	}
	v := newValue().number(1, int64(f.Status), 999).words(2, f.Refusal, maxReason).time(3, f.When).
		text(4, f.ETag, maxETag).text(5, f.LastModified, maxDate).fixed(6, f.Digest).
		number(7, f.Bytes, maxBytes).number(8, int64(f.Depth), MaxDepth)
	if f.CutDepth {
		v = v.number(9, 1, 1)
	}
	v = v.time(10, f.NextDue).number(11, max(int64(f.Round), 1), MaxRound)
	return keyOf(kindFetched, f.URL), v
}

// HostKey is the politeness key of the locator.
func (f Fetched) HostKey() string { return HostOf(f.URL) }

// Record gives the key and value for the frontier topic. Rounds and numbers
// below 1 are written as 1.
func (f Tried) Record() (key, value []byte) {
	k := binary.BigEndian.AppendUint32([]byte{kindTried}, uint32(min(max(f.Round, 1), MaxRound)))
	k = binary.BigEndian.AppendUint16(k, uint16(min(max(f.Number, 1), MaxTries)))
	return append(k, f.URL...), newValue().words(1, f.Class, maxReason).time(2, f.NextDue).time(3, f.When)
}

// HostKey is the politeness key of the locator.
func (f Tried) HostKey() string { return HostOf(f.URL) }

// Record gives the key and value for the frontier topic.
func (f Streak) Record() (key, value []byte) {
	return keyOf(kindStreak, f.Host), newValue().number(1, int64(f.Errors), maxErrors).time(2, f.When)
}

// HostKey is the host.
func (f Streak) HostKey() string { return f.Host }

// Record gives the key and value for the frontier topic.
func (f Blocked) Record() (key, value []byte) {
	return key16(kindBlocked, f.Part, f.Host), newValue().time(1, f.Until).words(2, f.Reason, maxReason).time(3, f.When)
}

// HostKey is the host.
func (f Blocked) HostKey() string { return f.Host }

// Record gives the key and value for the frontier topic.
func (f Parked) Record() (key, value []byte) {
	return keyOf(kindParked, f.Host), newValue().words(1, f.Reason, maxReason).time(2, f.When)
}

// HostKey is the host.
func (f Parked) HostKey() string { return f.Host }

// Record gives the key and value for the frontier topic.
func (f Robots) Record() (key, value []byte) {
	return keyOf(kindRobots, f.Host), newValue().text(1, f.Scheme, maxWord).bytes(2, f.Rules).
		number(3, f.CrawlDelay.Milliseconds(), maxDelayMS).time(4, f.Expiry).time(5, f.When)
}

// HostKey is the host.
func (f Robots) HostKey() string { return f.Host }

// Record gives the key and value for the frontier topic.
func (f Spec) Record() (key, value []byte) { return keyOf(kindSpec, ""), newValue().bytes(1, f.JSON) }

// HostKey is empty: the fact belongs to partition 0.
func (Spec) HostKey() string { return "" }

// Record gives the key and value for the frontier topic.
func (f Summary) Record() (key, value []byte) {
	return keyOf(kindSummary, ""), newValue().bytes(1, f.JSON)
}

// HostKey is empty: the fact belongs to partition 0.
func (Summary) HostKey() string { return "" }
