package when_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trawl/internal/spec"
	"trawl/internal/transform/when"
)

func TestTimes(t *testing.T) {
	for _, c := range []struct{ format, raw, want string }{
		{"", `"2015-08-25T14:03:17.267Z"`, "2015-08-25T14:03:17.267Z"},
		{spec.TimeISO8601, `"2015-08-25T14:03:17.267-00:00"`, "2015-08-25T14:03:17.267Z"},
		{spec.TimeISO8601, `"2015-08-25T14:03:17.267"`, "2015-08-25T14:03:17.267Z"},
		{spec.TimeISO8601, `"2015-08-25 14:03"`, "2015-08-25T14:03:00Z"},
		{spec.TimeISO8601, `"2015-08-25t14:03:17,5z"`, "2015-08-25T14:03:17.5Z"},
		{spec.TimeISO8601, `"2015-08-25"`, "2015-08-25T00:00:00Z"},
		{spec.TimeISO8601, `"2015-12-31T23:30:00-02:00"`, "2016-01-01T01:30:00Z"},
		{spec.TimeISO8601, `"2015-12-31T23:30:00+0530"`, "2015-12-31T18:00:00Z"},
		{spec.TimeISO8601, `"2015-12-31T23:30:00+05"`, "2015-12-31T18:30:00Z"},
		{spec.TimeISO8601, `"2015-12-31T23:30:00.1234567899999Z"`, "2015-12-31T23:30:00.123456789Z"},
		{spec.TimeISO8601, `"\u0032015-08-25"`, "2015-08-25T00:00:00Z"},
		{spec.TimeMillis, `1440511397267`, "2015-08-25T14:03:17.267Z"},
		{spec.TimeMillis, `"1440511397267"`, "2015-08-25T14:03:17.267Z"},
		{spec.TimeMillis, `1.440511397267E12`, "2015-08-25T14:03:17.267Z"},
		{spec.TimeMillis, `1440511397267.9`, "2015-08-25T14:03:17.267Z"},
		{spec.TimeMillis, `-1`, "1969-12-31T23:59:59.999Z"},
		{"2006/01/02", `"2015/08/25"`, "2015-08-25T00:00:00Z"},
		{time.RFC1123, `"Tue, 25 Aug 2015 14:03:17 GMT"`, "2015-08-25T14:03:17Z"},
		{time.RFC1123Z, `"Tue, 25 Aug 2015 14:03:17 +0200"`, "2015-08-25T12:03:17Z"},
	} {
		parse, err := when.New(c.format)
		if err != nil {
			t.Fatalf("%s: %v", c.format, err)
		}
		got, err := parse([]byte(c.raw))
		if err != nil || got.Format(time.RFC3339Nano) != c.want {
			t.Errorf("%s of %s gave %s, %v; want %s", c.format, c.raw, got.Format(time.RFC3339Nano), err, c.want)
		}
	}
}

func TestNoTimes(t *testing.T) {
	iso := []string{
		`""`, `"2015"`, `"2015-08"`, `"2015-08-25T"`, `"2015-08-25T14"`, `"2015-08-25T14:03:17.Z"`, `"2015-02-30"`, `"2015-13-01"`,
		`"2015-00-10"`, `"2015-08-25T24:00:00Z"`, `"2015-08-25T23:59:60Z"`, `"2015-08-25T14:03:17Zx"`, `"2015-08-25T14:03:17+25:00"`,
		`"2015-08-25T14:03:17+1"`, `"0000-12-31"`, `"2015-08-2\u0000"`, `1440511397267`, `null`, `{}`, `true`, `" 2015-08-25"`,
		`"-015-08-25"`, `"0001-01-01T00:00:00+01:00"`, `"9999-12-31T23:59:59-01:00"`,
	}
	for format, raws := range map[string][]string{
		spec.TimeISO8601: iso,
		spec.TimeMillis:  {`"x"`, `1e400`, `true`, `null`, `"0x10"`, `"NaN"`, `"inf"`, `""`, `9223372036854775807`, `99999999999999999999`, `253402300800000`, `[1]`, `"1_0"`},
		"2006/01/02":     {`"2015-08-25"`, `"2015/02/30"`, `20150825`},
		time.RFC1123:     {`"Tue, 25 Aug 2015 14:03:17 CET"`},
	} {
		parse, err := when.New(format)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range raws {
			got, err := parse([]byte(raw))
			if err == nil {
				t.Errorf("%s of %s gave %s, want an error", format, raw, got)
				continue
			}
			if len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%s of %s: reason %q", format, raw, err)
			}
		}
	}
}

func TestBadFormats(t *testing.T) {
	for _, format := range []string{"x", "YYYY-MM-dd", "15:04", "epoch"} {
		if _, err := when.New(format); err == nil || !strings.Contains(err.Error(), strconv.Quote(format)) {
			t.Errorf("%s: error %v", format, err)
		}
	}
}

func TestISO8601ReadsWhatGoWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.IntRange(-23*60, 23*60).Draw(t, "offset") * 60
		want := time.Unix(rapid.Int64Range(-62_000_000_000, 253_000_000_000).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		want = want.In(time.FixedZone("", offset))
		got, err := when.ISO8601(want.Format(time.RFC3339Nano))
		if err != nil || !got.Equal(want) {
			t.Fatalf("%s gave %s, %v", want.Format(time.RFC3339Nano), got, err)
		}
	})
}

func FuzzISO8601(f *testing.F) {
	f.Add("2015-08-25T14:03:17.267Z")
	f.Add("2015-08-25 14:03+05")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := when.ISO8601(text)
		want, werr := time.Parse(time.RFC3339Nano, text)
		if werr == nil && err == nil && !got.Equal(want) {
			t.Fatalf("%q: %s, and Go reads %s", text, got, want)
		}
	})
}
