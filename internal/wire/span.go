package wire

// Span is the place [Start, End) of a raw JSON value within a message. The zero
// Span says that the value is absent; as a value never ends at offset 0, End
// alone tells.
type Span struct{ Start, End int }

// Ok reports whether the value is there.
func (s Span) Ok() bool { return s.End != 0 }

// Of returns the bytes of the span within b, which must be the message it was
// found in; nil when the value is absent. The result aliases b.
func (s Span) Of(b []byte) []byte {
	if s.End == 0 {
		return nil
	}
	return b[s.Start:s.End:s.End]
}
