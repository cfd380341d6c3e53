package idp

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/peers"
)

// Provider is a running identity provider, or one that was killed. Its methods may be called from several goroutines,
// but for Kill and Restart; those without a testing.TB of their own end the test that started it when they fail, so they
// belong into its goroutine.
type Provider struct {
	t       testing.TB
	issuer  string
	flags   []string
	process *peers.Process
	control *http.Client
}

// Start runs a provider on a free port of the loopback until the test ends. More flags are the program's, as
// "-alg", "ES256". Where the program cannot be had, the test is skipped; in CI it fails.
func Start(t testing.TB, flags ...string) *Provider {
	t.Helper()
	if err := peers.Setup(); err != nil {
		if peers.InCI() {
			t.Fatal(err)
		}
		t.Skipf("no identity provider here: %v", err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	p := &Provider{
		t: t, flags: append([]string{"-state", filepath.Join(t.TempDir(), "idp.json")}, flags...),
		control: &http.Client{Transport: transport, Timeout: 30 * time.Second},
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if p.process != nil {
			p.process.Kill()
		}
	})
	p.issuer = p.start("127.0.0.1:0")
	return p
}

// start runs the program and returns its issuer.
func (p *Provider) start(address string) string {
	p.t.Helper()
	process, issuer, err := peers.ServeIdentity(context.Background(), address, p.flags...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.process = process
	return issuer
}

// Issuer is the iss claim of its tokens, and the root of its discovery.
func (p *Provider) Issuer() string { return p.issuer }

// JWKSURL is where its keys are published.
func (p *Provider) JWKSURL() string { return p.issuer + "/keys" }

// TokenURL is its token endpoint.
func (p *Provider) TokenURL() string { return p.issuer + "/oauth/token" }

// DiscoveryURL is its OpenID Connect configuration.
func (p *Provider) DiscoveryURL() string { return p.issuer + "/.well-known/openid-configuration" }

// Kill ends the provider at once, as a crash would. A second one does nothing.
func (p *Provider) Kill() {
	p.control.CloseIdleConnections()
	p.process.Kill()
}

// Restart runs a killed provider again, at the same port, with the same keys and clients. What it counted, its faults
// and its lifetime of tokens are forgotten.
func (p *Provider) Restart() {
	p.t.Helper()
	if issuer := p.start(strings.TrimPrefix(p.issuer, "http://")); issuer != p.issuer {
		p.t.Fatalf("%s came back as %s", p.issuer, issuer)
	}
}
