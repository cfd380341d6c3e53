package config

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

const nothingOffered = "there is no upstream, so nothing is offered"

var pathForm = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

func (d *decoder) checkServers(doc *Document) {
	if doc.Servers != nil && len(doc.Servers) == 0 {
		d.problemFor("servers", "", "holds no virtual server", "remove the key to get one named default")
	}
	if len(doc.Upstreams) == 0 && !d.bad("upstreams") {
		d.warnFor("upstreams", "", nothingOffered, "")
	}
	owners := map[string]string{}
	for _, name := range doc.ServerNames() {
		s := doc.Servers[name]
		at := join("servers", name)
		if !keyForm.MatchString(name) {
			d.problemFor(at, keySuffix, "the name "+keyRule, "")
		}
		d.checkPath(at, s, owners)
		d.checkMembers(doc, at, s)
		d.checkNames(doc, at, s)
		d.checkAliases(doc, at, s)
		d.checkFilter(at+".expose.tools.allow", s.Expose.Tools)
		d.checkFilter(at+".expose.prompts.allow", s.Expose.Prompts)
		d.checkFilter(at+".expose.resources.allow", s.Expose.Resources)
	}
}

// checkFilter refuses an empty list, which some read as nothing and some as everything.
func (d *decoder) checkFilter(path string, f Filter) {
	if f.Allow != nil && len(f.Allow) == 0 && !d.bad(path) {
		d.problemFor(path, "", "names nothing", `remove the key to offer everything, or write deny: ["*"] to offer nothing`)
	}
}

func (d *decoder) checkPath(at string, s *Server, owners map[string]string) {
	if d.bad(at + ".path") {
		return
	}
	bare := strings.TrimSuffix(s.Path, "/")
	switch {
	case !pathForm.MatchString(s.Path) || path.Clean(s.Path) != bare && s.Path != "/":
		d.problemFor(at+".path", "", "must be a plain path of letters, digits and -._~ without empty or dotted segments"+d.shown(at+".path"), "")
	case bare == "/health" || bare == "/ready" || strings.HasPrefix(bare, "/.well-known"):
		d.problemFor(at+".path", "", "is a path of the gateway's own"+d.named(at+".path"), "")
	case owners[bare] != "":
		d.problemFor(at+".path", "", "is the path of "+join("servers", owners[bare])+" already", "")
	default:
		owners[bare] = s.Name
	}
}

func (d *decoder) checkMembers(doc *Document, at string, s *Server) {
	if d.bad(at+".upstreams") || d.bad("upstreams") {
		return
	}
	if !s.everyUpstream && len(s.Upstreams) == 0 {
		d.problemFor(at+".upstreams", "", "names no upstream", "remove the key to offer all")
		return
	}
	known := doc.UpstreamKeys()
	for i, key := range s.Upstreams {
		where := at + ".upstreams"
		switch {
		case !slices.Contains(known, key):
			d.unknownUpstream(d.member(where, key), key, known)
		case i > 0 && s.Upstreams[i-1] == key:
			d.problemFor(where, "", fmt.Sprintf("names %s twice", key), "")
		}
	}
	if s.Naming == NamingPassthrough && len(s.Upstreams) != 1 && !d.bad(at+".naming") {
		d.problemFor(at+".naming", "", fmt.Sprintf("passthrough needs exactly one upstream, and this server has %d", len(s.Upstreams)), "name one under upstreams, or choose namespaced")
	}
}

// member is the path of the list entry that holds a key: entries are sorted by now,
// so it is found by what was written.
func (d *decoder) member(list, key string) string {
	for i := 0; ; i++ {
		entry := fmt.Sprintf("%s[%d]", list, i)
		at, known := d.places[entry]
		if !known {
			return list
		}
		if !at.hidden && at.raw == key {
			return entry
		}
	}
}

func (d *decoder) unknownUpstream(path, key string, known []string) {
	if d.bad(path) {
		return
	}
	hint := ""
	if near := nearest(key, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	d.problemFor(path, "", "there is no such upstream"+d.named(path), hint)
}

// checkNames holds the separator and the namespaces of a server against each other.
func (d *decoder) checkNames(doc *Document, at string, s *Server) {
	switch s.Naming {
	case NamingPassthrough:
		if s.Separator != "" && !d.bad(at+".separator") {
			d.warnFor(at+".separator", "", "has no effect under passthrough", "")
		}
	case NamingNamespaced:
		owners := map[string]string{}
		for _, key := range s.Upstreams {
			u := doc.Upstreams[key]
			if u == nil || owners[u.Namespace] == key {
				continue
			}
			d.checkNamespace(u, s)
			if owner := owners[u.Namespace]; owner != "" {
				d.problemFor(join("upstreams", key)+".namespace", "", fmt.Sprintf("the namespace is that of %s already, and the server %s offers both", owner, s.Name), "")
			}
			owners[u.Namespace] = key
		}
	case NamingPrefixed:
		for _, key := range s.Upstreams {
			for _, other := range s.Upstreams {
				if strings.HasPrefix(key, other+s.Separator) {
					d.warnFor(join("upstreams", key), keySuffix, fmt.Sprintf("names of the server %s that start with %q may mean %s or %s; the longer key wins", s.Name, key+s.Separator, key, other), "rename one of them")
				}
			}
		}
	}
}

func (d *decoder) checkNamespace(u *Upstream, s *Server) {
	path := join("upstreams", u.Key)
	if s.Separator == "" || d.bad(path+".namespace") || d.bad(path+keySuffix) {
		return
	}
	hint := fmt.Sprintf("the server %s puts it between namespace and name", s.Name)
	if strings.Contains(u.Key, s.Separator) {
		d.problemFor(path, keySuffix, fmt.Sprintf("the key must not contain the separator %q", s.Separator), hint)
	} else if strings.Contains(u.Namespace, s.Separator) {
		d.problemFor(path+".namespace", "", fmt.Sprintf("must not contain the separator %q", s.Separator), hint)
	}
}

func (d *decoder) checkAliases(doc *Document, at string, s *Server) {
	for _, name := range sortedKeys(s.Aliases) {
		path := join(at+".aliases", name)
		alias := s.Aliases[name]
		if name == "" || len(name) > 128 || strings.ContainsFunc(name, unicode.IsControl) {
			d.problemFor(path, keySuffix, "an alias must have 1 to 128 characters and no control characters", "")
		}
		if alias.Upstream == "" || d.bad(path+".upstream") || d.bad("upstreams") || d.bad(at+".upstreams") {
			continue
		}
		if doc.Upstreams[alias.Upstream] == nil {
			d.unknownUpstream(path+".upstream", alias.Upstream, doc.UpstreamKeys())
		} else if !slices.Contains(s.Upstreams, alias.Upstream) {
			d.problemFor(path+".upstream", "", "this server does not offer that upstream"+d.named(path+".upstream"), "add it to "+at+".upstreams")
		}
	}
}
