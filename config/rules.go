package config

import "github.com/penstock-mcp/penstock/internal/policy"

// PolicyRules are the rules of the document as they are judged by; nil without any,
// which allows everything.
func (d *Document) PolicyRules() []policy.Rule {
	if d.Policy == nil {
		return nil
	}
	rules := make([]policy.Rule, 0, len(d.Policy))
	for i := range d.Policy {
		rules = append(rules, d.Policy[i].rule())
	}
	return rules
}

func (r *PolicyRule) rule() policy.Rule {
	out := policy.Rule{
		ID: r.ID, Scopes: r.Who.Scopes, Server: string(r.Server), Upstream: string(r.Upstream), When: r.When,
		Issuer: texts(r.Who.Issuer), Subject: texts(r.Who.Subject), Tenant: texts(r.Who.Tenant),
		Allow: r.Allow.names(), Deny: r.Deny.names(),
	}
	for name, glob := range r.Who.Claims {
		if out.Claims == nil {
			out.Claims = map[string]string{}
		}
		out.Claims[name] = string(glob)
	}
	return out
}

func (n *Names) names() *policy.Names {
	if n == nil {
		return nil
	}
	return &policy.Names{Tools: texts(n.Tools), Prompts: texts(n.Prompts), Resources: texts(n.Resources)}
}

// texts keeps apart what is absent, which restricts nothing, and what is empty,
// which policy refuses.
func texts(globs []Glob) []string {
	if globs == nil {
		return nil
	}
	out := make([]string, 0, len(globs))
	for _, g := range globs {
		out = append(out, string(g))
	}
	return out
}
