package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
)

// settle is how long a changed file must lie still before it is read: editors
// and mounts write it in several steps.
const settle = 100 * time.Millisecond

// reloader takes a changed document over on SIGHUP and when its file changes.
type reloader struct {
	path string // the file, or "" when there is none to watch
	load func() (*config.Document, error)
	gw   *penstock.Gateway
	now  *config.Document
	log  *slog.Logger
}

// run ends with ctx. A watch that cannot be kept leaves SIGHUP.
func (r *reloader) run(ctx context.Context) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	var events <-chan fsnotify.Event
	var errs <-chan error
	if w, err := r.watch(); err != nil {
		r.log.Warn("the document is not watched; send SIGHUP after a change", "file", r.path, "error", err)
	} else if w != nil {
		defer w.Close()
		events, errs = w.Events, w.Errors
	}
	seen := r.digest()
	still := time.NewTimer(time.Hour)
	still.Stop()
	defer still.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			seen = r.digest()
			r.reload(ctx)
		case <-events:
			still.Reset(settle)
		case err := <-errs:
			r.log.Warn("watching the document", "file", r.path, "error", err)
		case <-still.C:
			if d := r.digest(); !bytes.Equal(d, seen) && d != nil {
				seen = d
				r.reload(ctx)
			}
		}
	}
}

// watch watches the file's folder: a file that is replaced is another file.
func (r *reloader) watch() (*fsnotify.Watcher, error) {
	if r.path == "" {
		return nil, nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(filepath.Dir(r.path)); err != nil {
		_ = w.Close()
		return nil, err
	}
	return w, nil
}

func (r *reloader) digest() []byte {
	if r.path == "" {
		return nil
	}
	b, err := os.ReadFile(r.path)
	if err != nil {
		return nil // between two steps of a replacement
	}
	d := sha256.Sum256(b)
	return d[:]
}

// reload tries the document as it is now. One that does not hold changes nothing.
func (r *reloader) reload(ctx context.Context) {
	doc, err := r.load()
	if err != nil {
		r.log.Error("the changed document is not taken over; the old one stays", "error", err)
		return
	}
	for _, fixed := range unchangeable(r.now, doc) {
		r.log.Warn("takes effect after a restart", "key", fixed)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(doc.Limits.ListTimeout))
	defer cancel()
	if err := r.gw.Reload(ctx, doc); err != nil {
		r.log.Error("the changed document is not taken over; the old one stays", "error", err)
		return
	}
	for _, w := range doc.Warnings {
		r.log.Warn("configuration", "warning", w.Error())
	}
	r.now = doc
}

// unchangeable names the keys that differ and cannot change while it runs.
func unchangeable(was, is *config.Document) (keys []string) {
	for key, same := range map[string]bool{
		"listen":                        was.Listen == is.Listen,
		"tls":                           reflect.DeepEqual(was.TLS, is.TLS),
		"state":                         was.State == is.State,
		"admin":                         was.Admin == is.Admin,
		"shutdown":                      was.Shutdown == is.Shutdown,
		"limits.sessions":               was.Limits.Sessions == is.Limits.Sessions,
		"limits.sessions_per_principal": was.Limits.SessionsPerPrincipal == is.Limits.SessionsPerPrincipal,
		"limits.idle_session":           was.Limits.IdleSession == is.Limits.IdleSession,
		"observe.listen":                was.Observe.Listen == is.Observe.Listen,
		"limits.connections":            was.Limits.Connections == is.Limits.Connections,
		"limits.header_bytes":           was.Limits.HeaderBytes == is.Limits.HeaderBytes,
	} {
		if !same {
			keys = append(keys, key)
		}
	}
	return keys
}
