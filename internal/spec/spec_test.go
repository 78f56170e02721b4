package spec

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test -update writes it. got:\n%s", file, got)
	}
}

func TestReference(t *testing.T) {
	golden(t, "../../docs/spec.md", Reference())
}

// parsed is a finished spec of a YAML text.
func parsed(t *testing.T, text string) *Spec {
	t.Helper()
	s, err := Parse("spec.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	return s
}

const seeded = "seeds:\n  urls: [https://docs.example.org/]\n"

func TestSampleAndExamplesParse(t *testing.T) {
	parsed(t, Sample)
	for _, k := range keys {
		text := k.Path + ": " + k.Example
		if sec, name, ok := strings.Cut(k.Path, "."); ok {
			text = sec + ":\n  " + name + ": " + k.Example
		}
		if _, err := Parse("x.yaml", []byte(text)); err != nil {
			t.Errorf("example of %s: %v", k.Path, err)
		}
	}
}

// TestTableIsComplete: every field of the struct has its row, so that parser,
// flags, differences and reference cannot forget one.
func TestTableIsComplete(t *testing.T) {
	var paths []string
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			tag := f.Tag.Get("yaml")
			switch {
			case tag == "":
			case f.Type.Kind() == reflect.Struct:
				walk(tag+".", f.Type)
			default:
				paths = append(paths, prefix+tag)
			}
		}
	}
	walk("", reflect.TypeFor[Spec]())
	var table []string
	flags := map[string]bool{}
	for _, k := range keys {
		table = append(table, k.Path)
		if flags[k.Flag] {
			t.Errorf("flag --%s is there twice", k.Flag)
		}
		flags[k.Flag] = true
		if k.Doc == "" || k.Example == "" || k.Default == "" {
			t.Errorf("%s lacks a sentence, an example or a default", k.Path)
		}
	}
	slices.Sort(paths)
	slices.Sort(table)
	if !slices.Equal(paths, table) {
		t.Errorf("struct %v\ntable  %v", paths, table)
	}
}

