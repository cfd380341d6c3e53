package audit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

var errTaken = errors.New("the file was removed, replaced or changed by somebody else")

// begins starts a run.
func (c *chain) begins() { c.run, c.seq = rand.Text(), 0 }

// ready makes sure that the next batch goes to the right file at the right place.
func (w *writer) ready() error {
	if w.l.o.Stdout != nil {
		return nil
	}
	if w.f != nil {
		if err := w.settle(); err != nil {
			w.close()
			w.complain("audit: the file is opened anew", err)
		}
	}
	if w.f == nil {
		if err := w.reopen(); err != nil {
			return err
		}
	}
	if ln := w.queue.first; ln != nil && w.held && !w.header && !w.fits(lineLength(ln)) {
		return w.rotate()
	}
	return nil
}

// Probe opens and closes the file, so that a wrong path can be told before
// anything is served. It makes the file when there is none. That another
// process or Log still writes it is no error.
func (l *Log) Probe() error {
	if l == nil || l.o.Stdout != nil {
		return nil
	}
	f, err := l.disk.append(l.o.File)
	if errors.Is(err, errLocked) {
		return nil
	}
	if err == nil {
		defer f.Close()
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Mode().IsRegular() {
			_, err = readTail(f, l.o.File)
		}
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// settle fails when the path does not name the open file any more, when
// somebody else has written to it or cut it, or when it has a part of a line
// that cannot be cut off.
func (w *writer) settle() error {
	at, err := w.l.disk.stat(w.l.o.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, ferr := w.f.Stat()
	if ferr != nil {
		return ferr
	}
	if err != nil || !os.SameFile(at, info) {
		return errTaken
	}
	if !w.regular || info.Size() == w.size {
		w.doubt = false
		return nil
	}
	if !w.doubt {
		return errTaken
	}
	if info.Size() > w.size {
		if err := w.f.Truncate(w.size); err != nil {
			return fmt.Errorf("a part of a line cannot be cut off: %w", err)
		}
	}
	w.doubt = false
	return nil
}

// reopen opens the file and finds out how it goes on: with a new run, or with
// the run that it was left in.
func (w *writer) reopen() error {
	name := w.l.o.File
	f, err := w.l.disk.append(name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	var t tail
	regular := err == nil && info.Mode().IsRegular()
	if regular {
		if t, err = readTail(f, name); err == nil {
			// It may have been renamed while its lock was waited for.
			at, serr := w.l.disk.stat(name)
			if serr != nil || !os.SameFile(at, info) {
				err = errTaken
			}
		}
	}
	if err != nil {
		f.Close()
		return err
	}
	switch {
	case w.chain.run != "" && !(w.doubt && t.size > w.size && t.hash != string(w.chain.previous())):
		// The run goes on, and says what it follows. If that is not there any more,
		// somebody took it, and a verification is to find it missing.
	case t.size == 0 && regular:
		w.chain.begins()
		w.chain.follow(w.beforeFile())
	default: // the first time, or a write that failed has written whole lines all the same
		w.chain.begins()
		w.chain.follow(t.hash)
	}
	w.f, w.out, w.regular, w.opened = f, f, regular, true
	w.size, w.doubt = t.size, false
	w.header, w.torn, w.open, w.held = true, t.torn, t.open, t.size > 0
	return nil
}

// beforeFile is the last hash of the newest rotated file: a crash between the
// two halves of a rotation breaks no chain.
func (w *writer) beforeFile() string {
	name, err := newestRotated(w.l.disk, w.l.o.File)
	if err == nil && name == "" {
		return ""
	}
	var t tail
	if err == nil {
		var f file
		if f, err = w.l.disk.read(name); err == nil {
			t, err = readTail(f, name)
			f.Close()
		}
	}
	if err != nil {
		w.l.warn("audit: the last rotated file cannot be read, so the new one does not follow it", "file", name, "error", err)
	}
	return t.hash
}

// rotate moves the file away and begins the next. Where it cannot be moved, it
// goes on growing, for that is better than to lose events.
func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	to, err := w.rotatedName()
	if err != nil {
		w.rotateAfter = time.Now().Add(time.Minute)
		w.complain("audit: the file cannot be rotated and grows on", err)
		return nil
	}
	w.close() // some systems rename no open file
	if err = w.l.disk.rename(w.l.o.File, to); err != nil {
		w.rotateAfter = time.Now().Add(time.Minute)
		w.complain("audit: the file cannot be rotated and grows on", err)
	} else {
		w.l.rotations.Add(1)
	}
	return w.reopen()
}

// rotatedName is a name that no file has.
func (w *writer) rotatedName() (string, error) {
	stamp := w.l.o.Now().UTC().Format(rotatedLayout)
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.%s-%03d", w.l.o.File, stamp, n)
		_, err := w.l.disk.stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// close closes the file, so that the next batch opens it anew.
func (w *writer) close() {
	if w.f == nil {
		return
	}
	if err := w.f.Close(); err != nil {
		w.complain("audit: closing the file failed", err)
	}
	w.f, w.out, w.regular = nil, nil, false
}
