package frontier

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

// update writes golden files of new facts. Files that exist are never to be
// changed: they stand for what is in topics already.
var update = flag.Bool("update", false, "write missing golden files")

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

var goldenFacts = map[string]Fact{
	"discovered": Discovered{
		URL: "https://example.org/a?b=c&d", Depth: 3, Hop: 1, Parent: "https://example.org/", How: HowRedirect, When: at(1_700_000_000_123),
	},
	"discovered-seed": Discovered{URL: "http://example.org:8080/", How: HowSeed, When: at(1_700_000_000_000)},
	"fetched": Fetched{
		URL: "https://example.org/a", Round: 2, Status: 200, When: at(1_700_000_000_456), ETag: `W/"x"`,
		LastModified: "Tue, 14 Nov 2023 22:13:20 GMT", Digest: 0xfedcba9876543210, Bytes: 12345, Depth: 7, CutDepth: true,
		NextDue: at(1_700_003_600_000),
	},
	"fetched-refused": Fetched{URL: "https://example.org/b", Round: 1, Refusal: "robots", When: at(1_700_000_000_000), Depth: 1},
	"tried":           Tried{URL: "https://example.org/c", Round: 1, Number: 2, Class: "timeout", NextDue: at(1_700_000_060_000), When: at(1_700_000_000_000)},
	"streak":          Streak{Host: "example.org", Errors: 4, When: at(1_700_000_000_000)},
	"streak-reset":    Streak{Host: "example.org:8443", When: at(1_700_000_000_000)},
	"blocked":         Blocked{Host: "example.org", Part: 3, Until: at(1_700_000_120_000), Reason: "429", When: at(1_700_000_000_000)},
	"parked":          Parked{Host: "example.org", Reason: "20 errors in a row", When: at(1_700_000_000_000)},
	"robots": Robots{
		Host: "example.org", Scheme: "https", Rules: []byte{0, 1, 2, 0xff}, CrawlDelay: 1500 * time.Millisecond,
		Expiry: at(1_700_086_400_000), When: at(1_700_000_000_000),
	},
	"spec":    Spec{JSON: []byte(`{"name":"x"}`)},
	"summary": Summary{JSON: []byte(`{"outcome":"completed"}`)},
}

