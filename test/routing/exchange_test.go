package routing_test

import (
	"bytes"
	"net/http"
	"strings"
)

// exchange is one random request and its random answer.
type exchange struct {
	h        *house
	c        *client
	revision string
	key      string
	up       *peer
	method   string
	target   target

	id      string // of the client's message, raw
	request []byte
	sent    []byte // the answer with its id, as the upstream's reader sees it
	sse     bool   // the upstream answers with an event stream
	got     *request
}

func (x *exchange) modernClient() bool   { return x.revision == modernRevision }
func (x *exchange) modernUpstream() bool { return !x.up.legacy }

var listOf = map[string]string{
	"tools/call": "tools/list", "prompts/get": "prompts/list", "resources/read": "resources/list", "completion/complete": "prompts/list",
}

// exchange draws who asks whom for what.
func (s *street) exchange(g *gen) *exchange {
	x := &exchange{h: s.houses[g.n(len(s.houses))]}
	x.revision = g.pick(modernRevision, modernRevision, legacyRevision, legacyRevision, "2025-06-18", "2025-03-26")
	c := *x.h.clients[x.revision]
	c.accept = g.pick("", "", "application/json", "text/event-stream")
	x.c = &c
	x.method = g.pick("tools/call", "tools/call", "prompts/get", "resources/read", "completion/complete")
	list := listOf[x.method]
	if x.method == "completion/complete" && g.rare(2) {
		list = "resources/templates/list"
	}
	targets := x.h.targets[list]
	x.target = targets[g.n(len(targets))]
	x.key = x.target.key
	x.up = s.peers[x.h.gw][x.key]
	x.request = x.draw(g, list)
	return x
}

// draw makes the client's message.
func (x *exchange) draw(g *gen, list string) []byte {
	name := member{"name", g.spell(x.target.exposed)}
	params := []member{name}
	switch {
	case x.method == "resources/read":
		params[0] = member{"uri", name.value}
	case x.method == "completion/complete":
		ref := []member{{"type", g.spell("ref/prompt")}, name}
		if list == "resources/templates/list" {
			ref = []member{{"type", g.spell("ref/resource")}, {"uri", name.value}}
		}
		params = []member{{"ref", g.object(1, ref...)}, {"argument", g.object(1, member{"name", `"a"`}, member{"value", g.text()})}}
	case !g.rare(4):
		var given []member
		if g.rare(3) {
			given = append(given, member{"Name", g.value(1)}, member{"_meta", g.value(1)}, member{"uri", g.text()})
		}
		if g.rare(12) {
			given = append(given, member{"large", g.big()})
		}
		params = append(params, member{"arguments", g.object(3, given...)})
	}
	if x.method == "tools/call" && g.rare(6) {
		params = append(params, member{"task", g.object(1, member{"ttl", "60000"})})
	}
	if x.modernClient() && x.modernUpstream() && x.method != "completion/complete" && g.rare(6) {
		params = append(params, member{"inputResponses", g.inputResponses()})
	}
	if meta := x.meta(g); meta != "" {
		params = append(params, member{"_meta", meta})
	}
	x.id = g.id()
	envelope := []member{{"jsonrpc", g.spell("2.0")}, {"id", x.id}, {"method", g.spell(x.method)}, {"params", g.object(2, params...)}}
	return []byte(g.space() + g.object(1, envelope...) + g.space())
}

func (g *gen) inputResponses() string {
	// Only what is not looked into may be odd here, so no members but these.
	return "{" + g.space() + g.spell("k1") + ":" + g.space() + g.object(2) + g.space() + "}"
}

// meta is the client's params._meta; "" for none.
func (x *exchange) meta(g *gen) string {
	var ms []member
	if x.modernClient() {
		ms = append(ms, member{reserved[0], g.spell(modernRevision)}, member{reserved[1], g.pick("{}", `{"elicitation":{"form":{}}}`, `{ "extensions" : {"io.modelcontextprotocol/tasks":{}, "x":{}} }`)})
		if g.rare(2) {
			ms = append(ms, member{reserved[2], `{"name":"c","version":"1"}`})
		}
		if g.rare(5) {
			ms = append(ms, member{reserved[3], g.pick(`"debug"`, `"error"`)})
		}
	} else if g.rare(2) {
		return ""
	}
	if g.rare(8) {
		ms = append(ms, member{g.pick(reserved[4], reserved[5]), g.value(1)})
	}
	if g.rare(3) {
		ms = append(ms, member{"progressToken", g.pick(`7`, `"p"`, `"\u0070"`, `9007199254740993`)})
	}
	if g.rare(3) {
		ms = append(ms, member{"traceparent", `"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`}, member{"com.example/trace", g.value(2)})
	}
	return g.object(2, ms...)
}