func TestProblems(t *testing.T) {
	list := func(n int, item string) string { return "[" + strings.Repeat(item+", ", n) + item + "]" }
	tests := []struct{ name, text, want string }{
		{"unknown key", "naem: x\n" + seeded, `x.yaml:1: naem: is no key of a spec; did you mean name?`},
		{"unknown in section", seeded + "scope:\n  hots: [a.example]\n", `x.yaml:4: scope.hots: is no key of a spec; did you mean scope.hosts?`},
		{"key of another section", seeded + "depth: 3\n", `x.yaml:3: depth: is no key of a spec; did you mean scope.depth?`},
		{"strange key", seeded + "colour: red\n", `x.yaml:3: colour: is no key of a spec; it may hold name, seeds,`},
		{"twice", "name: a\nname: b\n" + seeded, `x.yaml:2: name: is there twice, first in line 1; keep one of them`},
		{"text for number", seeded + "shards: many\n", `x.yaml:3: shards: "many": wants a whole number, but is text`},
		{"number for text", "name: 7\n" + seeded, `x.yaml:1: name: "7": wants text, but is a number; put it in quotes`},
		{"fraction", seeded + "shards: 1.5\n", `shards: "1.5": wants a whole number, but is a number`},
		{"text for bool", seeded + "politeness:\n  robots: maybe\n", `x.yaml:4: politeness.robots: "maybe": wants true or false, but is text`},
		{"one for list", "seeds:\n  urls: https://a.example/\n", `x.yaml:2: seeds.urls: "https://a.example/": wants a list, but is text`},
		{"list for section", "seeds: [https://a.example/]\n", `x.yaml:1: seeds: wants keys with values, but is a list; it may hold urls, files, sitemaps`},
		{"top level", "- a\n", `x.yaml:1: wants keys with values, but is a list`},
		{"empty value", seeded + "shards:\n", `shards: wants a whole number, but is empty; leave the key out`},
		{"alias", "name: &n a\nsink:\n  index: *n\n" + seeded, `sink.index: wants text, but is an alias; write the value itself`},
		{"bad duration", seeded + "limits:\n  time: soon\n", `x.yaml:4: limits.time: "soon": is no duration: write 500ms`},
		{"negative duration", seeded + "politeness:\n  delay: -1s\n", `politeness.delay: "-1s": is out of range`},
		{"bad size", seeded + "limits:\n  page_size: big\n", `limits.page_size: "big": is no size`},
		{"not YAML", "a: [b\n", `is not YAML`},
		{"two documents", "name: a\n---\nname: b\n", `a second document begins here; write one spec per file`},

		{"no seed", "name: a\n", `seeds: there is no seed; name at least one URL`},
		{"empty file", "", `seeds: there is no seed`},
		{"bad name", "name: A_b\n" + seeded, `x.yaml:1: name: "A_b": is no name; use a-z`},
		{"stated empty name", "name: ''\n" + seeded, `name: is no name`},
		{"no URL", "seeds:\n  urls:\n    - https://a.example/\n    - docs.example.org\n", `x.yaml:4: seeds.urls: "docs.example.org": is no URL; write https://docs.example.org`},
		{"other scheme", "seeds:\n  urls: ['ftp://a.example/']\n", `has the scheme ftp, not http or https`},
		{"password", "seeds:\n  urls: ['https://u:p@a.example/']\n", `holds a user name or password`},
		{"loopback", "seeds:\n  urls: ['http://127.0.0.1:80/']\n", `add --allow-network 127.0.0.0/8 (allow_networks: [127.0.0.0/8])`},
		{"loopback in disguise", "seeds:\n  urls: ['http://0x7f.1/']\n", `add --allow-network 127.0.0.0/8`},
		{"localhost", "seeds:\n  urls: ['http://localhost:8000/']\n", `add --allow-network 127.0.0.0/8`},
		{"loopback v6", "seeds:\n  urls: ['http://[::1]/']\n", `add --allow-network ::1/128`},
		{"private", "seeds:\n  sitemaps: ['http://10.1.2.3/s.xml']\n", `seeds.sitemaps: "http://10.1.2.3/s.xml": is on a private or reserved address, which crawls do not reach; if it is meant, add --allow-network 10.0.0.0/8`},
		{"other network allowed", "seeds:\n  urls: ['http://10.1.2.3/']\nallow_networks: [10.9.0.0/16]\n", `--allow-network 10.0.0.0/8`},
		{"empty scope", seeded + "scope:\n  hosts: []\n", `x.yaml:4: scope.hosts: is empty: no page belongs to the crawl`},
		{"seed out of scope", seeded + "scope:\n  hosts: [other.example]\n", `x.yaml:2: seeds.urls: "https://docs.example.org/": is outside the scope: its host docs.example.org is not in scope.hosts`},
		{"seed excluded", seeded + "scope:\n  exclude: [docs]\n", `scope.exclude "docs" matches`},
		{"host is a URL", seeded + "scope:\n  hosts: ['https://docs.example.org']\n", `scope.hosts: "https://docs.example.org": is no host`},
		{"host with path", seeded + "scope:\n  hosts: [docs.example.org/x]\n", `is no host`},
		{"bad pattern", seeded + "scope:\n  include: ['(']\n", `x.yaml:4: scope.include: "(": is no regular expression: missing closing ): ` + "`(`"},
		{"bad prefix", seeded + "scope:\n  path_prefixes: [manual]\n", `does not begin with a slash`},
		{"depth", seeded + "scope:\n  depth: -2\n", `scope.depth: "-2": is not between -1 and 10000`},
		{"pages", seeded + "limits:\n  pages: -3\n", `x.yaml:4: limits.pages: "-3": is not between 0 and`},
		{"stated zero", seeded + "limits:\n  tries: 0\n", `limits.tries: "0": is not between 1 and 100`},
		{"tiny pages", seeded + "limits:\n  page_size: 10\n", `limits.page_size: "10": is not between 1KiB and 64MiB`},
		{"parallelism", seeded + "politeness:\n  parallelism: 0\n", `politeness.parallelism: "0": is not between 1 and 64`},
		{"header injection", seeded + "politeness:\n  user_agent: \"a\\r\\nb: c\"\n", `politeness.user_agent: "a\r\nb: c": cannot be a request header`},
		{"shards", seeded + "shards: 5000\n", `shards: "5000": is not between 1 and 1024`},
		{"network", seeded + "allow_networks: [localhost]\n", `allow_networks: "localhost": is no network; write it as CIDR`},
		{"network bits", seeded + "allow_networks: [127.0.0.1/8]\n", `has bits behind its mask; write 127.0.0.0/8`},
		{"all networks", seeded + "allow_networks: [0.0.0.0/0]\n", `is the whole address space`},
		{"sink", seeded + "sink:\n  kind: mongo\n", `sink.kind: "mongo": is no sink; choose sqlite, elastic, files or none`},
		{"index", seeded + "sink:\n  index: A/b\n", `sink.index: "A/b": is no index name`},
		{"field", seeded + "document:\n  fields: [titel]\n", `document.fields: "titel": is no field; choose from title,`},
		{"no fields", seeded + "document:\n  fields: []\n", `document.fields: is empty`},
		{"too many patterns", seeded + "scope:\n  exclude: " + list(maxList, "zz") + "\n", `scope.exclude: has 101 entries`},
		{"missing file", "seeds:\n  files: [nowhere.txt]\n", `x.yaml:2: seeds.files: "nowhere.txt": cannot be read (no such file or directory)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse("x.yaml", []byte(tt.text))
			if err == nil {
				err = s.Finish()
			}
			var ps Problems
			if !errors.As(err, &ps) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Parse("x.yaml", []byte("naem: x\nshards: y\nscope:\n  depth: z\n"))
	var ps Problems
	if !errors.As(err, &ps) || len(ps) != 3 {
		t.Fatalf("want three problems, got %v", err)
	}
	s := New()
	s.Limits.Pages, s.Politeness.Parallelism, s.Sink.Kind = -1, 1000, "x"
	s.Seeds.URLs = []string{"https://a.example/"}
	if err := s.Finish(); !errors.As(err, &ps) || len(ps) != 3 {
		t.Fatalf("want three problems, got %v", err)
	}
	many := make(Problems, 30)
	if got := strings.Count(many.Error(), "\n"); got != maxListed {
		t.Errorf("%d lines of problems", got)
	}
}

func TestDefaults(t *testing.T) {
	s := parsed(t, "seeds:\n  urls: [https://Docs.Example.org:8443/a, https://docs.example.org:8443/b]\n  sitemaps: [https://other.example/s.xml]\n")
	want := &Spec{
		Name:       "docs-example-org-8443",
		Seeds:      Seeds{URLs: []string{"https://Docs.Example.org:8443/a", "https://docs.example.org:8443/b"}, Sitemaps: []string{"https://other.example/s.xml"}},
		Scope:      Scope{Hosts: []string{"docs.example.org:8443", "other.example"}, Depth: -1},
		Limits:     Limits{PageSize: 8 << 20, Tries: 3, HostErrors: 10},
		Politeness: Politeness{Delay: Duration(time.Second), Parallelism: 1, UserAgent: "trawl/" + Version, Robots: true},
		Shards:     1,
		Sink:       Sink{Kind: "sqlite", Index: "docs-example-org-8443"},
		Document:   Document{Fields: Fields},
	}
	s.from = nil
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

func TestDerivedDefaults(t *testing.T) {
	hosts := func(n int) string {
		var b strings.Builder
		b.WriteString("seeds:\n  urls:\n")
		for i := range n {
			fmt.Fprintf(&b, "    - https://h%d.example/\n", i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		text   string
		shards int
	}{
		{hosts(4), 1},
		{hosts(5), 8},
		{hosts(5) + "limits:\n  pages: 10000\n", 1},
		{hosts(5) + "limits:\n  pages: 10001\n", 8},
		{hosts(1) + "scope:\n  subdomains: true\n", 8},
		{hosts(1) + "shards: 3\n", 3},
	} {
		if s := parsed(t, tt.text); s.Shards != tt.shards {
			t.Errorf("%q: %d shards, want %d", tt.text, s.Shards, tt.shards)
		}
	}
	if s := parsed(t, seeded+"politeness:\n  delay: 0\n  contact: https://me.example/\n"); s.Politeness.Parallelism != 16 || s.Politeness.UserAgent != "trawl/"+Version+" (+https://me.example/)" {
		t.Errorf("politeness %+v", s.Politeness)
	}
	for host, name := range map[string]string{
		"Docs.Example.org": "docs-example-org", "[::1]:80": "1-80", "a..b": "a-b",
		strings.Repeat("x", 62) + ".y.z": strings.Repeat("x", 62),
	} {
		if got := NameOf(host); got != name || !nameForm.MatchString(got) {
			t.Errorf("NameOf(%q) = %q, want %q", host, got, name)
		}
	}
}

func TestSeedFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(file string) (*Spec, error) {
		s, err := Parse(filepath.Join(dir, "spec.yaml"), []byte("seeds:\n  files: ["+file+"]\n"))
		if err != nil {
			t.Fatal(err)
		}
		return s, s.Finish()
	}
	write("good.txt", "\xef\xbb\xbf# seeds\r\nhttps://a.example/\r\n\n  https://b.example/x  \nhttps://a.example/\n")
	s, err := read("good.txt")
	if err != nil || !slices.Equal(s.Seeds.URLs, []string{"https://a.example/", "https://b.example/x"}) {
		t.Errorf("%v %v", s.Seeds.URLs, err)
	}
	var many strings.Builder
	for i := range MaxSeeds + 1 {
		fmt.Fprintf(&many, "https://a.example/%d\n", i)
	}
	write("many.txt", many.String())
	write("bad.txt", "https://a.example/\n\nnonsense\n")
	write("long.txt", "https://a.example/"+strings.Repeat("x", maxSeedLine)+"\n")
	write("big.txt", strings.Repeat("#\n", MaxSeedBytes/2+1))
	for file, want := range map[string]string{
		"many.txt": "many.txt:20001: seeds.files: is seed number 20001; at most 20000",
		"bad.txt":  `bad.txt:3: seeds.files: "nonsense": is no URL`,
		"long.txt": "long.txt:1: seeds.files: the line is longer than 8192 bytes",
		"big.txt":  "makes the seed files larger than 1MiB",
		".":        "is not a regular file",
	} {
		if _, err := read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestFlags(t *testing.T) {
	s, err := Parse("x.yaml", []byte("seeds:\n  urls: [https://a.example/, ftp://b.example/]\nlimits:\n  pages: 5\n"))
	if err != nil {
		t.Fatal(err)
	}
	set := func(path string, values ...string) error {
		k, ok := keyOf(path)
		if !ok {
			t.Fatal(path)
		}
		return k.Set(s, values)
	}
	for _, err := range []error{
		set("seeds.urls", "https://c.example/", "https://d.example/"), set("limits.pages", "7"), set("politeness.robots", "false"),
		set("politeness.delay", "0.5"), set("limits.page_size", "1MiB"), set("scope.depth"), set("sink.kind", "none"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if s.Limits.Pages != 7 || s.Politeness.Robots || s.Politeness.Delay.Std() != 500*time.Millisecond || s.Limits.PageSize != 1<<20 || len(s.Seeds.URLs) != 2 || s.Scope.Depth != -1 {
		t.Errorf("%+v", s)
	}
	if err := set("limits.pages", "x"); err == nil || !strings.Contains(err.Error(), `--pages: "x": is no whole number`) {
		t.Error(err)
	}
	if err := set("limits.pages", "-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(); err == nil || !strings.HasPrefix(err.Error(), `--pages: "-1": is not between`) {
		t.Error(err)
	}
}

func TestEffective(t *testing.T) {
	s := parsed(t, Sample)
	var b strings.Builder
	if err := s.Effective(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/effective.yaml", b.String())
	again := parsed(t, b.String())
	if allowed, refused := Diff(s, again); len(allowed)+len(refused) > 0 {
		t.Errorf("the printed spec is another one: %v %v", allowed, refused)
	}
	s.Seeds.URLs = slices.Repeat([]string{"https://docs.example.org/"}, maxShown+5)
	s.Politeness = Politeness{UserAgent: "x", Parallelism: 8}
	s.Scope.Subdomains, s.Limits.Pages, s.Sink.Kind = true, 0, SinkNone
	b.Reset()
	if err := s.Effective(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# and 5 more", "no contact", "robots.txt is ignored", "no delay", "no page limit", "no sink"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestDiff(t *testing.T) {
	base := "name: x\nseeds:\n  urls: [https://a.example/, https://b.example/]\nlimits:\n  pages: 5\nscope:\n  hosts: [a.example, b.example]\n"
	old := parsed(t, base)
	for _, tt := range []struct{ name, text, allowed, refused string }{
		{"same", base, "", ""},
		{"limit", strings.Replace(base, "pages: 5", "pages: 9", 1), "limits.pages: was 5, is 9", ""},
		{"more seeds", strings.Replace(base, "urls: [", "urls: [https://a.example/x, ", 1), "seeds.urls: 1 more: https://a.example/x", ""},
		{"fewer seeds", strings.Replace(base, ", https://b.example/]", "]", 1), "", "seeds.urls: 1 missing: https://b.example/"},
		{"hosts", strings.Replace(base, "hosts: [", "hosts: [c.example, ", 1), "", "scope.hosts: was a.example, b.example, is c.example, a.example, b.example"},
		{"politeness", base + "politeness:\n  delay: 2s\n", "politeness.delay: was 1s, is 2s", ""},
		{"sink", base + "sink:\n  kind: none\n", "", "sink.kind: was sqlite, is none"},
		{"networks", base + "allow_networks: [10.0.0.0/8]\n", "", "allow_networks: was empty, is 10.0.0.0/8"},
		{"shards", base + "shards: 2\n", "", "shards: was 1, is 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := parsed(t, tt.text)
			now.Adopt(old)
			allowed, refused := Diff(old, now)
			if strings.Join(allowed, ";") != tt.allowed || strings.Join(refused, ";") != tt.refused {
				t.Errorf("allowed %q refused %q", allowed, refused)
			}
		})
	}
}

// A raised page limit would choose more shards; a generation keeps its own.
func TestAdopt(t *testing.T) {
	hosts := "seeds:\n  urls: [https://a.example/, https://b.example/, https://c.example/, https://d.example/, https://e.example/]\n"
	old, now := parsed(t, hosts+"limits:\n  pages: 10\n"), parsed(t, hosts+"limits:\n  pages: 20000\n")
	if now.Shards == old.Shards {
		t.Fatal("the test needs another number of shards")
	}
	now.Adopt(old)
	if _, refused := Diff(old, now); now.Shards != old.Shards || len(refused) > 0 {
		t.Errorf("%d shards, refused %v", now.Shards, refused)
	}
}

func TestCopy(t *testing.T) {
	s := parsed(t, Sample)
	c := s.Copy()
	c.Seeds.URLs[0] = "https://changed.example/"
	if s.Seeds.URLs[0] == c.Seeds.URLs[0] || c.Stated("name") || !s.Stated("name") {
		t.Error("a copy shares its lists or its origins")
	}
	k, _ := keyOf("politeness.contact")
	if err := k.Set(c, []string{"https://new.example/"}); err != nil {
		t.Fatal(err)
	}
	c.fill()
	if want := UserAgent("https://new.example/"); c.Politeness.UserAgent != want {
		t.Errorf("user agent %q, want %q", c.Politeness.UserAgent, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, text := range []string{"", "{", `{"nam":"x"}`, `{"limits":{"time":"soon"}}`, `{"shards":"x"}`, strings.Repeat(" ", maxDecoded+1)} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%.20q was decoded", text)
		}
	}
}

func TestSpecTooLarge(t *testing.T) {
	s := New()
	for i := range 500 {
		s.Seeds.URLs = append(s.Seeds.URLs, fmt.Sprintf("https://a.example/%d/%s", i, strings.Repeat("x", 1900)))
	}
	if err := s.Finish(); err == nil || !strings.Contains(err.Error(), "bytes with its seeds; at most 800000") {
		t.Error(err)
	}
}

func TestPropertyCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := randomSpec(t)
		first, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(first)
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		second, _ := back.Encode()
		if string(first) != string(second) {
			t.Fatalf("not stable:\n%s\n%s", first, second)
		}
		if !json.Valid(first) {
			t.Fatal("no JSON")
		}
		// Values of the table survive, so nothing that decides is lost.
		if allowed, refused := Diff(s, back); len(allowed)+len(refused) > 0 {
			t.Fatalf("%v %v", allowed, refused)
		}
	})
}

// TestPropertyEffective: whatever the strings, the printed form is read back.
func TestPropertyEffective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := randomSpec(t)
		var b strings.Builder
		if err := s.Effective(&b); err != nil {
			t.Fatal(err)
		}
		back, err := Parse("x.yaml", []byte(b.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if allowed, refused := Diff(s, back); len(allowed)+len(refused) > 0 {
			t.Fatalf("%v %v\n%s", allowed, refused, b.String())
		}
	})
}

// randomSpec fills every key through the table; seed files are no part of an
// encoded spec.
func randomSpec(t *rapid.T) *Spec {
	s := New()
	text := rapid.OneOf(rapid.StringMatching(`[a-z0-9:#'"\-\[\]{}& ]{1,12}`), rapid.String().Filter(func(s string) bool {
		return s != "" && yamlPrintable(s)
	}))
	for _, k := range keys {
		if k.Path == "seeds.files" {
			continue
		}
		switch p := k.at(s).(type) {
		case *string:
			*p = text.Draw(t, k.Path)
		case *[]string:
			*p = rapid.SliceOfN(text, 0, 4).Draw(t, k.Path)
		case *bool:
			*p = rapid.Bool().Draw(t, k.Path)
		case *int:
			*p = rapid.IntRange(-1, 1e6).Draw(t, k.Path)
		case *int64:
			*p = rapid.Int64Range(0, 1e9).Draw(t, k.Path)
		case *Duration:
			*p = Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, k.Path))
		}
	}
	return s
}

