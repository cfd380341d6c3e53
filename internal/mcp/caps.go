package mcp

import "fmt"

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

// relayed is what the gateway can ask a legacy client while a call of its runs,
// for a modern upstream.
const relayed = CapElicitation | CapElicitationForm | CapElicitationURL | CapRoots | CapSampling | CapSamplingContext | CapSamplingTools

// ClientCaps is a client's capability set in normal form (checklist 7.1):
// roots, sampling with context and tools, elicitation with form and url; what is
// unknown is dropped. The zero value declares nothing. It is immutable.
type ClientCaps struct {
	set        ClientCap
	extensions []byte // raw object, or nil
}

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
		}
	}
	return c, nil
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

// Key is the normal form as JSON: equal for equal sets, so it can be part of a
// session's key, and valid as the capabilities of an initialize (checklist 7.1).
// Extensions are not part of it: a legacy peer knows none.
func (c ClientCaps) Key() string { return string(c.set.append(nil)) }

func (s ClientCap) append(dst []byte) []byte {
	dst = append(dst, '{')
	group := func(name string, on ClientCap, a string, fa ClientCap, b string, fb ClientCap) {
		if s&on == 0 {
			return
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, `":{`...)
		if s&fa != 0 {
			dst = append(dst, '"')
			dst = append(dst, a...)
			dst = append(dst, `":{}`...)
		}
		if s&fb != 0 {
			if s&fa != 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '"')
			dst = append(dst, b...)
			dst = append(dst, `":{}`...)
		}
		dst = append(dst, '}')
	}
	group("elicitation", CapElicitation, "form", CapElicitationForm, "url", CapElicitationURL)
	group("roots", CapRoots, "", 0, "", 0)
	group("sampling", CapSampling, "context", CapSamplingContext, "tools", CapSamplingTools)
	return append(dst, '}')
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
// (checklist 7.1, LM): only what the client can do and the gateway relays. What
// cannot be read declares nothing.
func ModernFromLegacy(raw []byte, rev Revision) []byte {
	return modernFromLegacy(raw, rev, relayed)
}

func modernFromLegacy(raw []byte, rev Revision, relayed ClientCap) []byte {
	c, err := ParseClientCaps(raw)
	if err != nil {
		return []byte("{}")
	}
	set := c.set & relayed
	if rev < V20251125 {
		set &^= CapSamplingContext | CapSamplingTools | CapElicitationURL
	}
	if rev < V20250618 {
		set &^= CapElicitation | CapElicitationForm
	}
	if set&(CapElicitationForm|CapElicitationURL) == 0 {
		set &^= CapElicitation // an empty object would mean form
	}
	return set.append(nil)
}