func TestGolden(t *testing.T) {
	for name, fact := range goldenFacts {
		t.Run(name, func(t *testing.T) {
			key, value := fact.Record()
			file := filepath.Join("testdata", "facts", name+".golden")
			if _, err := os.Stat(file); *update && errors.Is(err, os.ErrNotExist) {
				text := fmt.Sprintf("%s\n%s\n", hex.EncodeToString(key), hex.EncodeToString(value))
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Fields(string(text))
			goldenKey, _ := hex.DecodeString(lines[0])
			goldenValue, _ := hex.DecodeString(lines[1])
			if !bytes.Equal(key, goldenKey) || !bytes.Equal(value, goldenValue) {
				t.Errorf("Record = %x %x, golden %s", key, value, lines)
			}
			got, err := Decode(goldenKey, goldenValue)
			if err != nil || !reflect.DeepEqual(got, fact) {
				t.Errorf("Decode = %+v, %v; want %+v", got, err, fact)
			}
		})
	}
}

func TestHostKey(t *testing.T) {
	for name, fact := range goldenFacts {
		want := "example.org"
		switch name {
		case "discovered-seed":
			want = "example.org:8080"
		case "streak-reset":
			want = "example.org:8443"
		case "spec", "summary":
			want = ""
		}
		if got := fact.HostKey(); got != want {
			t.Errorf("%s: HostKey = %q, want %q", name, got, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	u := "https://example.org/"
	key := func(kind string, rest ...string) string { return kind + strings.Join(rest, "") }
	field := func(num protowire.Number, s string) string {
		return "\x01" + string(protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), s))
	}
	num := func(n protowire.Number, v uint64) string {
		return "\x01" + string(protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v))
	}
	cases := map[string][2]string{
		"empty key":              {"", "\x01"},
		"unknown kind":           {"x" + u, "\x01"},
		"empty value":            {key("f", u), ""},
		"tombstone of d":         {key("d", "\x00\x00", u), ""},
		"later version":          {key("d", "\x00\x00", u), "\x02"},
		"short d key":            {"d\x00", "\x01"},
		"short t key":            {"t\x00\x00\x00\x01\x00", "\x01"},
		"round 0":                {key("t", "\x00\x00\x00\x00\x00\x01", u), "\x01"},
		"number 0":               {key("t", "\x00\x00\x00\x01\x00\x00", u), "\x01"},
		"round too great":        {key("t", "\xff\x00\x00\x01\x00\x01", u), "\x01"},
		"no URL":                 {key("d", "\x00\x00", "example.org/"), "\x01"},
		"ftp":                    {key("d", "\x00\x00", "ftp://example.org/"), "\x01"},
		"no path":                {key("d", "\x00\x00", "http://example.org"), "\x01"},
		"query without path":     {key("d", "\x00\x00", "http://example.org?x"), "\x01"},
		"user":                   {key("d", "\x00\x00", "http://a@example.org/"), "\x01"},
		"default port":           {key("d", "\x00\x00", "http://example.org:80/"), "\x01"},
		"fragment":               {key("d", "\x00\x00", u, "#x"), "\x01"},
		"NUL":                    {key("d", "\x00\x00", u, "\x00"), "\x01"},
		"space":                  {key("d", "\x00\x00", u, " "), "\x01"},
		"long URL":               {key("d", "\x00\x00", u, strings.Repeat("a", MaxURL)), "\x01"},
		"neither status nor why": {key("f", u), "\x01"},
		"status 1000":            {key("f", u), num(1, 1000)},
		"status as text":         {key("f", u), field(1, "200")},
		"truncated field":        {key("f", u), "\x01\x08"},
		"long etag":              {key("f", u), field(4, strings.Repeat("x", maxETag+1))},
		"time after 9999":        {key("d", "\x00\x00", u), num(2, maxMillis+1)},
		"h without host":         {"h", "\x01"},
		"h with URL":             {key("h", u), "\x01"},
		"h too long":             {key("h", strings.Repeat("a", maxHost+1)), "\x01"},
		"b too short":            {"b\x00", "\x01"},
		"rules too long":         {key("r", "example.org"), field(2, strings.Repeat("x", MaxRules+1))},
		"s with subject":         {"sx", "\x01"},
	}
	for name, c := range cases {
		if f, err := Decode([]byte(c[0]), []byte(c[1])); !errors.Is(err, ErrFact) {
			t.Errorf("%s: Decode = %+v, %v; want ErrFact", name, f, err)
		}
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	for name, fact := range goldenFacts {
		key, value := fact.Record()
		value = protowire.AppendString(protowire.AppendTag(value, 900, protowire.BytesType), "later")
		value = protowire.AppendVarint(protowire.AppendTag(value, 15, protowire.VarintType), 7)
		if got, err := Decode(key, value); err != nil || !reflect.DeepEqual(got, fact) {
			t.Errorf("%s: Decode = %+v, %v; want %+v", name, got, err, fact)
		}
	}
}

// Whatever a Fetch puts into the optional fields, the fact can be read.
func TestRecordKeepsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		str := func(name string) string {
			s := rapid.StringN(0, 300, -1).Draw(t, name)
			return strings.Repeat(s, rapid.IntRange(0, 20).Draw(t, name+" times"))
		}
		n := func(name string) int { return rapid.Int().Draw(t, name) }
		when := func(name string) time.Time {
			return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, name), 0)
		}
		u := "https://example.org/" + rapid.StringMatching(`[a-z0-9/?=&]{0,30}`).Draw(t, "u")
		for _, f := range []Fact{
			Discovered{URL: u, Depth: n("depth"), Hop: n("hop"), Parent: str("parent"), How: str("how"), When: when("when")},
			Fetched{
				URL: u, Round: n("round"), Status: n("status"), Refusal: str("refusal"), When: when("when"), ETag: str("etag"),
				LastModified: str("lm"), Bytes: int64(n("bytes")), Depth: n("depth"), NextDue: when("due"),
			},
			Tried{URL: u, Round: n("round"), Number: n("number"), Class: str("class"), NextDue: when("due"), When: when("when")},
			Streak{Host: "example.org", Errors: n("errors"), When: when("when")},
			Blocked{Host: "example.org", Part: n("part"), Until: when("until"), Reason: str("reason"), When: when("when")},
			Parked{Host: "example.org", Reason: str("reason"), When: when("when")},
			Robots{Host: "example.org", Scheme: str("scheme"), CrawlDelay: time.Duration(n("delay")), Expiry: when("expiry")},
		} {
			key, value := f.Record()
			if _, err := Decode(key, value); err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, fact := range goldenFacts {
		key, value := fact.Record()
		f.Add(key, value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		fact, err := Decode(key, value)
		if err != nil {
			if !errors.Is(err, ErrFact) || fact != nil {
				t.Fatalf("Decode = %v, %v", fact, err)
			}
			return
		}
		k, v := fact.Record()
		if !bytes.Equal(k, key) {
			t.Fatalf("%+v: key %q, was %q", fact, k, key)
		}
		again, err := Decode(k, v)
		if err != nil || !reflect.DeepEqual(again, fact) {
			t.Fatalf("%+v came back as %+v, %v", fact, again, err)
		}
		if _, err := json.Marshal(fact); err != nil {
			t.Fatal(err)
		}
		s := New(Options{Depth: -1, WindowURLs: 2, Horizon: at(maxMillis)})
		defer s.Close()
		if err := s.Fold(0, key, value); err != nil || s.Invalid() != 0 {
			t.Fatalf("Fold = %v, %d invalid", err, s.Invalid())
		}
	})
}

