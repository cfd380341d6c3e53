// Package penstock embeds the gateway in a Go program.
//
// New builds a gateway from a configuration document, Handler is its HTTP
// surface, Run keeps its upstreams connected, Close ends it:
//
//	doc, err := config.Load("penstock.yaml")
//	gw, err := penstock.New(doc)
//	go gw.Run(ctx)
//	http.ListenAndServe(doc.Listen, gw.Handler())
//	gw.Close(ctx)
package penstock

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/gateway"
)

// Gateway is one governed MCP endpoint in front of many servers. Its methods
// are safe for concurrent use.
type Gateway struct{ g *gateway.Gateway }

type options struct{ log *slog.Logger }

// Option changes how New builds a Gateway.
type Option func(*options)

// WithLogger sends the gateway's log to l; without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// New builds a gateway from a complete document, as config.Load and
// config.Parse return it. It has no side effects: nothing is opened or
// connected before Run.
func New(doc *config.Document, opts ...Option) (*Gateway, error) {
	o := options{log: slog.New(slog.DiscardHandler)}
	for _, f := range opts {
		f(&o)
	}
	g, err := gateway.New(doc, gateway.Version{Name: "penstock", Version: Version()}, o.log)
	if err != nil {
		return nil, err
	}
	return &Gateway{g: g}, nil
}

// Handler serves every virtual server of the document on its path, and /health
// and /ready. It may be used before Run; the first request then connects.
func (g *Gateway) Handler() http.Handler { return g.g.Handler() }

// Details serves /ready with the state of each upstream, for operators. It
// shows addresses and error texts: keep it from clients.
func (g *Gateway) Details() http.Handler { return g.g.Details() }

// Admin serves the operator's commands, such as explain. It must not be
// reachable by anybody else.
func (g *Gateway) Admin() http.Handler { return g.g.Admin() }

// Run connects the upstreams and keeps them known until ctx ends; then it
// returns nil. It is called once.
func (g *Gateway) Run(ctx context.Context) error { return g.g.Run(ctx) }

// Drain makes /ready answer 503, so that a load balancer sends no more.
func (g *Gateway) Drain() { g.g.Drain() }

// Close ends sessions and connections at the upstreams, as long as ctx allows.
// Stop serving Handler first.
func (g *Gateway) Close(ctx context.Context) error { return g.g.Close(ctx) }

// release is set by the build of a release.
var release = ""

// Version is the version of this build: that of the release or of the module,
// or "devel".
func Version() string {
	if release != "" {
		return release
	}
	if i, ok := debug.ReadBuildInfo(); ok && i.Main.Version != "" && i.Main.Version != "(devel)" {
		return i.Main.Version
	}
	return "devel"
}
