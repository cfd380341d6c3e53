package grant

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"time"
)

// Options configure a ClientCredentials or an Exchange (`upstreams.*.credentials`
// of the document). New copies what it keeps.
type Options struct {
	Upstream     string // configured key, for errors and logs
	TokenURL     string // https, or http on loopback
	ClientID     string
	ClientSecret Secret // empty: a public client, which names itself in the form
	Scopes       []string
	Audience     string
	Resource     string // an absolute URI (RFC 8707)

	Timeout time.Duration // of one request to the token endpoint; default 10 s
	Entries int           // subjects whose tokens are kept; default 10000
	// RootCAs vouch for the token endpoint; nil: those of the system.
	RootCAs *x509.CertPool

	Log *slog.Logger     // default: discards
	Now func() time.Time // default: time.Now

	// Outcome, when set, is told of every token from memory ("cached") and of
	// every request to the endpoint: "ok"; "refused" by the provider; "failed",
	// as the answer cannot be used; "unavailable". kind is "client_credentials"
	// or "exchange". It must not block.
	Outcome func(kind, outcome string, d time.Duration)
}

// defaultEntries is how many subjects are kept.
const defaultEntries = 10000

// ready fills in the defaults, and reports every fault of the options. No text
// of a fault repeats a value, as a secret may stand at the wrong place.
func (o *Options) ready() (*url.URL, error) {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Entries <= 0 {
		o.Entries = defaultEntries
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}

	var faults []error
	addf := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("upstream %q: "+format, append([]any{o.Upstream}, args...)...))
	}
	u, err := url.Parse(o.TokenURL)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		addf("token_url is not an absolute URL")
	case u.User != nil:
		addf("token_url must not hold a user or password")
	case u.Fragment != "":
		addf("token_url must not have a fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		addf("token_url must be https, or http on loopback")
	}
	if o.ClientID == "" {
		addf("client_id is missing")
	}
	for i, s := range o.Scopes {
		if !scopeToken(s) {
			addf("scopes[%d] is not a scope: printable ASCII without spaces, quotes and backslashes", i)
		}
	}
	if o.Resource != "" {
		if r, err := url.Parse(o.Resource); err != nil || !r.IsAbs() || r.Fragment != "" {
			addf("resource is not an absolute URI without a fragment")
		}
	}
	return u, errors.Join(faults...)
}

// loopback says whether a host is this machine by its very name.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// scopeToken is the scope-token of RFC 6749 3.3.
func scopeToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}
