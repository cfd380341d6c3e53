package demo

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

const jobCaps = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// modernRequest is a request of 2026-07-28 with the headers that belong to it;
// headers come on top.
func modernRequest(method, params, caps string, headers ...string) *http.Request {
	if params != "" {
		params += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`, method, params, caps)
	all := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	for _, member := range []string{`"taskId":"`, `"name":"`} {
		if _, rest, ok := strings.Cut(params, member); ok {
			name, _, _ := strings.Cut(rest, `"`)
			all = append(all, "Mcp-Name", name)
			break
		}
	}
	return jobRequest(body, append(all, headers...)...)
}

// modernJob sends a request of a client that has everything, and returns the
// status and the response.
func modernJob(t *testing.T, s *JobServer, method, params string, headers ...string) (int, object) {
	t.Helper()
	return modernJobOf(t, s, jobCaps, method, params, headers...)
}

func modernJobOf(t *testing.T, s *JobServer, caps, method, params string, headers ...string) (int, object) {
	t.Helper()
	w := &streaming{head: http.Header{}, code: http.StatusOK}
	s.ServeHTTP(w, modernRequest(method, params, caps, headers...))
	if !strings.HasPrefix(w.body.String(), "{") {
		return w.code, nil
	}
	got := decode(t, w.body.Bytes())
	if result, ok := got["result"].(object); ok {
		if result["resultType"] == nil {
			t.Errorf("%s: no resultType: %v", method, result)
		}
		if diff := cmp.Diff("jobs", result["_meta"].(object)["io.modelcontextprotocol/serverInfo"].(object)["name"]); diff != "" {
			t.Error(diff)
		}
		delete(result, "_meta")
	}
	return w.code, got
}

// newTask calls a tool and returns the id of the task that is made.
func newTask(t *testing.T, s *JobServer, params string, headers ...string) string {
	t.Helper()
	_, got := modernJob(t, s, "tools/call", params, headers...)
	result, _ := got["result"].(object)
	if result["resultType"] != "task" || result["status"] != "working" {
		t.Fatalf("no task: %v", got)
	}
	return result["taskId"].(string)
}

// task asks for a task, which must be there.
func task(t *testing.T, s *JobServer, id string) object {
	t.Helper()
	_, got := modernJob(t, s, "tasks/get", fmt.Sprintf(`"taskId":%q`, id))
	result, ok := got["result"].(object)
	if !ok || result["resultType"] != "complete" || result["taskId"] != id {
		t.Fatalf("%v", got)
	}
	return result
}

// errorOf is code and message of a response.
func errorOf(got object) (float64, string) {
	failure, _ := got["error"].(object)
	code, _ := failure["code"].(float64)
	message, _ := failure["message"].(string)
	return code, message
}

func keysOf(t *testing.T, got object) []string {
	t.Helper()
	requests, _ := got["inputRequests"].(object)
	var out []string
	for key, r := range requests {
		params := r.(object)["params"].(object)
		if r.(object)["method"] != "elicitation/create" || params["mode"] != "form" || params["requestedSchema"] == nil || params["_meta"] != nil {
			t.Errorf("%v", r)
		}
		out = append(out, key)
	}
	return out
}

func TestTheExtensionIsAdvertisedAndNothingElse(t *testing.T) {
	s := Jobs(JobOptions{Conformance: true})
	_, got := modernJob(t, s, "server/discover", "")
	want := object{
		"resultType": "complete", "supportedVersions": []any{"2026-07-28"}, "instructions": jobInstructions, "ttlMs": 60000.0, "cacheScope": "public",
		"capabilities": object{"tools": object{}, "extensions": object{"io.modelcontextprotocol/tasks": object{}}},
	}
	if diff := cmp.Diff(want, got["result"]); diff != "" {
		t.Error(diff)
	}
	_, got = modernJob(t, s, "tools/list", "")
	var listed []string
	for _, raw := range got["result"].(object)["tools"].([]any) {
		item := raw.(object)
		listed = append(listed, item["name"].(string))
		if item["execution"] != nil || item["inputSchema"].(object)["type"] != "object" {
			t.Errorf("%v", item)
		}
	}
	if diff := cmp.Diff([]string{
		"bake_cake", "ship_order", "flaky_job", "list_jobs",
		"greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input", "test_tool_with_task",
	}, listed); diff != "" {
		t.Error(diff)
	}
	for method, code := range map[string]int{"tasks/result": 404, "tasks/list": 404, "prompts/list": 404, "ping": 404, "initialize": 404} {
		status, got := modernJob(t, s, method, `"taskId":"x"`)
		if n, _ := errorOf(got); status != code || n != -32601 {
			t.Errorf("%s: %d %v", method, status, got)
		}
	}
}

func TestATaskTellsHowFarItIsAndThenItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{})
		_, got := modernJob(t, s, "tools/call", `"name":"bake_cake","arguments":{"flavor":"lemon"},"task":{"ttl":1}`)
		created := got["result"].(object)
		id := created["taskId"]
		want := object{
			"resultType": "task", "taskId": id, "status": "working", "statusMessage": "weighing the flour",
			"createdAt": "2000-01-01T00:00:00.000Z", "lastUpdatedAt": "2000-01-01T00:00:00.000Z", "ttlMs": 3600000.0, "pollIntervalMs": 1000.0,
		}
		if diff := cmp.Diff(want, created); diff != "" {
			t.Fatal(diff)
		}
		var told []any
		for range 9 {
			told = append(told, task(t, s, id.(string))["statusMessage"])
			time.Sleep(time.Second)
		}
		if diff := cmp.Diff([]any{
			"weighing the flour", "mixing the batter", "mixing the batter", "baking", "baking", "baking", "baking", "icing", "done",
		}, told); diff != "" {
			t.Error(diff)
		}
		want = object{
			"resultType": "complete", "taskId": id, "status": "completed", "statusMessage": "done",
			"createdAt": "2000-01-01T00:00:00.000Z", "lastUpdatedAt": "2000-01-01T00:00:08.000Z", "ttlMs": 3600000.0, "pollIntervalMs": 1000.0,
			"result": object{
				"resultType": "complete", "structuredContent": object{"cake": "lemon cake", "layers": 2.0, "slices": 16.0},
				"content": []any{object{"type": "text", "text": `{"cake":"lemon cake","layers":2,"slices":16}`}},
			},
		}
		if diff := cmp.Diff(want, task(t, s, id.(string))); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Hour)
		_, got = modernJob(t, s, "tasks/get", fmt.Sprintf(`"taskId":%q`, id))
		if code, message := errorOf(got); code != -32602 || message != "task has expired" {
			t.Errorf("%v", got)
		}
	})
}

