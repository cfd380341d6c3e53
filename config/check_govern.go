package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/policy"
)

// checkGovernance checks who may do what: auth, policy, hooks, audit and the
// credentials that depend on them.
func (d *decoder) checkGovernance(doc *Document) {
	d.checkPublicURL(doc)
	if doc.Auth != nil {
		d.checkAuth(doc.Auth)
	}
	d.checkPolicy(doc)
	d.checkHooks(doc.Hooks)
	if doc.Audit != nil {
		d.checkAudit(doc.Audit)
	}
}

func (d *decoder) checkPublicURL(doc *Document) {
	if doc.PublicURL == "" || d.bad("public_url") {
		return
	}
	if u, err := url.Parse(doc.PublicURL); err == nil && u.RawQuery != "" {
		d.problemFor("public_url", "", "must not have a query", "")
	}
	if doc.Auth != nil && !confidential(doc.PublicURL) {
		d.warnFor("public_url", "", "clients are told to send their tokens over http in clear text", "use https")
	}
}

// confidential tells whether what is sent to a URL stays between two parties: it
// is https, or does not leave this machine.
func confidential(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (strings.EqualFold(u.Scheme, "https") || loopbackHost(u.Hostname()))
}

// checkConfidential refuses a URL that secrets would be sent to, or trust be put
// into, in clear text (DESIGN section 11).
func (d *decoder) checkConfidential(path, text string) {
	if text == "" || d.bad(path) {
		return
	}
	if !ValidURL(text) {
		d.problemFor(path, "", "must be an absolute http or https URL without user name and fragment"+d.shown(path), "")
	} else if !confidential(text) {
		d.problemFor(path, "", "must be https, or on this machine"+d.shown(path), "")
	}
}

// signatures are the algorithms that a token may be signed with: none where whoever
// can verify could also sign.
var signatures = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func (d *decoder) checkAuth(a *Auth) {
	if len(a.JWT) == 0 && len(a.APIKeys) == 0 && !d.bad("auth.jwt") && !d.bad("auth.api_keys") {
		d.problemFor("auth", keySuffix, "names nobody who could call", "give it jwt or api_keys, or remove it")
	}
	for i := range a.JWT {
		d.checkIssuer(fmt.Sprintf("auth.jwt[%d]", i), &a.JWT[i])
	}
	d.checkAPIKeys(a.APIKeys)
	d.checkFile("auth.revoked", a.Revoked)
	for i, s := range a.RequiredScopes {
		d.checkScope(fmt.Sprintf("auth.required_scopes[%d]", i), s)
	}
}

func (d *decoder) checkIssuer(path string, j *JWTIssuer) {
	d.checkConfidential(path+".issuer", j.Issuer)
	d.checkConfidential(path+".jwks_url", j.JWKSURL)
	if j.Audience == "" && !d.bad(path+".audience") {
		d.problemFor(path+".audience", "", "must not be empty", "")
	}
	if _, written := d.places[path+".algorithms"]; written && len(j.Algorithms) == 0 && !d.bad(path+".algorithms") {
		d.problemFor(path+".algorithms", "", "names none", "name those that the issuer signs with, such as RS256")
	}
	for i, name := range j.Algorithms {
		at := fmt.Sprintf("%s.algorithms[%d]", path, i)
		if !slices.Contains(signatures, name) && !d.bad(at) {
			d.problemFor(at, "", "must be one of "+strings.Join(signatures, ", ")+d.shown(at), "")
		}
	}
}

