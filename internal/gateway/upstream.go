package gateway

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/south"
)

// upstream is what the pipeline needs of one configured server: a
// south.Upstream, or several of them at different addresses.
type upstream interface {
	Key() string
	Info() *south.Info
	State() south.State
	Tried() bool
	Wait(ctx context.Context)
	Link(ctx context.Context, key south.SessionKey) (*south.Link, error)
	EndSession(key south.SessionKey)
	Watch(key south.SessionKey, sink south.Sink) *south.Watch
	WatchFor(ctx context.Context, key south.SessionKey, sink south.Sink) *south.Watch
	Forget()
	Dropped(what string)
	OnChange(f func())
	Start()
	Abandon(ctx context.Context)
	Close(ctx context.Context)
}

// replicated is an upstream at several addresses. A call that did not reach one
// of them ran nowhere, and goes to another.
type replicated interface {
	Width() int
	Unreached(l *south.Link, key south.SessionKey)
}

var (
	_ upstream   = (*south.Upstream)(nil)
	_ upstream   = (*south.Replicas)(nil)
	_ replicated = (*south.Replicas)(nil)
)
