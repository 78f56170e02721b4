package frontier

import (
	"encoding/binary"
	"math/bits"
)

// table is the seen-set: from the 64-bit hash of a URL to a word of 48 bits.
//
// 256 segments by the first byte of the hash; in each, open addressing with
// linear probing in the order of the hashes, so that a high load is cheap and
// growing is one sequential copy. An entry takes 13 bytes (the other 56 bits
// of the hash, then the word) at a load of 85 to 92 %: at most 16 bytes per
// locator. Segments grow one at a time, so there is never a second copy of it
// all.
type table struct {
	segments [256]segment
	len      int
}

type segment struct {
	b     []byte // slots, also beyond homes: where the last run ends
	homes uint64
	len   uint64
}

const (
	slotBytes = 13
	hashMask  = 1<<56 - 1
	wordMask  = 1<<48 - 1
	firstHome = 8
	slack     = 48
)

// split gives the segment and the hash within it, never 0 (the empty slot).
func (t *table) split(hash uint64) (*segment, uint64) {
	return &t.segments[hash>>56], max(hash&hashMask, 1)
}

// get answers with the word of a hash, 0 if it is not known.
func (t *table) get(hash uint64) uint64 {
	s, h := t.split(hash)
	if s.len == 0 {
		return 0
	}
	if at, found := s.find(h); found {
		return s.word(at)
	}
	return 0
}

// put sets the word (48 bits) of a hash.
func (t *table) put(hash, word uint64) {
	s, h := t.split(hash)
	if s.put(h, word&wordMask) {
		t.len++
	}
}

// bytes is the memory of the slots.
func (t *table) bytes() int {
	n := 0
	for i := range t.segments {
		n += cap(t.segments[i].b)
	}
	return n
}

func (s *segment) hash(at int) uint64 { return binary.LittleEndian.Uint64(s.b[at:]) & hashMask }
func (s *segment) word(at int) uint64 { return binary.LittleEndian.Uint64(s.b[at+5:]) >> 16 }

func (s *segment) set(at int, h, word uint64) {
	binary.LittleEndian.PutUint64(s.b[at:], h|word<<56)
	binary.LittleEndian.PutUint64(s.b[at+5:], h>>40|word<<16)
}

// home is monotone in h, which keeps the slots in the order of the hashes.
func (s *segment) home(h uint64) int {
	hi, _ := bits.Mul64(h<<8, s.homes)
	return int(hi) * slotBytes
}

// find answers with the place of h, or the place where it belongs.
func (s *segment) find(h uint64) (at int, found bool) {
	for at = s.home(h); at < len(s.b); at += slotBytes {
		if have := s.hash(at); have == 0 || have >= h {
			return at, have == h
		}
	}
	return at, false
}

func (s *segment) put(h, word uint64) (added bool) {
	if s.homes == 0 {
		s.resize(firstHome, slack)
	}
	at, found := s.find(h)
	if found {
		s.set(at, h, word)
		return false
	}
	if (s.len+1)*100 > s.homes*92 {
		s.resize(s.len*100/85+firstHome, slack)
		at, _ = s.find(h)
	}
	for extra := slack; !s.insert(at, h, word); extra *= 2 {
		s.resize(s.homes, extra*2) // the last run reached the end
		at, _ = s.find(h)
	}
	s.len++
	return true
}

// insert shifts the rest of the run by one slot; false if there is no room.
func (s *segment) insert(at int, h, word uint64) bool {
	end := at
	for end < len(s.b) && s.hash(end) != 0 {
		end += slotBytes
	}
	if end >= len(s.b) {
		return false
	}
	copy(s.b[at+slotBytes:end+slotBytes], s.b[at:end])
	s.set(at, h, word)
	return true
}

// resize copies the entries, in order, to a segment of another size.
func (s *segment) resize(homes uint64, extra int) {
	for ; ; extra *= 2 {
		grown := segment{b: make([]byte, (int(homes)+extra)*slotBytes), homes: homes, len: s.len}
		if grown.fill(s) {
			*s = grown
			return
		}
	}
}

func (s *segment) fill(from *segment) bool {
	next := 0
	for at := 0; at < len(from.b); at += slotBytes {
		h := from.hash(at)
		if h == 0 {
			continue
		}
		to := max(s.home(h), next)
		if to >= len(s.b) {
			return false
		}
		s.set(to, h, from.word(at))
		next = to + slotBytes
	}
	return true
}
