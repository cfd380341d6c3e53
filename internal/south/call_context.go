package south

import (
	"context"
	"sync"
	"time"
)

// callContext is the context of one call to an upstream. It ends with its parent,
// or by end, whichever is first. Every call has one, so it is made without what most
// calls never need: the connection in use has a place of its own in it, and channel
// and children come with the first who asks for them.
type callContext struct {
	parent context.Context

	mu    sync.Mutex // guards what follows; taken before the locks of derived contexts
	leave func() bool
	err   error                   // as Err says
	cause error                   // as context.Cause says
	conn  func()                  // told of the end before anybody else; see arm
	inner context.Context         // of those who wait and derive; nil: nobody does
	cut   context.CancelCauseFunc // of inner
}

// begin is called once, before anything else.
func (c *callContext) begin(parent context.Context) {
	c.parent = parent
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := parent.Err(); err != nil {
		c.err, c.cause = err, context.Cause(parent)
	} else if parent.Done() != nil {
		c.leave = context.AfterFunc(parent, c.orphaned)
	}
}

func (c *callContext) orphaned() { c.over(c.parent.Err(), context.Cause(c.parent)) }

func (c *callContext) late() { c.end(errDeadline) }

// end ends the context for a cause; nil is context.Canceled. What ended before stays
// as it was.
func (c *callContext) end(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.over(context.Canceled, cause)
}

func (c *callContext) over(err, cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.cause = err, cause
	leave, conn := c.leave, c.conn
	c.leave, c.conn = nil, nil
	if conn != nil {
		go conn()
	}
	if c.cut != nil {
		c.cut(cause)
	}
	c.mu.Unlock()
	if leave != nil {
		leave() // takes the locks of the parent
	}
}

// arm has f run on a goroutine of its own when c ends, or now when it has ended.
// There is place for one: it reports whether it was free.
func (c *callContext) arm(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return true
	}
	if c.conn != nil {
		return false
	}
	c.conn = f
	return true
}

// disarm undoes arm and reports whether it was in time: if not, f runs or has run.
func (c *callContext) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	armed := c.conn != nil
	c.conn = nil
	return armed
}

// wide returns the context that others wait for and derive from. c.mu is held.
func (c *callContext) wide() context.Context {
	if c.inner == nil {
		c.inner, c.cut = context.WithCancelCause(context.Background())
		if c.err != nil {
			c.cut(c.cause)
		}
	}
	return c.inner
}

// Err implements context.Context.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wide().Done()
}

// Deadline implements context.Context. The clock of the call is not known to it.
func (c *callContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Value implements context.Context. What package context keeps under keys of its own,
// to find the cause of an end and where to add what is derived, is of c and not of
// its parent; it asks for that only after Done, or after Err was not nil.
func (c *callContext) Value(key any) any {
	c.mu.Lock()
	inner := c.inner
	if inner == nil && c.err != nil {
		inner = c.wide()
	}
	c.mu.Unlock()
	if inner != nil {
		if v := inner.Value(key); v != nil {
			return v
		}
	}
	return c.parent.Value(key)
}
