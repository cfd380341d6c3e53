package hook

import (
	"bytes"
	"context"
	"slices"
)

// Principal is who calls, as far as a hook is told.
type Principal struct {
	Issuer, Tenant, Subject string
	Scopes                  []string
}

// Call is what a hook judges.
//
// Arguments and Result are raw JSON objects; nil is none. Arguments that are
// none are shown to hooks as {}. Result counts for after events alone, where one
// that is none is left out. Those who run a Set keep what they hand in: hooks
// are shown copies. Arguments must have been parsed strictly; a Result is
// parsed by the Set before the first hook sees it.
type Call struct {
	Event     Event
	Principal Principal

	Server   string // endpoint the caller uses
	Upstream string
	Name     string // as the caller knows it; a URI for a resource
	Original string // as the upstream knows it

	Arguments, Result []byte
}

// Verdict is what a hook decided. The zero Verdict allows and changes nothing.
//
// Arguments rewrites those of a before event, Result that of an after event:
// raw JSON objects, at most max_bytes and 64 KiB long; nil leaves it as it is.
// Neither stands beside Deny.
type Verdict struct {
	Deny              bool
	Message           string // with Deny: what the caller is told
	Arguments, Result []byte
}

// Func is a hook in Go. It may run many times at once.
//
// It must return when ctx ends; nobody waits for it longer, and what it answers
// then is lost. The Call is its own, to keep and to change. What its Verdict
// holds is copied. An error, a panic and a Verdict that is not as described are
// failures of the hook.
type Func func(ctx context.Context, c *Call) (Verdict, error)

var emptyObject = []byte(`{}`)

// arguments are what a hook is shown.
func (c *Call) arguments() []byte {
	if len(c.Arguments) == 0 {
		return emptyObject
	}
	return c.Arguments
}

// result is what a hook is shown; nil before the call.
func (c *Call) result() []byte {
	if !c.Event.after() || len(c.Result) == 0 {
		return nil
	}
	return c.Result
}

// clone is the Call as a function gets it. Nothing of it is shared: the
// function may go on when the caller's buffers have long been used again.
func (c *Call) clone() *Call {
	d := *c
	d.Principal.Scopes = slices.Clone(c.Principal.Scopes)
	d.Arguments = bytes.Clone(c.arguments())
	d.Result = bytes.Clone(c.result())
	return &d
}

// apply replaces what the verdict rewrote, and reports whether that made a
// difference.
func (c *Call) apply(v *Verdict) (changed bool) {
	if v.Arguments != nil && !bytes.Equal(v.Arguments, c.arguments()) {
		c.Arguments, changed = v.Arguments, true
	}
	if v.Result != nil && !bytes.Equal(v.Result, c.Result) {
		c.Result, changed = v.Result, true
	}
	return changed
}