func yamlPrintable(s string) bool {
	var out string
	b, err := yaml.Marshal(s)
	return err == nil && yaml.Unmarshal(b, &out) == nil && out == s && !strings.ContainsRune(s, '\uFFFD')
}

// TestPropertyParse: no input makes it panic, and its errors are Problems.
func TestPropertyParse(t *testing.T) {
	frag := rapid.SampledFrom([]string{"name", "seeds", "urls", "scope", "limits", ":", " ", "\n", "  ", "- ", "[", "]", "{", "}", "1", "x", "~", "&a", "*a", "!!int ", "---\n", "\t", "'", "|", "<<"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(frag, 0, 30).Draw(t, "text"), "")
		s, err := Parse("x.yaml", []byte(text))
		var ps Problems
		if err != nil && (!errors.As(err, &ps) || len(ps) == 0) {
			t.Fatalf("%T %v", err, err)
		}
		if err == nil {
			_ = s.Finish()
		}
	})
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"1": time.Second, "0.25": 250 * time.Millisecond, "90s": 90 * time.Second, "2h": 2 * time.Hour, "0": 0} {
		d, err := ParseDuration(text)
		if err != nil || d.Std() != want {
			t.Errorf("%s: %s %v", text, d, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "NaN", "Inf", "1e300", "10000000h", "-5ms"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 0: "0s", 10 * time.Minute: "10m"} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%s is %s", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, "d"))
		b, err := json.Marshal(d)
		var back Duration
		if err != nil || json.Unmarshal(b, &back) != nil || back != d {
			t.Fatalf("%s became %s", d, back)
		}
	})
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "1KiB": 1024, "8MiB": 8 << 20, "1MB": 1e6, "5 kB": 5000, "12B": 12} {
		if n, err := ParseSize(text); err != nil || n != want {
			t.Errorf("%s: %d %v", text, n, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "9999999999GiB"} {
		if _, err := ParseSize(text); err == nil {
			t.Errorf("%q is a size", text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<40).Draw(t, "n")
		if back, err := ParseSize(FormatSize(n)); err != nil || back != n {
			t.Fatalf("%d became %s, %d", n, FormatSize(n), back)
		}
	})
}
