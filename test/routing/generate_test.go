package routing_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// gen writes random JSON text: numbers, escapes, names and white space in all
// the forms that a decoder and an encoder between them would lose.
type gen struct{ t *rapid.T }

// n is a number from 0 to most-1.
func (g *gen) n(most int) int { return rapid.IntRange(0, most-1).Draw(g.t, "n") }

// one in so many.
func (g *gen) rare(of int) bool { return g.n(of) == of-1 }

func (g *gen) pick(from ...string) string { return from[g.n(len(from))] }

// space is white space between tokens; mostly none.
func (g *gen) space() string {
	return g.pick("", "", "", "", "", " ", "\n", "\t", "\r\n", "  ", " \r ", "\n\n\t")
}

func (g *gen) number() string {
	return g.pick("0", "-0", "1", "1.0", "1.50", "-7", "9007199254740993", "1e400", "-1E-9", "0.1", "123456789012345678901234567890", "2e+2", "1e0")
}

// text is a quoted string.
func (g *gen) text() string {
	parts := []string{
		"a", "Z", " ", "é", "日本", "😀", `\"`, `\\`, `\/`, "/", `\b`, `\n`, `\r`, `\t`, `\u0041`, `\u00e9`, `\ud83d\ude00`, `\u2028`, "\u2028", "<", "&", "'",
		"data:", "event: x", "{", "]", ":", ",", "//", "\u007f", `\u0000`, "9007199254740993",
	}
	var b strings.Builder
	b.WriteByte('"')
	for range g.n(6) {
		b.WriteString(parts[g.n(len(parts))])
	}
	b.WriteByte('"')
	return b.String()
}

// spell quotes a string, now and then with escapes that it does not need.
func (g *gen) spell(s string) string {
	if !g.rare(4) {
		return quote(s)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r < 0x10000 && g.rare(4):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == '/' && g.rare(2):
			b.WriteString(`\/`)
		default:
			q := quote(string(r))
			b.WriteString(q[1 : len(q)-1])
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (g *gen) value(depth int) string {
	most := 7
	if depth <= 0 {
		most = 5
	}
	switch g.n(most) {
	case 0:
		return g.number()
	case 1, 2:
		return g.text()
	case 3:
		return g.pick("true", "false")
	case 4:
		return "null"
	case 5:
		return g.array(depth - 1)
	}
	return g.object(depth - 1)
}

func (g *gen) array(depth int) string {
	var elements []string
	for range g.n(4) {
		elements = append(elements, g.value(depth))
	}
	return g.arrayOf(elements)
}

func (g *gen) arrayOf(elements []string) string {
	var b strings.Builder
	b.WriteString("[" + g.space())
	for i, e := range elements {
		if i > 0 {
			b.WriteString(g.space() + "," + g.space())
		}
		b.WriteString(e)
	}
	b.WriteString(g.space() + "]")
	return b.String()
}

// member is a member of an object: a decoded name and a raw value.
type member struct{ name, value string }

// oddNames are no name that anything is decided on, nor such a name but for case.
var oddNames = []string{
	"", " ", "é", "a.b/c", "__proto__", "$ref", "0", `q"uote`, `back\slash`, "x-vendor", "com.example/key", "日本", "nextPage", "ID ",
	"traceparent2", "deep", "A", "b", "penstock", "toString", "\u2028", "result ", "error.", "x\ty",
}

// object has random members with odd names beside the given ones, in any order.
func (g *gen) object(depth int, given ...member) string {
	ms := append([]member(nil), given...)
	taken := map[string]bool{}
	for range g.n(4) {
		name := oddNames[g.n(len(oddNames))]
		if !taken[name] {
			taken[name] = true
			ms = append(ms, member{name, g.value(depth)})
		}
	}
	for i := len(ms) - 1; i > 0; i-- {
		j := g.n(i + 1)
		ms[i], ms[j] = ms[j], ms[i]
	}
	var b strings.Builder
	b.WriteString("{" + g.space())
	for i, m := range ms {
		if i > 0 {
			b.WriteString(g.space() + "," + g.space())
		}
		b.WriteString(g.spell(m.name) + g.space() + ":" + g.space() + m.value)
	}
	b.WriteString(g.space() + "}")
	return b.String()
}

// id is a JSON-RPC id.
func (g *gen) id() string {
	if g.rare(2) {
		return g.text()
	}
	return g.pick("0", "1", "-1", "9007199254740993", "123456789012345678901234567890", `"1"`, `""`)
}

// big is a string of more than 64 KiB, so that what holds it is streamed.
func (g *gen) big() string {
	unit := g.pick("x", `\"`, "é", `\u00e9`, "{[", "data: ", "😀")
	return `"` + strings.Repeat(unit, (70<<10+g.n(100<<10))/len(unit)) + `"`
}
