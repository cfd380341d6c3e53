package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// questioned makes one call through a gateway to an upstream that asks in its middle.
// It returns the question as the client saw it, "" if it saw none; what the
// upstream heard in the answer's place; and the call's own answer.
func questioned(t *testing.T, legacy bool, revision, caps, request, response string) (seen, told, answer string) {
	t.Helper()
	got := make(chan string, 4)
	u := askable(legacy, request, got)
	h := serving(t, map[string]*up{"u": u})
	front := httptest.NewServer(h.Handler())
	defer front.Close()
	me, send := h.session(revision, caps)
	call := post(t, front.URL+"/mcp", me, slowCall)
	m := call.next()
	if m.Method != "" {
		seen = string(m.Raw)
		send(strings.Replace(response, "$ID", string(m.ID.Of(m.Raw)), 1))
		m = call.next()
	}
	select {
	case told = <-got:
	default:
	}
	return seen, told, string(m.Raw)
}

var questionID = regexp.MustCompile(`"id":"[A-Z0-9]{26}"`)

// Checklist 6.3, 6.5: a client sees a question as its own revision writes it,
// whatever the upstream speaks; and T63: what an answer carries besides reaches
// legacy upstreams alone.
func TestAQuestionHasTheShapeOfTheClientsRevision(t *testing.T) {
	const (
		head   = `{"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":`
		newer  = `{ "mode":"form","message":"\u0061","requestedSchema":{"type":"object","properties":{"c":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"g"},"n":{"type":"integer","minimum":9007199254740993}}}}`
		older  = `{ "message":"\u0061","requestedSchema":{"type":"object","properties":{"c":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"],"default":"g"},"n":{"type":"integer","minimum":9007199254740993}}}}`
		answer = `{"jsonrpc":"2.0","id":$ID,"result":{"action":"accept","content":{"c":"g"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}`
	)
	for _, legacy := range []bool{true, false} {
		for revision, want := range map[string]string{"2025-06-18": older, "2025-11-25": newer} {
			seen, told, last := questioned(t, legacy, revision, `{"elicitation":{}}`, `"method":"elicitation/create","params":`+newer, answer)
			if got := questionID.ReplaceAllString(seen, `"id":77`); got != head+want+`}` {
				t.Errorf("legacy upstream %v, %s:\n%s\n%s", legacy, revision, got, head+want+`}`)
			}
			if !strings.Contains(told, `"content":{"c":"g"}`) || strings.Contains(told, "related-task") != legacy {
				t.Errorf("legacy upstream %v: it heard %s", legacy, told)
			}
			if legacy && !strings.Contains(told, `"id":77`) {
				t.Errorf("the answer is for another question: %s", told)
			}
			if !strings.Contains(last, `"text":"done"`) {
				t.Errorf("%s", last)
			}
		}
	}
}

