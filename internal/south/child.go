package south

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Command is an upstream that runs as a child process and speaks stdio. It is
// not changed after New.
type Command struct {
	Argv       []string      // program and arguments; no shell looks at them
	Dir        string        // working folder; "": the gateway's own
	Env        []string      // the whole environment, as NAME=VALUE; see ChildEnv
	Backoff    time.Duration // first wait before it is started again
	MaxBackoff time.Duration // longest wait
	// Guard is the argv of a program that calls Guard. One runs beside the child
	// and ends the child's process group when the gateway dies without a chance
	// to. Nil: a child then only sees the end of its input.
	Guard []string
}

// ChildEnv is the environment of a child: PATH, HOME, LANG and TMPDIR as lookup
// gives them, what own holds, and nothing else.
func ChildEnv(lookup func(string) (string, bool), own map[string]string) []string {
	env := []string{}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if v, ok := lookup(name); ok {
			if _, over := own[name]; !over {
				env = append(env, name+"="+v)
			}
		}
	}
	for name, v := range own {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}

const (
	// steady is how long a process must have run for its end to count as the first.
	steady = time.Minute
	// shortPause is how long a call waits for a process that will be started again.
	shortPause = 2 * time.Second
	// grace is how long a child has to end, after the end of its input and again
	// after SIGTERM (checklist 125).
	grace = 2 * time.Second
)

// child keeps one process of a command running: started when first needed,
// again with backoff when it ended, and never two at a time. It is the process
// that all callers share, or that of one key alone; see privates.
type child struct {
	u *Upstream
	c Command
	// caps are the client capabilities that its process is told of, raw JSON; "":
	// none, for it is shared.
	caps     string
	privates *privates // of the shared one only
	// rush ends when there is no more time for a child to end politely.
	rush  context.Context
	hurry context.CancelFunc

	mu       sync.Mutex // guards what follows; never held across I/O
	live     *process   // answers calls; nil: none does
	last     *process   // the youngest, which the next one waits for
	failures int        // ends and failed starts in a row
	next     time.Time  // no start before
	starts   int
	hint     mcp.Era // what the last process spoke; EraUnknown: ask
	closed   bool
}

func newChild(u *Upstream, c Command) *child {
	n := &child{u: u, c: c}
	n.rush, n.hurry = context.WithCancel(context.Background())
	n.privates = &privates{shared: n, byKey: map[SessionKey]*private{}}
	return n
}

func (c *child) current() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

// link returns the way to the running process. It waits for one that is being
// started, and for the pause before a start when that is short.
func (c *child) link(ctx context.Context) (*Link, error) {
	for range 2 {
		if p := c.current(); p != nil {
			return &p.link, nil
		}
		if err := c.pausing(); err != nil {
			return nil, err
		}
		if _, err := c.u.connect(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fault.New(fault.UpstreamUnavailable, "upstream %q ended again", c.u.o.Key).WithHint("nothing ran; try again in a few seconds")
}

// pausing is an error while the pause before the next start is a long one.
func (c *child) pausing() error {
	c.mu.Lock()
	pause := time.Until(c.next)
	c.mu.Unlock()
	if pause <= shortPause {
		return nil
	}
	cause := errors.New("it failed before")
	if f := c.u.lastErr.Load(); f != nil {
		cause = f.err
	}
	return fault.Wrap(cause, fault.UpstreamUnavailable, "upstream %q ended and is started again in %v", c.u.o.Key, pause.Round(time.Second)).
		WithHint("nothing ran; try again then")
}

// start brings a process up to its first handshake. Its caller sees to it that
// it runs once at a time.
func (c *child) start(ctx context.Context) error {
	c.mu.Lock()
	live, wait := c.live, time.Until(c.next)
	c.mu.Unlock()
	if live != nil {
		return nil
	}
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return fault.Wrap(ctx.Err(), fault.UpstreamUnavailable, "upstream %q is being closed", c.u.o.Key)
		}
	}
	p, err := c.handshake(ctx)
	if err != nil {
		c.mu.Lock()
		c.failures++
		c.pause()
		c.mu.Unlock()
		return c.u.fail(err)
	}
	return c.adopt(p)
}

// pause sets when the next start may be. c.mu is held.
func (c *child) pause() {
	wait := c.c.Backoff
	for n := 1; n < c.failures && wait < c.c.MaxBackoff; n++ {
		wait *= 2
	}
	c.next = time.Now().Add(min(wait, c.c.MaxBackoff))
}

