package wire

import (
	"bytes"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// LineSafe makes a message fit for framing by lines (DESIGN section 3): CR and
// LF between tokens become spaces; inside a string they make the message
// invalid, and the error is a *fault.Error of fault.InvalidAnswer.
//
// A message without CR and LF is returned as it is, not copied. Otherwise the
// result is written over dst[:0], which must not alias raw.
func LineSafe(dst, raw []byte) ([]byte, error) {
	if !hasEOL(raw) {
		return raw, nil
	}
	dst = append(dst[:0], raw...)
	var s skipper
	for i := 0; i < len(dst); {
		if dst[i] == '"' {
			s.begin(inString)
			end, done := s.skip(dst, i+1)
			if hasEOL(dst[i:end]) {
				return nil, errEOL()
			}
			if !done {
				return nil, fault.New(fault.InvalidAnswer, "the message ends within a string")
			}
			i = end
			continue
		}
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
		i++
	}
	return dst, nil
}

func hasEOL(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

func errEOL() error {
	return fault.New(fault.InvalidAnswer, "a string of the message holds a raw line end")
}
