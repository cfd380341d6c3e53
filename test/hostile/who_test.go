package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// two are two people, and a gateway for them.
func two(t *testing.T, ups members, more string) (g *gateway, id *issuer, a, b *person) {
	t.Helper()
	id = newIssuer(t)
	g = serve(t, document(ups, nil, calm+"\n"+id.section("")+more))
	a, b = id.known(t, person{subject: "alice", tenant: "t"}), id.known(t, person{subject: "bob", tenant: "t"})
	return g, id, a, b
}

func TestADenialIsAnErrorOfItsCallAlone_agentgateway2082(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t", "hidden")
		g, _, a, _ := two(t, members{"a": u}, `
policy:
  - {id: all, allow: {tools: ["*"]}}
  - {id: hidden, deny: {tools: ["*hidden"]}}
  - {id: no-prod, deny: {tools: ["*"]}, when: 'has(arguments.env) && arguments.env == "prod"'}
`)
		c := g.as(a.token)
		session := c.legacy("2025-11-25")
		for era, c := range map[string]caller{"modern": c, "legacy": session} {
			for _, accept := range []string{"application/json", "text/event-stream", "application/json, text/event-stream"} {
				params := `"name":"a__t","arguments":{"env":"prod"}`
				var r *reply
				if era == "legacy" {
					r = session.send(`{"jsonrpc":"2.0","id":"d-1","method":"tools/call","params":{`+params+`}}`, "Accept", accept)
				} else {
					r = c.(*client).post(modernBody(`"d-1"`, "tools/call", params), append(modernHeaders("tools/call", "a__t"), "Accept", accept)...)
				}
				if at(r.message(), "error", "code") != "-31004" || at(r.message(), "id") != `"d-1"` || r.Status >= 500 || era == "legacy" && r.Status != http.StatusOK {
					t.Errorf("%s, %s: %v", era, accept, r)
				}
			}
			wantError(t, c.request("tools/call", `"name":"a__hidden","arguments":{}`), http.StatusOK, -32602)
			healthy(t, c, "a__t") // the session is as it was
		}
		for _, r := range u.requests("tools/call") {
			if text(r.Params, "arguments", "env") == "prod" || text(r.Params, "name") == "hidden" {
				t.Errorf("a denied call reached the upstream: %s", r.Params)
			}
		}
	})
}

func TestAPolicyHoldsOnEveryPath_zentinel463(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("rm", "ls")
		for _, deny := range []string{"a__rm", "clean", "*rm", "c*n"} {
			g, _, a, _ := two(t, members{"a": u, "b": newModern(t).tool("other")}, `
servers:
  default: {aliases: {clean: {upstream: a, tool: rm}}}
  pre: {naming: prefixed, aliases: {clean: {upstream: a, tool: rm}}}
  raw: {naming: passthrough, upstreams: [a], aliases: {clean: {upstream: a, tool: rm}}}
policy:
  - {id: all, allow: {tools: ["*"], prompts: ["*"], resources: ["*"]}}
  - {id: rm, deny: {tools: ["`+deny+`"]}}
`)
			for path, fine := range map[string]string{"/mcp": "a__ls", "/servers/pre/mcp": "a-ls", "/servers/raw/mcp": "ls"} {
				c := g.at(path).as(a.token)
				for era, each := range c.clients() {
					if got := names(t, each, "tools/list"); !slices.Contains(got, fine) || slices.ContainsFunc(got, func(s string) bool { return s == "clean" || strings.Contains(s, "rm") }) {
						t.Errorf("deny %q at %s: %s lists %v", deny, path, era, got)
					}
					ways := []string{"rm", "clean", "a__rm", "a-rm"}
					if path == "/servers/raw/mcp" {
						ways = ways[:2] // a name that is passed through is another tool's
					}
					for _, name := range ways {
						wantError(t, each.request("tools/call", `"name":"`+name+`"`), http.StatusOK, -32602)
					}
					healthy(t, each, fine)
				}
				s := c.legacy("2025-03-26")
				r := s.send(`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + strings.Replace(fine, "ls", "rm", 1) + `"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"clean"}}]`)
				for i := range 2 {
					if at(r.message(), i, "error", "code") != "-32602" {
						t.Errorf("deny %q at %s in a batch: %v", deny, path, r)
					}
				}
			}
		}
		for _, r := range u.requests("tools/call") {
			if text(r.Params, "name") == "rm" {
				t.Error("a denied call reached the upstream")
			}
		}
	})
}

