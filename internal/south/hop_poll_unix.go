//go:build unix

package south

import (
	"errors"
	"io"
	"syscall"
)

const canAttempt = true

// attempt is one read on the descriptor, which the runtime has set not to
// block. A byte that it takes from an idle connection is no loss: nobody asked
// for it, and the connection is closed.
func (q *poller) attempt(fd uintptr) bool {
	for {
		q.n, q.err = syscall.Read(int(fd), q.p)
		if !errors.Is(q.err, syscall.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(q.err, syscall.EAGAIN):
		q.n, q.err = 0, errNotReady
	case q.err != nil:
		q.n = 0
	case q.n == 0:
		q.err = io.EOF
	}
	return true
}
