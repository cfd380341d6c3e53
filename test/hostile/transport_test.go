package hostile_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHostsAndOriginsAreHeldToAList_gosdk857(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	g := serve(t, document(members{"a": u}, nil, quick+`
allowed_hosts: [gw.example.com]
allowed_origins: ["https://app.example.com"]`))
	call := func(host, origin string) *reply {
		h := modernHeaders("tools/call", "a__t")
		if host != "" {
			h = append(h, "Host", host)
		}
		if origin != "" {
			h = append(h, "Origin", origin)
		}
		return g.post(modernBody("1", "tools/call", `"name":"a__t"`), h...)
	}
	for _, ok := range [][2]string{
		{"", ""},
		{"localhost", ""},
		{"localhost:99", ""},
		{"[::1]:80", ""},
		{"gw.example.com", ""},
		{"GW.example.com:443", ""},
		{"gw.example.com", "https://app.example.com"},
		{"", "http://localhost:5173"},
		{"gw.example.com", "https://gw.example.com"},
	} {
		if r := call(ok[0], ok[1]); r.Status != http.StatusOK {
			t.Errorf("host %q origin %q: %v", ok[0], ok[1], r)
		}
	}
	before := len(u.requests("tools/call"))
	for _, evil := range [][2]string{
		{"evil.example", ""},
		{"rebind.localhost.evil.example", ""},
		{"gw.example.com.evil", ""},
		{"127.0.0.1.evil.example", ""},
		{"", "https://evil.example"},
		{"", "null"},
		{"", "https://app.example.com.evil"},
		{"", "http://app.example.com"},
		{"", "https://app.example.com:8443"},
		{"evil.example", "https://evil.example"},
		{"gw.example.com", "file://"},
		{"", "http://localhost.evil.example"},
		{"", "https://xapp.example.com"},
	} {
		r := call(evil[0], evil[1])
		if r.Status != http.StatusForbidden || at(r.Body, "id") != "" {
			t.Errorf("host %q origin %q: %v", evil[0], evil[1], r)
		}
		if r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("origin %q may read the answer", evil[1])
		}
	}
	if n := len(u.requests("tools/call")) - before; n != 0 {
		t.Errorf("%d forbidden calls reached the upstream", n)
	}
}

func TestAGetWithoutSessionIsRefusedAndAnUpstreams405DoesNoHarm_agentgateway1582(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		g := open(t, members{"a": u})
		for _, accept := range []string{"text/event-stream", "*/*", "text/html"} {
			r, err := g.do(context.Background(), http.MethodGet, "", "Accept", accept)
			if err != nil || r.Status != http.StatusBadRequest {
				t.Errorf("GET: %v %v", r, err)
			}
			r, err = g.do(context.Background(), http.MethodGet, "", "Accept", accept, "Mcp-Protocol-Version", "2026-07-28")
			if err != nil || r.Status != http.StatusMethodNotAllowed || !strings.Contains(r.Header.Get("Allow"), "POST") {
				t.Errorf("GET of a modern client: %v %v", r, err)
			}
		}
		for _, verb := range []string{http.MethodPut, http.MethodPatch, http.MethodHead, "BREW"} {
			r, err := g.do(context.Background(), verb, "")
			if err != nil || r.Status != http.StatusMethodNotAllowed {
				t.Errorf("%s: %v %v", verb, r, err)
			}
		}
		for _, c := range g.clients() {
			healthy(t, c, "a__t")
		}
	})
}

func TestAnUpstreamOverTLSSeesItsOwnName_EAG1914(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		s := httptest.NewUnstartedServer(u)
		s.EnableHTTP2 = true
		var hosts, named []string
		s.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			u.mu.Lock()
			defer u.mu.Unlock()
			named = append(named, h.ServerName)
			return nil, nil
		}}
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
		s.StartTLS()
		u.begin(s)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		if err := os.WriteFile(ca, block, 0o600); err != nil {
			t.Fatal(err)
		}
		// The test certificate holds 127.0.0.1 and not localhost.
		u.handle("tools/call", func(x *exchange) {
			u.mu.Lock()
			hosts = append(hosts, x.r.Host)
			u.mu.Unlock()
			if x.r.TLS == nil {
				t.Error("the call came without TLS")
			}
			x.result(`{"content":[{"type":"text","text":"ok"}]}`)
		})
		g := serve(t, calm+"\nupstreams: {a: {url: \""+strings.Replace(u.URL, "127.0.0.1", "localhost", 1)+"\", tls: {ca: \""+ca+"\"}}, b: {url: \""+u.URL+"\", tls: {ca: \""+ca+"\"}}, c: {url: \""+u.URL+"\"}}")
		for _, c := range g.clients() {
			healthy(t, c, "b__t")
			// localhost is not in the certificate, and without the CA nothing is trusted.
			wantError(t, c.request("tools/call", `"name":"a__t"`), http.StatusOK, -31001)
			wantError(t, c.request("tools/call", `"name":"c__t"`), http.StatusOK, -31001)
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if want := strings.TrimPrefix(s.URL, "https://"); len(hosts) != 2 || hosts[0] != want {
			t.Errorf(":authority is %v, not %s", hosts, want)
		}
		if !slices.Contains(named, "localhost") {
			t.Errorf("no handshake named localhost: %v", named)
		}
	})
}
