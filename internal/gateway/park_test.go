package gateway

import (
	"strings"
	"testing"
	"time"
)

// Checklist 7.3: what a legacy upstream asks within a call comes back as one
// input_required result, and the retry goes on with the very same call.
func TestALegacyUpstreamAsksAModernClient(t *testing.T) {
	heard := make(chan string, 8)
	u := talks(func(c *talk) {
		c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + c.id + `,"progress":1}}`)
		c.ask("7", `"method":"elicitation/create","params":{"message":"Your \u006eame?","_meta":{"a":1},"task":{"ttl":1},"elicitationId":"e1","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":9007199254740993}}}}`)
		c.ask(`"b\u0041"`, `"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`)
		c.ask("9007199254740993", `"method":"roots/list"`)
		heard <- c.reply("7")
		heard <- c.reply(`"b\u0041"`)
		heard <- c.reply("9007199254740993")
		c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + c.id + `,"progress":2}}`)
		c.done("done")
	})
	h := serving(t, map[string]*up{"u": u.up})
	first := h.asking(`"arguments":{"a":1}`, `,"progressToken":"one"`)
	if all := first.data(); len(all) != 2 || !strings.Contains(all[0], `"progressToken":"one","progress":1`) {
		t.Errorf("%q", all)
	}
	q := first.round(t)
	if len(q.Result.Requests) != 3 || q.Result.TTL != nil || !strings.Contains(first.body, `"penstock/upstream":"u"`) {
		t.Errorf("%s", first.body)
	}
	form, sample, list := q.key(t, "elicitation/create"), q.key(t, "sampling/createMessage"), q.key(t, "roots/list")
	if got, want := string(q.Result.Requests[form].Params), `{"message":"Your \u006eame?","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":9007199254740993}}}}`; got != want {
		t.Errorf("params %s", got)
	}
	if p := q.Result.Requests[list].Params; p != nil { // T39
		t.Errorf("params %s", p)
	}
	if strings.Contains(first.body, `"jsonrpc":"2.0","id":7`) || strings.Contains(u.last(t, "tools/call").body, "elicitation") {
		t.Errorf("%s", first.body)
	}
	var declared string
	for _, i := range u.got("initialize") {
		declared += i.body
	}
	if !strings.Contains(declared, `"capabilities":{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}`) {
		t.Errorf("declared %s", declared)
	}
	retry := h.asking(`"arguments":{ "a" : 1 },`+q.with(`"`+form+`":{"content":{"n":9007199254740993}, "action":"accept"},"`+
		sample+`":{"role":"assistant","model":"m","content":{"type":"text","text":"t"}},"`+list+`":{"roots":[]},"more":{"x":1}`), `,"progressToken":2`)
	if retry.text(t) != "done" || !strings.Contains(retry.body, `"penstock/upstream":"u"`) {
		t.Errorf("%s", retry.body)
	}
	if all := retry.data(); len(all) != 2 || !strings.Contains(all[0], `"progressToken":2,"progress":2`) { // T32
		t.Errorf("%q", all)
	}
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"content":{"n":9007199254740993}, "action":"accept"}}`,
		`{"jsonrpc":"2.0","id":"b\u0041","result":{"role":"assistant","model":"m","content":{"type":"text","text":"t"}}}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"result":{"roots":[]}}`,
	} {
		if got := <-heard; got != want {
			t.Errorf("the upstream heard %s, want %s", got, want)
		}
	}
	if n := len(u.got("tools/call")); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// T37: prompts and resources ask, too.
func TestPromptsAndResourcesAskAModernClient(t *testing.T) {
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		c.reply("1")
		switch {
		case strings.Contains(c.body, "greet"):
			c.send(`{"jsonrpc":"2.0","id":` + c.id + `,"result":{"messages":[]}}`)
		default:
			c.send(`{"jsonrpc":"2.0","id":` + c.id + `,"result":{"contents":[]}}`)
		}
	})
	h := serving(t, map[string]*up{"u": u.up})
	for method, target := range map[string][2]string{"prompts/get": {"name", "u__greet"}, "resources/read": {"uri", "file:///a"}} {
		params := `"` + target[0] + `":"` + target[1] + `",`
		q := h.asks(t.Context(), method, target[1], everything, params).round(t)
		g := h.asks(t.Context(), method, target[1], everything, params+q.answered(accept))
		if g.message(t).Result["resultType"] != "complete" {
			t.Errorf("%s: %s", method, g.body)
		}
		if (g.message(t).Result["ttlMs"] != nil) != (method == "resources/read") {
			t.Errorf("%s: %s", method, g.body)
		}
	}
}

// Checklist 7.3, 55: rounds follow each other under new keys; what was left out is
// asked again, what is unknown ignored, and what is malformed refused without harm.
func TestRoundsFollowEachOther(t *testing.T) {
	heard := make(chan string, 8)
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		c.ask("2", `"method":"roots/list"`)
		heard <- c.reply("1")
		heard <- c.reply("2")
		c.ask("3", askForm)
		heard <- c.reply("3")
		c.done("done")
	})
	h := serving(t, map[string]*up{"u": u.up})
	first := h.asking("").round(t)
	form, list := first.key(t, "elicitation/create"), first.key(t, "roots/list")
	for what, in := range map[string]string{
		"no action":      `"` + form + `":{"content":{}}`,
		"action a value": `"` + form + `":{"action":true}`,
		"roots no array": `"` + list + `":{"roots":{}}`,
		"no object":      `"` + form + `":null`,
	} {
		if g := h.asking(first.with(in)); g.code(t) != -32602 || g.status != 200 {
			t.Errorf("%s: HTTP %d %s", what, g.status, g.body)
		}
	}
	if g := h.asking(strings.Replace(first.with(""), `"inputResponses":{}`, `"inputResponses":[]`, 1)); g.code(t) != -32602 {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
	// One of two: the other is asked again.
	second := h.asking(first.with(`"` + form + `":` + accept + `,"other":{"action":"accept"}`)).round(t)
	if len(second.Result.Requests) != 1 || second.key(t, "roots/list") == list || receive(t, "an answer", heard) != `{"jsonrpc":"2.0","id":1,"result":`+accept+`}` {
		t.Errorf("%+v", second)
	}
	// None at all.
	third := h.asking(strings.TrimSuffix(second.with(""), `,"inputResponses":{}`)).round(t)
	if third.key(t, "roots/list") == second.key(t, "roots/list") {
		t.Error("a key came twice")
	}
	fourth := h.asking(third.answered(`{"roots":[]}`)).round(t)
	if receive(t, "an answer", heard) != `{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}` || fourth.key(t, "elicitation/create") == form {
		t.Errorf("%+v", fourth)
	}
	if g := h.asking(fourth.answered(`{"action":"decline"}`)); g.text(t) != "done" {
		t.Errorf("%s", g.body)
	}
	if got := <-heard; got != `{"jsonrpc":"2.0","id":3,"result":{"action":"decline"}}` {
		t.Errorf("%s", got)
	}
}

// Checklist 52, 7.1, 7.4: what a client did not declare is refused to the
// upstream, and the call goes on; and T34: stray answers are ignored.
func TestAModernClientIsAskedOnlyWhatItDeclared(t *testing.T) {
	for request, caps := range map[string]string{
		`"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`:            `{"elicitation":{}}`,
		`"method":"sampling/createMessage","params":{"messages":[],"tools":[]}`:               `{"sampling":{}}`,
		`"method":"elicitation/create","params":{"mode":"url","url":"http://h","message":""}`: `{"elicitation":{}}`,
		`"method":"elicitation/create","params":{"message":""}`:                               `{"elicitation":{"url":{}}}`, // T35
		`"method":"roots/list"`: `{"sampling":{}}`,
		`"method":"tools/list"`: everything,
		`"method":"elicitation/create","params":{"message":"","x":"1"}`: `{}`,
	} {
		heard := make(chan string, 1)
		u := talks(func(c *talk) {
			c.ask("1", request)
			heard <- c.reply("1")
			c.done("done")
		})
		h := serving(t, map[string]*up{"u": u.up})
		g := h.asks(t.Context(), "tools/call", "u__add", caps, `"name":"u__add","inputResponses":{"k":{}}`)
		if g.text(t) != "done" {
			t.Errorf("%s: %s", request, g.body)
		}
		if got := <-heard; !strings.Contains(got, `"error"`) {
			t.Errorf("%s: the upstream heard %s", request, got)
		}
	}
}

