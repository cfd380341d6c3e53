package routing_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// reserved are the keys of a _meta that belong to one hop (checklist 157).
var reserved = []string{
	"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/clientInfo",
	"io.modelcontextprotocol/logLevel", "io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId",
}

const originTag = "penstock/upstream"

// house is a virtual server with what the oracle must know of it.
type house struct {
	about   string
	gw      *endpoint
	server  string
	naming  string // namespaced, prefixed; passthrough also for prefixed with one upstream
	sep     string
	tag     bool
	targets map[string][]target // by list method
	clients map[string]*client  // by revision
}

// target is one thing that a house offers.
type target struct{ key, id, exposed string }

// mapURI is the rule for URIs, written down once more.
func (h *house) mapURI(key, uri string) string {
	switch {
	case h.naming == "passthrough":
		return uri
	case strings.HasPrefix(uri, "ui://"):
		return "ui://" + key + "/" + strings.TrimPrefix(uri, "ui://")
	case h.naming == "prefixed":
		return key + h.sep + uri
	}
	return uri
}

// street is some gateways with random naming rules, each before a modern and a
// legacy upstream.
type street struct {
	houses []*house
	peers  map[*endpoint]peers
}

func build(t *testing.T, seed uint64) *street {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	s := &street{peers: map[*endpoint]peers{}}
	for n := range 4 {
		keys := []string{pick("a", "gateway-one", "9lives", "A.b"), pick("a-b", "gateway-two", "x_y", "zz.top")}
		up := peers{keys[0]: {legacy: n%2 == 0}, keys[1]: {legacy: n%2 == 1}}
		up[keys[0]].namespace = pick("", "", "ns", "n-s")
		for key, p := range up {
			p.fill(key)
		}
		nsSep, preSep := pick("__", "-x-", "___"), pick("-", "--", "_", ".")
		var b strings.Builder
		fmt.Fprintf(&b, "  default:\n    separator: %q\n    origin_tag: %t\n    aliases: {Some.Alias: {upstream: %s, tool: plain}}\n", nsSep, n != 1, keys[n%2])
		fmt.Fprintf(&b, "  pre:\n    naming: prefixed\n    separator: %q\n    origin_tag: %t\n", preSep, n != 2)
		fmt.Fprintf(&b, "  pass: {naming: passthrough, upstreams: [%s]}\n", keys[0])
		fmt.Fprintf(&b, "  alone: {naming: prefixed, upstreams: [%s]}\n", keys[1])
		gw := serve(t, up, b.String())
		s.peers[gw] = up
		s.houses = append(s.houses,
			&house{server: "", naming: "namespaced", sep: nsSep, tag: n != 1, gw: gw},
			&house{server: "pre", naming: "prefixed", sep: preSep, tag: n != 2, gw: gw},
			&house{server: "pass", naming: "passthrough", tag: true, gw: gw},
			&house{server: "alone", naming: "passthrough", tag: true, gw: gw})
	}
	for i, h := range s.houses {
		h.about = fmt.Sprintf("gateway %d, server %q (%s)", i/4, h.server, h.naming)
		h.clients = map[string]*client{modernRevision: h.gw.modern(h.server)}
		for _, revision := range []string{"2025-03-26", "2025-06-18", legacyRevision} {
			h.clients[revision] = h.gw.legacy(t, h.server, revision)
		}
		h.targets = map[string][]target{}
		for _, method := range lists {
			for _, i := range h.clients[modernRevision].walk(t, method) {
				key, id, _ := strings.Cut(i.Description, "|")
				h.targets[method] = append(h.targets[method], target{key, id, i.id()})
			}
			if len(h.targets[method]) < 4 {
				t.Fatalf("%s lists only %v", h.about, h.targets[method])
			}
		}
	}
	return s
}

// fill gives a peer things with odd names; descriptions tell whose they are.
func (p *peer) fill(key string) {
	about := func(items []string) []string {
		for i := range items {
			items[i] = strings.Replace(items[i], `"description":"`, `"description":"`+key+"|", 1)
		}
		return items
	}
	names := []string{"plain", "with.dot", "a__b", "a-b", "größe", "with space", `q"uote`, `b\s`, "日本", strings.Repeat("long", 30)}
	p.tools, p.prompts = about(items("tools", names...)), about(items("prompts", names...))
	p.resources = about(items("resources", "x://"+key+"/é", "x://"+key+"/plain?q=1&r=%20", "ui://panel/"+key, `x://`+key+`/q"`, "ui://p"))
	p.templates = about(items("templates", "t://"+key+"/{id}", "t://"+key+"/é/{+rest}", "ui://t/{x}", "ui://{y}"))
}
