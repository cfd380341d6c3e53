package catalog

import (
	"context"
	"errors"
	"time"
)

// backoff is the wait after so many failures in a row.
func backoff(failures int) time.Duration {
	wait := retryFirst
	for i := 1; i < failures && wait < retryMost; i++ {
		wait *= 2
	}
	return min(wait, retryMost)
}

func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// retryLocked makes sure that a failing feed is retried behind.
func (s *Server) retryLocked(fd *feed) {
	if !fd.retrying && !fd.gone {
		fd.retrying = s.spawn(func() { s.retry(fd) })
	}
}

// retry asks for a failing list again and again, until it comes, until nobody
// has asked for it for a minute, or until the Server closes.
func (s *Server) retry(fd *feed) {
	for {
		fd.mu.Lock()
		now := s.o.Now()
		if fd.failures == 0 || fd.gone || now.Sub(fd.asked) > retryAsked {
			fd.retrying = false
			fd.mu.Unlock()
			return
		}
		wait := fd.tried.Add(backoff(fd.failures)).Sub(now)
		var fl *flight
		if wait <= 0 {
			if fl = fd.flight; fl == nil {
				fl = s.flyLocked(fd, fd.askedBy, now)
			}
		}
		fd.mu.Unlock()

		if fl != nil {
			<-fl.done // a walk ends with its deadline
			wait = 0
		}
		if !sleep(s.ctx, wait) {
			fd.mu.Lock()
			fd.retrying = false
			fd.mu.Unlock()
			return
		}
	}
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
