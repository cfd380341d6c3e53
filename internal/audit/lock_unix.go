//go:build unix

package audit

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file until it is closed. A file system that has no locks
// leaves it to the operator that nobody else writes the file.
func tryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return errLocked
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
		return nil
	}
	return err
}
