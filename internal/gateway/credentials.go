package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/south/grant"
)

const bearer = "Bearer "

// authorizer makes the credential of an upstream that is not static, or nil. end
// ends what it does behind requests.
func (g *Gateway) authorizer(c *config.Upstream) (a south.Authorizer, end func(), err error) {
	o := grant.Options{Upstream: c.Key, Log: g.log, Outcome: func(kind, outcome string, d time.Duration) {
		g.metrics.Grant(c.Key, kind, outcome, d)
	}}
	switch k := &c.Credentials; {
	case k.ClientCredentials != nil:
		cc := k.ClientCredentials
		o.TokenURL, o.ClientID, o.ClientSecret, o.Scopes = cc.TokenURL, cc.ClientID, grant.NewSecret(cc.ClientSecret.Reveal()), cc.Scopes
		source, err := grant.NewClientCredentials(o)
		if err != nil {
			return nil, nil, err
		}
		return &ownCredential{source}, source.Close, nil
	case k.Exchange != nil:
		ex := k.Exchange
		o.TokenURL, o.ClientID, o.ClientSecret, o.Audience = ex.TokenURL, ex.ClientID, grant.NewSecret(ex.ClientSecret.Reveal()), ex.Audience
		source, err := grant.NewExchange(o)
		if err != nil {
			return nil, nil, err
		}
		return &exchanged{upstream: c.Key, source: source, vault: g.vault}, source.Close, nil
	case k.Passthrough != nil:
		return &passed{upstream: c.Key, audience: k.Passthrough.Audience, vault: g.vault}, func() {}, nil
	}
	return nil, func() {}, nil
}

// personal reports whether an upstream's credential is the caller's.
func personal(c *config.Upstream) bool {
	return c.Credentials.Exchange != nil || c.Credentials.Passthrough != nil
}

// ownCredential is the gateway's own, by client credentials.
type ownCredential struct{ source *grant.ClientCredentials }

// PerCaller implements south.Authorizer.
func (*ownCredential) PerCaller() bool { return false }

// Authorize implements south.Authorizer.
func (o *ownCredential) Authorize(ctx context.Context) (string, error) {
	token, err := o.source.Token(ctx)
	if err != nil {
		return "", err
	}
	return bearer + token, nil
}

// Refused implements south.Authorizer.
func (o *ownCredential) Refused(_ context.Context, value string) {
	o.source.Refused(strings.TrimPrefix(value, bearer))
}

// exchanged is a token of the caller's for this upstream (RFC 8693).
type exchanged struct {
	upstream string
	source   *grant.Exchange
	vault    *vault
}

// PerCaller implements south.Authorizer.
func (*exchanged) PerCaller() bool { return true }

// Authorize implements south.Authorizer.
func (e *exchanged) Authorize(ctx context.Context) (string, error) {
	c := e.vault.acting(ctx)
	if c == nil {
		return "", nil
	}
	if c.subject == nil {
		return "", noToken(e.upstream)
	}
	token, err := e.source.Token(ctx, c.subject)
	if err != nil {
		return "", err
	}
	return bearer + token, nil
}

// Refused implements south.Authorizer.
func (e *exchanged) Refused(ctx context.Context, value string) {
	if c := e.vault.acting(ctx); c != nil && c.subject != nil {
		e.source.Refused(c.subject, strings.TrimPrefix(value, bearer))
	}
}

func noToken(upstream string) error {
	return fault.New(fault.CredentialFailed, "upstream %q needs a token of the caller's own, and this caller has none", upstream).
		WithHint("nothing ran; sign in at the identity provider instead of using an API key")
}

// passed is the caller's own token, where it was issued for this upstream, too.
type passed struct {
	upstream, audience string
	vault              *vault
}

// PerCaller implements south.Authorizer.
func (*passed) PerCaller() bool { return true }

// Authorize implements south.Authorizer.
func (p *passed) Authorize(ctx context.Context) (string, error) {
	c := p.vault.acting(ctx)
	switch {
	case c == nil:
		return "", nil
	case c.Bearer() == "":
		return "", noToken(p.upstream)
	case !slices.Contains(c.Audiences(), p.audience):
		return "", fault.New(fault.CredentialFailed, "the token of this caller is not for upstream %q", p.upstream).
			WithHint("nothing ran; get one that names its audience, too")
	}
	return bearer + c.Bearer(), nil
}

// Refused implements south.Authorizer: there is no other.
func (*passed) Refused(context.Context, string) {}