func TestOnlyWhoDeclaresTheExtensionGetsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{Conformance: true, Notify: true})
		tasks := object{"extensions": object{"io.modelcontextprotocol/tasks": object{}}}
		asks := object{"elicitation": object{"form": object{}}}
		both := object{"extensions": tasks["extensions"], "elicitation": asks["elicitation"]}
		const extension = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		for _, tc := range []struct {
			method, params, caps string
			needs                object
		}{
			{"tasks/get", `"taskId":"x"`, `{}`, tasks},
			{"tasks/update", `"taskId":"x","inputResponses":{}`, `{}`, tasks},
			{"tasks/cancel", `"taskId":"x"`, `{"extensions":{"other/x":{}}}`, tasks},
			{"subscriptions/listen", `"notifications":{"taskIds":["x"]}`, `{}`, tasks},
			{"tools/call", `"name":"failing_job"`, `{}`, tasks},
			{"tools/call", `"name":"slow_compute","arguments":{"seconds":60}`, `{}`, tasks},
			{"tools/call", `"name":"ship_order","arguments":{"item":"x"}`, `{}`, both},
			{"tools/call", `"name":"ship_order","arguments":{"item":"x"}`, extension, asks},
			{"tools/call", `"name":"ship_order","arguments":{"item":"x"}`, `{"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, asks},
		} {
			status, got := modernJobOf(t, s, tc.caps, tc.method, tc.params)
			failure, _ := got["error"].(object)
			if diff := cmp.Diff(object{"code": -32021.0, "message": "Missing required client capability", "data": object{"requiredCapabilities": tc.needs}}, failure); status != 400 || diff != "" {
				t.Errorf("%s %s: %d %s", tc.method, tc.params, status, diff)
			}
		}
		start := time.Now()
		_, got := modernJobOf(t, s, `{}`, "tools/call", `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		if result := got["result"].(object); result["resultType"] != "complete" || result["structuredContent"] == nil || result["taskId"] != nil {
			t.Errorf("%v", got)
		}
		if time.Since(start) != 8*time.Second {
			t.Errorf("it took %v", time.Since(start))
		}
		_, got = modernJobOf(t, s, `{}`, "tools/call", `"name":"flaky_job"`)
		if code, _ := errorOf(got); code != -32603 {
			t.Errorf("%v", got)
		}
		_, got = modernJob(t, s, "tools/call", `"name":"greet","arguments":{"name":"Ann"},"task":{"ttl":60000}`)
		if diff := cmp.Diff(object{"resultType": "complete", "content": []any{object{"type": "text", "text": "Hello, Ann!"}}}, got["result"]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHeadersThenCapabilityThenID(t *testing.T) {
	s := Jobs(JobOptions{IDs: func() string { return "zażółć" }})
	id := newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for _, tc := range []struct {
			name    string
			id      string
			caps    string
			headers []string
			status  int
			code    float64
		}{
			{"encoded", id, jobCaps, []string{"Mcp-Name", mcp.EncodeHeader(id)}, 200, 0},
			{"another", id, `{}`, []string{"Mcp-Name", "x"}, 400, -32020},
			{"none", id, `{}`, []string{"Mcp-Name", ""}, 400, -32020},
			{"another method", id, `{}`, []string{"Mcp-Name", mcp.EncodeHeader(id), "Mcp-Method", "tasks/put"}, 400, -32020},
			{"undeclared", "x", `{}`, nil, 400, -32021},
			{"unknown", "x", jobCaps, nil, 200, -32602},
			{"of somebody else", id, jobCaps, []string{"Mcp-Name", mcp.EncodeHeader(id), "Authorization", "Bearer b"}, 200, -32602},
		} {
			status, got := modernJobOf(t, s, tc.caps, method, fmt.Sprintf(`"taskId":%q,"inputResponses":{}`, tc.id), tc.headers...)
			if code, _ := errorOf(got); status != tc.status || code != tc.code {
				t.Errorf("%s, %s: %d %v", method, tc.name, status, got)
			}
		}
	}
	_, got := modernJob(t, s, "tasks/update", `"taskId":"x"`)
	if code, _ := errorOf(got); code != -32602 {
		t.Errorf("an update of nothing: %v", got)
	}
}

func TestAToolThatFailsCompletesAndAServerThatFailsDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{})
		crash, wrong := newTask(t, s, `"name":"flaky_job"`), newTask(t, s, `"name":"flaky_job","arguments":{"how":"error"}`)
		time.Sleep(3 * time.Second)
		got := task(t, s, crash)
		if diff := cmp.Diff(object{"code": -32603.0, "message": "the machine lost its power"}, got["error"]); diff != "" || got["status"] != "failed" || got["result"] != nil || got["statusMessage"] == nil {
			t.Errorf("%v", got)
		}
		got = task(t, s, wrong)
		if result, _ := got["result"].(object); got["status"] != "completed" || result["isError"] != true || result["resultType"] != "complete" || got["error"] != nil {
			t.Errorf("%v", got)
		}
		_, got = modernJob(t, s, "tools/call", `"name":"bake_cake","arguments":{"flavor":"lemon","layers":9}`)
		if result, _ := got["result"].(object); result["resultType"] != "complete" || result["isError"] != true {
			t.Errorf("bad arguments: %v", got)
		}
		_, got = modernJob(t, s, "tools/call", `"name":"nothing"`)
		if code, _ := errorOf(got); code != -32602 {
			t.Errorf("unknown tool: %v", got)
		}
	})
}

func TestATaskAsksUntilTheAnswerFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{})
		seen := map[string]bool{}
		ask := func(id string) string {
			t.Helper()
			got := task(t, s, id)
			keys := keysOf(t, got)
			if got["status"] != "input_required" || len(keys) != 1 || seen[id+keys[0]] {
				t.Fatalf("%v", got)
			}
			if again := keysOf(t, task(t, s, id)); again[0] != keys[0] {
				t.Fatal("the key changes by looking")
			}
			seen[id+keys[0]] = true
			return keys[0]
		}
		update := func(id, key, answer string) {
			t.Helper()
			_, got := modernJob(t, s, "tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:%s,"never-asked":7}`, id, key, answer))
			if diff := cmp.Diff(object{"resultType": "complete"}, got["result"]); diff != "" {
				t.Error(diff)
			}
		}
		const good = `{"action":"accept","content":{"street":"Main Street 1","city":"Springfield"}}`
		id := newTask(t, s, `"name":"ship_order","arguments":{"item":"teapot"}`)
		time.Sleep(time.Second)
		first := ask(id)
		update(id, "address", good) // not the key
		update(id, first, `{"action":"accept","content":{"street":"Main Street 1"}}`)
		second := ask(id)
		update(id, first, good) // answered already
		update(id, second, good)
		if got := task(t, s, id); got["status"] != "working" || got["inputRequests"] != nil {
			t.Errorf("%v", got)
		}
		time.Sleep(2 * time.Second)
		got := task(t, s, id)
		result, _ := got["result"].(object)
		if diff := cmp.Diff(object{"item": "teapot", "quantity": 1.0, "street": "Main Street 1", "city": "Springfield", "carrier": "Slow & Steady"}, result["structuredContent"]); diff != "" {
			t.Errorf("%v", got)
		}
		update(id, second, good) // ended, and acknowledged all the same

		for _, nonsense := range []string{`7`, `{"action":"perhaps"}`, `{"action":"accept","content":{"street":"` + strings.Repeat("x", maxJobAnswer) + `","city":"x"}}`} {
			id = newTask(t, s, `"name":"ship_order","arguments":{"item":"teapot"}`)
			time.Sleep(time.Second)
			for range maxAskings {
				update(id, ask(id), nonsense)
			}
			time.Sleep(2 * time.Second)
			if result, _ := task(t, s, id)["result"].(object); result["isError"] != true {
				t.Errorf("%v", task(t, s, id))
			}
		}
		id = newTask(t, s, `"name":"ship_order","arguments":{"item":"teapot"}`)
		time.Sleep(time.Second)
		update(id, ask(id), `{"action":"decline"}`)
		time.Sleep(2 * time.Second)
		if result, _ := task(t, s, id)["result"].(object); result["isError"] != true {
			t.Errorf("%v", task(t, s, id))
		}
	})
}

func TestTwoQuestionsAreAnsweredOneByOne(t *testing.T) {
	s := Jobs(JobOptions{Conformance: true})
	id := newTask(t, s, `"name":"multi_input"`)
	keys := keysOf(t, task(t, s, id))
	if len(keys) != 2 {
		t.Fatalf("%v", keys)
	}
	for i, key := range keys {
		_, _ = modernJob(t, s, "tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"name":"Ann","confirm":true}}}`, id, key))
		got := task(t, s, id)
		if left := keysOf(t, got); i == 0 && (len(left) != 1 || left[0] != keys[1] || got["status"] != "input_required") {
			t.Errorf("%v", got)
		}
	}
	if got := task(t, s, id); got["status"] != "completed" {
		t.Errorf("%v", got)
	}
}

func TestACancelIsAcknowledgedAndWorksSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{Grace: time.Second})
		cancel := func(id string) {
			t.Helper()
			_, got := modernJob(t, s, "tasks/cancel", fmt.Sprintf(`"taskId":%q`, id))
			if diff := cmp.Diff(object{"resultType": "complete"}, got["result"]); diff != "" {
				t.Error(diff)
			}
		}
		id := newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		cancel(id)
		if got := task(t, s, id); got["status"] != "working" {
			t.Errorf("%v", got)
		}
		cancel(id)
		time.Sleep(time.Second)
		for range 2 {
			if got := task(t, s, id); got["status"] != "cancelled" || got["result"] != nil || got["error"] != nil {
				t.Errorf("%v", got)
			}
			cancel(id)
			time.Sleep(time.Minute)
		}
		id = newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		time.Sleep(7500 * time.Millisecond)
		cancel(id) // too late
		time.Sleep(time.Second)
		if got := task(t, s, id); got["status"] != "completed" {
			t.Errorf("%v", got)
		}
		id = newTask(t, s, `"name":"ship_order","arguments":{"item":"teapot"}`)
		time.Sleep(time.Second)
		cancel(id)
		time.Sleep(time.Second)
		if got := task(t, s, id); got["status"] != "cancelled" || got["inputRequests"] != nil {
			t.Errorf("%v", got)
		}
	})
}

