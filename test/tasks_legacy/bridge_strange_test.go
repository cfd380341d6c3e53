package taskslegacy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// plainWork is a call of a tool that may run as a task, by a client that has no say in
// it.
const plainWork = `{"name":"odd__work","arguments":{}}`

// stood is a task of a status, with further members.
func stood(id, status, more string) string {
	return `{"taskId":"` + id + `","status":"` + status + `","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z"` + more + `}`
}

const unknownTask = `"error":{"code":-32602,"message":"no such task"}`

// scripted is an odd upstream that makes the task t1, and of which each test says the rest.
type scripted struct {
	*strange
	mu  sync.Mutex // guards how
	how map[string]string
}

// says has a method answered so from now on.
func (s *scripted) says(method, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how[method] = answer
}

func script(t *testing.T, how map[string]string) *scripted {
	t.Helper()
	s := &scripted{how: map[string]string{"tools/call": `"result":{"task":` + working("t1") + `}`, "tasks/get": `"result":` + working("t1"), "tasks/result": `"error":{"code":-32000,"message":"later"}`}}
	for method, answer := range how {
		s.how[method] = answer
	}
	s.strange = odd(t, func(method, _ string) ([]string, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, s.how[method]
	})
	return s
}

func (s *scripted) client(t *testing.T, more ...string) *client {
	t.Helper()
	return serve(t, map[string]string{"odd": s.url}, more...).http(t, modern, bridgeCaps)
}

// get is what tasks/get says of t1.
func get(t *testing.T, c *client) *message {
	t.Helper()
	return c.call(t, "tasks/get", `{"taskId":"t1"}`)
}

func TestAPlainResultIsOneThoughATaskWasAskedFor(t *testing.T) {
	up := script(t, map[string]string{"tools/call": `"result":{"content":[{"type":"text","text":"done"}]}`})
	c := up.client(t)
	if a := c.call(t, "tools/call", plainWork); !strings.Contains(a.raw, `"done"`) || !strings.Contains(a.raw, `"resultType":"complete"`) {
		t.Errorf("tools/call: %s", a.raw)
	}
	// One that asks first is a question of the call's.
	up = script(t, map[string]string{})
	up.say = func(method, _ string) ([]string, string) {
		if method == "tools/call" {
			return []string{`{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`}, `"result":{}`
		}
		return nil, up.how[method]
	}
	up.late = func(method, _ string) string {
		if method != "tools/call" {
			return ""
		}
		until(t, "the question is answered", func() bool { return len(up.responses()) == 1 })
		return `"result":{"task":` + working("t1") + `}`
	}
	c = up.client(t)
	a := c.call(t, "tools/call", plainWork)
	key, state := between(a.raw, `"inputRequests":{"`, `"`), between(a.raw, `"requestState":"`, `"`)
	if key == "" || state == "" {
		t.Fatalf("tools/call: %s", a.raw)
	}
	a = c.call(t, "tools/call", fmt.Sprintf(`{"name":"odd__work","arguments":{},"requestState":%q,"inputResponses":{%q:{"action":"decline"}}}`, state, key))
	if !strings.Contains(a.raw, `"resultType":"task"`) || !strings.Contains(a.raw, `"taskId":"t1"`) {
		t.Errorf("the retry: %s", a.raw)
	}
	if s := c.status(t, "t1"); s != "working" {
		t.Errorf("the task is %s", s)
	}
}

// between is what stands between two strings, first.
func between(s, before, after string) string {
	_, s, ok := strings.Cut(s, before)
	s, _, end := strings.Cut(s, after)
	if !ok || !end {
		return ""
	}
	return s
}

func TestATaskIsAskedForNowhereBeforeItCanBeLookedUp(t *testing.T) {
	up := script(t, map[string]string{"tasks/get": unknownTask, "tasks/cancel": unknownTask})
	c := up.client(t)
	if a := c.call(t, "tools/call", plainWork); a.code() != -31007 || strings.Contains(a.raw, "t1") || up.times("tasks/cancel") != 1 {
		t.Errorf("%d tasks/cancel: %s", up.times("tasks/cancel"), a.raw)
	}
	if a := get(t, c); a.code() != -32602 {
		t.Errorf("tasks/get: %s", a.raw)
	}
	up = script(t, map[string]string{"tasks/get": unknownTask})
	time.AfterFunc(200*time.Millisecond, func() { up.says("tasks/get", `"result":`+working("t1")) })
	up.client(t).made(t, plainWork)
}

