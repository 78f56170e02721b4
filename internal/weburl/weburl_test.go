package weburl

import (
	"errors"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"http://example.com/", "http://example.com/"},
		{"https://example.com", "https://example.com/"},
		{"HTTP://EXAMPLE.com:80/A?b=C#d", "http://example.com/A?b=C"},
		{"https://example.com:443/", "https://example.com/"},
		{"http://example.com:443/", "http://example.com:443/"},
		{"http://u:p@example.com/x", "http://example.com/x"},
		{"http://127.1.2.3:8080/p", "http://127.1.2.3:8080/p"},
		{"http://0x7f.1/", "http://127.0.0.1/"},
		{"http://2130706433", "http://127.0.0.1/"},
		{"http:\\\\foo.com\\a", "http://foo.com/a"},
		{"http://b\u00fccher.example/", "http://xn--bcher-kva.example/"},
		{"http://[::1]:80/", "http://[::1]/"},
		{"http://a/%7e%2f%zz%", "http://a/%7E%2F%zz%"},
		{"http://a/%7e%61%2e%2f%41?%62=%20", "http://a/~a%2E%2FA?b=%20"},
		{"http://a/%%34%31", "http://a/%%34%31"},
		{"http://a/b/../c/./d", "http://a/c/d"},
		{"http://a/x%2e%2E/%2e%2E/d", "http://a/d"},
		{"http://a/?b=2&a=1&a=%c3%a9", "http://a/?b=2&a=1&a=%C3%A9"},
		{"http://a/?", "http://a/?"},
		{"http://a//b//", "http://a//b//"},
		{" \thttp://a/b c \n", "http://a/b%20c"},
		{"ht\ntp://a/b\tc", "http://a/bc"},
		{"http://a/b #c", "http://a/b%20"},
		{"http://a/\u00e9?\u00e9", "http://a/%C3%A9?%C3%A9"},
	} {
		u, err := Parse(c.in)
		if err != nil || u.String() != c.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", c.in, u, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("a", MaxLen)
	for _, c := range []struct {
		in   string
		want Refusal
	}{
		{"", ErrSyntax},
		{"/a", ErrSyntax},
		{"example.com", ErrSyntax},
		{"mailto:a@b", ErrScheme},
		{"ftp://a/", ErrScheme},
		{"javascript:void(0)", ErrScheme},
		{"httpsx://a/", ErrScheme},
		{"http://", ErrSyntax},
		{"http://a b/", ErrSyntax},
		{"http://a:99999/", ErrSyntax},
		{"http://1.2.3.4.5/", ErrSyntax},
		{"http://a/" + long, ErrTooLong},
		{"http://a/" + strings.Repeat("\u00e9", 400), ErrTooLong},
		{"http://" + strings.Repeat("a.", 200) + "b/", ErrHost},
		{"http://a$b/", ErrHost},
	} {
		u, err := Parse(c.in)
		var e *Error
		if !errors.As(err, &e) || (!errors.Is(err, c.want) && !(c.want == ErrHost && errors.Is(err, ErrSyntax))) {
			t.Errorf("Parse(%.80q) = %q, %v; want %q", c.in, u, err, c.want)
		}
	}
	// The fragment does not count.
	if _, err := Parse("http://a/#" + long); err != nil {
		t.Error(err)
	}
}

func TestParts(t *testing.T) {
	u, err := Parse("https://example.com:8443/a/b?c=d#e")
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme() != "https" || u.Host() != "example.com:8443" || u.Path() != "/a/b?c=d" {
		t.Errorf("parts %q %q %q", u.Scheme(), u.Host(), u.Path())
	}
	scheme, host, path, ok := Split(u.String())
	if !ok || scheme != u.Scheme() || host != u.Host() || path != u.Path() {
		t.Errorf("Split = %q %q %q %v", scheme, host, path, ok)
	}
	for _, bad := range []string{"", "http://", "http:///", "http://a", "ftp://a/", "/a"} {
		if _, _, _, ok := Split(bad); ok {
			t.Errorf("Split(%q) is ok", bad)
		}
	}
	var zero URL
	if !zero.IsZero() || zero.String()+zero.Scheme()+zero.Host()+zero.Path() != "" {
		t.Error("the zero URL has parts")
	}
}

