package when

import (
	"errors"
	"time"
)

var errISO = errors.New("wanted is 2006-01-02, or 2006-01-02T15:04:05.999 and Z, +07:00, or nothing for UTC")

// ISO8601 reads the extended form: a date, then T or a space and a time of day
// with at most nanoseconds (more digits are dropped), then Z, an offset as
// +07:00, +0700 or +07, or nothing, which means UTC.
func ISO8601(text string) (time.Time, error) {
	p := reader{text}
	year := p.number(4)
	p.byte("-")
	month := p.number(2)
	p.byte("-")
	day := p.number(2)
	if p.rest == "" && year >= 0 && month >= 0 && day >= 0 {
		return date(year, month, day, 0, 0, 0, 0, 0)
	}
	p.byte("Tt ")
	hour := p.number(2)
	p.byte(":")
	minute := p.number(2)
	second, nano := 0, 0
	if p.is(":") {
		p.byte(":")
		second = p.number(2)
		if p.is(".,") {
			p.byte(".,")
			nano = p.fraction()
		}
	}
	offset := p.zone()
	if p.failed() || p.rest != "" {
		return time.Time{}, errISO
	}
	return date(year, month, day, hour, minute, second, nano, offset)
}

// date refuses what time.Date would carry over: the 30th of February.
func date(year, month, day, hour, minute, second, nano, offset int) (time.Time, error) {
	t := time.Date(year, time.Month(month), day, hour, minute, second, nano, time.UTC)
	if t.Year() != year || t.Month() != time.Month(month) || t.Day() != day || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, errors.New("no such day or time of day")
	}
	return t.Add(-time.Duration(offset) * time.Second), nil
}

// reader takes a text apart. Once it failed, rest is one byte that nothing
// matches.
type reader struct{ rest string }

const failure = "\x00"

func (r *reader) fail() int {
	r.rest = failure
	return -1
}

func (r *reader) failed() bool { return r.rest == failure }

func (r *reader) is(set string) bool {
	for i := range len(set) {
		if r.rest != "" && r.rest[0] == set[i] {
			return true
		}
	}
	return false
}

func (r *reader) byte(set string) {
	if !r.is(set) {
		r.fail()
		return
	}
	r.rest = r.rest[1:]
}

// number reads n digits.
func (r *reader) number(n int) int {
	if len(r.rest) < n {
		return r.fail()
	}
	v := 0
	for i := range n {
		c := r.rest[i] - '0'
		if c > 9 {
			return r.fail()
		}
		v = v*10 + int(c)
	}
	r.rest = r.rest[n:]
	return v
}

// fraction reads the digits behind a point, as nanoseconds.
func (r *reader) fraction() int {
	v, n := 0, 0
	for ; n < len(r.rest) && r.rest[n]-'0' <= 9; n++ {
		if n < 9 {
			v = v*10 + int(r.rest[n]-'0')
		}
	}
	if n == 0 {
		return r.fail()
	}
	r.rest = r.rest[n:]
	for ; n < 9; n++ {
		v *= 10
	}
	return v
}

// zone reads an offset in seconds.
func (r *reader) zone() int {
	switch {
	case r.rest == "":
		return 0
	case r.is("Zz"):
		r.rest = r.rest[1:]
		return 0
	case !r.is("+-"):
		return r.fail()
	}
	sign := 1
	if r.rest[0] == '-' {
		sign = -1
	}
	r.rest = r.rest[1:]
	hours, minutes := r.number(2), 0
	if r.is(":") {
		r.rest = r.rest[1:]
		minutes = r.number(2)
	} else if r.rest != "" {
		minutes = r.number(2)
	}
	if r.failed() || hours > 23 || minutes > 59 {
		return r.fail()
	}
	return sign * (hours*3600 + minutes*60)
}
