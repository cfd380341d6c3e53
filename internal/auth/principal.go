package auth

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Issuers of principals that no identity provider vouches for. A document cannot
// name an issuer that begins like them.
const (
	IssuerLocal     = "penstock:local"
	IssuerAnonymous = "penstock:anonymous"
	IssuerKey       = "penstock:key" // API keys

	issuersOwn = "penstock:"
)

// Key is the principal key: SHA-256 over length-prefixed issuer, tenant and
// subject. Scopes are not part of it, nor is the token that proved them.
func Key(issuer, tenant, subject string) [32]byte {
	b := make([]byte, 0, 24+len(issuer)+len(tenant)+len(subject))
	for _, s := range [...]string{issuer, tenant, subject} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return sha256.Sum256(b)
}

// Principal says who is calling (DESIGN section 7). It is immutable and shared
// between requests: nobody may change what its fields refer to.
//
// However it is printed, logged or marshalled, it never shows the bearer.
type Principal struct {
	Key        [32]byte // the principal key
	Issuer     string
	Tenant     string
	Subject    string
	Name       string         // for logs: the subject, or the API key's name; never a secret
	Scopes     []string       // sorted, without repetition
	Claims     map[string]any // of the token; integral numbers that fit are int64, others float64; nil for API keys
	Credential string         // jti or the API key's name, for revocation and audit; "" for none
	TokenHash  [32]byte       // SHA-256 of the bearer's bytes; zero without one
	Expires    time.Time      // zero: never

	token    string      // the bearer itself; "" for all but tokens
	audience []string    // aud of the token
	signed   *signingKey // what the token was verified with; nil for all but tokens
	kept     *kept       // see Keep
}

var (
	local     = plain(IssuerLocal, "local")
	anonymous = plain(IssuerAnonymous, "anonymous")
)

func plain(issuer, name string) *Principal {
	return &Principal{kept: new(kept), Key: Key(issuer, "", name), Issuer: issuer, Subject: name, Name: name}
}

// Local is whoever runs the gateway for himself, without credentials. It is
// always the same value.
func Local() *Principal { return local }

// Anonymous is a caller without credentials where these are not asked for. It is
// always the same value.
func Anonymous() *Principal { return anonymous }

// Bearer is the token as it was sent, for token exchange and for passing it on
// where the document allows that. It is "" for API keys, local and anonymous
// callers.
func (p *Principal) Bearer() string { return p.token }

// Audiences is aud of the token. It must not be changed.
func (p *Principal) Audiences() []string { return p.audience }

// The methods below have value receivers, so that a copy is as discreet as the
// principal itself.

// String names the principal without anything secret.
func (p Principal) String() string {
	s := p.Issuer + " " + p.Subject
	if p.Tenant != "" {
		s += " of " + p.Tenant
	}
	return s
}

// GoString is String, so that %#v shows no more.
func (p Principal) GoString() string { return "auth.Principal{" + p.String() + "}" }

// Format writes the same for every verb: fmt would otherwise print the fields for
// those that do not suit strings.
func (p Principal) Format(f fmt.State, verb rune) {
	s := p.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		s = p.GoString()
	case verb == 'q':
		s = fmt.Sprintf("%q", s)
	}
	_, _ = io.WriteString(f, s)
}

// LogValue is what a log shows of the principal.
func (p Principal) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 4)
	for _, a := range [...]slog.Attr{
		slog.String("issuer", p.Issuer), slog.String("tenant", p.Tenant),
		slog.String("subject", p.Subject), slog.String("credential", p.Credential),
	} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	return slog.GroupValue(attrs...)
}

// MarshalJSON writes who it is and what it may; neither the bearer nor its hash
// nor the other claims.
func (p Principal) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(struct {
		Issuer     string   `json:"issuer"`
		Tenant     string   `json:"tenant,omitempty"`
		Subject    string   `json:"subject"`
		Name       string   `json:"name,omitempty"`
		Scopes     []string `json:"scopes,omitempty"`
		Credential string   `json:"credential,omitempty"`
	}{p.Issuer, p.Tenant, p.Subject, p.Name, p.Scopes, p.Credential})
	if err != nil {
		return nil, fmt.Errorf("principal: %w", err)
	}
	return b, nil
}