func TestATaskThatPassesBeforeItsResultIsFetchedIsUnknown(t *testing.T) {
	up := script(t, nil)
	c := up.client(t)
	c.made(t, plainWork)
	up.says("tasks/result", unknownTask)
	polls := up.times("tasks/get")
	up.say = func(method, params string) ([]string, string) {
		switch {
		case method == "tasks/get" && up.times("tasks/get") == polls+1:
			return nil, `"result":` + stood("t1", "completed", `,"ttl":1`)
		case method == "tasks/get", method == "tasks/result":
			return nil, unknownTask
		}
		return nil, ""
	}
	if a := get(t, c); a.code() != -32602 {
		t.Errorf("tasks/get: %s", a.raw)
	}
	// The other way around nothing is lost: the result came before.
	up = script(t, map[string]string{"tasks/result": `"result":{"content":[]}`})
	c = up.client(t)
	c.made(t, plainWork)
	until(t, "the result is fetched", func() bool { return up.times("tasks/result") > 0 })
	time.Sleep(50 * time.Millisecond)
	up.says("tasks/get", unknownTask)
	up.says("tasks/result", unknownTask)
	for range 2 {
		if a := get(t, c); !strings.Contains(a.raw, `"status":"completed"`) || !strings.Contains(a.raw, `"result":{"resultType":"complete","content":[]}`) {
			t.Errorf("tasks/get: %s", a.raw)
		}
	}
}

func TestAnUpstreamThatKeepsItsResultToItself(t *testing.T) {
	up := script(t, map[string]string{"tasks/result": `"error":{"code":-32000,"message":"not now"}`})
	c := up.client(t)
	c.made(t, plainWork)
	up.says("tasks/get", `"result":`+stood("t1", "completed", ""))
	if a := get(t, c); a.code() != -32000 {
		t.Errorf("tasks/get: %s", a.raw)
	}
	up.says("tasks/result", `"result":{"content":[],"resultType":"input_required","requestState":"x","big":9007199254740993}`)
	if a := get(t, c); !strings.Contains(a.raw, `"result":{"resultType":"complete","content":[],"big":9007199254740993}`) {
		t.Errorf("tasks/get: %s", a.raw)
	}
	// An invalid call fails with the code that an unknown task has.
	up = script(t, map[string]string{"tasks/result": `"error":{"code":-32602,"message":"flavor is missing"}`})
	c = up.client(t)
	c.made(t, plainWork)
	up.says("tasks/get", `"result":`+stood("t1", "failed", ""))
	if a := get(t, c); !strings.Contains(a.raw, `"status":"failed"`) || !strings.Contains(a.raw, `"error":{"code":-32602,"message":"flavor is missing"}`) {
		t.Errorf("tasks/get: %s", a.raw)
	}
}

func TestDurationsBecomeThoseOfTheExtension(t *testing.T) {
	up := script(t, nil)
	c := up.client(t)
	c.made(t, plainWork)
	for more, want := range map[string]string{
		``:                                    `"ttlMs":null`,
		`,"ttl":null`:                         `"ttlMs":null`,
		`,"ttl":0,"pollInterval":0`:           `"ttlMs":0,"pollIntervalMs":0`,
		`,"ttl":-5,"pollInterval":-1.5`:       `"ttlMs":0,"pollIntervalMs":0`,
		`,"ttl":2500.75,"pollInterval":1.5e3`: `"ttlMs":2500,"pollIntervalMs":1500`,
		`,"ttl":1e400,"pollInterval":1e-400`:  `"ttlMs":9007199254740991,"pollIntervalMs":0`,
		`,"ttl":12345678901234567890`:         `"ttlMs":12345678901234567890`,
		`,"ttl":"soon","pollInterval":[1]`:    `"ttlMs":null`,
		`,"ttlMs":7,"ttl":60000`:              `"ttlMs":60000`,
	} {
		up.says("tasks/get", `"result":`+stood("t1", "working", more))
		if a := get(t, c); !strings.Contains(a.raw, want) || strings.Contains(a.raw, `"ttl":`) || strings.Contains(a.raw, "soon") || strings.Contains(a.raw, `Ms":7,`) {
			t.Errorf("%s: %s", more, a.raw)
		}
	}
	up.says("tasks/get", `"result":`+stood("t1", "working", `,"vendor":{"n":9007199254740993},"result":{"x":1},"inputRequests":{"a":{}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"},"own":1}`))
	a := get(t, c)
	for _, want := range []string{`"vendor":{"n":9007199254740993}`, `"own":1`} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("%s is missing: %s", want, a.raw)
		}
	}
	for _, not := range []string{`"result":{"x"`, "inputRequests", "related-task"} {
		if strings.Contains(a.raw, not) {
			t.Errorf("%s is there: %s", not, a.raw)
		}
	}
}

