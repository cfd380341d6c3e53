package policy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// granted is a document whose policy lets alice see and call what is said.
func granted(h, o *upstream, id *issuer, file string, rules ...rule) string {
	return worldDocument(h, o) + id.section() + fmt.Sprintf("audit: {file: %q, flush: 10ms}\n", file) + section(append(rules, rule{id: "root", subject: "root", allow: everything}))
}

// A grant that is taken away by a reload is gone for the next list, call,
// completion and subscription, for what is told to those who listen, and for
// calls that wait for an answer.
func TestAGrantTakenAwayIsGoneOnEveryPath(t *testing.T) {
	t.Parallel()
	h, o, id := home(t), old(t), newIssuer(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	g := serve(t, granted(h, o, id, file, rule{id: "before", subject: "alice", allow: everything}))
	alice := id.known(t, caller{subject: "alice", tenant: "t"})
	v := g.visit(t, alice, "/mcp")

	const filter = `{"toolsListChanged":true,"resourceSubscriptions":["file:///public/a.txt","memo://old/a"]}`
	ear, honoured := v.client.listen(filter)
	if honoured != filter {
		t.Fatalf("acknowledged: %s", honoured)
	}
	standing := v.newer.hear(http.MethodGet, "", v.newer.headers()...)
	for _, uri := range []string{"file:///public/a.txt", "memo://old/a"} {
		if r := v.newer.call("resources/subscribe", `"uri":`+quote(uri)); r.code() != "" {
			t.Fatal(r)
		}
	}
	v.client.modern("tools/list", "")
	v.newer.call("tools/list", "")
	h.heard(t)
	o.heard(t)
	states := map[string]*reply{}
	for _, name := range []string{"h__ask", "o__ask"} {
		states[name] = v.client.modern("tools/call", `"name":`+quote(name))
		if text(states[name].message(), "result", "resultType") != "input_required" {
			t.Fatalf("%s: %v", name, states[name])
		}
	}
	retry := func(name string) *reply {
		asked := states[name].message()
		key := keys(at(asked, "result", "inputRequests"))[0]
		return v.client.modern("tools/call", `"name":`+quote(name)+`,"requestState":`+at(asked, "result", "requestState")+`,"inputResponses":{`+quote(key)+`:{"action":"accept","content":{}}}`)
	}
	asks := map[string]*upstream{"h__ask": h, "o__ask": o}

	time.Sleep(baseline)
	g.reload(granted(h, o, id, file, rule{id: "after", subject: "alice", allow: names{[]string{"h__plain"}, nil, []string{"memo:*"}}}))
	for name, u := range asks {
		before := u.arrived("ask")
		r, absent := retry(name), v.client.modern("tools/call", `"name":"h__zzz"`)
		if strings.ReplaceAll(r.shape(), name, "NAME") != strings.ReplaceAll(absent.shape(), "h__zzz", "NAME") {
			t.Errorf("the retry of %s: %v", name, r)
		}
		if u.arrived("ask") != before {
			t.Errorf("the retry of %s arrived upstream", name)
		}
		if n := len(u.replied()); n != 0 {
			t.Errorf("%s heard an answer to its question: %d", name, n)
		}
	}
	for form, r := range map[string]*reply{
		"completion":            v.newer.call("completion/complete", `"ref":{"type":"ref/prompt","name":"h__greet"},"argument":{"name":"env","value":""}`),
		"completion, modern":    v.client.modern("completion/complete", `"ref":{"type":"ref/resource","uri":"file:///data/{path}"},"argument":{"name":"path","value":""}`),
		"call":                  v.client.modern("tools/call", `"name":"clean"`),
		"call, legacy":          v.newer.call("tools/call", `"name":"clean"`),
		"batch":                 v.older.batched("tools/call", `"name":"h__wipe"`),
		"prompt":                v.newer.call("prompts/get", `"name":"h__greet"`),
		"read through template": v.client.modern("resources/read", `"uri":"file:///data/x.txt"`),
		"subscribe":             v.newer.call("resources/subscribe", `"uri":"file:///public/a.txt"`),
	} {
		if c := r.code(); c != "-32602" {
			t.Errorf("%s: %v", form, r)
		}
	}
	for form, r := range map[string]*reply{"modern": v.client.modern("tools/list", ""), "legacy": v.newer.call("tools/list", ""), "batch": v.older.batched("tools/list", "")} {
		if got := texts(at(r.message(), "result", "tools"), "name"); !slices.Equal(got, []string{"h__plain"}) {
			t.Errorf("%s lists %q", form, got)
		}
	}
	if r := v.client.modern("tools/call", `"name":"h__plain"`); r.code() != "" {
		t.Errorf("what is left: %v", r)
	}
	again, honoured := v.client.listen(filter)
	if honoured != `{"toolsListChanged":true,"resourceSubscriptions":["memo://old/a"]}` {
		t.Errorf("acknowledged after the reload: %s", honoured)
	}
	again.close()

	// Those who listened before hear that their list changed, of what is left, and of
	// nothing else.
	for era, e := range map[string]*hearing{"modern": ear, "legacy": standing} {
		if m := e.nextOf(toolsChanged); strings.Contains(m, "public") {
			t.Errorf("%s: %s", era, m)
		}
	}
	h.tell(updated, `"uri":"file:///public/a.txt"`)
	time.Sleep(100 * time.Millisecond)
	o.tell(updated, `"uri":"memo://old/a"`)
	for era, e := range map[string]*hearing{"modern": ear, "legacy": standing} {
		for {
			m := e.next()
			if strings.Contains(m, "public") {
				t.Errorf("%s: hears of what is hidden now: %s", era, m)
			}
			if text(m, "params", "uri") == "memo://old/a" {
				break
			}
		}
	}

	// Given back, a state that was sealed before is good.
	g.reload(granted(h, o, id, file, rule{id: "again", subject: "alice", allow: everything}))
	for name, u := range asks {
		if r := retry(name); text(r.message(), "result", "content", 0, "text") != u.name {
			t.Errorf("the retry of %s when it may be again: %v", name, r)
		}
	}
}

// nextOf is the next message of a method; others before it are passed over.
func (h *hearing) nextOf(method string) string {
	h.t.Helper()
	for {
		if m := h.next(); text(m, "method") == method {
			return m
		}
	}
}

// recorded are the events of an audit file about requests.
func recorded(t *testing.T, file string) (out []event) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Method != "" {
			out = append(out, e)
		}
	}
	return out
}

