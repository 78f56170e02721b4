package links

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"

	"trawl/internal/weburl"
)

func mustURL(t testing.TB, s string) weburl.URL {
	u, err := weburl.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var kinds = []string{"anchor", "frame", "refresh", "canonical", "link", "embedded", "sitemap", "redirect"}

// lines writes what was found as "kind url", without the base's origin.
func lines(found []Found) []string {
	var out []string
	for _, f := range found {
		out = append(out, kinds[f.Kind]+" "+strings.TrimPrefix(f.URL, "https://h.example"))
	}
	return out
}

func TestHTML(t *testing.T) {
	for _, c := range []struct {
		name, body string
		opt        Options
		want       []string
	}{
		{"anchors and areas", `<a href="a">x</a><AREA HREF='/b'><a name=x>`, Options{}, []string{"anchor /d/a", "anchor /b"}},
		{"once each", `<a href=a><a href="a#x"><a href=./a><a href=" a ">`, Options{}, []string{"anchor /d/a"}},
		{"other schemes", `<a href="mailto:x"><a href=" JavaScript:void(0)"><a href="tel:1"><a href="data:,"><a href="#x"><a href=""><a href="ftp://a/">`, Options{}, nil},
		{"entities and white space", "<a href=\"\n /x?a=1&amp;b=2&copy=3 \t\"><a href='/y&#47;z'>", Options{}, []string{"anchor /x?a=1&b=2&copy=3", "anchor /y/z"}},
		{"newline inside", "<a href=\"/a\nb\">", Options{}, []string{"anchor /ab"}},
		{"unicode", `<a href="/ü?ü">`, Options{}, []string{"anchor /%C3%BC?%C3%BC"}},
		{"unquoted, broken", `<a href=/x/>y<a href="/z" <a href=/w>`, Options{}, []string{"anchor /x/", "anchor /z"}},
		{"frames", `<frame src=f><iframe src=g><a href=in></iframe>`, Options{}, []string{"frame /d/f", "frame /d/g"}},
		{"noframes is read", `<noframes><a href=n></noframes><noscript><a href=m></noscript>`, Options{}, []string{"anchor /d/n", "anchor /d/m"}},
		{"comments and scripts are not", `<!-- <a href=c> --><script>"<a href=s>"</script><style><a href=t></style><textarea><a href=u></textarea>`, Options{}, nil},
		{"base", `<base target=x><base href="/e/"><base href="/no/"><a href=a>`, Options{}, []string{"anchor /e/a"}},
		{"empty base", `<base href=""><base href="/e/"><a href=a>`, Options{}, []string{"anchor /d/a"}},
		{"base changes meaning", `<a href=a><base href="/e/"><a href=a><a href="/d/a">`, Options{}, []string{"anchor /d/a", "anchor /e/a"}},
		{"base on another host", `<base href="http://o.example"><a href=a>`, Options{}, []string{"anchor http://o.example/a"}},
		{"refresh", `<meta http-equiv=Refresh content="0; URL='n.html'">`, Options{}, []string{"refresh /d/n.html"}},
		{"refresh forms", `<meta http-equiv=refresh content="5"><meta http-equiv=refresh content="1,a"><meta http-equiv=refresh content=" 2.5 ; url = b"><meta http-equiv=refresh content='3;URL="c"x'><meta http-equiv=refresh content="9x;url=no">`, Options{}, []string{"refresh /d/a", "refresh /d/b", "refresh /d/c"}},
		{"link elements", `<link rel=next href=n><link rel="Alternate" href=r><link rel=stylesheet href=s.css><link rel="shortcut icon" href=i><link rel=preconnect href="//p.example"><link href=bare>`, Options{}, []string{"link /d/n", "link /d/r", "link /d/bare"}},
		{"nofollow is followed", `<a rel=nofollow href=a>`, Options{}, []string{"anchor /d/a"}},
		{"nofollow by option", `<a rel="x NoFollow" href=a><a rel=ugc href=b><a rel=nofollowed href=c>`, Options{RelNofollow: true}, []string{"anchor /d/c"}},
		{"duplicate attribute", `<a href=first href=second>`, Options{}, []string{"anchor /d/first"}},
		{"no embedded", `<img src=i><script src=s></script>`, Options{}, nil},
		{
			"embedded", `<img src=i srcset="a.png 1x, b.png 2x,c.png"><script src=s></script><video poster=p src=v><source srcset="data:,x, d 1x"><object data=o></object><link rel=stylesheet href=s.css><body background=b><input type=image src=in>`,
			Options{Embedded: true},
			[]string{"embedded /d/i", "embedded /d/a.png", "embedded /d/b.png", "embedded /d/c.png", "embedded /d/s", "embedded /d/v", "embedded /d/p", "embedded /d/d", "embedded /d/o", "embedded /d/s.css", "embedded /d/b", "embedded /d/in"},
		},
		{"maximum", `<a href=a><a href=b><a href=c>`, Options{Max: 2}, []string{"anchor /d/a", "anchor /d/b"}},
		{"meta nofollow", `<a href=a><meta name=ROBOTS content="noindex,nofollow"><a href=b>`, Options{}, nil},
		{"meta nofollow ignored", `<meta name=robots content=none><a href=b>`, Options{IgnoreMetaNofollow: true}, []string{"anchor /d/b"}},
		{"charset of the query", `<a href="/я?q=я&x=ü#я">`, Options{Charset: "windows-1251"}, []string{"anchor /%D1%8F?q=%FF&x=%26%23252%3B"}},
	} {
		base := mustURL(t, "https://h.example/d/page?q")
		before := Found{URL: "before"}
		found, meta := HTML([]Found{before}, base, []byte(c.body), c.opt)
		if found[0] != before {
			t.Fatalf("%s: dst was overwritten", c.name)
		}
		if got := lines(found[1:]); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
		if meta.Cut != (c.opt.Max > 0) {
			t.Errorf("%s: cut %v", c.name, meta.Cut)
		}
		for _, f := range found[1:] {
			if f.How != HowLink {
				t.Errorf("%s: how %q", c.name, f.How)
			}
		}
	}
}

func TestMeta(t *testing.T) {
	base := mustURL(t, "https://h.example/d/")
	_, meta := HTML(nil, base, []byte(`<link rel=canonical href=c><link rel=canonical href=d><meta name=robots content="NoIndex"><a href="http://">`), Options{})
	if want := (Meta{Canonical: "https://h.example/d/c", Noindex: true, Refused: 1}); meta != want {
		t.Errorf("meta %+v", meta)
	}
	m := meta.Merge(Meta{Canonical: "x", Nofollow: true, Cut: true, Refused: 2})
	if want := (Meta{Canonical: "https://h.example/d/c", Noindex: true, Nofollow: true, Cut: true, Refused: 3}); m != want {
		t.Errorf("merged %+v", m)
	}
}

func TestDefaultMax(t *testing.T) {
	var b strings.Builder
	for i := range DefaultMax + 10 {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	found, meta := HTML(nil, mustURL(t, "https://h.example/"), []byte(b.String()), Options{})
	if len(found) != DefaultMax || !meta.Cut {
		t.Errorf("%d found, cut %v", len(found), meta.Cut)
	}
}

func TestHeaders(t *testing.T) {
	h := http.Header{}
	h.Set("Location", "/moved#x")
	h.Set("Refresh", "3; url=r")
	h.Add("Link", `</n>; rel="next"; title="a, <b>; c", <http://o.example/c>; rel=canonical,</s.css>; rel=preload; as=style`)
	h.Add("Link", `</x>;rel=x;title="unclosed`)
	h.Add("Link", `broken <`)
	h.Add("X-Robots-Tag", "otherbot: noindex")
	h.Add("X-Robots-Tag", "nofollow")
	found, meta := Headers(nil, mustURL(t, "https://h.example/d/"), h, Options{})
	want := []string{"redirect /moved", "refresh /d/r", "link /n", "canonical http://o.example/c", "link /x"}
	if got := lines(found); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if found[0].How != HowRedirect || found[1].How != HowLink {
		t.Errorf("how %q, %q", found[0].How, found[1].How)
	}
	if !meta.Nofollow || meta.Noindex || meta.Canonical != "http://o.example/c" {
		t.Errorf("meta %+v", meta)
	}
}

func gz(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSitemap(t *testing.T) {
	urlset := `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="i">
<url><loc> https://h.example/a?x=1&amp;y=2 </loc><image:image><image:loc>https://h.example/i.png</image:loc></image:image>
<xhtml:link rel="alternate" hreflang="de" href="https://h.example/de"/></url>
<url><loc><![CDATA[https://h.example/b?x&copy=1]]></loc></url><loc>https://h.example/outside</loc><!-- <url><loc>/c</loc></url> --></urlset>`
	want := []string{"anchor /a?x=1&y=2", "link /de", "anchor /b?x&copy=1"}
	base := mustURL(t, "https://h.example/sitemap.xml")
	for name, body := range map[string][]byte{
		"xml": []byte(urlset), "gzip": gz(t, []byte(urlset)), "utf-16": utf16(t, strings.Replace(urlset, "UTF-8", "UTF-16", 1)),
		"prefixed": []byte(strings.NewReplacer("<url>", "<s:url>", "</url>", "</s:url>", "<loc>", "<s:loc>", "</loc>", "</s:loc>").Replace(urlset)),
	} {
		found, meta := Sitemap(nil, base, body, Options{})
		if got := lines(found); !slices.Equal(got, want) || meta.Cut {
			t.Errorf("%s: got %q", name, got)
		}
		if found[0].How != HowSitemap {
			t.Errorf("%s: how %q", name, found[0].How)
		}
	}
	index := `<sitemapindex><sitemap><loc>/1.xml.gz</loc></sitemap><sitemap><loc>/2.xml</loc></sitemap></sitemapindex>`
	found, _ := Sitemap(nil, base, []byte(index), Options{})
	if got := lines(found); !slices.Equal(got, []string{"sitemap /1.xml.gz", "sitemap /2.xml"}) {
		t.Errorf("index: got %q", got)
	}
	found, _ = Sitemap(nil, base, []byte("\xef\xbb\xbfhttps://h.example/t1\r\n\r\n https://h.example/t2 \nnot a url\n/rel\n"), Options{})
	if got := lines(found); !slices.Equal(got, []string{"anchor /t1", "anchor /t2"}) {
		t.Errorf("text: got %q", got)
	}
}

func TestSitemapIsBounded(t *testing.T) {
	line := "https://h.example/x\n"
	bomb := gz(t, []byte(line+strings.Repeat("\n", 32<<20)))
	found, meta := Sitemap(nil, mustURL(t, "https://h.example/s"), bomb, Options{Limit: 1000})
	if !meta.Cut || len(found) != 1 {
		t.Errorf("%d found, cut %v", len(found), meta.Cut)
	}
	found, meta = Sitemap(nil, mustURL(t, "https://h.example/s"), []byte{0x1f, 0x8b, 1, 2}, Options{})
	if !meta.Cut || len(found) != 0 {
		t.Errorf("broken gzip: %d found, cut %v", len(found), meta.Cut)
	}
}

func TestFeed(t *testing.T) {
	base := mustURL(t, "https://h.example/feed")
	rss := `<?xml version="1.0"?><rss version="2.0" xmlns:atom="a"><channel><title/><link>https://h.example/</link><atom:link rel="self" href="/feed"/>
<item><title><![CDATA[<a href="/no">]]></title><link>/one?a=1&amp;b</link><guid>https://h.example/perm</guid><description>&lt;a href="/no2"&gt;</description></item>
<item><link>/one?a=1&amp;b</link><guid isPermaLink="false">https://h.example/not</guid><enclosure url="/e.mp3"/></item></channel></rss>`
	atom := `<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><link rel="hub" href="/hub"/><entry><link rel="alternate" href="/two"/><link href="">/three</link><link rel="enclosure" href="/e.mp3"/></entry></feed>`
	for _, c := range []struct {
		body string
		opt  Options
		want []string
	}{
		{rss, Options{}, []string{"anchor /", "anchor /feed", "anchor /one?a=1&b", "anchor /perm"}},
		{rss, Options{Embedded: true}, []string{"anchor /", "anchor /feed", "anchor /one?a=1&b", "anchor /perm", "embedded /e.mp3"}},
		{atom, Options{}, []string{"anchor /", "anchor /two", "anchor /three"}},
		{atom, Options{Embedded: true}, []string{"anchor /", "anchor /two", "anchor /three", "embedded /e.mp3"}},
	} {
		found, _ := Feed(nil, base, []byte(c.body), c.opt)
		if got := lines(found); !slices.Equal(got, c.want) {
			t.Errorf("got %q\nwant %q", got, c.want)
		}
		if f := FormatOf("application/xml", []byte(c.body)); f != FormatFeed {
			t.Errorf("format %d", f)
		}
	}
}

func TestFormatOf(t *testing.T) {
	for _, c := range []struct {
		kind, body string
		want       Format
	}{
		{"text/html; charset=x", "", FormatHTML},
		{"TEXT/HTML;;;", "", FormatHTML},
		{"application/xhtml+xml", "", FormatHTML},
		{"application/rss+xml", "<rss>", FormatFeed},
		{"text/xml", `<?xml version="1.0"?><?xml-stylesheet href="x"?><!-- c --><urlset>`, FormatSitemap},
		{"text/xml", "<rdf:RDF>", FormatFeed},
		{"text/xml", "<svg>", FormatNone},
		{"image/svg+xml", "<svg>", FormatNone},
		{"", "<!doctype html>", FormatHTML},
		{"", "<head>", FormatHTML},
		{"", "plain", FormatNone},
		{"application/pdf", "<html>", FormatNone},
	} {
		if got := FormatOf(c.kind, []byte(c.body)); got != c.want {
			t.Errorf("FormatOf(%q, %q) = %d", c.kind, c.body, got)
		}
	}
}

func TestFind(t *testing.T) {
	base := mustURL(t, "https://h.example/")
	page, _ := charmap.Windows1251.NewEncoder().String(`<meta charset=windows-1251><a href="/я?я">`)
	for _, c := range []struct {
		kind, body string
		sitemap    bool
		want       []string
		charset    string
	}{
		{"text/html", page, false, []string{"anchor /%D1%8F?%FF"}, "windows-1251"},
		{"text/plain", "https://h.example/t", true, []string{"anchor /t"}, "utf-8"},
		{"text/plain", "https://h.example/t", false, nil, ""},
		{"application/gzip", string(gz(t, []byte("https://h.example/t"))), true, []string{"anchor /t"}, "utf-8"},
		{"text/xml", "<urlset><url><loc>/s</loc></url></urlset>", false, []string{"anchor /s"}, "utf-8"},
		{"text/xml", "<rss><link>/s</link></rss>", true, []string{"anchor /s"}, "utf-8"},
	} {
		found, _, charset := Find(nil, base, []byte(c.body), c.kind, c.sitemap, Options{})
		if got := lines(found); !slices.Equal(got, c.want) || charset != c.charset {
			t.Errorf("Find(%q): %q, charset %q", c.kind, got, charset)
		}
	}
}

func utf16(t testing.TB, s string) []byte {
	b, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUTF8(t *testing.T) {
	russian := strings.Repeat("Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. ", 10)
	japaneseText := strings.Repeat("吾輩は猫である。名前はまだ無い。", 20)
	koi, _ := charmap.KOI8R.NewEncoder().String(russian)
	cp, _ := charmap.Windows1251.NewEncoder().String(russian)
	sjis, _ := japanese.ShiftJIS.NewEncoder().String(japaneseText)
	gbk, _ := simplifiedchinese.GBK.NewEncoder().String("中文网页")
	for _, c := range []struct{ name, body, contentType, charset, want string }{
		{"ASCII", "abc", "", "utf-8", "abc"},
		{"empty", "", "", "utf-8", ""},
		{"UTF-8 without a word", "é", "", "utf-8", "é"},
		{"UTF-8 broken off", "ab\xc3", "", "utf-8", "ab\uFFFD"},
		{"mark beats header", "\xef\xbb\xbfé", "text/html; charset=iso-8859-1", "utf-8", "é"},
		{"UTF-16", string(utf16(t, "aé")), "text/html; charset=utf-8", "utf-16le", "aé"},
		{"header beats meta", "<meta charset=utf-8>\xe9", "text/html; charset=ISO-8859-1", "windows-1252", "<meta charset=utf-8>é"},
		{"header, badly written", "\xe9", `text/html; charset="latin1`, "windows-1252", "é"},
		{"unknown header, meta", "<meta charset=koi8-r>" + koi, "text/html; charset=none", "koi8-r", "<meta charset=koi8-r>" + russian},
		{"meta http-equiv", `<meta http-equiv=content-type content="text/html; charset=gb2312">` + gbk, "", "gbk", `<meta http-equiv=content-type content="text/html; charset=gb2312">中文网页`},
		{"meta that cannot be true", "<meta charset=utf-16>é", "", "utf-8", "<meta charset=utf-16>é"},
		{"XML", "<?xml version='1.0' encoding='windows-1251'?><a>\xff", "", "windows-1251", "<?xml version='1.0' encoding='windows-1251'?><a>я"},
		{"guess windows-1251", cp, "", "windows-1251", russian},
		{"guess KOI8-R", koi, "", "koi8-r", russian},
		{"guess Shift_JIS", sjis, "", "shift_jis", japaneseText},
		{"UTF-8 that is not", "a\xffb", "text/html; charset=utf-8", "utf-8", "a\uFFFDb"},
	} {
		text, charset := UTF8([]byte(c.body), c.contentType)
		if string(text) != c.want || charset != c.charset {
			t.Errorf("%s: %.60q in %q", c.name, text, charset)
		}
	}
	body := []byte("<p>é")
	if text, _ := UTF8(body, ""); &text[0] != &body[0] {
		t.Error("UTF-8 is copied")
	}
}

func TestUTF8IsAFunction(t *testing.T) {
	body := []byte("\xe9\xe8 \xa4\xb5\xc0 ab \xff\xd0\xf0")
	_, first := UTF8(body, "")
	for range 200 {
		if _, again := UTF8(body, ""); again != first {
			t.Fatalf("%q, then %q", first, again)
		}
	}
}

func TestFromHeader(t *testing.T) {
	part := rapid.SampledFrom([]string{
		"text/html", "TEXT/html", "text", "a/b/c", "", ";", "; ", " ;", "charset=", "Charset=", "charset", "=", "utf-8", "UTF-8", "utf8", "koi8-r", "latin1", "\"", "'",
		"iso-8859-1", ",", "x=y", "charset=utf-8", " ", "\t", "é", "/", "_", "*", "charset=koi8-r;", ":",
	})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "header"), "")
		if got, want := fromHeader(s), anyHeader(s); got != want {
			t.Fatalf("%q: %q, want %q", s, got, want)
		}
	})
}

