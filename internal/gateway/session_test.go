package gateway

import (
	"sync"
	"testing"
	"time"
)

// DESIGN section 7: DELETE removes exactly that session's state.
func TestAnEndedSessionEndsItsOwnSouthernSessionsAlone(t *testing.T) {
	u, v := &up{legacy: true}, &up{legacy: true}
	h := serving(t, map[string]*up{"u": u, "v": v})
	call := func(name string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"}}`
	}
	first, sendFirst := h.session("2025-11-25", `{}`)
	_, sendSecond := h.session("2025-11-25", `{}`)
	for _, name := range []string{"u__add", "v__add"} {
		sendFirst(call(name))
		if got := sendSecond(call(name)); got.code(t) != 0 {
			t.Fatalf("%s", got.body)
		}
		h.modern("tools/call", name, `"name":"`+name+`"`)
	}
	for key, at := range map[string]*up{"u": u, "v": v} {
		ids := map[string]bool{}
		for _, c := range at.got("tools/call") {
			ids[c.header.Get("Mcp-Session-Id")] = true
		}
		if len(ids) != 3 {
			t.Errorf("%s: %d sessions for three clients", key, len(ids))
		}
	}
	mine := u.got("tools/call")[0].header.Get("Mcp-Session-Id")
	if g := h.send("DELETE", "", map[string]string{"Mcp-Session-Id": first}); g.status != 204 {
		t.Fatalf("HTTP %d", g.status)
	}
	for end := time.Now().Add(5 * time.Second); len(u.got("DELETE")) == 0 || len(v.got("DELETE")) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the southern sessions were not ended")
		}
	}
	if d := u.got("DELETE"); len(d) != 1 || d[0].header.Get("Mcp-Session-Id") != mine {
		t.Errorf("%d DELETE, of %q; want %q", len(d), d[0].header.Get("Mcp-Session-Id"), mine)
	}
	made := len(u.got("initialize"))
	if got := sendSecond(call("u__add")); got.code(t) != 0 || len(u.got("initialize")) != made {
		t.Errorf("the other session: %s, %d handshakes", got.body, len(u.got("initialize"))-made)
	}
	if g := h.modern("tools/call", "u__add", `"name":"u__add"`); g.code(t) != 0 || len(u.got("initialize")) != made {
		t.Errorf("a modern client: %s", g.body)
	}
}

// T9: two clients may use one id at once; and no message of a client shows up
// in another's answer.
func TestAnswersBelongToTheirRequests(t *testing.T) {
	u := &up{on: func(w responseWriter, _ *request, h heard) bool {
		if h.method != "tools/call" {
			return false
		}
		time.Sleep(time.Millisecond)
		reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{"content":[],"of":`+h.id+`}}`)
		return true
	}}
	h := serving(t, map[string]*up{"u": u})
	var answers [40]out
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = h.modern("tools/call", "u__add", `"name":"u__add"`) })
	}
	wg.Wait()
	all := map[any]bool{}
	for _, g := range answers {
		all[g.message(t).Result["of"]] = true
	}
	if len(all) != len(answers) {
		t.Errorf("%d different answers for %d calls", len(all), len(answers))
	}
}
