package gateway

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// relays is what is passed on of changes. It is advertised whatever the upstreams
// do, so that one that comes late is announced (DESIGN section 4).
var relays = catalog.Relay{ListChanged: true, Subscribe: true, Tasks: true}

// maxInstructions bounds the merged instructions.
const maxInstructions = 16 << 10

// discoverTTL is how long a complete description may be kept by clients.
const discoverTTL = 5 * time.Second

// Describe implements north.Gateway: one function answers initialize and
// server/discover from what is known of the upstreams (DESIGN section 4).
func (g *Gateway) Describe(ctx context.Context, name string, p *north.Principal, rev mcp.Revision) ([]byte, error) {
	v := g.servers[name]
	c, _ := p.Who.(*caller)
	who := g.viewer(c, v)
	g.await(ctx, v)
	var caps [][]byte
	var parts []catalog.Part
	served := relays
	served.NoList = p.Key == anonymous
	ttl := discoverTTL
	for _, m := range v.members {
		if who != nil && !reachesAny(who, m.key) {
			continue // it is none of this caller's business
		}
		i := m.south.Info()
		if i == nil {
			ttl = 0
			continue
		}
		caps = append(caps, i.Capabilities)
		if i.Era == mcp.Legacy && makesTasks(i) {
			served.Legacy = append(served.Legacy, at(i.Capabilities, legacyTasksPath))
		}
		if i.Instructions != "" {
			parts = append(parts, catalog.Part{Upstream: m.key, Text: i.Instructions})
		}
	}
	b := make([]byte, 0, 1024)
	if rev.Era() == mcp.Modern {
		b = append(b, `{"resultType":"complete","supportedVersions":["`...)
		for i, s := range mcp.Supported() {
			if i > 0 {
				b = append(b, `","`...)
			}
			b = append(b, s...)
		}
		b = append(b, `"],"ttlMs":`...)
		b = strconv.AppendInt(b, ttl.Milliseconds(), 10)
		b = append(b, `,"cacheScope":"private","_meta":{"`+mcp.MetaServerInfo+`":`...)
		b = append(b, g.self[rev]...)
		b = append(b, `},"capabilities":`...)
	} else {
		b = append(b, `{"protocolVersion":"`...)
		b = append(b, rev.String()...)
		b = append(b, `","serverInfo":`...)
		b = append(b, g.self[rev]...)
		b = append(b, `,"capabilities":`...)
	}
	b = append(b, catalog.MergeCapabilities(caps, rev, served)...)
	if text := catalog.MergeInstructions(v.doc.Instructions, parts, maxInstructions); text != "" {
		b = append(b, `,"instructions":`...)
		b = wire.AppendString(b, text)
	}
	return append(b, '}'), nil
}

// reachesAny reports whether a caller could see anything of an upstream.
func reachesAny(who catalog.Viewer, upstream string) bool {
	for kind := range mcp.NumKinds {
		if who.Reaches(upstream, kind) {
			return true
		}
	}
	return false
}

// await gives upstreams that were never heard of until list_timeout to show
// themselves. One that has failed before is not waited for.
func (g *Gateway) await(ctx context.Context, v *server) {
	var wg sync.WaitGroup
	var cancel context.CancelFunc
	for _, m := range v.members {
		if m.south.Tried() {
			continue
		}
		if cancel == nil {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(g.doc.Limits.ListTimeout))
			defer cancel()
		}
		wg.Go(func() { m.south.Wait(ctx) })
	}
	wg.Wait()
}

// implementations is how the gateway names itself to each revision.
func implementations(v Version) map[mcp.Revision][]byte {
	full := append([]byte(`{"name":`), wire.AppendString(nil, v.Name)...)
	full = append(full, `,"title":"Penstock","version":`...)
	full = wire.AppendString(full, v.Version)
	full = append(full, '}')
	out := map[mcp.Revision][]byte{}
	for r := mcp.V20250326; r <= mcp.LatestModern; r++ {
		out[r] = mcp.ProjectImplementation(r, nil, full)
	}
	return out
}
