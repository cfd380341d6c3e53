package policy

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// principal is the caller as conditions see it: what they mention of it, and
// nothing else. It is made once per selection, which callers share to whom that
// is the same; so no condition can see another caller's.
type principal struct {
	record
	issuer, subject, tenant, scopes, claims ref.Val // nil: not mentioned
}

func newPrincipal(c *Caller, m *mentions) *principal {
	p := &principal{}
	p.record = record{principalType, p}
	if m.issuer {
		p.issuer = types.String(c.Issuer)
	}
	if m.subject {
		p.subject = types.String(c.Subject)
	}
	if m.tenant {
		p.tenant = types.String(c.Tenant)
	}
	if m.scopes {
		p.scopes = types.NewStringList(types.DefaultTypeAdapter, c.Scopes)
	}
	claims := c.Claims
	if !m.allClaims {
		claims = make(map[string]any, len(m.claims))
		for name := range m.claims {
			if value, ok := c.Claims[name]; ok {
				claims[name] = value
			}
		}
	}
	p.claims = claimsValue(claims)
	return p
}

func (p *principal) field(name string) ref.Val {
	var value ref.Val
	switch name {
	case "issuer":
		value = p.issuer
	case "subject":
		value = p.subject
	case "tenant":
		value = p.tenant
	case "scopes":
		value = p.scopes
	case "claims":
		value = p.claims
	}
	if value == nil {
		return types.NewErr("no such field: %s", name)
	}
	return value
}
