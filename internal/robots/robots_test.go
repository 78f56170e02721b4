package robots

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		name, body string
		allow, not []string
	}{
		{"empty", "", []string{"/", "/a"}, nil},
		{"all forbidden, but for itself", "User-agent: *\nDisallow: /", []string{"/robots.txt", "/robots.txt?x"}, []string{"/", "/robots.txtx"}},
		{"empty disallow", "User-agent: *\nDisallow:", []string{"/"}, nil},
		{"rules before any agent", "Disallow: /\nUser-agent: x\n", []string{"/"}, nil},
		{"ours instead of all", "User-agent: *\nDisallow: /\nUser-agent: trawl\nDisallow: /p\n", []string{"/a"}, []string{"/p"}},
		{"ours without rules", "User-agent: *\nDisallow: /\n\nUser-agent: trawl\n", []string{"/a"}, nil},
		{"another's", "User-agent: otherbot\nDisallow: /", []string{"/"}, nil},
		{"case, version, comment", "uSER-AGENT : TRAWL/9.1 # us\n dISALLOW\t: /x # no", []string{"/"}, []string{"/x", "/xy"}},
		{"a longer token is another's", "User-agent: trawler\nDisallow: /", []string{"/"}, nil},
		{"a shorter token is another's", "User-agent: tra\nDisallow: /", []string{"/"}, nil},
		{"groups of one agent are one", "User-agent: trawl\nDisallow: /a\nUser-agent: x\nDisallow: /b\nUser-agent: trawl\nDisallow: /c", []string{"/b"}, []string{"/a", "/c"}},
		{"several agents, one group", "User-agent: x\nUser-agent: trawl\n\nUser-agent: y\nDisallow: /a", nil, []string{"/a"}},
		{"other records do not end a group", "User-agent: x\nUser-agent: trawl\nSitemap: http://a/s\nCrawl-delay: 1\nUser-agent: y\nDisallow: /a", nil, []string{"/a"}},
		{"star with text", "User-agent: * # all\nDisallow: /a\nUser-agent: *bot\nDisallow: /b", []string{"/b"}, []string{"/a"}},
		{"longest wins", "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c", []string{"/a/b", "/a/b/d"}, []string{"/a", "/a/c", "/a/b/c"}},
		{"allow at a tie", "User-agent: *\nDisallow: /f\nAllow: /f", []string{"/f"}, nil},
		{"RFC example", "User-agent: *\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif", []string{"/example/page/"}, []string{"/example/page/disallowed.gif"}},
		{"wildcard", "User-agent: *\nDisallow: /*.gif$\nDisallow: */x/*/y", []string{"/a.gift", "/x/y"}, []string{"/a.gif", "/.gif", "/b/a.gif", "/q/x/1/y2", "/x//y"}},
		{"anchor", "User-agent: *\nDisallow: /$\nDisallow: /a$b", []string{"/x", "/a"}, []string{"/", "/a$b", "/a%24bc"}},
		{"anchor after star", "User-agent: *\nDisallow: /a*$", []string{"/b"}, []string{"/a", "/abc"}},
		{"overlap", "User-agent: *\nDisallow: /ab*ba$", []string{"/aba"}, []string{"/abba", "/abxba"}},
		{"literal star", "User-agent: *\nDisallow: /a-%2A.html\nDisallow: /b-%24", []string{"/a-x.html"}, []string{"/a-*.html", "/a-%2a.html", "/b-$"}},
		{"percent-encoding", "User-agent: *\nDisallow: /a%3cd\nDisallow: /\xe3\x83\x84\nDisallow: /%62%61\nDisallow: /s%2ft", []string{"/s/t"}, []string{"/a%3Cd", "/a%3cd", "/%E3%83%84", "/%e3%83%84", "/\xe3\x83\x84", "/ba", "/b%61", "/s%2Ft"}},
		{"query", "User-agent: *\nDisallow: /*?print=\nDisallow: /q?", []string{"/q", "/?p"}, []string{"/a?print=1", "/q?", "/q?a"}},
		{"case of paths", "User-agent: *\nDisallow: /A", []string{"/a"}, []string{"/A"}},
		{"not a path", "User-agent: *\nDisallow: a\nDisallow: http://h/", []string{"/", "/a"}, nil},
		{"byte order mark, CR", "\xef\xbb\xbfUser-agent: *\rDisallow: /a\r\r\nDisallow: /b\r\n", []string{"/"}, []string{"/a", "/b"}},
		{"typos", "useragent: *\ndissallow: /a\nDisallow /b\n", []string{"/"}, []string{"/a", "/b"}},
		{"HTML", "<!DOCTYPE html><html>\n<body>Disallow: /</body>", []string{"/"}, nil},
		{"NUL", "User-agent: *\nDisallow: /a\x00b", []string{"/a"}, []string{"/a%00b"}},
	} {
		r := Parse([]byte(c.body), "trawl/1.0 (+https://example.com/bot)")
		again, err := Decode(r.Encode())
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, r := range []Rules{r, again} {
			for _, p := range c.allow {
				if ok, line := r.Decide(p); !ok {
					t.Errorf("%s: %q is forbidden by %q", c.name, p, line)
				}
			}
			for _, p := range c.not {
				if r.Allowed(p) {
					t.Errorf("%s: %q is allowed", c.name, p)
				}
			}
		}
	}
}

