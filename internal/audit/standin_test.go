package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"sync"
	"syscall"
)

var errIO = &fs.PathError{Op: "write", Path: "f", Err: syscall.EIO}

// shaky is a disk that fails as it is told.
type shaky struct {
	osDisk
	mu sync.Mutex // guards the rest

	room     int64 // bytes that can still be written; -1: no bound
	writing  error // of a write that does not fit; nil: ENOSPC
	opening  error
	cutting  error
	syncing  error
	renaming error
	lying    bool          // a write is done and fails
	blocked  chan struct{} // a write waits until it is closed; nil: it does not
	writes   int
	syncs    int
}

func newShaky() *shaky { return &shaky{room: -1} }

func (d *shaky) set(f func(d *shaky)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

func (d *shaky) append(name string) (file, error) {
	d.mu.Lock()
	err := d.opening
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f, err := d.osDisk.append(name)
	if err != nil {
		return nil, err
	}
	return &shakyFile{f, d}, nil
}

func (d *shaky) rename(from, to string) error {
	d.mu.Lock()
	err := d.renaming
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return d.osDisk.rename(from, to)
}

type shakyFile struct {
	file
	d *shaky
}

func (f *shakyFile) Write(b []byte) (int, error) {
	f.d.mu.Lock()
	blocked := f.d.blocked
	f.d.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.writes++
	if f.d.lying {
		_, _ = f.file.Write(b)
		return 0, errIO
	}
	if f.d.room < 0 || int64(len(b)) <= f.d.room {
		n, err := f.file.Write(b)
		if f.d.room >= 0 {
			f.d.room -= int64(n)
		}
		return n, err
	}
	n, _ := f.file.Write(b[:f.d.room])
	f.d.room -= int64(n)
	if f.d.writing != nil {
		return n, f.d.writing
	}
	return n, &fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}
}

// Truncate gives the room back, as a disk does.
func (f *shakyFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.cutting != nil {
		return f.d.cutting
	}
	info, err := f.Stat()
	if err == nil && f.d.room >= 0 {
		f.d.room += info.Size() - size
	}
	return errors.Join(err, f.file.Truncate(size))
}

func (f *shakyFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	if f.d.syncing != nil {
		return f.d.syncing
	}
	return f.file.Sync()
}

// pipe is a standard output.
type pipe struct {
	mu   sync.Mutex // guards the rest
	text bytes.Buffer
	room int // -1: no bound
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room >= 0 && len(b) > p.room {
		n := p.room
		p.text.Write(b[:n])
		p.room = 0
		return n, syscall.EAGAIN
	}
	return p.text.Write(b)
}

func (p *pipe) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}