// The id may stand behind the params, and moves with what is cut out of them.
func TestAShapedQuestionKeepsItsID(t *testing.T) {
	got := make(chan string, 1)
	u := &up{legacy: true, on: func(w responseWriter, r *request, h heard) bool {
		switch {
		case h.method == "" && h.id != "":
			w.WriteHeader(202)
			got <- h.body
			return true
		case h.method != "tools/call":
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", `{"jsonrpc":"2.0","method":"elicitation/create","params":{"mode":"form","message":"m"},"id":77}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}}
	h := serving(t, map[string]*up{"u": u})
	front := httptest.NewServer(h.Handler())
	defer front.Close()
	me, send := h.session("2025-06-18", `{"elicitation":{}}`)
	defer h.send("DELETE", "", map[string]string{"Mcp-Session-Id": me})
	q := post(t, front.URL+"/mcp", me, slowCall).next()
	if seen := questionID.ReplaceAllString(string(q.Raw), `"id":77`); seen != `{"jsonrpc":"2.0","method":"elicitation/create","params":{"message":"m"},"id":77}` {
		t.Errorf("%s", seen)
	}
	send(`{"jsonrpc":"2.0","id":` + string(q.ID.Of(q.Raw)) + `,"result":{"action":"decline"}}`)
	if told := <-got; !strings.Contains(told, `"id":77`) || !strings.Contains(told, "decline") {
		t.Errorf("the upstream heard %s", told)
	}
}

// X4, checklist 52, 100: what a client's revision or declaration has no place for
// is answered as by a client that cannot be asked.
func TestAQuestionThatTheClientCannotReadIsNotAsked(t *testing.T) {
	const (
		all     = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`
		several = `"method":"elicitation/create","params":{"message":"","requestedSchema":{"type":"object","properties":{"c":{"type":"array","items":{"type":"string","enum":["a"]}}}}}`
		form    = `"method":"elicitation/create","params":{"message":""}`
		url     = `"method":"elicitation/create","params":{"mode":"url","message":"","url":"https://h","elicitationId":"e"}`
		tools   = `"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
		result  = `"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[]}}],"maxTokens":1}`
	)
	for _, legacy := range []bool{true, false} {
		for _, tc := range []struct{ revision, caps, request string }{
			{"2025-06-18", all, several},
			{"2025-06-18", all, url},
			{"2025-06-18", all, tools},
			{"2025-06-18", all, result},
			{"2025-03-26", all, form},
			{"2025-11-25", `{"sampling":{}}`, tools},
			{"2025-11-25", `{"sampling":{}}`, result},
			{"2025-11-25", `{"elicitation":{}}`, url},
			{"2025-11-25", `{"elicitation":{"url":{}}}`, form},
		} {
			seen, told, last := questioned(t, legacy, tc.revision, tc.caps, tc.request, "")
			if seen != "" {
				t.Errorf("legacy upstream %v, %s: asked %s", legacy, tc.revision, seen)
			}
			if legacy && (!strings.Contains(told, `"id":77`) || !strings.Contains(told, `"error":{"code":-3260`) || !strings.Contains(last, `"text":"done"`)) {
				t.Errorf("%s: the upstream heard %q, and then %s", tc.request, told, last)
			}
			if !legacy && (told != "" || !strings.Contains(last, `"isError":true`)) {
				t.Errorf("%s: the upstream heard %q, and the client %s", tc.request, told, last)
			}
		}
	}
}

// Checklist 7.1: an upstream is told what the client's revision can express.
func TestUpstreamsAreToldWhatTheRevisionCanExpress(t *testing.T) {
	const ui = `"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`
	const all = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{ "mimeTypes":["text/html;profile=mcp-app"] }}}`
	for revision, want := range map[string]string{
		"2025-03-26": `{"roots":{},"sampling":{}}`,
		"2025-06-18": `{"elicitation":{"form":{}},` + ui + `,"roots":{},"sampling":{}}`,
		"2025-11-25": `{"elicitation":{"form":{},"url":{}},` + ui + `,"roots":{},"sampling":{"context":{},"tools":{}}}`,
	} {
		l, m := &up{legacy: true}, &up{}
		h := serving(t, map[string]*up{"l": l, "m": m})
		_, send := h.session(revision, all)
		for _, name := range []string{"l__add", "m__add"} {
			send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`, "Accept", "application/json, text/event-stream")
		}
		session := l.last(t, "tools/call").header.Get("Mcp-Session-Id")
		made := l.got("initialize")
		n, _ := strconv.Atoi(session[1:]) // the stub counts its sessions
		if got := made[n-1].body; !strings.Contains(got, `"capabilities":`+want+`,`) {
			t.Errorf("%s, legacy upstream: %s", revision, got)
		}
		if got := m.last(t, "tools/call").body; !strings.Contains(got, `"`+mcp.MetaClientCapabilities+`":`+want+`}`) {
			t.Errorf("%s, modern upstream: %s", revision, got)
		}
		// Without a stream nobody can ask, and still the client shows interfaces.
		send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"m__add"}}`, "Accept", "application/json")
		want = `{` + ui + `}`
		if revision == "2025-03-26" {
			want = `{}`
		}
		if got := m.last(t, "tools/call").body; !strings.Contains(got, `"`+mcp.MetaClientCapabilities+`":`+want+`}`) {
			t.Errorf("%s, no stream: %s", revision, got)
		}
	}
	m := &up{}
	h := serving(t, map[string]*up{"m": m})
	h.raw("tools/call", "m__add", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"m__add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+all+`}}}`)
	if got := m.last(t, "tools/call").body; !strings.Contains(got, `"extensions":{"a/b":{},"io.modelcontextprotocol/ui":{ "mimeTypes":["text/html;profile=mcp-app"] }}`) {
		t.Errorf("modern client: %s", got)
	}
}

// Checklist 7.5-3, X2: an error has no place among the answers of a round.
func TestAClientsErrorEndsARound(t *testing.T) {
	const failure = `{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"User rejected \u0073ampling"}}`
	const sample = `"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`
	_, told, last := questioned(t, false, "2025-11-25", `{"elicitation":{}}`, `"method":"elicitation/create","params":{"message":""}`, failure)
	if !strings.Contains(told, `"inputResponses":{"k 1":{"action":"cancel"}}`) || !strings.Contains(last, "done") {
		t.Errorf("elicitation: the upstream heard %s, the client %s", told, last)
	}
	for _, request := range []string{sample, `"method":"roots/list"`} {
		_, told, last = questioned(t, false, "2025-11-25", `{"sampling":{},"roots":{}}`, request, failure)
		if told != "" || !strings.Contains(last, `"isError":true`) || !strings.Contains(last, "User rejected sampling") {
			t.Errorf("%s: the upstream heard %q, the client %s", request, told, last)
		}
		// On other methods it is an error, and the stream goes on to its end.
		for method, params := range map[string]string{"prompts/get": `"name":"u__greet"`, "resources/read": `"uri":"file:///a"`} {
			h := serving(t, map[string]*up{"u": {on: answers(method, 200, `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","inputRequests":{"k":{`+request+`}}}}`)}})
			front := httptest.NewServer(h.Handler())
			me, send := h.session("2025-11-25", `{"sampling":{},"roots":{}}`)
			call := post(t, front.URL+"/mcp", me, `{"jsonrpc":"2.0","id":9,"method":"`+method+`","params":{`+params+`}}`)
			q := call.next()
			send(strings.Replace(failure, "$ID", string(q.ID.Of(q.Raw)), 1))
			if m := call.next(); !strings.Contains(string(m.Raw), `"id":9,"error":{"code":-32603,`) || !strings.Contains(string(m.Raw), `"data":{"code":-1,"message":"User rejected \u0073ampling"}`) {
				t.Errorf("%s: %s", method, m.Raw)
			}
			front.Close()
		}
	}
}