func TestCrawlDelay(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1": time.Second, "0.5": 500 * time.Millisecond, "0": 0, "-1": 0, "x": 0, "NaN": 0, "1e99": MaxCrawlDelay, "Inf": MaxCrawlDelay, "": 0,
	} {
		r := Parse([]byte("User-agent: *\nCrawl-delay: 9\nUser-agent: trawl\nCrawl-delay: "+value+"\n"), "trawl")
		if got := r.CrawlDelay; got != want {
			t.Errorf("Crawl-delay: %s is %v, want %v", value, got, want)
		}
		again, err := Decode(r.Encode())
		if err != nil || again.CrawlDelay != r.CrawlDelay {
			t.Errorf("Crawl-delay: %s decodes as %v, %v", value, again.CrawlDelay, err)
		}
	}
}

func TestSitemaps(t *testing.T) {
	r := Parse([]byte("Sitemap: https://a/1.xml\nUser-agent: x\nDisallow: /\nsitemap:https://a/2.xml # two\nSitemap:\n"), "trawl")
	if want := []string{"https://a/1.xml", "https://a/2.xml"}; !slices.Equal(r.Sitemaps, want) {
		t.Errorf("sitemaps %q", r.Sitemaps)
	}
	r = Parse([]byte(strings.Repeat("Sitemap: https://a/\n", MaxSitemaps+5)), "trawl")
	if len(r.Sitemaps) != MaxSitemaps {
		t.Errorf("%d sitemaps", len(r.Sitemaps))
	}
}

func TestWholes(t *testing.T) {
	if !AllowAll().Allowed("/x") || DisallowAll().Allowed("/x") || !DisallowAll().Allowed("/robots.txt") {
		t.Error("the wholes are wrong")
	}
	for _, r := range []Rules{AllowAll(), DisallowAll()} {
		if again, err := Decode(r.Encode()); err != nil || again.Allowed("/x") != r.Allowed("/x") {
			t.Errorf("%v decodes as %v, %v", r, again, err)
		}
	}
}

func TestBodyBound(t *testing.T) {
	filler := strings.Repeat("#\n", MaxBody/2-20)
	body := "User-agent: *\nDisallow: /in\n" + filler + "Disallow: /over\n" + filler
	r := Parse([]byte(body), "trawl")
	if r.Allowed("/in") || !r.Allowed("/over") {
		t.Error("the bound is not at 500 KiB")
	}
	// A line at the cut does not count half.
	head := "User-agent: *\n" + strings.Repeat("#", MaxBody-14-12) + "\n"
	r = Parse([]byte(head+"Disallow: /long"), "trawl")
	if !r.Allowed("/x") {
		t.Error("half a line counts")
	}
}

func TestLongPatterns(t *testing.T) {
	long := "/" + strings.Repeat("a", 3000)
	r := Parse([]byte("User-agent: *\nDisallow: "+long+"\nAllow: "+long+"x\n"), "trawl")
	if r.Len() != 1 || r.Allowed(long[:2100]) || !r.Allowed("/aa") {
		t.Error("a long disallow is not cut, or a long allow is kept")
	}
}

