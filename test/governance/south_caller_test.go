package governance_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/test/idp"
)

// machineKey is an API key of a caller that has no token.
const machineKey = "the-machines-own-key-0123456789"

// southern is a document of upstreams, given as lines of YAML, for callers of a provider and for the machine.
func southern(p *idp.Provider, upstreams, more string) string {
	sum := sha256.Sum256([]byte(machineKey))
	return fmt.Sprintf(`
limits: {list_timeout: 10s, call_timeout: 30s}
auth:
  jwt:
    - {issuer: %q, audience: %q, algorithms: [RS256, ES256]}
  api_keys:
    - {name: machine, hash: "sha256:%s", subject: machine, scopes: [mcp]}
%s
upstreams:
%s`, p.Issuer(), audience, hex.EncodeToString(sum[:]), more, upstreams)
}

// up is a line of upstreams.
func up(key, url, credentials string) string {
	return fmt.Sprintf("  %s: {url: %q, credentials: {%s}}\n", key, url, credentials)
}

// exchangeFor are credentials that exchange the caller's token for an audience.
func exchangeFor(p *idp.Provider, audience string) string {
	p.Client("gateway", "gateway-secret", idp.TokenExchange)
	return fmt.Sprintf("exchange: {token_url: %q, client_id: gateway, client_secret: gateway-secret, audience: %q}", p.TokenURL(), audience)
}

// passing are credentials that pass the caller's token on.
const passing = `passthrough: {audience: "` + upstreamAudience + `"}`

// tokenOf is a new token of somebody for the gateway and the upstream.
func tokenOf(t *testing.T, p *idp.Provider, subject string) string {
	t.Helper()
	return p.Token(t, idp.TokenSpec{Subject: subject, Audience: []string{audience, upstreamAudience}, Scopes: []string{"mcp"}})
}

// holder reads whose a value of Authorization is, and what it is for; "": it is no token.
func holder(authorization []string) (subject, audiences string) {
	if len(authorization) != 1 {
		return "", ""
	}
	_, claims, err := idp.Read(strings.TrimPrefix(authorization[0], "Bearer "))
	if err != nil {
		return "", ""
	}
	return fmt.Sprint(claims["sub"]), fmt.Sprint(claims["aud"])
}

// demanding has an upstream take nothing without a token of its audience.
func demanding(u *keeper) *keeper {
	u.admits = func(authorization []string) bool {
		_, audiences := holder(authorization)
		return strings.Contains(audiences, upstreamAudience)
	}
	return u
}

// guest is a party of one token or more.
func guest(t *testing.T, g *gateway, name string, tokens ...string) *party {
	t.Helper()
	p := &party{name: name, ears: &ears{by: map[string]map[string]string{}}, http: g.http, urls: []string{g.url}}
	p.keys = [2]string{tokens[0], tokens[len(tokens)-1]}
	return p
}

// get sends a request that must be answered.
func (p *party) get(t *testing.T, q *request) *said {
	t.Helper()
	r, err := p.send(q)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return r
}

// want sends a request whose answer must have texts.
func (p *party) want(t *testing.T, q *request, texts ...string) *said {
	t.Helper()
	r := p.get(t, q)
	if r.Status != http.StatusOK || !holdsAll(r.message(), texts) {
		t.Fatalf("%s: want %q, got %v", p.name, texts, r)
	}
	return r
}

// code sends a request that must be refused with a code, and nothing secret.
func (p *party) code(t *testing.T, q *request, code int) *said {
	t.Helper()
	r := p.get(t, q)
	if member(r.message(), "error", "code") != fmt.Sprint(code) {
		t.Errorf("%s: want %d, got %v", p.name, code, r)
	}
	for _, key := range p.keys {
		if strings.Contains(r.Body+fmt.Sprint(r.Header), key) {
			t.Errorf("%s: the answer repeats the token", p.name)
		}
	}
	return r
}

// oneCall is a call of a modern client.
func oneCall(key int, name, nonce string) *request {
	return modern(0, key, "tools/call", name, named(name, nonce))
}

