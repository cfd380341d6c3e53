package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// askable is an upstream whose tool asks before it answers: by a request on the
// call's stream when it is legacy, by an input_required result when it is modern.
func askable(legacy bool, request string, heard chan<- string) *up {
	replies := make(chan string, 4)
	return &up{legacy: legacy, on: func(w http.ResponseWriter, r *http.Request, hd heardMessage) bool {
		switch {
		case legacy && hd.method == "" && hd.id != "":
			replies <- hd.body
			w.WriteHeader(http.StatusAccepted)
			return true
		case hd.method != "tools/call":
			return false
		case legacy:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":77,%s}\n\n", request)
			w.(http.Flusher).Flush()
			select {
			case got := <-replies:
				heard <- got
			case <-r.Context().Done():
				return true
			}
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}}\n\n", hd.id)
			return true
		case strings.Contains(hd.body, `"inputResponses"`):
			heard <- hd.body
			reply(w, 200, `{"jsonrpc":"2.0","id":`+hd.id+`,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`)
			return true
		}
		reply(w, 200, `{"jsonrpc":"2.0","id":`+hd.id+`,"result":{"resultType":"input_required","requestState":"st\u0061te","inputRequests":{"k 1":{`+request+`}}}}`)
		return true
	}}
}

type heardMessage = heard

// live is a legacy call whose events are read as they come.
type live struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Scanner
}

func post(t *testing.T, url, session, body string) *live {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	return &live{t, resp, in}
}

// next is the next message of the stream, or of the body when it is JSON.
func (s *live) next() wire.Message {
	s.t.Helper()
	raw := []byte(nil)
	if s.resp.Header.Get("Content-Type") == "application/json" {
		raw, _ = io.ReadAll(s.resp.Body)
	}
	for raw == nil && s.in.Scan() {
		if data, ok := bytes.CutPrefix(s.in.Bytes(), []byte("data: ")); ok && len(data) > 0 { // a priming event says nothing
			raw = bytes.Clone(data)
		}
	}
	var m wire.Message
	if err := wire.Parse(raw, &m); err != nil {
		s.t.Fatalf("%q: %v", raw, err)
	}
	return m
}

const slowCall = `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"u__add","arguments":{}}}`

func TestALegacyClientIsAskedOnItsOwnCall(t *testing.T) {
	const form = `"method":"elicitation/create","params":{"mode":"form","message":"Your \u006eame?","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":9007199254740993}}}}`
	for _, legacy := range []bool{true, false} {
		got := make(chan string, 4)
		h := serving(t, map[string]*up{"u": askable(legacy, form, got)})
		front := httptest.NewServer(h.Handler())
		defer front.Close()
		me, send := h.session("2025-11-25", `{"elicitation":{}}`)
		other, _ := h.session("2025-11-25", `{"elicitation":{}}`)
		call := post(t, front.URL+"/mcp", me, slowCall)
		q := call.next()
		if q.Kind != wire.Request || q.Method != "elicitation/create" || !strings.Contains(string(q.Raw), `"message":"Your \u006eame?"`) || !strings.Contains(string(q.Raw), "9007199254740993") {
			t.Fatalf("legacy upstream %v: %s", legacy, q.Raw)
		}
		id := string(q.ID.Of(q.Raw))
		if len(id) < 20 {
			t.Errorf("the question's id %s can be guessed", id)
		}
		// Nobody else's answer, no answer to nothing, and no second one.
		lie := `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"n":666}}}`
		if o := post(t, front.URL+"/mcp", other, lie); o.resp.StatusCode != 202 {
			t.Errorf("HTTP %d", o.resp.StatusCode)
		}
		send(`{"jsonrpc":"2.0","id":77,"result":{"action":"accept","content":{"n":667}}}`)
		if o := send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"n":9007199254740993},"_meta":{"x":1}}}`); o.status != 202 {
			t.Errorf("HTTP %d %s", o.status, o.body)
		}
		send(lie)
		m := call.next()
		if string(m.ID.Of(m.Raw)) != `"call"` || !strings.Contains(string(m.Raw), `"text":"done"`) {
			t.Errorf("legacy upstream %v: %s", legacy, m.Raw)
		}
		answer := <-got
		if !strings.Contains(answer, `"content":{"n":9007199254740993}`) || strings.Contains(answer, `"n":66`) {
			t.Errorf("the upstream heard %s", answer)
		}
		if legacy && !strings.Contains(answer, `"id":77`) {
			t.Errorf("the upstream heard %s", answer)
		}
		if !legacy && (!strings.Contains(answer, `"k 1":{"action":"accept"`) || !strings.Contains(answer, `"requestState":"st\u0061te"`) || strings.Contains(answer, `"x":1`)) {
			t.Errorf("the upstream heard %s", answer)
		}
		if !jsontext.Value(answer).IsValid() {
			t.Errorf("the upstream heard what is no JSON: %s", answer)
		}
	}
}

func TestAClientIsAskedOnlyWhatItDeclared(t *testing.T) {
	for _, legacy := range []bool{true, false} {
		for request, caps := range map[string]string{
			`"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`:            `{"elicitation":{}}`,
			`"method":"elicitation/create","params":{"mode":"url","url":"http://h","message":""}`: `{"elicitation":{}}`,
			`"method":"roots/list"`: `{"sampling":{}}`,
			`"method":"tools/list"`: `{"elicitation":{},"sampling":{},"roots":{}}`,
			`"method":"elicitation/create","params":{"message":"","x":"1"}`: `{}`,
		} {
			got := make(chan string, 4)
			h := serving(t, map[string]*up{"u": askable(legacy, request, got)})
			_, send := h.session("2025-11-25", caps)
			o := send(slowCall, "Accept", "application/json, text/event-stream")
			if strings.Contains(o.body, `"method"`) {
				t.Errorf("%s asked %s: %s", caps, request, o.body)
			}
			switch {
			case legacy && !strings.Contains(<-got, `"error"`):
				t.Errorf("%s: %s was not refused", caps, request)
			case !legacy && !strings.Contains(o.body, `"isError":true`):
				t.Errorf("%s: %s: %s", caps, request, o.body)
			}
		}
	}
}

