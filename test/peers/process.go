package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// readyWithin bounds the time a peer has to accept connections; interpreters on a busy machine are slow to start.
	readyWithin = 60 * time.Second
	// stopWithin bounds a polite stop, after which the process group is killed.
	stopWithin = 15 * time.Second
	// life bounds a peer's life, whatever happens to its owner.
	life = 20 * time.Minute
	// outputKept bounds what is remembered of a peer's output for a failure's message.
	outputKept = 256 << 10
)

// Process is a child process in a process group of its own. Its owner ends it with Stop or Kill; at the latest it ends
// after 20 minutes, and on Linux with the process that started it.
type Process struct {
	cmd    *exec.Cmd
	output *tail
	done   chan struct{} // closed when the process has ended and err is set
	err    error
	cancel context.CancelFunc
}

// launch starts argv in dir, with env added to the environment.
func launch(dir string, env, argv []string) (*Process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), life)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	p := &Process{cmd: cmd, output: &tail{}, done: make(chan struct{}), cancel: cancel}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = p.killGroup
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		p.err = cmd.Wait()
		cancel()
		close(p.done)
	}()
	return p, nil
}

// Output returns the last 256 KiB of what the process wrote to stdout and stderr.
func (p *Process) Output() string { return p.output.String() }

// Stop asks the process to end with SIGTERM and waits for it. It returns an error when the process did not end in time,
// and was killed, or did not end with status 0.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopWithin):
		p.Kill()
		return fmt.Errorf("did not end within %v of SIGTERM", stopWithin)
	}
}

// Kill ends the process and its children at once and waits for it.
func (p *Process) Kill() {
	p.cancel()
	<-p.done
	_ = p.killGroup() // children that outlived their parent
}

func (p *Process) killGroup() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// tail remembers the end of what is written to it.
type tail struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - outputKept; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
