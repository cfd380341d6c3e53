package gateway

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// keys are what seals and authenticates, derived by purpose from one ring.
type keys struct {
	ring   [][]byte
	cursor []byte
}

func deriveKeys(c config.Keys, stored [][]byte) (keys, error) {
	var k keys
	for _, s := range c.Ring {
		k.ring = append(k.ring, []byte(s.Reveal()))
	}
	k.ring = append(k.ring, stored...) // what they sealed opens still
	if len(k.ring) == 0 {
		secret := make([]byte, 32)
		_, _ = rand.Read(secret) // crypto/rand.Read never fails
		k.ring = [][]byte{secret}
	}
	var err error
	k.cursor, err = hkdf.Key(sha256.New, k.ring[0], nil, "penstock cursor v1", 32)
	return k, err
}

func (g *Gateway) newUpstream(c *config.Upstream, guard []string) (upstream, error) {
	self := g.self[mcp.LatestModern]
	if c.Child() {
		return newChild(g.doc, c, self, guard, g.log), nil
	}
	credential, end, err := g.authorizer(c)
	if err != nil {
		return nil, fmt.Errorf("upstreams.%s.credentials: %w", c.Key, err)
	}
	g.ends[c.Key] = end
	if len(c.URLs) == 0 {
		return g.newAddress(c, c.URL, self, credential)
	}
	var each []*south.Upstream
	for _, address := range c.URLs {
		u, err := g.newAddress(c, address, self, credential)
		if err != nil {
			return nil, err
		}
		each = append(each, u)
	}
	return south.NewReplicas(each), nil
}

// newAddress is an upstream, or one replica of it, at one address.
func (g *Gateway) newAddress(c *config.Upstream, address string, self []byte, credential south.Authorizer) (*south.Upstream, error) {
	st := g.storage
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("upstreams.%s.url: %w", c.Key, err)
	}
	header := http.Header{}
	for name, value := range c.Headers {
		header[textproto.CanonicalMIMEHeaderKey(name)] = []string{value.Reveal()}
	}
	if !c.Credentials.Bearer.IsZero() {
		header["Authorization"] = []string{"Bearer " + c.Credentials.Bearer.Reveal()}
	}
	if h := c.Credentials.Header; h != nil {
		header[textproto.CanonicalMIMEHeaderKey(h.Name)] = []string{h.Value.Reveal()}
	}
	o := upstreamOptions(g.doc, c, self, g.log)
	o.URL, o.Header, o.Authorize = u, header, credential
	if st.Souths != nil {
		k := &keeper{souths: st.Souths, upstream: identity(c, c.Key, address), instance: st.Instance}
		for _, was := range c.Formerly {
			k.formerly = append(k.formerly, identity(c, was, address))
		}
		o.Keep = k
	}
	if c.TLS != nil {
		if o.TLS, err = clientTLS(c.TLS); err != nil {
			return nil, fmt.Errorf("upstreams.%s.tls: %w", c.Key, err)
		}
	}
	if !c.Proxy.IsZero() {
		if o.Proxy, err = url.Parse(c.Proxy.Reveal()); err != nil {
			return nil, fmt.Errorf("upstreams.%s.proxy: not a URL", c.Key) // the cause could hold its password
		}
	}
	return south.New(o), nil
}

// newChild is an upstream that runs as a child process.
func newChild(doc *config.Document, c *config.Upstream, self []byte, guard []string, log *slog.Logger) *south.Upstream {
	env := map[string]string{}
	for name, value := range c.Env {
		env[name] = value.Reveal()
	}
	o := upstreamOptions(doc, c, self, log)
	o.Command = &south.Command{
		Argv: c.Command, Dir: c.Dir, Env: south.ChildEnv(os.LookupEnv, env), Guard: guard,
		Backoff: time.Duration(c.Restart.Backoff), MaxBackoff: time.Duration(c.Restart.Max),
	}
	return south.New(o)
}

// upstreamOptions are those of every upstream, wherever it is.
func upstreamOptions(doc *config.Document, c *config.Upstream, self []byte, log *slog.Logger) south.Options {
	o := south.Options{
		Key:     c.Key,
		Timeout: time.Duration(c.Timeout), TimeoutMax: time.Duration(doc.Limits.CallTimeoutMax), ProbeTimeout: max(time.Duration(doc.Limits.ListTimeout), time.Second),
		MaxConcurrent: c.MaxConcurrent,
		Failures:      uint32(c.Breaker.Failures), OpenFor: time.Duration(c.Breaker.Open),
		ResponseBytes: int64(doc.Limits.ResponseBytes), IdleSession: time.Duration(doc.Limits.IdleSession),
		ClientInfo: self, Log: log,
	}
	if o.Timeout == 0 {
		o.Timeout = time.Duration(doc.Limits.CallTimeout)
	}
	switch c.Era {
	case "modern":
		o.Era = mcp.Modern
	case "legacy":
		o.Era = mcp.Legacy
	}
	return o
}

