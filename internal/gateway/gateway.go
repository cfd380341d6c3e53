package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/hook"
	"github.com/penstock-mcp/penstock/internal/limit"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/policy"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/memory"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Gateway joins the rooms for one configuration document. It is safe for
// concurrent use between New and Close.
type Gateway struct {
	doc       *config.Document
	listen    *config.Document // whose listeners are open: that of the first start
	log       *slog.Logger
	upstreams map[string]upstream
	servers   map[string]*server
	storage   Storage
	sessions  store.Sessions
	keys      keys
	kept      map[string]*south.Upstream // by identity, those whose sessions are kept
	sealer    *relay.Sealer
	board     *relay.Board // shared with predecessor and successor
	parks     *relay.Parks // likewise
	handler   *north.Handler
	ongoing   *north.Ongoing      // shared with the predecessor and the successor
	principal *north.Principal    // who calls over HTTP without a credential, where that is allowed
	local     *north.Principal    // who calls over stdio
	auth      *auth.Authenticator // nil: nobody has to say who calls
	identity  *engine             // runs auth
	vault     *vault              // shared with predecessor and successor
	personal  bool                // some upstream wants the caller's own credential
	policy    *policy.Policy      // nil: everything is allowed
	hooks     *hook.Set
	limiter   *limit.Limiter
	audit     *recorder
	metrics   *observe.Metrics
	tracer    *observe.Tracer
	rates     map[string]*limit.Bucket // of upstreams, by key; nil: no bound
	tasks     *task.Index              // shared with predecessor and successor
	flights   *task.Flights            // likewise
	ids       *task.Vault              // shows the ids of records to the operator, and to their owners
	keeping   *engine                  // runs tasks; likewise
	follows   *follows                 // likewise
	vigils    *task.Vigils             // likewise
	locator   *task.Locator
	durable   *durables               // nil: there are no durable tasks
	tokens    *tokens                 // shared with predecessor and successor
	ends      map[string]func()       // of what makes the credentials of an upstream, by key
	overseen  *overseen               // shared with predecessor and successor
	self      map[mcp.Revision][]byte // our Implementation, as each revision shows it
	caps      capsCache
	declared  declaredCache
	askable   askableCache
	visits    *visits
	visiting  waits
	draining  atomic.Bool
}

// server is one virtual server.
type server struct {
	name    string
	doc     *config.Server
	catalog *catalog.Server
	members []*member // by key
	keys    []string  // of members
	byKey   map[string]*member
	tag     bool       // put the origin tag into results
	meta    *metaTools // nil: the gateway has no tools of its own here
}

// member is an upstream as one virtual server sees it, with what does not
// change from call to call.
type member struct {
	key    string
	south  upstream
	origin []byte // the origin tag, raw JSON
	mapURI func(dst []byte, uri string) ([]byte, bool)
	stray  func(*wire.Answer) error // takes notifications of calls that are not theirs

	addresses [][32]byte // digests of its replicas' addresses
	tasked    atomic.Pointer[taskedCaps]

	rate    *limit.Bucket // nil: no bound
	trusted bool          // the annotations of its tools count in policy
}

// Version is the gateway's own version, as clients and upstreams see it.
type Version struct {
	Name, Version string
	// Guard is the argv of this program's part that guards child processes
	// (south.Command); nil: it has none.
	Guard []string
	// Hooks are the embedding program's own, asked after those of the document.
	Hooks []hook.Hook
	// Metrics are counted into; nil: nothing is counted.
	Metrics *observe.Metrics
}

