//go:build unix && !linux

package peers

import "syscall"

// ownGroup gives a child a process group, so that its children can be ended with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
