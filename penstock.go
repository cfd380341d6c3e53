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
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/gateway"
	"github.com/penstock-mcp/penstock/internal/hook"
	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/south"
)

// Gateway is one governed MCP endpoint in front of many servers. Its methods
// are safe for concurrent use.
type Gateway struct {
	log     *slog.Logger
	self    gateway.Version
	metrics *observe.Metrics
	current atomic.Pointer[gateway.Gateway]

	mu       sync.Mutex // serializes Reload and Close; guards what follows
	started  bool
	closed   bool
	retiring sync.WaitGroup
	retire   context.Context // ends when retiring gateways must hurry
	hurry    context.CancelFunc
}

type options struct {
	log   *slog.Logger
	guard []string
	store *Store // nil: in memory
	hooks []hook.Hook
}

// Option changes how New builds a Gateway.
type Option func(*options)

// WithLogger sends the gateway's log to l; without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithChildGuard names a program, with its arguments, that calls GuardChild. One
// of it runs beside each child process and ends the child's whole process group
// when this process dies without a chance to, as by SIGKILL. Without it such a
// child only sees its input end.
func WithChildGuard(argv ...string) Option { return func(o *options) { o.guard = argv } }

// GuardChild is all that a program for WithChildGuard does, with its standard
// input. It does not return.
func GuardChild(in io.Reader) { south.Guard(in) }

// New builds a gateway from a complete document, as config.Load and
// config.Parse return it. It has no side effects: nothing is opened or
// connected before Run.
func New(doc *config.Document, opts ...Option) (*Gateway, error) {
	o := options{log: slog.New(slog.DiscardHandler)}
	for _, f := range opts {
		f(&o)
	}
	metrics := observe.NewMetrics(Version())
	self := gateway.Version{Name: "penstock", Version: Version(), Guard: o.guard, Hooks: o.hooks, Metrics: metrics}
	var st gateway.Storage
	if o.store != nil {
		st = o.store.storage()
	}
	first, err := gateway.New(doc, self, o.log, st, nil)
	if err != nil {
		return nil, err
	}
	g := &Gateway{log: o.log, self: self, metrics: metrics}
	metrics.Watch(func() observe.Snapshot { return g.current.Load().Snapshot() })
	g.retire, g.hurry = context.WithCancel(context.Background())
	g.current.Store(first)
	return g, nil
}

// Handler serves every virtual server of the document on its path, and /health
// and /ready. It may be used before Run; the first request then connects.
func (g *Gateway) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.current.Load().Handler().ServeHTTP(w, r)
	})
}

// ServeStdio serves one client that speaks stdio on a virtual server, beside
// what Handler serves: its messages are the lines of in, and nothing but
// messages goes to out. It returns when in or ctx ends, once the requests in
// flight have ended or drain has passed. A reload changes nothing for it.
func (g *Gateway) ServeStdio(ctx context.Context, server string, in io.Reader, out io.Writer, drain time.Duration) error {
	return g.current.Load().ServeStdio(ctx, server, in, out, drain)
}

// Details serves /ready with the state of each upstream, for operators. It
// shows addresses and error texts: keep it from clients.
func (g *Gateway) Details() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.current.Load().Details().ServeHTTP(w, r)
	})
}

// Metrics serves GET /metrics in the format of Prometheus, for operators: keep it
// from clients.
func (g *Gateway) Metrics() http.Handler { return g.metrics.Handler() }

// Admin serves the operator's commands, such as explain. It must not be
// reachable by anybody else.
func (g *Gateway) Admin() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.current.Load().Admin().ServeHTTP(w, r)
	})
}

// Run connects the upstreams and keeps them known until ctx ends; then it
// returns nil. It is called once. What the document needs that is not there, such as
// the file of revoked credentials, is an error at once.
func (g *Gateway) Run(ctx context.Context) error {
	if err := g.current.Load().Check(); err != nil {
		return err
	}
	g.mu.Lock()
	g.started = true
	g.mu.Unlock()
	g.current.Load().Start()
	var claims sync.WaitGroup
	defer claims.Wait()
	claims.Go(func() { g.checkClaims(ctx) })
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-t.C:
			g.current.Load().Sweep(ctx, now)
		}
	}
}

// checkClaims closes the streams that other instances have taken over, until
// ctx ends. A sweep that takes long must not hold it up.
func (g *Gateway) checkClaims(ctx context.Context) {
	t := time.NewTicker(claimsEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.current.Load().CheckClaims(ctx)
		}
	}
}

const (
	sweepEvery  = 15 * time.Second // how often idle sessions are looked for
	claimsEvery = time.Second      // how often claims on streams are checked; DESIGN section 7 counts on it
)

// Reload serves another document from now on. Requests in flight end under the
// old one; sessions stay, and so do the connections of every upstream whose
// configuration is the same. New upstreams are given until ctx ends to answer
// before the change takes effect. With an error nothing has changed. Listen
// addresses, tls and state do not change by reload.
func (g *Gateway) Reload(ctx context.Context, doc *config.Document) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errors.New("the gateway is closed")
	}
	before := g.current.Load()
	after, err := gateway.New(doc, g.self, g.log, gateway.Storage{}, before)
	if err == nil {
		err = after.Check()
	}
	g.metrics.Reload(err == nil)
	if err != nil {
		return err
	}
	if g.started {
		after.Start()
		after.Await(ctx)
	}
	g.current.Store(after)
	after.Succeed()
	c := gateway.Changes(before, after)
	g.log.Info("reloaded", "added", c.Added, "removed", c.Removed, "replaced", c.Replaced, "kept", c.Kept)
	g.retiring.Go(func() {
		ctx, cancel := context.WithTimeout(g.retire, time.Duration(doc.Limits.ListTimeout)+time.Second)
		gateway.Announce(ctx, before, after)
		cancel()
		before.Retire(g.retire, after)
	})
	return nil
}

// Drain makes /ready answer 503, so that a load balancer sends no more.
func (g *Gateway) Drain() { g.current.Load().Drain() }

// Close ends sessions and connections at the upstreams, as long as ctx allows.
// Stop serving Handler first.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	g.hurry()
	g.retiring.Wait()
	return g.current.Load().Close(ctx)
}

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