// opened begins a session that can be asked.
func (p *party) opened(t *testing.T) *northern {
	t.Helper()
	r := p.want(t, &request{
		verb: http.MethodPost,
		body: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + legacyVersion + `","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`,
	}, legacyVersion)
	return &northern{id: r.Header.Get("Mcp-Session-Id"), version: legacyVersion, subscribed: map[string]bool{}}
}

// secretsOf are the parts of tokens that must be nowhere: the signatures.
func secretsOf(tokens ...string) (out []string) {
	for _, token := range tokens {
		token = strings.TrimPrefix(token, "Bearer ")
		if cut := strings.LastIndexByte(token, '.'); cut >= 0 {
			token = token[cut+1:]
		}
		out = append(out, token)
	}
	return out
}

// until waits for something.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(apartWait); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

// perCaller runs a test with each kind of credential that is the caller's.
func perCaller(t *testing.T, f func(t *testing.T, p *idp.Provider, credentials string)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []string{"exchange", "passthrough"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := idp.Start(t)
			credentials := passing
			if kind == "exchange" {
				credentials = exchangeFor(p, upstreamAudience)
			}
			f(t, p, credentials)
		})
	}
}

func TestALegacySessionIsOneCallersFromItsBeginningToItsEnd(t *testing.T) {
	perCaller(t, func(t *testing.T, p *idp.Provider, credentials string) {
		u := demanding(newKeeper(t, true))
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		g := serve(t, southern(p, up("l", u.URL+"/mcp", credentials), fmt.Sprintf("audit: {file: %q, flush: 10ms, arguments: on}", file)))
		var tokens []string
		var bodies strings.Builder
		var done []*party
		for _, name := range []string{"alice", "bob", "carol"} {
			one, two := tokenOf(t, p, name), tokenOf(t, p, name)
			tokens = append(tokens, one, two)
			c := guest(t, g, name, one, two)
			done = append(done, c)
			// A modern client: lists, a call, and one that asks, which is answered with another token of the same caller.
			bodies.WriteString(c.want(t, modern(0, 0, "tools/list", "", ""), "only_mark-L").Body)
			bodies.WriteString(c.want(t, oneCall(0, "l__echo", name), "echo mark-L", name).Body)
			asked := c.want(t, oneCall(0, "l__ask", name), "input_required", name)
			s := &openState{tool: "l__ask", nonce: name, state: textAt(asked.message(), "result", "requestState"), key: keyOf(asked)}
			c.want(t, s.answering(0, 1, s.state, "of "+name), "asked", "of "+name)
			gone, err := c.open(oneCall(0, "l__hold", name+" goes"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := gone.next("progress"); err != nil {
				t.Fatal(err)
			}
			gone.end()
			until(t, "the upstream was told that the call is given up", func() bool { return u.gaveUp(name + " goes") })
			// A legacy client: a session, lists, a call, one that is cancelled, one that asks, and the end.
			n := c.opened(t)
			q, _ := n.call(0, 0, "tools/list", "")
			c.want(t, q, "only_mark-L")
			q, _ = n.call(0, 1, "tools/call", named("l__echo", name))
			c.want(t, q, "echo mark-L", name)
			q, id := n.call(0, 0, "tools/call", named("l__hold", name+" cancels")+`,"_meta":{"progressToken":"tok"}`)
			held, err := c.open(q)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := held.next("progress"); err != nil {
				t.Fatal(err)
			}
			if r := c.get(t, n.in(0, 1, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)); r.Status != http.StatusAccepted {
				t.Errorf("cancel: %v", r)
			}
			until(t, "the upstream was told of the cancel", func() bool { return u.gaveUp(name + " cancels") })
			held.end()
			q, _ = n.call(0, 0, "tools/call", named("l__ask", name))
			call, err := c.open(q)
			if err != nil {
				t.Fatal(err)
			}
			question, err := call.next("elicitation/create", name)
			if err != nil {
				t.Fatal(err)
			}
			c.get(t, n.in(0, 1, answerOf(member(question, "id"), "of "+name)))
			if _, err := call.next("asked", "of "+name); err != nil {
				t.Error(err)
			}
			call.end()
			standing, err := c.open(n.in(0, 0, "").with(http.MethodGet))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			standing.end()
			if r := c.get(t, n.in(0, 1, "").with(http.MethodDelete)); r.Status != http.StatusNoContent {
				t.Errorf("DELETE: %v", r)
			}
		}
		until(t, "each caller's session was ended at the upstream", func() bool {
			ended := map[string]bool{}
			for _, a := range u.arrivals() {
				if who, _ := holder(a.Authorization); a.Verb == http.MethodDelete {
					ended[who] = true
				}
			}
			return len(ended) == len(done)
		})
		for _, f := range u.faults() {
			t.Error(f)
		}

		owners, methods := map[string]string{}, map[string]map[string]bool{}
		for _, a := range u.arrivals() {
			who, for_ := holder(a.Authorization)
			if who == "" {
				if a.Session != "" || !a.Refused {
					t.Errorf("%s %s in session %q came in nobody's name", a.Verb, a.Method, a.Session)
				}
				continue
			}
			if strings.Contains(for_, audience+" ") != (credentials == passing) {
				t.Errorf("%s came with a token for %s", a.Method, for_)
			}
			if a.Session == "" {
				continue
			}
			if owners[a.Session] == "" {
				owners[a.Session], methods[a.Session] = who, map[string]bool{}
			}
			methods[a.Session][a.Verb+" "+a.Method] = true
			if owners[a.Session] != who {
				t.Errorf("%s %s of %s came in a session of %s", a.Verb, a.Method, who, owners[a.Session])
			}
			for _, name := range []string{"alice", "bob", "carol"} {
				if name != who && strings.Contains(a.Body, `"`+name+`"`) {
					t.Errorf("what %s sent came in the name of %s: %s", name, who, a.Body)
				}
			}
		}
		// What found out what the upstream is was for nothing else.
		if probe := methods["session-1"]; probe["POST tools/call"] || probe["POST tools/list"] || !probe["DELETE "] {
			t.Errorf("the session of the probe was used for %v", probe)
		}
		used := map[string]int{}
		for session, of := range methods {
			if of["POST tools/call"] {
				used[owners[session]]++
			}
		}
		for _, c := range done {
			if used[c.name] < 2 {
				t.Errorf("%s had %d sessions", c.name, used[c.name])
			}
		}

		// Nothing secret is told or written anywhere.
		secrets := append(secretsOf(tokens...), "gateway-secret")
		for _, a := range u.arrivals() {
			secrets = append(secrets, secretsOf(a.Authorization...)...)
		}
		until(t, "the audit record is written", func() bool {
			raw, _ := os.ReadFile(file)
			return strings.Count(string(raw), "tools/call") >= 12
		})
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for where, text := range map[string]string{"log": g.log.String(), "audit record": string(raw), "answers": bodies.String()} {
			for _, secret := range secrets {
				if strings.Contains(text, secret) {
					t.Errorf("the %s holds a secret: %.10s…", where, secret)
				}
			}
		}
	})
}

// keyOf is the key of the only question of an answer.
func keyOf(r *said) string {
	_, rest, _ := strings.Cut(member(r.message(), "result", "inputRequests"), `"`)
	key, _, _ := strings.Cut(rest, `"`)
	return key
}

func TestAnUpstreamThatDemandsATokenForEverythingWorksOnceACallerCame(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			perCaller(t, func(t *testing.T, p *idp.Provider, credentials string) {
				u := demanding(newKeeper(t, era == "legacy"))
				g := serve(t, southern(p, up("u", u.URL+"/mcp", credentials), ""))
				until(t, "the gateway looked at its upstream", func() bool { return len(u.arrivals()) > 0 })
				for range 5 {
					resp, err := g.http.Get(g.origin + "/ready")
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						t.Errorf("/ready before anybody came: HTTP %d", resp.StatusCode)
					}
					time.Sleep(20 * time.Millisecond)
				}
				c := guest(t, g, "alice", tokenOf(t, p, "alice"))
				c.want(t, oneCall(0, "u__echo", "first"), "first") // at the first try
				c.want(t, modern(0, 0, "tools/list", "", ""), "u__echo")
				for _, a := range u.arrivals() {
					if who, _ := holder(a.Authorization); who != "alice" && !a.Refused {
						t.Errorf("%s was served in the name of %q", a.Method, who)
					}
				}
			})
		})
	}
}