// New builds a gateway from a complete document. It opens nothing; Run does.
//
// Storage is where state is kept; it must outlive the gateway.
//
// With a predecessor, which serves the document before this one, it takes over
// what the change of document does not touch: sessions, generated keys, and
// every upstream whose configuration is the same, with its connections.
func New(doc *config.Document, version Version, log *slog.Logger, storage Storage, before *Gateway) (*Gateway, error) {
	g := &Gateway{
		doc: doc, listen: doc, log: log,
		upstreams: map[string]upstream{},
		servers:   map[string]*server{},
		kept:      map[string]*south.Upstream{},
		self:      implementations(version),
		visits:    &visits{},
		visiting:  usualWaits,
		metrics:   version.Metrics,
		vault:     &vault{},
		overseen:  &overseen{},
		tokens:    &tokens{},
		ends:      map[string]func(){},
	}
	var err error
	g.storage = storage
	if before != nil {
		g.storage, g.visits, g.vault, g.overseen, g.tokens = before.storage, before.visits, before.vault, before.overseen, before.tokens
	}
	if g.keys, err = deriveKeys(doc.Keys, g.storage.Ring); err != nil {
		return nil, err
	}
	if before != nil && len(doc.Keys.Ring) == 0 && len(before.doc.Keys.Ring) == 0 {
		g.keys = before.keys
	}
	// A state outlives the question that it comes with.
	life := max(30*time.Minute, g.inputTimeout()+time.Minute)
	if g.sealer, err = relay.NewSealer(g.keys.ring, life, time.Now); err != nil {
		return nil, err
	}
	if before != nil {
		g.board, g.parks = before.board, before.parks
	} else {
		g.board, g.parks = relay.NewBoard(doc.Limits.Queue, log), relay.NewParks(log, nil)
	}
	if g.ongoing = north.NewOngoing(); before != nil {
		g.ongoing = before.ongoing
		// The listeners stay until a restart, and who calls over them, too.
		g.listen = before.listen
	}
	if err := g.govern(version, before); err != nil {
		return nil, err
	}
	for _, key := range doc.UpstreamKeys() {
		if before.keeps(doc, key) {
			g.upstreams[key] = before.upstreams[key]
			g.ends[key] = before.ends[key]
		} else if g.upstreams[key], err = g.newUpstream(doc.Upstreams[key], version.Guard); err != nil {
			return nil, err
		}
		g.knowKept(doc.Upstreams[key], g.upstreams[key])
	}
	g.durable = g.durables(before)
	paths := map[string]string{}
	for _, name := range doc.ServerNames() {
		s, err := g.newServer(doc.Servers[name], g.keys.cursor)
		if err != nil {
			return nil, err
		}
		g.servers[name] = s
		paths[name] = doc.Servers[name].Path
	}
	l := doc.Limits
	if g.sessions = g.storage.Sessions; g.sessions == nil && before != nil {
		g.sessions = before.sessions
	} else if g.sessions == nil {
		g.sessions = memory.NewSessions(l.Sessions, l.SessionsPerPrincipal, time.Duration(l.IdleSession), time.Now)
	}
	opts := north.Options{
		Servers: paths, RequestBytes: int64(l.RequestBytes), InFlight: l.InFlightPerPrincipal,
		AllowedHosts: allowedHosts(doc), AllowedOrigins: doc.AllowedOrigins,
		Idle: time.Duration(l.IdleSession), BodyTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, Log: log,
		InputTimeout: time.Duration(l.InputTimeout), KeepAlive: time.Duration(l.Keepalive), Parked: l.ParkedPerPrincipal,
		Streams: l.StreamsPerPrincipal, ResumeEvents: l.ResumeEvents,
	}
	opts.Metadata, opts.RequestID = g.metadata(), observe.NewRequestID
	opts.Full = func() { g.metrics.Limited("in_flight") }
	opts.Ongoing, opts.Claims, opts.Instance = g.ongoing, g.storage.Claims, g.storage.Instance
	if loopback(g.listen.Listen) && g.listen.Observe.Listen == "" {
		opts.Details = g.Details()
	}
	g.handler = north.New(opts, g, g.sessions)
	if before == nil {
		g.Succeed()
	}
	return g, nil
}

// Succeed has those who listen for changes hear of this gateway's upstreams, and
// not of its predecessor's any more. It is called once requests come here.
func (g *Gateway) Succeed() {
	g.follows.rebind(g)
	if g.durable != nil {
		g.durable.sources.rebind(g)
	}
	g.board.Rebind(rooms{g})
}

// Handler serves every virtual server, /health and /ready.
func (g *Gateway) Handler() http.Handler { return g.handler }

// ServeStdio serves one client that speaks stdio, on one virtual server.
func (g *Gateway) ServeStdio(ctx context.Context, server string, in io.Reader, out io.Writer, drain time.Duration) error {
	if g.servers[server] == nil {
		return fmt.Errorf("there is no virtual server %q", server)
	}
	return g.handler.ServeStdio(ctx, server, in, out, drain)
}

// Start connects the upstreams and keeps them known until Close.
func (g *Gateway) Start() {
	g.identity.start()
	g.keeping.start()
	g.durable.start(g)
	g.audit.engine.start()
	for key, u := range g.upstreams {
		var known atomic.Bool
		known.Store(u.Info() != nil)
		u.OnChange(func() {
			if known.Swap(true) {
				g.changed(key)
			}
			g.board.Recheck(key)
			if g.durable != nil {
				g.durable.sources.changed(key)
			}
		})
		u.Start()
	}
}

// changed has every list of an upstream read anew: it was started again, or
// offers something else now.
func (g *Gateway) changed(key string) {
	for _, v := range g.servers {
		if v.byKey[key] != nil {
			v.catalog.Invalidate(key, 0, true)
		}
	}
}

// Sweep ends sessions that were idle for too long, northern and southbound.
func (g *Gateway) Sweep(ctx context.Context, now time.Time) {
	g.sweepKept(ctx, now)
	g.vault.sweep(now)
	if err := g.handler.Sweep(ctx, now); err != nil && ctx.Err() == nil {
		g.log.Error("idle sessions not swept", "error", err)
	}
}

