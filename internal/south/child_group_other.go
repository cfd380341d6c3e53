//go:build !unix

package south

import (
	"os"
	"syscall"
)

// There are no process groups here: only the child itself is ended.

func inGroup(int) *syscall.SysProcAttr { return nil }

func terminateGroup(int) {}

func killGroup(leader int) {
	if p, err := os.FindProcess(leader); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

func killOwnGroup() { os.Exit(1) }
