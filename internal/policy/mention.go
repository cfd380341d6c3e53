package policy

import (
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// mentions is what of the request a condition refers to. It may name more than
// the condition uses, and never less.
type mentions struct {
	arguments bool

	issuer, subject, tenant, scopes bool
	claims                          map[string]bool // by name
	allClaims                       bool
}

func (m *mentions) principal() bool {
	return m.issuer || m.subject || m.tenant || m.scopes || m.allClaims || len(m.claims) > 0
}

func mentioned(root ast.NavigableExpr) mentions {
	m := mentions{claims: map[string]bool{}}
	for _, e := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		switch strings.TrimPrefix(e.AsIdent(), ".") {
		case "arguments":
			m.arguments = true
		case "principal":
			m.add(e)
		}
	}
	return m
}

// add notes which field of the principal an expression takes.
func (m *mentions) add(e ast.NavigableExpr) {
	field, ok := e.Parent()
	if ok && field.Kind() == ast.SelectKind {
		switch field.AsSelect().FieldName() {
		case "issuer":
			m.issuer = true
		case "subject":
			m.subject = true
		case "tenant":
			m.tenant = true
		case "scopes":
			m.scopes = true
		case "claims":
			if name, ok := member(field); ok {
				m.claims[name] = true
			} else {
				m.allClaims = true
			}
		}
		return
	}
	m.issuer, m.subject, m.tenant, m.scopes, m.allClaims = true, true, true, true, true
}

// member returns the one member that is taken of an expression, where only one
// is: of x.name, has(x.name), x["name"] and "name" in x.
func member(e ast.NavigableExpr) (string, bool) {
	parent, ok := e.Parent()
	if !ok {
		return "", false
	}
	if parent.Kind() == ast.SelectKind {
		return parent.AsSelect().FieldName(), true
	}
	if parent.Kind() != ast.CallKind {
		return "", false
	}
	call := parent.AsCall()
	args := call.Args()
	if len(args) != 2 {
		return "", false
	}
	var key ast.Expr
	switch {
	case call.FunctionName() == operators.Index && args[0].ID() == e.ID():
		key = args[1]
	case call.FunctionName() == operators.In && args[1].ID() == e.ID():
		key = args[0]
	default:
		return "", false
	}
	if key.Kind() != ast.LiteralKind {
		return "", false
	}
	name, ok := key.AsLiteral().Value().(string)
	return name, ok
}

// identify appends what tells apart two callers to the conditions. It reports
// false for a caller that cannot be told from others.
func (m *mentions) identify(b []byte, c *Caller) ([]byte, bool) {
	part := func(mentioned bool, value any) (ok bool) {
		if !mentioned {
			return true
		}
		b, ok = appendClaim(append(b, '|'), value, 0)
		return ok
	}
	if !part(m.issuer, c.Issuer) || !part(m.subject, c.Subject) || !part(m.tenant, c.Tenant) ||
		!part(m.scopes, c.Scopes) || !part(m.allClaims, c.Claims) {
		return b, false
	}
	if m.allClaims {
		return b, true
	}
	for _, name := range slices.Sorted(maps.Keys(m.claims)) {
		value, ok := c.Claims[name]
		if !ok {
			b = append(b, "|-"...)
		} else if !part(true, value) {
			return b, false
		}
	}
	return b, true
}

func (m *mentions) merge(o *mentions) {
	m.arguments = m.arguments || o.arguments
	m.issuer = m.issuer || o.issuer
	m.subject = m.subject || o.subject
	m.tenant = m.tenant || o.tenant
	m.scopes = m.scopes || o.scopes
	m.allClaims = m.allClaims || o.allClaims
	for name := range o.claims {
		if m.claims == nil {
			m.claims = map[string]bool{}
		}
		m.claims[name] = true
	}
}
