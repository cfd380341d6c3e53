package routing_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// description is an InitializeResult or a DiscoverResult.
type description struct {
	ProtocolVersion   string                    `json:"protocolVersion"`
	SupportedVersions []string                  `json:"supportedVersions"`
	Capabilities      map[string]jsontext.Value `json:"capabilities"`
	Instructions      string                    `json:"instructions"`
	ServerInfo        struct {
		Name string `json:"name"`
	} `json:"serverInfo"`
	Meta map[string]struct {
		Name string `json:"name"`
	} `json:"_meta"`
}

func describe(t *testing.T, a *answer) *description {
	t.Helper()
	d := &description{}
	if err := json.Unmarshal(a.Result, d); err != nil {
		t.Fatalf("description: %v\n%s", err, a.raw)
	}
	return d
}

// both describes a server to a legacy and to a modern client.
func both(t *testing.T, gw *endpoint, server string) map[string]*description {
	t.Helper()
	legacy := &client{url: gw.path(server), revision: legacyRevision}
	return map[string]*description{
		"initialize":      describe(t, legacy.initialize(t)),
		"server/discover": describe(t, gw.modern(server).call(t, "server/discover", "")),
	}
}

// S19. One description, made of every upstream's own, under our name.
func TestS19OneDescriptionIsMadeOfAllUpstreams(t *testing.T) {
	t.Parallel()
	up := peers{
		"a": {instructions: "Ask a first.", caps: `{"tools":{}}`},
		"b": {instructions: "Then ask b.", caps: `{"prompts":{}}`, legacy: true},
	}
	gw := serve(t, up, "  default: {instructions: 'Two servers.'}")
	for method, d := range both(t, gw, "") {
		name := d.ServerInfo.Name
		if method == "server/discover" {
			name = d.Meta["io.modelcontextprotocol/serverInfo"].Name
			if !strings.Contains(strings.Join(d.SupportedVersions, " "), modernRevision) {
				t.Errorf("%s: versions %q", method, d.SupportedVersions)
			}
		} else if d.ProtocolVersion != legacyRevision {
			t.Errorf("%s: version %q", method, d.ProtocolVersion)
		}
		if name != "penstock" {
			t.Errorf("%s: the server is named %q", method, name)
		}
		if len(d.Capabilities) != 2 || d.Capabilities["tools"] == nil || d.Capabilities["prompts"] == nil {
			t.Errorf("%s: capabilities %v", method, d.Capabilities)
		}
		for _, part := range []string{"Two servers.", "Ask a first.", "Then ask b."} {
			if !strings.Contains(d.Instructions, part) {
				t.Errorf("%s: the instructions lack %q: %q", method, part, d.Instructions)
			}
		}
	}
}

// S20, with what this version can route: logging is served, and tasks to clients that
// speak the dialect of an upstream that makes them.
func TestS20ACapabilityIsOnIfOneUpstreamHasItAndItCanBeRouted(t *testing.T) {
	t.Parallel()
	up := peers{
		"a": {caps: `{"tools":{"listChanged":true},"completions":{},"experimental":{"x":{}},"tasks":{"list":{}}}`, legacy: true},
		"b": {caps: `{"resources":{"subscribe":true,"listChanged":true},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{},"com.example/own":{}}}`},
		"c": {caps: `{"prompts":{"listChanged":true}}`},
	}
	gw := serve(t, up, "")
	wanted := map[string]string{
		"tools": `{"listChanged":true}`, "prompts": `{"listChanged":true}`, "resources": `{"listChanged":true,"subscribe":true}`,
		"completions": "{}", "logging": "{}",
	}
	for method, d := range both(t, gw, "") {
		got := map[string]string{}
		for name, value := range d.Capabilities {
			got[name] = string(value)
		}
		wanted := maps.Clone(wanted)
		if method == "server/discover" {
			wanted["extensions"] = `{"io.modelcontextprotocol/tasks":{}}`
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
	}
}

// S21. One upstream that has it is enough, and without any it is not promised.
func TestS21SubscribeIsKeptIfOneUpstreamHasIt(t *testing.T) {
	t.Parallel()
	up := peers{"a": {caps: `{"resources":{}}`}, "b": {caps: `{"resources":{"subscribe":true}}`, legacy: true}}
	for method, d := range both(t, serve(t, up, ""), "") {
		if string(d.Capabilities["resources"]) != `{"listChanged":true,"subscribe":true}` {
			t.Errorf("%s: %s", method, d.Capabilities["resources"])
		}
	}
	up = peers{"a": {caps: `{"resources":{}}`}, "b": {caps: `{"resources":{"subscribe":false}}`, legacy: true}}
	for method, d := range both(t, serve(t, up, ""), "") {
		if string(d.Capabilities["resources"]) != `{"listChanged":true}` {
			t.Errorf("%s: %s", method, d.Capabilities["resources"])
		}
	}
}

// S22. It is advertised whatever the upstreams say, for one that comes late is
// announced (DESIGN section 4).
func TestS22ListChangedIsAdvertisedAndRelayed(t *testing.T) {
	t.Parallel()
	up := peers{"a": {caps: `{"tools":{},"prompts":{"listChanged":false},"resources":{}}`}}
	for method, d := range both(t, serve(t, up, ""), "") {
		for _, kind := range []string{"tools", "prompts", "resources"} {
			if string(d.Capabilities[kind]) != `{"listChanged":true}` {
				t.Errorf("%s: %s %s", method, kind, d.Capabilities[kind])
			}
		}
	}
}

// S23. Nothing hangs on which upstream comes first.
func TestS23TheDescriptionDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	caps := []string{`{"tools":{}}`, `{"prompts":{}}`, `{"logging":{},"resources":{}}`}
	var first *description
	for round := range 3 {
		up := peers{}
		for i, key := range []string{"a", "b", "c"} {
			up[key] = &peer{caps: caps[(i+round)%3], legacy: (i+round)%3 == 1}
		}
		gw := serve(t, up, "")
		for method, d := range both(t, gw, "") {
			if first == nil {
				first = d
			}
			if diff := cmp.Diff(first.Capabilities, d.Capabilities); diff != "" {
				t.Errorf("round %d, %s: %s", round, method, diff)
			}
		}
	}
}

