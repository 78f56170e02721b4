package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time that people write as "1m30s" or as a number of
// seconds. Its JSON and YAML form is the string of time.Duration.
type Duration time.Duration

// maxDuration bounds what a spec may ask for: a year and a bit.
const maxDuration = 400 * 24 * time.Hour

// ParseDuration reads a Go duration ("250ms", "1h30m") or a number of seconds
// ("1", "0.5"). Negative and absurd lengths are refused.
func ParseDuration(s string) (Duration, error) {
	s = strings.TrimSpace(s)
	d, err := time.ParseDuration(s)
	if err != nil {
		sec, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || math.IsNaN(sec) || math.Abs(sec) > maxDuration.Seconds() {
			return 0, fmt.Errorf("%q is no duration: write 500ms, 1s, 2h30m, or a number of seconds", clip(s))
		}
		d = time.Duration(math.Round(sec * float64(time.Second)))
	}
	if d < 0 || d > maxDuration {
		return 0, fmt.Errorf("%q is out of range: from 0s to %s", clip(s), maxDuration)
	}
	return Duration(d), nil
}

// String prints the duration as time.Duration does, without empty tails: 1h,
// not 1h0m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Std is the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalJSON writes the string form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the string form or a number of seconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// MarshalYAML writes the string form.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// Set and Type make a Duration a command line flag.
func (d *Duration) Set(s string) error {
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// Type names the flag's value in help texts.
func (d *Duration) Type() string { return "duration" }

func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
