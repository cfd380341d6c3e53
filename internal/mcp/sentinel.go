package mcp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The sentinel that marks a base64 header value. It is exact: any other
// spelling, upper case included, is a literal (checklist 150, T12).
const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// ErrHeaderValue is wrapped by every error of DecodeHeader and MatchParam that
// is about the header's own form: bytes that no header may hold, or a sentinel
// that does not decode.
var ErrHeaderValue = errors.New("malformed header value")

// EncodeHeader returns v as an Mcp-Name or Mcp-Param header carries it: as it
// is where that is unambiguous, else as the base64 sentinel (checklist 111).
// A plain value is returned without allocation.
func EncodeHeader(v string) string {
	if headerPlain(v) {
		return v
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(v)) + sentinelSuffix
}

// DecodeHeader returns the value that a header stands for. It refuses bytes
// outside 0x20-0x7E and tab, which Go's HTTP stack lets through, and a sentinel
// whose base64 is not strict, padded, and of UTF-8 (checklist 150, T12). A
// literal is returned without allocation.
func DecodeHeader(v string) (string, error) {
	for i := 0; i < len(v); i++ {
		if c := v[i]; (c < 0x20 && c != '\t') || c > 0x7E {
			return "", fmt.Errorf("%w: byte 0x%02x at %d", ErrHeaderValue, c, i)
		}
	}
	if len(v) < len(sentinelPrefix)+len(sentinelSuffix) || !likeSentinel(v) {
		return v, nil
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(v[len(sentinelPrefix) : len(v)-len(sentinelSuffix)])
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrHeaderValue, err)
	}
	if !utf8.Valid(raw) {
		return "", fmt.Errorf("%w: the base64 is not of UTF-8 text", ErrHeaderValue)
	}
	return string(raw), nil
}

func headerPlain(v string) bool {
	if v == "" {
		return true
	}
	if v[0] == ' ' || v[len(v)-1] == ' ' {
		return false // a recipient trims it
	}
	for i := 0; i < len(v); i++ {
		if v[i] < 0x20 || v[i] > 0x7E {
			return false
		}
	}
	return !likeSentinel(v)
}

// likeSentinel also holds for "=?base64?=", where the two ends overlap: it is
// read as a literal, but written encoded, since a peer may read it otherwise.
func likeSentinel(v string) bool {
	return strings.HasPrefix(v, sentinelPrefix) && strings.HasSuffix(v, sentinelSuffix)
}
