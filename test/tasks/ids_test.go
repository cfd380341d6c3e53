package tasks_test

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
)

func TestIdsOfAnyTextAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	u, other := newUpstream(t, "up"), newUpstream(t, "other")
	d := over(u, other)
	d.tasks = "probe: off"
	g := serve(t, d)
	ann := g.as("ann")
	ids := []string{
		"a", " ", " leads", "trails ", "tab\t", "line\nbreak", "nul\x00", "\x7f", "größe", "gro\u0308ße", "ключ", "任务", "🧁", "\u202eevil", "\ufeff", "\ufffd",
		"=?base64?eA==?=", "=?base64?", "?=", "=?BASE64?eA==?=", `quo"te\`, "</script>", "%41", "A", "../../etc", "up__work", "null", "0", "{}", "ı", "I", "K",
		strings.Repeat("x", 2048), strings.Repeat("ü", 1024), strings.Repeat("🧁", 512),
	}
	for _, id := range ids {
		u.ids(id)
		r := ann.call("up__work")
		if r.id() != id {
			t.Errorf("%.40q was minted as %v", id, r)
		}
	}
	for _, id := range ids {
		for _, method := range methods {
			r := ann.task(method, id)
			got := u.got(method, id)
			if r.Code != 0 || len(got) != 1 || unsentinel(t, got[0].Name) != id || method == "tasks/get" && r.id() != id {
				t.Errorf("%s of %.40q: the upstream saw %+.300v, and the client %v", method, id, got, r)
			}
		}
		g.as("bob").lacks(t, id)
	}
	heard := u.heard()
	for _, id := range []string{ // what is alike is not the same
		"a ", "leads", "trails", "tab", "line break", "GRÖSSE", "x", "\u0000", "nul", "\ufeffa", "\ufffe", "eA==", "i", "k", "%2541", "up", "00", strings.Repeat("x", 2047), strings.Repeat("x", 2049), strings.Repeat("x", 20000),
	} {
		ann.lacks(t, id)
	}
	if u.heard() != heard {
		t.Error("the upstream was asked for ids that it never made")
	}
	for _, r := range "\u00e9\u0130\ud7ff\U0010ffff" {
		if !unicode.IsPrint(r) {
			continue
		}
		u.ids("r" + string(r))
		ann.owns(t, ann.mint(t, "up__work"))
	}
}

func TestATaskWithoutAUsableIdIsAnErrorThatSaysThatTheToolRuns(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	g := serve(t, over(u))
	ann := g.as("ann")
	ann.call("up__work")
	for name, id := range map[string]string{
		"empty": `"taskId":""`, "none": `"status":"working"`, "a number": `"taskId":7`, "null": `"taskId":null`, "an object": `"taskId":{"id":"x"}`,
		"too long": `"taskId":"` + strings.Repeat("x", 2049) + `"`, "huge": `"taskId":"` + strings.Repeat("x", 1<<20) + `"`, "within": `"task":{"taskId":"x"}`,
		"half a character": `"taskId":"\ud800"`, "twice": `"taskId":"one","taskId":"two"`,
	} {
		u.handle("tools/call", func(x *exchange) {
			x.message(http.StatusOK, `{"jsonrpc":"2.0","id":`+x.ID+`,"result":{"resultType":"task",`+id+`,"ttlMs":null}}`)
		})
		r := ann.call("up__work")
		if r.Code != invalidAnswer || r.Result != "" || len(r.Body) > 1000 || !strings.Contains(r.Said, "run") {
			t.Errorf("%s: %v", name, r)
		}
	}
	for _, id := range []string{"", "x", "one", "two"} {
		if r := ann.get(id); id != "" && r.Code != invalidParams || r.Result != "" {
			t.Errorf("%q: %v", id, r)
		}
	}
	u.handle("tools/call", nil)
	ann.owns(t, ann.mint(t, "up__work"))
}

func TestRequestsWithoutAUsableIdReachNobody(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	d := over(u)
	d.tasks = "probe: on, probe_rate: 1000/s"
	g := serve(t, d)
	ann := g.as("ann")
	ann.call("up__work")
	for _, method := range methods {
		for name, params := range map[string]string{
			"none": ``, "null": `"taskId":null`, "a number": `"taskId":1`, "a list": `"taskId":["x"]`, "twice": `"taskId":"x","taskId":"y"`, "in another case": `"taskid":"x"`,
			"half a character": `"taskId":"\ud800"`,
		} {
			if r := ann.request(method, params, "x"); r.Code == 0 || r.Result != "" {
				t.Errorf("%s, %s: %v", method, name, r)
			}
		}
		if r := ann.request(method, `"taskId":""`, "", "Mcp-Name", ""); r.Code == 0 {
			t.Errorf("%s of nothing: %v", method, r)
		}
	}
	if n := u.heard(); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
}

func TestATaskThatIsMintedTwiceIsOne(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	d := over(u)
	d.tasks = "max_per_principal: 2"
	g := serve(t, d)
	ann := g.as("ann")
	for range 5 { // it takes the room of one
		u.ids("again")
		ann.mint(t, "up__work")
		ann.owns(t, "again")
	}
	g.as("bob").lacks(t, "again")
	if n := len(u.got("tasks/cancel")); n != 0 {
		t.Errorf("it was cancelled %d times", n)
	}
}
