package extract

import (
	"encoding/binary"
	"unicode/utf8"
)

// Eight bytes at a time: most text is ASCII that stays as it is. In a word whose
// bytes are all below 0x80, adding to each cannot carry into the next, so that
// the highest bit of each tells whether the byte is at least some value.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// control has the highest bit of each byte below 0x20 clear. w is ASCII.
func control(w uint64) uint64 { return w + (0x80-0x20)*ones }

// not has the highest bit of each byte that is c clear. w is ASCII.
func not(w uint64, c byte) uint64 { return (w ^ uint64(c)*ones) + 0x7f*ones }

// wordsLen is the length of words at the beginning of text: printable ASCII with
// single blanks, the first of them not at the beginning.
func wordsLen(text []byte) (n int) {
	blank := uint64(0x80) // before the first byte
	for ; n+8 <= len(text); n += 8 {
		w := binary.LittleEndian.Uint64(text[n:])
		blanks := ^not(w, ' ') & highs
		if w&highs != 0 || control(w)&highs != highs || blanks&(blanks<<8|blank) != 0 {
			break
		}
		blank = blanks >> 56
	}
	for n < len(text) && (text[n] > ' ' && text[n] < utf8.RuneSelf || text[n] == ' ' && n > 0 && text[n-1] != ' ') {
		n++
	}
	return n
}

// plainLen is the length of the beginning that a JSON string holds as it is.
func plainLen(text []byte) (n int) {
	for ; n+8 <= len(text); n += 8 {
		w := binary.LittleEndian.Uint64(text[n:])
		if w&highs != 0 || control(w)&not(w, '"')&not(w, '\\')&not(w, 0x7f)&highs != highs {
			break
		}
	}
	for n < len(text) && plainByte[text[n]] {
		n++
	}
	return n
}
