package peers

import "syscall"

// ownGroup gives a child a process group, so that its children can be ended with it, and ends it when its owner dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
