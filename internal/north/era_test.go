package north

import (
	"strings"
	"testing"
)

// Checklist 5, T2 to T4: version metadata first, method second.
func TestEraIsDecidedByMetadataThenMethod(t *testing.T) {
	f := open(t, &rooms{})
	session := f.initialize("2025-06-18")
	const (
		initialize = `"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}`
		tools      = `"method":"tools/list","params":{`
	)
	for _, c := range []struct {
		what, headers, body string
		status, code        int
		mints               bool
	}{
		{"initialize alone is legacy", "", initialize + `}`, 200, 0, true},
		{"initialize with its own legacy header is legacy", "Mcp-Protocol-Version=2025-06-18", initialize + `}`, 200, 0, true},
		{"initialize with a garbage header is legacy", "Mcp-Protocol-Version=banana", initialize + `}`, 200, 0, true},
		{"initialize with modern metadata is an unknown method", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=initialize", initialize + `,` + meta + `}`, 404, -32601, false},
		{"initialize with a modern header lacks metadata", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=initialize", initialize + `}`, 400, -32602, false},
		{"ping with modern metadata is an unknown method", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=ping", `"method":"ping","params":{` + meta + `}`, 404, -32601, false},
		{"setLevel with modern metadata is an unknown method", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=logging/setLevel", `"method":"logging/setLevel","params":{"level":"info",` + meta + `}`, 404, -32601, false},
		{"subscribe with modern metadata is an unknown method", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=resources/subscribe", `"method":"resources/subscribe","params":{"uri":"a",` + meta + `}`, 404, -32601, false},
		{"tasks/list with modern metadata is an unknown method", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=tasks/list", `"method":"tasks/list","params":{` + meta + `}`, 404, -32601, false},
		{"modern metadata within a session is modern", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=tools/list&Mcp-Session-Id=$S", tools + meta + `}`, 200, 0, false},
		{"modern metadata with the session's header is a mismatch", "Mcp-Protocol-Version=2025-06-18&Mcp-Method=tools/list&Mcp-Session-Id=$S", tools + meta + `}`, 400, -32020, false},
		{"a modern header without metadata", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=tools/list", tools + `}`, 400, -32602, false},
		{"nothing at all needs a session", "", tools + `}`, 400, -32600, false},
		{"a legacy header without a session", "Mcp-Protocol-Version=2025-06-18", tools + `}`, 400, -32600, false},
		{"an empty session id", "Mcp-Session-Id=", tools + `}`, 400, -32600, false},
		{"a session speaks without a header", "Mcp-Session-Id=$S", tools + `}`, 200, 0, false},
		{"a session speaks with its header", "Mcp-Session-Id=$S&Mcp-Protocol-Version=2025-06-18", tools + `}`, 200, 0, false},
		{"a session with a garbage header", "Mcp-Session-Id=$S&Mcp-Protocol-Version=banana", tools + `}`, 400, -32022, false},
		{"an unknown session", "Mcp-Session-Id=nope", tools + `}`, 404, -32001, false},
		{"two session ids", "Mcp-Session-Id=$S|$S", tools + `}`, 400, -32600, false},
		{"an unknown method within a session is no 404", "Mcp-Session-Id=$S", `"method":"no/such"`, 200, -32601, false},
		{"server/discover within a session is unknown", "Mcp-Session-Id=$S", `"method":"server/discover"`, 200, -32601, false},
		{"initialize again within a session", "Mcp-Session-Id=$S", initialize + `}`, 400, -32600, false},
		{"two versions without metadata", "Mcp-Protocol-Version=2025-06-18|2025-06-18", tools + `}`, 400, -32020, false},
	} {
		h := map[string]string{}
		for kv := range strings.SplitSeq(c.headers, "&") {
			if k, v, ok := strings.Cut(kv, "="); ok {
				h[k] = strings.ReplaceAll(v, "$S", session)
			}
		}
		g := f.post(`{"jsonrpc":"2.0","id":3,`+c.body+`}`, h)
		if g.status != c.status || g.code(t) != c.code {
			t.Errorf("%s: HTTP %d %s; want %d with %d", c.what, g.status, g.body, c.status, c.code)
		}
		if minted := g.header.Get("Mcp-Session-Id") != ""; minted != c.mints {
			t.Errorf("%s: session minted: %v", c.what, minted)
		}
	}
}
