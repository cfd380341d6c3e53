package gateway

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/store"
)

// coordinator is what the pipeline needs of the room of durable tasks.
type coordinator interface {
	Submit(ctx context.Context, s *durable.Submit) (json.RawMessage, error)
	Get(ctx context.Context, who durable.Caller, id string) (json.RawMessage, error)
	Cancel(ctx context.Context, who durable.Caller, id string) (json.RawMessage, error)
	Update(ctx context.Context, who durable.Caller, id string, params json.RawMessage) (json.RawMessage, error)
	Origin(ctx context.Context, who durable.Caller, id string) (durable.Target, error)
	Lease(ctx context.Context, g *durable.Grant) (json.RawMessage, error)
	Release(ctx context.Context, who durable.Caller, s durable.Spelling, id string) (json.RawMessage, error)
	Authorize(ctx context.Context, who durable.Caller, s durable.Spelling, id string, t *durable.Target) error
	List(ctx context.Context, f store.RouteFilter, limit int) ([]*durable.Route, error)
	Show(ctx context.Context, id string) (*durable.Route, []store.RouteEvent, error)
	Resolve(ctx context.Context, id, status, reason, actor string) error
	Run(ctx context.Context)
}

var _ coordinator = (*durable.Coordinator)(nil)

// durables are the durable tasks of a gateway (DESIGN section 10). A successor whose
// document says the same goes on with them; routes are in the store and outlive
// both.
type durables struct {
	coordinator
	o       durableOptions
	sources *sources   // shared with predecessor and successor
	ears    *routeEars // likewise
	engine  *engine    // runs the coordinator
	looking *engine    // runs sources; likewise

	instance string // likewise
}

// durableOptions are what a document says of them.
type durableOptions struct {
	maxRoutes, maxPerCaller  int
	maxRuntime, maxRetention time.Duration
	watchdog, persist, free  bool
}

// durables makes the durable tasks, nil where they are off or the store is not
// durable.
func (g *Gateway) durables(before *Gateway) *durables {
	c := &g.doc.Durable
	if c.Enabled == "off" || g.storage.Routes == nil || g.storage.Leases == nil {
		return nil
	}
	d := &durables{o: durableOptions{
		maxRoutes: c.MaxRoutes, maxPerCaller: c.MaxRoutesPerCaller, maxRuntime: time.Duration(c.MaxRuntime), maxRetention: time.Duration(c.MaxRetention),
		watchdog: c.Watchdog.On(), persist: c.Updates == "persist", free: !c.RequireLease.On(),
	}}
	if before != nil && before.durable != nil {
		if before.durable.o == d.o {
			return before.durable
		}
		d.sources, d.ears, d.looking, d.instance = before.durable.sources, before.durable.ears, before.durable.looking, before.durable.instance
	} else {
		d.sources, d.ears, d.instance = newSources(), newRouteEars(), durable.NewInstanceID()
		d.looking = newEngine("durable sources", g.log, d.sources.run)
	}
	metrics, ears := g.metrics, d.ears
	tasks := durable.New(durable.Options{
		Routes: g.storage.Routes, Leases: g.storage.Leases, Sources: d.sources, Instance: d.instance, Shared: g.storage.Shared, Log: g.log,
		On: func(r *durable.Route, e store.RouteEvent) {
			metrics.DurableTransition(e.To)
			ears.changed(r.ID)
		},
		MaxRoutes: d.o.maxRoutes, MaxRoutesPerCaller: d.o.maxPerCaller, MaxRuntime: d.o.maxRuntime, MaxRetention: d.o.maxRetention,
		Watchdog: d.o.watchdog, PersistUpdates: d.o.persist, LeaseOptional: d.o.free,
	})
	d.coordinator = tasks
	d.engine = newEngine("durable tasks", g.log, func(ctx context.Context) error {
		tasks.Run(ctx)
		return nil
	})
	return d
}

// start begins what runs behind requests, where an upstream may have durable tasks.
// It may be called on nil.
func (d *durables) start(g *Gateway) {
	if d.used(g.doc) {
		d.engine.start()
		d.looking.start()
		d.sources.wake()
	}
}

// used reports whether an upstream may have durable tasks. It may be called on nil.
func (d *durables) used(doc *config.Document) bool {
	if d == nil {
		return false
	}
	for _, c := range doc.Upstreams {
		if c.Durable != nil {
			return true
		}
	}
	return false
}

// end ends what a successor does not go on with. It may be called on nil.
func (d *durables) end(ctx context.Context, successor *durables) {
	if d == nil || d == successor {
		return
	}
	d.engine.end(ctx)
	if successor == nil || successor.looking != d.looking {
		d.looking.end(ctx)
	}
}

// durableCaller is who calls, as the records of durable tasks name them: by what no
// other caller has, and never longer than a record takes.
func (g *Gateway) durableCaller(x *north.Exchange) durable.Caller {
	who := durable.Caller{Principal: hex.EncodeToString(x.Principal.Key[:]), Tenant: "-"}
	c := callerOf(x)
	if c == nil {
		return who
	}
	if c.Tenant != "" {
		who.Tenant = c.Tenant
		if len(c.Tenant) > 128 || strings.ContainsFunc(c.Tenant, unicode.IsControl) {
			who.Tenant = digestText(c.Tenant)
		}
	}
	who.Scopes, who.Local = c.Scopes, c.Issuer == auth.IssuerLocal
	return who
}
