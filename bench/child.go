package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"
)

const (
	readyWithin = 30 * time.Second
	stopWithin  = 15 * time.Second
	outputKept  = 64 << 10
)

// listening is the line that Penstock and the roles of this program print.
var listening = regexp.MustCompile(`(?m)^\w+: listening on (http://[^/\s]+)\S*$`)

// child is a process that was started here. Its owner ends it with stop.
type child struct {
	name   string
	base   string // scheme, host and port
	cmd    *exec.Cmd
	output *announcement
	done   chan struct{} // closed when the process has ended and err is set
	err    error
}

// start runs argv and waits for the line that says where it listens. The
// process ends with ctx at the latest.
func start(ctx context.Context, name string, argv ...string) (*child, error) {
	c := &child{
		name: name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...),
		output: &announcement{found: make(chan string, 1)}, done: make(chan struct{}),
	}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.SysProcAttr = withParent()
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = stopWithin
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	select {
	case c.base = <-c.output.found:
		return c, nil
	case <-c.done:
		return nil, fmt.Errorf("%s ended before it listened: %v\n%s", name, c.cmd.ProcessState, c.output)
	case <-late.C:
		return nil, errors.Join(fmt.Errorf("%s does not listen after %v\n%s", name, readyWithin, c.output), c.stop())
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// ended reports whether the process has ended by itself.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// stop asks the process to end, kills it when it does not, and waits for it.
func (c *child) stop() error {
	if c.ended() {
		return fmt.Errorf("%s ended by itself: %v\n%s", c.name, c.cmd.ProcessState, c.output)
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.NewTimer(stopWithin)
	defer late.Stop()
	select {
	case <-c.done:
		if c.err != nil {
			return fmt.Errorf("%s did not end cleanly: %w\n%s", c.name, c.err, c.output)
		}
		return nil
	case <-late.C:
		err := c.cmd.Process.Kill()
		<-c.done
		return errors.Join(fmt.Errorf("%s did not end within %v", c.name, stopWithin), err)
	}
}

// announcement keeps the end of what a process prints and finds the line that
// says where it listens.
type announcement struct {
	mu    sync.Mutex // guards buf and told
	buf   bytes.Buffer
	told  bool
	found chan string // receives one value
}

func (a *announcement) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.buf.Write(b)
	if !a.told {
		// Only whole lines: a write may end within an address.
		whole := a.buf.Bytes()[:bytes.LastIndexByte(a.buf.Bytes(), '\n')+1]
		if m := listening.FindSubmatch(whole); m != nil {
			a.told = true
			a.found <- string(m[1])
		}
	}
	if over := a.buf.Len() - outputKept; over > 0 {
		a.buf.Next(over)
	}
	return len(b), nil
}

func (a *announcement) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.String()
}
