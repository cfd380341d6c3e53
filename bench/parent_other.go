//go:build !linux

package main

import "syscall"

// withParent has nothing to ask of this system.
func withParent() *syscall.SysProcAttr { return nil }
