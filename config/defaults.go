package config

import (
	"fmt"
	"reflect"
	"slices"
)

// fill sets the defaults that the structs declare. It runs before a value is
// decoded, so that what is written wins, a written zero too.
func (s *shape) fill(into reflect.Value) {
	for _, f := range s.fields {
		value := into.Field(f.index)
		switch {
		case f.fallback != "":
			if message := f.shape.assign(f.fallback, value); message != "" {
				panic(fmt.Sprintf("config: the default of %s %s", f.name, message))
			}
		case f.shape.kind == kindStruct && !f.shape.pointer:
			f.shape.fill(value)
		}
	}
}

// complete fills in what depends on other values: keys, namespaces, timeouts, and
// the virtual servers with their paths, upstreams and separators.
func (d *Document) complete() {
	for key, u := range d.Upstreams {
		u.Key = key
		if u.Namespace == "" {
			u.Namespace = key
		}
		if u.Timeout == 0 {
			u.Timeout = d.Limits.CallTimeout
		}
		if u.Child() && u.Restart == nil {
			u.Restart = &Restart{}
			upstreamShape().field("restart").fill(reflect.ValueOf(u.Restart).Elem())
		}
	}
	if d.Servers == nil {
		s := &Server{}
		serverShape().fill(reflect.ValueOf(s).Elem())
		d.Servers = map[string]*Server{DefaultServer: s}
	}
	for name, s := range d.Servers {
		s.Name = name
		if s.Path == "" {
			s.Path = "/servers/" + name + "/mcp"
			if name == DefaultServer {
				s.Path = "/mcp"
			}
		}
		if s.Upstreams == nil || s.everyUpstream {
			s.everyUpstream = true
			s.Upstreams = d.UpstreamKeys()
		}
		slices.Sort(s.Upstreams)
		if s.Separator == "" {
			s.Separator = defaultSeparator(s.Naming)
		}
	}
}

func defaultSeparator(naming string) string {
	switch naming {
	case NamingNamespaced:
		return "__"
	case NamingPrefixed:
		return "-"
	}
	return ""
}

// field is the shape of one key of a struct.
func (s *shape) field(name string) *shape {
	for _, f := range s.fields {
		if f.name == name {
			return f.shape
		}
	}
	panic("config: there is no key " + name)
}

func serverShape() *shape {
	for _, f := range documentShape().fields {
		if f.name == "servers" {
			return f.shape.elem
		}
	}
	panic("config: the document has no servers")
}