// Checklist 7.2, 54, T40: a state is good for one principal and one request.
func TestAParkIsReachedOnlyByTheRequestItBelongsTo(t *testing.T) {
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		c.done("got " + c.reply("1"))
	})
	h := serving(t, map[string]*up{"u": u.up, "v": {legacy: true}})
	const args = `"arguments":{"n":9007199254740993,"a":[1]},`
	q := h.asking(args).round(t)
	good := q.answered(accept)
	for what, send := range map[string]func() out{
		"other arguments": func() out { return h.asking(`"arguments":{"n":9007199254740992,"a":[1]},` + good) },
		"no arguments":    func() out { return h.asking(good) },
		"another tool": func() out {
			return h.asks(t.Context(), "tools/call", "v__add", everything, `"name":"v__add",`+args+good)
		},
		"another method": func() out {
			return h.asks(t.Context(), "prompts/get", "u__greet", everything, `"name":"u__greet",`+args+good)
		},
		"altered":    func() out { return h.asking(args + strings.Replace(good, q.Result.State, q.Result.State[1:], 1)) },
		"not sealed": func() out { return h.asking(args + strings.Replace(good, q.Result.State, "x", 1)) },
		"no string":  func() out { return h.asking(args + strings.Replace(good, `"`+q.Result.State+`"`, "5", 1)) },
		"another principal": func() out {
			defer h.as("eve")()
			return h.asking(args + good)
		},
	} {
		if g := send(); g.code(t) != -32602 || strings.Contains(g.body, "result") {
			t.Errorf("%s: HTTP %d %s", what, g.status, g.body)
		}
	}
	if g := h.asking(`"arguments":{"\u0061":[ 1],"n":9007199254740993},` + good); !strings.Contains(g.text(t), "accept") {
		t.Errorf("%s", g.body)
	}
	if n := len(u.got("tools/call")) + len(u.got("prompts/get")); n != 1 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

