package main

import (
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client is a confidential client without a person in front of it. It does not change once registered.
type client struct {
	ID     string   `json:"id"`
	Secret string   `json:"secret"`
	Grants []string `json:"grants"`
}

var _ op.Client = (*client)(nil)

// GetID implements op.Client, as do the methods below.
func (c *client) GetID() string { return c.ID }

// GrantTypes is what the client may ask the token endpoint for.
func (c *client) GrantTypes() []oidc.GrantType {
	all := make([]oidc.GrantType, 0, len(c.Grants))
	for _, g := range c.Grants {
		all = append(all, oidc.GrantType(g))
	}
	return all
}

func (c *client) may(grant oidc.GrantType) bool { return slices.Contains(c.Grants, string(grant)) }

// AccessTokenType is JWT, which is what a gateway can verify.
func (c *client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

// RedirectURIs and what follows belong to logins, of which there are none.
func (c *client) RedirectURIs() []string { return nil }

// PostLogoutRedirectURIs implements op.Client.
func (c *client) PostLogoutRedirectURIs() []string { return nil }

// ApplicationType implements op.Client.
func (c *client) ApplicationType() op.ApplicationType { return op.ApplicationTypeWeb }

// AuthMethod implements op.Client.
func (c *client) AuthMethod() oidc.AuthMethod { return oidc.AuthMethodBasic }

// ResponseTypes implements op.Client.
func (c *client) ResponseTypes() []oidc.ResponseType { return nil }

// LoginURL implements op.Client.
func (c *client) LoginURL(string) string { return "" }

// IDTokenLifetime implements op.Client.
func (c *client) IDTokenLifetime() time.Duration { return time.Hour }

// DevMode implements op.Client.
func (c *client) DevMode() bool { return false }

// RestrictAdditionalIdTokenScopes implements op.Client.
func (c *client) RestrictAdditionalIdTokenScopes() func([]string) []string { return same }

// RestrictAdditionalAccessTokenScopes implements op.Client.
func (c *client) RestrictAdditionalAccessTokenScopes() func([]string) []string { return same }

// IsScopeAllowed implements op.Client.
func (c *client) IsScopeAllowed(string) bool { return true }

// IDTokenUserinfoClaimsAssertion implements op.Client.
func (c *client) IDTokenUserinfoClaimsAssertion() bool { return false }

// ClockSkew implements op.Client.
func (c *client) ClockSkew() time.Duration { return 0 }

func same(scopes []string) []string { return scopes }
