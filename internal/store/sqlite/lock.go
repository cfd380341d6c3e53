package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/penstock-mcp/penstock/internal/store"
)

// fileLock is an advisory lock on a file beside the database. The system
// releases it when the process ends, however it ends; the file stays, for
// removing it could take the lock of another from under it.
type fileLock struct{ f *os.File }

// lockFile takes the lock, or returns store.ErrInUse with the process that
// holds it.
func lockFile(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		holder := readHolder(f)
		_ = f.Close() // nothing was written to it
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("%w: %s holds %s; end it, or give this one another file", store.ErrInUse, holder, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l := &fileLock{f: f}
	// The process id is for the message to others alone.
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func readHolder(f *os.File) string {
	raw, err := io.ReadAll(io.LimitReader(f, 32))
	pid, notNumber := strconv.Atoi(strings.TrimSpace(string(raw)))
	switch {
	case err != nil || notNumber != nil:
		return "another process"
	case pid == os.Getpid():
		return "this very process (" + strconv.Itoa(pid) + ")"
	}
	return "process " + strconv.Itoa(pid)
}

func (l *fileLock) close() error { return l.f.Close() }

// errLocked: another holds the lock.
var errLocked = errors.New("locked")
