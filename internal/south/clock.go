package south

import (
	"sync"
	"time"
)

// clock bounds how long a call takes: between two signs of life, and in all. It
// stands still while a question of the upstream's is open, or while an answer
// waits for somebody to take it. It is safe for concurrent use.
type clock struct {
	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	timeout time.Duration
	last    time.Time // however much progress there is, the call ends here
	open    int       // questions without a response
	idle    bool      // the answer is there, and nobody takes it yet
	closed  bool      // the answer is there: what is still open does not matter
	since   time.Time // when it began to stand still
	over    bool      // it has fired, or its call has ended
}

// start sets the clock going; late is called once, when it has run out.
func (c *clock) start(timeout, most time.Duration, late func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout, c.last = timeout, time.Now().Add(most)
	c.timer = time.AfterFunc(timeout, late)
}

// ask stops the clock for a question, until it has its response.
func (c *clock) ask() { c.change(func() { c.open++ }) }

// answered undoes one ask. The time that the clock stood still counts for nothing.
func (c *clock) answered() { c.change(func() { c.open-- }) }

// settle says that the answer is there, so that no question counts any more.
func (c *clock) settle() { c.change(func() { c.closed = true }) }

// hold stops the clock until nobody is waited for.
func (c *clock) hold() { c.change(func() { c.idle = true }) }

// run undoes hold.
func (c *clock) run() { c.change(func() { c.idle = false }) }

// still reports whether the clock stands still. It is called with mu held.
func (c *clock) still() bool { return c.idle || (c.open > 0 && !c.closed) }

func (c *clock) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.still()
	f()
	switch now := c.still(); {
	case c.over || was == now:
	case now:
		c.since = time.Now()
		c.over = !c.timer.Stop()
	default:
		c.last = c.last.Add(time.Since(c.since))
		c.timer.Reset(min(c.timeout, max(time.Until(c.last), 0)))
	}
}

// alive starts the time without progress anew.
func (c *clock) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.still() && c.timer.Stop() {
		c.timer.Reset(min(c.timeout, max(time.Until(c.last), 0)))
	}
}

// end stops the clock for good.
func (c *clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.timer.Stop()
}