// CheckClaims closes the standing streams that another instance has taken over,
// and those whose callers are not let in any more.
// It is called once a second.
func (g *Gateway) CheckClaims(ctx context.Context) {
	g.oversee()
	if err := g.handler.CheckClaims(ctx); err != nil && ctx.Err() == nil {
		g.log.Debug("claims on streams not checked", "error", err) // an outage is told of by the store
	}
}

// Drain makes Ready fail, so that a load balancer sends no more, and ends the
// streams that clients hold open.
func (g *Gateway) Drain() {
	g.draining.Store(true)
	g.ongoing.End()
}

// Close ends sessions and connections at the upstreams, within ctx. Requests in
// flight must have ended.
func (g *Gateway) Close(ctx context.Context) error {
	g.Drain()
	g.parks.Close(ctx)
	g.cut(ctx)
	g.vigils.Close()
	g.follows.Close()
	g.board.Close()
	g.durable.end(ctx, nil)
	for _, u := range g.upstreams {
		u.EndSession(g.watchKey())
	}
	g.closeExcept(ctx, nil)
	g.keeping.end(ctx)
	g.identity.end(ctx)
	g.endTraces(ctx)
	g.audit.end(ctx)
	return nil
}

// healthTimeout bounds how long /ready waits for the store.
const healthTimeout = time.Second

// Ready implements north.Gateway: nil while at least one upstream is known, or
// while none has been tried yet.
func (g *Gateway) Ready() error {
	if g.draining.Load() {
		return errors.New("shutting down")
	}
	if g.storage.Health != nil {
		ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
		defer cancel()
		if err := g.storage.Health(ctx); err != nil {
			return fmt.Errorf("the store cannot be used: %w", err)
		}
	}
	down := 0
	for key, u := range g.upstreams {
		// One that wants the caller's credential is not known before a caller came.
		if u.State().State == "down" && !personal(g.doc.Upstreams[key]) {
			down++
		}
	}
	if down > 0 && down == len(g.upstreams) {
		return errors.New("no upstream is reachable")
	}
	return nil
}

// Ended implements north.Gateway: the southern sessions that a northern one
// caused end with it, and no others (DESIGN section 7).
func (g *Gateway) Ended(s *store.Session) {
	g.board.Ended(s.ID)
	v := g.servers[s.Server]
	if v == nil {
		return
	}
	g.visits.forget(s.ID)
	key := g.clientKey(v, s)
	for _, m := range v.members {
		m.south.EndSession(key)
	}
}

// clientKey is the key of the southern sessions of a legacy client: they declare
// what the client declared, so that a server asks it what it can answer, and are
// nobody else's (checklist 7.1).
func (g *Gateway) clientKey(v *server, s *store.Session) south.SessionKey {
	key := sessionKey(v, s.Principal, s.ID)
	key.Caps = g.askable.of(s.Capabilities, s.Revision)
	return key
}

func sessionKey(v *server, principal [32]byte, north string) south.SessionKey {
	return south.SessionKey{Server: v.name, Principal: principal, North: north}
}

func (g *Gateway) scope(x *north.Exchange) catalog.Scope {
	s := catalog.Scope{Principal: x.Principal.Key}
	if x.Session != nil { // some servers offer only what the client can answer
		s.Caps = g.askable.of(x.Session.Capabilities, x.Session.Revision)
	} else {
		s.Caps = g.askableNow(x)
	}
	return s
}

// Serve implements north.Gateway.
func (g *Gateway) Serve(ctx context.Context, x *north.Exchange) (err error) {
	v := g.servers[x.Server]
	ctx = g.within(ctx, callerOf(x))
	span := g.trace(x)
	if span.Sampled() {
		defer func() { g.traced(span, x, err) }()
	}
	switch x.Method.Name {
	case mcp.Discover:
		result, err := g.Describe(ctx, x.Server, x.Principal, x.Revision)
		if err != nil {
			return err
		}
		return x.Result(result)
	case mcp.Ping:
		return x.Result(emptyObject)
	case mcp.SetLevel:
		return g.setLevel(ctx, x)
	case mcp.Complete:
		return g.complete(ctx, x, v)
	case mcp.Listen:
		return g.subscriptions(ctx, x)
	case mcp.Subscribe:
		return g.subscribe(ctx, x, v)
	case mcp.Unsubscribe:
		return g.unsubscribe(ctx, x)
	case mcp.TasksList:
		return g.listTasks(ctx, x, v)
	}
	if x.Method.List {
		return g.list(ctx, x, v)
	}
	if x.Method.Header == mcp.FromTaskID {
		return g.task(ctx, x, v)
	}
	if x.Method.Header != mcp.NoName {
		return g.call(ctx, x, v)
	}
	return fault.New(fault.MethodNotFound, "method %q is not served", x.Msg.Method)
}

var emptyObject = []byte(`{}`)
