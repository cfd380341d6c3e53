package demo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// visitor is a client's session with a legacy job server.
type visitor struct {
	h       http.Handler
	session string
	bearer  string // the Authorization header, if any
}

func visitJobs(t *testing.T, h http.Handler, capabilities string) *visitor {
	t.Helper()
	w := post(h, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"t","version":"1"}}}`, "Accept", "application/json")
	if w.Code != http.StatusOK || w.Header().Get("Mcp-Session-Id") == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return &visitor{h: h, session: w.Header().Get("Mcp-Session-Id")}
}

func (v *visitor) request(body string) *http.Request {
	r := jobRequest(body, "Mcp-Session-Id", v.session, "MCP-Protocol-Version", "2025-11-25")
	if v.bearer != "" {
		r.Header.Set("Authorization", v.bearer)
	}
	return r
}

// rpc sends a request and returns the response.
func (v *visitor) rpc(t *testing.T, method, params string) object {
	t.Helper()
	r := v.request(fmt.Sprintf(`{"jsonrpc":"2.0","id":"a","method":%q,"params":{%s}}`, method, params))
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", method, w.Code, w.Body)
	}
	return decode(t, w.Body.Bytes())
}

// say sends what gets no response.
func (v *visitor) say(t *testing.T, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	if v.h.ServeHTTP(w, v.request(body)); w.Code != http.StatusAccepted {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// task makes a task and returns its id.
func (v *visitor) task(t *testing.T, params string) string {
	t.Helper()
	got := v.rpc(t, "tools/call", params+`,"task":{}`)
	result, _ := got["result"].(object)
	made, _ := result["task"].(object)
	if made["status"] != "working" {
		t.Fatalf("no task: %v", got)
	}
	return made["taskId"].(string)
}

func (v *visitor) status(t *testing.T, id string) string {
	t.Helper()
	got := v.rpc(t, "tasks/get", fmt.Sprintf(`"taskId":%q`, id))
	result, ok := got["result"].(object)
	if !ok || result["taskId"] != id || result["_meta"] != nil {
		t.Fatalf("%v", got)
	}
	return result["status"].(string)
}

func (v *visitor) get() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", v.session)
	return r
}

func related(id string) object {
	return object{"io.modelcontextprotocol/related-task": object{"taskId": id}}
}

func TestLegacyTasksAreDeclaredPerRequestAndTool(t *testing.T) {
	s := LegacyJobs(JobOptions{Conformance: true})
	w := post(s, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`, "Accept", "application/json")
	got := decode(t, w.Body.Bytes())["result"].(object)
	want := object{"tools": object{}, "tasks": object{"list": object{}, "cancel": object{}, "requests": object{"tools": object{"call": object{}}}}}
	if diff := cmp.Diff(want, got["capabilities"]); diff != "" || got["protocolVersion"] != "2025-11-25" {
		t.Errorf("%v", got)
	}
	v := visitJobs(t, s, `{}`)
	support := map[string]any{}
	for _, raw := range v.rpc(t, "tools/list", "")["result"].(object)["tools"].([]any) {
		item := raw.(object)
		support[item["name"].(string)] = item["execution"].(object)["taskSupport"]
	}
	if diff := cmp.Diff(map[string]any{
		"bake_cake": "optional", "ship_order": "required", "flaky_job": "optional", "list_jobs": "forbidden",
		"greet": "forbidden", "slow_compute": "optional", "failing_job": "required", "protocol_error_job": "required",
		"confirm_delete": "required", "multi_input": "required", "test_tool_with_task": "required",
	}, support); diff != "" {
		t.Error(diff)
	}
	for params, code := range map[string]float64{
		`"name":"list_jobs","task":{}`:                                          -32601,
		`"name":"failing_job"`:                                                  -32601,
		`"name":"nothing","task":{}`:                                            -32602,
		`"name":"bake_cake","arguments":{"flavor":""},"task":{}`:                -32602,
		`"name":"bake_cake","arguments":{"flavor":"x"},"task":7`:                -32602,
		`"name":"bake_cake","arguments":{"flavor":"x"},"task":{"ttl":-1}`:       -32602,
		`"name":"bake_cake","arguments":{"flavor":"x"},"task":{"ttl":"a week"}`: -32602,
		`"name":"list_jobs"`:                                                    0,
		`"name":"greet","arguments":{"name":"Ann"},"task":null`:                 0,
	} {
		got := v.rpc(t, "tools/call", params)
		if n, _ := errorOf(got); n != code {
			t.Errorf("%s: %v", params, got)
		}
	}
	for method, code := range map[string]float64{"ping": 0, "tasks/update": -32601, "server/discover": -32601, "prompts/list": -32601} {
		if n, _ := errorOf(v.rpc(t, method, "")); n != code {
			t.Errorf("%s: %v", method, n)
		}
	}
}

func TestALegacyTaskIsNestedAndItsResultFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitJobs(t, LegacyJobs(JobOptions{}), `{}`)
		made := v.rpc(t, "tools/call", `"name":"bake_cake","arguments":{"flavor":"lemon"},"task":{"ttl":60000}`)["result"].(object)
		id := made["task"].(object)["taskId"].(string)
		want := object{
			"taskId": id, "status": "working", "statusMessage": "weighing the flour", "createdAt": "2000-01-01T00:00:00.000Z",
			"lastUpdatedAt": "2000-01-01T00:00:00.000Z", "ttl": 60000.0, "pollInterval": 1000.0,
		}
		if diff := cmp.Diff(object{"task": want}, made); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(want, v.rpc(t, "tasks/get", fmt.Sprintf(`"taskId":%q`, id))["result"]); diff != "" {
			t.Error(diff)
		}
		start := time.Now()
		got := v.rpc(t, "tasks/result", fmt.Sprintf(`"taskId":%q`, id)) // without a stream
		wantResult := object{
			"_meta": related(id), "structuredContent": object{"cake": "lemon cake", "layers": 2.0, "slices": 16.0},
			"content": []any{object{"type": "text", "text": `{"cake":"lemon cake","layers":2,"slices":16}`}},
		}
		if diff := cmp.Diff(wantResult, got["result"]); diff != "" || time.Since(start) != 8*time.Second {
			t.Errorf("after %v: %v", time.Since(start), got)
		}
		if again := v.rpc(t, "tasks/result", fmt.Sprintf(`"taskId":%q`, id)); cmp.Diff(got, again) != "" {
			t.Errorf("%v", again)
		}
		if status := v.status(t, id); status != "completed" {
			t.Error(status)
		}
		time.Sleep(time.Minute)
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			if code, _ := errorOf(v.rpc(t, method, fmt.Sprintf(`"taskId":%q`, id))); code != -32602 {
				t.Errorf("%s of an expired task: %v", method, code)
			}
			if code, _ := errorOf(v.rpc(t, method, `"taskId":"x"`)); code != -32602 {
				t.Errorf("%s of an unknown task: %v", method, code)
			}
		}
		made = v.rpc(t, "tools/call", `"name":"bake_cake","arguments":{"flavor":"lemon"},"task":{"ttl":1e12}`)["result"].(object)
		if ttl := made["task"].(object)["ttl"]; ttl != 3600000.0 {
			t.Errorf("a ttl of %v", ttl)
		}
		start = time.Now()
		got = v.rpc(t, "tools/call", `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		if got["result"].(object)["_meta"] != nil || time.Since(start) != 8*time.Second {
			t.Errorf("not as a task: %v", got)
		}
	})
}

func TestALegacyTaskFailsInBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitJobs(t, LegacyJobs(JobOptions{}), `{}`)
		crash, wrong := v.task(t, `"name":"flaky_job"`), v.task(t, `"name":"flaky_job","arguments":{"how":"error"}`)
		if code, message := errorOf(v.rpc(t, "tasks/result", fmt.Sprintf(`"taskId":%q`, crash))); code != -32603 || message != "the machine lost its power" {
			t.Error(message)
		}
		result, _ := v.rpc(t, "tasks/result", fmt.Sprintf(`"taskId":%q`, wrong))["result"].(object)
		if diff := cmp.Diff(object{"_meta": related(wrong), "isError": true, "content": []any{object{"type": "text", "text": "the belt came off"}}}, result); diff != "" {
			t.Error(diff)
		}
		for _, id := range []string{crash, wrong} {
			if status := v.status(t, id); status != "failed" {
				t.Error(status)
			}
		}
	})
}

func TestALegacyCancelIsImmediateAndFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitJobs(t, LegacyJobs(JobOptions{}), `{}`)
		id := v.task(t, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		w, leave := stream(t, v.h, v.request(fmt.Sprintf(`{"jsonrpc":"2.0","id":"r","method":"tasks/result","params":{"taskId":%q}}`, id)))
		defer leave()
		time.Sleep(time.Second)
		got, _ := v.rpc(t, "tasks/cancel", fmt.Sprintf(`"taskId":%q`, id))["result"].(object)
		if got["taskId"] != id || got["status"] != "cancelled" || got["_meta"] != nil {
			t.Errorf("%v", got)
		}
		synctest.Wait()
		if m := w.messages(t); len(m) != 1 || m[0]["id"] != "r" || m[0]["error"] == nil || !w.ended() {
			t.Errorf("%v", m)
		}
		if code, _ := errorOf(v.rpc(t, "tasks/cancel", fmt.Sprintf(`"taskId":%q`, id))); code != -32602 {
			t.Errorf("a second cancel: %v", code)
		}
		time.Sleep(time.Minute)
		if status := v.status(t, id); status != "cancelled" {
			t.Error(status)
		}
		done := v.task(t, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		time.Sleep(time.Minute)
		if code, _ := errorOf(v.rpc(t, "tasks/cancel", fmt.Sprintf(`"taskId":%q`, done))); code != -32602 {
			t.Errorf("a cancel of what is done: %v", code)
		}
	})
}

func TestALegacyTaskAsksOnItsResultStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitJobs(t, LegacyJobs(JobOptions{}), `{"elicitation":{}}`)
		id := v.task(t, `"name":"ship_order","arguments":{"item":"teapot"}`)
		time.Sleep(time.Second)
		if status := v.status(t, id); status != "input_required" {
			t.Fatal(status)
		}
		await := func(request string) (*streaming, func()) {
			return stream(t, v.h, v.request(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tasks/result","params":{"taskId":%q,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ignored"}}}}`, request, id)))
		}
		question := func(w *streaming) string {
			t.Helper()
			synctest.Wait()
			got := w.messages(t)
			if len(got) != 1 {
				t.Fatalf("%v", got)
			}
			params := got[0]["params"].(object)
			if diff := cmp.Diff(related(id), params["_meta"]); diff != "" || got[0]["method"] != "elicitation/create" || params["mode"] != "form" || params["requestedSchema"] == nil {
				t.Errorf("%v", got)
			}
			return fmt.Sprint(got[0]["id"])
		}
		answer := func(request, result string) {
			t.Helper()
			v.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, request, result))
		}
		first, leaveFirst := await("1")
		asked := question(first)
		second, leaveSecond := await("2")
		defer leaveSecond()
		synctest.Wait()
		if got := second.messages(t); len(got) != 0 {
			t.Errorf("one question on two streams: %v", got)
		}
		leaveFirst()
		if again := question(second); again != asked {
			t.Errorf("the same question is request %s, then %s", asked, again)
		}
		answer("99", `"result":{"action":"accept","content":{"street":"a","city":"b"}}`)
		answer(`"x"`, `"result":{}`)
		answer(asked, `"result":{"action":"accept","content":{"street":"a"}}`)
		next := question(second)
		if next == asked {
			t.Errorf("another question is request %s again", next)
		}
		answer(asked, `"result":{"action":"accept","content":{"street":"old","city":"b"}}`)
		if status := v.status(t, id); status != "input_required" {
			t.Error(status)
		}
		answer(next, fmt.Sprintf(`"result":{"action":"accept","content":{"street":"a","city":"b"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}`, id))
		if status := v.status(t, id); status != "working" {
			t.Error(status)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := second.messages(t)
		result, _ := got[0]["result"].(object)
		if len(got) != 1 || got[0]["id"] != "2" || !second.ended() || result["structuredContent"].(object)["street"] != "a" || cmp.Diff(related(id), result["_meta"]) != "" {
			t.Errorf("%v", got)
		}
		if second.head.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%v", second.head)
		}

		id = v.task(t, `"name":"ship_order","arguments":{"item":"teapot"}`)
		third, leaveThird := await("3")
		defer leaveThird()
		time.Sleep(time.Second)
		answer(question(third), `"error":{"code":-1,"message":"nobody is here"}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := third.messages(t); len(got) != 1 || got[0]["result"].(object)["isError"] != true {
			t.Errorf("%v", got)
		}
	})
}

func TestAClientThatCannotBeAskedIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := LegacyJobs(JobOptions{Conformance: true})
		v := visitJobs(t, s, `{}`)
		id := v.task(t, `"name":"ship_order","arguments":{"item":"teapot"}`)
		if result, _ := v.rpc(t, "tasks/result", fmt.Sprintf(`"taskId":%q`, id))["result"].(object); result["isError"] != true {
			t.Errorf("%v", result)
		}
		able := visitJobs(t, s, `{"elicitation":{"form":{}}}`)
		id = able.task(t, `"name":"test_tool_with_task"`)
		w, leave := stream(t, s, v.request(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":%q}}`, id)))
		time.Sleep(time.Minute)
		if got := w.messages(t); len(got) != 0 {
			t.Errorf("%v", got)
		}
		leave()
	})
}