func TestListsThatDifferPerUserAreNobodyElses_modelcontextprotocol3207(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("a1", "a2", "a3", "b1", "b2", "b3", "c1") // and they are public, it says
	g, _, a, b := two(t, members{"u": u}, `
servers: {default: {page_size: 2}}
policy:
  - {id: a, who: {subject: [alice]}, allow: {tools: ["u__a*", "u__c*"]}}
  - {id: b, who: {subject: [bob]}, allow: {tools: ["u__b*", "u__c*"]}}
`)
	want := map[string][]string{"alice": {"u__a1", "u__a2", "u__a3", "u__c1"}, "bob": {"u__b1", "u__b2", "u__b3", "u__c1"}}
	var all sync.WaitGroup
	for _, p := range []*person{a, b} {
		for _, each := range g.as(p.token).clients() {
			all.Go(func() {
				for range 10 {
					if got := names(t, each, "tools/list"); !slices.Equal(got, want[p.subject]) {
						t.Errorf("%s lists %v", p.subject, got)
					}
				}
			})
		}
	}
	all.Wait()
	first := wantResult(t, g.as(a.token).modern("tools/list", ""))
	if text(first, "cacheScope") != "private" {
		t.Errorf("the scope of what is somebody's: %s", first)
	}
	wantError(t, g.as(b.token).modern("tools/list", `"cursor":`+at(first, "nextCursor")), http.StatusOK, -32602)
}

// asking has a tool ask, which asks its user first.
func asking(u *upstream) *upstream {
	const question = `"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}`
	u.tool("ask")
	if u.legacy == "" {
		return u.handle("tools/call", func(x *exchange) {
			if at(x.Params, "inputResponses") == "" {
				x.result(`{"resultType":"input_required","inputRequests":{"q":{` + question + `}},"requestState":"mine"}`)
				return
			}
			x.result(`{"content":[{"type":"text","text":"ok"}]}`)
		})
	}
	heard := make(chan string, 8)
	u.handle("", func(x *exchange) { // a response has no method
		heard <- string(x.Raw)
		x.w.WriteHeader(http.StatusAccepted)
	})
	return u.handle("tools/call", func(x *exchange) {
		x.stream(event(`{"jsonrpc":"2.0","id":"q-1",` + question + `}`))
		select {
		case <-heard:
			x.stream(event(x.message(done)))
		case <-x.r.Context().Done():
		case <-u.closed:
		}
	})
}

// asked calls the tool as a client that can be asked.
func asked(c *client, params string) *reply {
	body := strings.Replace(modernBody("1", "tools/call", params), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{"form":{}}}`, 1)
	return c.post(body, modernHeaders("tools/call", "a__ask")...)
}

func TestAQuestionIsNotAnsweredByAnotherUser_mcpnest262(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		g, id, a, b := two(t, members{"a": asking(u)}, "")
		first := wantResult(t, asked(g.as(a.token), `"name":"a__ask"`))
		key := "q"
		if u.legacy != "" {
			key = keysOf(at(first, "inputRequests"))[0]
		}
		retry := `"name":"a__ask","requestState":` + at(first, "requestState") + `,"inputResponses":{` + quote(key) + `:{"action":"accept","content":{}}}`
		before := len(u.requests("tools/call")) + len(u.requests(""))
		twin := id.known(t, person{subject: "alice", tenant: "another"})
		garbage := asked(g.as(b.token), strings.Replace(retry, at(first, "requestState"), `"garbage"`, 1))
		for who, p := range map[string]*person{"another user": b, "the same name elsewhere": twin} {
			r := asked(g.as(p.token), retry)
			wantError(t, r, http.StatusOK, -32602)
			if r.Body != garbage.Body {
				t.Errorf("%s is told %v, and of garbage %v", who, r, garbage)
			}
		}
		if n := len(u.requests("tools/call")) + len(u.requests("")) - before; n != 0 {
			t.Errorf("%d of the retries reached the upstream", n)
		}
		again := id.known(t, person{subject: "alice", tenant: "t"}) // a newer token
		if got := text(wantResult(t, asked(g.as(again.token), retry)), "content", 0, "text"); got != "ok" {
			t.Errorf("the user's own answer: %q", got)
		}
	})
}

// keysOf are the names of a raw object's members.
func keysOf(raw string) (out []string) {
	var m map[string]jsontext.Value
	_ = json.Unmarshal([]byte(raw), &m) // what is no object has none
	for k := range m {
		out = append(out, k)
	}
	return sorted(out...)
}

func TestWhatIsAnotherUsersIsUnknown_toolhive3867(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t", "t2", "t3")
		g, _, a, b := two(t, members{"a": u}, "servers: {default: {page_size: 1}}\n")
		s := g.as(a.token).legacy("2025-11-25")
		healthy(t, s, "a__t")
		before := len(u.requests("tools/call"))
		stolen, made := *s, *s
		stolen.client, made.client, made.id = s.as(b.token), s.as(b.token), strings.Repeat("x", len(s.id))
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t"}}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":"q-1","result":{}}`,
		} {
			r, unknown := stolen.send(body), made.send(body)
			if r.Status != http.StatusNotFound || r.Body != unknown.Body {
				t.Errorf("%s: %v, and of an unknown session %v", body, r, unknown)
			}
		}
		for _, verb := range []string{http.MethodGet, http.MethodDelete} {
			r, err := stolen.do(context.Background(), verb, "", append(stolen.headers(), "Accept", "text/event-stream")...)
			if err != nil || r.Status != http.StatusNotFound {
				t.Errorf("%s: %v, %v", verb, r, err)
			}
		}
		healthy(t, s, "a__t") // it is still there
		cursor := at(wantResult(t, g.as(a.token).modern("tools/list", "")), "nextCursor")
		theirs, none := g.as(b.token).modern("tools/list", `"cursor":`+cursor), g.as(b.token).modern("tools/list", `"cursor":"garbage"`)
		wantError(t, theirs, http.StatusOK, -32602)
		if theirs.Body != none.Body {
			t.Errorf("another's cursor: %v, and garbage: %v", theirs, none)
		}
		wantResult(t, g.as(a.token).modern("tools/list", `"cursor":`+cursor))
		if n := len(u.requests("tools/call")) - before; n != 1 {
			t.Errorf("%d calls reached the upstream", n)
		}
	})
}

