package gateway

import (
	"path"
	"strings"
)

// reading is what a server may take the URI of a resource for.
type reading struct {
	uri string
	// loose: some servers read it so, against the form that its scheme gives a
	// URI. A rule that denies it counts; that none allows it does not.
	loose bool
}

// Bounds of what is judged. What can be read in more ways is nobody's.
const (
	maxReadings = 32
	maxReadable = 64 << 10 // bytes of a URI that has more than one reading
)

// readings are the other URIs that a server may take the URI of a read for: its
// escapes decoded and its dots resolved, in either order and until nothing changes
// any more, with its scheme and host in small letters, and without what parsers
// leave out. A rule must allow each, or file:///public/%2e%2e/secret would be
// public. ok is false where there are too many.
func readings(uri string) (out []reading, ok bool) {
	if plainURI(uri) {
		return nil, true
	}
	if len(uri) > maxReadable {
		return nil, false
	}
	seen := map[string]bool{uri: true}
	all := []reading{{uri: uri}}
	add := func(next string, loose bool) {
		if !seen[next] {
			seen[next] = true
			all = append(all, reading{next, loose})
		}
	}
	for i := 0; i < len(all) && len(all) <= maxReadings; i++ {
		for _, read := range strict {
			add(read(all[i].uri), false)
		}
	}
	for i := 0; i < len(all) && len(all) <= maxReadings; i++ {
		for _, read := range loosely {
			add(read(all[i].uri), true)
		}
		if all[i].loose {
			for _, read := range strict {
				add(read(all[i].uri), true)
			}
		}
	}
	return all[1:], len(all) <= maxReadings
}

// plainURI reports whether a URI has one reading, for sure.
func plainURI(uri string) bool {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found || strings.Contains(rest, "//") || strings.Contains(rest, "/.") {
		return false
	}
	for i := range len(scheme) {
		if c := scheme[i]; c <= ' ' || 'A' <= c && c <= 'Z' || strings.IndexByte(`%\:/?#`, c) >= 0 {
			return false
		}
	}
	host := true
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == '/':
			host = false
		case c <= ' ' || c == '%' || c == '\\' || host && 'A' <= c && c <= 'Z':
			return false
		}
	}
	return scheme != "file" || strings.HasPrefix(rest, "/") && !strings.ContainsAny(rest, "?#")
}

var (
	strict  = []func(string) string{trimmed, lowered, decoded, slashed, resolved, resolvedWhole}
	loosely = []func(string) string{hostless, tailless}
)

// trimmed is a URI without the characters that browsers' parsers leave out.
func trimmed(uri string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, strings.TrimFunc(uri, func(r rune) bool { return r <= ' ' }))
}

// parts cuts a URI into scheme, host and the rest. head and host end with what
// separates them from what follows.
func parts(uri string) (head, host, rest string) {
	scheme, rest, found := strings.Cut(uri, ":")
	if !found {
		return "", "", uri
	}
	head = scheme + ":"
	if after, is := strings.CutPrefix(rest, "//"); is {
		head += "//"
		end := strings.IndexAny(after, "/?#")
		if end < 0 {
			end = len(after)
		}
		host, rest = after[:end], after[end:]
	}
	return head, host, rest
}

// lowered has the scheme and the host in small letters; localhost is no host to a
// file.
func lowered(uri string) string {
	head, host, rest := parts(uri)
	head, host = strings.ToLower(head), strings.ToLower(host)
	if head == "file://" && host == "localhost" {
		host = ""
	}
	return head + host + rest
}

// decoded is a URI with one layer of escapes decoded. What is no escape stays.
func decoded(uri string) string {
	if !strings.Contains(uri, "%") {
		return uri
	}
	head, host, rest := parts(uri)
	return head + unescaped(host) + unescaped(rest)
}

func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if hi, lo := nibble(s[i+1]), nibble(s[i+2]); hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func nibble(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// slashed has slashes for backslashes.
func slashed(uri string) string { return strings.ReplaceAll(uri, `\`, "/") }

// resolved is a URI with the dots and the empty segments of its path taken away.
func resolved(uri string) string {
	head, host, rest := parts(uri)
	p, tail := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		p, tail = rest[:i], rest[i:]
	}
	return head + host + cleaned(p) + tail
}

// resolvedWhole is resolved for who knows no query: its dots are the path's.
func resolvedWhole(uri string) string {
	head, host, rest := parts(uri)
	i := strings.IndexAny(rest, "?#")
	if i < 0 || !strings.Contains(rest[i:]+"/", "/../") {
		return uri
	}
	return head + host + cleaned(rest)
}

func cleaned(p string) string {
	if p == "" {
		return ""
	}
	slash := strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..")
	if p = path.Clean(p); slash && !strings.HasSuffix(p, "/") {
		p += "/"
	}
	return p
}

// hostless is the URI of a file wherever that is: many servers look at its path
// alone, and take file:/a and file:a for file:///a.
func hostless(uri string) string {
	head, _, rest := parts(uri)
	if !strings.EqualFold(strings.TrimSuffix(head, "//"), "file:") {
		return uri
	}
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return "file://" + rest
}

// tailless is the URI of a file without query and fragment, which are no part of
// its path.
func tailless(uri string) string {
	if head, _, _ := parts(uri); !strings.EqualFold(strings.TrimSuffix(head, "//"), "file:") {
		return uri
	}
	if i := strings.IndexAny(uri, "?#"); i >= 0 {
		return uri[:i]
	}
	return uri
}
