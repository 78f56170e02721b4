package fields

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// decimal is the value of a JSON number: its digits without zeros around them,
// and where the point stands before or behind them.
type decimal struct {
	negative bool
	digits   string // "" is zero
	point    int    // 0.digits * 10^point
}

var errExponent = errors.New("its exponent is out of all bounds")

// parseDecimal takes a JSON number.
func parseDecimal(text string) (decimal, error) {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n > 1<<20 || n < -1<<20 {
			return d, errExponent
		}
		mantissa, exponent = text[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	d.digits = strings.TrimLeft(all, "0")
	d.point = len(whole) - (len(all) - len(d.digits)) + exponent
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return decimal{}, nil
	}
	return d, nil
}

// maxDigits of a whole number that a cast writes out.
const maxDigits = 1000

// whole writes d without a point or exponent, if it is a whole number.
func (d decimal) whole() (string, error) {
	switch {
	case d.digits == "":
		return "0", nil
	case d.point < len(d.digits):
		return "", errors.New("it is not whole")
	case d.point > maxDigits:
		return "", errExponent
	}
	text := d.digits + strings.Repeat("0", d.point-len(d.digits))
	if d.negative {
		text = "-" + text
	}
	return text, nil
}

// number gives what expressions compute with: int or float64 where these hold
// the number exactly, else json.Number, which is passed on and compared with
// its like, and which arithmetic refuses.
func number(raw []byte) any {
	text := string(raw)
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return int(n)
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && len(text) <= 15 && math.Abs(f) > 1e-200 {
		return f // every decimal of 15 digits has a float64 of its own
	}
	d, derr := parseDecimal(text)
	if err != nil || derr != nil {
		return json.Number(text)
	}
	if back, err := parseDecimal(strconv.FormatFloat(f, 'e', -1, 64)); err != nil || back != d {
		return json.Number(text)
	}
	return f
}

// appendFloat writes a finite float64 as JSON, by the shortest text that reads
// back as the same.
func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errors.New("the result is " + strconv.FormatFloat(f, 'g', -1, 64) + ", which is no number in JSON: check for a division by zero")
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64), nil
}
