package south

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

var (
	errProcessEnded = errors.New("the process ended")
	errNotReading   = errors.New("the process does not read its input")
	errOutputClosed = errors.New("the process closed its output")
	errSlowCaller   = errors.New("the caller did not take what arrived for it")
)

const (
	// writePatience is how long a child may read nothing while a message waits.
	writePatience = 30 * time.Second
	// writeTick is how often a writer looks whether its caller is still there.
	writeTick = 250 * time.Millisecond
	// strayPatience is how long the pipes of an ended child may be held open by
	// a process that left its group.
	strayPatience = 500 * time.Millisecond
	// keptLine is the room for outgoing lines that an idle process keeps.
	keptLine = 256 << 10
)

// process is one run of a command. Its goroutines end when it does: one reads
// its messages, one its log, one answers its requests, one waits for its end,
// and one sees to that end.
type process struct {
	child   *child
	u       *Upstream
	cmd     *exec.Cmd
	guard   *guard // nil: the child leads its own group
	started time.Time
	link    Link
	init    Info          // written before the process is adopted
	era     atomic.Uint32 // of init, for the reader

	stdin          *os.File
	stdout, stderr *os.File
	writing        chan struct{} // holds a token while a line is written
	line           []byte        // the line being written; owned by the token's holder
	replies        chan []byte   // answers to the child's own requests
	noise          *noise        // what it says that is no message
	resources      *subscriptions

	// mu guards what follows; never held across I/O.
	mu      sync.Mutex
	waiting map[string]*waiting // requests without an answer, by raw id
	lost    error               // why nothing more will come; nil: it may

	// What follows is a private process's only.
	calling atomic.Pointer[calling] // the call in flight, which is asked; nil: none
	settled chan struct{}           // closed when the call given up last is over; owned by the turn's holder

	level  chan struct{} // holds a token while the log level is set
	levels int           // rank of the level set, plus one; owned by the token's holder

	halt   chan struct{} // closed when the process is to end
	halted sync.Once
	eof    chan struct{} // closed when its output ended
	logged chan struct{} // closed when its log ended
	exited chan struct{} // closed when it was reaped
	done   chan struct{} // closed when nothing of it is left
}

// newProcess starts the command in a process group of its own.
func newProcess(c *child) (_ *process, err error) {
	p := &process{
		child: c, u: c.u, started: time.Now(),
		writing: make(chan struct{}, 1), replies: make(chan []byte, 16), level: make(chan struct{}, 1),
		waiting: map[string]*waiting{}, noise: newNoise(c.u), resources: newSubscriptions(),
		halt: make(chan struct{}), eof: make(chan struct{}), logged: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{}),
	}
	p.link = Link{Upstream: c.u, process: p}
	var theirs []*os.File // the child's ends of the pipes
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			p.closeFiles()
			if p.guard != nil {
				p.guard.release()
			}
		}
	}()
	p.cmd = exec.Command(c.c.Argv[0], c.c.Argv[1:]...) //nolint:noctx // supervise ends it
	p.cmd.Dir, p.cmd.Env = c.c.Dir, c.c.Env
	in, out, log, err := p.pipes()
	theirs = append(theirs, in, out, log)
	if err != nil {
		return nil, err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, log
	leader := 0
	if c.c.Guard != nil {
		if p.guard, err = startGuard(c.c.Guard); err != nil {
			return nil, err
		}
		leader = p.guard.cmd.Process.Pid
	}
	p.cmd.SysProcAttr = inGroup(leader)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	c.u.work.Go(p.read)
	c.u.work.Go(p.readLog)
	c.u.work.Go(p.reply)
	c.u.work.Go(func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the state is read from cmd
	})
	c.u.work.Go(p.supervise)
	return p, nil
}

// pipes makes the three pipes, keeps the gateway's ends and returns the child's.
func (p *process) pipes() (in, out, log *os.File, err error) {
	if in, p.stdin, err = os.Pipe(); err != nil {
		return nil, nil, nil, err
	}
	if p.stdout, out, err = os.Pipe(); err != nil {
		return in, nil, nil, err
	}
	if p.stderr, log, err = os.Pipe(); err != nil {
		return in, out, nil, err
	}
	return in, out, log, nil
}

func (p *process) closeFiles() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		_ = f.Close() // nil and closed files only say so
	}
}

// spoken is the era that the child has shown so far.
func (p *process) spoken() mcp.Era { return mcp.Era(p.era.Load()) }

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) leader() int {
	if p.guard != nil {
		return p.guard.cmd.Process.Pid
	}
	return p.cmd.Process.Pid
}