func (d *decoder) checkAPIKeys(keys []APIKey) {
	names, hashes := map[string]int{}, map[string]int{}
	for i := range keys {
		k := &keys[i]
		path := fmt.Sprintf("auth.api_keys[%d]", i)
		if first, twice := names[k.Name]; twice && k.Name != "" {
			d.problemFor(path+".name", "", fmt.Sprintf("is the name of auth.api_keys[%d] already", first), "")
		}
		if first, twice := hashes[k.Hash]; twice && k.Hash != "" {
			d.problemFor(path+".hash", "", fmt.Sprintf("is the hash of auth.api_keys[%d] already", first), "a key stands for one caller")
		}
		if k.Placeholder() && !d.bad(path+".hash") {
			d.warnFor(path+".hash", "", "is the hash of no key, so nobody can call with it", "penstock key new prints a key and its hash")
		}
		names[k.Name], hashes[k.Hash] = i, i
		if k.Subject == "" && !d.bad(path+".subject") {
			d.problemFor(path+".subject", "", "must not be empty", "")
		}
		for n, s := range k.Scopes {
			d.checkScope(fmt.Sprintf("%s.scopes[%d]", path, n), s)
		}
		if k.Expires == "" || d.bad(path+".expires") {
			continue
		}
		if day, err := time.Parse(time.DateOnly, k.Expires); err != nil {
			d.problemFor(path+".expires", "", "is no day of the calendar"+d.shown(path+".expires"), "")
		} else if !day.After(time.Now()) {
			d.warnFor(path+".expires", "", "the key has expired", "")
		}
	}
}

// checkScope refuses what no token could carry (RFC 6749 section 3.3).
func (d *decoder) checkScope(path, scope string) {
	if d.bad(path) {
		return
	}
	if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		d.problemFor(path, "", `a scope has no spaces, quotes, backslashes or characters beyond ASCII`+d.shown(path), "")
	}
}

func (d *decoder) checkPolicy(doc *Document) {
	rules := doc.PolicyRules()
	_, err := policy.Compile(rules)
	if err != nil {
		for _, e := range apart(err) {
			var r *policy.RuleError
			if !errors.As(e, &r) {
				d.problemFor("policy", keySuffix, e.Error(), "")
				continue
			}
			path, suffix := d.ruleField(r.Index, r.Field)
			message := r.Message
			if r.Line > 0 {
				message = fmt.Sprintf("at %d:%d of the condition: %s", r.Line, r.Column, message)
			}
			if !d.bad(path) {
				d.problemFor(path, suffix, message, "")
			}
		}
		return
	}
	for _, w := range policy.Check(rules, doc.known()) {
		if w.Index < 0 {
			d.warnFor("policy", keySuffix, w.Message, "")
			continue
		}
		path, suffix := d.ruleField(w.Index, w.Field)
		d.warnFor(path, suffix, w.Message, "")
	}
}

// ruleField is the path of a field of a rule that is written in the document, or
// of the rule.
func (d *decoder) ruleField(index int, field string) (path, suffix string) {
	path = fmt.Sprintf("policy[%d]", index)
	if field == "" {
		return path, ""
	}
	if _, written := d.places[path+"."+field]; written {
		return path + "." + field, ""
	}
	return path, ""
}