// waiting has a scripted upstream ask on the stream of tasks/result, and wait there.
func (s *scripted) waiting(t *testing.T, questions ...string) (release func()) {
	t.Helper()
	gone := make(chan struct{})
	var once sync.Once
	release = func() { once.Do(func() { close(gone) }) }
	t.Cleanup(release)
	inner := s.say
	s.say = func(method, params string) ([]string, string) {
		_, answer := inner(method, params)
		if method == "tasks/result" {
			return questions, answer
		}
		return nil, answer
	}
	s.late = func(method, _ string) string {
		if method == "tasks/result" {
			<-gone
		}
		return ""
	}
	return release
}

func form(id, meta string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}` + meta + `}}`
}

func TestATaskThatIsLostWithItsSessionFailsOnce(t *testing.T) {
	var session atomic.Int64
	up := script(t, map[string]string{"tasks/get": `"result":` + stood("t1", "input_required", "")})
	up.session = func() string { return fmt.Sprint("s", session.Load()) }
	up.waiting(t, form("1", ""))
	c := up.client(t)
	c.made(t, plainWork)
	asked := c.becomes(t, "t1", "input_required")
	session.Add(1)
	up.says("tasks/get", unknownTask)
	if d := c.detail(t, "t1"); d.Status != "failed" || d.Error == nil || d.Error.Code != -32603 {
		t.Errorf("the task: %+v", d)
	}
	if a := get(t, c); a.code() != -32602 {
		t.Errorf("tasks/get, again: %s", a.raw)
	}
	if a := c.reply(t, &asked, `{"action":"accept","content":{}}`); a.Error != nil {
		t.Errorf("tasks/update: %s", a.raw)
	}
	if n := len(up.responses()); n != 0 {
		t.Errorf("a question of another session was answered %d times", n)
	}
}

func TestAnUpstreamThatIsDownWhileItsTaskAsksIsUnavailable(t *testing.T) {
	var down atomic.Bool
	up := script(t, map[string]string{"tasks/get": `"result":` + stood("t1", "input_required", "")})
	up.waiting(t, form("1", ""))
	inner := up.say
	up.say = func(method, params string) ([]string, string) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		return inner(method, params)
	}
	c := up.client(t)
	c.made(t, plainWork)
	asked := c.becomes(t, "t1", "input_required")
	down.Store(true)
	if a := get(t, c); a.code() != -31001 && a.code() != -31003 {
		t.Errorf("tasks/get: %s", a.raw)
	}
	down.Store(false)
	again := c.becomes(t, "t1", "input_required")
	if fmt.Sprint(keysOf(again)) != fmt.Sprint(keysOf(asked)) {
		t.Errorf("asked under %v, then under %v", keysOf(asked), keysOf(again))
	}
	c.reply(t, &again, `{"action":"accept","content":{}}`)
	if got := up.responses(); len(got) != 1 || !strings.Contains(got[0], `"id":1`) {
		t.Errorf("answered: %s", got)
	}
}

func TestQuestionsOutliveTheirStreamAndNotTheirTask(t *testing.T) {
	up := script(t, map[string]string{"tasks/get": `"result":` + stood("t1", "input_required", "")})
	release := up.waiting(t,
		form(`"own"`, `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}`),
		form(`"other's"`, `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t2"}}`),
		form(`"gone"`, ""),
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"gone"}}`,
		`{"jsonrpc":"2.0","id":"undeclared","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`,
	)
	c := up.client(t)
	c.made(t, plainWork)
	asked := c.becomes(t, "t1", "input_required")
	if len(asked.InputRequests) != 1 {
		t.Errorf("it asks %+v", asked.InputRequests)
	}
	until(t, "the others are refused", func() bool { return len(up.responses()) == 2 })
	for _, r := range up.responses() {
		if !strings.Contains(r, `"error"`) || strings.Contains(r, `"own"`) {
			t.Errorf("answered: %s", r)
		}
	}
	release()
	// It went on by itself: what it had asked is not asked any more.
	up.says("tasks/get", `"result":`+stood("t1", "working", ""))
	if d := c.detail(t, "t1"); d.Status != "working" || d.InputRequests != nil {
		t.Errorf("the task: %+v", d)
	}
	// What needs input and never says which is at work for all that anybody can do.
	up.waiting(t)
	up.says("tasks/get", `"result":`+stood("t1", "input_required", ""))
	up.say = func(method, _ string) ([]string, string) {
		up.mu.Lock()
		defer up.mu.Unlock()
		return nil, up.how[method]
	}
	if d := c.detail(t, "t1"); d.Status != "working" {
		t.Errorf("the task: %+v", d)
	}
}