// What an upstream says of itself to one caller is not told to the next, unless it calls it public.
func TestInstructionsForOneCallerAreNotTheOthers(t *testing.T) {
	perCaller(t, func(t *testing.T, p *idp.Provider, credentials string) {
		personal, legacy, public := demanding(newKeeper(t, false)), demanding(newKeeper(t, true)), demanding(newKeeper(t, false))
		personal.greets, legacy.greets, public.greets = "private", "private", "public"
		g := serve(t, southern(p, up("p", personal.URL+"/mcp", credentials)+up("l", legacy.URL+"/mcp", credentials)+up("o", public.URL+"/mcp", credentials), ""))
		for n, name := range []string{"alice", "bob"} {
			c := guest(t, g, name, tokenOf(t, p, name))
			c.want(t, modern(0, 0, "tools/list", "", ""), "p__echo", "l__echo", "o__echo")
			described := c.want(t, modern(0, 0, "server/discover", "", ""), `"instructions"`).Body
			described += c.want(t, &request{
				verb: http.MethodPost,
				body: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + legacyVersion + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			}, `"instructions"`).Body
			if said := strings.Count(described, "written for alice"); said != 2 {
				t.Errorf("caller %d is told %d times what was written for alice, 2 of them are public: %s", n, said, described)
			}
		}
	})
}

