package gateway

import (
	"context"
	"slices"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// NamesChanged is what a change of document did to the names that a virtual
// server exposes.
type NamesChanged struct {
	Server         string
	Kind           mcp.Kind
	Added, Removed []string // in order
}

// Announce compares what two gateways expose and hands every difference to
// announce. It asks the upstreams for lists, within ctx. A list that the
// predecessor had not merged cannot be compared and is passed over: no client
// can have seen it.
func Announce(ctx context.Context, before, after *Gateway) {
	for _, name := range after.doc.ServerNames() {
		was := before.servers[name]
		if was == nil {
			continue
		}
		scope := catalog.Scope{Principal: after.principal.Key}
		for kind := range mcp.NumKinds {
			old, ok := was.catalog.Held(scope, kind)
			if !ok {
				continue
			}
			now, err := after.servers[name].catalog.Names(ctx, scope, kind)
			if err != nil {
				after.log.Debug("names not compared after a reload", "server", name, "kind", kind.String(), "error", err)
				continue
			}
			c := NamesChanged{Server: name, Kind: kind, Added: missing(old, now), Removed: missing(now, old)}
			if len(c.Added)+len(c.Removed) > 0 {
				after.announce(c)
			}
		}
	}
}

// missing returns what of b is not in a; both are sorted.
func missing(a, b []string) (out []string) {
	for _, s := range b {
		if _, there := slices.BinarySearch(a, s); !there {
			out = append(out, s)
		}
	}
	return out
}

// shown bounds how many names one log line holds.
const shown = 20

// announce tells the operator of changed names. Clients that listen are told by
// the board, which compares whole lists.
func (g *Gateway) announce(c NamesChanged) {
	g.log.Info("names changed", "server", c.Server, "kind", c.Kind.String(),
		"added", len(c.Added), "removed", len(c.Removed),
		"new", c.Added[:min(len(c.Added), shown)], "gone", c.Removed[:min(len(c.Removed), shown)])
}
