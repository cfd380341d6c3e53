package mcp

import (
	"strconv"
	"strings"
)

// Accepts reads the Accept headers of a request: whether the client takes one
// JSON object, and whether it takes an event stream. Wildcards count, the most
// specific range decides, and q=0 refuses. A client that says nothing takes both
// (DESIGN section 4).
func Accepts(values []string) (json, stream bool) {
	said := false
	var j, s preference
	for _, v := range values {
		for v != "" {
			var item string
			item, v = cutList(v)
			rng, params, _ := strings.Cut(item, ";")
			rng = strings.TrimSpace(rng)
			if rng == "" {
				continue
			}
			said = true
			on := !refused(params)
			j.consider(rng, "application", "json", on)
			s.consider(rng, "text", "event-stream", on)
		}
	}
	if !said {
		return true, true
	}
	return j.on, s.on
}

// preference is what the most specific range seen so far says of one media type.
type preference struct {
	weight int // 0 none, 1 */*, 2 type/*, 3 type/subtype
	on     bool
}

func (p *preference) consider(rng, typ, sub string, on bool) {
	t, s, ok := strings.Cut(rng, "/")
	if !ok {
		return
	}
	weight := 0
	switch {
	case t == "*" && s == "*":
		weight = 1
	case strings.EqualFold(t, typ) && s == "*":
		weight = 2
	case strings.EqualFold(t, typ) && strings.EqualFold(s, sub):
		weight = 3
	default:
		return
	}
	switch {
	case weight > p.weight:
		p.weight, p.on = weight, on
	case weight == p.weight:
		p.on = p.on || on
	}
}

// refused reports whether the parameters hold q=0.
func refused(params string) bool {
	for params != "" {
		var one string
		one, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(one, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return err == nil && q <= 0
	}
	return false
}

// cutList cuts the first element off a comma list; a comma within quotes is part
// of its element.
func cutList(v string) (item, rest string) {
	quoted := false
	for i := 0; i < len(v); i++ {
		switch {
		case quoted && v[i] == '\\':
			i++
		case v[i] == '"':
			quoted = !quoted
		case v[i] == ',' && !quoted:
			return v[:i], v[i+1:]
		}
	}
	return v, ""
}
