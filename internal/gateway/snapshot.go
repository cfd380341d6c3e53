package gateway

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/south"
)

// Snapshot is how the gateway stands now, for its metrics.
func (g *Gateway) Snapshot() observe.Snapshot {
	s := observe.Snapshot{
		InFlight: g.handler.Serving(), Streams: g.ongoing.Streams(), Listeners: g.board.Listeners(),
		StoreUp: true, Draining: g.draining.Load(),
	}
	s.Parked, _, _ = g.parks.State()
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	if n, err := g.sessions.Len(ctx); err == nil {
		s.NorthSessions = n
	} else {
		s.StoreUp = false
	}
	if g.durable.used(g.doc) {
		if n, err := g.storage.Routes.Count(ctx); err == nil {
			s.DurableRoutes = n
		}
	}
	a := g.audit.log.Stats()
	s.AuditWritten, s.AuditLost, s.AuditFailures, s.AuditRotations = a.Written, a.Lost, a.Failures, a.Rotations
	s.AuditFailing, s.AuditQueued = a.Failing, a.Queued
	for _, v := range g.servers {
		s.CacheBytes += v.catalog.Bytes()
	}
	for _, key := range g.doc.UpstreamKeys() {
		u := upstreamSnapshot(g.upstreams[key].State())
		u.Key, u.Child = key, g.doc.Upstreams[key].Child()
		s.Upstreams = append(s.Upstreams, u)
	}
	return s
}

func upstreamSnapshot(st south.State) observe.UpstreamSnapshot {
	u := observe.UpstreamSnapshot{
		Key: st.Key, State: st.State, Breaker: st.Breaker, Sessions: st.Sessions, InFlight: st.InFlight,
		Running: st.PID != 0, Starts: st.Starts,
	}
	for _, r := range st.Replicas {
		u.Replicas = append(u.Replicas, upstreamSnapshot(r))
	}
	return u
}