// A call that may ask is kept alive like any other, before its question and after.
func TestAParkedCallIsKeptAlive(t *testing.T) {
	u := talks(func(c *talk) {
		time.Sleep(120 * time.Millisecond)
		c.ask("1", askForm)
		r := c.reply("1")
		time.Sleep(120 * time.Millisecond)
		c.done("heard " + r)
	})
	h := serving(t, map[string]*up{"u": u.up}, "limits: {keepalive: 30ms}")
	first := h.asking("")
	q := first.round(t)
	second := h.asking(q.answered(accept))
	for what, g := range map[string]out{"the question": first, "the answer": second} {
		if n := strings.Count(g.body, ": waiting"); n < 2 || strings.Count(g.body, "data: ") != 1 {
			t.Errorf("%s came behind %d comments: %s", what, n, g.body)
		}
	}
}

// What a client cannot put to its model is refused, wherever it stands (checklist 52).
func TestAModernClientWithoutToolsIsNotAskedForThem(t *testing.T) {
	heard := make(chan string, 1)
	u := talks(func(c *talk) {
		c.ask("1", `"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"t","content":[]}]}]}`)
		heard <- c.reply("1")
		c.done("done")
	})
	h := serving(t, map[string]*up{"u": u.up})
	if g := h.asking(""); g.text(t) != "done" {
		t.Errorf("%s", g.body)
	}
	if got := <-heard; !strings.Contains(got, `"error"`) {
		t.Errorf("the upstream heard %s", got)
	}
}
