package hook

import "github.com/penstock-mcp/penstock/internal/wire"

// opening is the part of a body that is the same for all calls of a hook and an
// event.
func opening(id string, e Event) string {
	b := wire.AppendString([]byte(`{"hook":`), id)
	b = wire.AppendString(append(b, `,"event":`...), e.String())
	return string(append(b, `,"principal":`...))
}

// appendBody writes what an endpoint is sent, as configuration.md shows it.
// Arguments and result stand in it as they are.
func appendBody(dst []byte, opening string, c *Call) []byte {
	dst = append(dst, opening...)
	dst = appendPrincipal(dst, &c.Principal)
	dst = wire.AppendString(append(dst, `,"server":`...), c.Server)
	dst = wire.AppendString(append(dst, `,"upstream":`...), c.Upstream)
	dst = wire.AppendString(append(dst, `,"name":`...), c.Name)
	dst = wire.AppendString(append(dst, `,"original":`...), c.Original)
	dst = append(append(dst, `,"arguments":`...), c.arguments()...)
	if result := c.result(); result != nil {
		dst = append(append(dst, `,"result":`...), result...)
	}
	return append(dst, '}')
}

// bodyRoom is about how long the body becomes: strings are seldom escaped.
func bodyRoom(opening string, c *Call) int {
	n := 160 + len(opening) + len(c.Server) + len(c.Upstream) + len(c.Name) + len(c.Original) +
		len(c.Principal.Issuer) + len(c.Principal.Tenant) + len(c.Principal.Subject) + len(c.Arguments) + len(c.result())
	for _, scope := range c.Principal.Scopes {
		n += len(scope) + 3
	}
	return n
}

func appendPrincipal(dst []byte, p *Principal) []byte {
	dst = wire.AppendString(append(dst, `{"issuer":`...), p.Issuer)
	if p.Tenant != "" {
		dst = wire.AppendString(append(dst, `,"tenant":`...), p.Tenant)
	}
	dst = wire.AppendString(append(dst, `,"subject":`...), p.Subject)
	dst = append(dst, `,"scopes":[`...)
	for i, scope := range p.Scopes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(dst, scope)
	}
	return append(dst, `]}`...)
}
