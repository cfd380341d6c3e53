package config

import (
	"fmt"
	"io"
	"log/slog"
)

const hidden = "[secret]"

// Secret is a value that cannot print itself: every way of formatting, encoding or
// logging it gives "[secret]". Only Reveal hands it out.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal returns the value. Whoever calls it answers for where it goes.
func (s Secret) Reveal() string { return s.value }

// IsZero tells whether the secret is absent or empty.
func (s Secret) IsZero() bool { return s.value == "" }

// String hides the value.
func (s Secret) String() string { return hidden }

// GoString hides the value from %#v.
func (s Secret) GoString() string { return hidden }

// Format hides the value from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalJSON hides the value.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText hides the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalYAML hides the value.
func (s Secret) MarshalYAML() (any, error) { return hidden, nil }

// LogValue hides the value from structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

func (Secret) form() form { return form{what: "a string", secret: true} }

func (s *Secret) set(text string) error {
	s.value = text
	return nil
}
