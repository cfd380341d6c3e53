package taskslegacy_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/demo"
)

func TestABridgedTaskIsItsOwners(t *testing.T) {
	auth := "auth:\n  api_keys:\n"
	for _, who := range []string{"ann", "bob"} {
		sum := sha256.Sum256([]byte("secret-of-" + who + "-0123456789abcdef"))
		auth += fmt.Sprintf("    - {name: %s, hash: \"sha256:%s\", subject: %s, scopes: [mcp]}\n", who, hex.EncodeToString(sum[:]), who)
	}
	up := quick(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url}, auth)
	ann, bob, old := h.http(t, modern, bridgeCaps), h.http(t, modern, bridgeCaps), newClient(legacy, formCaps)
	ann.key, bob.key, old.key = "secret-of-ann-0123456789abcdef", "secret-of-bob-0123456789abcdef", "secret-of-bob-0123456789abcdef"
	old.url = h.url
	t.Cleanup(old.end)
	old.begin(t)
	id := ann.made(t, order)
	asked := ann.becomes(t, id, "input_required")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		params := fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:%s}}`, id, keysOf(asked)[0], home("", nil))
		own, unknown := bob.call(t, method, params), bob.call(t, method, `{"taskId":"nobody's","inputResponses":{}}`)
		if own.code() != -32602 || own.Error.Message != unknown.Error.Message || own.status != unknown.status {
			t.Errorf("%s: %s, and of an unknown one %s", method, own.raw, unknown.raw)
		}
	}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		if a := old.call(t, method, fmt.Sprintf(`{"taskId":%q}`, id)); a.code() != -32002 {
			t.Errorf("%s of a legacy client: %s", method, a.raw)
		}
	}
	if len(up.answers()) != 0 || up.got("tasks/cancel") != 0 {
		t.Error("the upstream heard of somebody else")
	}
	ann.reply(t, &asked, home("", nil))
	ann.becomes(t, id, "completed")
}

func TestABridgedTaskAndItsQuestionOutliveTheGateway(t *testing.T) {
	doc, err := config.Parse("test.yaml", fmt.Appendf(nil, "state: 'sqlite:%s/state.db'\nupstreams: {}\n", t.TempDir()), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	s, err := penstock.OpenStore(context.Background(), doc, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	up := quick(t, demo.LegacyJobs)
	id := ""
	t.Run("before", func(t *testing.T) {
		c := serveWith(t, map[string]string{"jobs": up.url}, []penstock.Option{penstock.WithStore(s)}).http(t, modern, bridgeCaps)
		id = c.made(t, order)
		c.becomes(t, id, "input_required")
	})
	c := serveWith(t, map[string]string{"jobs": up.url}, []penstock.Option{penstock.WithStore(s)}).http(t, modern, tasksCaps)
	asked := c.becomes(t, id, "input_required")
	c.reply(t, &asked, home("", nil))
	if d := c.becomes(t, id, "completed"); !strings.Contains(string(d.Result), "Lock Lane") {
		t.Errorf("the result: %s", d.Result)
	}
}

func TestAQuestionStaysOpenOverAReload(t *testing.T) {
	up := quick(t, demo.LegacyJobs)
	upstreams := map[string]string{"jobs": up.url}
	h := serve(t, upstreams, everythingAllowed)
	c := h.http(t, modern, bridgeCaps)
	id := c.made(t, order)
	asked := c.becomes(t, id, "input_required")
	h.reload(t, upstreams, everythingAllowed+"\nlimits: {list_timeout: 9s}")
	if again := c.detail(t, id); fmt.Sprint(keysOf(again)) != fmt.Sprint(keysOf(asked)) {
		t.Errorf("asked under %v, then under %v", keysOf(asked), keysOf(again))
	}
	// Another upstream in its place, under its name: the question is asked there again.
	h.reload(t, map[string]string{"jobs": up.url + "/?again"}, everythingAllowed)
	c.becomes(t, id, "input_required")
}

func TestAListenerHearsAtOnceWhatIsSaidOnTheStreamOfTheResult(t *testing.T) {
	up := script(t, nil)
	status := `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":` + stood("t1", "working", "") + `}`
	slowly := `,"ttl":null,"pollInterval":60000`
	up.says("tasks/get", `"result":`+stood("t1", "working", slowly))
	told, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(ended) })
	inner := up.say
	up.say = func(method, params string) ([]string, string) {
		_, answer := inner(method, params)
		if method == "tasks/result" {
			<-told
			return []string{status}, answer
		}
		return nil, answer
	}
	up.late = func(method, _ string) string {
		if method == "tasks/result" {
			<-ended
		}
		return ""
	}
	c := up.client(t)
	c.made(t, plainWork)
	c.begun(t, "subscriptions/listen", `{"notifications":{"taskIds":["t1"]}}`)
	until(t, "it is looked at", func() bool { return up.times("tasks/get") > 1 })
	time.Sleep(100 * time.Millisecond)
	up.says("tasks/get", `"result":`+stood("t1", "working", slowly+`,"statusMessage":"half done"`))
	began := time.Now()
	close(told)
	for m := range c.came {
		if m.Method == "notifications/tasks" && strings.Contains(m.raw, "half done") {
			break
		}
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it was told after %v", d)
	}
}

func TestURIsWithinABridgedTaskAreThoseOfItsCall(t *testing.T) {
	up := script(t, map[string]string{
		"tasks/get":    `"result":` + stood("t1", "completed", ""),
		"tasks/result": `"result":{"content":[{"type":"resource_link","name":"x","uri":"file:///x"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`,
	})
	other := script(t, nil)
	h := serve(t, map[string]string{"odd": up.url, "two": other.url}, "servers: {default: {naming: prefixed}}")
	c := h.http(t, modern, bridgeCaps)
	c.made(t, `{"name":"odd-work","arguments":{}}`)
	if a := get(t, c); !strings.Contains(a.raw, `"uri":"odd-file:///x"`) || strings.Contains(a.raw, "related-task") {
		t.Errorf("tasks/get: %s", a.raw)
	}
}

func TestTasksThatWaitKeepNoCallsOut(t *testing.T) {
	up := quick(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": "{url: '" + up.url + "', max_concurrent: 1}"})
	c := h.http(t, modern, bridgeCaps)
	var ids []string
	for range 3 {
		ids = append(ids, c.made(t, order))
	}
	for _, id := range ids {
		c.becomes(t, id, "input_required")
	}
	if a := c.call(t, "tools/call", `{"name":"jobs__list_jobs","arguments":{}}`); a.Error != nil {
		t.Errorf("a call beside them: %s", a.raw)
	}
	for _, id := range ids {
		asked := c.detail(t, id)
		c.reply(t, &asked, home("", nil))
		c.becomes(t, id, "completed")
	}
}

func TestALegacyClientSeesWhatItsOwnerMadeAsAModernOne(t *testing.T) {
	up := slow(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url})
	id := h.http(t, modern, bridgeCaps).made(t, cake)
	c := h.http(t, legacy, formCaps)
	if s := c.status(t, id); s != "working" {
		t.Errorf("the task is %s", s)
	}
	if a := c.call(t, "tasks/list", "{}"); !strings.Contains(a.raw, id) || strings.Contains(a.raw, "ttlMs") {
		t.Errorf("tasks/list: %s", a.raw)
	}
	own := c.made(t, `{"name":"jobs__bake_cake","arguments":{"flavor":"plum"},"task":{}}`)
	if d := h.http(t, modern, bridgeCaps).detail(t, own); d.Status != "working" {
		t.Errorf("the other way around: %+v", d)
	}
}
