//go:build linux

package chaos_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// peer is the path of the Go SDK's own everything-server, or "" where it was not
// built. With CI=true it must be there.
func peer(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../build/peers/go-everything")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		return ""
	}
	return path
}

// servePeer starts the everything-server with sessions over HTTP and returns its
// address. It ends with the test.
func servePeer(t testing.TB, path string) string {
	t.Helper()
	address := freeAddress(t)
	cmd := exec.Command(path, "-http="+address, "-stateless=false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, "the everything-server listens", 20*time.Second, func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return address
}
