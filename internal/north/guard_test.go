package north

import (
	"net/http"
	"strings"
	"testing"
)

func TestGuardJudgesHostAndOrigin(t *testing.T) { // checklist 2, DNS rebinding
	g := newGuard([]string{"gw.example.com", "Mixed.Example", "port.example:8443"}, []string{"https://app.example.com", "https://Slash.example/", "http://odd.example:81"})
	for _, c := range []struct {
		host, origin string
		ok           bool
	}{
		{"localhost", "", true},
		{"localhost:8080", "", true},
		{"LOCALHOST:8080", "", true},
		{"localhost.:8080", "", true},
		{"a.localhost", "", true},
		{"127.0.0.1:8080", "", true},
		{"127.8.9.1", "", true},
		{"[::1]:8080", "", true},
		{"[::1]", "", true},
		{"10.0.0.5:8080", "", true}, // an address cannot be rebound
		{"[fe80::1]:80", "", true},
		{"gw.example.com", "", true},
		{"GW.example.com:8080", "", true},
		{"gw.example.com.", "", true},
		{"mixed.example", "", true},
		{"port.example:8443", "", true},
		{"port.example:8444", "", false},
		{"port.example", "", false},
		{"evil.example", "", false},
		{"evil.example:8080", "", false},
		{"gw.example.com.evil.example", "", false},
		{"xgw.example.com", "", false},
		{"localhost.evil.example", "", false},
		{"notlocalhost", "", false},
		{"127.0.0.1.evil.example", "", false},
		{"", "", false},

		{"localhost", "http://localhost:3000", true},
		{"localhost", "https://127.0.0.1", true},
		{"localhost", "http://[::1]:5173", true},
		{"localhost", "http://app.localhost", true},
		{"localhost", "https://app.example.com", true},
		{"localhost", "HTTPS://APP.example.com", true},
		{"localhost", "https://slash.example", true},
		{"localhost", "http://odd.example:81", true},
		{"localhost", "http://odd.example", false},
		{"localhost", "http://app.example.com", false},
		{"localhost", "https://app.example.com:444", false},
		{"localhost", "https://app.example.com.evil.example", false},
		{"localhost", "http://evil.example", false},
		{"localhost", "http://10.0.0.5", false},
		{"localhost", "null", false},
		{"localhost", "", true},
		{"localhost", "file://localhost", false},
		{"localhost", "http://", false},
		{"localhost", "http://localhost.evil.example", false},
		{"gw.example.com", "https://gw.example.com", true},
		{"gw.example.com:8080", "http://gw.example.com:8080", true},
		{"gw.example.com", "https://gw.example.com:9", false},
		{"10.0.0.5", "http://10.0.0.5", false},
		{"evil.example", "https://app.example.com", false},
	} {
		r := &http.Request{Host: c.host, Header: http.Header{}}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if err := g.check(r); (err == nil) != c.ok {
			t.Errorf("host %q, origin %q: %v", c.host, c.origin, err)
		}
	}
	two := &http.Request{Host: "localhost", Header: http.Header{"Origin": {"http://localhost", "http://localhost"}}}
	if g.check(two) == nil {
		t.Error("two origins pass")
	}
	every := newGuard(nil, []string{"*"})
	if err := every.check(&http.Request{Host: "localhost", Header: http.Header{"Origin": {"https://anywhere.example"}}}); err != nil {
		t.Errorf("with *: %v", err)
	}
}

func TestAForeignOriginIsRefusedBeforeAnything(t *testing.T) {
	f := open(t, &rooms{})
	for _, verb := range []string{"POST", "GET", "DELETE", "OPTIONS", "PUT"} {
		for _, path := range []string{"/mcp", "/mcp/", "/nothing"} {
			g := f.send(verb, path, "{", map[string]string{"Origin": "https://evil.example"})
			if g.status != http.StatusForbidden || g.code(t) != -31013 || g.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s: HTTP %d %v %s", verb, path, g.status, g.header, g.body)
			}
		}
	}
	if g := f.send("POST", "/mcp", "{}", map[string]string{"Host": "evil.example"}); g.status != http.StatusForbidden {
		t.Errorf("a foreign host: HTTP %d", g.status)
	}
}

func TestAllowedPagesMayReadTheAnswer(t *testing.T) {
	f := open(t, &rooms{}, func(o *Options) { o.AllowedOrigins = []string{"https://app.example.com"} })
	h := modernHeaders("tools/list", "")
	h["Origin"] = "https://app.example.com"
	g := f.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`, h)
	if g.status != 200 || g.header.Get("Access-Control-Allow-Origin") != "https://app.example.com" || g.header.Get("Vary") != "Origin" ||
		!strings.Contains(g.header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
		t.Errorf("HTTP %d %v", g.status, g.header)
	}
	g = f.send("OPTIONS", "/mcp", "", map[string]string{
		"Origin": "https://app.example.com", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type, mcp-method",
	})
	if g.status != 204 || !strings.Contains(g.header.Get("Access-Control-Allow-Methods"), "POST") || g.header.Get("Access-Control-Allow-Headers") != "content-type, mcp-method" {
		t.Errorf("preflight: HTTP %d %v", g.status, g.header)
	}
	if g = f.post(ping, nil); g.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without an origin: %v", g.header)
	}
}