func TestTasksAreListedInPagesToTheirOwners(t *testing.T) {
	s := LegacyJobs(JobOptions{})
	mine, theirs := visitJobs(t, s, `{}`), visitJobs(t, s, `{}`)
	other := visitJobs(t, s, `{}`)
	other.bearer = "Bearer b"
	var want []string
	for range 2*jobPage + 3 {
		want = append(want, mine.task(t, `"name":"bake_cake","arguments":{"flavor":"lemon"}`))
	}
	own := other.task(t, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
	all := func(v *visitor) (ids []string, pages int) {
		params := ""
		for {
			result, ok := v.rpc(t, "tasks/list", params)["result"].(object)
			if !ok {
				t.Fatal("no list")
			}
			pages++
			for _, raw := range result["tasks"].([]any) {
				ids = append(ids, raw.(object)["taskId"].(string))
			}
			next, more := result["nextCursor"]
			if !more {
				return ids, pages
			}
			params = fmt.Sprintf(`"cursor":%q`, next)
		}
	}
	for _, v := range []*visitor{mine, theirs} { // a context is more than a session
		if ids, pages := all(v); cmp.Diff(want, ids) != "" || pages != 3 {
			t.Errorf("%d pages: %s", pages, cmp.Diff(want, ids))
		}
	}
	if ids, _ := all(other); cmp.Diff([]string{own}, ids) != "" {
		t.Errorf("%v", ids)
	}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		if code, _ := errorOf(mine.rpc(t, method, fmt.Sprintf(`"taskId":%q`, own))); code != -32602 {
			t.Errorf("%s of another's task: %v", method, code)
		}
	}
	for _, cursor := range []string{"x", "", "!"} {
		if code, _ := errorOf(mine.rpc(t, "tasks/list", fmt.Sprintf(`"cursor":%q`, cursor))); code != -32602 {
			t.Errorf("the cursor %q: %v", cursor, code)
		}
	}
}