func TestResolve(t *testing.T) {
	base, _ := Parse("https://h.example/a/b/c.html?q=1")
	for _, c := range []struct{ ref, want string }{
		{"", "https://h.example/a/b/c.html?q=1"},
		{"#x", "https://h.example/a/b/c.html?q=1"},
		{"?r=2#x", "https://h.example/a/b/c.html?r=2"},
		{"d.html", "https://h.example/a/b/d.html"},
		{"./d/e", "https://h.example/a/b/d/e"},
		{"../d", "https://h.example/a/d"},
		{"../../../../d", "https://h.example/d"},
		{"..", "https://h.example/a/"},
		{".", "https://h.example/a/b/"},
		{".//x", "https://h.example/a/b//x"},
		{"x/../y", "https://h.example/a/b/y"},
		{"/z?y", "https://h.example/z?y"},
		{"//o.example", "https://o.example/"},
		{"\\z", "https://h.example/z"},
		{"http://o.example/x", "http://o.example/x"},
		{"https:x", "https://h.example/a/b/x"},
		{"/a b", "https://h.example/a%20b"},
		{"1:2", "https://h.example/a/b/1:2"},
		{"a%2fb", "https://h.example/a/b/a%2Fb"},
	} {
		u, err := base.Resolve(c.ref)
		if err != nil || u.String() != c.want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", c.ref, u, err, c.want)
		}
	}
	for _, c := range []struct{ base, ref, want string }{
		// A stray percent sign that the reference drops kept the encoding.
		{"http://h.example/%4A/%", "./", "http://h.example/J/"},
		{"http://h.example/%4A?%", "?x", "http://h.example/J?x"},
	} {
		base, err := Parse(c.base)
		if u, err2 := base.Resolve(c.ref); err != nil || err2 != nil || u.String() != c.want {
			t.Errorf("%q on %q = %q, %v, %v; want %q", c.ref, c.base, u, err, err2, c.want)
		}
	}
	for _, ref := range []string{"mailto:x", " javascript:1", "data:,", "tel:1", "java\nscript:1"} {
		if _, err := base.Resolve(ref); !errors.Is(err, ErrScheme) {
			t.Errorf("Resolve(%q): %v", ref, err)
		}
	}
}

// oracle is the library alone, with what the canonical form adds to it.
func oracle(base, ref string) (string, bool) {
	p, err := whatwg.ParseRef(base, ref)
	if err != nil || (p.Scheme() != "http" && p.Scheme() != "https") {
		return "", false
	}
	p.SetUsername("")
	p.SetPassword("")
	s := normalEscapes(p.Href(true))
	return s, plausibleHost(p.Hostname()) && len(s) <= MaxLen
}

func locateOrZero(canonical string) URL {
	if canonical == "" {
		return URL{}
	}
	return locate(canonical)
}

func agree(t interface{ Fatalf(string, ...any) }, base, ref string, got URL, err error) {
	if u, ok := locateOrZero(base).AppendResolved([]byte("before"), []byte(ref)); ok != (err == nil) || string(u) != "before"+got.String() {
		t.Fatalf("%q on %q: appended %q, %v; resolved %q, %v", ref, base, u, ok, got, err)
	}
	want, ok := oracle(base, ref)
	if !ok {
		if err == nil {
			t.Fatalf("%q on %q = %q; the library refuses", ref, base, got)
		}
		return
	}
	if err != nil {
		// Refused although the library has an answer: only if it has another
		// answer to its own.
		if again, _ := oracle("", want); again != want || len(ref) > MaxLen {
			return
		}
		t.Fatalf("%q on %q: %v; library %q", ref, base, err, want)
	}
	if got.String() != want {
		t.Fatalf("%q on %q = %q; library %q", ref, base, got, want)
	}
	if again, err := Parse(want); err != nil || again != got {
		t.Fatalf("%q parses again as %q, %v", want, again, err)
	}
	if _, host, path, ok := Split(want); !ok || host != got.Host() || path != got.Path() {
		t.Fatalf("%q splits into %q %q, parts are %q %q", want, host, path, got.Host(), got.Path())
	}
}

// pieces make URLs that lie on the edge between the fast and the slow path.
var pieces = []string{
	"a", "b", "x", "/", "/", ".", "..", "%2e", "%2E", "%", "%4", "%4a", "%4A", "%C3%A9", "?", "=", "&", "#", ":",
	"@", "\\", " ", "\t", "\n", "'", "\"", "<", ">", "`", "{", "}", "|", "^", "[", "]", "~", "-", "_", "+", ";", ",",
	"!", "$", "(", ")", "*", "A", "Z", "\u00e9", "\xff", "\x7f", "\x00", "0", "1", "index.html",
}