// abandon fails what waits for the process and has it ended. It does not wait.
func (p *process) abandon(why error) {
	p.lose(why)
	p.halted.Do(func() { close(p.halt) })
}

// supervise sees the process through to its end, whoever wanted that end, and
// leaves nothing of its group behind (checklist 125).
func (p *process) supervise() {
	defer close(p.done)
	select {
	case <-p.exited:
	case <-p.eof:
		p.lose(errOutputClosed)
	case <-p.halt:
	}
	_ = p.stdin.Close()
	if !p.ends() {
		terminateGroup(p.leader())
		p.ends()
	}
	killGroup(p.leader())
	<-p.exited
	late := time.Now().Add(strayPatience)
	_ = p.stdout.SetReadDeadline(late)
	_ = p.stderr.SetReadDeadline(late)
	<-p.eof
	<-p.logged
	p.lose(p.exit())
	p.closeFiles()
	if p.guard != nil {
		p.guard.release()
	}
}

// ends waits for the process to end by itself, for a while.
func (p *process) ends() bool {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
	case <-p.child.rush.Done():
	}
	return false
}

// exit tells how the process ended.
func (p *process) exit() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%w: %s", errProcessEnded, p.cmd.ProcessState)
	default:
		return errProcessEnded
	}
}

// lose fails everything that waits. Only the first reason counts.
func (p *process) lose(why error) {
	p.mu.Lock()
	if p.lost != nil {
		p.mu.Unlock()
		return
	}
	p.lost = why
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, w := range waiting {
		w.fail(why)
	}
	p.child.ended(p, why)
}

func (p *process) lostErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// write sends one message as a line (checklist 125). It takes turns with others
// and returns when the caller's context ends, unless a part of the message has
// left by then; a child that reads nothing for too long in the middle of a
// message is ended, for nothing could follow it. sent is false when the child
// cannot have seen the message.
func (p *process) write(ctx context.Context, body []byte) (sent bool, err error) {
	return p.writeBehind(ctx, body, nil)
}

// writeBehind is write for a message that a fence may hold back; nil: there is none.
func (p *process) writeBehind(ctx context.Context, body []byte, fence func() error) (sent bool, err error) {
	select {
	case p.writing <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-p.exited:
		return false, errProcessEnded
	}
	defer func() { <-p.writing }()
	safe, err := wire.LineSafe(nil, body)
	if err != nil {
		return false, err
	}
	p.line = append(append(p.line[:0], safe...), '\n')
	defer func() {
		if cap(p.line) > keptLine {
			p.line = nil
		}
	}()
	if err := passFence(fence); err != nil {
		return false, err
	}
	return p.push(ctx, p.line)
}

func (p *process) push(ctx context.Context, line []byte) (sent bool, err error) {
	moved := time.Now()
	for n := 0; ; {
		now := time.Now()
		if err := p.stdin.SetWriteDeadline(now.Add(writeTick)); err != nil {
			return false, err
		}
		m, err := p.stdin.Write(line[n:min(len(line), n+window)])
		if n += m; n == len(line) {
			return true, nil
		}
		if m > 0 {
			moved = time.Now()
		}
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			p.abandon(fmt.Errorf("%w: %w", errNotReading, err))
			return false, err
		case n == 0 && ctx.Err() != nil:
			return false, ctx.Err()
		case time.Since(moved) > writePatience:
			if n > 0 {
				p.abandon(errNotReading)
			}
			return false, errNotReading
		}
	}
}

// reply sends the answers to the child's own requests, so that the reader never
// waits for a child that does not read.
func (p *process) reply() {
	for {
		var body []byte
		select {
		case body = <-p.replies:
		case <-p.exited:
			return
		}
		ctx, cancel := context.WithTimeout(p.u.ctx, 5*time.Second)
		if _, err := p.write(ctx, body); err != nil {
			p.u.o.Log.Debug("answer to an upstream's request not delivered", "upstream", p.u.o.Key, "error", err)
		}
		cancel()
	}
}

// readLog passes the child's stderr on to the log. It is no sign of an error
// (checklist 125).
func (p *process) readLog() {
	defer close(p.logged)
	r := bufio.NewReaderSize(p.stderr, maxLogLine)
	for {
		line, prefix, err := r.ReadLine()
		if err != nil {
			return
		}
		p.noise.log("upstream stderr", line)
		for prefix && err == nil {
			_, prefix, err = r.ReadLine()
		}
	}
}