func TestOneURLWithTwoCredentialsIsTwoUpstreams(t *testing.T) {
	t.Parallel()
	p, u := idp.Start(t), newKeeper(t, true)
	const second = "https://second.example.com"
	url := u.URL + "/mcp"
	g := serve(t, southern(p, up("a", url, exchangeFor(p, upstreamAudience))+up("b", url, exchangeFor(p, second))+
		up("c", url, "bearer: fixed")+up("d", url, "bearer: other"), ""))
	c := guest(t, g, "alice", tokenOf(t, p, "alice"))
	listed := c.want(t, modern(0, 0, "tools/list", "", ""), "a__only_", "b__only_", "c__only_", "d__only_").message()
	only := map[string]bool{}
	for _, m := range markers.FindAllString(listed, -1) {
		only[m] = true
	}
	if len(only) != 4 {
		t.Errorf("four upstreams of one URL gave %d lists", len(only))
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		c.want(t, oneCall(0, key+"__echo", "to "+key), "to "+key)
	}
	sessions := map[string]string{}
	for _, a := range u.arrivals() {
		_, kind := holder(a.Authorization)
		switch {
		case kind == "["+upstreamAudience+"]" || kind == "["+second+"]":
		case slices.Equal(a.Authorization, []string{"Bearer fixed"}), slices.Equal(a.Authorization, []string{"Bearer other"}):
			kind = a.Authorization[0]
		case len(a.Authorization) == 0 && a.Session == "": // looked at before anybody came
			continue
		case len(a.Authorization) == 0:
			kind = "none"
		default:
			t.Errorf("%s came with %s %.20q", a.Method, kind, a.Authorization)
		}
		if a.Session != "" && sessions[a.Session] != "" && sessions[a.Session] != kind {
			t.Errorf("a session of %s was used with %s", sessions[a.Session], kind)
		}
		sessions[a.Session] = kind
		want := map[string]string{"[" + upstreamAudience + "]": "to a", "[" + second + "]": "to b", "Bearer fixed": "to c", "Bearer other": "to d"}
		if strings.Contains(a.Body, `"to `) && !strings.Contains(a.Body, want[kind]) {
			t.Errorf("with %s came %s", kind, a.Body)
		}
	}
}

