// Package fault holds the one error type of the gateway and the catalogue of
// codes it can answer with (DESIGN section 13).
//
// A function that fails returns a *fault.Error, or wraps one. Only the edge
// that writes to the wire turns it into a JSON-RPC error and an HTTP status.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Error is a failure that can be shown to a client.
//
// Message, Hint and Data reach the client and must hold neither another
// principal's data nor an internal address. Cause is for the log alone.
// An Error is immutable once returned, so it may be shared between goroutines.
type Error struct {
	Code    Code
	Message string // what happened, to which upstream where the caller may know it
	Hint    string // what to try; appended to the message on the wire
	Data    []byte // raw JSON for error.data; nil: none
	Cause   error  // never sent

	RetryAfter time.Duration // sent as the header Retry-After; 0: none
}

// New returns an Error of the catalogue with a formatted public message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap is New with the cause that is logged but never sent.
func Wrap(cause error, code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// WithHint returns a copy that tells the reader what to try.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithRetryAfter returns a copy that tells when the same request may succeed.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// WithData returns a copy that carries raw JSON as error.data.
func (e *Error) WithData(raw []byte) *Error {
	c := *e
	c.Data = raw
	return &c
}

// Error tells code, message and cause; it is meant for logs.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s (%d): %s", e.Code.Name(), int(e.Code), e.Message)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Public is the text a client reads: the message and, when there is one, the hint.
func (e *Error) Public() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// From returns the Error within err, or an Internal one that hides err.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Wrap(err, Internal, "internal error")
}
