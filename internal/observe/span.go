package observe

import (
	"context"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// maxValue bounds a text in a span, in bytes.
const maxValue = 1024

// Span is one request of a client, or one call that it causes. It is a small
// value, to be copied; copies are the same span. The zero Span is one that is not
// sampled: its methods do nothing and allocate nothing. All methods are safe for
// concurrent use.
type Span struct {
	tracer *Tracer
	live   trace.Span // nil: not sampled
	parent string     // the incoming traceparent, if it was valid
	trace  [16]byte
}

// Sampled reports whether the span is recorded. Where it is not, attributes
// need not be put together.
func (s Span) Sampled() bool { return s.live != nil }

// Child starts the span of a call that s causes. The caller ends it.
func (s Span) Child(name string) Span {
	if s.live == nil {
		return s
	}
	s.live = s.tracer.begin(trace.ContextWithSpan(context.Background(), s.live), name, trace.SpanKindClient)
	return s
}

// TraceID is the trace that the span belongs to, for logs: 32 hexadecimal
// digits. It is "" only without a tracer and without a valid incoming parent.
func (s Span) TraceID() string {
	if s.trace == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(s.trace[:])
}

// AppendTraceparent appends what goes south: of this span if it is sampled, else
// the incoming traceparent unchanged, so that the client's own trace stays whole.
// Without either, or where the incoming one was not valid, it appends nothing.
// What it appends can stand in a header and in a JSON string as it is.
func (s Span) AppendTraceparent(dst []byte) []byte {
	if s.live == nil {
		return append(dst, s.parent...)
	}
	c := s.live.SpanContext()
	return appendTraceparent(dst, c.TraceID(), c.SpanID(), byte(c.TraceFlags()))
}

// Set gives the span an attribute; a text that is too long is cut.
func (s Span) Set(key, value string) {
	if s.live != nil {
		s.live.SetAttributes(attribute.String(key, clean(value)))
	}
}

// SetInt is Set for a number.
func (s Span) SetInt(key string, v int64) {
	if s.live != nil {
		s.live.SetAttributes(attribute.Int64(key, v))
	}
}

// Rename gives the span another name, once more is known than at its start.
func (s Span) Rename(name string) {
	if s.live != nil {
		s.live.SetName(clean(name))
	}
}

// Fail marks the span as failed. text is what the client may read; "" is fine.
func (s Span) Fail(text string) {
	if s.live != nil {
		s.live.SetStatus(codes.Error, clean(text))
	}
}

// End ends the span; only the first call counts. What is set later is lost. It
// never waits: a span that finds no room is dropped and counted.
func (s Span) End() {
	if s.live != nil {
		s.live.End()
	}
}

// clean makes s a text that can be sent: one that is not UTF-8 would spoil the
// whole batch. It is a copy, since spans outlive the buffers of their request.
func clean(s string) string {
	if len(s) > maxValue {
		cut := maxValue
		for cut > maxValue-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return strings.Clone(strings.ToValidUTF8(s, "\uFFFD"))
}
