package governance_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/test/idp"
)

// proxied is a gateway behind a TLS proxy, under a path that the proxy takes away or leaves.
type proxied struct {
	public string // the address that clients know, without a final slash
	*http.Client
}

// behind serves a document, made of the public address, behind a proxy.
func behind(t *testing.T, prefix string, strip bool, document func(public string) string) *proxied {
	t.Helper()
	var target http.Handler // set before anybody asks
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { target.ServeHTTP(w, r) }))
	t.Cleanup(proxy.Close)
	p := &proxied{public: proxy.URL + prefix, Client: proxy.Client()}
	t.Cleanup(p.CloseIdleConnections)
	g := serve(t, document(p.public))
	to, err := url.Parse(g.origin)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	target = &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		if strip {
			r.Out.URL.Path = strings.Replace(r.In.URL.Path, prefix, "", 1)
		} else {
			r.Out.URL.Path = r.In.URL.Path
		}
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}}
	return p
}

func TestBehindATLSProxyWithAPathTheMetadataAreThoseOfThePublicEndpoint_contextforge3990(t *testing.T) {
	t.Parallel()
	provider, u := idp.Start(t), newUpstream(t)
	for _, prefix := range []string{"", "/team/gw"} {
		for _, strip := range []bool{true, false} {
			paths := []string{"/mcp", "/servers/two/mcp"}
			p := behind(t, prefix, strip, func(public string) string {
				own, base := prefix, public
				if strip { // the gateway's own paths are without it
					own = ""
				} else {
					base = strings.TrimSuffix(public, prefix)
				}
				return fmt.Sprintf(`
public_url: %q
limits: {list_timeout: 10s}
servers: {default: {path: %q}, two: {path: %q}}
auth: {jwt: [{issuer: %q, audience: %q, algorithms: [RS256]}]}
upstreams: {up: {url: %q}}
`, base, own+paths[0], own+paths[1], provider.Issuer(), audience, u.endpoint())
			})
			for _, path := range paths {
				endpoint := p.public + path
				for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
					r := p.ask(t, verb, endpoint, nil)
					found := metadataParam.FindStringSubmatch((&reply{Header: r.Header}).challenge())
					if r.Status != http.StatusUnauthorized || found == nil {
						t.Fatalf("%s %s: %v", verb, endpoint, r)
					}
					// RFC 9728: the well-known path stands between the host and the path.
					want := strings.TrimSuffix(p.public, prefix) + "/.well-known/oauth-protected-resource" + prefix + path
					if found[1] != want {
						t.Errorf("%s %s: the metadata are said to be at %s, want %s", verb, endpoint, found[1], want)
						continue
					}
					m := p.ask(t, http.MethodGet, found[1], nil)
					if m.Status != http.StatusOK || textAt(m.Body, "resource") != endpoint {
						t.Errorf("%s: want the resource %s, got %v", found[1], endpoint, m)
					}
				}
				token := provider.Token(t, idp.TokenSpec{Subject: "alice", Audience: []string{audience}})
				list := modern(0, 0, "tools/list", "", "")
				if r := p.ask(t, http.MethodPost, endpoint, list, "Authorization", bearer(token)); r.Status != http.StatusOK || !strings.Contains(r.Body, "up__echo") {
					t.Errorf("%s with a token: %v", endpoint, r)
				}
			}
		}
	}
}

// ask sends one request through the proxy.
func (p *proxied) ask(t *testing.T, verb, url string, q *request, header ...string) *said {
	t.Helper()
	c := &party{name: "a client", ears: &ears{by: map[string]map[string]string{}}, http: p.Client, urls: []string{url}}
	if q == nil {
		q = &request{}
	}
	q.verb, q.header = verb, append(q.header, header...)
	if len(header) == 0 {
		q.header = append(q.header, "Authorization", "")
	}
	return c.get(t, q)
}