func FuzzHTML(f *testing.F) {
	f.Add([]byte(`<base href=/x/><a href="a?b#c"><img srcset="a 1x,b"><meta http-equiv=refresh content="0;url=x"><link rel=canonical href=z>`), "text/html")
	f.Add([]byte("<?xml encoding='koi8-r'?><urlset><url><loc>/a</loc></url></urlset>"), "text/xml")
	f.Add([]byte("<rss><link>x</link><guid>http://a/</guid></rss>"), "")
	f.Add([]byte("\xff\xfea\x00"), "text/html; charset=shift_jis")
	base := mustURL(f, "https://h.example/d/p")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		if len(body) > 1<<16 {
			t.Skip()
		}
		text, _ := UTF8(body, contentType)
		if !utf8.Valid(text) {
			t.Fatal("the text is not UTF-8")
		}
		check := func(found []Found) {
			seen := map[string]bool{}
			for _, x := range found {
				if u, err := weburl.Parse(x.URL); err != nil || u.String() != x.URL || seen[x.URL] {
					t.Fatalf("%q is not canonical or not new: %v", x.URL, err)
				}
				seen[x.URL] = true
			}
		}
		for _, sitemap := range []bool{false, true} {
			found, _, _ := Find(nil, base, body, contentType, sitemap, Options{Embedded: true, Limit: 1 << 16})
			check(found)
		}
		found, _ := HTML(nil, base, body, Options{Embedded: true})
		check(found)
		found, _ = Headers(nil, base, http.Header{"Link": {string(body)}, "Location": {string(body)}, "Refresh": {string(body)}}, Options{})
		_ = found
	})
}

func benchHTML() []byte {
	var b strings.Builder
	b.WriteString("<!doctype html><html><head><title>x</title><link rel=stylesheet href=s.css></head><body>")
	for i := range 100 {
		fmt.Fprintf(&b, "<p class=\"para\">some text about things, <a class=\"reference internal\" href=\"../library/page%d.html#sec\">linked</a> and so on. %s</p>\n", i%80, strings.Repeat("word ", 20))
	}
	return []byte(b.String())
}

func BenchmarkHTML(b *testing.B) {
	body := benchHTML()
	base := mustURL(b, "https://docs.example.com/3/reference/index.html")
	var found []Found
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		found, _ = HTML(found[:0], base, body, Options{})
	}
	if len(found) != 80 {
		b.Fatal(len(found))
	}
}

func BenchmarkUTF8(b *testing.B) {
	body := benchHTML()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = UTF8(body, "text/html; charset=utf-8")
	}
}