func TestS24WhereNothingIsReportedNothingIsPromised(t *testing.T) {
	t.Parallel()
	for name, up := range map[string]peers{
		"no capabilities": {"a": {caps: `{}`}, "b": {caps: `{}`, legacy: true}},
		"no upstreams":    {},
		"nobody there":    {"a": down(), "b": down()},
	} {
		gw := serve(t, up, "")
		for method, d := range both(t, gw, "") {
			if d.Capabilities == nil || len(d.Capabilities) != 0 {
				t.Errorf("%s, %s: %v", name, method, d.Capabilities)
			}
		}
	}
}

func down() *peer {
	p := &peer{}
	p.down.Store(true)
	return p
}

// S25. Even a single upstream's description is not handed through.
func TestS25TheDescriptionIsNotCopiedFromOneUpstream(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		up := peers{"only": {legacy: legacy, caps: `{"tools":{"listChanged":true,"x":1},"com.example":{},"experimental":{}}`}}
		gw := serve(t, up, "  default: {naming: passthrough}")
		for method, d := range both(t, gw, "") {
			if len(d.Capabilities) != 1 || string(d.Capabilities["tools"]) != `{"listChanged":true}` {
				t.Errorf("%s: %v", method, d.Capabilities)
			}
			if d.ServerInfo.Name == "peer" || d.Meta["io.modelcontextprotocol/serverInfo"].Name == "peer" {
				t.Errorf("%s shows the upstream's name", method)
			}
		}
	}
}

// S26, and the row S38. DESIGN section 7: DELETE removes exactly that session's
// state, after it was accepted.
func TestS26DeleteEndsOneSessionAndNoOther(t *testing.T) {
	t.Parallel()
	up := peers{"a": {legacy: true, tools: items("tools", "x")}, "b": {tools: items("tools", "x")}}
	gw := serve(t, up, "")
	gone, stays := gw.legacy(t, "", legacyRevision), gw.legacy(t, "", "2025-06-18")
	sessions := map[*client]string{}
	for _, c := range []*client{gone, stays} {
		want(t, c.named(t, "tools/call", "a__x"), up["a"], "tools/call", "x")
		sessions[c] = up["a"].last(t, "tools/call").header.Get("Mcp-Session-Id")
	}
	if sessions[gone] == sessions[stays] {
		t.Fatal("two northern sessions share a southern one")
	}

	// What is refused changes nothing.
	stranger := *gone
	stranger.session = "made-up"
	if a := stranger.send(t, http.MethodDelete, nil, nil); a.status != http.StatusNotFound {
		t.Errorf("DELETE of an unknown session: HTTP %d", a.status)
	}
	stranger.session = ""
	if a := stranger.send(t, http.MethodDelete, nil, nil); a.status != http.StatusBadRequest {
		t.Errorf("DELETE without session: HTTP %d", a.status)
	}
	want(t, gone.named(t, "tools/call", "a__x"), up["a"], "tools/call", "x")

	if a := gone.send(t, http.MethodDelete, nil, nil); a.status/100 != 2 {
		t.Fatalf("DELETE: HTTP %d %s", a.status, a.raw)
	}
	if a := gone.named(t, "tools/call", "a__x"); a.status != http.StatusNotFound {
		t.Errorf("a call in a session that has ended: HTTP %d %s", a.status, a.raw)
	}
	if a := gone.send(t, http.MethodDelete, nil, nil); a.status != http.StatusNotFound {
		t.Errorf("DELETE again: HTTP %d", a.status)
	}
	waitFor(t, "the upstream is told", func() bool { return len(up["a"].got(http.MethodDelete)) > 0 })
	if got := up["a"].last(t, http.MethodDelete).header.Get("Mcp-Session-Id"); got != sessions[gone] {
		t.Errorf("the upstream's session %q was ended, not %q", got, sessions[gone])
	}
	want(t, stays.named(t, "tools/call", "a__x"), up["a"], "tools/call", "x")
	if got := up["a"].last(t, "tools/call").header.Get("Mcp-Session-Id"); got != sessions[stays] {
		t.Errorf("the other client's southern session changed from %q to %q", sessions[stays], got)
	}
	if n := len(up["a"].got(http.MethodDelete)); n != 1 {
		t.Errorf("%d sessions were ended", n)
	}
}
