package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// String decodes a raw JSON string. It fails with fault.InvalidParams when raw
// is absent, another type, or not a valid string.
func String(raw []byte) (string, error) {
	var room [128]byte
	if len(raw) == 0 || raw[0] != '"' {
		return "", fault.New(fault.InvalidParams, "a string is expected")
	}
	b, err := jsontext.AppendUnquote(room[:0], raw)
	if err != nil {
		return "", fault.Wrap(err, fault.InvalidParams, "a string is not valid JSON")
	}
	return string(b), nil
}

// AppendString appends s as a JSON string with the least escaping there is:
// quotes, backslashes and control characters, and never `<`. Invalid UTF-8
// becomes U+FFFD, as there is no other way to write it.
func AppendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the one error tells of the U+FFFD
	return dst
}
