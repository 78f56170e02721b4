package settings

import "log/slog"

// Secret is text that cannot print itself: fmt, slog, JSON and YAML show ***.
type Secret string

const stars = "***"

// String gives *** for a secret that is set, and nothing for none.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return stars
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText is String, for JSON, YAML and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue is String, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Reveal gives the text itself; only the client that needs it calls this.
func (s Secret) Reveal() string { return string(s) }