// identity stands for an upstream in the key of a kept session: what was opened
// at one address, under one set of credentials, is never used at or under others
// (DESIGN section 11).
func identity(c *config.Upstream, key, address string) string {
	h := sha256.New()
	part := func(s string) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(s))) // a hash takes everything
		_, _ = io.WriteString(h, s)
	}
	part(key)
	part(address)
	part(c.Credentials.Bearer.Reveal())
	if k := c.Credentials.Header; k != nil {
		part(k.Name)
		part(k.Value.Reveal())
	}
	if k := c.Credentials.ClientCredentials; k != nil {
		part(k.TokenURL)
		part(k.ClientID)
		part(strings.Join(k.Scopes, " "))
	}
	if k := c.Credentials.Exchange; k != nil {
		part(k.TokenURL)
		part(k.ClientID)
		part(k.Audience)
	}
	if k := c.Credentials.Passthrough; k != nil {
		part(k.Audience)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		part(name)
		part(c.Headers[name].Reveal())
	}
	if c.TLS != nil {
		part(c.TLS.Cert)
		part(c.TLS.Key)
	}
	return key + " " + hex.EncodeToString(h.Sum(nil))
}

func clientTLS(c *config.ClientTLS) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s holds no certificate in PEM", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

func (g *Gateway) newServer(c *config.Server, cursorKey []byte) (*server, error) {
	v := &server{name: c.Name, doc: c, tag: bool(c.OriginTag), byKey: map[string]*member{}}
	o := catalog.Options{
		Recovered: g.board.Recheck,
		Name:      c.Name, Separator: c.Separator, Aliases: map[string]catalog.Alias{}, Judged: g.policy != nil,
		PageSize: c.PageSize, MaxItems: g.doc.Limits.ListItems,
		ListTimeout: time.Duration(g.doc.Limits.ListTimeout), CacheBytes: int64(g.doc.Limits.CacheBytes),
		CursorKey: cursorKey, Project: mcp.ProjectItem, Log: g.log,
	}
	switch c.Naming {
	case config.NamingPrefixed:
		o.Naming = catalog.Prefixed
	case config.NamingPassthrough:
		o.Naming = catalog.Passthrough
	}
	for name, a := range c.Aliases {
		o.Aliases[name] = catalog.Alias{Upstream: a.Upstream, Tool: a.Tool}
	}
	o.Expose[mcp.Tools] = expose(c.Expose.Tools)
	o.Expose[mcp.Prompts] = expose(c.Expose.Prompts)
	o.Expose[mcp.Resources] = expose(c.Expose.Resources)
	o.Expose[mcp.Templates] = o.Expose[mcp.Resources]
	for _, key := range c.Upstreams {
		u := g.doc.Upstreams[key]
		ns := u.Namespace
		if ns == "" {
			ns = key
		}
		o.Members = append(o.Members, catalog.Member{Key: key, Namespace: ns, PerCaller: personal(u)})
		m := &member{key: key, south: g.upstreams[key], origin: wire.AppendString(nil, key), stray: g.overhear(key, g.upstreams[key])}
		m.addresses = addressDigests(u)
		m.rate, m.trusted = g.rates[key], bool(u.TrustAnnotations)
		v.members, v.keys = append(v.members, m), append(v.keys, key)
		v.byKey[key] = m
	}
	v.meta = g.metaOf(c)
	var err error
	if v.catalog, err = catalog.New(o, &fetcher{g: g, v: v}); err != nil {
		return nil, err
	}
	if o.Naming != catalog.Passthrough {
		for _, m := range v.members {
			m.mapURI = func(dst []byte, uri string) ([]byte, bool) {
				v.catalog.Remember(m.key, uri)
				return v.catalog.ExposeURI(m.key, dst, uri)
			}
		}
	}
	return v, nil
}

func expose(f config.Filter) catalog.Expose {
	var e catalog.Expose
	for _, g := range f.Allow {
		e.Allow = append(e.Allow, g.String())
	}
	for _, g := range f.Deny {
		e.Deny = append(e.Deny, g.String())
	}
	return e
}

// allowedHosts are the names that requests may be addressed to: those the document
// lists, and the one that clients are told.
func allowedHosts(doc *config.Document) []string {
	hosts := doc.AllowedHosts
	if u, err := url.Parse(doc.PublicURL); err == nil && u.Host != "" {
		hosts = append(slices.Clone(hosts), u.Host, u.Hostname())
	}
	return hosts
}

// loopback reports whether an address can be reached from this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
