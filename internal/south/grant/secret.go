package grant

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted stands wherever something secret would be printed.
const redacted = "[redacted]"

// Secret is a text that no way of printing shows: not fmt with any verb, not
// slog, not JSON. The text is behind a pointer, so that it stays hidden even
// where fmt may not call a method, which is in a field that is not exported.
// The zero Secret is empty. It is immutable; compare what Reveal returns.
type Secret struct{ text *string }

// NewSecret hides a text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text. It is for the one place that sends it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String does not return the text.
func (Secret) String() string { return redacted }

// GoString does not return the text.
func (Secret) GoString() string { return redacted }

// Format does not write the text, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue does not hold the text.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON does not return the text.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText does not return the text.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