func TestEncodeCuts(t *testing.T) {
	var many strings.Builder
	many.WriteString("User-agent: *\n")
	for i := range 3000 {
		fmt.Fprintf(&many, "Disallow: /d/%d\nAllow: /a/%d/%s\n", i, i, strings.Repeat("x", 20))
	}
	var huge strings.Builder
	huge.WriteString("User-agent: *\nAllow: /d/1/yes\nCrawl-delay: 3\n")
	for i := range 9000 {
		fmt.Fprintf(&huge, "Disallow: /d/%d/%%C3%%A9%s\n", i, strings.Repeat("x", i%50))
	}
	for name, body := range map[string]string{"allows go": many.String(), "disallows are shortened": huge.String()} {
		r := Parse([]byte(body), "trawl")
		b := r.Encode()
		cut, err := Decode(b)
		if err != nil || len(b) > MaxEncoded || !cut.Cut || cut.CrawlDelay != r.CrawlDelay {
			t.Fatalf("%s: %d bytes, cut %v, %v", name, len(b), cut.Cut, err)
		}
		for i := 0; i < len(r.rules); i += 41 {
			x := r.rules[i]
			if p := strings.NewReplacer("*", "", "$", "").Replace(x.pattern); !r.Allowed(p) && cut.Allowed(p) {
				t.Fatalf("%s: %q became allowed", name, p)
			}
		}
	}
}

// slowMatch is the definition: a pattern as a regular expression.
func slowMatch(pattern, target string) bool {
	body, anchor := strings.CutSuffix(pattern, "$")
	re := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(body), `\*`, ".*")
	if anchor {
		re += "$"
	}
	return regexp.MustCompile(re).MatchString(target)
}

func TestMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[/*][ab/*]{0,8}\$?`).Draw(t, "pattern")
		target := rapid.StringMatching(`/[ab/]{0,10}`).Draw(t, "target")
		if got, want := matches(pattern, target), slowMatch(pattern, target); got != want {
			t.Fatalf("matches(%q, %q) = %v", pattern, target, got)
		}
	})
}

// A cut set of rules forbids at least what the whole did.
func TestShortenedForbidsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`/[ab*%]{0,12}(%C3%A9)?[ab]{0,4}\$?`).Draw(t, "pattern")
		target := rapid.StringMatching(`/[ab]{0,6}(%C3%A9)?[ab]{0,6}`).Draw(t, "target")
		n := rapid.IntRange(1, 12).Draw(t, "n")
		if matches(pattern, target) && !matches(cutPattern(pattern, n), target) {
			t.Fatalf("%q cut to %q does not match %q", pattern, cutPattern(pattern, n), target)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	good := Parse([]byte("User-agent: *\nDisallow: /a\nCrawl-delay: 2"), "x").Encode()
	for name, b := range map[string][]byte{
		"empty": nil, "version": {9}, "cut": good[:len(good)-1], "too long": make([]byte, MaxEncoded+1),
		"empty pattern": {1, fieldDisallow<<3 | 2, 0}, "bad tag": {1, 0xff},
	} {
		if _, err := Decode(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A field of a later release is skipped.
	if r, err := Decode(append(slices.Clone(good), 15<<3, 1)); err != nil || r.Allowed("/a") {
		t.Errorf("unknown field: %v", err)
	}
}

// A matcher that tries alternatives would not end before the test's time-out.
func TestMatcherIsLinear(t *testing.T) {
	pattern := "/" + strings.Repeat("*a", 1000) + "b$"
	r := Rules{rules: []rule{{pattern: pattern}}}
	for range 10 {
		if !r.Allowed("/" + strings.Repeat("a", 2000)) {
			t.Fatal("matches")
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /a*b$\nAllow: /%7e\nCrawl-delay: 1"), "/a%2ab")
	f.Add([]byte("\xef\xbb\xbfuser-agent trawl\rdisallow /\r\n"), "/")
	f.Fuzz(func(t *testing.T, body []byte, target string) {
		r := Parse(body, "trawl")
		b := r.Encode()
		again, err := Decode(b)
		if err != nil || len(b) > MaxEncoded {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if !r.Allowed(target) && again.Allowed(target) {
			t.Fatalf("%q became allowed", target)
		}
		if !again.Cut && r.Allowed(target) != again.Allowed(target) {
			t.Fatalf("%q changed", target)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(DisallowAll().Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err == nil {
			_ = r.Allowed("/a/b?c")
			if _, err := Decode(r.Encode()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func benchRules(n int) Rules {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for i := range n {
		fmt.Fprintf(&b, "Disallow: /section/%d/*/private\n", i)
	}
	return Parse([]byte(b.String()), "trawl")
}

func BenchmarkAllowed(b *testing.B) {
	r := benchRules(50)
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Allowed("/3/library/asyncio-task.html?highlight=gather")
	}
}

func BenchmarkParse(b *testing.B) {
	body := []byte("User-agent: *\nDisallow: /a\nDisallow: /b\nAllow: /a/b\nCrawl-delay: 1\nSitemap: https://example.com/sitemap.xml\n")
	b.ReportAllocs()
	for b.Loop() {
		_ = Parse(body, "trawl")
	}
}
