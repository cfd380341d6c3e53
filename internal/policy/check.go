package policy

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/interpreter"
)

// Known is what the rest of the document says, for Check.
type Known struct {
	Servers, Upstreams []string
	Issuers            []string            // everybody who can vouch for a caller
	ServerUpstreams    map[string][]string // the upstreams of each server
	Keys               []KeyFacts          // of the API keys
	JWT                bool                // whether tokens are accepted besides them
}

// KeyFacts is whom an API key stands for.
type KeyFacts struct {
	Subject, Tenant string
	Scopes          []string
}

// Warning is something in a rule that has no effect, or one that nobody can
// have meant.
type Warning struct {
	Index   int // of the rule, from 0; -1 for the policy as a whole
	ID      string
	Field   string // as in RuleError; "" for the rule as a whole
	Message string
}

// Check finds rules that can never match or never decide, in rules that
// compile. It misses some, and never names one that can.
func Check(rules []Rule, k Known) []Warning {
	if rules == nil {
		return nil
	}
	var out []Warning
	allows := false
	for i := range rules {
		r := &rules[i]
		warn := func(field, format string, args ...any) {
			out = append(out, Warning{Index: i, ID: r.ID, Field: field, Message: fmt.Sprintf(format, args...)})
		}
		if r.Allow.empty() && r.Deny.empty() {
			warn("", "it names nothing, neither to allow nor to deny")
			continue
		}
		allows = allows || !r.Allow.empty()
		r.checkWhere(k, warn)
		r.checkWho(k, warn)
		r.checkWhen(warn)
		checkCovered(rules, i, warn)
	}
	if !allows {
		out = append(out, Warning{Index: -1, Field: "allow", Message: "no rule allows anything, so that nothing will ever be allowed"})
	}
	return out
}

func (n *Names) empty() bool {
	return n == nil || len(n.Tools)+len(n.Prompts)+len(n.Resources) == 0
}

type warner = func(field, format string, args ...any)

func (r *Rule) checkWhere(k Known, warn warner) {
	server, upstream := newPattern(orAll(r.Server)), newPattern(orAll(r.Upstream))
	fine := true
	if !slices.ContainsFunc(k.Servers, server.matches) {
		warn("server", "no server is named like %q", orAll(r.Server))
		fine = false
	}
	if !slices.ContainsFunc(k.Upstreams, upstream.matches) {
		warn("upstream", "no upstream is named like %q", orAll(r.Upstream))
		fine = false
	}
	if !fine {
		return
	}
	for _, s := range k.Servers {
		if server.matches(s) && slices.ContainsFunc(k.ServerUpstreams[s], upstream.matches) {
			return
		}
	}
	warn("upstream", "no server named like %q has an upstream named like %q", orAll(r.Server), orAll(r.Upstream))
}

func (r *Rule) checkWho(k Known, warn warner) {
	w := r.compile(0).who
	if w.issuer != nil && !slices.ContainsFunc(k.Issuers, func(s string) bool { return anyOf(w.issuer, s) }) {
		warn("who.issuer", "nobody vouches for callers as this issuer")
		return
	}
	if k.JWT || len(k.Keys) == 0 {
		return // tokens can say anything, and the local mode is not described
	}
	// Only API keys: everybody who can ever call is known.
	some := func(fits func(*KeyFacts) bool) bool {
		return slices.ContainsFunc(k.Keys, func(key KeyFacts) bool { return fits(&key) })
	}
	subject := func(key *KeyFacts) bool { return fits(w.subject, key.Subject) }
	tenant := func(key *KeyFacts) bool { return fits(w.tenant, key.Tenant) }
	scopes := func(key *KeyFacts) bool {
		return !slices.ContainsFunc(w.scopes, func(s string) bool { return !slices.Contains(key.Scopes, s) })
	}
	switch {
	case len(w.claims) > 0:
		warn("who.claims", "there are only API keys, and they have no claims")
	case !some(subject):
		warn("who.subject", "no API key has such a subject")
	case !some(tenant):
		warn("who.tenant", "no API key has such a tenant")
	case !some(scopes):
		warn("who.scopes", "no API key has all of these scopes")
	case !some(func(key *KeyFacts) bool { return subject(key) && tenant(key) && scopes(key) }):
		warn("who", "no API key has all of this")
	}
}

// checkWhen evaluates the condition with nothing known: what is decided then is
// decided always.
func (r *Rule) checkWhen(warn warner) {
	if r.When == "" {
		return
	}
	c, _ := compile(r.When)
	if c == nil {
		return // Compile says why
	}
	value, _, err := c.program.Eval(nothing{})
	o, err := judged(value, err)
	switch {
	case o == no:
		warn("when", "the condition is always false")
	case o == failed && r.Deny.empty():
		warn("when", "the condition always fails (%s), so that it never allows", short(err))
	case o == failed:
		warn("when", "the condition always fails (%s), so that it always denies", short(err))
	}
}

// checkCovered finds effects that other rules leave nothing to decide.
func checkCovered(rules []Rule, at int, warn warner) {
	r := &rules[at]
	if !r.Allow.empty() {
		if by, ok := coveredBy(rules, r, r.Allow, func(other *Rule) *Names {
			if other.When == "" {
				return other.Deny
			}
			return nil
		}); ok {
			warn("allow", "everything it allows is denied by %s", by)
			return
		}
		if by, ok := coveredBy(rules[:at], r, r.Allow, func(other *Rule) *Names {
			if other.When == "" || other.When == r.When {
				return other.Allow
			}
			return nil
		}); ok {
			warn("allow", "everything it allows is allowed by %s before", by)
		}
	}
	if !r.Deny.empty() {
		if by, ok := coveredBy(rules[:at], r, r.Deny, func(other *Rule) *Names {
			if other.When == "" || other.When == r.When {
				return other.Deny
			}
			return nil
		}); ok {
			warn("deny", "everything it denies is denied by %s before", by)
		}
	}
}

// nothing is a call of which nothing is known.
type nothing struct{}

func (nothing) ResolveName(string) (any, bool) { return unknownArguments, true }
func (nothing) Parent() interpreter.Activation { return nil }