// apart takes joined errors apart.
func apart(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

// known is what the document says of those whom policy is about. Over stdio the
// caller is always the local one.
func (d *Document) known() policy.Known {
	k := policy.Known{
		Servers: d.ServerNames(), Upstreams: d.UpstreamKeys(), Issuers: []string{"penstock:local"},
		ServerUpstreams: map[string][]string{},
	}
	for name, s := range d.Servers {
		k.ServerUpstreams[name] = s.Upstreams
	}
	if d.AllowAnonymous.On() {
		k.Issuers = append(k.Issuers, "penstock:anonymous")
	}
	if d.Auth == nil {
		return k
	}
	for i := range d.Auth.JWT {
		k.Issuers = append(k.Issuers, d.Auth.JWT[i].Issuer)
		k.JWT = true
	}
	for i := range d.Auth.APIKeys {
		a := &d.Auth.APIKeys[i]
		k.Keys = append(k.Keys, policy.KeyFacts{Subject: a.Subject, Tenant: a.Tenant, Scopes: a.Scopes})
	}
	if len(k.Keys) > 0 {
		k.Issuers = append(k.Issuers, "penstock:key")
	}
	return k
}

func (d *decoder) checkHooks(hooks []Hook) {
	ids := map[string]int{}
	for i := range hooks {
		h := &hooks[i]
		path := fmt.Sprintf("hooks[%d]", i)
		if first, twice := ids[h.ID]; twice && h.ID != "" {
			d.problemFor(path+".id", "", fmt.Sprintf("is the id of hooks[%d] already", first), "")
		}
		ids[h.ID] = i
		if len(h.Events) == 0 && !d.bad(path+".events") {
			d.problemFor(path+".events", "", "names none, so that the hook is never asked", "")
		}
		for n, e := range h.Events {
			if slices.Contains(h.Events[:n], e) {
				d.problemFor(path+".events", "", "names "+e+" twice", "")
			}
		}
		if h.URL != "" && !d.bad(path+".url") && !confidential(h.URL) {
			d.warnFor(path+".url", "", "arguments and results travel over http in clear text", "use https")
		}
	}
}

func (d *decoder) checkAudit(a *Audit) {
	switch {
	case d.bad("audit.file"), d.bad("audit.stdout"):
	case a.File == "" && !a.Stdout.On():
		d.problemFor("audit", keySuffix, "goes nowhere", "give it file, or stdout: on")
	case a.File != "" && a.Stdout.On():
		d.problemFor("audit.stdout", "", "is given together with file", "keep one of them")
	case a.File != "":
		if info, err := os.Stat(filepath.Dir(a.File)); err != nil || !info.IsDir() {
			d.problemFor("audit.file", "", "its folder does not exist"+d.named("audit.file"), "make the folder")
		} else if info, err := os.Stat(a.File); err == nil && info.IsDir() {
			d.problemFor("audit.file", "", "is a folder, not a file"+d.named("audit.file"), "")
		}
	}
	if at, written := d.places["audit.key"]; written && !at.bad && a.Key.IsZero() {
		d.problemFor("audit.key", "", "must not be empty", "remove the key for a chain without one")
	} else if written && len(a.Key.Reveal()) < 32 {
		d.warnFor("audit.key", "", "a key of less than 32 bytes can be guessed", "use 32 random bytes or more")
	}
	d.warnPlain("audit.key", a.Key)
}

// checkGrants checks the credentials of an upstream that are got for a caller or
// for the gateway.
func (d *decoder) checkGrants(doc *Document, path string, u *Upstream) {
	secret := func(at string, s Secret) {
		if _, written := d.places[at]; written && !d.bad(at) && s.IsZero() {
			d.problemFor(at, "", "must not be empty", "")
		}
		d.warnPlain(at, s)
	}
	if c := u.Credentials.ClientCredentials; c != nil {
		d.checkConfidential(path+".client_credentials.token_url", c.TokenURL)
		secret(path+".client_credentials.client_secret", c.ClientSecret)
		for i, s := range c.Scopes {
			d.checkScope(fmt.Sprintf("%s.client_credentials.scopes[%d]", path, i), s)
		}
	}
	tokens := doc.Auth != nil && len(doc.Auth.JWT) > 0
	if c := u.Credentials.Exchange; c != nil {
		d.checkConfidential(path+".exchange.token_url", c.TokenURL)
		secret(path+".exchange.client_secret", c.ClientSecret)
		if !tokens {
			d.problemFor(path+".exchange", keySuffix, "callers have no tokens that could be exchanged", "set up auth.jwt")
		}
	}
	if u.Credentials.Passthrough != nil {
		if !tokens {
			d.problemFor(path+".passthrough", keySuffix, "callers have no tokens that could be passed on", "set up auth.jwt")
		} else {
			d.warnFor(path+".passthrough", keySuffix, "the upstream gets a token that is good for this gateway, too", "use exchange")
		}
	}
}
