package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a changed file must lie still before it is looked at, and how
// long after that it must still be the same: editors, copies and mounts write it in
// several steps, of which the first often leaves it empty.
const settle = 100 * time.Millisecond

// watched is a file that is followed through all ways of changing it: written in
// place, replaced by another, or reached by a link that is turned. It belongs to one
// goroutine.
type watched struct {
	path   string
	events chan fsnotify.Event // nil: it is not watched
	errs   chan error
	still  *time.Timer // when it is looked at
	due    bool        // still runs
	w      *fsnotify.Watcher

	last []byte // digest of what was taken last
	next []byte // digest of what lay there at the last look, if it may be the next
}

// watch follows a file, "" for none. It can be used, and closed, also after an error.
func watch(path string) (*watched, error) {
	f := &watched{path: path, still: time.NewTimer(time.Hour)}
	f.still.Stop()
	if path == "" {
		return f, nil
	}
	f.last = f.digest()
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return f, fmt.Errorf("watch files: %w", err)
	}
	// The folder is watched, for a file that is replaced is another file.
	if err := w.Add(filepath.Dir(path)); err != nil {
		_ = w.Close()
		return f, fmt.Errorf("watch %s: %w", filepath.Dir(path), err)
	}
	f.w, f.events, f.errs = w, w.Events, w.Errors
	return f, nil
}

func (f *watched) close() {
	f.still.Stop()
	if f.w != nil {
		_ = f.w.Close()
	}
}

// happened takes an event of the folder. What is written to other files there, such as
// the gateway's own database, is nothing; another name that comes or goes may be a link
// on the way to the file, and must not put off the look at it.
func (f *watched) happened(e fsnotify.Event) {
	switch {
	case filepath.Base(e.Name) == filepath.Base(f.path):
		f.next = nil
		f.lookLater()
	case e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename):
		f.lookSoon()
	}
}

func (f *watched) lookSoon() {
	if !f.due {
		f.lookLater()
	}
}

func (f *watched) lookLater() {
	f.still.Reset(settle)
	f.due = true
}

// changed is the look: it reports whether the file has come to hold something else,
// and has held it at the look before, too. A file that is away is being replaced.
func (f *watched) changed() bool {
	f.due = false
	d := f.digest()
	switch {
	case d == nil || bytes.Equal(d, f.last):
		f.next = nil
	case bytes.Equal(d, f.next):
		f.taken(d)
		return true
	default:
		f.next = d
		f.lookLater()
	}
	return false
}

// taken notes what is being taken over.
func (f *watched) taken(digest []byte) { f.last, f.next = digest, nil }

// holds reports whether the file is still what was noted as taken. If not, it is
// looked at again.
func (f *watched) holds() bool {
	if bytes.Equal(f.digest(), f.last) {
		return true
	}
	f.taken(nil)
	f.lookLater()
	return false
}

func (f *watched) digest() []byte {
	b, err := os.ReadFile(f.path)
	if err != nil {
		return nil
	}
	d := sha256.Sum256(b)
	return d[:]
}

// empty reports whether a file is there and holds nothing.
func empty(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Size() == 0
}
