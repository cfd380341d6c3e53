package south

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Guard is the whole work of a guard process: it waits for the end of in, which
// is the gateway's end, and then ends its own process group, the child's. It
// does not return.
//
// The guard leads the group before the child is in it, so there is no moment at
// which a child could be left behind; and while it lives the group's number
// belongs to nobody else.
func Guard(in io.Reader) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	_, _ = io.Copy(io.Discard, in) // an error is an end, too
	killOwnGroup()
	os.Exit(0)
}

// guard is the guard process of one child.
type guard struct {
	cmd *exec.Cmd
	in  *os.File // its end tells the guard that the gateway is gone
}

func startGuard(argv []string) (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // release ends it
	cmd.Stdin = r
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.Dir = "/"
	cmd.SysProcAttr = inGroup(0)
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &guard{cmd: cmd, in: w}, nil
}

// release ends the guard and whatever is left of its group, and reaps it.
func (g *guard) release() {
	killGroup(g.cmd.Process.Pid)
	_ = g.in.Close()
	_ = g.cmd.Wait() // it was killed
}
