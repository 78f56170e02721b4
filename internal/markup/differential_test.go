package markup

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// events writes down what a Scanner finds, a line each; texts in pieces are one.
func events(src []byte, begin func(*Scanner, []byte)) []string {
	var s Scanner
	begin(&s, src)
	var out recorder
	for {
		switch s.Next() {
		case End:
			return out.lines()
		case Text:
			out.text(s.Text())
		case Comment:
			out.line("comment " + fmt.Sprintf("%q", s.Text()))
		case Doctype:
			out.line("doctype")
		case EndTag:
			out.line("end " + string(s.Name()))
		case StartTag:
			var attrs attributes
			for s.NextAttr() {
				attrs.add(s.Key(), s.Value())
			}
			out.start(string(s.Name()), &attrs, s.SelfClosing())
		}
	}
}

// theirs is events by golang.org/x/net/html.
func theirs(src []byte) []string {
	z := html.NewTokenizer(bytes.NewReader(src))
	var out recorder
	for {
		token := z.Next()
		switch token {
		case html.ErrorToken:
			return out.lines()
		case html.TextToken:
			out.text(z.Text())
		case html.CommentToken:
			if string(z.Raw()) != "</>" {
				out.line("comment " + fmt.Sprintf("%q", commentText(z)))
			}
		case html.DoctypeToken:
			out.line("doctype")
		case html.EndTagToken:
			name, _ := z.TagName()
			out.line("end " + string(name))
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := string(name)
			var attrs attributes
			for more {
				var key, val []byte
				key, val, more = z.TagAttr()
				attrs.add(key, val)
			}
			out.start(tag, &attrs, token == html.SelfClosingTagToken)
		}
	}
}

// commentText is the text without the references, which the tokenizer resolves
// although comments have none.
func commentText(z *html.Tokenizer) []byte {
	text := z.Raw()
	if bytes.IndexByte(text, '&') < 0 {
		return z.Text()
	}
	z = html.NewTokenizer(bytes.NewReader(bytes.ReplaceAll(text, []byte("&"), []byte("\x01"))))
	z.Next()
	return bytes.ReplaceAll(z.Text(), []byte("\x01"), []byte("&"))
}

const (
	selfClosed = " /"
	twice      = " twice"
)

type attributes struct {
	seen  map[string]bool
	list  []string
	twice bool // one of them came again
}

func (a *attributes) add(key, val []byte) {
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	if k := string(key); !a.seen[k] {
		a.seen[k] = true
		a.list = append(a.list, fmt.Sprintf("%q=%q", k, val))
		return
	}
	a.twice = true
}

type recorder struct {
	out     []string
	pending []byte
}

func (r *recorder) text(b []byte) { r.pending = append(r.pending, b...) }

func (r *recorder) line(s string) { r.out = append(r.lines(), s) }

func (r *recorder) start(name string, a *attributes, closed bool) {
	end := ""
	switch {
	case a.twice:
		end = twice
	case closed:
		end = selfClosed
	}
	r.line(fmt.Sprintf("start %s %s%s", name, strings.Join(a.list, " "), end))
}

func (r *recorder) lines() []string {
	if len(r.pending) > 0 {
		r.out = append(r.out, fmt.Sprintf("text %q", r.pending))
		r.pending = nil
	}
	return r.out
}

// bug is where the tokenizer leaves the escaped state of a script on a
// less-than sign that begins no tag, which the standard does not.
var bug = regexp.MustCompile(`(?is)<script.*<!--.*<[^/a-z]`)

func agree(t interface{ Fatalf(string, ...any) }, src []byte) {
	ours, other := events(src, (*Scanner).Reset), theirs(src)
	for i := range max(len(ours), len(other)) {
		a, b := "nothing", "nothing"
		if i < len(ours) {
			a = ours[i]
		}
		if i < len(other) {
			b = other[i]
		}
		if head, ok := strings.CutSuffix(a, twice); ok {
			// It takes the end of an attribute that came again for a slash.
			a, b = head, strings.TrimSuffix(b, selfClosed)
		}
		if a != b {
			if bug.Match(src) {
				return
			}
			t.Fatalf("%q, event %d:\n ours %s\nother %s", src, i, a, b)
		}
	}
}

// pieces make documents that lie on the edges of the states.
var pieces = []string{
	"<", "<", "</", "<!", "<!--", "-->", "--!>", "--", "-", "!", "<?", ">", ">", ">", "/", "/>", "=", "\"", "'", " ", "\t", "\n", "\f", "\r",
	"\r\n", "\x00", "a", "A", "b", "x", "0", "é", "\xff", "&", ";", "#", "&#", "&#x", "&amp;", "&amp", "&AMP", "&copy=", "&copy", "&notit;", "&not",
	"&lang;", "&semi;", "&fjlig;", "&acE;", "&nGt;", "&nLt;", "&CounterClockwiseContourIntegral;", "&#0;", "&#65", "&#x80;", "&#150;", "&#xD800;", "&#1114112;", "&#99999999999;", "&zz;",
	"<a", "<p", "</a>", "</p>", "<br/>", "</>", "<a href", "<a b=c/>", "<A HREF='", " href=", " class=\"", "<![CDATA[", "]]>", "<!DOCTYPE html>", "<!doctype",
	"<script>", "<script", "</script>", "</script", "</SCRIPT ", "<style>", "</style>", "<title>", "</title>", "<Title>", "</tITLE\n>", "<textarea>", "</textarea/>",
	"<xmp>", "</xmp>", "<iframe>", "</iframe>", "<noembed>", "</noembed>", "<noframes>", "</noframes>", "<noscript>", "</noscript>", "</titl>", "</titlex>", "<plaintext>",
}

func TestAgrees(t *testing.T) {
	document := rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		agree(t, []byte(strings.Join(document.Draw(t, "document"), "")))
	})
}

func FuzzAgrees(f *testing.F) {
	for _, p := range pieces {
		f.Add([]byte("<p>" + p + "<a b" + p + "c>"))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			t.Skip()
		}
		agree(t, src)
	})
}
