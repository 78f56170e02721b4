package markup

import (
	"bytes"
	"encoding/xml"
	"html"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHTML(t *testing.T) {
	for _, c := range []struct {
		src  string
		want []string
	}{
		{"", nil},
		{"a<b", []string{`text "a"`}},
		{"a < b <3 </", []string{`text "a < b <3 </"`}},
		{"a</>b", []string{`text "ab"`}},
		{"<A HREF='x&amp;y' b c=\"1&copy=2&copy;\" A=x>", []string{`start a "href"="x&y" "b"="" "c"="1&copy=2©" "a"="x"`}},
		{"<a href=x/><b/><a x=1 x='2'><i = =b/c>", []string{`start a "href"="x/"`, `start b  /`, `start a "x"="1" twice`, `start i "="="b/c"`}},
		{"<p a\x00B='\x00\r\n\r'>\x00\r\n</P\x00>", []string{"start p \"a\ufffdb\"=\"\ufffd\\n\\n\"", `text "\x00\n"`, "end p\ufffd"}},
		{`<a href="x>y</a>`, nil},
		{"<!-- a --!>b<!-->c<!--->d<?e?>f<!g>h</3>", []string{
			`comment " a "`, `text "b"`, `comment ""`, `text "c"`, `comment ""`, `text "d"`, `comment "?e?"`, `text "f"`, `comment "g"`, `text "h"`, `comment "3"`,
		}},
		{"<!DocType html><![CDATA[a]]>", []string{"doctype", `comment "[CDATA[a]]"`}},
		{"<!--<!----", []string{`comment "<!--"`}},
		{"<title>a<b>&lt;</title >c", []string{"start title ", `text "a<b><"`, "end title", `text "c"`}},
		{"<Style>&lt;</styl></STYLE/>c", []string{"start style ", `text "&lt;</styl>"`, "end style", `text "c"`}},
		{"<plaintext></plaintext><b>", []string{"start plaintext ", `text "</plaintext><b>"`}},
		{"<script>a<!--<script></script>b--></script>", []string{"start script ", `text "a<!--<script></script>b-->"`, "end script"}},
		{"<script><!--></script>b", []string{"start script ", `text "<!-->"`, "end script", `text "b"`}},
		{"<script><!-- </script>b", []string{"start script ", `text "<!-- "`, "end script", `text "b"`}},
		// golang.org/x/net/html leaves the comment at the first less-than sign.
		{"<script><!-- 1 < 2 <script></script></script>b", []string{"start script ", `text "<!-- 1 < 2 <script></script>"`, "end script", `text "b"`}},
		{"<script/></script>", []string{"start script  /", "end script"}},
		{"&nGt;&nLt;&notit;&ampx;&#65&#x41;&#150;&#0;&#xD800;&#x;&;&zz;", []string{`text "≫⃒≪⃒¬it;&x;AA–` + "\ufffd\ufffd" + `&#x;&;&zz;"`}},
		{`<a b="&notit;&not;&not" c="&semi;&fjlig;&amp">`, []string{`start a "b"="&notit;¬¬" "c"=";fj&"`}},
	} {
		if got := events([]byte(c.src), (*Scanner).Reset); !slices.Equal(got, c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.src, got, c.want)
		}
	}
}