// Five calls at two replicas are refused at once with one token: it is replaced once, and no late refusal of the old
// one takes the new one away.
func TestFiveCallsRefusedAtOnceAtTwoReplicasMakeOneNewToken_opencode34074(t *testing.T) {
	t.Parallel()
	const calls = 5
	p := idp.Start(t)
	for kind, credentials := range map[string]string{
		idp.TokenExchange: exchangeFor(p, upstreamAudience),
		idp.ClientCredentials: fmt.Sprintf("client_credentials: {token_url: %q, client_id: service, client_secret: service-secret}",
			p.TokenURL()),
	} {
		p.Client("service", "service-secret", idp.ClientCredentials)
		var mu sync.Mutex
		old, waiting, all := "", 0, make(chan struct{})
		replicas := []*keeper{newKeeper(t, false), newKeeper(t, false)}
		for _, u := range replicas {
			u.admits = func(authorization []string) bool {
				mu.Lock()
				refused := len(authorization) == 1 && authorization[0] == old
				if refused {
					if waiting++; waiting == calls {
						close(all)
					}
				}
				mu.Unlock()
				if refused {
					<-all // each was sent before any is refused
				}
				return !refused && len(authorization) == 1
			}
		}
		g := serve(t, southern(p, fmt.Sprintf("  u: {urls: [%q, %q], credentials: {%s}}\n", replicas[0].URL+"/mcp", replicas[1].URL+"/mcp", credentials), ""))
		c := guest(t, g, "alice", tokenOf(t, p, "alice"))
		for n := range 4 {
			c.want(t, oneCall(0, "u__echo", fmt.Sprint("before ", n)), "before")
		}
		before := p.Counts().ByGrant[kind]
		mu.Lock()
		old = lastOf(replicas[0])
		mu.Unlock()
		if old == "" || old != lastOf(replicas[1]) {
			t.Fatalf("%s: the replicas were shown %.20q and %.20q", kind, old, lastOf(replicas[1]))
		}
		var group sync.WaitGroup
		for n := range calls {
			group.Go(func() {
				if r, err := c.send(oneCall(0, "u__echo", fmt.Sprint("call ", n))); err != nil || !strings.Contains(r.message(), fmt.Sprint("call ", n)) {
					t.Errorf("%s, call %d: %v %v", kind, n, r, err)
				}
			})
		}
		group.Wait()
		if n := p.Counts().ByGrant[kind] - before; n != 1 {
			t.Errorf("%s: %d calls made %d new tokens", kind, calls, n)
		}
		c.want(t, oneCall(0, "u__echo", "after"), "after")
		var values []string
		for _, u := range replicas {
			for _, a := range u.arrivals() {
				if len(a.Authorization) == 1 && !slices.Contains(values, a.Authorization[0]) {
					values = append(values, a.Authorization[0])
				}
			}
		}
		if len(values) != 2 {
			t.Errorf("%s: %d tokens were shown", kind, len(values))
		}
	}
}

func TestStaticAndPassedCredentialsAreNeverBoth_contextforge1046(t *testing.T) {
	t.Parallel()
	identity := fmt.Sprintf("auth: {jwt: [{issuer: %q, audience: %q, algorithms: [RS256]}]}\n", "https://id.example.com", audience)
	for name, doc := range map[string]string{
		"bearer and passthrough":   identity + up("u", "https://up.example.com/mcp", "bearer: x, "+passing),
		"exchange and passthrough": identity + up("u", "https://up.example.com/mcp", `exchange: {token_url: "https://id.example.com/t", client_id: c, client_secret: s, audience: a}, `+passing),
		"header Authorization":     identity + fmt.Sprintf("  u: {url: %q, headers: {Authorization: x}, credentials: {%s}}\n", "https://up.example.com/mcp", passing),
		"without an audience":      identity + up("u", "https://up.example.com/mcp", "passthrough: {}"),
		"for callers with no name": up("u", "https://up.example.com/mcp", passing),
	} {
		head, rest, found := strings.Cut(doc, "}]}\n")
		if found {
			doc = head + "}]}\nupstreams:\n" + rest
		} else {
			doc = "upstreams:\n" + doc
		}
		_, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
		if err == nil {
			t.Errorf("%s: the document was accepted:\n%s", name, doc)
		} else if !strings.Contains(err.Error(), "upstreams") && !strings.Contains(err.Error(), "u.") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