var starts = []string{
	"", "/", "//", "./", "../", "../../", "?", "#", "http:", "https:", "http://", "https://", "HTTP://", "http://a", "http://a.b-c.d",
	"https://a:443", "https://a:80", "http://a:80", "http://a:0", "http://a:080", "http://127.0.0.1", "http://127.0.01", "http://256.1.1.1",
	"http://1.2.3.4:5", "http://xn--bcher-kva.example", "http://ab--c.d", "http://-a.b", "http://a-", "http://a..b", "http://a.", "http://a.1", "http://a.0x1",
	"http://a_b.c", "http://_a.c", "http://a.b_", "http://A.b", "//h.example", "mailto:", "http://1.2.3", "http://1.2.3.4.5", "http://[::1]", "http://a.-1", "http://a.b:65536",
}

func refs() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		start := rapid.SampledFrom(starts).Draw(t, "start")
		return start + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "rest"), "")
	})
}

func TestParseAgreesWithLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ref := refs().Draw(t, "raw")
		u, err := Parse(ref)
		agree(t, "", ref, u, err)
	})
}

func TestResolveAgreesWithLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, err := Parse("http://h.example/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "base"), ""))
		if err != nil {
			t.Skip("no base")
		}
		ref := refs().Draw(t, "ref")
		u, err := base.Resolve(ref)
		agree(t, base.String(), ref, u, err)
	})
}

func FuzzResolve(f *testing.F) {
	for _, s := range starts {
		f.Add("http://h.example/a/b?c", s+"x/../y?z#f")
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, rawBase, ref string) {
		if len(rawBase) > 300 || len(ref) > 300 {
			t.Skip()
		}
		base, err := Parse(rawBase)
		if err != nil {
			return
		}
		u, err := base.Resolve(ref)
		agree(t, base.String(), ref, u, err)
	})
}

func TestFastPathIsTaken(t *testing.T) {
	for _, s := range []string{
		"http://example.com/", "https://a.b.example:8443/x/.well-known/y;z=1?q=%C3%A9&r[]=1",
		"http://127.1.2.3:8080/p/1.html", "http://a/...", "http://a/.%40",
	} {
		if _, ok := canonical(s); !ok {
			t.Errorf("%q takes the slow path", s)
		}
	}
}

func TestAllocations(t *testing.T) {
	base, _ := Parse("https://h.example/a/b/c.html")
	room := make([]byte, 0, 100)
	for _, c := range []struct {
		name string
		want float64
		f    func()
	}{
		{"parse canonical", 0, func() { _, _ = Parse("https://h.example/a/b?c=d") }},
		{"resolve relative", 1, func() { _, _ = base.Resolve("../x/y.html#z") }},
		{"resolve rooted", 1, func() { _, _ = base.Resolve("/x/y.html") }},
		{"append relative", 0, func() { _, _ = base.AppendResolved(room[:0], []byte("../x/y.html#z")) }},
		{"append rooted", 0, func() { _, _ = base.AppendResolved(room[:0], []byte("/x/y.html?z")) }},
		{"append absolute", 0, func() { _, _ = base.AppendResolved(room[:0], []byte(" https://o.example:8080/x ")) }},
		{"append other host", 0, func() { _, _ = base.AppendResolved(room[:0], []byte("//o.example/x")) }},
		{"split", 0, func() { _, _, _, _ = Split("https://h.example/a/b?c=d") }},
	} {
		if got := testing.AllocsPerRun(100, c.f); got > c.want {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.want)
		}
	}
}

func BenchmarkParseCanonical(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Parse("https://docs.example.com/3/library/asyncio-task.html?highlight=gather")
	}
}

func BenchmarkParseLibrary(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = parseSlow("", "https://docs.example.com/3/library/asyncio-task.html?highlight=gather")
	}
}

func BenchmarkResolveRelative(b *testing.B) {
	base, _ := Parse("https://docs.example.com/3/library/asyncio-task.html")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = base.Resolve("../reference/index.html#top")
	}
}

func BenchmarkAppendResolved(b *testing.B) {
	base, _ := Parse("https://docs.example.com/3/library/asyncio-task.html")
	ref, room := []byte("../reference/index.html#top"), make([]byte, 0, 100)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = base.AppendResolved(room, ref)
	}
}