func TestWhatIsAskedBeforeATaskIsNoPartOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{Conformance: true})
		_, got := modernJob(t, s, "tools/call", `"name":"test_tool_with_task"`)
		result := got["result"].(object)
		state, _ := result["requestState"].(string)
		if keys := keysOf(t, result); result["resultType"] != "input_required" || result["taskId"] != nil || state == "" || len(keys) != 1 || keys[0] != "user_name" {
			t.Fatalf("%v", got)
		}
		const answer = `"inputResponses":{"user_name":{"action":"accept","content":{"name":"Alice"}},"extra":{"action":"cancel"}}`
		for _, bad := range []string{answer, answer + `,"requestState":"x"`, `"inputResponses":{"user_name":7},"requestState":"` + state + `"`} {
			if _, got := modernJob(t, s, "tools/call", `"name":"test_tool_with_task",`+bad); got["error"] == nil {
				t.Errorf("%s: %v", bad, got)
			}
		}
		_, got = modernJob(t, s, "tools/call", `"name":"test_tool_with_task","inputResponses":{},"requestState":"`+state+`"`)
		if got["result"].(object)["resultType"] != "input_required" {
			t.Errorf("no answer: %v", got)
		}
		_, got = modernJob(t, s, "tools/call", `"name":"test_tool_with_task",`+answer+`,"requestState":"`+state+`"`)
		result = got["result"].(object)
		if result["resultType"] != "task" || result["requestState"] != nil || result["inputRequests"] != nil {
			t.Fatalf("%v", got)
		}
		time.Sleep(time.Second)
		done := task(t, s, result["taskId"].(string))
		if diff := cmp.Diff([]any{object{"type": "text", "text": "worked for Alice"}}, done["result"].(object)["content"]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAListenerHearsEveryChangeOfItsTasksAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{Notify: true})
		mine := newTask(t, s, `"name":"ship_order","arguments":{"item":"teapot"}`)
		_ = newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		theirs := newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`, "Authorization", "Bearer b")
		w, leave := stream(t, s, modernRequest("subscriptions/listen", fmt.Sprintf(`"notifications":{"toolsListChanged":true,"taskIds":[%q,"unknown",%q,%q]}`, mine, theirs, mine), jobCaps))
		defer func() { leave() }()
		synctest.Wait()
		meta := object{"io.modelcontextprotocol/subscriptionId": 7.0}
		want := []object{{"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": object{"_meta": meta, "notifications": object{"taskIds": []any{mine}}}}}
		if diff := cmp.Diff(want, w.messages(t)); diff != "" {
			t.Fatal(diff)
		}
		if w.head.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%v", w.head)
		}
		hear := func(status ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, m := range w.messages(t) {
				params := m["params"].(object)
				if m["method"] != "notifications/tasks" || m["id"] != nil || params["taskId"] != mine || params["resultType"] != nil {
					t.Errorf("%v", m)
				}
				if diff := cmp.Diff(meta, params["_meta"]); diff != "" {
					t.Error(diff)
				}
				now := task(t, s, mine)
				if delete(now, "resultType"); params["status"] == now["status"] {
					delete(params, "_meta")
					if diff := cmp.Diff(now, params); diff != "" {
						t.Error(diff)
					}
				}
				got = append(got, params["status"].(string))
			}
			if diff := cmp.Diff(status, got); diff != "" {
				t.Error(diff)
			}
		}
		time.Sleep(900 * time.Millisecond)
		hear()
		time.Sleep(100 * time.Millisecond)
		hear("input_required")
		time.Sleep(time.Minute)
		hear()
		_, _ = modernJob(t, s, "tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"street":"a","city":"b"}}}`, mine, keysOf(t, task(t, s, mine))[0]))
		hear("working")
		time.Sleep(2 * time.Second)
		hear("completed")
		time.Sleep(time.Minute)
		hear()
		leave()

		mine = newTask(t, s, `"name":"ship_order","arguments":{"item":"teapot"}`)
		w, leave = stream(t, s, modernRequest("subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, mine), jobCaps))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.messages(t); len(got) != 2 {
			t.Errorf("%v", got)
		}
		_, _ = modernJob(t, s, "tasks/cancel", fmt.Sprintf(`"taskId":%q`, mine))
		hear()
		time.Sleep(defaultJobGrace)
		hear("cancelled")
		s.Close()
		synctest.Wait()
		want = []object{{"jsonrpc": "2.0", "id": 7.0, "result": object{"resultType": "complete", "_meta": meta}}}
		if diff := cmp.Diff(want, w.messages(t)); diff != "" || !w.ended() {
			t.Error(diff)
		}
	})
}

