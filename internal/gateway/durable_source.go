package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/south"
)

// durableServer is the virtual server in the key of what is done for durable tasks:
// it is nobody's and declares nothing.
const durableServer = "penstock:durable"

const (
	// changedPause is how long what offers something else than was pinned is not
	// looked at again, and failedPause what could not be looked at.
	changedPause = 10 * time.Second
	failedPause  = 500 * time.Millisecond
)

// source is an upstream that the document pins for durable tasks, with the
// connection that is current. It lives as long as the upstream is configured so.
type source struct {
	key           string
	u             upstream
	doc           *config.Upstream
	self          []byte
	pin           durable.Digest
	settings      durable.Settings
	configuration durable.Digest
	log           *slog.Logger
	told          func(method, outcome string, took time.Duration) // counts requests
	wake          func()                                           // asks for a look soon

	turn    chan struct{} // holds a token while what it offers is looked at
	current atomic.Pointer[connection]
	verdict atomic.Pointer[verdict]
	warned  atomic.Pointer[durable.Digest] // of what it was found to offer instead
	shown   atomic.Bool                    // as eligible, when it was looked at last
}

// verdict is what the last look at an upstream found, when it was no connection.
type verdict struct {
	err error
	at  time.Time
}

func (v *verdict) fresh() bool {
	if errors.Is(v.err, durable.ErrChanged) {
		return time.Since(v.at) < changedPause
	}
	return time.Since(v.at) < failedPause
}

var _ durable.Source = (*source)(nil)

// newSource makes the source of an upstream whose document has durable.
func (g *Gateway) newSource(c *config.Upstream, u upstream, wake func()) (*source, error) {
	s := &source{
		key: c.Key, u: u, doc: c, self: g.self[mcp.LatestModern], log: g.log, wake: wake, turn: make(chan struct{}, 1),
		told: func(method, outcome string, took time.Duration) { g.metrics.UpstreamCall(c.Key, method, outcome, took) },
	}
	var err error
	if s.pin, err = durable.ParseDigest(c.Durable.Pin); err != nil {
		return nil, fmt.Errorf("upstreams.%s.durable.pin: %w", c.Key, err)
	}
	s.settings = durable.Settings{Stateless: c.Durable.Session == "stateless", Echo: c.Durable.Echo != "none"}
	s.settings.Spelling, _ = durable.ParseSpelling(c.Durable.Spelling) // the document allows no other
	if s.configuration, err = configurationOf(c); err != nil {
		return nil, fmt.Errorf("upstreams.%s: %w", c.Key, err)
	}
	return s, nil
}

// Key implements durable.Source.
func (s *source) Key() string { return s.key }

// Settings implements durable.Source.
func (s *source) Settings() durable.Settings { return s.settings }

// live is the current connection, nil when there is none to send anything over.
func (s *source) live() *connection {
	c := s.current.Load()
	if c == nil || c.gone() != nil {
		return nil
	}
	return c
}

// eligible reports whether the upstream offers what was pinned, as far as is known
// without asking it.
func (s *source) eligible() bool { return s.live() != nil }

// looked reports whether anything was found out about the upstream yet.
func (s *source) looked() bool { return s.current.Load() != nil || s.verdict.Load() != nil }

// excluded reports whether the upstream is known not to be eligible: it speaks
// something else, or offers something else than was pinned.
func (s *source) excluded() bool {
	v := s.verdict.Load()
	return v != nil && (errors.Is(v.err, errNotDurable) || errors.Is(v.err, durable.ErrChanged))
}

// Connect implements durable.Source. One look is made at a time, and whoever waited
// for it gets what it found.
func (s *source) Connect(ctx context.Context) (durable.Connection, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *source) connect(ctx context.Context) (*connection, error) {
	if c := s.live(); c != nil && !c.doubted.Load() {
		return c, nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.Wrap(ctx.Err(), fault.UpstreamUnavailable, "upstream %q was not looked at in time", s.key)
	}
	defer func() { <-s.turn }()
	old := s.live()
	if old != nil && !old.doubted.Load() {
		return old, nil
	}
	if v := s.verdict.Load(); old == nil && v != nil && v.fresh() {
		return nil, v.err
	}
	c, err := s.look(ctx, old)
	if err != nil {
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			s.verdict.Store(&verdict{err: err, at: time.Now()})
		}
		return nil, err
	}
	s.verdict.Store(nil)
	return c, nil
}

