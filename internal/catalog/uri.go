package catalog

import (
	"strings"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

const uiScheme = "ui://"

// uri is the exposed form of a resource URI or uriTemplate.
func (n *namer) uri(member int, original string) string {
	if n.plain {
		return original
	}
	if rest, ok := strings.CutPrefix(original, uiScheme); ok {
		return uiScheme + n.members[member].Key + "/" + rest
	}
	if n.rule == Prefixed {
		return n.prefix[member] + original
	}
	return original
}

// ui reads an exposed ui:// URI; ok is false where it names no member. It is
// unambiguous, since a key holds no slash.
func (n *namer) ui(exposed string) (s split, ok bool) {
	if n.plain {
		return split{}, false
	}
	rest, ok := strings.CutPrefix(exposed, uiScheme)
	if !ok {
		return split{}, false
	}
	key, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return split{}, false
	}
	member, ok := n.index[key]
	return split{member, uiScheme + rest}, ok
}

// ExposeURI appends to dst the URI under which this server offers what an
// upstream calls uri, for URIs inside results (checklist T59). Where it is the
// same, it appends nothing and changed is false. Safe for concurrent use.
func (s *Server) ExposeURI(upstream string, dst []byte, uri string) (out []byte, changed bool) {
	n := s.names
	if n.plain {
		return dst, false
	}
	member, ok := n.index[upstream]
	if !ok {
		return dst, false
	}
	if rest, ok := strings.CutPrefix(uri, uiScheme); ok {
		dst = append(dst, uiScheme...)
		dst = append(dst, upstream...)
		dst = append(dst, '/')
		return append(dst, rest...), true
	}
	if n.rule == Prefixed {
		return append(append(dst, n.prefix[member]...), uri...), true
	}
	return dst, false
}

// original undoes uri for an identifier that is known to be the member's.
func (n *namer) original(member int, exposed string) string {
	if n.plain {
		return exposed
	}
	if rest, ok := strings.CutPrefix(exposed, uiScheme+n.members[member].Key+"/"); ok {
		return uiScheme + rest
	}
	if n.rule == Prefixed {
		return strings.TrimPrefix(exposed, n.prefix[member])
	}
	return exposed
}

// ExposeName is the name under which this server lists what an upstream calls
// name, as far as is known to everybody; before it was listed, what the naming
// rule alone gives. Safe for concurrent use.
func (s *Server) ExposeName(upstream string, kind mcp.Kind, name string) string {
	member, ok := s.names.index[upstream]
	if !ok {
		return name
	}
	if kind == mcp.Resources || kind == mcp.Templates {
		return s.names.uri(member, name)
	}
	if m := s.common.merged[kind].cur.Load(); m != nil {
		if n := m.table.byOrigin[origin{member, name}]; n != nil {
			return n.exposed
		}
	}
	if kind == mcp.Tools {
		for _, a := range s.aliases {
			if a.origin == (origin{member, name}) {
				return a.name
			}
		}
	}
	exposed, _ := s.names.name(member, name)
	return exposed
}
