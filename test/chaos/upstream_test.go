//go:build linux

package chaos_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// upstream is a server in a process of its own, at one address for good.
type upstream struct {
	t             testing.TB
	name, address string
	legacy        bool
	cmd           *exec.Cmd
	in            io.Closer // its end ends the process
}

// newUpstream starts an upstream, which ends with the test.
func newUpstream(t testing.TB, name string, legacy bool) *upstream {
	t.Helper()
	u := &upstream{t: t, name: name, legacy: legacy, address: freeAddress(t)}
	u.start()
	t.Cleanup(u.kill)
	return u
}

func (u *upstream) url() string { return "http://" + u.address + "/mcp" }

func (u *upstream) start() {
	u.t.Helper()
	self, err := os.Executable()
	if err != nil {
		u.t.Fatal(err)
	}
	era := "modern"
	if u.legacy {
		era = "legacy"
	}
	u.cmd = exec.Command(self)
	u.cmd.Env = append(os.Environ(), roleEnv+"=upstream", "PENSTOCK_CHAOS_NAME="+u.name, "PENSTOCK_CHAOS_ERA="+era, "PENSTOCK_CHAOS_LISTEN="+u.address)
	u.cmd.Stderr = os.Stderr
	u.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if u.in, err = u.cmd.StdinPipe(); err != nil {
		u.t.Fatal(err)
	}
	out, err := u.cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	if err := u.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = u.cmd.Process.Kill()
		_ = u.cmd.Wait()
		u.t.Fatalf("upstream %s said %q: %v", u.name, line, err)
	}
}

// kill ends the process at once; what it knew is lost.
func (u *upstream) kill() {
	_ = syscall.Kill(-u.cmd.Process.Pid, syscall.SIGKILL)
	_ = u.in.Close()
	_ = u.cmd.Wait()
}

// freeze stops the process where it is, and thaw lets it go on.
func (u *upstream) freeze() { _ = u.cmd.Process.Signal(syscall.SIGSTOP) }
func (u *upstream) thaw()   { _ = u.cmd.Process.Signal(syscall.SIGCONT) }

// stats is what the upstream counted so far.
func (u *upstream) stats() tally {
	u.t.Helper()
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + u.address + "/stats")
	if err != nil {
		u.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	var s tally
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		u.t.Fatal(err)
	}
	return s
}