func TestAListenerOfAServerThatTellsNothingIsAcknowledgedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{})
		id := newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		w, leave := stream(t, s, modernRequest("subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, id), jobCaps))
		time.Sleep(time.Minute)
		got := w.messages(t)
		if len(got) != 1 || len(got[0]["params"].(object)["notifications"].(object)) != 0 {
			t.Errorf("%v", got)
		}
		leave()
		if _, got := modernJob(t, s, "subscriptions/listen", ``); got["error"] == nil {
			t.Error("a listener without a filter")
		}
		if status, _ := modernJob(t, s, "subscriptions/listen", `"notifications":{}`, "Accept", "application/json"); status != http.StatusNotAcceptable {
			t.Errorf("%d for a listener that takes no stream", status)
		}
	})
}

func TestEveryMessageIsLogged(t *testing.T) {
	var calls []JobCall
	s := Jobs(JobOptions{Conformance: true, Log: func(c JobCall) { calls = append(calls, c) }})
	id := newTask(t, s, `"name":"slow_compute","arguments":{"seconds":60}`, "Authorization", "Bearer a")
	_, _ = modernJob(t, s, "tasks/get", fmt.Sprintf(`"taskId":%q`, id), "Authorization", "Bearer a")
	if len(calls) != 2 || calls[0].Method != "tools/call" || calls[0].Name != "slow_compute" || calls[1].Method != "tasks/get" || calls[1].Name != id ||
		calls[1].Authorization != "Bearer a" || !strings.Contains(string(calls[1].Body), id) {
		t.Errorf("%+v", calls)
	}
}

func TestJobsAreListedToTheirOwnersWithoutIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{})
		id := newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`, "Authorization", "Bearer a")
		_, got := modernJob(t, s, "tools/call", `"name":"list_jobs"`, "Authorization", "Bearer a")
		want := object{"jobs": []any{object{"tool": "bake_cake", "status": "working", "message": "weighing the flour", "since": "2000-01-01T00:00:00.000Z"}}}
		if diff := cmp.Diff(want, got["result"].(object)["structuredContent"]); diff != "" || strings.Contains(fmt.Sprint(got), id) {
			t.Errorf("%v", got)
		}
		_, got = modernJob(t, s, "tools/call", `"name":"list_jobs"`)
		if diff := cmp.Diff(object{"jobs": []any{}}, got["result"].(object)["structuredContent"]); diff != "" {
			t.Error(diff)
		}
	})
}