type event struct {
	Method, Kind, Name, Upstream, Subject, Decision, Rule, Outcome, Server string
	Code                                                                   int
}

// Every request is one event, with what was decided about it and by which rule.
func TestEveryDecisionIsRecordedOnce(t *testing.T) {
	t.Parallel()
	h, o, id := home(t), old(t), newIssuer(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	g := serve(t, granted(h, o, id, file,
		rule{id: "most", subject: "alice", allow: names{[]string{"h__*", "clean"}, []string{"*"}, []string{"file:*"}}},
		rule{id: "no-prod", deny: tools("h__plain"), when: byEnv("prod")},
		rule{id: "no-wipe", deny: tools("clean")},
	))
	alice := id.known(t, caller{subject: "alice", tenant: "t"})
	v := g.visit(t, alice, "/mcp")
	call := func(name, env string) string {
		return `"name":` + quote(name) + `,"arguments":{"env":` + quote(env) + `}`
	}
	v.client.modern("tools/list", "")
	v.client.modern("tools/call", call("h__plain", "dev"))
	v.newer.call("tools/call", call("h__plain", "prod"))
	v.client.modern("tools/call", `"name":"h__plain"`)
	v.older.batched("tools/call", call("h__wipe", "dev"))
	v.client.modern("tools/call", call("clean", "dev"))
	v.client.modern("tools/call", call("o__plain", "dev"))
	v.client.modern("tools/call", call("h__zzz", "dev"))
	v.newer.call("prompts/get", `"name":"h__greet"`)
	v.client.modern("resources/read", `"uri":"file:///data/x.txt"`)
	v.client.modern("resources/read", `"uri":"memo://old/a"`)
	v.newer.call("completion/complete", `"ref":{"type":"ref/prompt","name":"h__greet"},"argument":{"name":"env","value":""}`)
	v.newer.call("resources/subscribe", `"uri":"memo://old/a"`)
	v.newer.call("resources/subscribe", `"uri":"file:///public/a.txt"`)
	g.reload(granted(h, o, id, file, rule{id: "later", subject: "alice", allow: tools("o__plain")}))
	v.client.modern("tools/call", call("h__plain", "dev"))
	v.client.modern("tools/call", call("o__plain", "dev"))
	v.newer.call("tools/list", "")
	g.stop()

	var got []string
	for _, e := range recorded(t, file) {
		if e.Method == "initialize" || strings.HasPrefix(e.Method, "notifications/") || e.Method == "ping" {
			continue
		}
		if e.Subject != "alice" || e.Server != "default" {
			t.Errorf("of %q at %q: %+v", e.Subject, e.Server, e)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s %d", e.Method, e.Name, e.Decision, e.Rule, e.Outcome, e.Code)))
	}
	want := []string{
		"tools/list    ok 0",
		"tools/call h__plain allow most ok 0",
		"tools/call h__plain deny no-prod refused -31004",
		"tools/call h__plain deny no-prod refused -31004",
		"tools/call clean hidden no-wipe refused -32602",
		"tools/call clean hidden no-wipe refused -32602",
		"tools/call o__plain hidden  refused -32602",
		"tools/call    refused -32602",
		"prompts/get h__greet allow most ok 0",
		"resources/read file:///data/x.txt allow most ok 0",
		"resources/read memo://old/a hidden  refused -32602",
		"completion/complete h__greet allow  ok 0",
		"resources/subscribe memo://old/a hidden  refused -32602",
		"resources/subscribe file:///public/a.txt allow  ok 0",
		"tools/call h__plain hidden  refused -32602",
		"tools/call o__plain allow later ok 0",
		"tools/list    ok 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
