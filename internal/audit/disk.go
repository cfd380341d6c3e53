package audit

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

var errLocked = errors.New("another process, or a gateway that is being replaced, writes it")

// disk is what the writer needs of a file system. Tests stand in for it.
type disk interface {
	// append opens a file for reading and for writing at its end, with mode 0600
	// when it is new, and locks it. It fails with errLocked while somebody else
	// has it.
	append(name string) (file, error)
	read(name string) (file, error)
	stat(name string) (fs.FileInfo, error)
	rename(from, to string) error
	// siblings lists the names in the folder of a file.
	siblings(name string) ([]string, error)
}

// file is an open file of a disk.
type file interface {
	io.ReaderAt
	io.Writer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

type osDisk struct{}

func (osDisk) append(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		if err = tryLock(f); errors.Is(err, errLocked) {
			err = &fs.PathError{Op: "lock", Path: name, Err: err}
		}
		if err == nil && info.Size() == 0 {
			syncFolder(name)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (osDisk) read(name string) (file, error) { return os.Open(name) }

func (osDisk) stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (osDisk) rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	syncFolder(to)
	return nil
}

func (osDisk) siblings(name string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(name))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// syncFolder makes a new name survive a loss of power, where folders can be synced.
func syncFolder(name string) {
	if d, err := os.Open(filepath.Dir(name)); err == nil {
		_ = d.Sync()
		d.Close()
	}
}