func TestARefreshedTokenGoesOnWithItsSession_toolhive5306(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		counter(u)
		g, id, a, _ := two(t, members{"a": u}, "")
		s := g.as(a.token).legacy("2025-11-25")
		for i := range 5 {
			next := id.known(t, person{subject: a.subject, tenant: a.tenant, scopes: []string{fmt.Sprint("s", i)}})
			if next.token == a.token {
				t.Fatal("the token is not a new one")
			}
			fresh := *s
			fresh.client, fresh.ids = s.as(next.token), int64(10*i)
			got := count(t, &fresh)
			if u.legacy != "" && got != fmt.Sprint(i+1) {
				t.Errorf("token %d: the session upstream counts %s", i, got)
			}
		}
		for who, p := range map[string]person{"another subject": {subject: "bob", tenant: a.tenant}, "another tenant": {subject: a.subject, tenant: "u"}} {
			other := *s
			other.client = s.as(id.known(t, p).token)
			if r := other.call("ping", ""); r.Status != http.StatusNotFound {
				t.Errorf("%s: %v", who, r)
			}
		}
	})
}

func TestARevokedTokenAndAMissingScopeAreRefused_contextforge6250(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	file := filepath.Join(t.TempDir(), "revoked.txt")
	if err := os.WriteFile(file, []byte("nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := newIssuer(t)
	g := serve(t, document(members{"a": u}, nil, calm+"\n"+id.section(", required_scopes: [mcp], revoked: "+quote(file))+`
policy:
  - {id: runs, who: {scopes: [tools.execute]}, allow: {tools: ["*"]}}
`))
	one := id.known(t, person{subject: "alice", tenant: "t", scopes: []string{"mcp", "tools.execute"}})
	two := id.known(t, person{subject: "alice", tenant: "t", scopes: []string{"mcp", "tools.execute"}})
	without := id.known(t, person{subject: "alice", tenant: "t", scopes: []string{"mcp"}})
	none := id.known(t, person{subject: "alice", tenant: "t", scopes: []string{"tools.execute"}})

	healthy(t, g.as(one.token), "a__t")
	session := g.as(one.token).legacy("2025-11-25")
	healthy(t, session, "a__t")
	ran := len(u.requests("tools/call"))

	// A scope that every token needs, and one that a rule does.
	if r := g.as(none.token).modern("tools/call", `"name":"a__t"`); r.Status != http.StatusForbidden || !strings.Contains(r.Header.Get("WWW-Authenticate"), "insufficient_scope") {
		t.Errorf("without a scope that is required: %v", r)
	}
	for era, c := range g.as(without.token).clients() {
		if got := names(t, c, "tools/list"); len(got) != 0 {
			t.Errorf("%s lists %v without the scope of the rule", era, got)
		}
		wantError(t, c.request("tools/call", `"name":"a__t"`), http.StatusOK, -32602)
	}
	if n := len(u.requests("tools/call")) - ran; n != 0 {
		t.Errorf("%d calls without a scope reached the upstream", n)
	}

	if err := os.WriteFile(file, []byte("nobody\n"+one.jti+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revoked token is refused", 20*time.Second, func() bool {
		return g.as(one.token).modern("tools/list", "").Status == http.StatusUnauthorized
	})
	ran = len(u.requests("tools/call"))
	for what, r := range map[string]*reply{"a call": g.as(one.token).modern("tools/call", `"name":"a__t"`), "a call in a session": session.call("tools/call", `"name":"a__t"`)} {
		if r.Status != http.StatusUnauthorized || !strings.Contains(r.Header.Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%s with a revoked token: %v", what, r)
		}
	}
	if n := len(u.requests("tools/call")) - ran; n != 0 {
		t.Errorf("%d calls with a revoked token reached the upstream", n)
	}
	healthy(t, g.as(two.token), "a__t")
	fresh := *session
	fresh.client = session.as(two.token)
	healthy(t, &fresh, "a__t") // the session is the user's, not the token's
}
