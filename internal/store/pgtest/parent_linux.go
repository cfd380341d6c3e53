package pgtest

import "syscall"

// dieWithParent ends the server also when the test process is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGINT }
