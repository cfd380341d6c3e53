package wire

import (
	"strings"

	"pgregory.net/rapid"
)

// Random messages and plans, made of names that matter and of some that do not.

var (
	resultNames = []string{"_meta", "content", "contents", "messages", "taskId", "task", "resultType", "ttlMs", "isError", "x", "é", "cont\\u0065nt", "structuredContent"}
	metaNames   = []string{"io.modelcontextprotocol/serverInfo", "progressToken", "ui", "ui/resourceUri", "penstock/upstream", "v"}
	itemNames   = []string{"type", "uri", "resource", "resourceUri", "content", "text", "data", "u\\u0072i"}
	scalars     = []string{"1", "-0", "1e400", "9007199254740993", "true", "false", "null", `""`, `"plain"`, `"\\"`, `"\\\""`, `"a\"b\"]}"`, `"\u00e9<é"`, `"file:///x"`, `"ui://x"`}
	spacesOf    = []string{"", "", "", " ", "\n", "\r\n", "\t "}
)

type generator struct{ t *rapid.T }

func (g generator) pick(from []string) string { return rapid.SampledFrom(from).Draw(g.t, "pick") }

func (g generator) space() string { return g.pick(spacesOf) }

func (g generator) n(limit int) int { return rapid.IntRange(0, limit).Draw(g.t, "n") }

func (g generator) object(names []string, limit int, value func(name string) string) string {
	var b strings.Builder
	b.WriteString("{" + g.space())
	seen := map[string]bool{}
	for range g.n(limit) {
		name := g.pick(names)
		plain := strings.NewReplacer(`\u0064`, "d", `\u0065`, "e", `\u0072`, "r").Replace(name)
		if seen[plain] {
			continue
		}
		if len(seen) > 0 {
			b.WriteString("," + g.space())
		}
		seen[plain] = true
		b.WriteString(`"` + name + `"` + g.space() + ":" + g.space() + value(plain) + g.space())
	}
	b.WriteString("}")
	return b.String()
}

func (g generator) array(value func() string) string {
	var b strings.Builder
	b.WriteString("[" + g.space())
	for i := range g.n(3) {
		if i > 0 {
			b.WriteString("," + g.space())
		}
		b.WriteString(value() + g.space())
	}
	b.WriteString("]")
	return b.String()
}

func (g generator) value(depth int) string {
	switch k := g.n(5); {
	case k == 0 && depth > 0:
		return g.object(itemNames, 4, func(string) string { return g.value(depth - 1) })
	case k == 1 && depth > 0:
		return g.array(func() string { return g.value(depth - 1) })
	}
	return g.pick(scalars)
}

func (g generator) result() string {
	return g.object(resultNames, 7, func(name string) string {
		if name == "_meta" && g.n(5) > 0 {
			return g.object(metaNames, 5, func(string) string { return g.value(2) })
		}
		if g.n(2) > 0 && strings.HasPrefix(name, "conte") || name == "messages" {
			return g.array(func() string { return g.value(3) })
		}
		return g.value(3)
	})
}

// message is valid JSON, and mostly valid JSON-RPC.
func (g generator) message() string {
	names := [][]string{{"result"}, {"result"}, {"result"}, {"error"}, {"method", "params"}, {"result", "error"}, {"result", "method"}, {}}[g.n(7)]
	if g.n(19) > 0 {
		names = append([]string{"jsonrpc"}, names...)
	}
	if g.n(4) > 0 {
		names = append(names, g.pick([]string{"id", "i\\u0064"}))
	}
	if g.n(1) > 0 {
		names = append(names, g.pick([]string{"extra", "vendor\\n", "Result", "é"}))
	}
	members := rapid.Permutation(names).Draw(g.t, "order")
	for i, name := range members {
		value := ""
		switch {
		case name == "jsonrpc":
			value = g.pick([]string{`"2.0"`, `"2.0"`, `"2.0"`, `"\u0032.0"`})
		case name == "result":
			value = g.result()
		case name == "error" && g.n(5) > 0:
			value = `{"code":-32002,"data":` + g.value(2) + g.space() + `}`
		default:
			value = g.value(2)
		}
		members[i] = g.space() + `"` + name + `"` + g.space() + ":" + g.space() + value + g.space()
	}
	return g.space() + "{" + strings.Join(members, ",") + "}" + g.space()
}

func (g generator) members(names []string) (out []Member) {
	seen := map[string]bool{}
	for range g.n(2) {
		name := g.pick(names)
		if !strings.Contains(name, `\`) && !seen[name] {
			seen[name] = true
			out = append(out, Member{name, []byte(g.value(1))})
		}
	}
	return out
}

func (g generator) drops(names []string) (out []string) {
	for range g.n(3) {
		out = append(out, g.pick(names))
	}
	return out
}

func (g generator) plan() *Plan {
	p := &Plan{
		Set: g.members(resultNames), Drop: g.drops(resultNames), DropNonObject: g.drops(resultNames),
		SetMeta: g.members(metaNames), DropMeta: g.drops(metaNames), LineSafe: g.n(1) == 0,
	}
	for _, d := range g.members(resultNames) {
		if indexMember(p.Set, []byte(d.Name)) < 0 {
			p.Default = append(p.Default, d)
		}
	}
	if len(p.SetMeta) > 0 && indexMember(p.Default, []byte("_meta")) >= 0 {
		p.Default = nil // both would make a _meta
	}
	if g.n(1) == 0 {
		p.ID = []byte(g.pick([]string{"7", `"x"`}))
	}
	if g.n(2) > 0 {
		p.MapURI = mapURI
	}
	return p
}

// mapURI prefixes what has a scheme, and leaves the rest.
func mapURI(dst []byte, uri string) ([]byte, bool) {
	if !strings.Contains(uri, "://") {
		return dst, false
	}
	return append(append(dst, "key\"-"...), uri...), true
}