// adopt makes a process the one that answers calls.
func (c *child) adopt(p *process) error {
	c.mu.Lock()
	if lost := p.lostErr(); lost != nil {
		c.failures++
		c.pause()
		c.mu.Unlock()
		return c.u.fail(fault.Wrap(lost, fault.UpstreamUnavailable, "upstream %q ended right after its handshake", c.u.o.Key).WithHint("nothing ran; try again"))
	}
	c.live = p
	c.hint = p.init.Era
	c.starts++
	again := c.starts > 1
	c.mu.Unlock()
	if c.caps != "" {
		return nil // what the upstream is, the shared process tells
	}
	old := c.u.info.Load()
	i := p.init
	c.u.found(&i)
	if again {
		c.u.o.Log.Info("upstream started again", "upstream", c.u.o.Key, "pid", p.pid())
		// What it offers may have changed behind the same capabilities.
		if old != nil && old.Era == i.Era && string(old.Capabilities) == string(i.Capabilities) {
			c.u.changed()
		}
	}
	return nil
}

// ended is told, once for each process, that it answers no more.
func (c *child) ended(p *process, why error) {
	c.mu.Lock()
	wasLive := c.live == p
	if wasLive {
		c.live = nil
		if time.Since(p.started) >= steady {
			c.failures = 0
		}
		c.failures++
		c.pause()
	}
	closed := c.closed
	c.mu.Unlock()
	if wasLive && !closed && c.caps != "" {
		// The upstream is no worse for it, and nobody needs another before a call does.
		c.u.o.Log.Warn("upstream's process for one client ended", "upstream", c.u.o.Key, "pid", p.pid(), "error", why)
		return
	}
	if wasLive && !closed {
		c.u.o.Log.Warn("upstream ended", "upstream", c.u.o.Key, "pid", p.pid(), "error", why)
		_ = c.u.fail(fault.Wrap(why, fault.ConnectionLost, "the process of upstream %q ended", c.u.o.Key))
		c.u.wake()
	}
}

// spawn starts a process once the one before is gone.
func (c *child) spawn(ctx context.Context) (*process, error) {
	c.mu.Lock()
	last, closed := c.last, c.closed
	c.mu.Unlock()
	if closed {
		return nil, fault.New(fault.UpstreamUnavailable, "upstream %q is being closed", c.u.o.Key)
	}
	if last != nil {
		select {
		case <-last.done:
		case <-ctx.Done():
			return nil, fault.Wrap(ctx.Err(), fault.UpstreamUnavailable, "upstream %q is being closed", c.u.o.Key)
		}
	}
	p, err := newProcess(c)
	if err != nil {
		return nil, fault.Wrap(err, fault.UpstreamUnavailable, "the command of upstream %q cannot be started", c.u.o.Key).
			WithHint("nothing ran; the operator must check the command, its folder and PATH")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = p
	if c.closed {
		p.abandon(os.ErrClosed)
		return nil, fault.New(fault.UpstreamUnavailable, "upstream %q is being closed", c.u.o.Key)
	}
	return p, nil
}

// check asks a running process whether it still answers, and ends one that does
// not, so that it is started again.
func (c *child) check(ctx context.Context) error {
	p := c.current()
	if p == nil {
		return fmt.Errorf("upstream %q is not running", c.u.o.Key)
	}
	if err := p.ping(ctx); err != nil {
		if ctx.Err() == nil {
			p.abandon(fmt.Errorf("it does not answer any more: %w", err))
		}
		return err
	}
	c.u.breaker.reset()
	return nil
}

// forget ends the running process, whose era is not what it announced.
func (c *child) forget() {
	c.mu.Lock()
	p := c.live
	c.hint = mcp.EraUnknown
	c.mu.Unlock()
	if p != nil {
		p.abandon(errors.New("it refuses the version that it announced"))
	}
}

// close ends the process for good, and the private ones: politely while ctx
// allows.
func (c *child) close(ctx context.Context) {
	stop := context.AfterFunc(ctx, c.hurry)
	defer stop()
	all := append(c.privates.shut(), c)
	for _, each := range all {
		each.end()
	}
	for _, each := range all {
		if last := each.youngest(); last != nil {
			<-last.done
		}
	}
}

// end ends the process for good. It does not wait.
func (c *child) end() {
	c.mu.Lock()
	c.closed = true
	last := c.last
	c.mu.Unlock()
	if last != nil {
		last.abandon(os.ErrClosed)
	}
}

func (c *child) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *child) youngest() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// gone reports whether nothing is left of the processes so far.
func (c *child) gone() bool {
	last := c.youngest()
	if last == nil {
		return true
	}
	select {
	case <-last.done:
		return true
	default:
		return false
	}
}

// describe tells the operator how the child stands.
func (c *child) describe(s *State) {
	s.Sessions += c.privates.running()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Starts = c.starts
	if c.live != nil {
		s.PID = c.live.pid()
	}
}
