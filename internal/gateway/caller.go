package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/hook"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/policy"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/south/grant"
)

// caller is who calls, by one credential, as the rooms need it. It is made once
// for a verified credential and shared by the requests that show it.
type caller struct {
	*auth.Principal
	hook    hook.Principal
	subject *grant.Subject // for token exchange; nil: it has no token
	sight   atomic.Pointer[sight]
}

// adopt makes the principal of north for one of auth.
func (g *Gateway) adopt(p *auth.Principal) *north.Principal {
	c := &caller{
		Principal: p,
		hook:      hook.Principal{Issuer: p.Issuer, Tenant: p.Tenant, Subject: p.Subject, Scopes: p.Scopes},
	}
	if token := p.Bearer(); token != "" {
		c.subject = &grant.Subject{Hash: p.TokenHash, Token: token, Expires: p.Expires}
	}
	return &north.Principal{Key: p.Key, Name: p.Name, Who: c, Tally: g.ongoing.Tally(p.Key)}
}

// callerOf is the caller of an exchange; nil before there is one.
func callerOf(x *north.Exchange) *caller {
	if x.Principal == nil {
		return nil
	}
	c, _ := x.Principal.Who.(*caller)
	return c
}

// sight is what one document's policy shows a caller.
type sight struct {
	g       *Gateway
	view    *policy.View
	viewers sync.Map // name of a virtual server to *viewer
}

// sightOf is what a caller sees under this gateway's document.
func (g *Gateway) sightOf(c *caller) *sight {
	if s := c.sight.Load(); s != nil && s.g == g {
		return s
	}
	s := &sight{g: g, view: g.policy.For(&policy.Caller{
		Issuer: c.Issuer, Subject: c.Subject, Tenant: c.Tenant, Scopes: c.Scopes, Claims: c.Claims,
	})}
	c.sight.Store(s)
	return s
}

// viewer is how the catalog of one virtual server is seen by one caller. A nil
// one sees everything.
func (g *Gateway) viewer(c *caller, v *server) catalog.Viewer {
	if g.policy == nil || c == nil {
		return nil
	}
	s := g.sightOf(c)
	if w, ok := s.viewers.Load(v.name); ok {
		return w.(*viewer)
	}
	w, _ := s.viewers.LoadOrStore(v.name, &viewer{v: v, view: s.view})
	return w.(*viewer)
}

// sees is viewer for the caller of an exchange.
func (g *Gateway) sees(x *north.Exchange, v *server) catalog.Viewer { return g.viewer(callerOf(x), v) }

// viewer implements catalog.Viewer.
type viewer struct {
	v    *server
	view *policy.View
}

// ID implements catalog.Viewer.
func (w *viewer) ID() uint64 { return w.view.ID() }

// Sees implements catalog.Viewer.
func (w *viewer) Sees(t *catalog.Target) bool {
	pt := w.v.judged(t)
	return w.view.Sees(&pt)
}

// denies reports whether a rule denies a target for sure.
func (w *viewer) denies(t *catalog.Target) bool {
	pt := w.v.judged(t)
	return w.view.Denies(&pt)
}

// Reaches implements catalog.Viewer.
func (w *viewer) Reaches(upstream string, kind mcp.Kind) bool {
	return w.view.Reaches(w.v.name, upstream, kind)
}

// vault holds the callers whose tokens are good, for what is done for them behind
// their requests: lists, and the end of sessions. It outlives a reload.
type vault struct {
	mu sync.Mutex // guards by
	by map[[32]byte]*caller
}

// maxVault bounds how many callers are held.
const maxVault = 100_000

// put notes the token that a caller showed last.
func (w *vault) put(c *caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.by[c.Key]; old == c {
		return
	}
	if w.by == nil {
		w.by = map[[32]byte]*caller{}
	}
	if len(w.by) >= maxVault {
		clear(w.by) // each comes back with its next request
	}
	w.by[c.Key] = c
}

func (w *vault) get(key [32]byte) *caller {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.by[key]
}

// sweep lets go of tokens that have expired.
func (w *vault) sweep(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, c := range w.by {
		if !c.Expires.IsZero() && now.After(c.Expires) {
			delete(w.by, key)
		}
	}
}

type callerKey struct{}

// within notes in ctx who something is done for, where an upstream may want to
// know.
func (g *Gateway) within(ctx context.Context, c *caller) context.Context {
	if !g.personal || c == nil {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, c)
}

// acting is who something is done for; nil: nobody in particular.
func (w *vault) acting(ctx context.Context) *caller {
	if c, ok := ctx.Value(callerKey{}).(*caller); ok {
		return c
	}
	if key, ok := south.Principal(ctx); ok {
		return w.get(key)
	}
	return nil
}
