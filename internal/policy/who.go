package policy

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Caller is who is asking: what a verified token, an API key or the local mode
// says of them. It is read only, and has to stay as it is for as long as a
// View that was made for it is used.
type Caller struct {
	Issuer, Subject, Tenant string
	Scopes                  []string
	Claims                  map[string]any // as decoded from JSON
}

// who is the compiled "who" of a rule.
type who struct {
	issuer, subject, tenant []pattern // nil: all
	scopes                  []string
	claims                  []claim
}

type claim struct {
	name    string
	pattern pattern
}

// misses returns the first field that does not fit the caller, "" where all do.
func (w *who) misses(c *Caller) string {
	switch {
	case !fits(w.issuer, c.Issuer):
		return "issuer"
	case !fits(w.subject, c.Subject):
		return "subject"
	case !fits(w.tenant, c.Tenant):
		return "tenant"
	}
	for _, scope := range w.scopes {
		if !slices.Contains(c.Scopes, scope) {
			return "scopes"
		}
	}
	for i := range w.claims {
		value, ok := c.Claims[w.claims[i].name]
		if !ok || !claimFits(&w.claims[i].pattern, value) {
			return "claims"
		}
	}
	return ""
}

// claimFits matches the plain text of a scalar, or of any element of an array.
// An object, and an array in an array, have no plain text and fit nothing.
func claimFits(p *pattern, value any) bool {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			if text, ok := plain(element); ok && p.matches(text) {
				return true
			}
		}
		return false
	case []string:
		return slices.ContainsFunc(v, p.matches)
	}
	text, ok := plain(value)
	return ok && p.matches(text)
}

// plain is a scalar as a reader would write it. An integer that JSON decoded as
// a float is written without an exponent: a glob over 1700000000 has to fit it.
func plain(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	}
	return "", false
}