// ask sends the request, with an upstream that answers at random.
func (x *exchange) ask(g *gen) *answer {
	message, status := x.reply(g), http.StatusOK
	x.sse = g.rare(3)
	cut := g.n(len(message) + 1)
	noise := g.pick("", ": hello\n\n", "id: 7\nretry: 10\n", "event: message\n")
	eol := g.pick("\n", "\r\n", "\r")
	x.up.raw = func(w http.ResponseWriter, got request) bool {
		if got.method != x.method {
			return false
		}
		x.got = &got
		x.sent = bytes.Replace(message, []byte("$ID"), []byte(got.id), 1)
		out := x.sent
		w.Header().Set("Content-Type", "application/json")
		if x.sse {
			// Lines of data are joined by LF again: that is what the gateway reads.
			x.sent = bytes.ReplaceAll(bytes.ReplaceAll(x.sent, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
			w.Header().Set("Content-Type", "text/event-stream")
			out = []byte(noise + "data: " + strings.ReplaceAll(string(x.sent), "\n", eol+"data: ") + eol + eol)
		}
		w.WriteHeader(status)
		at := min(cut, len(out))
		_, _ = w.Write(out[:at])
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(out[at:])
		return true
	}
	defer func() { x.up.raw = nil }()
	return x.c.post(g.t, x.request, x.c.headers(g.t, x.request))
}

// reply makes the upstream's answer, with $ID for its id.
func (x *exchange) reply(g *gen) []byte {
	var body member
	if g.rare(6) {
		data := g.value(2)
		if g.rare(2) {
			data = g.object(1, member{"uri", g.uri()})
		}
		code := g.pick("-32000", "-1", "0", "1", "-32603", "-32700", "-32601", "-31001", "4294967296")
		body = member{"error", g.object(1, member{"code", code}, member{"message", g.text()}, member{"data", data})}
	} else {
		body = member{"result", x.result(g)}
	}
	return []byte(g.space() + g.object(1, member{"jsonrpc", g.spell("2.0")}, member{"id", "$ID"}, body) + g.space())
}

func (g *gen) uri() string {
	return g.spell(g.pick("x://a/b", "ui://panel/main", "ui://", "", "not a URI", "memo://é", "gateway-one-memo://x"))
}

func (x *exchange) result(g *gen) string {
	var ms []member
	switch x.method {
	case "tools/call":
		var blocks []string
		for range g.n(3) {
			blocks = append(blocks, x.block(g))
		}
		blocks = append(blocks, g.object(1, member{"type", `"text"`}, member{"text", g.text()}))
		ms = append(ms, member{"content", g.arrayOf(blocks)})
		if g.rare(3) {
			ms = append(ms, member{"structuredContent", g.object(3, member{"uri", g.uri()}, member{"content", g.value(2)}, member{"_meta", g.value(2)})})
		} else if g.rare(6) {
			ms = append(ms, member{"structuredContent", g.pick("null", "7", `"x"`, "[1]")})
		}
		if g.rare(4) {
			ms = append(ms, member{"isError", "true"})
		}
	case "prompts/get":
		var messages []string
		for range g.n(3) {
			content := x.block(g)
			messages = append(messages, g.object(1, member{"role", `"user"`}, member{"content", content}))
		}
		ms = append(ms, member{"messages", g.arrayOf(messages)}, member{"description", g.text()})
	case "resources/read":
		var contents []string
		for range g.n(3) {
			contents = append(contents, g.object(1, member{"uri", g.uri()}, member{"text", g.text()}))
		}
		ms = append(ms, member{"contents", g.arrayOf(contents)})
	default:
		ms = append(ms, member{"completion", g.object(2, member{"values", "[" + g.text() + "]"}, member{"uri", g.uri()})})
	}
	if x.modernUpstream() {
		if !g.rare(3) {
			ms = append(ms, member{"resultType", g.spell("complete")})
		}
		if g.rare(3) {
			ms = append(ms, member{"ttlMs", "5000"}, member{"cacheScope", `"public"`})
		}
	}
	if g.rare(8) {
		ms = append(ms, member{"large", g.big()})
	}
	if g.rare(2) {
		ms = append(ms, member{"_meta", x.resultMeta(g)})
	}
	return g.object(2, ms...)
}

// block is a content block that every revision shows as it is.
func (x *exchange) block(g *gen) string {
	kinds := 3
	if x.revision != "2025-03-26" {
		kinds = 4 // checklist 6.5: a link would become text there
	}
	switch g.n(kinds) {
	case 0:
		return g.object(1, member{"type", `"text"`}, member{"text", g.text()})
	case 1:
		return g.object(1, member{"type", `"resource"`}, member{"resource", g.object(1, member{"uri", g.uri()}, member{"text", g.text()})})
	case 2:
		return g.object(2, member{"type", `"of/no/known/kind"`}, member{"data", g.value(2)})
	}
	return g.object(1, member{"type", `"resource_link"`}, member{"uri", g.uri()}, member{"name", g.text()})
}

func (x *exchange) resultMeta(g *gen) string {
	var ms []member
	if g.rare(3) {
		ms = append(ms, member{"io.modelcontextprotocol/serverInfo", `{"name":"forged"}`})
	}
	if x.h.tag && g.rare(3) {
		ms = append(ms, member{originTag, `"forged"`})
	}
	if g.rare(3) {
		ms = append(ms, member{"ui", g.object(1, member{"resourceUri", g.uri()})})
	}
	if g.rare(3) {
		ms = append(ms, member{"ui/resourceUri", g.uri()})
	}
	return g.object(2, ms...)
}