// sendsTo is an upstream that sends the user to a URL until done.
func sendsTo(url string, done func(h heard) bool) *up {
	return &up{on: func(w responseWriter, _ *request, h heard) bool {
		if h.method != "tools/call" {
			return false
		}
		if done(h) {
			reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`)
			return true
		}
		reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{"resultType":"input_required","requestState":"s\u0031","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url","message":"\u0047o","url":"`+url+`"}}}}}`)
		return true
	}}
}

var elicitationID = regexp.MustCompile(`"elicitationId":"([A-Z0-9]{26})"`)

// Checklist 7.6: who agreed to go to a URL is not asked again while busy there;
// and when it takes too long, the call ends so that it can come again.
func TestAUserWhoAgreedToAURLIsWaitedFor(t *testing.T) {
	calls := 0
	u := sendsTo("https://h/x?a=1&b=2", func(heard) bool { calls++; return calls > 3 })
	h := serving(t, map[string]*up{"u": u})
	h.visiting = waits{first: time.Millisecond, most: 2 * time.Millisecond, all: time.Minute}
	front := httptest.NewServer(h.Handler())
	defer front.Close()
	me, send := h.session("2025-11-25", `{"elicitation":{"url":{}}}`)
	call := post(t, front.URL+"/mcp", me, slowCall)
	q := call.next()
	id := elicitationID.FindStringSubmatch(string(q.Raw))
	if id == nil || strings.Contains(string(q.ID.Of(q.Raw)), id[1]) || !strings.Contains(string(q.Raw), `"message":"\u0047o","url":"https://h/x?a=1&b=2"`) {
		t.Fatalf("%s", q.Raw)
	}
	send(`{"jsonrpc":"2.0","id":` + string(q.ID.Of(q.Raw)) + `,"result":{"action":"accept","_meta":{"x":1}}}`)
	if m := call.next(); !strings.Contains(string(m.Raw), `"text":"done"`) {
		t.Errorf("%s", m.Raw)
	}
	for i, c := range u.got("tools/call") {
		if has := strings.Contains(c.body, `"inputResponses":{"k":{"action":"accept"}},"requestState":"s\u0031"`); has != (i > 0) || strings.Contains(c.body, id[1]) {
			t.Errorf("call %d: %s", i, c.body)
		}
	}
}

