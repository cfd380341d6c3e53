package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settle     = 100 * time.Millisecond // how long a changed file must lie still: editors write in steps
	unsettled  = 2 * time.Second        // read at the latest, however busy its folder is
	glance     = 15 * time.Second       // for what no event tells of: links, network file systems
	maxRevoked = 64 << 20               // bytes of the file
)

// revocations is the set of the file of revoked credentials. Requests look at it
// behind an atomic pointer; one goroutine, watch, reads the file anew. A file that
// disappears keeps the last set: to forget it would let in whom it keeps out. For the
// same reason entries that are gone from it count until it has been read like that
// twice: it may be just being written.
type revocations struct {
	file string // "": none
	log  *slog.Logger

	set  atomic.Pointer[map[string]struct{}] // nil: not read yet
	mu   sync.Mutex                          // guards what follows, and that one at a time reads
	seen digest                              // of the file's bytes; zero: they lacked entries at the last reading
	less digest                              // of those bytes then
	sure map[string]struct{}                 // the entries at the last reading that lacked none, or was the second
	last map[string]struct{}                 // those at the last reading; with sure, what set is made of
}

func newRevocations(file string, log *slog.Logger) *revocations {
	r := &revocations{file: file, log: log}
	if file == "" {
		r.set.Store(&map[string]struct{}{})
	}
	return r
}

// open reads the file unless it was read.
func (r *revocations) open() error {
	if r.set.Load() != nil {
		return nil
	}
	_, err := r.read()
	return err
}

// hold tells whether the principal's credential or subject is revoked. The set
// must have been read.
func (r *revocations) hold(p *Principal) bool {
	set := *r.set.Load()
	if len(set) == 0 {
		return false
	}
	if _, is := set[p.Credential]; is && p.Credential != "" {
		return true
	}
	_, is := set[p.Subject]
	return is
}

// read takes the file over if it differs from the last reading. It reports whether
// it has to be read again, for entries are gone that count until then. What counts is
// at most what three readings held, however long the file is rewritten.
func (r *revocations) read() (again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, err := readBounded(r.file)
	if err != nil {
		return false, fmt.Errorf("revoked credentials: %w", err)
	}
	old := r.set.Load()
	sum := sha256.Sum256(raw)
	if old != nil && sum == r.seen {
		return false, nil
	}
	set := parseRevoked(raw)
	if old != nil && sum != r.less && lacks(set, *old) {
		all := maps.Clone(set)
		maps.Copy(all, r.sure)
		maps.Copy(all, r.last)
		r.set.Store(&all)
		r.seen, r.less, r.last = digest{}, sum, set
		return true, nil
	}
	r.seen, r.less, r.sure, r.last = sum, digest{}, set, nil
	r.set.Store(&set)
	r.log.Info("revoked credentials were read", "file", r.file, "entries", len(set))
	return false, nil
}

// lacks reports whether a set has not all entries of another.
func lacks(set, other map[string]struct{}) bool {
	for entry := range other {
		if _, is := set[entry]; !is {
			return true
		}
	}
	return false
}

func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxRevoked+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(raw) > maxRevoked {
		return nil, fmt.Errorf("%s has more than %d bytes", file, maxRevoked)
	}
	return raw, nil
}

// parseRevoked reads one entry a line. Blank lines and those that begin with #
// say nothing.
func parseRevoked(raw []byte) map[string]struct{} {
	set := map[string]struct{}{}
	for line := range bytes.Lines(bytes.TrimPrefix(raw, []byte("\ufeff"))) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			set[string(line)] = struct{}{}
		}
	}
	return set
}

// watch reads the file whenever it may have changed, until ctx ends. It watches
// the folder, for a file that is replaced is another file.
func (r *revocations) watch(ctx context.Context) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	if w, err := fsnotify.NewWatcher(); err != nil {
		r.log.Warn("the revoked credentials are looked at now and then only", "file", r.file, "every", glance, "error", err)
	} else {
		defer w.Close()
		if err := w.Add(filepath.Dir(r.file)); err != nil {
			r.log.Warn("the revoked credentials are looked at now and then only", "file", r.file, "every", glance, "error", err)
		}
		events, errs = w.Events, w.Errors
	}
	now := time.NewTicker(glance)
	defer now.Stop()
	still := time.NewTimer(0) // what changed before the folder was watched
	defer still.Stop()
	var since time.Time // of the first event not yet acted on
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-events:
			if !open {
				events = nil
			} else if r.concerns(e.Name) {
				if since.IsZero() {
					since = time.Now()
				}
				still.Reset(min(settle, max(0, unsettled-time.Since(since))))
			}
			continue
		case err, open := <-errs:
			if !open {
				errs = nil
				continue
			}
			r.log.Warn("watching the revoked credentials", "file", r.file, "error", err)
			still.Reset(settle) // an overflow loses events
			continue
		case <-now.C:
			if !since.IsZero() {
				continue // it is being written
			}
		case <-still.C:
		}
		since = time.Time{}
		again, err := r.read()
		if again {
			still.Reset(settle)
		}
		if err != nil && !failed {
			r.log.Error("the revoked credentials cannot be read; the last set stays", "error", err)
		}
		failed = err != nil
	}
}

// concerns tells whether an event in the folder may be about the file: itself, or
// the link by which a mounted volume swaps all its files.
func (r *revocations) concerns(name string) bool {
	name = filepath.Base(name)
	return name == filepath.Base(r.file) || strings.HasPrefix(name, "..")
}
