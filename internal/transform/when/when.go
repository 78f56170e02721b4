// Package when reads times out of documents: ISO 8601, milliseconds, or a
// layout of Go's time package. It refuses to guess: what cannot be understood,
// or only with the settings of this machine, is an error.
package when

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"trawl/internal/spec"
	"trawl/internal/transform/rawjson"
)

// Parser reads a time from a JSON value.
type Parser func(raw []byte) (time.Time, error)

// New makes a Parser. "" is ISO 8601.
func New(format string) (Parser, error) {
	switch format {
	case "", spec.TimeISO8601:
		return ofText("ISO 8601", ISO8601), nil
	case spec.TimeMillis:
		return Millis, nil
	}
	if err := checkLayout(format); err != nil {
		return nil, err
	}
	return ofText("layout "+strconv.Quote(format), func(text string) (time.Time, error) { return layout(format, text) }), nil
}

// checkLayout refuses a layout that says nothing about a time.
func checkLayout(format string) error {
	sample := time.Date(2031, 10, 22, 13, 44, 55, 678e6, time.UTC)
	if sample.Format(format) == format {
		return fmt.Errorf("time format %q names no part of a time: write iso8601, millis, or how Go writes %s", format, time.RFC1123Z)
	}
	if got, err := time.Parse(format, sample.Format(format)); err != nil || got.Year() == 0 {
		return fmt.Errorf("time format %q gives no year, or cannot be read back: write iso8601, millis, or how Go writes %s", format, time.RFC1123Z)
	}
	return nil
}

// Bounds of a time: years that an index name and a date field can hold.
var (
	first = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
)

// Bounded refuses a time outside of the years 1 to 9999. The answer is in UTC.
func Bounded(t time.Time) (time.Time, error) {
	if t.Before(first) || t.After(last) {
		return t, errors.New("year is not within 1 to 9999")
	}
	return t.UTC(), nil
}

func ofText(name string, parse func(string) (time.Time, error)) Parser {
	return func(raw []byte) (time.Time, error) {
		text, ok := rawjson.String(raw)
		if !ok {
			return time.Time{}, fmt.Errorf("%s is %s, not a string in %s", rawjson.Show(raw), rawjson.Kind(raw), name)
		}
		t, err := parse(text)
		if err == nil {
			t, err = Bounded(t)
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("%s is no time in %s: %w", rawjson.Show(raw), name, err)
		}
		return t, nil
	}
}

// layout parses without asking for this machine's zone. Go invents an offset of
// zero for a zone's abbreviation that it does not know; that is refused.
func layout(format, text string) (time.Time, error) {
	t, err := time.ParseInLocation(format, text, time.UTC)
	if err != nil {
		if e, ok := errors.AsType[*time.ParseError](err); ok {
			return t, fmt.Errorf("%s where %s is wanted", rawjson.Show([]byte(e.ValueElem)), strconv.Quote(e.LayoutElem))
		}
		return t, err
	}
	if name, offset := t.Zone(); offset == 0 && name != "" && name != "UTC" && name != "GMT" && t.Location() != time.UTC {
		return t, fmt.Errorf("the offset of zone %s is not known: write it in digits (-0700)", name)
	}
	return t, nil
}

// Millis reads milliseconds since 1970, a number or a string of one. Fractions
// of a millisecond are dropped.
func Millis(raw []byte) (time.Time, error) {
	text := string(raw)
	if s, ok := rawjson.String(raw); ok {
		text = s
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || !(f > -1e15 && f < 1e15) || strings.ContainsAny(text, "xXpP_iInN") {
			return time.Time{}, fmt.Errorf("%s is no number of milliseconds since 1970", rawjson.Show(raw))
		}
		n = int64(f)
	}
	t, err := Bounded(time.UnixMilli(n))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is no number of milliseconds since 1970: %w", rawjson.Show(raw), err)
	}
	return t, nil
}