func TestAQuestionThatNobodyAnswersIsCancelled(t *testing.T) {
	up := script(t, map[string]string{"tasks/get": `"result":` + stood("t1", "input_required", "")})
	up.waiting(t, form("1", ""))
	c := up.client(t, "limits: {input_timeout: 1s}")
	c.made(t, plainWork)
	c.becomes(t, "t1", "input_required")
	until(t, "it is cancelled", func() bool { return len(up.responses()) == 1 })
	if got := up.responses()[0]; !strings.Contains(got, `"result":{"action":"cancel"}`) {
		t.Errorf("answered: %s", got)
	}
}

func TestAnUpstreamWithoutCancelIsNotAskedTo(t *testing.T) {
	up := script(t, nil)
	up.caps = `{"requests":{"tools":{"call":{}}}}`
	c := up.client(t)
	c.made(t, plainWork)
	if a := c.call(t, "tasks/cancel", `{"taskId":"t1"}`); a.Error != nil || up.times("tasks/cancel") != 0 {
		t.Errorf("%d tasks/cancel: %s", up.times("tasks/cancel"), a.raw)
	}
	up = script(t, map[string]string{"tasks/cancel": `"error":{"code":-32602,"message":"it has ended"}`})
	c = up.client(t)
	c.made(t, plainWork)
	if a := c.call(t, "tasks/cancel", `{"taskId":"t1"}`); a.Error != nil || up.times("tasks/cancel") != 1 {
		t.Errorf("one that has ended: %s", a.raw)
	}
	up.says("tasks/get", unknownTask)
	if a := c.call(t, "tasks/cancel", `{"taskId":"t1"}`); a.code() != -32602 {
		t.Errorf("one that is unknown there: %s", a.raw)
	}
}

func TestWhatAnUpstreamSaysOfAnotherTaskIsRefused(t *testing.T) {
	up := script(t, nil)
	c := up.client(t)
	c.made(t, plainWork)
	for _, answer := range []string{
		`"result":` + working("t2"),
		`"result":` + stood("t1", "thinking", ""),
		`"result":{"taskId":"t1","taskId":"t2","status":"working"}`,
		`"result":{}`,
	} {
		up.says("tasks/get", answer)
		if a := get(t, c); a.code() != -31007 {
			t.Errorf("%s: %s", answer, a.raw)
		}
	}
	up = script(t, map[string]string{"tools/call": `"result":{"task":{"taskId":"t1","taskId":"t2","status":"working"}}`, "tasks/cancel": unknownTask})
	if a := up.client(t).call(t, "tools/call", plainWork); a.code() != -31007 {
		t.Errorf("a task of two ids: %s", a.raw)
	}
}