func TestAUserWhoTakesLongCallsAgain(t *testing.T) {
	var finished atomic.Bool
	u := sendsTo("https://h/x", func(heard) bool { return finished.Load() })
	h := serving(t, map[string]*up{"u": u})
	h.visiting = waits{first: time.Millisecond, most: 2 * time.Millisecond, all: 20 * time.Millisecond}
	front := httptest.NewServer(h.Handler())
	defer front.Close()
	caps := `{"elicitation":{"url":{}}}`
	me, send := h.session("2025-11-25", caps)
	other, _ := h.session("2025-11-25", caps)
	defer func() { // questions that stay open end with their sessions
		for _, id := range []string{me, other} {
			h.send("DELETE", "", map[string]string{"Mcp-Session-Id": id})
		}
	}()
	call := post(t, front.URL+"/mcp", me, slowCall)
	q := call.next()
	id := elicitationID.FindStringSubmatch(string(q.Raw))
	if id == nil {
		t.Fatalf("%s", q.Raw)
	}
	send(`{"jsonrpc":"2.0","id":` + string(q.ID.Of(q.Raw)) + `,"result":{"action":"accept"}}`)
	want := `"data":{"elicitations":[{"mode":"url","elicitationId":"` + id[1] + `","url":"https://h/x","message":"\u0047o"}]}`
	if m := call.next(); !strings.Contains(string(m.Raw), `"id":"call","error":{"code":-32042,`) || !strings.Contains(string(m.Raw), want) {
		t.Fatalf("%s", m.Raw)
	}
	// It belongs to this session and these arguments; others are asked themselves.
	for _, theirs := range []*live{
		post(t, front.URL+"/mcp", other, slowCall),
		post(t, front.URL+"/mcp", me, strings.NewReplacer(`{}`, `{"a":1}`, `"call"`, `"another"`).Replace(slowCall)),
	} {
		if q := theirs.next(); q.Method != "elicitation/create" || strings.Contains(string(q.Raw), id[1]) {
			t.Errorf("%s", q.Raw)
		}
		if got := u.last(t, "tools/call").body; strings.Contains(got, "requestState") {
			t.Errorf("%s", got)
		}
	}
	// Still not finished: no question, and the same id again.
	if m := post(t, front.URL+"/mcp", me, slowCall).next(); !strings.Contains(string(m.Raw), want) {
		t.Errorf("%s", m.Raw)
	}
	finished.Store(true)
	u.mu.Lock()
	before := len(u.seen)
	u.mu.Unlock()
	if m := post(t, front.URL+"/mcp", me, slowCall).next(); !strings.Contains(string(m.Raw), `"text":"done"`) {
		t.Errorf("%s", m.Raw)
	}
	u.mu.Lock()
	last := u.seen[before:]
	u.mu.Unlock()
	if len(last) != 1 || !strings.Contains(last[0].body, `"inputResponses":{"k":{"action":"accept"}},"requestState":"s\u0031"`) {
		t.Errorf("%d calls: %s", len(last), last)
	}
}

func TestAUserWhoDeclinesAURLIsTheUpstreamsToJudge(t *testing.T) {
	seen, told, last := questioned(t, false, "2025-11-25", `{"elicitation":{"url":{}}}`,
		`"method":"elicitation/create","params":{"mode":"url","message":"","url":"https://h","elicitationId":"theirs"}`, `{"jsonrpc":"2.0","id":$ID,"result":{"action":"decline"}}`)
	if strings.Contains(seen, "theirs") || !elicitationID.MatchString(seen) || !strings.Contains(told, `"k 1":{"action":"decline"}`) || !strings.Contains(last, "done") {
		t.Errorf("asked %s, the upstream heard %s, the client %s", seen, told, last)
	}
	// A legacy upstream's id is its own.
	seen, _, _ = questioned(t, true, "2025-11-25", `{"elicitation":{"url":{}}}`,
		`"method":"elicitation/create","params":{"mode":"url","message":"","url":"https://h","elicitationId":"theirs"}`, `{"jsonrpc":"2.0","id":$ID,"result":{"action":"decline"}}`)
	if !strings.Contains(seen, `"elicitationId":"theirs"`) {
		t.Errorf("%s", seen)
	}
}

func TestWhatWaitsForAUserIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v visits
		at := func(session string, i int) visitKey { return visitKey{session: session, name: strconv.Itoa(i)} }
		held := func(k visitKey) bool {
			r, _ := v.take(func() visitKey { return k })
			return r != nil
		}
		for i := range maxVisits + 1 {
			v.keep(at("a", i), &round{}, nil)
		}
		if len(v.by) != maxVisits || v.order.Len() != maxVisits || held(at("a", 0)) || !held(at("a", 1)) || held(at("a", 1)) {
			t.Errorf("%d are kept", len(v.by))
		}
		v.keep(at("b", 1), &round{state: make([]byte, maxVisitSize+1)}, nil)
		if held(at("b", 1)) {
			t.Error("one that is too large is kept")
		}
		v.keep(at("b", 2), &round{}, nil)
		v.forget("a")
		if len(v.by) != 1 || v.order.Len() != 1 {
			t.Errorf("%d are kept of a session that ended", len(v.by)-1)
		}
		time.Sleep(visitKept + time.Second)
		if held(at("b", 2)) {
			t.Error("it is kept for longer than that")
		}
	})
}

// T36: within a batch nobody can be asked, and an upstream that only wants to be
// called again is called again all the same.
func TestABatchWaitsForABusyUpstream(t *testing.T) {
	u := &up{on: func(w responseWriter, _ *request, h heard) bool {
		if h.method != "tools/call" {
			return false
		}
		result := `"resultType":"input_required","requestState":"s"`
		if strings.Contains(h.body, "requestState") {
			result = `"resultType":"complete","content":[{"type":"text","text":"done"}]`
		}
		reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{`+result+`}}`)
		return true
	}}
	h := serving(t, map[string]*up{"u": u})
	_, send := h.session("2025-03-26", `{}`)
	if got := send(`[` + slowCall + `]`); !strings.Contains(got.body, `"text":"done"`) {
		t.Errorf("HTTP %d %s", got.status, got.body)
	}
	if got := send(slowCall, "Accept", "application/json"); !strings.Contains(got.body, `"text":"done"`) {
		t.Errorf("HTTP %d %s", got.status, got.body)
	}
}

// All questions of a round are open at once, answered in whatever order, and sent
// on under their keys (checklist 7.5).
func TestTheQuestionsOfARoundAreAskedAtOnce(t *testing.T) {
	retried := make(chan string, 1)
	u := &up{on: func(w http.ResponseWriter, _ *http.Request, hd heard) bool {
		if hd.method != "tools/call" {
			return false
		}
		if strings.Contains(hd.body, "inputResponses") {
			retried <- hd.body
			reply(w, 200, `{"jsonrpc":"2.0","id":`+hd.id+`,"result":{"resultType":"complete","content":[]}}`)
			return true
		}
		reply(w, 200, `{"jsonrpc":"2.0","id":`+hd.id+`,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}},"c":{"method":"roots/list"}}}}`)
		return true
	}}
	h := serving(t, map[string]*up{"u": u})
	front := httptest.NewServer(h.Handler())
	defer front.Close()
	me, _ := h.session("2025-06-18", `{"roots":{},"elicitation":{}}`)
	call := post(t, front.URL+"/mcp", me, slowCall)
	var asked []wire.Message
	for range 3 {
		asked = append(asked, call.next())
	}
	for i := len(asked) - 1; i >= 0; i-- {
		q := asked[i]
		result := map[string]string{"roots/list": fmt.Sprintf(`{"roots":[],"n":%d}`, i), "elicitation/create": `{"action":"decline"}`}[q.Method]
		post(t, front.URL+"/mcp", me, `{"jsonrpc":"2.0","id":`+string(q.ID.Of(q.Raw))+`,"result":`+result+`}`)
	}
	if body := <-retried; !strings.Contains(body, `"inputResponses":{"a":{"roots":[],"n":0},"b":{"action":"decline"},"c":{"roots":[],"n":2}}`) {
		t.Errorf("the retry is %s", body)
	}
}
