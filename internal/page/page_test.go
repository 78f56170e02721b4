package page

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet")

// goldens are records of each release. A file that exists is never written
// again: it must be read for ever.
var goldens = map[string]Page{
	"v1_full": {
		URL: "https://example.com/a?b=c", Round: 2, Status: 200,
		Header: []Header{{"Content-Type", "text/html; charset=utf-8"}, {"Etag", `"x"`}, {"Link", "<https://example.com/b>; rel=next"}, {"Link", ""}},
		Body:   []byte("<!doctype html><p>golden"), ContentEncoding: "", ContentType: "text/html; charset=utf-8",
		When: time.UnixMilli(1_790_000_000_123).UTC(), Duration: 123456789, Redirect: "https://example.com/z", Cut: true,
		Depth: 3, Size: 24, Digest: 0xdeadbeefcafef00d, Remote: "192.0.2.1:443",
	},
	"v1_least": {URL: "http://a/"},
	"v1_gone":  {URL: "http://a/gone", Round: 1, Status: 410, When: time.UnixMilli(1).UTC(), Remote: "[2001:db8::1]:80"},
}

func TestGolden(t *testing.T) {
	for name, want := range goldens {
		path := filepath.Join("testdata", name+".bin")
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && *update {
			b = want.Append(nil)
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		var got Page
		if err := Decode(b, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !same(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
		if !bytes.Equal(want.Append(nil), b) {
			t.Errorf("%s: this release writes other bytes: keep the file and add one under a new name", name)
		}
	}
}

// same compares pages; nil and empty are the same on the wire.
func same(a, b Page) bool {
	norm := func(p *Page) {
		if len(p.Header) == 0 {
			p.Header = nil
		}
		if len(p.Body) == 0 {
			p.Body = nil
		}
	}
	norm(&a)
	norm(&b)
	return reflect.DeepEqual(a, b)
}

func pages() *rapid.Generator[Page] {
	text := rapid.StringN(-1, -1, 100)
	return rapid.Custom(func(t *rapid.T) Page {
		var header []Header
		for range rapid.IntRange(0, 5).Draw(t, "headers") {
			header = append(header, Header{text.Draw(t, "name"), text.Draw(t, "value")})
		}
		return Page{
			URL: "http://a/" + text.Draw(t, "url"), Round: rapid.Int().Draw(t, "round"), Status: rapid.IntRange(-1, 999).Draw(t, "status"),
			Header: header, Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"), ContentEncoding: text.Draw(t, "coding"), ContentType: text.Draw(t, "type"),
			When: time.UnixMilli(rapid.Int64Range(-1e15, 1e15).Draw(t, "when")).UTC(), Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
			Redirect: text.Draw(t, "redirect"), Cut: rapid.Bool().Draw(t, "cut"), Depth: rapid.Int().Draw(t, "depth"), Size: rapid.Int64().Draw(t, "size"),
			Digest: rapid.Uint64().Draw(t, "digest"), Remote: text.Draw(t, "remote"),
		}
	})
}

func TestRoundTrip(t *testing.T) {
	var got Page // reused, as readers do
	rapid.Check(t, func(t *rapid.T) {
		want := pages().Draw(t, "page")
		b := want.Append([]byte("before"))
		if err := Decode(b[len("before"):], &got); err != nil {
			t.Fatal(err)
		}
		if want.When.UnixMilli() == 0 {
			want.When, got.When = time.Time{}, time.Time{}
		}
		if !same(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

func TestBodyAliases(t *testing.T) {
	p := Page{URL: "http://a/", Body: []byte("body")}
	b := p.Append(nil)
	var got Page
	if err := Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] = '!'
	if string(got.Body) != "bod!" {
		t.Error("the body is a copy")
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	p := Page{URL: "http://a/", Status: 200}
	b := p.Append(nil)
	b = protowire.AppendTag(b, 99, protowire.BytesType)
	b = protowire.AppendString(b, "later")
	b = protowire.AppendTag(b, 98, protowire.Fixed32Type)
	b = protowire.AppendFixed32(b, 7)
	b = protowire.AppendTag(b, 97, protowire.VarintType)
	b = protowire.AppendVarint(b, 7)
	var got Page
	if err := Decode(b, &got); err != nil || !same(got, p) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHeaderBound(t *testing.T) {
	p := Page{URL: "http://a/"}
	for range 100 {
		p.Header = append(p.Header, Header{"X-Big", strings.Repeat("x", 1000)})
	}
	var got Page
	if err := Decode(p.Append(nil), &got); err != nil || len(got.Header) != 16 {
		t.Errorf("%d pairs, %v", len(got.Header), err)
	}
	if got.Get("X-Big") == "" || got.Get("Absent") != "" {
		t.Error("Get")
	}
}

func TestDecodeRefuses(t *testing.T) {
	full := goldens["v1_full"]
	good := full.Append(nil)
	long := protowire.AppendString(protowire.AppendTag([]byte{1}, fieldURL, protowire.BytesType), strings.Repeat("u", maxURL+1))
	many := (&Page{URL: "http://a/"}).Append(nil)
	for range maxHeaders + 1 {
		many = protowire.AppendBytes(protowire.AppendTag(many, fieldHeader, protowire.BytesType), nil)
	}
	for name, b := range map[string][]byte{
		"empty": nil, "version": {2}, "no URL": {1}, "broken off": good[:len(good)-3], "long URL": long, "many headers": many,
		"bad header": append((&Page{URL: "http://a/"}).Append(nil), fieldHeader<<3|2, 1, 0xff),
	} {
		var p Page
		if err := Decode(b, &p); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range good {
		var p Page
		_ = Decode(good[:i], &p) // every cut is an error or a shorter record, never a panic
	}
}

func packed(t testing.TB, coding string, plain []byte) []byte {
	var b bytes.Buffer
	var w interface {
		Write([]byte) (int, error)
		Close() error
	}
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, _ = flate.NewWriter(&b, 6)
	case "br":
		w = brotli.NewWriter(&b)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPlain(t *testing.T) {
	plain := bytes.Repeat([]byte("plain text "), 1000)
	for _, c := range []struct{ header, coding string }{
		{"gzip", "gzip"}, {"X-GZip", "gzip"}, {" Gzip , identity", "gzip"}, {"deflate", "deflate"}, {"deflate", "raw deflate"}, {"br", "br"},
	} {
		p := Page{Body: packed(t, c.coding, plain), ContentEncoding: c.header}
		got, err := p.Plain(int64(len(plain)))
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s as %s: %d bytes, %v", c.coding, c.header, len(got), err)
		}
		got, err = p.Plain(100)
		if !errors.Is(err, ErrCutShort) || !bytes.Equal(got, plain[:100]) {
			t.Errorf("%s cut: %d bytes, %v", c.coding, len(got), err)
		}
		p.Body = p.Body[:len(p.Body)-5]
		got, err = p.Plain(1 << 20)
		if !errors.Is(err, ErrCutShort) || !bytes.HasPrefix(plain, got) {
			t.Errorf("%s broken off: %d bytes, %v", c.coding, len(got), err)
		}
	}
	twice := Page{Body: packed(t, "gzip", packed(t, "deflate", plain)), ContentEncoding: "deflate, gzip"}
	if got, err := twice.Plain(1 << 20); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("two codings: %v", err)
	}
	same := Page{Body: plain, ContentEncoding: "identity"}
	if got, err := same.Plain(1 << 20); err != nil || &got[0] != &plain[0] {
		t.Errorf("identity: %v", err)
	}
	if got, err := same.Plain(5); !errors.Is(err, ErrCutShort) || len(got) != 5 {
		t.Errorf("identity cut: %d bytes, %v", len(got), err)
	}
	for _, coding := range []string{"zstd", "gzip,gzip,gzip,gzip", "compress"} {
		p := Page{Body: plain, ContentEncoding: coding}
		if _, err := p.Plain(10); !errors.Is(err, ErrCoding) {
			t.Errorf("%s: %v", coding, err)
		}
	}
	bad := Page{Body: []byte("not packed"), ContentEncoding: "gzip"}
	if got, err := bad.Plain(10); err == nil || got != nil {
		t.Errorf("not gzip: %q, %v", got, err)
	}
	if got, err := (&Page{ContentEncoding: "gzip"}).Plain(10); err != nil || len(got) != 0 {
		t.Errorf("empty body: %v", err)
	}
}

// A bomb costs no more than the limit.
func TestBomb(t *testing.T) {
	p := Page{Body: packed(t, "gzip", make([]byte, 8<<20)), ContentEncoding: "gzip"}
	got, err := p.Plain(1 << 20)
	if !errors.Is(err, ErrCutShort) || len(got) != 1<<20 || cap(got) > 4<<20 {
		t.Errorf("%d of %d bytes, %v", len(got), cap(got), err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, p := range goldens {
		f.Add(p.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, q Page
		if Decode(b, &p) != nil {
			return
		}
		if err := Decode(p.Append(nil), &q); err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		_, _ = p.Plain(1 << 16)
	})
}

func FuzzPlain(f *testing.F) {
	f.Add(packed(f, "br", []byte("hello")), "br")
	f.Add(packed(f, "gzip", []byte("hello")), "gzip")
	f.Add(packed(f, "deflate", []byte("hello")), "deflate")
	f.Fuzz(func(t *testing.T, b []byte, coding string) {
		if got, _ := Decompress(b, coding, 1<<16); len(got) > 1<<16 {
			t.Fatalf("%d bytes", len(got))
		}
	})
}

func benchPage() Page {
	p := goldens["v1_full"]
	p.Body = bytes.Repeat([]byte("x"), 20<<10)
	return p
}

func BenchmarkAppend(b *testing.B) {
	p := benchPage()
	buf := p.Append(nil)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = p.Append(buf[:0])
	}
}

func BenchmarkDecode(b *testing.B) {
	p := benchPage()
	buf := p.Append(nil)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Decode(buf, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlainGzip(b *testing.B) {
	p := Page{Body: packed(b, "gzip", bytes.Repeat([]byte("plain text "), 2000)), ContentEncoding: "gzip"}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = p.Plain(8 << 20)
	}
}
