package gateway

import (
	"encoding/json"
	"strings"
	"testing"
)

func asks(state string, size int) string {
	return `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"` + strings.Repeat("a", size) + `"}}}` + state + `}}`
}

// altered changes one character in the middle of a sealed state.
func altered(quoted string) string {
	with := "A"
	if quoted[20] == 'A' {
		with = "B"
	}
	return quoted[:20] + with + quoted[21:]
}

// DESIGN section 8: an upstream's requestState goes north sealed, and only the
// request it belongs to brings it back.
func TestRequestStateGoesNorthSealedAndComesBackOpen(t *testing.T) {
	for _, size := range []int{10, 100 << 10} { // held whole, and streamed
		u := &up{on: answers("tools/call", 200, asks(`,"requestState":"secret \u0041\n"`, size))}
		h := serving(t, map[string]*up{"u": u, "v": {}})
		g := h.modern("tools/call", "u__add", `"name":"u__add"`)
		result := g.message(t).Result
		sealed, _ := result["requestState"].(string)
		if sealed == "" || strings.Contains(g.body, "secret") || result["resultType"] != "input_required" || result["ttlMs"] != nil {
			t.Errorf("size %d: HTTP %d %.300s", size, g.status, g.body)
			continue
		}
		quoted, err := json.Marshal(sealed)
		if err != nil {
			t.Fatal(err)
		}
		u.set(answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}`))
		if g := h.modern("tools/call", "u__add", `"name":"u__add","inputResponses":{"k":{"action":"accept"}},"requestState":`+string(quoted)); g.code(t) != 0 {
			t.Errorf("HTTP %d %s", g.status, g.body)
		}
		if body := u.last(t, "tools/call").body; !strings.Contains(body, `"inputResponses":{"k":{"action":"accept"}},"requestState":"secret A\n"`) {
			t.Errorf("%s", body)
		}
		calls := len(u.got("tools/call"))
		for what, params := range map[string]string{
			"another tool":    `"name":"v__add","requestState":` + string(quoted),
			"altered":         `"name":"u__add","requestState":` + altered(string(quoted)),
			"not sealed":      `"name":"u__add","requestState":"secret A\n"`,
			"no string":       `"name":"u__add","requestState":5`,
			"empty":           `"name":"u__add","requestState":""`,
			"wrong responses": `"name":"u__add","inputResponses":[1]`,
			"bare responses":  `"name":"u__add","inputResponses":{"k":1}`,
		} {
			name := "u__add"
			if what == "another tool" {
				name = "v__add"
			}
			if g := h.modern("tools/call", name, params); g.code(t) != -32602 {
				t.Errorf("%s: HTTP %d %s", what, g.status, g.body)
			}
		}
		if n := len(u.got("tools/call")); n != calls {
			t.Errorf("%d refused retries reached the upstream", n-calls)
		}
	}
}

func TestAStateIsNeverInvented(t *testing.T) { // checklist 7.2
	u := &up{on: answers("tools/call", 200, asks("", 10))}
	h := serving(t, map[string]*up{"u": u})
	g := h.modern("tools/call", "u__add", `"name":"u__add","inputResponses":{}`)
	if r := g.message(t).Result; r["resultType"] != "input_required" || r["requestState"] != nil {
		t.Errorf("%s", g.body)
	}
	if body := u.last(t, "tools/call").body; strings.Contains(body, "requestState") || !strings.Contains(body, `"inputResponses":{}`) {
		t.Errorf("%s", body)
	}
}

// Checklist 116: a result type that was not offered is no result.
func TestResultTypesThatWereNotOfferedAreRefused(t *testing.T) {
	for _, size := range []int{10, 100 << 10} {
		pad := `"pad":"` + strings.Repeat("a", size) + `",`
		for what, result := range map[string]string{
			"a task":          `{` + pad + `"resultType":"task","taskId":"t1","status":"working"}`,
			"an unknown type": `{` + pad + `"resultType":"other"}`,
			"no string":       `{` + pad + `"resultType":5}`,
			"an empty ask":    `{` + pad + `"resultType":"input_required"}`,
		} {
			u := &up{on: answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"result":`+result+`}`)}
			h := serving(t, map[string]*up{"u": u})
			// One that shows its type late has begun to leave: it is cut.
			if g := h.modern("tools/call", "u__add", `"name":"u__add"`); !(g.cut && size > 1000) && g.code(t) != -31007 {
				t.Errorf("%s of %d bytes: HTTP %d %.200s", what, size, g.status, g.body)
			}
			// What nobody will ask for is not left running.
			cancels, want := u.got("tasks/cancel"), 0
			if what == "a task" {
				want = 1
			}
			if len(cancels) != want || want > 0 && !strings.Contains(cancels[0].body, `"taskId":"t1"`) {
				t.Errorf("%s of %d bytes: %d cancels %v", what, size, len(cancels), cancels)
			}
		}
		// A legacy client without an event stream cannot be asked.
		u := &up{on: answers("tools/call", 200, asks(`,"requestState":"secret"`, size))}
		h := serving(t, map[string]*up{"u": u})
		_, send := h.session("2025-11-25", `{"elicitation":{}}`)
		if g := send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add"}}`, "Accept", "application/json"); !strings.Contains(g.body, `"isError":true`) {
			t.Errorf("a question of %d bytes to a legacy client: HTTP %d %.200s", size, g.status, g.body)
		}
	}
}