func TestXML(t *testing.T) {
	src := "<?xml version='1.0'?><Title><b>&amp;</b></Title><![CDATA[<c>&amp;]]]><script/>x<![CDATA[y"
	want := []string{
		`comment "?xml version='1.0'?"`, "start title ", "start b ", `text "&"`, "end b", "end title", `text "<c>&amp;]"`, "start script  /", `text "xy"`,
	}
	if got := events([]byte(src), (*Scanner).ResetXML); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestHoldsMarkup(t *testing.T) {
	var s Scanner
	s.Reset([]byte("<noscript><a>"))
	if s.Next() != StartTag {
		t.Fatal("no start tag")
	}
	s.HoldsMarkup()
	if s.Next() != StartTag || string(s.Name()) != "a" || s.Next() != End || s.Next() != End {
		t.Error("the content of noscript is not markup")
	}
}

// More attributes than the scanner keeps, and values that outlive each other.
func TestManyAttributes(t *testing.T) {
	var src bytes.Buffer
	src.WriteString("<a")
	for i := range 100 {
		src.WriteString(" K" + strings.Repeat("x", i) + "='&amp;" + strings.Repeat("v", i) + "'")
	}
	src.WriteString("/>rest")
	var s Scanner
	s.Reset(src.Bytes())
	s.Next()
	var keys, values [][]byte
	for s.NextAttr() {
		keys, values = append(keys, s.Key()), append(values, s.Value())
	}
	if len(keys) != 100 || !s.SelfClosing() || string(s.Name()) != "a" {
		t.Fatalf("%d attributes, name %q", len(keys), s.Name())
	}
	for i := range keys {
		if string(keys[i]) != "k"+strings.Repeat("x", i) || string(values[i]) != "&"+strings.Repeat("v", i) {
			t.Fatalf("attribute %d: %q=%q", i, keys[i], values[i])
		}
	}
	if s.NextAttr() || s.Next() != Text || string(s.Text()) != "rest" {
		t.Error("what follows the tag is wrong")
	}
}

// The names that are looked up without the html package mean what it says.
func TestCommonNames(t *testing.T) {
	if len(xml.HTMLEntity) < 250 {
		t.Fatalf("%d names", len(xml.HTMLEntity))
	}
	for name := range xml.HTMLEntity {
		if got, want := common([]byte(name)), html.UnescapeString("&"+name+";"); got != want && got != "" {
			t.Errorf("&%s; is %q, want %q", name, got, want)
		}
	}
}

// Each of these is quadratic in a scanner that looks for the end of something
// again and again. 1 MB takes some milliseconds; the limit is generous.
func TestHostileTakesLinearTime(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct{ head, unit string }{
		{"", "<"},
		{"", "</"},
		{"", "<!"},
		{"", "<?"},
		{"", "<a "},
		{"", "<a"},
		{"", "</a"},
		{"", "&"},
		{"", "&a"},
		{"", "&#"},
		{"&#", "9"},
		{"&", "a"},
		{"<!--", "-"},
		{"<!--", ">"},
		{"<!--", "--!"},
		{"", "<!--"},
		{"<a ", "b "},
		{"<a ", "b=\""},
		{"<a ", "b=' '"},
		{"<a ", "/"},
		{"<a ", "="},
		{"<a b='", "&amp;"},
		{"<a b='", "\r"},
		{"<a b='", "\x00"},
		{"<script>", "<"},
		{"<script>", "</script"},
		{"<script>", "<!--"},
		{"<script><!--", "<script"},
		{"<script><!--", "<script>"},
		{"<script><!--", "</script"},
		{"<title>", "</title"},
		{"<title>", "</"},
		{"", "<title>"},
		{"", "<title></title>"},
		{"", "\r"},
		{"", "\r&"},
		{"", "\x00\r&"},
		{"<x", "X"},
		{"<a ", "X"},
		{"<a ", "X "},
		{"", "<![CDATA["},
		{"", "<![CDATA[]]"},
		{"", "</>"},
		{"", "<!doctype"},
	} {
		src := []byte(c.head + strings.Repeat(c.unit, (size-len(c.head))/len(c.unit)))
		for _, end := range []string{"", "'>", "-->"} {
			for _, begin := range []func(*Scanner, []byte){(*Scanner).Reset, (*Scanner).ResetXML} {
				start := time.Now()
				if n := consume(new(Scanner), append(src, end...), begin); n > 4*len(src) {
					t.Errorf("%q, %q: %d bytes came out of %d", c.head, c.unit, n, len(src))
				}
				if d := time.Since(start); d > 2*time.Second {
					t.Errorf("%q, %q: %v for %d bytes", c.head, c.unit, d, len(src))
				}
			}
		}
	}
}

// consume asks for everything, and gives how many bytes that was.
func consume(s *Scanner, src []byte, begin func(*Scanner, []byte)) (n int) {
	for begin(s, src); ; {
		switch s.Next() {
		case End:
			return n
		case Text, Comment:
			n += len(s.Text())
		case StartTag:
			for s.NextAttr() {
				n += len(s.Key()) + len(s.Value())
			}
			n += len(s.Name())
		case EndTag:
			n += len(s.Name())
		}
	}
}

// articles is 20 KB of words, with a link in each paragraph of 500 bytes.
func articles() []byte {
	var b bytes.Buffer
	for b.Len() < 20_000 {
		b.WriteString("<p class=\"para\">" + strings.Repeat("some words of text about things ", 14) + "<a class=ref href=\"../page.html\">link</a></p>\n")
	}
	return b.Bytes()
}

// table is 20 KB of small tags.
func table() []byte {
	return bytes.Repeat([]byte("<tr id=r1><td class=\"a\" style='w:1'>x<td><b>y</b><br/></td></tr>\n"), 300)
}

func TestAllocations(t *testing.T) {
	var s Scanner
	for name, src := range map[string][]byte{"text": articles(), "tags": table()} {
		if n := testing.AllocsPerRun(20, func() { consume(&s, src, (*Scanner).Reset) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	references := bytes.Repeat([]byte("<A HREF='x?a&amp;b'>&auml;&#65;\r\n</A>"), 1000)
	if n := testing.AllocsPerRun(20, func() { consume(&s, references, (*Scanner).Reset) }); n > 0 {
		t.Errorf("references: %v allocations", n)
	}
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name string
		src  []byte
	}{{"text", articles()}, {"tags", table()}} {
		b.Run(c.name, func(b *testing.B) {
			var s Scanner
			b.SetBytes(int64(len(c.src)))
			b.ReportAllocs()
			for b.Loop() {
				consume(&s, c.src, (*Scanner).Reset)
			}
		})
	}
}
