package mcp

import (
	"strconv"
	"strings"
)

// Accepts reads the Accept headers of a request: whether the client takes one
// JSON object, and whether it takes an event stream. Wildcards count, the most
// specific range decides, and q=0 refuses. A client that says nothing takes both
// (DESIGN section 4). Of a client that names both, streamed says that it likes
// the stream better: by q, or by naming it first.
func Accepts(values []string) (json, stream, streamed bool) {
	said := 0
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
			said++
			q := quality(params)
			j.consider(rng, "application", "json", q, said)
			s.consider(rng, "text", "event-stream", q, said)
		}
	}
	if said == 0 {
		return true, true, false
	}
	named := j.weight == exact && s.weight == exact
	return j.on, s.on, j.on && s.on && named && (s.q > j.q || s.q == j.q && s.at < j.at)
}

// preference is what the most specific range seen so far says of one media type.
type preference struct {
	weight int // 0 none, 1 */*, 2 type/*, exact
	on     bool
	q      float64
	at     int // place among the ranges
}

// exact is the weight of type/subtype.
const exact = 3

func (p *preference) consider(rng, typ, sub string, q float64, at int) {
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
		weight = exact
	default:
		return
	}
	switch {
	case weight > p.weight:
		p.weight, p.on, p.q, p.at = weight, q > 0, q, at
	case weight == p.weight:
		p.on, p.q = p.on || q > 0, max(p.q, q)
	}
}

// quality is the q among the parameters, 1 where there is none that can be read.
func quality(params string) float64 {
	for params != "" {
		var one string
		one, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(one, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			return q
		}
		return 1
	}
	return 1
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