func TestAGetStreamTellsOfTheTasksOfItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := LegacyJobs(JobOptions{Notify: true})
		v, other := visitJobs(t, s, `{}`), visitJobs(t, s, `{}`)
		w, leave := stream(t, s, v.get())
		defer leave()
		synctest.Wait()
		if second := httptest.NewRecorder(); true {
			if s.ServeHTTP(second, v.get()); second.Code != http.StatusConflict {
				t.Errorf("a second stream: %d", second.Code)
			}
		}
		_ = other.task(t, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		id := v.task(t, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		var told []any
		for _, m := range w.messages(t) {
			params := m["params"].(object)
			if m["method"] != "notifications/tasks/status" || m["id"] != nil || params["taskId"] != id || params["_meta"] != nil || params["result"] != nil {
				t.Errorf("%v", m)
			}
			told = append(told, params["statusMessage"])
			if params["status"] == "completed" {
				if diff := cmp.Diff(v.rpc(t, "tasks/get", fmt.Sprintf(`"taskId":%q`, id))["result"], any(params)); diff != "" {
					t.Error(diff)
				}
			}
		}
		if diff := cmp.Diff([]any{"mixing the batter", "baking", "icing", "done"}, told); diff != "" {
			t.Error(diff)
		}
		r := httptest.NewRequest(http.MethodDelete, "/mcp", nil)
		r.Header.Set("Mcp-Session-Id", v.session)
		gone := httptest.NewRecorder()
		s.ServeHTTP(gone, r)
		synctest.Wait()
		if gone.Code != http.StatusNoContent || !w.ended() {
			t.Errorf("%d, and the stream of the session goes on", gone.Code)
		}
		next := visitJobs(t, s, `{}`)
		if status := next.status(t, id); status != "completed" {
			t.Errorf("a task ends with its session: %s", status)
		}
	})
}

func TestAServerThatTellsNothingIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := LegacyJobs(JobOptions{})
		v := visitJobs(t, s, `{}`)
		w, leave := stream(t, s, v.get())
		defer leave()
		_ = v.task(t, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		time.Sleep(time.Minute)
		if got := w.messages(t); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

func TestALegacyRequestIsCancelledByItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := LegacyJobs(JobOptions{})
		v := visitJobs(t, s, `{}`)
		id := v.task(t, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		w, leave := stream(t, s, v.request(fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"tasks/result","params":{"taskId":%q}}`, id)))
		defer leave()
		synctest.Wait()
		if code, _ := errorOf(decode(t, []byte(strings.TrimPrefix(strings.Split(post(s, `{"jsonrpc":"2.0","id":5,"method":"ping"}`, "Mcp-Session-Id", v.session).Body.String(), "\n")[1], "data: ")))); code != -32600 {
			t.Errorf("one id twice: %v", code)
		}
		v.say(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		synctest.Wait()
		if got := w.messages(t); len(got) != 0 || !w.ended() {
			t.Errorf("%v", got)
		}
		if status := v.status(t, id); status != "working" {
			t.Errorf("the task went with the request: %s", status)
		}
	})
}

func TestALegacyJobServerWantsASession(t *testing.T) {
	s := LegacyJobs(JobOptions{})
	for name, tc := range map[string]struct {
		r      *http.Request
		status int
	}{
		"no session":      {jobRequest(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), 400},
		"unknown session": {jobRequest(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", "x"), 404},
		"a batch":         {jobRequest(`[]`), 400},
		"get of none":     {httptest.NewRequest(http.MethodGet, "/mcp", nil), 400},
		"put":             {httptest.NewRequest(http.MethodPut, "/mcp", nil), 405},
		"no version":      {jobRequest(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), 200},
	} {
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, tc.r); w.Code != tc.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
