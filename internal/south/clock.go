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
	held    int       // reasons to stand still
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

// hold stops the clock until as many calls of run.
func (c *clock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held++; c.held == 1 {
		c.since = time.Now()
		if !c.timer.Stop() {
			c.over = true
		}
	}
}

// run undoes one hold. The time that the clock stood still counts for nothing.
func (c *clock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held--; c.held > 0 || c.over {
		return
	}
	c.last = c.last.Add(time.Since(c.since))
	c.timer.Reset(min(c.timeout, max(time.Until(c.last), 0)))
}

// alive starts the time without progress anew.
func (c *clock) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == 0 && c.timer.Stop() {
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
