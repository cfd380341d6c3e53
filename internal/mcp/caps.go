package mcp

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// ClientCap is a set of what a client can be asked for.
type ClientCap uint8

// The capabilities that matter to a gateway, in the order of their normal form.
const (
	CapElicitation ClientCap = 1 << iota
	CapElicitationForm
	CapElicitationURL
	CapRoots
	CapSampling
	CapSamplingContext
	CapSamplingTools
)

// ClientCaps is a client's capability set in normal form (checklist 7.1):
// roots, sampling with context and tools, elicitation with form and url, and the
// MCP Apps extension; what is unknown is dropped. The zero value declares
// nothing. It is immutable.
type ClientCaps struct {
	set        ClientCap
	extensions []byte // raw object, or nil
	ui         []byte // settings of the MCP Apps extension in canonical form, or nil
}

// maxUISettings bounds the settings of an extension that go into the key of a
// session. Real ones name a media type or two.
const maxUISettings = 2 << 10

// ParseClientCaps reads a ClientCapabilities object. Absent (nil) is the empty
// set; a bare "elicitation":{} means form mode (checklist T35). A capability that
// is null counts as absent; anything else than an object is an error. The result
// keeps a reference to raw for Extensions.
func ParseClientCaps(raw []byte) (ClientCaps, error) {
	var c ClientCaps
	if raw == nil {
		return c, nil
	}
	var buf [8]member
	ms, err := members(raw, buf[:0])
	if err != nil {
		return c, fmt.Errorf("client capabilities: %w", err)
	}
	for i := range ms {
		name, value := string(ms[i].name), ms[i].raw(raw)
		switch name {
		case "elicitation", "roots", "sampling", "extensions":
		default:
			continue
		}
		if isNull(value) {
			continue
		}
		if !isObject(value) {
			return ClientCaps{}, fmt.Errorf("client capabilities: %s is not an object", name)
		}
		switch name {
		case "roots":
			c.set |= CapRoots
		case "sampling":
			c.set |= CapSampling | declared(value, "context", CapSamplingContext) | declared(value, "tools", CapSamplingTools)
		case "elicitation":
			modes := declared(value, "form", CapElicitationForm) | declared(value, "url", CapElicitationURL)
			if modes == 0 {
				modes = CapElicitationForm
			}
			c.set |= CapElicitation | modes
		case "extensions":
			c.extensions = value
			c.ui = canonicalObject(find(value, ExtensionUI))
		}
	}
	return c, nil
}

// canonicalObject returns the one form of a small object, whatever the order of
// its members; nil for anything else. Numbers keep their digits.
func canonicalObject(raw []byte) []byte {
	if !isObject(raw) || len(raw) > maxUISettings {
		return nil
	}
	v := jsontext.Value(bytes.Clone(raw))
	if v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		return nil
	}
	return v
}

// declared is flag if the object has that member as an object.
func declared(obj []byte, name string, flag ClientCap) ClientCap {
	if isObject(find(obj, name)) {
		return flag
	}
	return 0
}

// Has reports whether all of want are declared.
func (c ClientCaps) Has(want ClientCap) bool { return c.set&want == want }

// CanBeAsked reports whether a client that declared c answers a server's request
// of that method; mode is that of an elicitation, "" for a form (checklist 52).
func (c ClientCaps) CanBeAsked(method, mode string) bool {
	switch method {
	case "sampling/createMessage":
		return c.Has(CapSampling)
	case "roots/list":
		return c.Has(CapRoots)
	case "elicitation/create":
		if mode == "url" {
			return c.Has(CapElicitationURL)
		}
		return c.Has(CapElicitationForm)
	}
	return false
}

// HasExtension reports whether the client declared that extension.
func (c ClientCaps) HasExtension(id string) bool {
	v := find(c.extensions, id)
	return v != nil && !isNull(v)
}

// Extensions is the raw object of extensions, or nil. It must not be changed.
func (c ClientCaps) Extensions() []byte { return c.extensions }

// For is what of c a client of revision rev can be asked for, and what of it is
// of use to that client (checklist 6.5, 7.1): elicitation came with 2025-06-18,
// its url mode and tools within sampling with 2025-11-25. A client of 2025-03-26
// is shown no _meta of tools, and so cannot find their interfaces either.
func (c ClientCaps) For(rev Revision) ClientCaps {
	if rev < V20251125 {
		c.set &^= CapSamplingContext | CapSamplingTools | CapElicitationURL
	}
	if rev < V20250618 {
		c.set &^= CapElicitation | CapElicitationForm
		c.ui = nil
	}
	if c.set&(CapElicitationForm|CapElicitationURL) == 0 {
		c.set &^= CapElicitation // an empty object would mean form
	}
	return c
}

// Unasked is c less everything that a server would have to ask for: what is left
// of a client that cannot be asked now.
func (c ClientCaps) Unasked() ClientCaps {
	c.set = 0
	return c
}

// Key is the normal form as JSON: equal for equal sets, so it can be part of a
// session's key, and valid as the capabilities of an initialize or of a modern
// request (checklist 7.1). Of extensions it holds MCP Apps alone, which changes
// what a server offers; the others do not work through the gateway.
func (c ClientCaps) Key() string {
	dst := []byte{'{'}
	group := func(name string, members ...string) {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), `":{`...)
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, m...)
		}
		dst = append(dst, '}')
	}
	flags := func(a ClientCap, as string, b ClientCap, bs string) (out []string) {
		if c.Has(a) {
			out = append(out, `"`+as+`":{}`)
		}
		if c.Has(b) {
			out = append(out, `"`+bs+`":{}`)
		}
		return out
	}
	if c.Has(CapElicitation) {
		group("elicitation", flags(CapElicitationForm, "form", CapElicitationURL, "url")...)
	}
	if c.ui != nil {
		group("extensions", `"`+ExtensionUI+`":`+string(c.ui))
	}
	if c.Has(CapRoots) {
		group("roots")
	}
	if c.Has(CapSampling) {
		group("sampling", flags(CapSamplingContext, "context", CapSamplingTools, "tools")...)
	}
	return string(append(dst, '}'))
}

// FilterModern returns a modern client's capabilities without the named
// extensions, for an upstream that must not use them; all else keeps its bytes.
// raw itself is returned where there is nothing to drop, also when it cannot be
// read, so it is for capabilities that were parsed before.
func FilterModern(raw []byte, dropExtensions ...string) []byte {
	at, ok := locate(raw, "extensions")
	if !ok || len(dropExtensions) == 0 {
		return raw
	}
	dropped := false
	kept := without(nil, raw[at.start:at.end], func(name []byte) bool {
		for _, d := range dropExtensions {
			if string(name) == d {
				dropped = true
				return true
			}
		}
		return false
	})
	if !dropped {
		return raw
	}
	out := make([]byte, 0, len(raw))
	out = append(out, raw[:at.start]...)
	out = append(out, kept...)
	return append(out, raw[at.end:]...)
}

// ModernFromLegacy returns the capabilities to declare to a modern upstream in
// the name of a legacy client of revision rev, from what its initialize declared
// (checklist 7.1, LM): only what the client can do, and nothing that it would
// have to be asked for where it is not askable. What cannot be read declares nothing.
func ModernFromLegacy(raw []byte, rev Revision, askable bool) []byte {
	c, err := ParseClientCaps(raw)
	if err != nil {
		return []byte("{}")
	}
	if c = c.For(rev); !askable {
		c = c.Unasked()
	}
	return []byte(c.Key())
}
