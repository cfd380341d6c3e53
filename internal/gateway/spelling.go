package gateway

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxSpellings bounds how many layers of escapes are taken off a URI. What still
// has some then is judged as it is.
const maxSpellings = 4

// spellings are the target of a read under the other URIs that a server may take its
// URI for: with its escapes decoded, its dots resolved, and scheme and host in lower
// case, layer by layer. A rule must allow each, or file:///public/%2e%2e/secret would
// be public and FILE:///secret not secret. What a condition reads of the target is
// the other URI, too.
func spellings(t *catalog.Target) []catalog.Target {
	if t.Kind != mcp.Resources || isPlain(t.ID) {
		return nil
	}
	prefix, _ := strings.CutSuffix(t.Exposed, t.ID)
	if prefix == t.Exposed {
		prefix = "" // it is not one that was put before it
	}
	seen := []string{t.ID}
	var out []catalog.Target
	add := func(uri string) {
		if slices.Contains(seen, uri) {
			return
		}
		seen = append(seen, uri)
		other := *t
		other.ID, other.Exposed, other.Names = uri, prefix+uri, []string{uri}
		if prefix != "" {
			other.Names = append(other.Names, other.Exposed)
		}
		out = append(out, other)
	}
	for uri, n := t.ID, 0; n < maxSpellings; n++ {
		add(resolved(uri, false))
		next := resolved(uri, true)
		if next == uri {
			break
		}
		add(next)
		uri = next
	}
	return out
}

// splitURI cuts a URI before its path: "file://host" and "/path?query". Without a
// host all of it is path: so many a server reads a scheme of its own,
// crm://tenant/../other.
func splitURI(uri string, hosted bool) (origin, rest string) {
	i := strings.IndexByte(uri, ':')
	if i < 0 {
		return "", uri
	}
	if rest, slashed := strings.CutPrefix(uri[i+1:], "//"); slashed {
		if !hosted {
			return uri[:i+3], rest
		}
		if j := strings.IndexAny(rest, `/\?#`); j >= 0 {
			return uri[:i+3+j], rest[j:]
		}
		return uri, ""
	}
	return uri[:i+1], uri[i+1:]
}

// isPlain reports whether there is one way to read a URI.
func isPlain(uri string) bool {
	origin, rest := splitURI(uri, true)
	for i := range len(origin) {
		if c := origin[i]; 'A' <= c && c <= 'Z' || c == '%' {
			return false
		}
	}
	for i := range len(rest) {
		switch rest[i] {
		case '%', '\\':
			return false
		case '/':
			if i+1 < len(rest) && (rest[i+1] == '.' || rest[i+1] == '/') {
				return false
			}
		}
	}
	return !strings.HasPrefix(rest, ".")
}

// resolved is a URI with one layer of escapes decoded, backslashes read as
// slashes, the dots of its path taken away, and its origin in lower case.
func resolved(uri string, hosted bool) string {
	origin, rest := splitURI(uri, hosted)
	rest = strings.ReplaceAll(decoded(rest), `\`, "/")
	p, tail := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		p, tail = rest[:i], rest[i:]
	}
	if p != "" {
		folder := strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..")
		if p = cleaned(p); folder && !strings.HasSuffix(p, "/") {
			p += "/"
		}
	}
	return strings.ToLower(decoded(origin)) + p + tail
}

// cleaned is a path without dots and double slashes, which never leads out of its
// root.
func cleaned(p string) string {
	if strings.HasPrefix(p, "/") {
		return path.Clean(p)
	}
	return path.Clean("/" + p)[1:]
}

// decoded takes one layer of escapes off; those that are none stay.
func decoded(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if plain, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(plain)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
