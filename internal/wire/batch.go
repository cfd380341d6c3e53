package wire

import (
	"bytes"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// IsBatch reports whether raw begins like a JSON array: a batch where the
// revision is 2025-03-26, an invalid request elsewhere (checklist 14, 90).
func IsBatch(raw []byte) bool {
	i := skipSpace(raw, 0)
	return i < len(raw) && raw[i] == '['
}

// SplitBatch splits a batch into its messages, strictly: the whole of raw is one
// array of at most max values, without duplicate names at any depth and in
// valid UTF-8. The messages alias raw and still have to be parsed.
//
// The error is a *fault.Error: fault.Parse when raw is not such JSON,
// fault.InvalidRequest when the array is empty or longer than max.
func SplitBatch(raw []byte, max int) ([][]byte, error) {
	p := &parser{m: &Message{Raw: raw}}
	p.dec.Reset(bytes.NewBuffer(raw))
	if p.dec.PeekKind() != '[' {
		v, err := p.dec.ReadValue()
		if err != nil {
			return nil, p.syntax(err)
		}
		return nil, fault.New(fault.InvalidRequest, "a batch is an array, not %s", kindName(v))
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return nil, p.syntax(err)
	}
	var out [][]byte
	for p.dec.PeekKind() != ']' {
		at, err := p.value()
		if err != nil {
			return nil, p.syntax(err)
		}
		if len(out) == max {
			return nil, fault.New(fault.InvalidRequest, "a batch holds at most %d messages", max)
		}
		out = append(out, at.Of(raw))
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return nil, p.syntax(err)
	}
	if rest := skipSpace(raw, int(p.dec.InputOffset())); rest != len(raw) {
		return nil, fault.New(fault.Parse, "there is data behind the batch at byte %d", rest)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.InvalidRequest, "a batch is never empty")
	}
	return out, nil
}
