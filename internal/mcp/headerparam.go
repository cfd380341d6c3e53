package mcp

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrParamMismatch is wrapped when an Mcp-Param header and the argument it
// mirrors differ.
var ErrParamMismatch = errors.New("header differs from the argument")

// maxExact is the largest integer that a mirrored parameter may have
// (checklist T13).
const maxExact = 1<<53 - 1

// MatchParam checks an Mcp-Param header, as received, against the raw JSON value
// of the argument it mirrors; typ is the type its schema gives: "string",
// "integer" or "boolean" (checklist 23). Integers are compared as numbers,
// exactly, without floating point: 42.0 is 42, and nothing beyond 2^53-1 in
// either direction equals anything (checklist 24, T13). A value that is not of
// its type is compared by what it is: refusing it is the upstream's part.
//
// The error wraps ErrHeaderValue or ErrParamMismatch; either is a -32020. An
// absent argument has no header to match, so bodyValue must be a value; null
// matches none.
func MatchParam(header string, bodyValue []byte, typ string) error {
	got, err := DecodeHeader(header)
	if err != nil {
		return err
	}
	equal := false
	switch kindOf(bodyValue) {
	case '"':
		want, err := unquote(bodyValue)
		if err != nil {
			return err
		}
		equal = got == string(want)
	case '0':
		if typ != "integer" {
			equal = got == string(bodyValue)
			break
		}
		want, ok := parseInteger(bodyValue)
		have, okHave := parseInteger([]byte(got))
		equal = ok && okHave && want == have
	case 't', 'f':
		equal = got == string(bodyValue)
	}
	if !equal {
		return fmt.Errorf("%w: the header says %q", ErrParamMismatch, got)
	}
	return nil
}

// ParamHeader returns the Mcp-Param header that mirrors the raw JSON value of an
// argument (checklist 109, 111). ok is false where no header may be sent: an
// absent (nil) or null value. The error says that the value is of a type, or a
// number of a size, that no header can mirror.
func ParamHeader(bodyValue []byte) (value string, ok bool, err error) {
	switch kindOf(bodyValue) {
	case 0, 'n':
		return "", false, nil
	case '"':
		s, err := unquote(bodyValue)
		if err != nil {
			return "", false, err
		}
		return EncodeHeader(string(s)), true, nil
	case 't', 'f':
		return string(bodyValue), true, nil
	case '0':
		n, exact := parseInteger(bodyValue)
		if !exact {
			return "", false, fmt.Errorf("%s is not an integer of at most 2^53-1", clip(bodyValue))
		}
		return strconv.FormatInt(n, 10), true, nil
	}
	return "", false, fmt.Errorf("an object or array cannot be mirrored in a header")
}

func clip(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}

// kindOf is the kind of a raw value as jsontext names it: its first byte, '0'
// for every number, 0 for no value.
func kindOf(raw []byte) byte {
	if len(raw) == 0 {
		return 0
	}
	return byte(jsontext.Value(raw).Kind())
}

// parseInteger reads a JSON number that is a whole number of at most 2^53-1 in
// size, whatever its spelling; ok is false for all else.
func parseInteger(raw []byte) (n int64, ok bool) {
	p := 0
	negative := p < len(raw) && raw[p] == '-'
	if negative {
		p++
	}
	whole := digits(raw, p)
	if whole == p || (raw[p] == '0' && whole > p+1) {
		return 0, false
	}
	mantissa, scale := append([]byte(nil), raw[p:whole]...), 0
	p = whole
	if p < len(raw) && raw[p] == '.' {
		end := digits(raw, p+1)
		if end == p+1 {
			return 0, false
		}
		mantissa = append(mantissa, raw[p+1:end]...)
		scale = -(end - p - 1)
		p = end
	}
	if p < len(raw) && (raw[p] == 'e' || raw[p] == 'E') {
		p++
		sign := 1
		if p < len(raw) && (raw[p] == '+' || raw[p] == '-') {
			if raw[p] == '-' {
				sign = -1
			}
			p++
		}
		end := digits(raw, p)
		if end == p {
			return 0, false
		}
		exp := 0
		for _, d := range raw[p:end] {
			// Beyond the longest mantissa the exact exponent decides nothing.
			if exp = exp*10 + int(d-'0'); exp > len(raw)+20 {
				exp = len(raw) + 20
			}
		}
		scale += sign * exp
		p = end
	}
	if p != len(raw) {
		return 0, false
	}
	for len(mantissa) > 0 && mantissa[0] == '0' {
		mantissa = mantissa[1:]
	}
	for len(mantissa) > 0 && mantissa[len(mantissa)-1] == '0' {
		mantissa = mantissa[:len(mantissa)-1]
		scale++
	}
	if len(mantissa) == 0 {
		return 0, true
	}
	if scale < 0 || len(mantissa)+scale > 16 {
		return 0, false
	}
	for _, d := range mantissa {
		n = n*10 + int64(d-'0')
	}
	for ; scale > 0; scale-- {
		n *= 10
	}
	if n > maxExact {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// digits returns the position after the decimal digits that begin at p.
func digits(raw []byte, p int) int {
	for p < len(raw) && raw[p] >= '0' && raw[p] <= '9' {
		p++
	}
	return p
}
