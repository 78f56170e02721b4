package weburl

import (
	"errors"
	"strings"
	"testing"

	"trawl/internal/spec"
)

func TestScope(t *testing.T) {
	sc := spec.Scope{
		Hosts: []string{"Example.com", "docs.example.org:8080", "127.0.0.1"}, Subdomains: true,
		PathPrefixes: []string{"/docs/", "/\u00e9"}, Include: []string{`\.html$`, `/$`}, Exclude: []string{`\?print=`, `/old/`},
	}
	s, err := NewScope(sc, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		u       string
		depth   int
		want    string
		explain string
	}{
		{"http://example.com/docs/", 1, "", ""},
		{"https://a.b.example.com/docs/x.html", 1, "", ""},
		{"http://notexample.com/docs/", 1, "host", "scope.hosts"},
		{"http://example.com:81/docs/", 1, "host", "scope.hosts"},
		{"http://x.docs.example.org:8080/docs/", 1, "", ""},
		{"http://docs.example.org/docs/", 1, "host", "scope.hosts"},
		{"http://example.com/", 1, "path", "scope.path_prefixes"},
		{"http://example.com/", 0, "", ""},
		{"http://example.com/%C3%A9x.html", 1, "", ""},
		{"http://example.com/docs/x.pdf", 1, "include", "scope.include"},
		{"http://example.com/docs/x.pdf", 0, "", ""},
		{"http://example.com/docs/old/x.html", 1, "exclude", "scope.exclude[1]"},
		{"http://example.com/docs/old/x.html", 0, "exclude", "scope.exclude[1]"},
	} {
		u, err := Parse(c.u)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Check(u, c.depth); got != c.want {
			t.Errorf("Check(%q, %d) = %q, want %q", c.u, c.depth, got, c.want)
		}
		if got := s.CheckString(c.u, c.depth); got != c.want {
			t.Errorf("CheckString(%q, %d) = %q, want %q", c.u, c.depth, got, c.want)
		}
		if got := s.Explain(c.u); c.depth == 1 && (!strings.HasPrefix(got, c.explain) || (got == "") != (c.explain == "")) {
			t.Errorf("Explain(%q) = %q, want %q", c.u, got, c.explain)
		}
	}
	if s.CheckString("nonsense", 1) != RefusedHost || s.Explain("nonsense") == "" {
		t.Error("nonsense is in the scope")
	}
}

func TestScopeDefaultsToSeeds(t *testing.T) {
	s, err := NewScope(spec.Scope{}, []string{"http://a.example/x", "https://B.example:8443"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Hosts() != 2 || s.CheckString("https://a.example/", 3) != "" || s.CheckString("http://b.example:8443/", 3) != "" {
		t.Error("a seed's host is not in the scope")
	}
	if s.CheckString("http://w.a.example/", 1) != RefusedHost {
		t.Error("a subdomain is in the scope")
	}
	if e := s.Explain("http://w.a.example/"); !strings.Contains(e, "subdomains is off") || !strings.Contains(e, "seeds' hosts") {
		t.Error(e)
	}
}

func TestScopeRefuses(t *testing.T) {
	if _, err := NewScope(spec.Scope{}, nil); !errors.Is(err, ErrEmptyScope) {
		t.Errorf("empty scope: %v", err)
	}
	for key, sc := range map[string]spec.Scope{
		"scope.hosts":         {Hosts: []string{"http://a/"}},
		"scope.subdomains":    {Hosts: []string{"*.a"}},
		"host or host:port":   {Hosts: []string{""}},
		"scope.path_prefixes": {Hosts: []string{"a"}, PathPrefixes: []string{"docs"}},
		"scope.include":       {Hosts: []string{"a"}, Include: []string{"("}},
		"scope.exclude":       {Hosts: []string{"a"}, Exclude: []string{""}},
	} {
		if _, err := NewScope(sc, nil); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := NewScope(spec.Scope{}, []string{"nonsense"}); err == nil || !strings.Contains(err.Error(), "seeds") {
		t.Errorf("bad seed: %v", err)
	}
}

func TestHostKey(t *testing.T) {
	for in, want := range map[string]string{
		"Example.COM": "example.com", "a:80": "a", "a:443": "a", "a:8080": "a:8080", " a ": "a", "127.1": "127.0.0.1", "[::1]:90": "[::1]:90",
	} {
		if got, err := HostKey(in); err != nil || got != want {
			t.Errorf("HostKey(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestSubdomainsOfAnAddress(t *testing.T) {
	s, err := NewScope(spec.Scope{Hosts: []string{"0.0.1", "1.1.1.1:90"}, Subdomains: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.below("2.1.1.1.1:90") {
		t.Error("an address has no subdomains")
	}
}

func BenchmarkScopeCheck(b *testing.B) {
	s, _ := NewScope(spec.Scope{Hosts: []string{"example.com"}, Subdomains: true, Exclude: []string{`\?print=`}}, nil)
	u, _ := Parse("https://docs.example.com/3/library/asyncio-task.html")
	b.ReportAllocs()
	for b.Loop() {
		if s.Check(u, 1) != "" {
			b.Fatal("refused")
		}
	}
}
