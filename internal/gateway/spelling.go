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

// spellings are the other URIs that a server may take the URI of a read for: with
// its escapes decoded, its dots resolved, and scheme and host in lower case, layer
// by layer. A rule must allow each, or file:///public/%2e%2e/secret would be public
// and FILE:///secret not secret.
func spellings(t *catalog.Target) []string {
	if t.Kind != mcp.Resources || isPlain(t.ID) {
		return nil
	}
	var out []string
	for uri, n := t.ID, 0; n < maxSpellings; n++ {
		next := resolved(uri)
		if next == uri {
			break
		}
		if !slices.Contains(t.Names, next) {
			out = append(out, next)
		}
		uri = next
	}
	return out
}

// splitURI cuts a URI before its path: "file://host" and "/path?query".
func splitURI(uri string) (origin, rest string) {
	i := strings.IndexByte(uri, ':')
	if i < 0 {
		return "", uri
	}
	if rest, slashed := strings.CutPrefix(uri[i+1:], "//"); slashed {
		if j := strings.IndexAny(rest, `/\?#`); j >= 0 {
			return uri[:i+3+j], rest[j:]
		}
		return uri, ""
	}
	return uri[:i+1], uri[i+1:]
}

// isPlain reports whether there is one way to read a URI.
func isPlain(uri string) bool {
	origin, rest := splitURI(uri)
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
func resolved(uri string) string {
	origin, rest := splitURI(uri)
	rest = strings.ReplaceAll(decoded(rest), `\`, "/")
	p, tail := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		p, tail = rest[:i], rest[i:]
	}
	if p != "" {
		folder := strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..")
		if p = path.Clean(p); folder && !strings.HasSuffix(p, "/") {
			p += "/"
		}
	}
	return strings.ToLower(decoded(origin)) + p + tail
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
