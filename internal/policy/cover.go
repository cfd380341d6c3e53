package policy

import (
	"fmt"
	"slices"
	"strings"
)

// coveredBy reports whether the effects that some rules have, together, leave
// nothing of one rule's names, whoever calls and wherever; and which rules they
// are. It may miss that this is so, and never claims it wrongly.
func coveredBy(rules []Rule, r *Rule, names *Names, effect func(*Rule) *Names) (string, bool) {
	var by []string
	for kind := range numKinds {
		for _, glob := range names.of(kind) {
			at := slices.IndexFunc(rules, func(other Rule) bool {
				wide := effect(&other).of(kind)
				return other.reaches(r) && slices.ContainsFunc(wide, func(w string) bool { return covers(w, glob) })
			})
			if at < 0 {
				return "", false
			}
			if id := fmt.Sprintf("%q", rules[at].ID); !slices.Contains(by, id) {
				by = append(by, id)
			}
		}
	}
	return strings.Join(by, " and "), true
}

// reaches reports whether a rule concerns everybody and everywhere that another
// one does.
func (r *Rule) reaches(other *Rule) bool {
	if !covers(orAll(r.Server), orAll(other.Server)) || !covers(orAll(r.Upstream), orAll(other.Upstream)) {
		return false
	}
	if !coverAll(r.Issuer, other.Issuer) || !coverAll(r.Subject, other.Subject) || !coverAll(r.Tenant, other.Tenant) {
		return false
	}
	for _, scope := range r.Scopes {
		if !slices.Contains(other.Scopes, scope) {
			return false
		}
	}
	for name, glob := range r.Claims {
		narrow, ok := other.Claims[name]
		if !ok || !covers(glob, narrow) {
			return false
		}
	}
	return true
}

// coverAll reports whether a field of who fits everybody whom another fits.
func coverAll(wide, narrow []string) bool {
	if wide == nil {
		return true
	}
	if narrow == nil {
		return slices.ContainsFunc(wide, func(w string) bool { return covers(w, "*") })
	}
	for _, n := range narrow {
		if !slices.ContainsFunc(wide, func(w string) bool { return covers(w, n) }) {
			return false
		}
	}
	return true
}
