package direct

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
)

// maxAnswer bounds one line of a child, in bytes.
const maxAnswer = 1 << 20

// Command is how a child is started.
type Command struct {
	Argv []string
	Dir  string   // its working directory
	Env  []string // its whole environment
}

// Child is an upstream that runs as a process. It is safe for concurrent use.
// Close ends it.
type Child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	leave  context.CancelFunc // releases the context
	stderr *tail
	read   chan struct{} // closed behind the last answer

	writing sync.Mutex // held for one line

	mu      sync.Mutex // guards what follows
	last    uint64     // id of the last request
	waiting map[uint64]chan answer
	lost    error // why no more answers come
}

// answer is one JSON-RPC response.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// errEnded is a child from which nothing comes any more.
var errEnded = errors.New("the upstream has ended")

// patience is how long a child has to end behind its input once its context has
// ended, before it is killed.
const patience = 2 * time.Second

// Start starts a child. Its input ends when ctx does.
func Start(ctx context.Context, c Command) (*Child, error) {
	ctx, leave := context.WithCancel(ctx)
	u := &Child{leave: leave, stderr: &tail{}, read: make(chan struct{}), waiting: map[uint64]chan answer{}}
	u.cmd = exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	u.cmd.Dir, u.cmd.Env, u.cmd.Stderr, u.cmd.WaitDelay = c.Dir, c.Env, u.stderr, patience
	in, err := u.cmd.StdinPipe()
	u.cmd.Cancel = func() error {
		_ = in.Close() // it may be closed already
		return nil
	}
	var out io.ReadCloser
	if err == nil {
		out, err = u.cmd.StdoutPipe()
	}
	if err == nil {
		err = u.cmd.Start()
	}
	if err != nil {
		leave()
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	u.in = in
	go u.receive(out)
	return u, nil
}

// PID is the process.
func (u *Child) PID() int { return u.cmd.Process.Pid }

// receive hands out the answers until there are no more. It ends with the
// process.
func (u *Child) receive(out io.Reader) {
	defer close(u.read)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue
		}
		id, err := strconv.ParseUint(string(a.ID), 10, 64)
		if err != nil {
			continue // a notification
		}
		u.mu.Lock()
		to := u.waiting[id]
		delete(u.waiting, id)
		u.mu.Unlock()
		if to != nil {
			to <- a // has room for one
		}
	}
	u.mu.Lock()
	u.lost = errors.Join(errEnded, lines.Err())
	for id, to := range u.waiting {
		delete(u.waiting, id)
		close(to)
	}
	u.mu.Unlock()
	_, _ = io.Copy(io.Discard, out) // behind a line too long; the process must not wait for a reader
}

// alive is nil while answers come.
func (u *Child) alive() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lost
}

// send makes one request and waits for its answer.
func (u *Child) send(ctx context.Context, method string, params json.RawMessage, fence func() error) durable.Reply {
	unsent := func(err error) durable.Reply { return durable.Reply{Fault: err, Unsent: true} }
	if err := ctx.Err(); err != nil {
		return unsent(err)
	}
	u.mu.Lock()
	if u.lost != nil {
		defer u.mu.Unlock()
		return unsent(u.lost)
	}
	u.last++
	id, to := u.last, make(chan answer, 1)
	u.waiting[id] = to
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		delete(u.waiting, id)
		u.mu.Unlock()
	}()
	line, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      uint64          `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}{"2.0", id, method, params})
	if err != nil {
		return unsent(err)
	}
	if left, err := u.write(append(line, '\n'), fence); err != nil {
		return durable.Reply{Fault: err, Unsent: !left}
	}
	select {
	case <-ctx.Done():
		return durable.Reply{Fault: ctx.Err()}
	case a, ok := <-to:
		switch {
		case !ok:
			return durable.Reply{Fault: errEnded}
		case a.Error != nil:
			return durable.Reply{Error: &durable.RemoteError{Code: a.Error.Code, Message: a.Error.Message, Data: a.Error.Data}}
		case a.Result == nil:
			return durable.Reply{Fault: errors.New("the answer is neither result nor error")}
		}
		return durable.Reply{Result: a.Result}
	}
}

// write sends one line; left tells whether some of it may have gone. A child
// that does not read is ended by its context.
func (u *Child) write(line []byte, fence func() error) (left bool, err error) {
	u.writing.Lock()
	defer u.writing.Unlock()
	if fence != nil {
		if err := fence(); err != nil {
			return false, err
		}
	}
	n, err := u.in.Write(line)
	return n > 0, err
}

// Close ends the child's input and waits for it to exit; one that takes longer
// than given is killed. The error tells of an end that was not clean.
func (u *Child) Close(within time.Duration) error {
	_ = u.in.Close()
	slow := time.AfterFunc(within, func() { _ = u.cmd.Process.Kill() })
	<-u.read
	err := u.cmd.Wait()
	if !slow.Stop() {
		err = errors.Join(fmt.Errorf("still there after %s", within), err)
	}
	u.leave()
	if err != nil {
		return fmt.Errorf("the upstream did not end well: %w: %s", err, u.stderr)
	}
	return nil
}

// Kill ends the child at once, and waits for that.
func (u *Child) Kill() {
	_ = u.cmd.Process.Kill()
	<-u.read
	_ = u.cmd.Wait() // that it was killed is no news
	u.leave()
}

// tail keeps the end of what a child logs.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text) - tailSize; n > 0 {
		t.text = append([]byte(nil), t.text[n:]...)
	}
	return len(p), nil
}

// String is what the child logged last.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Environment is the part of this process's environment that a child may see.
func Environment() (env []string) {
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