// look finds out what the upstream offers: over the connection that is in doubt, or
// anew. Its caller has the turn.
func (s *source) look(ctx context.Context, old *connection) (*connection, error) {
	if old != nil {
		old.doubted.Store(false) // before the look: a change meanwhile is another doubt
		offer, err := discover(ctx, old.link, s.self)
		if err != nil {
			old.doubted.Store(true)
			return nil, err
		}
		if m, err := offer.Manifest(); err == nil && m == old.manifest {
			return old, nil
		}
		old.broken.Store(true)
		return nil, durable.ErrChanged
	}
	at, up, info, link, err := reachModern(ctx, s.u)
	if err != nil {
		return nil, err
	}
	offer, err := discover(ctx, link, s.self)
	if err != nil {
		return nil, err
	}
	if !offer.SupportsTasks() {
		return nil, errNotDurable
	}
	c := &connection{src: s, up: up, link: link, info: info, id: durable.NewSessionID(s.settings.Spelling), tools: map[string]json.RawMessage{}}
	if c.manifest, err = offer.Manifest(); err != nil {
		return nil, err
	}
	if c.manifest != s.pin {
		if was := s.warned.Swap(&c.manifest); was == nil || *was != c.manifest {
			s.log.Warn("upstream offers something else than was pinned, and gets no durable tasks", "upstream", s.key, "offers", c.manifest, "pin", s.pin)
		}
		return nil, durable.ErrChanged
	}
	if c.snapshot, err = offer.Snapshot(); err != nil {
		return nil, err
	}
	if c.endpoint, err = s.endpointOf(at); err != nil {
		return nil, err
	}
	for _, t := range offer.Tools {
		if name, err := durable.ToolName(t); err == nil {
			c.tools[name] = t
		}
	}
	if err := c.gone(); err != nil {
		return nil, err // while it was looked at
	}
	s.current.Store(c)
	s.log.Info("upstream is ready for durable tasks", "upstream", s.key, "session", c.id)
	return c, nil
}

// reachModern is the way to an upstream that speaks 2026-07-28, or to the first of
// its replicas that is there, with its place among them.
func reachModern(ctx context.Context, u upstream) (at int, up *south.Upstream, info *south.Info, link *south.Link, err error) {
	var each []*south.Upstream
	switch u := u.(type) {
	case *south.Upstream:
		each = []*south.Upstream{u}
	case *south.Replicas:
		for i := range u.Width() {
			each = append(each, u.At(i))
		}
	}
	err = fault.New(fault.UpstreamUnavailable, "upstream %q cannot be reached", u.Key())
	for i, up := range each {
		up.Wait(ctx)
		info := up.Info()
		if info == nil || up.State().State == "down" {
			continue
		}
		if info.Era != mcp.Modern {
			return 0, nil, nil, nil, errNotDurable
		}
		link, lerr := up.Link(ctx, south.SessionKey{Server: durableServer})
		if lerr != nil {
			err = lerr
			continue
		}
		if link.Era != mcp.Modern {
			return 0, nil, nil, nil, errNotDurable
		}
		return i, up, info, link, nil
	}
	return 0, nil, nil, nil, err
}

// anew forgets what the last look found, so that the next one is not put off.
func (s *source) anew() { s.verdict.Store(nil) }

// doubt has what the upstream offers looked at before it is relied on again.
func (s *source) doubt() {
	s.anew()
	if c := s.current.Load(); c != nil {
		c.doubted.Store(true)
	}
}

// end ends what is bound to the current connection.
func (s *source) end() {
	if c := s.current.Load(); c != nil {
		c.broken.Store(true)
	}
}
