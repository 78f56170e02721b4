package web

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

const (
	minPool   = 256 << 10
	maxPool   = 8 << 20
	poolWords = 700
)

// text is a pool of sentences, made once; a page is a choice of stretches of
// it, so that making a page copies bytes instead of choosing words.
type text struct {
	words []string
	pool  []byte
	start []int32 // where each sentence begins
}

// newText makes a pool as large as the web itself, within bounds: a thousand
// pages of 8 KB then hardly share a paragraph.
func newText(seed uint64, webSize int) *text {
	poolSize := min(max(webSize, minPool), maxPool)
	t := &text{words: makeWords(seed), pool: make([]byte, 0, poolSize+256)}
	h := mix(seed ^ 0x7465787473)
	for len(t.pool) < poolSize {
		t.start = append(t.start, int32(len(t.pool)))
		h = mix(h + 0x9e3779b97f4a7c15)
		first := len(t.pool)
		for i := range 6 + below(h, 12) {
			h = mix(h + 0x9e3779b97f4a7c15)
			if i > 0 {
				t.pool = append(t.pool, ' ')
			}
			t.pool = append(t.pool, t.words[skewed(h, len(t.words))]...)
		}
		t.pool[first] -= 'a' - 'A'
		t.pool = append(t.pool, ". "...)
	}
	return t
}

// skewed prefers small numbers, as languages prefer some words.
func skewed(h uint64, n int) int {
	return below(h, n) * below(mix(h), n) / n * below(mix(h^1), n) / n
}

var (
	onsets = []string{"b", "br", "d", "dr", "f", "fl", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "pr", "r", "s", "st", "sk", "t", "tr", "v", "w"}
	nuclei = []string{"a", "e", "i", "o", "u", "ai", "ea", "ou"}
	codas  = []string{"", "", "n", "r", "l", "s", "t", "m", "nd", "rk"}
)

// makeWords gives distinct words of one to four syllables.
func makeWords(seed uint64) []string {
	seen := make(map[string]bool, poolWords)
	words := make([]string, 0, poolWords)
	h := mix(seed ^ 0x776f726473)
	for len(words) < poolWords {
		var b []byte
		h = mix(h + 0x9e3779b97f4a7c15)
		for range 1 + below(h, 4) {
			h = mix(h + 0x9e3779b97f4a7c15)
			b = append(b, onsets[below(h, len(onsets))]...)
			b = append(b, nuclei[below(mix(h^1), len(nuclei))]...)
			b = append(b, codas[below(mix(h^2), len(codas))]...)
		}
		if w := string(b); !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	return words
}

// stretch is some whole sentences, of about n bytes.
func (t *text) stretch(h uint64, n int) []byte {
	i := below(h, len(t.start))
	from := int(t.start[i])
	to := min(from+n, len(t.pool))
	if cut := bytes.LastIndexByte(t.pool[from:to], '.'); cut > 0 {
		to = from + cut + 1
	}
	return t.pool[from:to]
}

// Title of a page: its place, and three words that are its own.
func (w *Web) Title(r Ref) string { return string(w.appendTitle(nil, r)) }

func (w *Web) appendTitle(dst []byte, r Ref) []byte {
	h := w.hash(r, forBody)
	dst = append(dst, "Page "...)
	dst = strconv.AppendInt(dst, int64(r.Page), 10)
	dst = append(dst, " of host "...)
	dst = strconv.AppendInt(dst, int64(r.Host), 10)
	dst = append(dst, ':')
	for range 3 {
		h = mix(h)
		dst = append(dst, ' ')
		dst = append(dst, w.text.words[below(h, len(w.text.words))]...)
	}
	return dst
}

// Size is the number of bytes that the body of a plain page aims at.
func (w *Web) Size(r Ref) int {
	return w.cfg.Size/2 + below(w.hash(r, forBody), w.cfg.Size)
}

// A block of a page is at most blockText bytes of text in some markup.
const (
	blockText = 320
	blockEnd  = "</p></div></section>\n"
)

// AppendBody appends the HTML of a plain or flaky page to dst. It has at
// least the size that its links need.
func (w *Web) AppendBody(dst []byte, r Ref) []byte {
	begin := len(dst)
	var room [64]Ref
	links := w.Links(room[:0], r)
	r = w.source(r)
	dst = append(dst, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>"...)
	dst = w.appendTitle(dst, r)
	dst = append(dst, "</title></head><body>\n<h1>"...)
	dst = w.appendTitle(dst, r)
	dst = append(dst, "</h1>\n<ul>\n"...)
	for i, l := range links {
		dst = append(dst, "<li><a href=\""...)
		dst = w.appendHref(dst, r, l, i)
		dst = append(dst, "\">"...)
		dst = append(dst, w.text.words[below(mix(uint64(l.Page)), len(w.text.words))]...)
		dst = append(dst, "</a></li>\n"...)
	}
	dst = append(dst, "</ul>\n"...)
	h := w.hash(r, forBody)
	var markup [256]byte
	block := w.appendBlock(markup[:0], h)
	frame := len(block) + len(blockEnd)
	for left := w.Size(r) - (len(dst) - begin) - 20 - frame; left > 0; left = w.Size(r) - (len(dst) - begin) - 20 - frame {
		h = mix(h + 0x9e3779b97f4a7c15)
		dst = append(dst, block...)
		dst = append(dst, w.text.stretch(h, min(blockText, left))...)
		dst = append(dst, blockEnd...)
	}
	return append(dst, "</body></html>\n"...)
}

// appendHref appends how page r writes its link number i to page l.
func (w *Web) appendHref(dst []byte, r, l Ref, i int) []byte {
	way := -1
	if w.cfg.Spellings > 0 {
		if h := w.hash(l, forSpelling+uint64(r.Page+i)<<8); below(h, 1000) < w.cfg.Spellings {
			way = below(mix(h), spellings)
		}
	}
	switch {
	case way >= 0:
		dst = append(dst, [spellings]string{"http://", "HTTP://", "//", "\n\thttp://", "http://", "//"}[way]...)
		dst = append(dst, w.Host(l.Host)...)
		dst = append(dst, [spellings]string{"", "", "", "", "/.", "/p/.."}[way]...)
	case l.Host != r.Host:
		dst = append(dst, "http://"...)
		dst = append(dst, w.Host(l.Host)...)
	}
	dst = w.appendPath(dst, l)
	if i%8 == 7 { // a fragment is not another page
		dst = append(dst, "#part-"...)
		dst = strconv.AppendInt(dst, int64(i), 10)
	}
	if way == spaced {
		dst = append(dst, " \n"...)
	}
	return dst
}

// The unusual ways to write a URL, which the URL standard makes the same of.
const (
	spellings = 6
	spaced    = 3 // the one with white space around it
)

// appendBlock appends what a block of a page begins with. Its classes are the
// page's own: markup repeats within a page, which is why pages compress five
// times, but not from page to page, which would flatter whoever compresses
// several at once.
func (w *Web) appendBlock(dst []byte, h uint64) []byte {
	for _, part := range [...]string{`<section class="`, ` `, `__`, `" data-kind="`, `-`, `"><div class="`, ` `, `--`, `"><p class="`, ` `} {
		h = mix(h + 1)
		dst = append(dst, part...)
		dst = append(dst, w.text.words[below(h, len(w.text.words))]...)
	}
	return append(dst, `">`...)
}

func robotsTxt(delay time.Duration) []byte {
	b := []byte("User-agent: *\nDisallow: /private/\n")
	if delay > 0 {
		b = fmt.Appendf(b, "Crawl-delay: %g\n", delay.Seconds())
	}
	return b
}