func TestNobodyReachesAnUpstreamWithoutATokenForIt(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	passes, exchanges, fixed, plain := newKeeper(t, false), newKeeper(t, true), newKeeper(t, false), newKeeper(t, false)
	g := serve(t, southern(p, up("passes", passes.URL+"/mcp", passing)+up("exchanges", exchanges.URL+"/mcp", exchangeFor(p, upstreamAudience))+
		up("fixed", fixed.URL+"/mcp", "bearer: fixed-secret")+fmt.Sprintf("  plain: {url: %q}\n", plain.URL+"/mcp"), ""))
	narrow := guest(t, g, "narrow", p.Token(t, good)) // for the gateway alone
	wide, machine := guest(t, g, "wide", tokenOf(t, p, "wide")), guest(t, g, "machine", machineKey)
	for _, name := range []string{"passes__echo", "exchanges__echo", "fixed__echo", "plain__echo"} {
		wide.want(t, oneCall(0, name, "wide"), "wide")
	}

	if r := narrow.code(t, oneCall(0, "passes__echo", "narrow"), credentialFailed); !strings.Contains(r.Body, "not for upstream") {
		t.Errorf("the caller is not told why: %v", r)
	}
	for _, name := range []string{"passes__echo", "exchanges__echo"} {
		if r := machine.code(t, oneCall(0, name, "machine"), credentialFailed); !strings.Contains(r.Body, "API key") {
			t.Errorf("%s: the caller is not told why: %v", name, r)
		}
		n := machine.opened(t)
		q, _ := n.call(0, 0, "tools/call", named(name, "machine"))
		machine.code(t, q, credentialFailed)
	}
	for _, u := range []*keeper{passes, exchanges} {
		for _, a := range u.arrivals() {
			who, _ := holder(a.Authorization)
			if who == "narrow" && u == passes || strings.Contains(a.Body, `"machine"`) || strings.Contains(fmt.Sprint(a.Authorization), machineKey) {
				t.Errorf("the upstream was shown %s of %q", a.Body, who)
			}
		}
	}
	// What they may see otherwise, they see, and what is missing is told.
	for _, c := range []*party{narrow, machine} {
		if r := c.want(t, modern(0, 0, "tools/list", "", ""), "fixed__echo", "plain__echo", "penstock/partial"); strings.Contains(r.Body, "passes__echo") {
			t.Errorf("%s: %v", c.name, r)
		}
		c.want(t, oneCall(0, "fixed__echo", c.name), c.name)
		c.want(t, oneCall(0, "plain__echo", c.name), c.name)
	}
	for _, a := range fixed.arrivals() {
		if !slices.Equal(a.Authorization, []string{"Bearer fixed-secret"}) {
			t.Errorf("a static credential became %.30q", a.Authorization)
		}
	}
	for _, a := range plain.arrivals() {
		if len(a.Authorization) != 0 {
			t.Errorf("an upstream without credentials was shown %.30q", a.Authorization)
		}
	}
}

func TestAReloadOfAnotherUpstreamKeepsTheTokens(t *testing.T) {
	t.Parallel()
	p, u, other := idp.Start(t), demanding(newKeeper(t, true)), newKeeper(t, false)
	mine := up("l", u.URL+"/mcp", exchangeFor(p, upstreamAudience))
	g := serve(t, southern(p, mine+up("other", other.URL+"/mcp", "bearer: one"), ""))
	c := guest(t, g, "alice", tokenOf(t, p, "alice"))
	n := c.opened(t)
	call := func(nonce string) string {
		q, _ := n.call(0, 0, "tools/call", named("l__echo", nonce))
		return markers.FindString(c.want(t, q, nonce).message())
	}
	before := call("before")
	grants := p.Counts().ByGrant[idp.TokenExchange]
	d, err := config.Parse("test.yaml", []byte(southern(p, mine+up("other", other.URL+"/mcp", "bearer: two"), "")), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), apartWait)
	defer cancel()
	if err := g.gw.Reload(ctx, d); err != nil {
		t.Fatal(err)
	}
	if after := call("after"); after != before {
		t.Errorf("the session %s became %s", before, after)
	}
	c.want(t, oneCall(0, "other__echo", "other"), "other")
	if n := p.Counts().ByGrant[idp.TokenExchange] - grants; n != 0 {
		t.Errorf("the reload cost %d exchanges", n)
	}
	if all := other.arrivals(); !slices.Equal(all[len(all)-1].Authorization, []string{"Bearer two"}) {
		t.Errorf("the other came with %q", all[len(all)-1].Authorization)
	}
}
