//go:build unix

package south

import (
	"syscall"
)

// inGroup puts a process into the group of a leader, or makes it the leader of
// a group of its own when leader is 0.
func inGroup(leader int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: leader}
}

// terminateGroup and killGroup signal a whole group. That nobody of it is left
// is not an error.
func terminateGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGTERM) }

func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }

// killOwnGroup ends the calling process and its group.
func killOwnGroup() { _ = syscall.Kill(0, syscall.SIGKILL) }
