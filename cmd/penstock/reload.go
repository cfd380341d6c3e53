package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/penstock-mcp/penstock/config"
)

// reloader takes a changed document over on SIGHUP and when its file changes.
type reloader struct {
	path string // the file, or "" when there is none to watch
	load func() (*config.Document, error)
	take func(context.Context, *config.Document) error // penstock.Gateway.Reload
	now  *config.Document
	log  *slog.Logger
}

// run ends with ctx. A watch that cannot be kept leaves SIGHUP.
func (r *reloader) run(ctx context.Context) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	f, err := watch(r.path)
	if err != nil {
		r.log.Warn("the document is not watched; send SIGHUP after a change", "file", r.path, "error", err)
	}
	defer f.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			f.taken(f.digest())
			r.reload(ctx, f)
		case e := <-f.events:
			f.happened(e)
		case err := <-f.errs:
			r.log.Warn("watching the document", "file", r.path, "error", err)
			f.lookSoon()
		case <-f.still.C:
			if f.changed() {
				r.reload(ctx, f)
			}
		}
	}
}

// reload tries the document as it is now. One that does not hold changes nothing.
func (r *reloader) reload(ctx context.Context, f *watched) {
	doc, err := r.load()
	if !f.holds() {
		return // it was read while it was written
	}
	if err == nil && empty(r.path) {
		err = fmt.Errorf("%s is empty; write {} into it for a document without keys", r.path)
	}
	if err != nil {
		r.log.Error("the changed document is not taken over; the old one stays", "error", err)
		return
	}
	for _, fixed := range unchangeable(r.now, doc) {
		r.log.Warn("takes effect after a restart", "key", fixed)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(doc.Limits.ListTimeout))
	defer cancel()
	if err := r.take(ctx, doc); err != nil {
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
