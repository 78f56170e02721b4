package fields

import (
	"errors"
	"math"
	"strconv"

	"trawl/internal/spec"
	"trawl/internal/transform/rawjson"
)

// casts are the functions behind CastOp, from a value to one of the type. No
// digit of a number is lost: what would lose one fails.
var casts = map[string]func(raw []byte) ([]byte, error){
	spec.CastString: castText,
	spec.CastInt:    castInt,
	spec.CastFloat:  castFloat,
	spec.CastBool:   castBool,
}

var errNoScalar = errors.New("only scalars are cast")

func castText(raw []byte) ([]byte, error) {
	switch raw[0] {
	case '"':
		return raw, nil
	case '{', '[':
		return nil, errNoScalar
	}
	return rawjson.Quote(nil, string(raw)), nil
}

// numeric gives the text of a number, or of a string of one.
func numeric(raw []byte) (string, error) {
	switch raw[0] {
	case '{', '[', 't', 'f':
		return "", errors.New("only numbers and strings become numbers")
	case '"':
		text, _ := rawjson.String(raw)
		if !rawjson.Number(text) {
			return "", errors.New("it is not the text of a number")
		}
		return text, nil
	}
	return string(raw), nil
}

// castInt writes a whole number without point and exponent.
func castInt(raw []byte) ([]byte, error) {
	text, err := numeric(raw)
	if err != nil {
		return nil, err
	}
	d, err := parseDecimal(text)
	if err != nil {
		return nil, err
	}
	whole, err := d.whole()
	return []byte(whole), err
}

// castFloat keeps the digits of what a float64 can hold about.
func castFloat(raw []byte) ([]byte, error) {
	text, err := numeric(raw)
	if err != nil {
		return nil, err
	}
	if f, err := strconv.ParseFloat(text, 64); err != nil || math.IsInf(f, 0) {
		return nil, errors.New("it is out of the range of a float64")
	}
	return []byte(text), nil
}

func castBool(raw []byte) ([]byte, error) {
	switch string(raw) {
	case "true", `"true"`, "1", `"1"`:
		return []byte("true"), nil
	case "false", `"false"`, "0", `"0"`:
		return []byte("false"), nil
	}
	return nil, errors.New("only true, false, 1 and 0 become booleans, also as strings")
}
