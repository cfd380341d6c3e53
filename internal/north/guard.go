package north

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// guard keeps browsers of other sites out: a Host that is a foreign name is
// DNS rebinding, an Origin that is not allowed is another page (checklist 2).
// A Host that is an address is fine, for it cannot be rebound.
type guard struct {
	hosts   map[string]bool
	origins map[string]bool
}

func newGuard(hosts, origins []string) guard {
	g := guard{hosts: map[string]bool{}, origins: map[string]bool{}}
	for _, h := range hosts {
		g.hosts[strings.ToLower(h)] = true
	}
	for _, o := range origins {
		g.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
	}
	return g
}

func (g *guard) check(r *http.Request) error {
	if !g.host(r.Host) {
		return fault.New(fault.ForbiddenOrigin, "host %q is not served here", r.Host).WithHint("name it in allowed_hosts")
	}
	o := r.Header["Origin"]
	if len(o) == 0 {
		return nil
	}
	if len(o) > 1 || !g.origin(o[0], r.Host) {
		return fault.New(fault.ForbiddenOrigin, "origin %q may not call this endpoint", strings.Join(o, ", ")).WithHint("name it in allowed_origins")
	}
	return nil
}

func (g *guard) host(hostport string) bool {
	host := bare(hostport)
	return isLocal(host) || isAddress(host) || g.hosts[host] || g.hosts[strings.ToLower(hostport)]
}

func (g *guard) origin(o, host string) bool {
	o = strings.ToLower(o)
	if g.origins[o] || g.origins["*"] {
		return true
	}
	u, err := url.Parse(o)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return false
	}
	if isLocal(u.Hostname()) {
		return true
	}
	// A page that this gateway's own name served.
	return u.Host == strings.ToLower(host) && g.hosts[bare(host)]
}

// bare is the host without its port, in lower case and without brackets.
func bare(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func isLocal(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// allowOrigin lets a browser page that passed the check read the answer.
func (g *guard) allowOrigin(w http.ResponseWriter, r *http.Request) {
	o := r.Header["Origin"]
	if len(o) == 0 {
		return
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", o[0])
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After, X-Request-Id")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", allowed[0])
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
		}
		h.Set("Access-Control-Max-Age", "600")
	}
}