func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"http://a/":                "a",
		"https://a.b:8443/x":       "a.b:8443",
		"http://a:80/":             "a",
		"https://a:443/":           "a",
		"http://a:443/":            "a:443",
		"http://[::1]:80/":         "[::1]",
		"http://[::1]/":            "[::1]",
		"http://a?x":               "a",
		"":                         "",
		"http://":                  "",
		"mailto:x@y":               "",
		"http://u:p@h/":            "",
		"http://h/@":               "h",
		"//h/":                     "",
		"http://" + string("\x01"): "",
	} {
		if got := HostOf(url); got != want {
			t.Errorf("HostOf(%q) = %q, want %q", url, got, want)
		}
	}
}

func TestPartSlotsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.StringMatching(`[a-z0-9.]{1,30}`).Draw(t, "host")
		seen := map[int]bool{SlotOf(host): true}
		for part := range MaxParts {
			slot := PartSlot(host, part)
			if slot < 0 || slot >= 4096 || seen[slot] {
				t.Fatalf("part %d of %q: slot %d", part, host, slot)
			}
			seen[slot] = true
		}
	})
}

// The partition of a host is part of the format: it must never change.
func TestShardOfIsFixed(t *testing.T) {
	got := []int{ShardOf("example.org", 8), ShardOf("example.org:8080", 256), ShardOf("example.org", 1), ShardOf("x", 0)}
	if want := []int{5, 14, 0, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("ShardOf = %v, want %v", got, want)
	}
	got = []int{SlotOf("example.org"), PartSlot("example.org", 0)}
	if want := []int{152, 3333}; !reflect.DeepEqual(got, want) {
		t.Errorf("SlotOf, PartSlot = %v, want %v", got, want)
	}
}