func TestAnOpenQuestionEndsWithItsCallOrSession(t *testing.T) {
	const request = `"method":"roots/list"`
	for _, legacy := range []bool{true, false} {
		for what, end := range map[string]func(h *house, session string){
			"cancel": func(h *house, session string) {
				h.send("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"call"}}`, map[string]string{"Mcp-Session-Id": session})
			},
			"DELETE": func(h *house, session string) { h.send("DELETE", "", map[string]string{"Mcp-Session-Id": session}) },
		} {
			h := serving(t, map[string]*up{"u": askable(legacy, request, make(chan string, 4))})
			front := httptest.NewServer(h.Handler())
			me, _ := h.session("2025-11-25", `{"roots":{}}`)
			call := post(t, front.URL+"/mcp", me, slowCall)
			if q := call.next(); q.Method != "roots/list" {
				t.Fatalf("%s", q.Raw)
			}
			end(h, me)
			over := make(chan error, 1)
			go func() {
				_, err := io.ReadAll(call.resp.Body)
				over <- err
			}()
			select {
			case <-over:
			case <-time.After(5 * time.Second):
				t.Errorf("legacy upstream %v, %s: the call goes on", legacy, what)
			}
			front.Close()
		}
	}
}

func TestAQuestionThatNobodyAnswersIsGivenUp(t *testing.T) {
	got := make(chan string, 4)
	h := serving(t, map[string]*up{"u": askable(true, `"method":"roots/list"`, got)}, "limits: {input_timeout: 300ms, call_timeout: 200ms, keepalive: 50ms}")
	front := httptest.NewServer(h.Handler())
	defer front.Close()
	me, _ := h.session("2025-06-18", `{"roots":{}}`)
	call := post(t, front.URL+"/mcp", me, slowCall)
	q := call.next()
	if q.Method != "roots/list" {
		t.Fatalf("%s", q.Raw)
	}
	comments, withdrawn := 0, false
	for call.in.Scan() {
		line := call.in.Text()
		if strings.HasPrefix(line, ":") {
			comments++
		}
		if strings.Contains(line, `"method":"notifications/cancelled","params":{"requestId":`+string(q.ID.Of(q.Raw))) {
			withdrawn = true // checklist 7.5
			continue
		}
		if strings.HasPrefix(line, "data: ") {
			if !strings.Contains(line, `"text":"done"`) {
				t.Errorf("%s", line)
			}
			break
		}
	}
	if !withdrawn {
		t.Error("the question is still open to the client")
	}
	if comments == 0 {
		t.Error("nothing kept the waiting stream alive")
	}
	if answer := <-got; !strings.Contains(answer, `"error"`) || !strings.Contains(answer, `"id":77`) {
		t.Errorf("the upstream heard %s", answer)
	}
}
