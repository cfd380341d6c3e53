//go:build unix && !linux

package pgtest

import "syscall"

// dieWithParent can do nothing here: a killed test process leaves its server.
func dieWithParent(*syscall.SysProcAttr) {}
