package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Issuer is an identity provider whose tokens are accepted. The same issuer may
// be named several times, with different audiences; any of them may match.
type Issuer struct {
	Issuer      string   // iss, compared exactly
	Audience    string   // must be in aud
	JWKSURL     string   // "": discovered from the issuer
	Algorithms  []string // those it signs with; at least one
	TenantClaim string   // "": callers have no tenant; else a token without it is refused
	ScopeClaim  string   // "": scope
}

// APIKey is a key that is known by its hash alone.
type APIKey struct {
	Name    string
	Hash    [32]byte // SHA-256 of the key's bytes
	Subject string
	Tenant  string
	Scopes  []string
	Expires time.Time // the day from which it is refused, as its date says, in UTC; zero: never
}

// Options are what an Authenticator is made of.
type Options struct {
	Issuers     []Issuer
	APIKeys     []APIKey
	RevokedFile string // "": none

	// RequiredScopes are those that every token and every API key must have.
	RequiredScopes []string
	// Anonymous lets a request without any Authorization header in, as
	// Anonymous(). A credential that is bad is refused nevertheless.
	Anonymous bool

	Log *slog.Logger     // nil: none
	Now func() time.Time // for the dates of credentials; nil: time.Now
	// Outcome is told once for each Identify, with one of Outcomes(); nil: nobody.
	// It is called on the request's way, from many goroutines.
	Outcome func(outcome string)
	// HTTP reaches the identity providers; nil: a client of its own, which reads no
	// proxy of the environment. Either way it follows redirects within an origin
	// only.
	HTTP *http.Client
}

// check reports everything that is wrong with the options.
func (o *Options) check() error {
	var errs []error
	for i := range o.Issuers {
		if err := o.Issuers[i].check(); err != nil {
			errs = append(errs, fmt.Errorf("issuer %q: %w", o.Issuers[i].Issuer, err))
		}
	}
	names, hashes := map[string]bool{}, map[digest]bool{}
	for _, k := range o.APIKeys {
		switch {
		case k.Name == "":
			errs = append(errs, errors.New("an API key has no name"))
		case names[k.Name]:
			errs = append(errs, fmt.Errorf("two API keys are named %q", k.Name))
		case k.Subject == "":
			errs = append(errs, fmt.Errorf("API key %q has no subject", k.Name))
		case k.Hash == digest{}:
			errs = append(errs, fmt.Errorf("API key %q has no hash", k.Name))
		case hashes[k.Hash]:
			errs = append(errs, fmt.Errorf("API key %q has the hash of another", k.Name))
		}
		names[k.Name], hashes[k.Hash] = true, true
	}
	for _, s := range o.RequiredScopes {
		if !isScope(s) {
			errs = append(errs, fmt.Errorf("required scope %q is not a scope: visible ASCII without quotes and backslashes", s))
		}
	}
	return errors.Join(errs...)
}

func (is *Issuer) check() error {
	var errs []error
	if is.Issuer == "" || strings.HasPrefix(is.Issuer, issuersOwn) {
		errs = append(errs, errors.New("not a name that an issuer can have"))
	}
	if is.Audience == "" {
		errs = append(errs, errors.New("the audience is missing: without it, tokens for other services would be accepted"))
	}
	if len(is.Algorithms) == 0 {
		errs = append(errs, errors.New("algorithms are missing; name those it signs with, such as RS256 or ES256"))
	}
	for _, a := range is.Algorithms {
		if err := checkAlgorithm(a); err != nil {
			errs = append(errs, err)
		}
	}
	if is.JWKSURL != "" {
		if _, err := checkAddress(is.JWKSURL); err != nil {
			errs = append(errs, fmt.Errorf("jwks_url: %w", err))
		}
	} else if u, err := checkAddress(is.Issuer); err != nil {
		errs = append(errs, fmt.Errorf("its keys cannot be discovered without jwks_url: %w", err))
	} else if u.RawQuery != "" {
		errs = append(errs, errors.New("its keys cannot be discovered without jwks_url: it has a query"))
	}
	return errors.Join(errs...)
}

// isScope tells whether s is a scope-token of RFC 6749.
func isScope(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

// principal is whom a key stands for.
func (k *APIKey) principal() *Principal {
	p := &Principal{
		kept: new(kept),
		Key:  Key(IssuerKey, k.Tenant, k.Subject), Issuer: IssuerKey, Tenant: k.Tenant, Subject: k.Subject,
		Name: k.Name, Scopes: tidy(k.Scopes), Credential: k.Name, TokenHash: k.Hash,
	}
	if !k.Expires.IsZero() {
		y, m, d := k.Expires.Date()
		p.Expires = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	return p
}
