package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/north"
)

// Identify implements north.Gateway: step 2 of a request's way.
func (g *Gateway) Identify(r *http.Request) (*north.Principal, error) {
	if g.auth == nil {
		return g.principal, nil
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	p, err := g.auth.Identify(r.Header, host)
	if err != nil {
		if fault.From(err).Code == fault.RateLimited {
			g.metrics.Limited("source")
		}
		return nil, g.challenge(r, err)
	}
	if p == auth.Anonymous() {
		return g.principal, nil
	}
	n := p.Keep(func() any { return g.adopt(p) }).(*north.Principal)
	if g.personal {
		g.vault.put(n.Who.(*caller))
	}
	return n, nil
}

// Local implements north.Gateway: whoever runs the process speaks stdio with it.
func (g *Gateway) Local() *north.Principal { return g.local }

// challenge adds to a refusal how the client can identify itself (checklist 78).
func (g *Gateway) challenge(r *http.Request, err error) error {
	var refusal *auth.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	if code := refusal.Fault.Code; code != fault.Unauthenticated && code != fault.InsufficientScope {
		return err
	}
	b := []byte("Bearer")
	sep := " "
	add := func(name, value string) {
		if value == "" {
			return
		}
		b = append(b, sep...)
		b = append(b, name...)
		b = append(b, `="`...)
		b = append(b, value...)
		b = append(b, '"')
		sep = ", "
	}
	add("error", refusal.Kind)
	add("error_description", refusal.Description)
	scopes := refusal.Scopes
	if scopes == nil {
		scopes = g.doc.Auth.RequiredScopes
	}
	add("scope", strings.Join(scopes, " "))
	if len(g.doc.Auth.JWT) > 0 {
		add("resource_metadata", g.metadataURL(r))
	}
	return &north.Challenge{Err: err, Header: string(b)}
}

// public is the address of this gateway as the client of a request sees it,
// without a final slash.
func (g *Gateway) public(r *http.Request) string {
	if g.doc.PublicURL != "" {
		return strings.TrimSuffix(g.doc.PublicURL, "/")
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return scheme + r.Host
}

// metadataURL is where the metadata of the resource that was asked for lie: the
// well-known path stands between the host and the path (RFC 9728 section 3.1).
func (g *Gateway) metadataURL(r *http.Request) string {
	u, err := url.Parse(g.public(r) + r.URL.Path)
	if err != nil || strings.ContainsAny(u.Host, `"\`) {
		return ""
	}
	u.Path = north.MetadataPath + strings.TrimSuffix(u.Path, "/")
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}

// resourceMetadata is a document of RFC 9728 section 2.
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

// metadata serves the protected resource metadata of every virtual server, at the
// form with its path and, for clients that know no other, at the root (checklist
// 79). Without issuers there is nothing that a client could be sent to.
func (g *Gateway) metadata() http.Handler {
	if g.doc.Auth == nil || len(g.doc.Auth.JWT) == 0 {
		return nil
	}
	m := resourceMetadata{ScopesSupported: g.doc.Auth.RequiredScopes, BearerMethods: []string{"header"}, Name: "Penstock"}
	for i := range g.doc.Auth.JWT {
		if issuer := g.doc.Auth.JWT[i].Issuer; !slices.Contains(m.AuthorizationServers, issuer) {
			m.AuthorizationServers = append(m.AuthorizationServers, issuer)
		}
	}
	prefix := ""
	if u, err := url.Parse(g.doc.PublicURL); err == nil {
		prefix = strings.TrimSuffix(u.Path, "/")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
			w.Header().Set("Allow", "GET, HEAD, OPTIONS")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		rest := strings.TrimPrefix(r.URL.Path, north.MetadataPath)
		path, ok := g.resource(strings.TrimPrefix(rest, prefix))
		if !ok {
			path, ok = g.resource(rest) // a proxy took its own prefix away
		}
		if !ok {
			http.Error(w, "no protected resource has this path", http.StatusNotFound)
			return
		}
		out := m
		out.Resource = g.public(r) + path
		raw, err := json.Marshal(out)
		if err != nil {
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=300")
		_, _ = w.Write(raw)
	})
}

// resource is the path of the virtual server that a metadata path is about; the
// root is about the one called default, or the first.
func (g *Gateway) resource(path string) (string, bool) {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		names := g.doc.ServerNames()
		first := g.doc.Servers[names[0]]
		return strings.TrimSuffix(cmp.Or(g.doc.Servers["default"], first).Path, "/"), true
	}
	for _, s := range g.doc.Servers {
		if strings.TrimSuffix(s.Path, "/") == path {
			return path, true
		}
	}
	return "", false
}
